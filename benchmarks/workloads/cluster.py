"""Two workers of one core beside one: scan, write, and refresh of a view, on the same data."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import relstate
from relstate.storage import Store

from .. import rows
from ..cluster import ClusterDriver, cluster
from ..figure import Comparison, Figure, Samples
from ..turns import in_turns
from ..workbench import Workbench, eighths, new_table, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASKS = 8
_GROUPS = 1000
# Of the table's rows, one in so many changes before a refresh.
_CHANGED = 10


def cluster_workers(bench: Workbench) -> Iterator[Figure]:
    """Measure what a second worker brings. The store is in a folder that all processes share."""
    with (
        cluster(bench.folder(), 3) as master,
        ClusterDriver(bench.folder(), master, 1) as single,
        ClusterDriver(bench.folder(), master, 2) as pair,
        bench.store() as store,
    ):
        new_table(store, "t")
        for part in eighths(bench.size.rows):
            write(store, "t", rows.batches(part))
        pair.call(create_view, store.path)
        changed, numbers = bench.size.rows // _CHANGED, count()
        for case, total, work in (
            ("scan", bench.size.rows, lambda driver: driver.call(scan_table, store.path)),
            (
                "write",
                bench.size.rows,
                lambda driver: _write(store, driver, next(numbers), bench.size.rows),
            ),
            (
                f"refresh of a view of {bench.size.rows:,} rows after {changed:,} changed",
                changed,
                lambda driver: _refresh(store, driver, next(numbers) * changed, changed),
            ),
        ):
            samples = in_turns(partial(work, pair), partial(work, single), bench.size.turns)
            yield _figure(bench, case, total, samples)


def _figure(bench: Workbench, case: str, total: int, samples: Samples) -> Figure:
    return Figure(
        workload="cluster",
        case=case if "view" in case else f"{case} of {total:,} rows",
        unit="M rows/s",
        samples=samples.rates(total / 1e6),
        comparison=Comparison.RATE,
        against="one worker of one core, beside two of one core",
        asked=1.6,
    )


def create_view(spark: SparkSession, path: str) -> None:
    """Create the view of table ``t`` that the refreshes are of."""
    db = relstate.connect(spark, path)
    db.sql(
        f"CREATE MATERIALIZED VIEW v AS SELECT a % {_GROUPS} AS g, count(*) AS n, sum(d) AS d, "
        "max(ts) AS ts FROM t GROUP BY 1"
    )
    db.sql(f"ALTER MATERIALIZED VIEW v SET PARALLELISM {TASKS}")
    db.refresh()


def scan_table(spark: SparkSession, path: str) -> float:
    """Read table ``t``; return the seconds that it took."""
    reader = spark.read.format("relstate").options(table="t", numPartitions=TASKS)
    return _timed(lambda: reader.load(path).write.format("noop").mode("append").save())


def _write(store: Store, driver: ClusterDriver, number: int, total: int) -> float:
    name = f"written{number}"
    new_table(store, name)
    taken = driver.call(append_rows, store.path, name, total)
    store.drop_table(name)
    return taken


def append_rows(spark: SparkSession, path: str, name: str, total: int) -> float:
    """Write rows to a table; return the seconds that it took."""
    writer = rows.frame(spark, total).write.format("relstate").option("table", name)
    return _timed(lambda: writer.mode("append").save(path))


def _refresh(store: Store, driver: ClusterDriver, start: int, changed: int) -> float:
    # Other rows each time: those beyond the first are new to the table and to the view.
    write(store, "t", rows.batches(range(start, start + changed)))
    return driver.call(refresh_views, store.path)


def refresh_views(spark: SparkSession, path: str) -> float:
    """Refresh the view; return the seconds that it took."""
    db = relstate.connect(spark, path)
    return _timed(db.refresh)


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
