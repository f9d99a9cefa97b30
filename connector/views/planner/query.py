"""From a query to the plan of a view: SELECT, clause by clause, and UNION.

sqlglot parses the query. Spark analyses it: its columns, the types of all expressions, and whether
sqlglot has parsed it right. What cannot be maintained incrementally is refused.

Promises: the visible columns of a plan are those that Spark gives the query. Clauses have the
meaning and the order that they have in Spark: FROM, WHERE, GROUP BY, HAVING, windows, QUALIFY,
SELECT, DISTINCT, ORDER BY, LIMIT.
Does not know: state tables, or how a plan is run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import SparkSession
from sqlglot import exp

from relstate.connector.syntax.parsed_query import ParsedQuery
from relstate.connector.syntax.tree import (
    Tree,
    column,
    columns_of,
    comparable_text,
    is_column,
    with_fields,
    without_parentheses,
)
from relstate.storage import errors, types

from ..plan.materialize import Materialize
from ..plan.node import Node, Order
from .analysis import Analysis, Tables, as_nullable, table_not_found_error
from .builder import Builder, Item, Relation
from .clauses import (
    SelectColumn,
    alias_values,
    check_clauses,
    group_expressions,
    limit_and_offset,
    order_keys,
    qualify_conditions,
    select_columns,
)
from .expressions import check_expressions, check_moments, check_time_independent, unsupported_error
from .from_clause import CommonTables, FromPlanner, visible_common_tables
from .group_by import has_aggregates, plan_aggregate, plan_distinct
from .scope import Scope, having_conditions
from .simplify import simplify_plan
from .union import plan_union
from .windows import find_windows, plan_windows, recompute_unbounded_ranks, with_named_windows


def plan_view(spark: SparkSession, tables: Tables, query: str) -> Materialize:
    """Return the plan of a view over tables.

    UnsupportedStatementError for a query that cannot be maintained, TableNotFoundError for a query
    over tables that the store does not have, Spark's AnalysisException for an invalid query.
    """
    parsed = ParsedQuery.parse(query)
    tree = parsed.tree
    analysis = Analysis(spark, tables)
    if analysis.is_case_sensitive:
        raise unsupported_error(
            "names that differ in case only", "unset spark.sql.caseSensitive and try again"
        )
    check_expressions(tree, analysis.functions())
    check_moments(tree)
    _check_tables(parsed, tables)
    columns = analysis.columns(parsed)
    relation = QueryPlanner(Builder(analysis), tables, parsed).plan(tree, {})
    relation = replace(relation, node=recompute_unbounded_ranks(relation.node))
    plan = simplify_plan(_materialize(relation, columns))
    check_time_independent(plan, analysis)
    return plan


def _check_tables(query: ParsedQuery, tables: Tables) -> None:
    for reference in query.table_references(lambda name, as_of: True):
        if tables.find(reference.name) is None:
            raise table_not_found_error(reference.name)


def _materialize(relation: Relation, columns: Sequence[types.Field]) -> Materialize:
    """Return the root of a plan. UnsupportedStatementError if columns differ from Spark's."""
    names = [field.name.lower() for field in columns]
    for field in columns:
        if names.count(field.name.lower()) > 1:
            raise unsupported_error(
                f"two columns named {field.name!r}", "give one of them another name, AS …"
            )
    visible = [item for item in relation.items if not item.is_hidden]
    _check_names(visible, columns)
    own_types = [relation.node.type_of(item.field) for item in visible]
    spark_types = [as_nullable(field.type) for field in columns]
    if own_types != spark_types:
        raise errors.UnsupportedStatementError(
            f"relstate gives the columns of the query the types {', '.join(map(str, own_types))}, "
            f"and Spark {', '.join(map(str, spark_types))}: this is a bug in relstate"
        )
    pairs = tuple((field.name, item.field) for field, item in zip(columns, visible, strict=True))
    order: dict[str, Order] = {field.name: field for field in relation.order}
    return Materialize(relation.node, pairs, tuple(order.values()))


