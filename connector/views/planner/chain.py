"""The inputs of one FROM, joined from the left to the right, and its WHERE on the way.

Promises: a condition is told as early as its columns are there, but never where a RIGHT or FULL
join to come would give back the rows that it takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from relstate.connector.syntax.tree import Tree, column

from ..plan.node import Node
from ..plan.stateful import JoinKind
from .builder import Builder, Item, Relation, covers
from .expressions import refused
from .joining import is_equality, joined
from .scope import Scope

_MOVING = (JoinKind.RIGHT, JoinKind.FULL)


@dataclass(frozen=True, slots=True)
class Step:
    """A further input: how it is joined and on what, over names of the query.

    ``using``: names; none of them are all that both sides have; None where there is no USING.
    """

    relation: Relation
    kind: JoinKind
    on: tuple[Tree, ...]
    using: tuple[str, ...] | None
    tree: Tree


@dataclass
class Chain:
    """The inputs of one FROM, joined from the left to the right."""

    builder: Builder
    first: Relation
    steps: Sequence[Step]

    def joined(self, where: Sequence[Tree]) -> Relation:
        """Return the rows of all inputs together for which all conditions are true."""
        # Before its last RIGHT or FULL join no condition of WHERE may take rows from the left.
        open_from = max((n for n, s in enumerate(self.steps, 1) if s.kind in _MOVING), default=0)
        relation, waiting = self.first, self._resolved(self.first, 0, where, open_from == 0)
        relation, waiting = self._filtered(relation, waiting)
        for number, step in enumerate(self.steps, 1):
            if number == open_from and step.kind is JoinKind.RIGHT:
                waiting = self._resolved(relation, number - 1, where)
            relation, taken = self._step(relation, step, waiting)
            if number == open_from and step.kind is JoinKind.FULL:
                waiting = self._resolved(relation, number, where)
            waiting = [one for one in waiting if one not in taken]
            relation, waiting = self._filtered(relation, waiting)
        # What reads no column is told in the end.
        return replace(relation, node=self.builder.filtered(relation.node, waiting))

    def _resolved(
        self, relation: Relation, done: int, where: Sequence[Tree], now: bool = True
    ) -> list[Tree]:
        """Return the conditions over fields, as names stand behind all joins; none if not now."""
        items = relation.items
        for step in self.steps[done:]:
            items = _items(items, step)[0]
        return [Scope(items).resolved(one) for one in where] if now else []

    def _filtered(self, relation: Relation, waiting: Sequence[Tree]) -> tuple[Relation, list[Tree]]:
        now = [one for one in waiting if covers(relation.node.names, one)]
        node = self.builder.filtered(relation.node, now)
        return replace(relation, node=node), [one for one in waiting if one not in now]

    def _step(
        self, left: Relation, step: Step, waiting: Sequence[Tree]
    ) -> tuple[Relation, list[Tree]]:
        """Return the join with one more input, and the conditions of WHERE that it has taken in."""
        items, equalities = _items(left.items, step)
        scope = Scope((*left.items, *step.relation.items))
        on = [*equalities, *(scope.resolved(one) for one in step.on)]
        right = step.relation.node
        taken: list[Tree] = []
        if step.kind is JoinKind.INNER:
            taken = [
                one
                for one in waiting
                if is_equality(one, left.node, right) or covers(right.names, one)
            ]
        elif step.kind is JoinKind.RIGHT:
            taken = [one for one in waiting if covers(right.names, one)]
            right = self.builder.filtered(right, taken)
        conditions = [*on, *taken] if step.kind is JoinKind.INNER else on
        node, above = joined(self.builder, left.node, right, step.kind, conditions, step.tree)
        result: Node = self.builder.filtered(node, above)
        if step.kind is JoinKind.FULL and equalities:
            # Where one side is missing the column is the other's: the key's.
            count = len(equalities)
            merged = [
                replace(item, field=key.field.name)
                for item, key in zip(items[:count], node.keys[:count], strict=True)
            ]
            items = (*merged, *items[count:])
        return Relation(result, items), taken


def _items(left: tuple[Item, ...], step: Step) -> tuple[tuple[Item, ...], list[Tree]]:
    """Return the columns of a join in the order of ``*``, and the equalities that USING says."""
    right = step.relation.items
    pairs = step.kind.gives_pairs
    if step.using is None:
        return (*left, *(right if pairs else ())), []
    ours, theirs = Scope(left), Scope(right)
    names = step.using or _common_names(left, right)
    columns = [(ours.item(name), theirs.item(name)) for name in names]
    found = [(one, other) for one, other in columns if one is not None and other is not None]
    if len(found) < len(names) or not found:
        raise refused("this join", "each side needs one column of every name in common", step.tree)
    equalities: list[Tree] = [
        exp.EQ(this=column(one.field), expression=column(other.field)) for one, other in found
    ]
    if not pairs:
        return left, equalities
    kept = [other if step.kind is JoinKind.RIGHT else one for one, other in found]
    merged = [Item(one.name, side.field) for (one, _), side in zip(found, kept, strict=True)]
    hidden = {item for pair in found for item in pair}
    rest = [replace(item, is_behind=True) if item in hidden else item for item in (*left, *right)]
    return (*merged, *rest), equalities


def _common_names(left: Sequence[Item], right: Sequence[Item]) -> tuple[str, ...]:
    theirs = {(item.name or "").lower() for item in right if not item.is_behind}
    return tuple(
        item.name
        for item in left
        if item.name and not item.is_behind and item.name.lower() in theirs
    )
