"""The latency of a micro-batch of a stream."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from ..figure import Comparison, Figure
from ..turns import in_turns
from ..workbench import Workbench, new_table

_POLL_SECONDS = 0.2


def microbatch(bench: Workbench) -> Iterator[Figure]:
    """Measure whole micro-batches as Spark reports them, their median in milliseconds."""
    rows = _stream(bench, 1000)
    yield _followed(bench, rows.where("k < 0"), "empty")
    yield _followed(bench, rows, "1,000 rows")


def _stream(bench: Workbench, rows: int) -> DataFrame:
    """Return a stream of so many rows a micro-batch, in two partitions."""
    source = bench.spark.readStream.format("rate-micro-batch").option("numPartitions", 2)
    return (
        source.option("rowsPerBatch", rows)
        .load()
        .selectExpr(
            "value * 1103515245 % 2147483647 AS k",
            "value AS a",
            "CAST(value AS DOUBLE) AS d",
            "timestamp AS ts",
            "CAST(1000000000000 + value AS STRING) AS s",
        )
    )


def _followed(bench: Workbench, stream: DataFrame, case: str) -> Figure:
    store = bench.store()
    new_table(store, "followed")

    def duration(sink: str, path: str) -> float:
        writer = stream.writeStream.format(sink).option("checkpointLocation", bench.folder())
        writer = writer.option("table", "followed")
        return _typical_duration(writer.start(path), bench.size.batches)

    samples = in_turns(
        lambda: duration("relstate", store.path),
        lambda: duration("discard", "nowhere"),
        bench.size.turns,
    )
    return Figure(
        workload="micro-batch",
        case=case,
        unit="ms",
        samples=samples,
        comparison=Comparison.EXTRA,
        against="the same stream into a Python sink that discards it",
        asked=60,
    )


def _typical_duration(query: StreamingQuery, batches: int) -> float:
    """Return the median duration of micro-batches, after a third as many; ends the query."""
    uncounted = batches // 3
    found: dict[int, float] = {}
    try:
        while len(found) < uncounted + batches:
            failure = query.exception()
            if failure is not None:
                raise failure
            time.sleep(_POLL_SECONDS)
            for progress in query.recentProgress:
                found[progress.batchId] = float(progress.durationMs["triggerExecution"])
    finally:
        query.stop()
    return median(duration for _, duration in sorted(found.items())[uncounted:])
