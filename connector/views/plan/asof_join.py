"""The ASOF join operator: each left row with the nearest right row that agrees with it.

Does not know: how it is maintained (executor).
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Any

from relstate.storage import types
from relstate.vnode import cached_property

from .broadcast_join import Comparator, Comparison
from .join import JoinKey, JoinKind, JoinNode
from .node import FieldsOf, Json, Names, Node, ReadNode, read_list, require


@dataclass(frozen=True)
class AsofJoin(JoinNode):
    """The pairs of each left row and the nearest right row with equal keys.

    Right rows are compared by ``comparison``: of those for which it is true the nearest is the one
    whose value is the greatest (``>``, ``>=``) or the least (``<``, ``<=``), and among equal values
    the first in the order of their keys. A left join keeps left rows without such a row.
    """

    operator = "asof_join"

    keys: tuple[JoinKey, ...]
    comparison: Comparison

    @cached_property
    def fields(self) -> tuple[types.Field, ...]:
        """The inputs' fields."""
        return (*self.left.fields, *self.right.fields)

    @cached_property
    def key(self) -> Names:
        """The distribution and the left key."""
        return tuple(dict.fromkeys((*(self.distribution or ()), *self.left.key)))

    @cached_property
    def distribution(self) -> Names | None:
        """The left fields of the keys; None if two of them are the same."""
        names = tuple(key.left for key in self.keys)
        return names if len(set(names)) == len(names) else None

    @property
    def input_distribution(self) -> Names:
        """The keys' fields, which are added to every input row before the executor."""
        return tuple(key.field.name for key in self.keys)

    @property
    def is_append_only(self) -> bool:
        """False: an inserted right row can take the place of another one."""
        return False

    @property
    def is_strict(self) -> bool:
        """Whether equal values do not match."""
        return self.comparison.comparator in (Comparator.LESS, Comparator.GREATER)

    @property
    def is_backward(self) -> bool:
        """Whether right rows with lesser values match, of which the greatest is the nearest."""
        return self.comparison.comparator in (Comparator.GREATER, Comparator.AT_LEAST)

    def prune(self, read: Set[str], fields_of: FieldsOf) -> Node:
        """Return the join of the fields that are read of each side, by the join or above it."""
        needed = {*read, *self.key, *self.comparison.sides}
        left = needed & set(self.left.names) | {key.left for key in self.keys}
        right = needed & set(self.right.names) | {key.right for key in self.keys}
        return self.with_children(
            [self.left.prune(left, fields_of), self.right.prune(right, fields_of)]
        )

    @property
    def explain_line(self) -> str:
        """``AsofJoin kind ON a = b, the nearest with x >= y``."""
        keys = " AND ".join(map(str, self.keys))
        cost = "a changed right row costs the left rows that are nearest to it"
        return f"AsofJoin {self.kind} ON {keys}, the nearest with {self.comparison}, {cost}"

    def to_json(self) -> dict[str, Any]:
        """Return the plan from here down as JSON values."""
        return {
            "operator": self.operator,
            "left": self.left.to_json(),
            "right": self.right.to_json(),
            "kind": str(self.kind),
            "keys": [key.to_json() for key in self.keys],
            "comparison": self.comparison.to_json(),
        }

    @classmethod
    def from_json(cls, value: Json, read: ReadNode) -> Node:
        """Return the join that `to_json` described."""
        return cls(
            read(value["left"]),
            read(value["right"]),
            JoinKind(value["kind"]),
            tuple(map(JoinKey.from_json, read_list(value["keys"]))),
            Comparison.from_json(value["comparison"]),
        )

    def check(self) -> None:
        """ValueError, too, if a key or the comparison does not fit the inputs."""
        require(self.kind in (JoinKind.INNER, JoinKind.LEFT), f"an ASOF join is {self.kind}")
        require(bool(self.keys), "an ASOF join has no key")
        for key in self.keys:
            sides = self.left.type_of(key.left), self.right.type_of(key.right)
            require(sides == (key.field.type,) * 2, f"the types of the join key {key} differ")
        compared = self.comparison
        sides = self.left.type_of(compared.left), self.right.type_of(compared.right)
        require(sides[0] == sides[1], f"the types of {compared} differ")
        require(compared.comparator is not Comparator.EQUAL, "an ASOF join compares by equality")
        super().check()
