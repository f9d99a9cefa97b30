"""The full scan of a table through Spark."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import DataFrame

from .. import rows
from ..figure import Comparison, Figure
from ..replay import record
from ..turns import in_turns, seconds
from ..workbench import Workbench


def spark_scan(bench: Workbench) -> Iterator[Figure]:
    """Measure a read of all columns into Spark's ``noop``, in rows a second."""
    store, spark, recorded = bench.filled, bench.spark, bench.folder()
    plan = store.read_plan("eight")
    ours = spark.read.format("relstate").option("table", "eight")
    partitions = ours.load(store.path).rdd.getNumPartitions()
    record(recorded, plan.arrow_schema(), map(plan.read, plan.partitions(partitions)))
    theirs = spark.read.format("replay").schema(rows.COLUMNS)
    samples = in_turns(
        seconds(lambda: _drain(ours.load(store.path))),
        seconds(lambda: _drain(theirs.load(recorded))),
        bench.size.turns,
    )
    yield Figure(
        workload="spark-scan",
        case=f"{bench.size.rows:,} rows in 8 segments, {partitions} partitions",
        unit="M rows/s",
        samples=samples.rates(bench.size.rows / 1e6),
        comparison=Comparison.RATE,
        against="a Python source that yields the same batches from memory in the same partitions",
        asked=0.4,
    )


def _drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("append").save()
