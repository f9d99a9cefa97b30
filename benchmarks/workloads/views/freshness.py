"""How soon a followed view has what a stream of Spark writes to its table, also at the worst."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import quantiles

from pyspark.sql.streaming.query import StreamingQuery

import relstate
from relstate.storage import Entry

from ...figure import Comparison, Figure, Samples
from ...workbench import Workbench

_ROWS_PER_SECOND = 1000
_QUERY = "SELECT g, count(*) AS n, sum(v) AS s, avg(v) AS a FROM measured GROUP BY g"
_MOST_OF_MEDIAN = 3
_PATIENCE = 600.0


def freshness(bench: Workbench) -> Iterator[Figure]:
    """Measure from the commit of each micro-batch to that of the refresh which takes it in.

    A source of Spark gives 1,000 rows a second. Merges of files run meanwhile, in both streams.
    """
    with bench.store() as store:
        store.create_table("measured", "k BIGINT, g INT, v BIGINT", primary_key=["k"])
        database = relstate.connect(bench.spark, store.path)
        database.sql(f"CREATE MATERIALIZED VIEW totals AS {_QUERY}")
        rate = bench.spark.readStream.format("rate").option("rowsPerSecond", _ROWS_PER_SECOND)
        rows = rate.load().selectExpr("value AS k", "CAST(value % 1000 AS INT) AS g", "value AS v")
        writer = rows.writeStream.format("relstate").option("table", "measured")
        views = database.stream()
        query = writer.option("checkpointLocation", bench.folder()).start(store.path)
        uncounted = max(bench.size.batches // 3, 1)
        _wait_for(query, uncounted + max(bench.size.batches, 2))
        query.stop()
        views.processAllAvailable()
        views.stop()
        delays = _delays(list(store.history()))[uncounted:]
    median, worst = quantiles(delays, n=100)[49::49]
    yield Figure(
        workload="view-freshness",
        case=f"the 99th percentile of {len(delays)} micro-batches",
        unit="ms",
        samples=Samples((worst,), (median,)).scaled(1e3),
        comparison=Comparison.TIME,
        against="the median",
        asked=_MOST_OF_MEDIAN,
    )


def _wait_for(query: StreamingQuery, batches: int) -> None:
    """Return once a query has run so many micro-batches. TimeoutError."""
    end = time.monotonic() + _PATIENCE
    while (query.lastProgress or {"batchId": -1})["batchId"] < batches:
        if time.monotonic() > end:
            raise TimeoutError(f"{batches} micro-batches took more than {_PATIENCE:.0f} s")
        time.sleep(0.1)


def _delays(history: list[Entry]) -> list[float]:
    """Return after how many seconds a refresh was committed that took in each write, in order."""
    reflected = [
        (progress.reflects, entry.time)
        for entry in reversed(history)
        for progress in entry.progress
    ]
    written = [(e.epoch, e.time) for e in reversed(history) if e.operation == "write"]
    return [
        (min(then for reflects, then in reflected if reflects >= epoch) - now) / 1e6
        for epoch, now in written
    ]
