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
from .aggregated_subqueries import OneRowSubquery, aggregate_subquery, has_one_row
from .builder import Builder, Item, has_subquery_call, is_subquery_call
from .clauses import limit_and_offset
from .expressions import SUBQUERY_CALL, unsupported_error
from .from_clause import CommonTables
from .memberships import MEMBERSHIP_CALL, outermost_calls, with_direct_negations, with_value
from .scalar_subqueries import CorrelatedScalar
from .scope import Outer, ResolveSubquery, Scope, as_fields
from .subquery_joins import (
    PlannedSubquery,
    SubqueryJoin,
    check_limit,
    column_types,
    correlation_of,
    without_limit,
)


class _Kind(Enum):
    SCALAR = auto()
    EXISTS = auto()
    IN = auto()


PlanSubquery: TypeAlias = Callable[[Tree, CommonTables, Outer], PlannedSubquery]


@dataclass(frozen=True, slots=True)
class _Subquery:
    """A subquery; ``width``: how many arguments of its call are the values before IN.

    ``is_value``: whether it is computed as a value, also where it is a condition of its own.
    """

    kind: _Kind
    tree: Tree
    width: int
    is_value: bool
    plan: Callable[[], tuple[PlannedSubquery, tuple[str, ...]]]


@dataclass
class Subqueries:
    """The subqueries in the expressions of one query; sets itself up with the builder."""

    builder: Builder
    plan: PlanSubquery
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
        outer_scope = Scope(scope.items)

        def plan() -> tuple[PlannedSubquery, Outer]:
            outer = Outer(outer_scope, self.builder.namer)
            return self.plan(query, common_tables, outer), outer

        first: list[tuple[PlannedSubquery, Outer]] = [plan()]
        planned, outer = first[0]
        parameters = list(outer.parameters.values())
        if any(map(_is_null, values)):
            return self._null_membership(common_tables, node, scope, is_correlated=bool(parameters))
        if planned.branches:
            return self._branch_calls(planned, node, scope)

        def plan_again() -> tuple[PlannedSubquery, tuple[str, ...]]:
            planned, outer = first.pop() if first else plan()
            return planned, tuple(outer.parameters)

        number = len(self._subqueries)
        is_value = kind is _Kind.SCALAR or has_one_row(planned)
        self._subqueries.append(_Subquery(kind, node, len(values), is_value, plan_again))
        arguments = [*(value.copy() for value in values), *map(as_fields, parameters)]
        prefix = MEMBERSHIP_CALL if kind is _Kind.IN else SUBQUERY_CALL
        return exp.Anonymous(this=f"{prefix}{number}", expressions=arguments)

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
        if kind is _Kind.SCALAR:
            raise unsupported_error(
                "a scalar subquery over a UNION that compares rows with those of the query around "
                "it",
                "write one subquery for each query of the UNION",
                node,
            )
        is_in = kind is _Kind.IN
        if is_in:
            self._check_types(planned, node)
        calls = []
        for branch, _ in planned.branches:
            copied, query = node.copy(), branch.copy()
            copied.set("query" if is_in else "this", exp.Subquery(this=query) if is_in else query)
            calls.append(self._new_call(planned.context.common_tables, copied, scope))
        return exp.Paren(this=disjunction(calls))

    def _check_types(self, planned: PlannedSubquery, node: Tree) -> None:
        """Refuse a UNION that casts columns: IN compares them as they are after it."""
        first, *others = (column_types(self.builder, branch) for _, branch in planned.branches)
        if any(data_types != first for data_types in others):
            raise unsupported_error(
                "IN over a UNION of columns of different types, that compares rows with those of "
                "the query around it",
                "CAST the columns of its queries to the same types",
                node,
            )

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

    def _attached(self, node: Node, call: Tree) -> tuple[Node, SubqueryJoin | OneRowSubquery]:
        """Return rows with the arguments of a call, and its subquery, which is to be joined."""
        subquery = self._of(call)
        planned, parameters = subquery.plan()
        node, names = self.builder.compute(node, call.expressions)
        values = [column(name) for name in names]
        is_exists = subquery.kind is _Kind.EXISTS
        if planned.select is not None and _is_limited(
            subquery.tree.this if is_exists else planned.select
        ):
            read = call.expressions[subquery.width :]
            outer_types = {
                parameter: node.type_of(name)
                for parameter, name, tree in zip(
                    parameters, names[subquery.width :], read, strict=True
                )
                if is_column(tree)
            }
            if not is_exists or _is_limited(planned.select):
                outer_types = {}
            check_limit(planned, outer_types, subquery.tree)
        outer_values = dict(zip(parameters, values[subquery.width :], strict=True))
        correlation = correlation_of(planned, outer_values)
        attached = SubqueryJoin(
            self.builder, subquery.tree, planned, correlation, values[: subquery.width]
        )
        if subquery.kind is _Kind.SCALAR:
            return node, attached
        return aggregate_subquery(node, attached, is_exists=is_exists)


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


def _is_limited(query: Tree) -> bool:
    return limit_and_offset(query) != (None, 0)


def _is_null(value: Tree) -> bool:
    value = without_parentheses(value)
    return isinstance(value, exp.Null) or (isinstance(value, exp.Cast) and _is_null(value.this))
