"""EXPLAIN of a query: what is read of each table, and Spark's plan.

Does not know: how a query was planned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from relstate.connector.source.read import default_read_partitions
from relstate.connector.syntax.tree import conjunction, text_of
from relstate.storage import ReadPlan

from .planned_query import PlannedQuery, Relation, is_read_on_driver
from .query_reader import limited_on_driver
from .remaining_time import TtlCall, shown_names

EXPLAIN_SCHEMA = (
    "relation STRING, epoch BIGINT, vnodes INT, partitions INT, points BIGINT, ranges BIGINT, "
    "columns ARRAY<STRING>, where STRING, index STRING, pushed STRING, plan STRING"
)


def explain_rows(query: PlannedQuery, frame: DataFrame, mode: str) -> list[tuple[Any, ...]]:
    """Return a row for each reference, with columns as in ``EXPLAIN_SCHEMA``, then Spark's plan.

    ``partitions`` is 0 for what the driver reads by itself.
    ``points`` and ``ranges`` are NULL where every key is read; ``index`` is the name of the index
    in which the points were found, NULL if none was used. Of rows that tasks look up by those of
    others, only how many there are is unknown: ``points`` and ``partitions`` are NULL. ``pushed``:
    what the tasks add up, or how many rows they send, NULL if they send all.
    """
    rows = [_explain_row(relation, query.calls) for relation in query.relations]
    return [*rows, (*(None,) * 10, _spark_plan(frame, mode))]


def _explain_row(relation: Relation, calls: Sequence[TtlCall]) -> tuple[Any, ...]:
    added_up = relation.aggregate_plan
    plan = relation.read if added_up is None else added_up.plan
    if relation.lookup is not None:
        lookup, count = relation.lookup, plan.vnode_count
        columns = shown_names(plan.columns or (), plan, calls)
        name = plan.definition.name
        where, index = lookup.condition, lookup.index
        partitions = 0 if lookup.is_local else None
        return (
            *(name, plan.epoch, count, partitions, lookup.points, 0),
            *(columns, where, index, None, None),
        )
    pruning = plan.pruning()
    reads_all = pruning.ranges is None
    pushed = relation.aggregate or relation.limit
    return (
        plan.definition.name,
        plan.epoch,
        pruning.vnodes,
        0 if _is_local(relation, plan) else len(plan.partitions(default_read_partitions(plan))),
        None if reads_all else pruning.points,
        pruning.ranges,
        shown_names(pruning.columns, plan, calls),
        _condition(relation),
        pruning.index,
        None if pushed is None else pushed.description,
        None,
    )


def _condition(relation: Relation) -> str | None:
    """Return the condition with which a relation is read; None if it has none."""
    parts = [relation.reduction] if relation.reduction is not None else []
    if relation.conjuncts:
        parts.insert(0, text_of(conjunction(relation.conjuncts)))
    return " AND ".join(parts) or None


def _is_local(relation: Relation, plan: ReadPlan) -> bool:
    """Return whether the driver reads a relation by itself."""
    if relation.limit is not None:
        return limited_on_driver(plan, relation.limit) is not None
    if relation.aggregate is not None:
        return relation.partials is not None
    return is_read_on_driver(plan)


def _spark_plan(frame: DataFrame, mode: str) -> str:
    plan: Any = getattr(frame, "_jdf", None)
    if plan is None:
        # Spark Connect explains through a call of its own.
        connect: Any = frame
        return str(connect._explain_string(mode=mode))
    jvm: Any = frame.sparkSession._jvm
    return str(jvm.PythonSQLUtils.explainString(plan.queryExecution(), mode))
