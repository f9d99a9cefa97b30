"""How the rows of a subquery depend on a row of the query around it.

Promises: an equality of a value of each side is kept apart from other conditions.
Does not know: which join a subquery becomes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    column,
    columns_of,
    substituted,
    without_parentheses,
)

from ..plan.node import Node
from .builder import Builder
from .compared_values import join_compared_values
from .planned_subquery import PlannedSubquery


@dataclass(frozen=True, slots=True)
class Equality:
    """A value of the outer query, and one of the subquery, that must be equal."""

    outer: Tree
    inner: Tree
    is_null_safe: bool = False

    @property
    def condition(self) -> Tree:
        """The equality as a condition."""
        kind = exp.NullSafeEQ if self.is_null_safe else exp.EQ
        return kind(this=self.outer.copy(), expression=self.inner.copy())


@dataclass(frozen=True, slots=True)
class Correlation:
    """How the rows of a subquery depend on a row of the outer query; both sides over fields."""

    equalities: Sequence[Equality]
    others: Sequence[Tree]

    @classmethod
    def of_fields(cls, pairs: Iterable[tuple[str, str]]) -> Self:
        """Return the correlation by equal fields (outer, inner), where NULL equals NULL."""
        return cls([Equality(column(outer), column(inner), True) for outer, inner in pairs], ())

    @property
    def conditions(self) -> list[Tree]:
        """All conditions."""
        return [*(equality.condition for equality in self.equalities), *self.others]


def correlation_of(planned: PlannedSubquery, outer_values: Mapping[str, Tree]) -> Correlation:
    """Return the conditions of a subquery with fields of the outer query for its parameters."""
    equalities, others = [], []
    names = set(planned.relation.node.names)
    for condition in planned.conditions:
        sides = _sides(condition, names)
        if sides is None:
            others.append(with_outer_values(condition, outer_values))
        else:
            inner, outer = sides
            is_null_safe = isinstance(condition, exp.NullSafeEQ)
            equalities.append(Equality(with_outer_values(outer, outer_values), inner, is_null_safe))
    return Correlation(equalities, others)


def compare_by_equalities(
    builder: Builder, outer: Node, inner: Node, correlation: Correlation
) -> tuple[Node, Correlation]:
    """Return the rows of a subquery, and a correlation with the outer rows without ``others``."""
    if not correlation.others:
        return inner, correlation
    inner, pairs = join_compared_values(builder, outer, inner, correlation.conditions)
    equalities = [Equality(value, column(field), True) for value, field in pairs]
    return inner, Correlation(equalities, ())


def with_outer_values(tree: Tree, values: Mapping[str, Tree]) -> Tree:
    """Return an expression of a subquery with the values of the outer query for parameters."""

    def replacement(node: Tree) -> Tree | None:
        value = values.get(node.name) if isinstance(node, exp.Column) else None
        return None if value is None else value.copy()

    return substituted(tree, replacement)


def _sides(condition: Tree, names: set[str]) -> tuple[Tree, Tree] | None:
    """Return the two sides of an equality, that of the subquery first; None if it is not one."""
    if not isinstance(condition, exp.EQ | exp.NullSafeEQ):
        return None
    first, second = without_parentheses(condition.this), without_parentheses(condition.expression)
    for inner, outer in ((first, second), (second, first)):
        reads = columns_of(inner)
        if reads and reads <= names and columns_of(outer).isdisjoint(names):
            return inner, outer
    return None
