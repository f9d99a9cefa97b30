"""From a query to the plan of a view: SELECT, clause by clause, and UNION.

sqlglot reads the query, Spark says what it means: its columns, the types of all expressions, and
whether sqlglot has read it right. What cannot be maintained incrementally is refused.

Promises: the visible columns of a plan are those that Spark gives the query. Clauses mean what they
mean to Spark, in its order: FROM, WHERE, GROUP BY, HAVING, windows, QUALIFY, SELECT, DISTINCT,
ORDER BY, LIMIT.
Does not know: state tables, or how a plan is run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from pyspark.sql import SparkSession
from sqlglot import exp

from relstate.connector.syntax.parsed_query import ParsedQuery
from relstate.connector.syntax.tree import (
    Tree,
    bare,
    cast_text,
    column,
    columns_of,
    is_column,
    meaning,
    with_fields,
)
from relstate.storage import errors, types

from ..plan.node import Node, Order
from ..plan.stateful import Materialize
from ..plan.stateless import Output, Project, Union
from .analysis import Analysis, Tables, loosened, not_found
from .builder import Builder, Item, Relation
from .clauses import (
    SelectColumn,
    aliases_of,
    check_clauses,
    group_of,
    limit_of,
    order_keys,
    qualify_conditions,
    select_columns,
)
from .expressions import check_expressions, check_moments, check_timeless, refused
from .from_clause import CommonTables, SourcePlanner, with_common_tables
from .group_by import aggregated, distinct, has_aggregates, ranked, windows_of
from .rank_bound import check_bounded
from .scope import Scope, having_conditions
from .simplify import simplified


def plan_view(spark: SparkSession, tables: Tables, query: str) -> Materialize:
    """Return the plan of a view over tables.

    UnsupportedStatementError for a query that cannot be maintained, TableNotFoundError for
    one over tables that the store does not have; what is wrong with the query by Spark's own rules
    is Spark's AnalysisException.
    """
    parsed = ParsedQuery.parse(query)
    tree = parsed.tree
    analysis = Analysis(spark, tables)
    if analysis.is_case_sensitive:
        raise refused(
            "names that differ in case only", "unset spark.sql.caseSensitive and try again"
        )
    check_expressions(tree, analysis.functions())
    check_moments(tree)
    _check_tables(parsed, tables)
    columns = analysis.columns(parsed)
    relation = QueryPlanner(Builder(analysis), tables, parsed).plan(tree, {})
    check_bounded(relation.node)
    plan = simplified(_materialized(relation, columns))
    check_timeless(plan, analysis)
    return plan


def _check_tables(query: ParsedQuery, tables: Tables) -> None:
    for reference in query.table_references(lambda name, as_of: True):
        if tables.find(reference.name) is None:
            raise not_found(reference.name)


def _materialized(relation: Relation, columns: Sequence[types.Field]) -> Materialize:
    """Return the root of a plan. UnsupportedStatementError if columns are not as Spark says."""
    names = [field.name.lower() for field in columns]
    for field in columns:
        if names.count(field.name.lower()) > 1:
            raise refused(
                f"two columns named {field.name!r}", "give one of them another name, AS …"
            )
    visible = [item for item in relation.items if not item.is_behind]
    _check_names(visible, columns)
    own_types = [relation.node.type_of(item.field) for item in visible]
    spark_types = [loosened(field.type) for field in columns]
    if own_types != spark_types:
        raise errors.UnsupportedStatementError(
            f"relstate gives the columns of the query the types {', '.join(map(str, own_types))}, "
            f"and Spark {', '.join(map(str, spark_types))}: this is a bug in relstate"
        )
    pairs = tuple((field.name, item.field) for field, item in zip(columns, visible, strict=True))
    order: dict[str, Order] = {field.name: field for field in relation.order}
    return Materialize(relation.node, pairs, tuple(order.values()))


def _check_names(items: Sequence[Item], columns: Sequence[types.Field]) -> None:
    """UnsupportedStatementError if columns that have names are not in the order of Spark's."""
    names = [column.name.lower() for column in columns]
    own_names = [(item.name or name).lower() for item, name in zip(items, names, strict=False)]
    if own_names != names:
        raise errors.UnsupportedStatementError(
            f"relstate takes the columns of the query in the order {', '.join(own_names)}, and "
            f"Spark in the order {', '.join(names)}; name the columns"
        )


