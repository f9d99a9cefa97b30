"""Subqueries in expressions: EXISTS, IN and scalar ones, as joins.

While names are resolved a call stands for a subquery, whose arguments are what it reads of the
query around it. So it goes wherever its expression goes: below a join, above an aggregate. Where
the expression is computed, the call becomes a join:

    EXISTS, IN          as a condition: a semi join
    NOT EXISTS          as a condition: an anti join
    NOT IN              as a condition: an anti join on the values; if there may be NULLs, two more
    EXISTS, IN          within an expression: a left join with the distinct values; Spark gives no
                        NULL there: what is unknown is false, of IN and of NOT IN
    scalar              a left join with an aggregate; a join with its one row if it reads nothing
    EXISTS, IN over     `aggregated_subqueries`
    an aggregate
    EXISTS, IN over     if it reads something: that of one of its queries
    UNION [ALL]
    others that read    `outer_domain`
    something

Promises: NULLs mean what they mean in Spark; a scalar subquery with two rows is Spark's error when
its value is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TypeAlias

from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    column,
    conjunction,
    disjunction,
    disjuncts,
    is_column,
    text_of,
    without_parentheses,
)

from ..plan.join import JoinKind
from ..plan.node import Node
from .aggregated_subqueries import (
    OneRowSubquery,
    aggregate_subquery,
    has_one_row,
    own_columns,
)
from .builder import Builder, Item, has_subquery_call, is_subquery_call
from .clauses import limit_and_offset
from .context import CommonTables, Context, PlanQuery
from .correlation import Correlation, correlation_of
from .expressions import SUBQUERY_CALL, unsupported_error
from .grouping_sets import has_grouping_sets
from .limit_rule import is_limited_per_row
from .memberships import (
    MEMBERSHIP_CALL,
    is_join_membership,
    join_membership_error,
    outermost_calls,
    with_direct_negations,
    with_value,
)
from .outer_domain import find_parameters, plan_domain
from .planned_subquery import PlannedSubquery, column_types, without_limit
from .scalar_subqueries import CorrelatedScalar
from .scope import DecorrelationError, Outer, ResolveSubquery, Scope, as_fields
from .struct_stars import outer_columns
from .subquery_joins import SubqueryJoin
from .time_windows import has_time_window
from .windows import find_windows


class _Kind(Enum):
    SCALAR = auto()
    EXISTS = auto()
    IN = auto()


PlanSubquery: TypeAlias = Callable[[Tree, CommonTables, Outer], PlannedSubquery]
_Joined: TypeAlias = tuple[Node, Sequence[str], PlannedSubquery, Correlation]
"""Rows, their fields with the values before IN, and a subquery that is to be joined with them."""


@dataclass(frozen=True, slots=True)
class _Subquery:
    """A subquery; ``width``: how many arguments of its call are the values before IN.

    ``is_value``: whether it is computed as a value, also where it is a condition of its own.
    ``prepare``: plans it for rows and the arguments of its call.
    """

    kind: _Kind
    tree: Tree
    width: int
    is_value: bool
    prepare: Callable[[Node, Tree], _Joined]


@dataclass
class Subqueries:
    """The subqueries in the expressions of one query; sets itself up with the builder."""

    builder: Builder
    plan: PlanSubquery
    plan_query: PlanQuery
    _subqueries: list[_Subquery] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.builder.attach_values = self.attach_values
        self.builder.attach_condition = self.attach_condition

    def resolver(self, common_tables: CommonTables) -> ResolveSubquery:
        """Return what makes calls of the subqueries in the expressions of one SELECT."""
        # A query that is written twice over the same columns, as in SELECT and GROUP BY, is one.
        calls: dict[tuple[str, tuple[Item, ...]], Tree] = {}

        def resolve(node: Tree, scope: Scope) -> Tree:
            key = text_of(node), scope.items
            if key not in calls:
                calls[key] = self._new_call(common_tables, node, scope)
            return calls[key].copy()

        return resolve

    def _new_call(self, common_tables: CommonTables, node: Tree, scope: Scope) -> Tree:
        """Return an expression of calls that stands for a subquery."""
        kind, query, values = _parts_of(node)
        outer_scope = scope.around_subquery()

        def plan() -> tuple[PlannedSubquery, Outer]:
            outer = outer_columns(self.builder, outer_scope)
            return self.plan(query, common_tables, outer), outer

        try:
            first: list[tuple[PlannedSubquery, Outer]] = [plan()]
            needs_domain = self._needs_domain(kind, node, *first[0])
        except DecorrelationError:
            if any(map(_is_null, values)):
                return self._null_membership(common_tables, node, scope, is_correlated=True)
            return self._call_over_domain(common_tables, node, outer_scope)
        planned, outer = first[0]
        parameters = list(outer.parameters.values())
        if any(map(_is_null, values)):
            return self._null_membership(common_tables, node, scope, is_correlated=bool(parameters))
        if needs_domain:
            return self._call_over_domain(common_tables, node, outer_scope)
        if planned.branches:
            return self._branch_calls(planned, node, scope)

        def prepare(rows: Node, call: Tree) -> _Joined:
            planned, outer = first.pop() if first else plan()
            rows, names = self.builder.compute(rows, call.expressions)
            fields = map(column, names[len(values) :])
            correlation = correlation_of(planned, dict(zip(outer.parameters, fields, strict=True)))
            return rows, names[: len(values)], planned, correlation

        is_value = kind is _Kind.SCALAR or has_one_row(planned)
        subquery = _Subquery(kind, node, len(values), is_value, prepare)
        return self._add_call(subquery, values, parameters)

    def _add_call(
        self, subquery: _Subquery, values: Sequence[Tree], parameters: Sequence[Tree]
    ) -> Tree:
        """Return the call that stands for a subquery, which reads values and parameters."""
        number = len(self._subqueries)
        self._subqueries.append(subquery)
        arguments = [*(value.copy() for value in values), *map(as_fields, parameters)]
        prefix = MEMBERSHIP_CALL if subquery.kind is _Kind.IN else SUBQUERY_CALL
        return exp.Anonymous(this=f"{prefix}{number}", expressions=arguments)

    def _needs_domain(
        self, kind: _Kind, node: Tree, planned: PlannedSubquery, outer: Outer
    ) -> bool:
        """Return whether no join by the conditions of a subquery gives its rows.

        DecorrelationError if it reads outer values after WHERE.
        """
        if planned.branches:
            return kind is _Kind.SCALAR or (kind is _Kind.IN and self._casts_columns(planned))
        select = planned.select
        if select is None:
            return False
        if has_time_window(select):
            return True
        columns = own_columns(planned, select)
        group = select.args.get("group")
        return (
            bool(find_windows(list(select.expressions)))
            or select.args.get("qualify") is not None
            or (group is not None and has_grouping_sets(group))
            or any(select_column.call is not None for select_column in columns)
            or _is_limited(select)
            or (_is_limited_exists(node) and not self._is_limited_per_row(planned, outer))
        )

    def _is_limited_per_row(self, planned: PlannedSubquery, outer: Outer) -> bool:
        values = {name: value for name, value in outer.parameters.items() if is_column(value)}
        data_types = {name: self.builder.type_of(value) for name, value in values.items()}
        return is_limited_per_row(planned.conditions, planned.relation.node, data_types)

    def _call_over_domain(
        self, common_tables: CommonTables, node: Tree, outer_scope: Scope
    ) -> Tree:
        """Return the call that stands for a subquery which is planned for all outer values."""
        kind, query, values = _parts_of(node)
        outer = outer_columns(self.builder, outer_scope)
        find_parameters(
            self.builder, outer, lambda domain: self.plan_query(query, common_tables, domain)
        )

        def prepare(rows: Node, call: Tree) -> _Joined:
            rows, names = self.builder.compute(rows, call.expressions)
            own_values, parameters = names[: len(values)], names[len(values) :]
            rows, parameters = self.builder.as_bytes(rows, parameters)
            domain = plan_domain(self.builder, outer, rows, parameters)
            relation = self.plan_query(query, common_tables, domain)
            if _is_limited_exists(node):
                domain.check_limit(node)
            pairs = zip(parameters, relation.domain, strict=True)
            context = Context(common_tables, self.resolver(common_tables))
            planned = PlannedSubquery(relation, context)
            return rows, own_values, planned, Correlation.of_fields(pairs)

        subquery = _Subquery(kind, node, len(values), kind is _Kind.SCALAR, prepare)
        return self._add_call(subquery, values, list(outer.parameters.values()))

    def _null_membership(
        self, common_tables: CommonTables, node: Tree, scope: Scope, *, is_correlated: bool
    ) -> Tree:
        """Return NULL IN of a subquery: NULL, but FALSE if the subquery has no rows."""
        _, query, values = _parts_of(node)
        if is_correlated or len(values) > 1:
            raise unsupported_error(
                "NULL IN a subquery of several columns, or that compares rows with those of the "
                "query around it",
                "it is never true; write FALSE, and for NOT IN write NOT EXISTS",
                node,
            )
        call = self._new_call(common_tables, exp.Exists(this=query.this.copy()), scope)
        return exp.Case(
            ifs=[exp.If(this=call, true=exp.cast(exp.Null(), "BOOLEAN"))],
            default=exp.Boolean(this=False),
        )

    def _branch_calls(self, planned: PlannedSubquery, node: Tree, scope: Scope) -> Tree:
        """Return EXISTS or IN of a UNION that compares outer values: that of one of its queries."""
        kind, _, _ = _parts_of(node)
        is_in = kind is _Kind.IN
        calls = []
        for branch, _ in planned.branches:
            copied, query = node.copy(), branch.copy()
            copied.set("query" if is_in else "this", exp.Subquery(this=query) if is_in else query)
            calls.append(self._new_call(planned.context.common_tables, copied, scope))
        return exp.Paren(this=disjunction(calls))

    def _casts_columns(self, planned: PlannedSubquery) -> bool:
        """Return whether a UNION casts columns: IN compares them as they are after it."""
        first, *others = (column_types(self.builder, branch) for _, branch in planned.branches)
        return any(data_types != first for data_types in others)

    # Where expressions are computed

    def attach_values(self, node: Node, expressions: Sequence[Tree]) -> tuple[Node, list[Tree]]:
        """Return an operator that has the values of all subqueries, and expressions over it."""
        values = [with_direct_negations(expression) for expression in expressions]
        calls = {text_of(call): call for value in values for call in outermost_calls(value)}
        replacements = []
        for call in calls.values():
            node, value = self._attach_value(node, call)
            replacements.append((call, value))
        # A NOT IN has a value of its own, and is replaced before the same IN.
        for call, value in sorted(replacements, key=lambda pair: not isinstance(pair[0], exp.Not)):
            values = [with_value(tree, call, value) for tree in values]
        # The value of a subquery may have subqueries, too.
        return (
            self.attach_values(node, values)
            if any(map(has_subquery_call, values))
            else (node, values)
        )

    def attach_condition(self, node: Node, condition: Tree) -> tuple[Node, Tree | None]:
        """Return the rows for which a condition can be true, and what is left to filter by."""
        condition = without_parentheses(condition)
        is_negated = isinstance(condition, exp.Not)
        call = without_parentheses(condition.this) if is_negated else condition
        if is_negated and _is_alternative(call):
            return self._attach_all(node, [exp.Not(this=part.copy()) for part in disjuncts(call)])
        if not is_subquery_call(call) or self._of(call).is_value:
            node, (value,) = self.attach_values(node, [condition])
            return node, value
        node, attached = self._attached(node, call)
        assert isinstance(attached, SubqueryJoin)
        if is_negated and is_join_membership(call):
            self._check_never_unknown(node, call, attached)
        kind = JoinKind.ANTI if is_negated else JoinKind.SEMI
        if self._of(call).kind is _Kind.EXISTS:
            return attached.match(node, kind), None
        if is_negated:
            return attached.exclude(node), None
        return attached.match_values(node), None

    def _attach_all(self, node: Node, conditions: Sequence[Tree]) -> tuple[Node, Tree | None]:
        """Return the rows for which all conditions can be true, and what is left to filter by."""
        remaining = []
        for condition in conditions:
            node, rest = self.attach_condition(node, condition)
            remaining += [] if rest is None else [rest]
        return node, conjunction(remaining) if remaining else None

    def _of(self, call: Tree) -> _Subquery:
        return self._subqueries[int(str(call.this).rpartition("_")[2])]

    def _attach_value(self, node: Node, call: Tree) -> tuple[Node, Tree]:
        is_negated = isinstance(call, exp.Not)
        call = without_parentheses(call.this) if is_negated else call
        node, attached = self._attached(node, call)
        if isinstance(attached, SubqueryJoin):
            attached = attached.by_equalities(node)
        if is_negated:
            if is_join_membership(call):
                self._check_never_unknown(node, call, attached)
            return attached.not_in_value(node)
        kind = self._of(call).kind
        if kind is _Kind.IN:
            return attached.in_value(node)
        if kind is _Kind.EXISTS:
            return attached.exists_value(node)
        assert isinstance(attached, SubqueryJoin)
        if attached.planned.select is None:
            return attached.scalar_value(node)
        return CorrelatedScalar(attached, attached.planned.select).attach(node)

    def _check_never_unknown(
        self, node: Node, call: Tree, attached: SubqueryJoin | OneRowSubquery
    ) -> None:
        """Refuse a NOT IN in the condition of a join, unless no value can be NULL."""
        if isinstance(attached, OneRowSubquery) or attached.may_be_unknown(node):
            raise join_membership_error(self._of(call).tree)

    def _attached(self, node: Node, call: Tree) -> tuple[Node, SubqueryJoin | OneRowSubquery]:
        """Return rows with the arguments of a call, and its subquery, which is to be joined."""
        subquery = self._of(call)
        node, values, planned, correlation = subquery.prepare(node, call)
        attached = SubqueryJoin(
            self.builder, subquery.tree, planned, correlation, list(map(column, values))
        )
        if subquery.kind is _Kind.SCALAR:
            return node, attached
        return aggregate_subquery(node, attached, is_exists=subquery.kind is _Kind.EXISTS)


def _parts_of(node: Tree) -> tuple[_Kind, Tree, list[Tree]]:
    """Return the kind of a subquery, its query, and the values before IN."""
    if isinstance(node, exp.In):
        if isinstance(node.args["query"].this, exp.Subquery):
            raise unsupported_error(
                "IN of a query in two pairs of parentheses",
                "Spark takes it for one value; write IN (SELECT …), or = (SELECT …)",
                node,
            )
        left = without_parentheses(node.this)
        return (
            _Kind.IN,
            node.args["query"],
            list(left.expressions) if isinstance(left, exp.Tuple) else [left],
        )
    if isinstance(node, exp.Exists):
        return _Kind.EXISTS, without_limit(node.this), []
    return _Kind.SCALAR, node, []


def _is_alternative(condition: Tree) -> bool:
    """Return whether a condition is an OR of calls that stand for subqueries."""
    return isinstance(condition, exp.Or) and all(map(is_subquery_call, disjuncts(condition)))


def _is_limited_exists(node: Tree) -> bool:
    return isinstance(node, exp.Exists) and _is_limited(node.this)


def _is_limited(query: Tree) -> bool:
    return limit_and_offset(query) != (None, 0)


def _is_null(value: Tree) -> bool:
    value = without_parentheses(value)
    return isinstance(value, exp.Null) or (isinstance(value, exp.Cast) and _is_null(value.this))
