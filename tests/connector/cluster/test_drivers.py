"""The law that drivers may end at any moment, and that several may use one store.

``RELSTATE_CLUSTERS=all pytest`` of this folder runs all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from relstate.storage import Store
from support import cluster_life
from support.cluster import Cluster, wait_for
from support.drivers import Driver

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "500ms",
    "spark.speculation.quantile": "0.5",
}
# Two applications run at once on a cluster of two cores.
HALF = {"spark.cores.max": "1"}


@pytest.mark.timeout(900)
def test_a_slow_task_that_is_run_twice_writes_once(
    cluster: Cluster, make_driver: Callable[..., Driver], store_path: str
) -> None:
    """Spark starts a task that stops for ten minutes again, on the other worker."""
    path, model = str(store_path), cluster_life.made_rows(0, 300, 1)
    driver = make_driver({**cluster.settings, **SPECULATION})
    driver.run(cluster_life.create, path)
    driver.run(cluster_life.upsert, path, model)
    rows = cluster_life.made_rows(200, 500, 2)
    with cluster.accident("before-slow"):
        driver.start(cluster_life.upsert, path, rows).result(timeout=300)
    model.update(rows)
    with Store.open(store_path) as store:
        cluster_life.check_rows(store, model)
        assert store.check().problems == ()


@pytest.mark.timeout(900)
def test_a_killed_driver_is_followed_by_one_elsewhere(
    cluster: Cluster, make_driver: Callable[..., Driver], store_path: str, tmp_path: Path
) -> None:
    """The first is killed in a micro-batch; the second, in another folder, goes on with it."""
    path, model = str(store_path), cluster_life.made_rows(0, 300, 1)
    checkpoint = str(tmp_path / "checkpoint")
    first = make_driver(cluster.settings)
    first.run(cluster_life.create, path)
    first.run(cluster_life.upsert, path, model)
    first.run(cluster_life.copy, path, checkpoint)
    rows = cluster_life.made_rows(200, 500, 2)
    first.run(cluster_life.upsert, path, rows)
    with cluster.accident("before-slow"):
        stream = first.start(cluster_life.copy, path, checkpoint)
        wait_for(lambda: not (cluster.accidents / "before-slow").exists(), "a task of the stream")
        first.kill()
    with pytest.raises(BrokenProcessPool):
        stream.result()
    second = make_driver(cluster.settings)
    second.run(cluster_life.copy, path, checkpoint)
    second.run(cluster_life.create_views, path)
    model.update(rows)
    with Store.open(store_path) as store:
        cluster_life.check_rows(store, model)
        cluster_life.check_rows(store, model, "copy")
        cluster_life.check_views(store, model)


@pytest.mark.timeout(900)
def test_two_drivers_use_one_store(
    cluster: Cluster, make_driver: Callable[..., Driver], store_path: str
) -> None:
    """Both write and refresh the same views at the same time."""
    path, model = str(store_path), cluster_life.made_rows(0, 300, 1)
    drivers = [make_driver({**cluster.settings, **HALF}) for _ in range(2)]
    drivers[0].run(cluster_life.create, path)
    drivers[0].run(cluster_life.upsert, path, model)
    drivers[0].run(cluster_life.create_views, path)
    for turn in range(2):
        parts = [
            cluster_life.made_rows(start, start + 100, turn)
            for start in (500 * turn, 500 * turn + 200)
        ]
        for work in (cluster_life.upsert, cluster_life.refresh):
            arguments = [(rows,) if work is cluster_life.upsert else () for rows in parts]
            runs = [
                driver.start(work, path, *some)
                for driver, some in zip(drivers, arguments, strict=True)
            ]
            for run in runs:
                run.result()
        for rows in parts:
            model.update(rows)
        with Store.open(store_path) as store:
            cluster_life.check_rows(store, model)
            cluster_life.check_views(store, model)
            assert store.check().problems == ()