def _check_names(items: Sequence[Item], columns: Sequence[types.Field]) -> None:
    """Raise UnsupportedStatementError if named columns are not in Spark's order."""
    names = [column.name.lower() for column in columns]
    own_names = [(item.name or name).lower() for item, name in zip(items, names, strict=False)]
    if own_names != names:
        raise errors.UnsupportedStatementError(
            f"relstate takes the columns of the query in the order {', '.join(own_names)}, and "
            f"Spark in the order {', '.join(names)}; name the columns"
        )


@dataclass(frozen=True, slots=True)
class _Clauses:
    """The expressions of one SELECT by clause, all over the fields of one operator."""

    select: Sequence[Tree]
    having: Sequence[Tree]
    qualify: Sequence[Tree]
    order_by: Sequence[Tree]

    @property
    def expressions(self) -> list[Tree]:
        """All expressions, clause by clause."""
        return [*self.select, *self.having, *self.qualify, *self.order_by]

    def with_expressions(self, expressions: Sequence[Tree]) -> _Clauses:
        """Return the clauses with other expressions, which come as `expressions` returns them."""
        remaining = iter(expressions)
        clauses = (self.select, self.having, self.qualify, self.order_by)
        return _Clauses(*([next(remaining) for _ in clause] for clause in clauses))


