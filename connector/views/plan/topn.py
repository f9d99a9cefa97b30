"""The first rows of a plan: of all, or of each group, in an order.

Does not know: how they are kept (executor/topn).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from relstate.storage import types

from .node import Names, Order, Unary


@dataclass(frozen=True)
class TopN(Unary):
    """Of every group the rows at places ``offset`` to ``offset + limit`` in an order.

    Rows that the order does not tell apart come in that of their keys. ``group``: fields of the
    child; ``is_global``: its only group field is a constant of the child's. ``rank``: a further
    field with a row's place in its group, from 1; None where nobody asks for it.
    """

    group: Names
    order: tuple[Order, ...]
    limit: int
    offset: int = 0
    rank: types.Field | None = None
    is_global: bool = False

    @cached_property
    def fields(self) -> tuple[types.Field, ...]:
        """The child's and the rank."""
        return (*self.child.fields, *(() if self.rank is None else (self.rank,)))

    @cached_property
    def key(self) -> Names:
        """The group and the child's key."""
        return (*self.group, *(name for name in self.child.key if name not in self.group))

    @property
    def distribution(self) -> Names | None:
        """The group; a global one lives with vnode 0."""
        return () if self.is_global else self.group

    @property
    def is_append_only(self) -> bool:
        """False: rows are pushed out."""
        return False
