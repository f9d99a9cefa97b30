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
    is_column,
    substituted,
    text_of,
    without_parentheses,
)

from ..plan.join import JoinKind
from ..plan.node import Node
from .builder import Builder, Item, has_subquery_call, is_subquery_call
from .clauses import limit_and_offset
from .expressions import SUBQUERY_CALL, unsupported_error
from .from_clause import CommonTables
from .memberships import MEMBERSHIP_CALL, is_negated_membership, with_direct_negations
from .scalar_subqueries import CorrelatedScalar
from .scope import Outer, ResolveSubquery, Scope, as_fields
from .subquery_joins import (
    PlannedSubquery,
    SubqueryJoin,
    check_limit,
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
    """A subquery; ``width``: how many arguments of its call are the values before IN."""

    kind: _Kind
    tree: Tree
    width: int
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
        kind, query, values = _parts_of(node)
        if any(map(_is_null, values)):
            raise unsupported_error("NULL IN a subquery", "it is true of no row; write NULL", node)
        outer_scope = Scope(scope.items)

        def plan() -> tuple[PlannedSubquery, Outer]:
            outer = Outer(outer_scope, self.builder.namer)
            return self.plan(query, common_tables, outer), outer

        first: list[tuple[PlannedSubquery, Outer]] = [plan()]
        parameters = list(first[0][1].parameters.values())

        def plan_again() -> tuple[PlannedSubquery, tuple[str, ...]]:
            planned, outer = first.pop() if first else plan()
            return planned, tuple(outer.parameters)

        number = len(self._subqueries)
        self._subqueries.append(_Subquery(kind, node, len(values), plan_again))
        arguments = [*(value.copy() for value in values), *map(as_fields, parameters)]
        prefix = MEMBERSHIP_CALL if kind is _Kind.IN else SUBQUERY_CALL
        return exp.Anonymous(this=f"{prefix}{number}", expressions=arguments)

    # Where expressions are computed

    def attach_values(self, node: Node, expressions: Sequence[Tree]) -> tuple[Node, list[Tree]]:
        """Return an operator that has the values of all subqueries, and expressions over it."""
        values = [with_direct_negations(expression) for expression in expressions]
        calls = {text_of(call): call for value in values for call in self._outermost_calls(value)}
        replacements = []
        for call in calls.values():
            node, value = self._attach_value(node, call)
            replacements.append((call, value))
        # A NOT IN has a value of its own, and is replaced before the same IN.
        for call, value in sorted(replacements, key=lambda pair: not isinstance(pair[0], exp.Not)):
            values = [_replaced(tree, call, value) for tree in values]
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
        if not is_subquery_call(call) or self._of(call).kind is _Kind.SCALAR:
            node, (value,) = self.attach_values(node, [condition])
            return node, value
        node, attached = self._attached(node, call)
        kind = JoinKind.ANTI if is_negated else JoinKind.SEMI
        if self._of(call).kind is _Kind.EXISTS:
            return attached.match(node, kind), None
        if is_negated:
            return attached.exclude(node), None
        return attached.match_values(node), None

    def _outermost_calls(self, tree: Tree) -> list[Tree]:
        """Return the calls in an expression, those of IN with the NOT before them."""
        if is_negated_membership(tree) or is_subquery_call(tree):
            return [tree]
        return [call for child in tree.iter_expressions() for call in self._outermost_calls(child)]

    def _of(self, call: Tree) -> _Subquery:
        return self._subqueries[int(str(call.this).rpartition("_")[2])]

    def _attach_value(self, node: Node, call: Tree) -> tuple[Node, Tree]:
        if isinstance(call, exp.Not):
            node, attached = self._attached(node, without_parentheses(call.this))
            return attached.not_in_value(node)
        node, attached = self._attached(node, call)
        kind = self._of(call).kind
        if kind is _Kind.IN:
            return attached.in_value(node)
        if kind is _Kind.EXISTS:
            return attached.exists_value(node)
        if attached.planned.select is None:
            return attached.scalar_value(node)
        return CorrelatedScalar(attached, attached.planned.select).attach(node)

    def _attached(self, node: Node, call: Tree) -> tuple[Node, SubqueryJoin]:
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
        return node, SubqueryJoin(
            self.builder, subquery.tree, planned, correlation, values[: subquery.width]
        )


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


def _is_limited(query: Tree) -> bool:
    return limit_and_offset(query) != (None, 0)


def _is_null(value: Tree) -> bool:
    value = without_parentheses(value)
    return isinstance(value, exp.Null) or (isinstance(value, exp.Cast) and _is_null(value.this))


def _replaced(tree: Tree, call: Tree, value: Tree) -> Tree:
    """Return an expression in which a value replaces a call."""
    return substituted(tree, lambda node: exp.Paren(this=value.copy()) if node == call else None)
