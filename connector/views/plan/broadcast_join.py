"""The broadcast join operator: the rows of two inputs that are joined without an equality.

Does not know: how it is maintained (executor).
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from relstate.storage import types
from relstate.vnode import cached_property

from .join import (
    JoinKind,
    JoinNode,
    check_presence,
    read_presence,
)
from .node import (
    Expression,
    FieldsOf,
    Json,
    Names,
    Node,
    ReadNode,
    check_names,
    read_flag,
    read_list,
    read_names,
    read_optional,
    read_text,
    require,
)


class Comparator(StrEnum):
    """How two values are compared."""

    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="
    EQUAL = "="

    @property
    def mirrored(self) -> Comparator:
        """The comparator that holds between the values in the other order."""
        return _MIRRORED.get(self, self)


_MIRRORED = {
    Comparator.LESS: Comparator.GREATER,
    Comparator.GREATER: Comparator.LESS,
    Comparator.AT_MOST: Comparator.AT_LEAST,
    Comparator.AT_LEAST: Comparator.AT_MOST,
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """``left comparator right``, between a field of each input, both of one type.

    It is not true if one of them is NULL.
    """

    left: str
    comparator: Comparator
    right: str

    def __str__(self) -> str:
        return f"{self.left} {self.comparator} {self.right}"

    @property
    def sides(self) -> tuple[str, str]:
        """The field of the left input, and that of the right one."""
        return self.left, self.right

    def to_json(self) -> list[Any]:
        """Return the comparison as JSON values. On disk: never change."""
        return [self.left, str(self.comparator), self.right]

    @classmethod
    def from_json(cls, value: Any) -> Comparison:
        """Return the comparison that `to_json` described."""
        left, comparator, right = value
        return cls(read_text(left), Comparator(read_text(comparator)), read_text(right))


@dataclass(frozen=True)
class BroadcastJoin(JoinNode):
    """The pairs of rows of two inputs for which all comparisons and a condition are true.

    ``condition``: the residual condition in Spark's SQL over the fields of both; None if there are
    only comparisons, as always in an inner join (a filter above has the rest). ``presence``: as of
    `Join`. ``has_one_row``: the right input has one row at most. ``hidden``: fields that only the
    comparisons read; the result does not have them. A right join is a left join of the inputs in
    the other order.
    """

    operator = "broadcast_join"

    comparisons: tuple[Comparison, ...] = ()
    condition: str | None = None
    presence: tuple[str, str] | None = None
    has_one_row: bool = False
    hidden: Names = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        is_inner = self.kind is JoinKind.INNER
        require(not is_inner or self.condition is None, "an inner join has a condition")

    @cached_property
    def fields(self) -> tuple[types.Field, ...]:
        """The left fields and, if the join gives pairs, the right ones; without the hidden ones."""
        left, right = self.visible
        return (*left, *(right if self.kind.gives_pairs else ()))

    @cached_property
    def visible(self) -> tuple[tuple[types.Field, ...], tuple[types.Field, ...]]:
        """The fields of the left and of the right input that are not hidden."""
        left, right = (
            tuple(field for field in side.fields if field.name not in self.hidden)
            for side in self.children
        )
        return left, right

    @cached_property
    def key(self) -> Names:
        """The keys of the inputs; that of the left one alone if its rows match one row at most."""
        is_left_alone = self.has_one_row or not self.kind.gives_pairs
        right = () if is_left_alone else self.right.key
        return tuple(dict.fromkeys((*(self.presence or ()), *self.left.key, *right)))

    @cached_property
    def distribution(self) -> Names | None:
        """The key of the left input; None if rows of the result may be anywhere."""
        if self.kind is JoinKind.FULL or (self.kind is JoinKind.INNER and not self.has_one_row):
            return None
        return self.left.key

    @property
    def input_distribution(self) -> Names:
        """The key of the left input.

        Changes of that input go by it if the right one has one row at most, else to all units.
        """
        return self.left.key

    def order_of(self, side: int) -> str | None:
        """Return the field by which the rows of a side, 0 or 1, are ordered.

        It is the one that the most bounds are compared with; None without comparisons.
        """
        bounds: dict[str, int] = {}
        for comparison in self.comparisons:
            count = 2 if comparison.comparator is Comparator.EQUAL else 1
            name = comparison.sides[side]
            bounds[name] = bounds.get(name, 0) + count
        return max(bounds, key=bounds.__getitem__, default=None)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The residual condition, if there is one."""
        return () if self.condition is None else (Expression(self.condition, types.Boolean()),)

    def prune(self, read: Set[str], fields_of: FieldsOf) -> Node:
        """Return the join of the fields that are read; what only comparisons read is hidden."""
        needed = {*read, *self.key, *self.right.key}
        if self.condition is not None:
            needed |= fields_of(self.condition)
        compared = dict.fromkeys(name for pair in self.comparisons for name in pair.sides)
        left, right = (
            side.prune((needed | set(compared)) & set(side.names), fields_of)
            for side in self.children
        )
        hidden = tuple(name for name in compared if name not in needed)
        return replace(self, left=left, right=right, hidden=hidden)

    @property
    def explain_line(self) -> str:
        """``Join kind ON a < b AND (condition) by broadcast, a change costs …``."""
        conditions = [str(comparison) for comparison in self.comparisons]
        if self.condition is not None:
            conditions.append(f"({self.condition})")
        on = f" ON {' AND '.join(conditions)}" if conditions else ""
        rows = " with one row" if self.has_one_row else " of all pairs" if not on else ""
        return f"Join {self.kind}{rows}{on} by broadcast, {self._cost}"

    @property
    def _cost(self) -> str:
        orders = [order for order in map(self.order_of, range(2)) if order is not None]
        if self.has_one_row:
            rows = (
                f"the rows that its range of {orders[0]} gains or loses" if orders else "all rows"
            )
            return f"a change of the one row costs {rows}"
        if not orders:
            return "a change costs all rows of the other side"
        return f"a change costs the other side's rows in a range of {' or '.join(orders)}"

    def to_json(self) -> dict[str, Any]:
        """Return the plan from here down as JSON values."""
        return {
            "operator": self.operator,
            "left": self.left.to_json(),
            "right": self.right.to_json(),
            "kind": str(self.kind),
            "comparisons": [comparison.to_json() for comparison in self.comparisons],
            "condition": self.condition,
            "presence": None if self.presence is None else list(self.presence),
            "has_one_row": self.has_one_row,
            "hidden": list(self.hidden),
        }

    @classmethod
    def from_json(cls, value: Json, read: ReadNode) -> Node:
        """Return the join that `to_json` described."""
        return cls(
            read(value["left"]),
            read(value["right"]),
            JoinKind(value["kind"]),
            tuple(map(Comparison.from_json, read_list(value["comparisons"]))),
            read_optional(value["condition"], read_text),
            read_optional(value["presence"], read_presence),
            read_flag(value["has_one_row"]),
            read_names(value["hidden"]),
        )

    def check(self) -> None:
        """ValueError, too, if a comparison or another part does not fit the inputs."""
        for comparison in self.comparisons:
            is_one_type = self.left.type_of(comparison.left) == self.right.type_of(comparison.right)
            require(is_one_type, f"the types of {comparison} differ")
        compared = [name for comparison in self.comparisons for name in comparison.sides]
        check_names(self.hidden, compared, "what a join hides")
        keys = {*self.left.key, *self.right.key}
        require(keys.isdisjoint(self.hidden), "a join hides the key of an input")
        require(self.kind is not JoinKind.RIGHT, "a broadcast join is a right join")
        is_full = self.kind is JoinKind.FULL
        require(not (is_full and self.has_one_row), "a full join has one row")
        check_presence(self, self.presence)
        super().check()
