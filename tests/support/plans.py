"""Plans of views run as a batch by Spark: an oracle for the planner, without executors."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

from relstate.connector.views.plan.aggregate import Aggregate, Call
from relstate.connector.views.plan.asof_join import AsofJoin
from relstate.connector.views.plan.broadcast_join import BroadcastJoin
from relstate.connector.views.plan.generate import Generate, OneRow
from relstate.connector.views.plan.join import Join, JoinKind
from relstate.connector.views.plan.materialize import Materialize
from relstate.connector.views.plan.node import Node
from relstate.connector.views.plan.recompute import GroupRecompute, WindowRecompute
from relstate.connector.views.plan.recursion import Recursion
from relstate.connector.views.plan.session import SessionRecompute
from relstate.connector.views.plan.shared import Shared
from relstate.connector.views.plan.stateless import Filter, Project, Scan, Union
from relstate.connector.views.plan.topn import Ranking, TopN
from relstate.connector.views.plan.window import OrderedWindow
from relstate.connector.views.planner.analysis import Table
from relstate.connector.views.planner.relations import query_over
from relstate.connector.views.recursion import numbered, relation
from relstate.storage import types
from relstate.storage.schema.ddl import parse_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

quoted = types.quoted


class FakeTables:
    """Tables that are nowhere: columns in DDL, and the names of the key."""

    def __init__(self, **tables: tuple[str, str]) -> None:
        self._tables = {
            name: Table(number, name, parse_columns(columns), tuple(key.split()))
            for number, (name, (columns, key)) in enumerate(tables.items(), start=1)
        }

    def find(self, name: str) -> Table | None:
        """Return a table."""
        return self._tables.get(name.lower())


def evaluated(node: Node, tables: Mapping[str, DataFrame]) -> DataFrame:
    """Return the rows of a plan; they have the plan's fields, those of a view its visible ones."""
    inputs = [_sealed(evaluated(child, tables), child) for child in node.children]
    match node:
        case Scan():
            columns = [f"{quoted(c.column)} AS {quoted(c.field.name)}" for c in node.columns]
            return tables[node.table].selectExpr(*columns)
        case OneRow():
            return _session(tables).sql(f"SELECT CAST(0 AS TINYINT) AS {quoted(node.field.name)}")
        case Generate():
            return _generated(node, inputs[0])
        case Project():
            return inputs[0].selectExpr(
                *(f"{output.expression} AS {quoted(output.field.name)}" for output in node.outputs)
            )
        case Filter():
            return inputs[0].where(node.condition)
        case Aggregate():
            return _aggregated(node, inputs[0])
        case Join():
            return _joined(node, *inputs)
        case BroadcastJoin():
            return _compared(node, *inputs)
        case AsofJoin():
            return _nearest(node, *inputs)
        case TopN():
            return _first(node, inputs[0])
        case GroupRecompute():
            return _recomputed(node, inputs[0])
        case WindowRecompute():
            calls = [f"{c.sql(node.group)} AS {quoted(c.output.name)}" for c in node.calls]
            return inputs[0].selectExpr("*", *calls)
        case OrderedWindow():
            calls = [
                f"{c.sql(node.group, node.order)} AS {quoted(c.output.name)}" for c in node.calls
            ]
            return inputs[0].selectExpr("*", *calls)
        case SessionRecompute():
            return _with_sessions(node, inputs[0]).select(*map(quoted, node.names))
        case Recursion():
            relations = {
                own.name: relation(own, inputs[0].where(f"{quoted(node.number)} = {position}"))
                for position, own in enumerate(node.inputs)
            }
            return numbered(node, query_over(_session(tables), node.query, relations))
        case Union():
            return reduce(lambda left, right: left.unionByName(right), inputs)
        case Shared():
            return inputs[0]
        case Materialize():
            _check_key(node, inputs[0])
            return inputs[0].selectExpr(*(f"{quoted(f)} AS {quoted(n)}" for n, f in node.visible))
    raise TypeError(node)


def _sealed(rows: DataFrame, node: Node) -> DataFrame:
    """Return rows whose columns are all there is: Spark would find dropped ones beneath them."""
    assert rows.columns == list(node.names)
    return rows.limit(1 << 30)


def _check_key(node: Materialize, rows: DataFrame) -> None:
    key = [quoted(name) for name in node.child.key]
    assert rows.count() == rows.selectExpr(*key).distinct().count(), "the key is none"


