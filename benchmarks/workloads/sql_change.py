"""Statements that change rows by key, beside writes of the same rows that read nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import relstate
from relstate.storage import Store

from .. import rows
from ..figure import Comparison, Figure
from ..turns import in_turns, seconds
from ..workbench import Workbench, eighths, new_table, write

# One row of so many of the table is merged, and one of so many is deleted.
_MERGED, _DELETED = 50, 500
_VIEW = "relstate_benchmark_changes"


def sql_change(bench: Workbench) -> Iterator[Figure]:
    """Measure MERGE and DELETE, in milliseconds a statement, durable and committed."""
    spark, count = bench.spark, bench.size.rows
    with bench.store() as store:
        new_table(store, "changed")
        for part in eighths(count):
            write(store, "changed", rows.batches(part))
        db = relstate.connect(spark, store.path)
        turns = itertools.count()

        def run(step: int, change: Callable[[], object]) -> float:
            """Return the seconds that a change takes; its rows are in the view."""
            turn = next(turns)
            frame = rows.frame(spark, count).where(f"a % {step} = {turn % step}")
            batch = spark.createDataFrame(frame.withColumn("d", frame.d + turn).toArrow())
            batch.createOrReplaceTempView(_VIEW)
            return seconds(change)()

        def merge() -> object:
            return db.sql(
                f"MERGE INTO changed t USING {_VIEW} s ON t.k = s.k "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )

        def delete() -> object:
            return db.sql(f"DELETE FROM changed WHERE k IN (SELECT k FROM {_VIEW})")

        cases = [
            ("MERGE", _MERGED, merge, lambda: _write(bench, store, {})),
            ("DELETE", _DELETED, delete, lambda: _write(bench, store, {"opColumn": "op"})),
        ]
        for name, step, change, plain in cases:
            samples = in_turns(
                lambda step=step, change=change: run(step, change),  # type: ignore[misc]
                lambda step=step, plain=plain: run(step, plain),  # type: ignore[misc]
                bench.size.turns,
            )
            yield Figure(
                workload="sql-change",
                case=f"{name} of {count // step:,} of {count:,} rows by key",
                unit="ms",
                samples=samples.scaled(1e3),
                comparison=Comparison.TIME,
                against="a write of the same rows that reads nothing",
                asked=2.5,
            )
        spark.catalog.dropTempView(_VIEW)


def _write(bench: Workbench, store: Store, options: dict[str, str]) -> None:
    """Upsert the rows of the view, or delete them where they have an operation."""
    frame = bench.spark.table(_VIEW)
    if options:
        frame = frame.selectExpr("*", "'delete' AS op")
        options = options | {"clustered": "true"}
    writer = frame.write.format("relstate").options(table="changed", **options).mode("append")
    writer.save(store.path)
