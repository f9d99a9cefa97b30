"""What EXPLAIN tells: how much of each table a query reads, and how Spark runs it.

Does not know: how it was found out.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from relstate.connector.source.plan import partitions_worth
from relstate.connector.syntax.tree import conjunction, text_of

from .relation import PlannedQuery, Relation

SCHEMA = (
    "relation STRING, epoch BIGINT, vnodes INT, partitions INT, points BIGINT, ranges BIGINT, "
    "columns ARRAY<STRING>, where STRING, plan STRING"
)


def explained(query: PlannedQuery, frame: DataFrame, mode: str) -> list[tuple[Any, ...]]:
    """Return a row for each reference, of columns as in ``SCHEMA``, and one with Spark's plan.

    ``ranges`` is NULL where every key is read; then ``points`` is NULL too.
    """
    rows = [_row(relation) for relation in query.relations]
    return [*rows, (*(None,) * 8, _plan_of(frame, mode))]


def _row(relation: Relation) -> tuple[Any, ...]:
    plan = relation.read
    pruning = plan.pruning()
    reads_all = pruning.ranges is None
    return (
        plan.definition.name,
        plan.epoch,
        pruning.vnodes,
        len(plan.partitions(partitions_worth(plan))),
        None if reads_all else pruning.points,
        pruning.ranges,
        list(pruning.columns),
        text_of(conjunction(relation.conjuncts)) if relation.conjuncts else None,
        None,
    )


def _plan_of(frame: DataFrame, mode: str) -> str:
    plan: Any = getattr(frame, "_jdf", None)
    if plan is None:
        # Spark Connect explains through a call of its own.
        connect: Any = frame
        return str(connect._explain_string(mode=mode))
    machine: Any = frame.sparkSession._jvm
    return str(machine.PythonSQLUtils.explainString(plan.queryExecution(), mode))