def _aggregated(node: Aggregate, rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    calls: list[Any] = [f.expr(_call(call)).alias(call.output.name) for call in node.calls]
    if node.is_global:
        result = rows.agg(*calls)
        return result.selectExpr(f"CAST(0 AS TINYINT) AS {node.group[0]}", *result.columns)
    if not calls:
        return rows.selectExpr(*map(quoted, node.group)).distinct()
    return rows.groupBy(*map(quoted, node.group)).agg(*calls)


def _call(call: Call) -> str:
    chosen = f" FILTER (WHERE {quoted(call.filter)})" if call.filter else ""
    distinct = "(DISTINCT " if call.is_distinct else "("
    return call.sql.replace("(", distinct, 1) + chosen


def _recomputed(node: GroupRecompute, rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    calls: list[Any] = []
    for call in node.calls:
        condition = quoted(call.filter) if call.filter else None
        text = call.sql(condition, is_distinct=call.distinct is not None)
        calls.append(f.expr(text).alias(call.output.name))
    if node.is_global:
        result = rows.agg(*calls)
        return result.selectExpr(f"CAST(0 AS TINYINT) AS {node.group[0]}", *result.columns)
    return rows.groupBy(*map(quoted, node.group)).agg(*calls)


def _joined(node: Join, left: DataFrame, right: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    for key in node.keys:
        assert node.left.type_of(key.left) == node.right.type_of(key.right) == key.field.type
    equalities = [
        f"{quoted(key.left)} {'<=>' if key.is_null_safe else '='} {quoted(key.right)}"
        for key in node.keys
    ]
    condition = " AND ".join([*equalities, *([f"({node.condition})"] if node.condition else [])])
    how = {"semi": "left_semi", "anti": "left_anti"}.get(node.kind, str(node.kind))
    result = left.join(right, f.expr(condition), how)
    keys = [
        f"coalesce({quoted(k.left)}, {quoted(k.right)})"
        if node.kind.gives_pairs
        else quoted(k.left)
        for k in node.keys
    ]
    named = [
        f"{expression} AS {quoted(k.field.name)}"
        for expression, k in zip(keys, node.keys, strict=True)
    ]
    return result.selectExpr(*named, *map(quoted, result.columns))


def _compared(node: BroadcastJoin, left: DataFrame, right: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    for comparison in node.comparisons:
        assert node.left.type_of(comparison.left) == node.right.type_of(comparison.right)
    if node.has_one_row:
        assert right.count() <= 1
    conditions = [f"{quoted(c.left)} {c.comparator} {quoted(c.right)}" for c in node.comparisons]
    conditions += [f"({node.condition})"] if node.condition else []
    how = {"semi": "left_semi", "anti": "left_anti"}.get(node.kind, str(node.kind))
    joined = left.join(right, f.expr(" AND ".join(conditions) or "true"), how)
    return joined.selectExpr(*map(quoted, node.names))


def _nearest(node: AsofJoin, left: DataFrame, right: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    conditions = [
        f"{quoted(key.left)} {'<=>' if key.is_null_safe else '='} {quoted(key.right)}"
        for key in node.keys
    ]
    compared = node.comparison
    value, moment = quoted(compared.left), quoted(compared.right)
    conditions.append(f"{value} {compared.comparator} {moment}")
    how = "left" if node.kind is JoinKind.LEFT else "inner"
    joined = left.join(right, f.expr(" AND ".join(conditions)), how)
    group, ties = (", ".join(map(quoted, side.key)) for side in node.children)
    direction = "DESC" if node.is_backward else "ASC"
    place = f"row_number() OVER (PARTITION BY {group} ORDER BY {moment} {direction}, {ties})"
    first = joined.selectExpr("*", f"{place} AS _place").where("_place = 1")
    return first.selectExpr(*map(quoted, node.names))


def _session(tables: Mapping[str, DataFrame]) -> SparkSession:
    return next(iter(tables.values())).sparkSession


def _generated(node: Generate, rows: DataFrame) -> DataFrame:
    arguments = ", ".join(argument.text for argument in node.arguments)
    outer = "_outer" if node.keeps_empty else ""
    names = ", ".join(quoted(field.name) for field in node.outputs)
    call = f"{node.function}{outer}({arguments}) AS ({names})"
    return rows.selectExpr(*map(quoted, node.passed), call)


def _first(node: TopN, rows: DataFrame) -> DataFrame:
    ties = map(quoted, node.child.key if node.ranking is Ranking.ROW_NUMBER else ())
    order = ", ".join([*(order.sql for order in node.order), *ties])
    group = ", ".join(map(quoted, node.group))
    rank_column = f"{node.ranking}() OVER (PARTITION BY {group} ORDER BY {order}) AS _place"
    result = rows.selectExpr("*", rank_column)
    result = result.where(f"_place > {node.offset} AND _place <= {node.offset + node.limit}")
    rank = [] if node.rank is None else [f"_place AS {quoted(node.rank.name)}"]
    return result.selectExpr(*map(quoted, rows.columns), *rank)


def _with_sessions(node: SessionRecompute, rows: DataFrame) -> DataFrame:
    """Return rows with their sessions, as window functions of Spark find them.

    A row begins a session unless an earlier row of its group ends at its start, or later.
    """
    start, end = quoted(node.start), quoted(node.end)
    group = f"PARTITION BY {', '.join(map(quoted, node.group))}"
    before = f"{group} ORDER BY {start} ROWS BETWEEN UNBOUNDED PRECEDING AND"
    is_first = f"CASE WHEN {start} <= _end_before THEN 0 ELSE 1 END"
    session = f"{group}, _session"
    bounds = f"'start', min({start}) OVER ({session}), 'end', max({end}) OVER ({session})"
    rows = rows.selectExpr("*", f"max({end}) OVER ({before} 1 PRECEDING) AS _end_before")
    rows = rows.selectExpr("*", f"sum({is_first}) OVER ({before} CURRENT ROW) AS _session")
    return rows.selectExpr("*", f"named_struct({bounds}) AS {quoted(node.session.name)}")