class QueryPlanner:
    """Plans one query and those within it."""

    def __init__(self, builder: Builder, tables: Tables, query: ParsedQuery) -> None:
        self._builder = builder
        self._sources = SourcePlanner(builder, tables, query, self.plan)

    def plan(self, tree: Tree, around: CommonTables) -> Relation:
        """Return the plan of a query. UnsupportedStatementError for what is not maintained."""
        around = with_common_tables(tree, around)
        if isinstance(tree, exp.Subquery):
            return self._limited(tree, self.plan(tree.this, around))
        if isinstance(tree, exp.Union):
            return self._limited(tree, self._union(tree, around))
        if isinstance(tree, exp.Select):
            return self._select(tree, around)
        what: dict[type[Tree], str] = {
            exp.Intersect: "INTERSECT",
            exp.Except: "EXCEPT",
            exp.Values: "VALUES",
        }
        raise refused(what.get(type(tree), "this"), "it is not maintained incrementally yet", tree)

    # SELECT

    def _select(self, tree: exp.Select, around: CommonTables) -> Relation:
        check_clauses(tree)
        relation = self._sources.source(tree, around)
        columns = select_columns(tree, Scope(relation.items))
        aliases = aliases_of(columns)
        scope = Scope(relation.items, aliases)
        values = [column.value for column in columns]
        group = group_of(tree, columns, scope)
        having: list[Tree] = []
        if (clause := tree.args.get("having")) is not None:
            group = group or []
            is_same = partial(self._builder.is_same, relation.node)
            having = having_conditions(clause, scope, [*group, *values], is_same)
        qualify = qualify_conditions(tree, scope, bool(windows_of(values)))
        keys = order_keys(tree, columns, scope.with_aliases_first())
        parts = [values, having, qualify, [key for key, _, _ in keys]]
        node = relation.node
        if group is not None or has_aggregates([tree for part in parts for tree in part]):
            node, parts = self._aggregated(node, group or [], parts)
        node = self._builder.filtered(node, parts[1])
        node, parts = self._ranked(node, columns, parts)
        node = self._builder.filtered(node, parts[2])
        names = [column.name for column in columns]
        node, fields = self._builder.computed(node, parts[0], names)
        sorts = [_over(value, parts[0], fields) for value in parts[3]]
        if tree.args.get("distinct"):
            if tree.args["distinct"].args.get("on"):
                raise refused("DISTINCT ON", "Spark has none", tree)
            node = distinct(node, fields)
        items = tuple(map(Item, names, fields))
        order = [(value, *key[1:]) for value, key in zip(sorts, keys, strict=True)]
        return self._sorted(tree, Relation(node, items), order)

    def _aggregated(
        self, node: Node, group: Sequence[Tree], parts: Sequence[Sequence[Tree]]
    ) -> tuple[Node, list[list[Tree]]]:
        values = [value for part in parts for value in part]
        node, above = aggregated(self._builder, node, group, values)
        return node, _split(above, parts)

    def _ranked(
        self, node: Node, columns: Sequence[SelectColumn], parts: Sequence[Sequence[Tree]]
    ) -> tuple[Node, list[list[Tree]]]:
        values = [value for part in parts for value in part]
        windows = windows_of(values)
        if len(windows) > 1:
            raise refused(
                "two windows in one SELECT", "only one is maintained incrementally", windows[1]
            )
        for window in windows:
            names = (c.name for c, v in zip(columns, parts[0], strict=True) if bare(v) is window)
            title = next(names, None) or "place"
            node, field = ranked(self._builder, node, window, title)
            values = [_over(value, [window], [field]) for value in values]
        return node, _split(values, parts)

    # ORDER BY and LIMIT

    def _limited(self, tree: Tree, relation: Relation) -> Relation:
        """Return a query in parentheses, or a UNION, with the clauses after it."""
        clause = tree.args.get("order")
        if clause is None and tree.args.get("limit") is None and tree.args.get("offset") is None:
            return relation
        named = [SelectColumn(item.name, column(item.field)) for item in relation.items]
        scope = Scope(relation.items)
        keys = [] if clause is None else order_keys(tree, named, scope)
        return self._sorted(tree, replace(relation, order=()), keys)

    def _sorted(
        self, tree: Tree, relation: Relation, keys: Sequence[tuple[Tree, bool, bool]]
    ) -> Relation:
        limit, offset = limit_of(tree)
        if not keys and limit is None and offset == 0:
            return relation
        if not keys:
            raise refused(
                "LIMIT without ORDER BY",
                "it does not say which rows it takes; add an ORDER BY",
                tree,
            )
        if limit is None and offset:
            raise refused("OFFSET without LIMIT", "add a LIMIT", tree)
        node, order = self._builder.ordered(relation.node, keys, "ORDER BY")
        if limit is not None:
            node = self._builder.first(node, order, limit, offset)
        return Relation(node, relation.items, order)

    # UNION

    def _union(self, tree: exp.Union, around: CommonTables) -> Relation:
        relation = united(self._builder, self._inputs(tree, around))
        if not tree.args.get("distinct"):
            return relation
        fields = [item.field for item in relation.items]
        return replace(relation, node=distinct(relation.node, fields))

    def _inputs(self, tree: exp.Union, around: CommonTables) -> list[Relation]:
        """Return the inputs of a UNION; those of a UNION ALL within one are its own."""
        if any(tree.args.get(name) for name in ("by_name", "side", "kind", "on")):
            raise refused("UNION BY NAME", "write the columns in one order", tree)
        left = tree.this
        clauses = ("order", "limit", "offset", "with_", "distinct")
        flat = isinstance(left, exp.Union) and not any(left.args.get(name) for name in clauses)
        first = self._inputs(left, around) if flat else [replace(self.plan(left, around), order=())]
        return [*first, replace(self.plan(tree.expression, around), order=())]


