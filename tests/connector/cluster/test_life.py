"""The law that all that works in one process works on a cluster.

``RELSTATE_CLUSTERS=all pytest`` of this folder also runs what takes long and seldom says more.
"""

from __future__ import annotations

from pathlib import Path

from support import cluster_benchmark, cluster_life
from support.cluster import LOCAL_CLUSTER, Cluster, on_demand
from support.drivers import Driver
from support.object_stores import SECRET

from .conftest import DriverMaker


def test_everything_works_on_a_standalone_cluster(
    cluster: Cluster, cluster_driver: Driver, store_path: str, tmp_path: Path
) -> None:
    """Writes, reads, statements, streams, views, their parallelism, and compaction, as jobs.

    Of a store in a bucket each worker has copies of its own. The secrets of the bucket are in no
    checkpoint and no log.
    """
    cluster_driver.run(cluster_life.live, str(store_path), str(tmp_path))
    if "://" in store_path:
        assert all([*cache.glob("*/segments/*.lmdb")] for cache in cluster.caches())
    assert files_with(SECRET, tmp_path, *cluster.logs(), cluster_driver.folder / "log") == []


def test_the_benchmark_of_a_cluster_runs(cluster_driver: Driver, tmp_path: Path) -> None:
    """On little data: its scan, write and refresh do what they are said to do."""
    seconds = cluster_driver.run(cluster_benchmark.measure, str(tmp_path / "store"))
    assert [*seconds] == ["scan", "write", "refresh"]
    assert all(taken > 0 for taken in seconds.values())


def files_with(text: str, *paths: Path) -> list[Path]:
    """Return the files at and below paths that have a text in them."""
    files = [file for path in paths for file in (path, *path.rglob("*")) if file.is_file()]
    assert files
    return [file for file in files if text.encode() in file.read_bytes()]


@on_demand
def test_everything_works_on_a_local_cluster(
    make_driver: DriverMaker, store_path: str, tmp_path: Path
) -> None:
    """The same, with executors that Spark starts as processes of the driver's machine."""
    driver = make_driver(LOCAL_CLUSTER)
    driver.run(cluster_life.live, str(store_path), str(tmp_path))
