"""The bulk write of a table through Spark."""

from __future__ import annotations

from collections.abc import Iterator

from .. import rows
from ..figure import Comparison, Figure
from ..turns import in_turns, seconds
from ..workbench import Workbench, new_table


def spark_write(bench: Workbench) -> Iterator[Figure]:
    """Measure an append to an empty table, durable and committed, in rows a second."""
    frame = rows.frame(bench.spark, bench.size.rows)
    ours = frame.write.format("relstate").option("table", "written").mode("append")
    theirs = frame.write.format("discard").mode("append")

    def into_new_table() -> float:
        with bench.store() as store:
            new_table(store, "written")
            return seconds(lambda: ours.save(store.path))()

    samples = in_turns(into_new_table, seconds(lambda: theirs.save("nowhere")), bench.size.turns)
    yield Figure(
        workload="spark-write",
        case=f"{bench.size.rows:,} rows in {frame.rdd.getNumPartitions()} partitions",
        unit="M rows/s",
        samples=samples.rates(bench.size.rows / 1e6),
        comparison=Comparison.RATE,
        against="a Python sink that receives the same batches and discards them",
        asked=0.3,
    )
