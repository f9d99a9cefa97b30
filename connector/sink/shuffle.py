"""Shuffling rows to the task that owns their vnodes.

Promises: rows of one key are in one task. After `shuffle_by_vnode` a task writes one contiguous
range of vnodes, so a segment has few shards. Spark computes the vnodes itself, without Python.
Does not know: what is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from relstate.connector.parallelism import parallelism
from relstate.connector.syntax.tokens import quoted
from relstate.connector.types import cast_text
from relstate.storage import TableSchema

_ADAPTIVE = "spark.sql.adaptive.enabled"


def unit_expression(schema: TableSchema, vnode_count: int, units: int) -> str:
    """Return, in Spark's SQL, the parallel unit of ``units`` that owns a row's vnode, an INT.

    A key that does not fit its type counts as NULL here: the task that gets it says what is wrong.
    """
    keys = ", ".join(
        f"TRY_CAST({quoted(column.name)} AS {cast_text(column.type)})"
        for column in schema.distribution_columns
    )
    vnode = f"pmod(xxhash64({keys}), {vnode_count})"
    return f"CAST({vnode} * {units} DIV {vnode_count} AS INT)"


def shuffle_by_vnode(
    batch: DataFrame, schema: TableSchema, vnode_count: int, units: int
) -> DataFrame:
    """Return the rows of ``batch`` in ``units`` partitions, each of one range of vnodes.

    Rows that get their row ids when they are written have no vnodes yet; they are spread evenly.
    """
    if schema.row_id is not None and schema.row_id.name not in batch.columns:
        return batch.repartition(units)
    return batch.repartitionById(units, f.expr(unit_expression(schema, vnode_count, units)))


def shuffle_by_key(rows: DataFrame, schema: TableSchema, vnode_count: int) -> DataFrame:
    """Return rows so that those of one key are in one partition.

    With adaptive execution, Spark's default, the number of partitions follows the bytes: one for
    a few rows. Without it, the number is that of ``spark.sql.shuffle.partitions``. Rows whose row
    id is NULL have no key yet: those of one partition stay together.
    """
    conf = rows.sparkSession.conf
    units = int(conf.get("spark.sql.shuffle.partitions") or 1)
    unit = unit_expression(schema, vnode_count, units)
    if schema.row_id is not None:
        # The number of a row's partition is the same in every attempt of a task.
        unit = (
            f"IF({quoted(schema.row_id.name)} IS NULL, pmod(spark_partition_id(), {units}), {unit})"
        )
    if str(conf.get(_ADAPTIVE)).lower() == "true":
        return rows.repartition(f.expr(unit))
    return rows.repartitionById(units, f.expr(unit))


@contextmanager
def adaptively(session: SparkSession) -> Iterator[None]:
    """Let the shuffles of a block have as many partitions as their bytes need.

    ``session``: of a streaming query, which is its own, and in which Spark turns this off: it holds
    for operators with state, of which a function of ``foreachBatch`` sees the result alone.
    """
    before = session.conf.get(_ADAPTIVE)
    session.conf.set(_ADAPTIVE, "true")
    try:
        yield
    finally:
        session.conf.set(_ADAPTIVE, str(before))


def writing_tasks(batch: DataFrame) -> int | None:
    """Return how many tasks should write ``batch`` after a shuffle; None to write without one.

    Every task that has rows writes a segment of its own. So a shuffle pays if a batch has more
    partitions than can run at once, as after an aggregation of a few rows in Spark's 200 shuffle
    partitions. Spark Connect has no such number; there it is None.
    """
    plan = getattr(batch, "_jdf", None)
    if plan is None:
        return None
    partitions = plan.queryExecution().executedPlan().outputPartitioning().numPartitions()
    tasks = parallelism(batch.sparkSession)
    return tasks if partitions > tasks else None
