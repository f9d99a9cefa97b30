"""The inputs of a FROM joined with each other, with the conditions of WHERE applied early.

Promises: inner joins are joined by equalities as far as there are any, in whatever order the inputs
and the conditions are written; the columns keep the order of the inputs.
Does not know: what the inputs are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TypeAlias

from sqlglot import exp

from relstate.connector.syntax.tree import Tree, column, columns_of, without_parentheses

from ..plan.join import Join, JoinKind
from ..plan.node import Node
from .asof_join import plan_asof_join
from .builder import Builder, Item, Relation, reads_only
from .collations import is_collated
from .expressions import unsupported_error
from .join_conditions import factor_condition, is_equality, plan_join
from .memberships import with_join_memberships
from .scope import Scope

_KEEPS_RIGHT_ROWS = (JoinKind.RIGHT, JoinKind.FULL)


ScopeOf: TypeAlias = Callable[[tuple[Item, ...]], Scope]
"""Returns the scope of expressions over columns."""


@dataclass(frozen=True, slots=True)
class JoinStep:
    """One more input, its kind of join, and its conditions over names of the query.

    ``using``: column names; empty for all names that both sides have; None without USING.
    ``match``: the MATCH_CONDITION of an ASOF JOIN; None for any other.
    """

    relation: Relation
    kind: JoinKind
    on: tuple[Tree, ...]
    using: tuple[str, ...] | None
    tree: Tree
    match: Tree | None = None

    @property
    def is_plain_inner(self) -> bool:
        """Whether it gives pairs with the columns of both sides, and nothing else."""
        return self.kind is JoinKind.INNER and self.using is None and self.match is None


@dataclass
class JoinChain:
    """The inputs of one FROM, joined from left to right; inner joins in the order that suits.

    ``scope``, ``where_scope``: of ON and of WHERE. ON of an inner join is a part of WHERE unless a
    RIGHT or FULL join comes after it.
    """

    builder: Builder
    first: Relation
    steps: Sequence[JoinStep]
    scope: ScopeOf
    where_scope: ScopeOf

    def plan(self, where: Sequence[Tree]) -> tuple[Relation, list[Tree]]:
        """Return the joined rows of all inputs, and the conditions that are still to be applied.

        Those read no column, or fields of no input. The others of ``where`` are true for the rows.
        """
        # Below the last RIGHT or FULL join, WHERE must not remove rows of the left side.
        open_from = max(
            (number for number, step in enumerate(self.steps, 1) if step.kind in _KEEPS_RIGHT_ROWS),
            default=0,
        )
        relation, pending = (
            self.first,
            self._resolve_conditions(self.first, 0, where, open_from == 0),
        )
        relation, pending = self._apply_conditions(relation, pending)
        number = 0
        while number < len(self.steps):
            run = self._inner_run(number)
            if run:
                on_scope = self.where_scope if number >= open_from else self.scope
                relation, pending = self._join_run(relation, run, pending, on_scope)
                number += len(run)
                continue
            step, number = self.steps[number], number + 1
            if number == open_from and step.kind is JoinKind.RIGHT:
                pending = self._resolve_conditions(relation, number - 1, where)
            relation, used = self._join_step(relation, step, pending)
            if number == open_from and step.kind is JoinKind.FULL:
                pending = self._resolve_conditions(relation, number, where)
            relation, pending = self._apply_conditions(relation, _without(pending, used))
        return relation, pending

    def inner_conditions(self) -> list[Tree]:
        """Return the conditions after ON of the inner joins, over fields."""
        items, conditions = self.first.items, []
        for step in self.steps:
            if step.is_plain_inner:
                scope = self.scope((*items, *step.relation.items))
                conditions += [scope.resolve(condition) for condition in step.on]
            items = _join_items(items, step)[0]
        return conditions

    def _resolve_conditions(
        self, relation: Relation, joined_steps: int, where: Sequence[Tree], is_due: bool = True
    ) -> list[Tree]:
        """Return the conditions over fields, resolved after all joins; empty if not ``is_due``."""
        items = relation.items
        for step in self.steps[joined_steps:]:
            items = _join_items(items, step)[0]
        return resolve_all(self.where_scope(items), where) if is_due else []

    def _apply_conditions(
        self, relation: Relation, pending: Sequence[Tree]
    ) -> tuple[Relation, list[Tree]]:
        ready = [condition for condition in pending if reads_only(relation.node.names, condition)]
        node = self.builder.filter(relation.node, ready)
        return replace(relation, node=node), _without(pending, ready)

    # Inner joins

    def _inner_run(self, number: int) -> list[JoinStep]:
        """Return the steps from one on that may be joined in any order."""
        return list(takewhile(lambda step: step.is_plain_inner, self.steps[number:]))

    def _join_run(
        self, left: Relation, steps: Sequence[JoinStep], pending: Sequence[Tree], on_scope: ScopeOf
    ) -> tuple[Relation, list[Tree]]:
        """Return the inner joins of several inputs, and the conditions that they have not used.

        Inputs are joined by equalities as far as there are any, whatever their order.
        """
        items = left.items
        names = left.node.names
        inputs: list[_Input] = []
        for step in steps:
            sides = [set(names), set(step.relation.node.names)]
            names += step.relation.node.names
            items = (*items, *step.relation.items)
            conditions = _on_conditions(on_scope(items), step, sides)
            inputs.append(_Input(step.relation.node, conditions))
        joined = _Input(left.node, list(pending))
        joined = self._join_equal(joined, inputs)
        while inputs:
            # No equality is left with it: its own component is complete before all pairs are made.
            component = self._join_equal(inputs.pop(0), inputs)
            joined = self._join_equal(self._join_pair(joined, component, inputs), inputs)
        return Relation(joined.node, items), joined.conditions

    def _join_equal(self, left: _Input, inputs: list[_Input]) -> _Input:
        """Return an input joined with all of ``inputs`` that equalities reach; removes them."""
        while True:
            conditions = [part for joined in (left, *inputs) for part in joined.conditions]
            right = next(
                (
                    candidate
                    for candidate in inputs
                    if any(is_equality(c, left.node, candidate.node) for c in conditions)
                ),
                None,
            )
            if right is None:
                return left
            inputs.remove(right)
            left = self._join_pair(left, right, inputs)

    def _join_pair(self, left: _Input, right: _Input, later: Sequence[_Input]) -> _Input:
        """Return the join of two inputs by the conditions that read nothing else.

        ``later``: the inputs that are to be joined; an equality may be among their conditions.
        """
        names = {*left.node.names, *right.node.names}
        own = [condition for condition in right.conditions if columns_of(condition) <= names]
        pending = [*left.conditions, *_without(right.conditions, own)]
        for later_input in later:
            pending += [
                condition
                for condition in later_input.conditions
                if is_equality(condition, left.node, right.node)
            ]
        used = [
            condition
            for condition in pending
            if is_equality(condition, left.node, right.node)
            or reads_only(right.node.names, condition)
        ]
        node, remaining = plan_join(
            self.builder, left.node, right.node, JoinKind.INNER, [*own, *used]
        )
        filtered = self.builder.filter(node, remaining)
        for later_input in later:
            later_input.conditions[:] = _without(later_input.conditions, used)
        pending = _without(pending, used)
        ready = [condition for condition in pending if reads_only(filtered.names, condition)]
        return _Input(self.builder.filter(filtered, ready), _without(pending, ready))

    # Other joins

    def _join_step(
        self, left: Relation, step: JoinStep, pending: Sequence[Tree]
    ) -> tuple[Relation, list[Tree]]:
        """Return the join with one more input, and the conditions of WHERE that it has used."""
        items, equalities = _join_items(left.items, step)
        scope = self.scope((*left.items, *step.relation.items))
        right = step.relation.node
        sides = [set(left.node.names), set(right.names)]
        on = [*equalities, *_on_conditions(scope, step, sides)]
        used: list[Tree] = []
        if step.match is not None:
            match = without_parentheses(scope.resolve(step.match))
            nearest = plan_asof_join(self.builder, left.node, right, step.kind, on, match)
            return Relation(nearest, items), used
        if step.kind is JoinKind.INNER:
            used = [
                condition
                for condition in pending
                if is_equality(condition, left.node, right) or reads_only(right.names, condition)
            ]
        elif step.kind is JoinKind.RIGHT:
            used = [condition for condition in pending if reads_only(right.names, condition)]
            right = self.builder.filter(right, used)
        conditions = [*on, *used] if step.kind is JoinKind.INNER else on
        node, remaining = plan_join(self.builder, left.node, right, step.kind, conditions)
        result: Node = self.builder.filter(node, remaining)
        if step.kind is JoinKind.FULL and equalities:
            # If one side has no row, the column has the value of the other: the key field has both.
            count = len(equalities)
            compared = [side.name for e in equalities for side in (e.this, e.expression)]
            is_by_collation = any(is_collated(node.type_of(name)) for name in compared)
            if isinstance(node, Join) and len(node.keys) == count and not is_by_collation:
                names: Sequence[str] = [key.field.name for key in node.keys]
            else:
                values = [
                    exp.Anonymous(this="coalesce", expressions=[e.this.copy(), e.expression.copy()])
                    for e in equalities
                ]
                result, names = self.builder.compute(result, values)
            merged = [
                replace(item, field=name) for item, name in zip(items[:count], names, strict=True)
            ]
            items = (*merged, *items[count:])
            self.builder.remember_types(result)
        return Relation(result, items), used


@dataclass(frozen=True, slots=True)
class _Input:
    """An operator of a run of inner joins, and conditions over fields that are to be applied."""

    node: Node
    conditions: list[Tree]


def resolve_all(scope: Scope, conditions: Sequence[Tree]) -> list[Tree]:
    """Return conditions over fields; what the branches of an OR have in common is one of them."""
    return [part for condition in conditions for part in factor_condition(scope.resolve(condition))]


def _on_conditions(scope: Scope, step: JoinStep, sides: Sequence[Set[str]]) -> list[Tree]:
    """Return the conditions after ON over fields; ``sides``: the fields of both inputs.

    Spark evaluates those that read both within the join, others below it.
    """
    return [
        condition
        if any(columns_of(condition) <= side for side in sides)
        else with_join_memberships(condition)
        for condition in resolve_all(scope, step.on)
    ]


def _without(conditions: Sequence[Tree], removed: Sequence[Tree]) -> list[Tree]:
    """Return the conditions that are not among others, compared by identity."""
    ids = set(map(id, removed))
    return [condition for condition in conditions if id(condition) not in ids]


def _join_items(left: tuple[Item, ...], step: JoinStep) -> tuple[tuple[Item, ...], list[Tree]]:
    """Return the columns of a join in the order of ``*``, and the equalities of its USING."""
    right = step.relation.items
    pairs = step.kind.gives_pairs
    names = () if step.using is None else step.using or _common_names(left, right)
    if not names:  # also of a NATURAL JOIN of sides that have no name in common
        return (*left, *(right if pairs else ())), []
    columns = [(_first_item(left, name), _first_item(right, name)) for name in names]
    matches = [(l_item, r_item) for l_item, r_item in columns if l_item and r_item]
    if len(matches) < len(names):
        raise unsupported_error(
            "this join", "each side needs a column of every name in common", step.tree
        )
    equalities: list[Tree] = [
        exp.EQ(this=column(l_item.field), expression=column(r_item.field))
        for l_item, r_item in matches
    ]
    if not pairs:
        return left, equalities
    is_right = step.kind is JoinKind.RIGHT
    merged = [
        Item(l_item.name, (r_item if is_right else l_item).field) for l_item, r_item in matches
    ]
    hidden = {item for pair in matches for item in pair}
    items = [replace(item, is_hidden=True) if item in hidden else item for item in (*left, *right)]
    return (*merged, *items), equalities


def _first_item(items: Sequence[Item], name: str) -> Item | None:
    """Return the first visible column of a name, which Spark takes of several; None without one."""
    visible = (item for item in items if not item.is_hidden)
    return next((item for item in visible if (item.name or "").lower() == name.lower()), None)


def _common_names(left: Sequence[Item], right: Sequence[Item]) -> tuple[str, ...]:
    """Return the names that both sides have; one that both have n times is there n times."""
    counts = Counter((item.name or "").lower() for item in right if not item.is_hidden)
    names = []
    for item in left:
        name = (item.name or "").lower()
        if name and not item.is_hidden and counts[name]:
            counts[name] -= 1
            names.append(item.name or "")
    return tuple(names)