class QueryPlanner:
    """Plans one query and its nested queries."""

    def __init__(self, builder: Builder, tables: Tables, query: ParsedQuery) -> None:
        self._builder = builder
        self._from = FromPlanner(builder, tables, query, self.plan)

    def plan(self, tree: Tree, common_tables: CommonTables) -> Relation:
        """Return the plan of a query. UnsupportedStatementError if it cannot be maintained."""
        common_tables = visible_common_tables(tree, common_tables)
        if isinstance(tree, exp.Subquery):
            return self._plan_limit(tree, self.plan(tree.this, common_tables))
        if isinstance(tree, exp.Union):
            return self._plan_limit(tree, self._plan_union(tree, common_tables))
        if isinstance(tree, exp.Select):
            return self._plan_select(tree, common_tables)
        clause_names: dict[type[Tree], str] = {
            exp.Intersect: "INTERSECT",
            exp.Except: "EXCEPT",
            exp.Values: "VALUES",
        }
        raise unsupported_error(
            clause_names.get(type(tree), "this"), "it is not maintained incrementally yet", tree
        )

    # SELECT

    def _plan_select(self, tree: exp.Select, common_tables: CommonTables) -> Relation:
        check_clauses(tree)
        tree = with_named_windows(tree)
        relation = self._from.plan_from(tree, common_tables)
        columns = select_columns(tree, Scope(relation.items))
        scope = Scope(relation.items, alias_values(columns))
        group = group_expressions(tree, columns, scope)
        if tree.args.get("having") is not None:
            group = group or []
        clauses, keys = self._resolve_clauses(tree, relation.node, columns, scope, group)
        node = relation.node
        if group is not None or has_aggregates(clauses.expressions):
            node, outputs = plan_aggregate(self._builder, node, group or [], clauses.expressions)
            clauses = clauses.with_expressions(outputs)
        node = self._builder.filter(node, clauses.having)
        node, clauses = self._plan_windows(node, columns, clauses)
        node = self._builder.filter(node, clauses.qualify)
        names = [column.name for column in columns]
        node, fields = self._builder.compute(node, clauses.select, names)
        order = [
            (_replace_values(value, clauses.select, fields), descending, nulls_first)
            for value, (_, descending, nulls_first) in zip(clauses.order_by, keys, strict=True)
        ]
        if tree.args.get("distinct"):
            if tree.args["distinct"].args.get("on"):
                raise unsupported_error("DISTINCT ON", "Spark has none", tree)
            node = plan_distinct(node, fields)
        items = tuple(map(Item, names, fields))
        return self._plan_sort(tree, Relation(node, items), order)

    def _resolve_clauses(
        self,
        tree: exp.Select,
        node: Node,
        columns: Sequence[SelectColumn],
        scope: Scope,
        group: Sequence[Tree] | None,
    ) -> tuple[_Clauses, list[tuple[Tree, bool, bool]]]:
        """Return the expressions of a SELECT over the fields of its FROM, and its sort keys."""
        values = [column.value for column in columns]
        having: list[Tree] = []
        if (clause := tree.args.get("having")) is not None:
            is_same = partial(self._builder.is_same, node)
            having = having_conditions(clause, scope, [*(group or []), *values], is_same)
        qualify = qualify_conditions(tree, scope, bool(find_windows(values)))
        keys = order_keys(tree, columns, scope.with_aliases_first())
        return _Clauses(values, having, qualify, [expression for expression, _, _ in keys]), keys

    def _plan_windows(
        self, node: Node, columns: Sequence[SelectColumn], clauses: _Clauses
    ) -> tuple[Node, _Clauses]:
        values = clauses.expressions
        windows = find_windows(values)
        if not windows:
            return node, clauses
        titles = {
            comparable_text(without_parentheses(value)): column.name
            for column, value in zip(columns, clauses.select, strict=True)
        }
        node, fields = plan_windows(
            self._builder,
            node,
            windows,
            [titles.get(comparable_text(window)) for window in windows],
        )
        return node, clauses.with_expressions(
            [_replace_values(value, windows, fields) for value in values]
        )

    # ORDER BY and LIMIT

    def _plan_limit(self, tree: Tree, relation: Relation) -> Relation:
        """Return a query in parentheses, or a UNION, with the clauses after it."""
        clause = tree.args.get("order")
        if clause is None and tree.args.get("limit") is None and tree.args.get("offset") is None:
            return relation
        item_columns = [SelectColumn(item.name, column(item.field)) for item in relation.items]
        scope = Scope(relation.items)
        keys = [] if clause is None else order_keys(tree, item_columns, scope)
        return self._plan_sort(tree, replace(relation, order=()), keys)

    def _plan_sort(
        self, tree: Tree, relation: Relation, keys: Sequence[tuple[Tree, bool, bool]]
    ) -> Relation:
        limit, offset = limit_and_offset(tree)
        if not keys and limit is None and offset == 0:
            return relation
        if not keys:
            raise unsupported_error(
                "LIMIT without ORDER BY",
                "it does not say which rows it takes; add an ORDER BY",
                tree,
            )
        if limit is None and offset:
            raise unsupported_error("OFFSET without LIMIT", "add a LIMIT", tree)
        node, order = self._builder.compute_order(relation.node, keys, "ORDER BY")
        if limit is not None:
            node = self._builder.limit(node, order, limit, offset)
        return Relation(node, relation.items, order)

    # UNION

    def _plan_union(self, tree: exp.Union, common_tables: CommonTables) -> Relation:
        relation = plan_union(self._builder, self._plan_inputs(tree, common_tables))
        if not tree.args.get("distinct"):
            return relation
        fields = [item.field for item in relation.items]
        return replace(relation, node=plan_distinct(relation.node, fields))

    def _plan_inputs(self, tree: exp.Union, common_tables: CommonTables) -> list[Relation]:
        """Return the inputs of a UNION; those of a UNION ALL nested in it are its inputs too."""
        if any(tree.args.get(name) for name in ("by_name", "side", "kind", "on")):
            raise unsupported_error("UNION BY NAME", "write the columns in one order", tree)
        left = tree.this
        clauses = ("order", "limit", "offset", "with_", "distinct")
        is_flat = isinstance(left, exp.Union) and not any(left.args.get(name) for name in clauses)
        first = (
            self._plan_inputs(left, common_tables)
            if is_flat
            else [replace(self.plan(left, common_tables), order=())]
        )
        return [*first, replace(self.plan(tree.expression, common_tables), order=())]


def _replace_values(expression: Tree, values: Sequence[Tree], fields: Sequence[str]) -> Tree:
    """Return an expression in which fields replace values."""
    names = {
        comparable_text(value): name
        for value, name in zip(values, fields, strict=True)
        if isinstance(value, exp.Window) or (columns_of(value) and not is_column(value))
    }
    return with_fields(expression, names) if names else expression
