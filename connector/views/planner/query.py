"""From a query to operators: SELECT, clause by clause, UNION, INTERSECT and EXCEPT.

Promises: clauses have the meaning and the order that they have in Spark: FROM, WHERE, GROUP BY,
HAVING, windows, QUALIFY, SELECT, DISTINCT, ORDER BY, LIMIT.
Does not know: state tables, or how a plan is run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

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

from ..plan.node import Names, Node
from .analysis import Tables
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
from .constants import plan_values
from .context import CommonTables, Context, visible_common_tables
from .expressions import (
    unsupported_error,
)
from .from_clause import FromPlanner
from .generators import named_columns, plan_generator
from .group_by import has_aggregates, plan_distinct
from .grouping_sets import GroupBy, plan_group_by
from .having import having_conditions
from .join_conditions import joins_one_row_at_most
from .keyless_order import keyless_position, keys_over_fields, limit_by_window
from .lateral import LateralJoin
from .outer_domain import (
    Domain,
    as_inputs,
    compute_parameters,
    find_parameters,
    group_over_domain,
    has_one_row_each,
    partition_by_domain,
    plan_domain,
    without_domain_columns,
)
from .planned_subquery import PlannedSubquery
from .recursion import check_keyless_limit
from .scope import DecorrelationError, Outer, Scope
from .session_windows import plan_session, read_session
from .set_operations import plan_counted, plan_union
from .sort_keys import SortKey
from .struct_stars import outer_columns, with_struct_parts
from .subqueries import Subqueries
from .time_windows import plan_time_window
from .windows import find_windows, plan_windows, with_named_windows


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
        self._subqueries = Subqueries(builder, self.plan_subquery, self.plan)

    def plan(
        self, tree: Tree, common_tables: CommonTables, domain: Domain | None = None
    ) -> Relation:
        """Return the plan of a query. UnsupportedStatementError if it cannot be maintained.

        ``domain``: the outer values that it may read.
        """
        common_tables = visible_common_tables(tree, common_tables, domain)
        if isinstance(tree, exp.Subquery):
            return self._plan_limit(tree, self.plan(tree.this, common_tables, domain), domain)
        if isinstance(tree, exp.Union):
            return self._plan_limit(tree, self._plan_union(tree, common_tables, domain), domain)
        if isinstance(tree, exp.SetOperation):
            return self._plan_limit(tree, self._plan_counted(tree, common_tables, domain), domain)
        if isinstance(tree, exp.Values):
            return self._plan_limit(tree, plan_values(self._builder, tree), None)
        if isinstance(tree, exp.Select):
            return self._plan_select(tree, common_tables, domain)
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
        outer_scope = context.scope(relation.items).around_subquery()
        try:
            return self._join_lateral(relation, tree, context, outer_scope)
        except DecorrelationError:
            return self._join_over_domain(relation, tree, context, outer_scope)

    def _join_over_domain(
        self, relation: Relation, tree: exp.Lateral, context: Context, outer_scope: Scope
    ) -> Relation:
        """Return a relation joined with a LATERAL subquery, planned for all of its values."""
        builder, outer = self._builder, outer_columns(self._builder, outer_scope)
        builder.remember_types(relation.node)

        def plan(domain: Domain) -> Relation:
            return self.plan(tree.this, context.common_tables, domain)

        find_parameters(builder, outer, plan)
        node, names = compute_parameters(builder, outer, relation.node)
        planned = PlannedSubquery(plan(plan_domain(builder, outer, node, names)), context)
        relation = replace(relation, node=node)
        return LateralJoin(builder, relation, tree, planned, outer, context).over_domain(names)

    def _join_lateral(
        self, relation: Relation, tree: exp.Lateral, context: Context, outer_scope: Scope
    ) -> Relation:
        """Return a relation joined with a LATERAL subquery by the conditions of the latter."""
        query, common_tables = _without_parentheses(tree.this, context.common_tables)
        self._builder.remember_types(relation.node)
        outer = outer_columns(self._builder, outer_scope)
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

    def _plan_select(
        self, tree: exp.Select, common_tables: CommonTables, domain: Domain | None
    ) -> Relation:
        check_clauses(tree)
        resolver = self._subqueries.resolver(common_tables)
        context = Context(common_tables, resolver, domain=domain)
        relation, _ = self._from.plan_from(tree, context)
        context = replace(context, fields=relation.domain)
        return self._finish_select(tree, relation, context)

    def _finish_select(self, tree: exp.Select, relation: Relation, context: Context) -> Relation:
        """Return the rows of a SELECT, all of its clauses after WHERE applied to those of FROM."""
        tree = with_named_windows(tree)
        scope = context.scope(relation.items)
        tree, relation = plan_time_window(self._builder, tree, relation, scope)
        self._builder.remember_types(relation.node)
        tree, session = read_session(self._builder, tree)
        tree = with_struct_parts(self._builder, tree, context.scope(relation.items))
        columns = select_columns(tree, context.scope(relation.items))
        scope = context.scope(relation.items, alias_values(columns))
        group = group_by(tree, columns, scope)
        keys, inner_order = relation.domain, relation.inner_order
        if session is not None:
            own_scope = context.scope(relation.items)
            relation, group = plan_session(self._builder, relation, own_scope, session, group)
        if tree.args.get("having") is not None:
            group = group or GroupBy(())
        clauses, sort_keys = self._resolve_clauses(tree, relation.node, columns, scope, group)
        node = relation.node
        if group is not None or has_aggregates(clauses.expressions):
            node, outputs, keys = self._plan_groups(
                tree, relation, group or GroupBy(()), clauses.expressions, context.domain
            )
            clauses, inner_order = clauses.with_expressions(outputs), ()
        if keys:
            clauses = clauses.with_expressions(
                [partition_by_domain(expression, keys) for expression in clauses.expressions]
            )
        if context.domain is not None:
            context.domain.note_comparisons(clauses.having, node, keys)
        node = self._builder.filter(node, clauses.having)
        if any(column_.call is not None for column_ in columns) and find_windows(
            clauses.expressions
        ):
            node, columns, clauses = self._generate_rows(node, columns, clauses)
        node, clauses = self._plan_windows(node, columns, clauses)
        if context.domain is not None:
            context.domain.note_comparisons(clauses.qualify, node, keys)
        node = self._builder.filter(node, clauses.qualify)
        node, fields = self._builder.compute(node, clauses.select, _titles(columns))
        order = [
            key._replace(value=_replace_values(value, clauses.select, fields))
            for value, key in zip(clauses.order_by, sort_keys, strict=True)
        ]
        output = self._plan_output(node, columns, fields)
        output = replace(output, domain=keys, inner_order=inner_order)
        if tree.args.get("distinct"):
            if tree.args["distinct"].args.get("on"):
                raise unsupported_error("DISTINCT ON", "Spark does not support it", tree)
            names = [*keys, *(item.field for item in output.items)]
            distinct = plan_distinct(self._builder, output.node, names)
            output = replace(output, node=distinct, inner_order=())
        if any(column_.call is not None for column_ in columns):
            order = _order_of_output(tree, output)
        return self._plan_sort(tree, output, order, context.domain)

    def _plan_groups(
        self,
        tree: exp.Select,
        relation: Relation,
        group: GroupBy,
        expressions: Sequence[Tree],
        domain: Domain | None,
    ) -> tuple[Node, list[Tree], Names]:
        """Return (the aggregate for expressions, these over it, its fields of the domain)."""
        if domain is None or not relation.domain:
            return (*plan_group_by(self._builder, relation.node, group, expressions), ())
        return group_over_domain(domain, relation.node, relation.domain, group, expressions, tree)

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
    ) -> tuple[_Clauses, list[SortKey]]:
        """Return the expressions of a SELECT over the fields of its FROM, and its sort keys."""
        values = [value for column in columns for value in column.values]
        having: list[Tree] = []
        if (clause := tree.args.get("having")) is not None:
            is_same = partial(self._builder.is_same, node)
            grouped = () if group is None else group.expressions
            having = having_conditions(clause, scope, [*grouped, *values], is_same)
        qualify = qualify_conditions(tree, scope, bool(find_windows(values)))
        has_rows = any(column_.call is not None for column_ in columns)
        keys = [] if has_rows else order_keys(tree, columns, scope.with_aliases_first())
        return _Clauses(values, having, qualify, [expression for expression, _, _ in keys]), keys

    def _generate_rows(
        self, node: Node, columns: Sequence[SelectColumn], clauses: _Clauses
    ) -> tuple[Node, list[SelectColumn], _Clauses]:
        """Return the rows that functions in SELECT return, over which Spark computes windows."""
        remaining = iter(clauses.select)
        made: list[SelectColumn] = []
        for select_column in columns:
            values = [next(remaining) for _ in select_column.values]
            if select_column.call is None:
                made.append(replace(select_column, value=values[0]))
                continue
            if windows := find_windows(values):
                raise unsupported_error(
                    "a window in a function that returns rows beside another one",
                    "compute it in a subquery in FROM",
                    windows[0],
                )
            node, fields = self._builder.compute(node, values)
            call = select_column.call_over(fields)
            node, items = plan_generator(self._builder, node, call)
            made += [
                SelectColumn(item.name, column(item.field))
                for item in named_columns(items, select_column.names, call)
            ]
        return node, made, replace(clauses, select=[made_column.value for made_column in made])

    def _plan_windows(
        self, node: Node, columns: Sequence[SelectColumn], clauses: _Clauses
    ) -> tuple[Node, _Clauses]:
        values = clauses.expressions
        windows = find_windows(values)
        if not windows:
            return node, clauses
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

    def _plan_limit(self, tree: Tree, relation: Relation, domain: Domain | None) -> Relation:
        """Return a query in parentheses, or a UNION, with the clauses after it."""
        if not has_limit(tree):
            return relation
        keys = _order_of_output(tree, relation)
        return self._plan_sort(tree, relation.nested, keys, domain)

    def _plan_sort(
        self,
        tree: Tree,
        relation: Relation,
        keys: Sequence[SortKey],
        domain: Domain | None,
    ) -> Relation:
        limit, offset = limit_and_offset(tree)
        if limit is None and not offset and (relation.domain or not keys):
            return relation
        if domain is not None and relation.domain:
            domain.check_limit(tree)
        has_one_row = joins_one_row_at_most(relation.node) or has_one_row_each(relation)
        if not keys and limit and not offset and has_one_row:
            return relation
        if limit == 0:
            return replace(relation, node=self._builder.filter(relation.node, [exp.false()]))
        # Without keys any rows are right: the first ones by the key of the operator are taken.
        node, order = relation.node, relation.inner_order
        if limit is not None and not (keys or order):
            check_keyless_limit(node, tree)
        if keys:
            node, fields = self._builder.compute(node, [value for value, _, _ in keys])
            keys = keys_over_fields(keys, fields)
            keyless = keyless_position(node, fields)
            if keyless is not None and (limit is not None or offset):
                node = limit_by_window(self._builder, node, relation.domain, keys, limit, offset)
                return replace(relation, node=node, order=())
            node, order = self._builder.compute_order(node, keys[:keyless], "ORDER BY")
        if limit is not None or offset:
            node = self._builder.limit(node, order, limit, offset, relation.domain)
        if relation.domain:
            return replace(relation, node=node)
        return Relation(node, relation.items, order)

    # UNION, INTERSECT, EXCEPT

    def _plan_union(
        self, tree: exp.Union, common_tables: CommonTables, domain: Domain | None
    ) -> Relation:
        inputs = self._plan_inputs(_inputs_of(tree), common_tables, domain)
        inputs, count = (inputs, 0) if domain is None else as_inputs(domain, inputs)
        return without_domain_columns(self._united(tree, inputs), count)

    def _plan_inputs(
        self, queries: Sequence[Tree], common_tables: CommonTables, domain: Domain | None
    ) -> list[Relation]:
        """Return the inputs of a set operation."""
        inputs = []
        for query in queries:
            noted = 0 if domain is None else len(domain.equalities)
            inputs.append(replace(self.plan(query, common_tables, domain), order=()))
            if domain is not None:
                domain.forget_equalities(noted)
        return inputs

    def _united(self, tree: exp.Union, inputs: Sequence[Relation]) -> Relation:
        """Return the UNION of its inputs."""
        relation = plan_union(self._builder, inputs)
        if not tree.args.get("distinct"):
            return relation
        fields = [item.field for item in relation.items]
        return replace(relation, node=plan_distinct(self._builder, relation.node, fields))

    def _plan_counted(
        self, tree: exp.SetOperation, common_tables: CommonTables, domain: Domain | None
    ) -> Relation:
        _check_by_position(tree)
        inputs = self._plan_inputs((tree.this, tree.expression), common_tables, domain)
        inputs, count = (inputs, 0) if domain is None else as_inputs(domain, inputs)
        operation = "EXCEPT" if isinstance(tree, exp.Except) else "INTERSECT"
        is_distinct = bool(tree.args.get("distinct"))
        counted = plan_counted(self._builder, operation, inputs, is_distinct=is_distinct)
        return without_domain_columns(counted, count)


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


def _order_of_output(tree: Tree, relation: Relation) -> list[SortKey]:
    """Return the sort keys of a query's ORDER BY over its own columns; none without one."""
    if tree.args.get("order") is None:
        return []
    item_columns = [SelectColumn(item.name, column(item.field)) for item in relation.items]
    return order_keys(tree, item_columns, Scope(relation.items))
