"""Rows that Spark's driver has, or computed while it planned, as Arrow without a job of Python.

Spark folds projections and filters over rows that it was given into a relation of rows: these need
no job. A join or an aggregate of such rows is one job without Python.

Promises: values are the same as in a job: Spark's own converters make them, which also serve its
Python tasks.
Does not know: what the rows are for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as s

from .rows_frame import known_count
from .spark.arrow_transfer import ArrowMessages
from .spark.received import received
from .types import has_variant

LOCAL_ROWS = 131_072
"""Rows that are processed in the driver's process.

A job with tasks in Python takes 100 ms at least, and more for each shuffle, whereas one process
merges so many rows in about a second. Beyond that, tasks in parallel are faster.
"""
LOCAL_BYTES = 16 << 20
"""Bytes of these rows: a statement holds a few times as much in the driver's memory."""

# The relations that the driver holds, or makes of nothing.
_LOCAL_LEAVES = frozenset({"LocalRelation", "OneRowRelation", "Range"})
# What has no more rows than what it reads.
_NOT_MORE = frozenset({"Project", "Filter", "Aggregate", "Sort", "Repartition", "SubqueryAlias"})


def known_rows(frame: DataFrame, most: int | None = None) -> list[pa.RecordBatch] | None:
    """Return the rows of a frame that reads nothing but rows that the driver has; else None.

    None also of more than ``most`` rows (by default `LOCAL_ROWS`), or `LOCAL_BYTES`, of VARIANTs
    that are not in a relation of rows, and of a frame of Spark Connect.
    Columns go by the names ``c0`` and so on, as a frame may have several of one name. Where
    an expression fails for a row, it raises what Spark raises.
    """
    plan = getattr(frame, "_jdf", None)
    if plan is None:
        return None
    relation: Any = plan.queryExecution().optimizedPlan()
    if not _is_little(relation, LOCAL_ROWS if most is None else most):
        return None
    if relation.nodeName() == "LocalRelation":
        batches = _received(frame, relation.data())
    elif has_variant(frame.schema):
        # Spark's toArrow fails for a VARIANT that is NULL, also inside a value.
        return None
    else:
        plain = frame.toDF(*(f"c{index}" for index in range(len(frame.columns))))
        batches = list(received(plain.toArrow().to_batches()))
    return batches if sum(batch.nbytes for batch in batches) <= LOCAL_BYTES else None


def has_many_rows(frame: DataFrame, rows: int) -> bool:
    """Return whether a frame may have more than so many rows, by Spark's plan of it."""
    plan = getattr(frame, "_jdf", None)
    return plan is not None and not _has_at_most(plan.queryExecution().optimizedPlan(), rows)


def table_of(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """Return batches as a table whose columns have the names of a schema, and its types."""
    renamed = [pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches]
    return pa.Table.from_batches(renamed, schema)


def _is_little(plan: Any, most: int) -> bool:
    """Return whether a plan of the JVM's has few rows, and reads only few rows of the driver."""
    if not _has_at_most(plan, most):
        return False
    leaves = plan.collectLeaves()
    return all(
        (leaf.nodeName() in _LOCAL_LEAVES or known_count(leaf) is not None)
        and _has_at_most(leaf, most)
        for leaf in map(leaves.apply, range(leaves.size()))
    )


def _has_at_most(plan: Any, rows: int) -> bool:
    """Return whether it is certain that a plan has no more than so many rows."""
    most = plan.maxRows()
    while not most.isDefined() and plan.nodeName() in _NOT_MORE:
        plan = plan.children().apply(0)
        most = plan.maxRows()
    if most.isDefined():
        return bool(most.get() <= rows)
    count = known_count(plan)
    return count is not None and count <= rows


def _received(frame: DataFrame, rows: Any) -> list[pa.RecordBatch]:
    """Return rows of a frame that the JVM holds, at most one batch, with times in UTC."""
    if rows.isEmpty():
        return []
    fields = [
        s.StructField(f"c{index}", field.dataType, field.nullable)
        for index, field in enumerate(frame.schema.fields)
    ]
    session: Any = frame.sparkSession
    schema = session._jsparkSession.parseDataType(s.StructType(fields).json())
    messages = ArrowMessages(session)
    batches, raise_error = messages.receive(messages.of(rows.iterator(), schema), "relstate rows")
    if sum(batch.num_rows for batch in batches) != rows.size():
        raise_error()
    return batches
