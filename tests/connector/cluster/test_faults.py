"""The law that nothing is lost and nothing doubled when parts of a cluster fail.

A task that runs twice leaves files, never rows. The judge is a dict of the table's rows.
"""

from __future__ import annotations

import pytest

from relstate.storage import Store
from relstate.storage.clock import CLOCK_TOLERANCE
from relstate.storage.maintenance import vacuum
from support import cluster_life
from support.cluster import Cluster
from support.drivers import Driver


@pytest.mark.timeout(900)
def test_a_job_whose_executors_are_killed_is_done_once(
    cluster: Cluster,
    cluster_driver: Driver,
    store_path: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Workers and executors are killed before a task's segments are durable, and after."""
    path, model = str(store_path), cluster_life.made_rows(0, 300, 1)
    cluster_driver.run(cluster_life.create, path)
    cluster_driver.run(cluster_life.upsert, path, model)
    cluster_driver.run(cluster_life.create_views, path)
    with Store.open(store_path) as store:
        for accident, start in (("before-worker", 200), ("after-executor", 350)):
            rows = cluster_life.made_rows(start, start + 200, start)
            with cluster.accident(accident):
                cluster_driver.run(cluster_life.upsert, path, rows)
            model.update(rows)
            cluster_life.check_rows(store, model)
            cluster.replace_dead_workers()
        with cluster.accident("before-worker"):
            cluster_driver.run(cluster_life.refresh, path)
        cluster_life.check_views(store, model)
        cluster.replace_dead_workers()
        with cluster.accident("after-worker"):
            cluster_driver.run(cluster_life.compact, path)
        cluster.replace_dead_workers()
        check_orphans(store, monkeypatch)
        cluster_life.check_rows(store, model)
        cluster_life.check_views(store, model)


def check_orphans(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that there are files that no commit names, and that vacuum removes them in time."""
    named = {segment.name for entry in store.history() for segment in entry.added}
    orphans = segment_names(store) - named
    assert orphans, "no task left a file"
    store.vacuum()
    assert orphans <= segment_names(store)
    monkeypatch.setattr(vacuum, "ORPHAN_GRACE", -CLOCK_TOLERANCE)  # none is too young
    store.vacuum()
    assert not orphans & segment_names(store)
    assert store.check().problems == ()


def segment_names(store: Store) -> set[str]:
    """Return the names of the segments that there are, in a folder or a bucket."""
    return {file.removesuffix(".lmdb") for file in store.environment.list("segments")}
