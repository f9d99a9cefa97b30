"""The law that nothing is lost and nothing doubled when parts of a cluster fail.

A task that runs twice leaves files, never rows. The judge is a dict of the table's rows.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from relstate.storage import Store
from support import cluster_life
from support.cluster import Cluster
from support.drivers import Driver


@pytest.mark.timeout(900)
def test_a_job_whose_executors_are_killed_is_done_once(
    cluster: Cluster, cluster_driver: Driver, tmp_path: Path
) -> None:
    """Workers and executors are killed before a task's segments are durable, and after."""
    path, model = str(tmp_path / "store"), cluster_life.made_rows(0, 300, 1)
    cluster_driver.run(cluster_life.create, path)
    cluster_driver.run(cluster_life.upsert, path, model)
    cluster_driver.run(cluster_life.create_views, path)
    rows = cluster_life.made_rows(200, 400, 2)
    with Store.open(path) as store:
        with cluster.accident("before-worker"):
            cluster_driver.run(cluster_life.upsert, path, rows)
        model.update(rows)
        cluster_life.check_rows(store, model)
        cluster.replace_dead_workers()
        with cluster.accident("after-executor"):
            cluster_driver.run(cluster_life.refresh, path)
        cluster_life.check_views(store, model)
        with cluster.accident("after-worker"):
            cluster_driver.run(cluster_life.compact, path)
        cluster.replace_dead_workers()
        check_orphans(store, path)
        cluster_life.check_rows(store, model)
        cluster_life.check_views(store, model)


def check_orphans(store: Store, path: str) -> None:
    """Check that there are files that no commit names, and that vacuum removes them in time."""
    named = {segment.name for entry in store.history() for segment in entry.added}
    files = list(Path(path, "segments").iterdir())
    orphans = [file for file in files if file.name.removesuffix(".lmdb") not in named]
    assert orphans, "no task left a file"
    long_ago = time.time() - 3 * 24 * 3600
    for file in orphans:
        os.utime(file, (long_ago, long_ago))
    store.vacuum()
    assert not any(file.exists() for file in orphans)
    assert store.check().problems == ()
