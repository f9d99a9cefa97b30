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
    group_by,
    has_limit,
    limit_and_offset,
    order_keys,
    qualify_conditions,
    select_columns,
)
from .clustering import cluster_root
from .comparisons import compare_in_joins
from .constants import plan_values
from .expressions import (
    check_expressions,
    check_moments,
    check_time_independent,
    function_name,
    is_clock,
    unsupported_error,
)
from .from_clause import CommonTables, Context, FromPlanner, visible_common_tables
from .generators import named_columns, plan_generator
from .group_by import has_aggregates, plan_distinct
from .grouping_sets import GroupBy, plan_group_by
from .join_conditions import joins_one_row_at_most
from .lateral import LateralJoin
from .scope import Outer, Scope, having_conditions
from .session_windows import plan_session, read_session
from .set_operations import plan_counted, plan_union
from .simplify import merge_operators, simplify_plan
from .subqueries import Subqueries
from .subquery_joins import PlannedSubquery
from .time_windows import plan_time_window
from .windows import find_windows, plan_unbounded_ranks, plan_windows, with_named_windows


def plan_view(
    spark: SparkSession,
    tables: Tables,
    query: str,
    names: Sequence[str] = (),
    cluster_by: Sequence[str] = (),
) -> Materialize:
    """Return the plan of a view over tables; ``names``: of its columns, if not those of the query.

    ``cluster_by``: the columns by which the view's table is distributed; none for any.
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
    builder = Builder(analysis)
    relation = QueryPlanner(builder, tables, parsed).plan(tree, {})
    node = merge_operators(plan_unbounded_ranks(relation.node))
    relation = replace(relation, node=compare_in_joins(builder, node))
    root = cluster_root(_materialize(relation, columns, names), cluster_by)
    plan = simplify_plan(root)
    check_time_independent(plan, analysis)
    return plan


def _check_tables(query: ParsedQuery, tables: Tables) -> None:
    """Raise an error for a table that is not there, and for the row id of one without a key."""
    references = query.table_references(lambda name, as_of: True)
    row_ids: dict[str, str] = {}
    for reference in references:
        table = tables.find(reference.name)
        if table is None:
            raise table_not_found_error(reference.name)
        _check_clock_names([field.name for field in (*table.columns, *table.hidden)], query.tree)
        if table.row_id is not None:
            row_ids[reference.alias] = table.row_id
    _check_clock_names([alias.alias for alias in query.tree.find_all(exp.Alias)], query.tree)
    others = {reference.alias for reference in references} - row_ids.keys()
    for alias, row_id in row_ids.items():
        if query.names_column(row_id, others):
            raise unsupported_error(
                f"the hidden row id {row_id!r} of {alias!r}",
                "it has no meaning outside of its table; write the alias before a column of that "
                "name of another table",
            )


def _check_clock_names(names: Sequence[str], tree: Tree) -> None:
    """Refuse a name of a column that hides the present time, which the tree shows as a function."""
    for clock in filter(is_clock, tree.walk()):
        if function_name(clock) in {name.lower() for name in names}:
            raise unsupported_error(
                "the present time where a column has the name of its function",
                "give the column another name",
                clock,
            )


def _materialize(
    relation: Relation, columns: Sequence[types.Field], names: Sequence[str]
) -> Materialize:
    """Return the root of a plan. UnsupportedStatementError if columns differ from Spark's."""
    if names and len(names) != len(columns):
        raise unsupported_error(
            f"{len(names)} names for {len(columns)} columns", "name each column of the SELECT once"
        )
    names = names or [field.name for field in columns]
    lowered = [name.lower() for name in names]
    for name in names:
        if lowered.count(name.lower()) > 1:
            raise unsupported_error(
                f"two columns named {name!r}", "give one of them another name, AS …"
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
    pairs = tuple((name, item.field) for name, item in zip(names, visible, strict=True))
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
        self._from = FromPlanner(builder, tables, query, self.plan, self.plan_lateral)
        self._subqueries = Subqueries(builder, self.plan_subquery)

    def plan(self, tree: Tree, common_tables: CommonTables) -> Relation:
        """Return the plan of a query. UnsupportedStatementError if it cannot be maintained."""
        common_tables = visible_common_tables(tree, common_tables)
        if isinstance(tree, exp.Subquery):
            return self._plan_limit(tree, self.plan(tree.this, common_tables))
        if isinstance(tree, exp.Union):
            return self._plan_limit(tree, self._plan_union(tree, common_tables))
        if isinstance(tree, exp.SetOperation):
            return self._plan_limit(tree, self._plan_counted(tree, common_tables))
        if isinstance(tree, exp.Values):
            return self._plan_limit(tree, plan_values(self._builder, tree))
        if isinstance(tree, exp.Select):
            return self._plan_select(tree, common_tables)
        raise unsupported_error("this", "it is not maintained incrementally yet", tree)

    # SELECT

    def plan_subquery(
        self, tree: Tree, common_tables: CommonTables, outer: Outer
    ) -> PlannedSubquery:
        """Return the plan of a subquery in an expression, whose names may be those of ``outer``."""
        tree, common_tables = _without_parentheses(tree, common_tables)
        if isinstance(tree, exp.Union) and not has_limit(tree):
            return self._plan_union_subquery(tree, common_tables, outer)
        if not isinstance(tree, exp.Select):
            return PlannedSubquery(
                self.plan(tree, common_tables),
                Context(common_tables, self._subqueries.resolver(common_tables)),
            )
        context = Context(common_tables, self._subqueries.resolver(common_tables), outer)
        check_clauses(tree)
        relation, conditions = self._from.plan_from(tree, context)
        if not conditions:
            relation = self._finish_select(tree, relation, context)
            return PlannedSubquery(relation, context)
        if limit_and_offset(tree) == (None, 0):
            tree = tree.copy()
            tree.set("order", None)
        return PlannedSubquery(relation, context, tree, conditions)

    def _plan_union_subquery(
        self, tree: exp.Union, common_tables: CommonTables, outer: Outer
    ) -> PlannedSubquery:
        """Return the plan of a UNION; its queries if one of them compares values of ``outer``."""
        queries = [_without_plain_parentheses(query) for query in _inputs_of(tree)]
        inputs = [self.plan_subquery(query, common_tables, outer) for query in queries]
        context = Context(common_tables, self._subqueries.resolver(common_tables), outer)
        if any(planned.select is not None or planned.branches for planned in inputs):
            branches = [
                branch
                for query, planned in zip(queries, inputs, strict=True)
                for branch in planned.branches or [(query, planned)]
            ]
            return PlannedSubquery(inputs[0].relation, context, branches=branches)
        relations = [replace(planned.relation, order=()) for planned in inputs]
        return PlannedSubquery(self._united(tree, relations), context)

    def plan_lateral(self, relation: Relation, tree: exp.Lateral, context: Context) -> Relation:
        """Return a relation joined with a LATERAL subquery, whose names may be the relation's."""
        query, common_tables = _without_parentheses(tree.this, context.common_tables)
        outer = Outer(Scope(relation.items), self._builder.namer)
        inner = Context(common_tables, self._subqueries.resolver(common_tables), outer)
        if isinstance(query, exp.Select):
            check_clauses(query)
            rows, conditions = self._from.plan_from(query, inner)
            select_columns(query, inner.where_scope(rows.items))
            planned = PlannedSubquery(rows, inner, query, conditions)
            if not outer.parameters:
                planned = PlannedSubquery(self._finish_select(query, rows, inner), inner)
        else:
            planned = PlannedSubquery(self.plan(query, common_tables), inner)
        return LateralJoin(self._builder, relation, tree, planned, outer, context).plan()

    def _plan_select(self, tree: exp.Select, common_tables: CommonTables) -> Relation:
        check_clauses(tree)
        context = Context(common_tables, self._subqueries.resolver(common_tables))
        relation, _ = self._from.plan_from(tree, context)
        return self._finish_select(tree, relation, context)

    def _finish_select(self, tree: exp.Select, relation: Relation, context: Context) -> Relation:
        """Return the rows of a SELECT, all of its clauses after WHERE applied to those of FROM."""
        tree = with_named_windows(tree)
        scope = context.scope(relation.items)
        tree, relation = plan_time_window(self._builder, tree, relation, scope)
        tree, session = read_session(self._builder, tree)
        columns = select_columns(tree, context.scope(relation.items))
        scope = context.scope(relation.items, alias_values(columns))
        group = group_by(tree, columns, scope)
        if session is not None:
            own_scope = context.scope(relation.items)
            relation = plan_session(self._builder, relation, own_scope, session, group)
        if tree.args.get("having") is not None:
            group = group or GroupBy(())
        clauses, keys = self._resolve_clauses(tree, relation.node, columns, scope, group)
        node = relation.node
        if group is not None or has_aggregates(clauses.expressions):
            node, outputs = plan_group_by(
                self._builder, node, group or GroupBy(()), clauses.expressions
            )
            clauses = clauses.with_expressions(outputs)
        node = self._builder.filter(node, clauses.having)
        node, clauses = self._plan_windows(node, columns, clauses)
        node = self._builder.filter(node, clauses.qualify)
        node, fields = self._builder.compute(node, clauses.select, _titles(columns))
        order = [
            (_replace_values(value, clauses.select, fields), descending, nulls_first)
            for value, (_, descending, nulls_first) in zip(clauses.order_by, keys, strict=True)
        ]
        output = self._plan_output(node, columns, fields)
        if tree.args.get("distinct"):
            if tree.args["distinct"].args.get("on"):
                raise unsupported_error("DISTINCT ON", "Spark has none", tree)
            names = [item.field for item in output.items]
            output = replace(output, node=plan_distinct(output.node, names))
        return self._plan_sort(tree, output, order)

    def _plan_output(
        self, node: Node, columns: Sequence[SelectColumn], fields: Sequence[str]
    ) -> Relation:
        """Return the columns of a SELECT; ``fields`` hold their values in an operator."""
        remaining = iter(fields)
        items: list[Item] = []
        for select_column in columns:
            values = [next(remaining) for _ in select_column.values]
            if select_column.call is None:
                items.append(Item(select_column.name, values[0]))
                continue
            call = select_column.call_over(values)
            node, made = plan_generator(self._builder, node, call)
            items += named_columns(made, select_column.names, call)
        return Relation(node, tuple(items))

    def _resolve_clauses(
        self,
        tree: exp.Select,
        node: Node,
        columns: Sequence[SelectColumn],
        scope: Scope,
        group: GroupBy | None,
    ) -> tuple[_Clauses, list[tuple[Tree, bool, bool]]]:
        """Return the expressions of a SELECT over the fields of its FROM, and its sort keys."""
        values = [value for column in columns for value in column.values]
        having: list[Tree] = []
        if (clause := tree.args.get("having")) is not None:
            is_same = partial(self._builder.is_same, node)
            grouped = () if group is None else group.expressions
            having = having_conditions(clause, scope, [*grouped, *values], is_same)
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
        if any(select_column.call is not None for select_column in columns):
            raise unsupported_error(
                "a window beside a function that returns rows",
                "Spark computes it over these rows; write it in a query around this one",
                windows[0],
            )
        titles = {
            comparable_text(without_parentheses(value)): title
            for title, value in zip(_titles(columns), clauses.select, strict=True)
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
        if not has_limit(tree):
            return relation
        clause = tree.args.get("order")
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
        if not keys and limit and not offset and joins_one_row_at_most(relation.node):
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

    # UNION, INTERSECT, EXCEPT

    def _plan_union(self, tree: exp.Union, common_tables: CommonTables) -> Relation:
        inputs = [self.plan(query, common_tables) for query in _inputs_of(tree)]
        return self._united(tree, [replace(relation, order=()) for relation in inputs])

    def _united(self, tree: exp.Union, inputs: Sequence[Relation]) -> Relation:
        """Return the UNION of its inputs."""
        relation = plan_union(self._builder, inputs)
        if not tree.args.get("distinct"):
            return relation
        fields = [item.field for item in relation.items]
        return replace(relation, node=plan_distinct(relation.node, fields))

    def _plan_counted(self, tree: exp.SetOperation, common_tables: CommonTables) -> Relation:
        _check_by_position(tree)
        inputs = [
            replace(self.plan(query, common_tables), order=())
            for query in (tree.this, tree.expression)
        ]
        operation = "EXCEPT" if isinstance(tree, exp.Except) else "INTERSECT"
        is_distinct = bool(tree.args.get("distinct"))
        return plan_counted(self._builder, operation, inputs, is_distinct=is_distinct)


def _without_parentheses(tree: Tree, common_tables: CommonTables) -> tuple[Tree, CommonTables]:
    """Return a query without the parentheses around it, and the common tables that it can read."""
    while isinstance(tree, exp.Subquery) and not has_limit(tree):
        common_tables = visible_common_tables(tree, common_tables)
        tree = tree.this
    return tree, visible_common_tables(tree, common_tables)


def _without_plain_parentheses(tree: Tree) -> Tree:
    """Return a query without parentheses that have no clauses of their own."""
    while isinstance(tree, exp.Subquery) and not has_limit(tree) and not tree.args.get("with_"):
        tree = tree.this
    return tree


def _inputs_of(tree: exp.Union) -> list[Tree]:
    """Return the queries of a UNION; those of a UNION ALL nested in it are its inputs, too."""
    _check_by_position(tree)
    left = tree.this
    clauses = ("order", "limit", "offset", "with_", "distinct")
    is_flat = isinstance(left, exp.Union) and not any(left.args.get(name) for name in clauses)
    return [*(_inputs_of(left) if is_flat else [left]), tree.expression]


def _titles(columns: Sequence[SelectColumn]) -> list[str | None]:
    """Return a name for each value of the columns of a SELECT; None for one without."""
    return [select_column.name for select_column in columns for _ in select_column.values]


def _check_by_position(tree: exp.SetOperation) -> None:
    if any(tree.args.get(name) for name in ("by_name", "side", "kind", "on")):
        raise unsupported_error("UNION BY NAME", "write the columns in one order", tree)


def _replace_values(expression: Tree, values: Sequence[Tree], fields: Sequence[str]) -> Tree:
    """Return an expression in which fields replace values."""
    names = {
        comparable_text(value): name
        for value, name in zip(values, fields, strict=True)
        if isinstance(value, exp.Window) or (columns_of(value) and not is_column(value))
    }
    return with_fields(expression, names) if names else expression