def _over(expression: Tree, values: Sequence[Tree], fields: Sequence[str]) -> Tree:
    """Return an expression with fields in the place of values."""
    names = {
        meaning(value): name
        for value, name in zip(values, fields, strict=True)
        if isinstance(value, exp.Window) or (columns_of(value) and not is_column(value))
    }
    return with_fields(expression, names) if names else expression


def _split(values: Sequence[Tree], parts: Sequence[Sequence[Tree]]) -> list[list[Tree]]:
    """Return values as parts of the same sizes as before."""
    remaining = iter(values)
    return [[next(remaining) for _ in part] for part in parts]


_Steps = Sequence[Sequence[types.DataType]]


def united(builder: Builder, inputs: Sequence[Relation]) -> Relation:
    """Return the rows of all inputs. UnsupportedStatementError if their columns do not match."""
    first = inputs[0]
    if any(len(relation.items) != len(first.items) for relation in inputs):
        raise refused("this UNION", "its inputs have different numbers of columns")
    # What Spark casts from the left to the right, step by step.
    steps = [_kinds(first)]
    for relation in inputs[1:]:
        steps.append(list(builder.analysis.united(steps[-1], _kinds(relation))))
    fields = [
        types.Field(builder.namer.fresh(item.name or "value"), kind)
        for item, kind in zip(first.items, steps[-1], strict=True)
    ]
    node = _stacked(builder, [(relation, steps[n:]) for n, relation in enumerate(inputs)], fields)
    items = (Item(item.name, field.name) for item, field in zip(first.items, fields, strict=True))
    return Relation(node, tuple(items))


def _stacked(
    builder: Builder, inputs: Sequence[tuple[Relation, _Steps]], fields: Sequence[types.Field]
) -> Node:
    """Return the union of inputs whose columns are cast to the same types, step by step."""
    namer = builder.namer
    tag = types.Field(namer.fresh("input"), types.Int())
    keys = [
        [(types.Field(namer.fresh(name), r.node.type_of(name)), name) for name in r.node.key]
        for r, _ in inputs
    ]
    nodes = []
    for number, (relation, steps) in enumerate(inputs):
        outputs = [
            _cast(relation.node, item.field, [step[n] for step in steps], field)
            for n, (item, field) in enumerate(zip(relation.items, fields, strict=True))
        ]
        outputs.append(Output(tag, str(number)))
        for owner, key in enumerate(keys):
            outputs += [_key_output(new, name, owner == number) for new, name in key]
        nodes.append(Project(relation.node, tuple(outputs)))
    return Union(tuple(nodes), (tag.name, *(new.name for key in keys for new, _ in key)))


def _key_output(new: types.Field, name: str, is_there: bool) -> Output:
    if is_there:
        return Output(new, types.quoted(name), name)
    return Output(new, cast_text("NULL", new.type))


def _cast(node: Node, name: str, steps: Sequence[types.DataType], field: types.Field) -> Output:
    text, kind = types.quoted(name), node.type_of(name)
    for step in steps:
        if step != kind:
            text, kind = cast_text(text, step), step
    source = name if text == types.quoted(name) else None
    return Output(field, text, source)


def _kinds(relation: Relation) -> list[types.DataType]:
    return [relation.node.type_of(item.field) for item in relation.items]
