"""The latency of a micro-batch of a stream."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from .. import rows
from ..figure import Comparison, Figure
from ..turns import in_turns
from ..workbench import Workbench, new_table

_ROWS = 1000


def microbatch(bench: Workbench) -> Iterator[Figure]:
    """Measure whole micro-batches as Spark reports them, their median in milliseconds."""
    stream = _stream(bench, bench.folder())
    yield _followed(bench, stream.where("k < 0"), "empty")
    yield _followed(bench, stream, f"{_ROWS:,} rows")


def _stream(bench: Workbench, folder: str) -> DataFrame:
    """Return a stream of files that a query reads one per micro-batch, and then ends."""
    for index in range(bench.size.batches + _uncounted(bench)):
        part = range(index * _ROWS, (index + 1) * _ROWS)
        pq.write_table(rows.table(part), str(Path(folder) / f"{index:05d}.parquet"))
    reader = bench.spark.readStream.schema(rows.COLUMNS).option("maxFilesPerTrigger", 1)
    return reader.parquet(folder)


def _uncounted(bench: Workbench) -> int:
    """Return how many micro-batches warm a query up."""
    return bench.size.batches // 3


def _followed(bench: Workbench, stream: DataFrame, case: str) -> Figure:
    def duration(sink: str, path: str) -> float:
        writer = stream.writeStream.format(sink).option("checkpointLocation", bench.folder())
        writer = writer.option("table", "followed").trigger(availableNow=True)
        return _typical_duration(writer.start(path), _uncounted(bench))

    with bench.store() as store:
        new_table(store, "followed")
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


def _typical_duration(query: StreamingQuery, uncounted: int) -> float:
    """Return the median duration of a query's micro-batches but the first; waits for its end."""
    query.awaitTermination()
    durations = [
        float(progress.durationMs["triggerExecution"]) for progress in query.recentProgress
    ]
    return median(durations[uncounted:])
