"""The top n operator: the rows of each group at a range of ranks in an order.

Does not know: how it is maintained (executor).
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from relstate.storage import types
from relstate.vnode import cached_property

from .node import (
    FieldsOf,
    Grouped,
    Json,
    Names,
    Node,
    Order,
    ReadNode,
    check_names,
    field_json,
    read_field,
    read_flag,
    read_names,
    read_number,
    read_optional,
    read_orders,
    require,
)


class Ranking(StrEnum):
    """How rows are numbered, from 1, by a window function of this name. On disk: never change."""

    ROW_NUMBER = "row_number"
    """Each row has a number of its own; those that tie are numbered in the order of their keys."""
    RANK = "rank"
    """One more than the number of rows before the first that ties."""
    DENSE_RANK = "dense_rank"
    """One more than the number of different places before."""


UNBOUNDED = 1 << 62
"""The limit of a `TopN` whose rank no condition above it bounds yet."""


_TIES = {
    Ranking.ROW_NUMBER: "",
    Ranking.RANK: " with ties",
    Ranking.DENSE_RANK: " with ties, counted once",
}


@dataclass(frozen=True)
class TopN(Grouped):
    """The rows of every group with the ranks ``offset`` + 1 to ``offset + limit`` in an order.

    ``rank``: a further field with a row's rank in its group; None if nothing reads it.
    """

    operator = "top_n"

    order: tuple[Order, ...]
    limit: int
    offset: int = 0
    rank: types.Field | None = None
    ranking: Ranking = Ranking.ROW_NUMBER

    @cached_property
    def fields(self) -> tuple[types.Field, ...]:
        """The child's fields and the rank."""
        return (*self.child.fields, *(() if self.rank is None else (self.rank,)))

    @property
    def key(self) -> Names:
        """The group and the rest of the child's key."""
        return self.row_key

    @property
    def is_append_only(self) -> bool:
        """False: an inserted row can push another one out of the window."""
        return False

    def prune(self, read: Set[str], fields_of: FieldsOf) -> Node:
        """Return the top n of the fields that are read or sorted by; drops an unread rank."""
        needed = {*read, *self.key} & set(self.child.names)
        needed |= {*self.group, *(order.name for order in self.order)}
        rank = self.rank if self.rank is not None and self.rank.name in read else None
        return replace(self, child=self.child.prune(needed, fields_of), rank=rank)

    @property
    def explain_line(self) -> str:
        """``TopN limit after offset of each [group] by [order] with ties place as rank``.

        Without an order the rows are in that of their key.
        """
        group = self._group_text("of each")
        offset = f" after {self.offset}" if self.offset else ""
        rank = f" place as {self.rank.name}" if self.rank else ""
        order = f"[{', '.join(map(str, self.order))}]" if self.order else "key"
        return f"TopN {self.limit}{offset}{group} by {order}{_TIES[self.ranking]}{rank}"

    def to_json(self) -> dict[str, Any]:
        """Return the plan from here down as JSON values."""
        value = {
            "operator": self.operator,
            "child": self.child.to_json(),
            "group": list(self.group),
            "order": [order.to_json() for order in self.order],
            "limit": self.limit,
            "offset": self.offset,
            "rank": None if self.rank is None else field_json(self.rank),
            "is_global": self.is_global,
        }
        if self.ranking is not Ranking.ROW_NUMBER:
            value["ranking"] = str(self.ranking)
        return value

    @classmethod
    def from_json(cls, value: Json, read: ReadNode) -> Node:
        """Return the operator that `to_json` described."""
        return cls(
            read(value["child"]),
            read_names(value["group"]),
            read_orders(value["order"]),
            read_number(value["limit"], UNBOUNDED),
            read_number(value["offset"], UNBOUNDED),
            read_optional(value["rank"], read_field),
            Ranking(value.get("ranking", Ranking.ROW_NUMBER)),
            is_global=read_flag(value["is_global"]),
        )

    def check(self) -> None:
        """ValueError, too, if the order or the rank does not fit the input."""
        super().check()
        check_names([order.name for order in self.order], self.child.names, "the order of a top n")
        require(self.offset + self.limit < UNBOUNDED, "a top n has no bound")
        is_int = self.rank is None or self.rank.type == types.Int()
        require(is_int, "the rank of a top n is not an INT")
