"""The part of a recursion that Spark runs: its query, over the stored rows of all inputs.

The rows come from the first of the two executors of the operator and go to the second, as in a
keyed recompute; here all of them are one key, in one unit.

Promises: the query is run only if an input has changed. Control rows pass; the second executor gets
a marker of the key besides the rows, so that it takes note of a result without rows.
Does not know: what the query means.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from relstate.connector.syntax.tokens import quoted
from relstate.storage import OP_COLUMN, Op, types

from .executor.keyed_rows import ROW_COLUMN
from .plan.recursion import Recursion, RecursionInput
from .planner.collations import bytes_text
from .planner.relations import query_over
from .wire import MESSAGE, TARGET

_NO_TARGET = f"CAST(NULL AS INT) AS {TARGET}"
_NO_MESSAGE = f"CAST(NULL AS BINARY) AS {MESSAGE}"


def recursive_rows(node: Recursion, rows: DataFrame) -> DataFrame:
    """Return the output if an input has changed, as rows of the wire, in one partition.

    ``rows``: those of the first executor, kept: they are read several times.
    """
    nulls = [_null(field) for field in node.fields]
    is_control = f"{MESSAGE} IS NOT NULL"
    control = rows.where(is_control).selectExpr(OP_COLUMN, *nulls, TARGET, MESSAGE)
    changed = rows.where(f"NOT ({is_control})")
    if changed.isEmpty():
        return control
    stored = changed.where(f"{ROW_COLUMN} IS NOT NULL")
    relations = {
        own.name: relation(own, stored.where(f"{quoted(node.number)} = {position}"))
        for position, own in enumerate(node.inputs)
    }
    (group,) = node.group_fields
    marker = [_constant(group), *(_null(field) for field in node.fields[1:])]
    markers = rows.sparkSession.range(1).selectExpr(
        _op(Op.DELETE), *marker, _NO_TARGET, _NO_MESSAGE
    )
    result = numbered(node, query_over(rows.sparkSession, node.query, relations).repartition(1))
    result = result.selectExpr(_op(Op.INSERT), *map(quoted, node.names), _NO_TARGET, _NO_MESSAGE)
    return control.unionAll(markers).unionAll(result).coalesce(1)


def relation(own: RecursionInput, rows: DataFrame) -> DataFrame:
    """Return an input under the names of its columns; ``rows``: with its fields."""
    return rows.select(*map(quoted, own.fields)).toDF(*(name for name, _ in own.columns))


def numbered(node: Recursion, rows: DataFrame) -> DataFrame:
    """Return the rows of the query with the fields of the node, equal ones with numbers."""
    (group,) = node.group_fields
    rows = rows.toDF(*(field.name for field in node.outputs))
    collated = (
        f"{bytes_text(quoted(name))} AS {quoted(field.name)}" for name, field in node.collated
    )
    rows = rows.selectExpr(_constant(group), "*", *collated)
    compared = list(map(quoted, node.compared))
    partition = f"PARTITION BY {', '.join(compared)} ORDER BY {compared[0]}"
    copy = f"CAST(row_number() OVER ({partition}) AS BIGINT) AS {quoted(node.copy.name)}"
    return rows.selectExpr("*", copy)


def _op(op: Op) -> str:
    return f"CAST({int(op)} AS TINYINT) AS {OP_COLUMN}"


def _constant(group: types.Field) -> str:
    return f"CAST(0 AS TINYINT) AS {quoted(group.name)}"


def _null(field: types.Field) -> str:
    return f"CAST(NULL AS {field.type}) AS {quoted(field.name)}"
