"""The law that all that works in one process works on a cluster.

``RELSTATE_CLUSTERS=all pytest`` of this folder also runs what takes long and seldom says more.
"""

from __future__ import annotations

from pathlib import Path

from support import cluster_life
from support.cluster import LOCAL_CLUSTER, on_demand
from support.drivers import Driver

from .conftest import DriverMaker


def test_everything_works_on_a_standalone_cluster(cluster_driver: Driver, tmp_path: Path) -> None:
    """Writes, reads, statements, streams, views, their parallelism, and compaction, as jobs."""
    cluster_driver.run(cluster_life.live, str(tmp_path / "store"), str(tmp_path))


@on_demand
def test_everything_works_on_a_local_cluster(make_driver: DriverMaker, tmp_path: Path) -> None:
    """The same, with executors that Spark starts as processes of the driver's machine."""
    driver = make_driver(LOCAL_CLUSTER)
    driver.run(cluster_life.live, str(tmp_path / "store"), str(tmp_path))
