"""The root of a plan: the rows that its view's table holds, and their key.

Does not know: how they are written (executor/materialize).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from relstate.storage import types

from .naming import free_name
from .node import Names, Order, Unary


@dataclass(frozen=True)
class Materialize(Unary):
    """The root: the rows of the child as the view's table holds them.

    ``visible``: for each column of the SELECT its name and the child's field; what the key needs
    beside them is stored in hidden columns under the fields' names. ``order``: by which the table
    is sorted before its key, where the SELECT ends in ORDER BY.
    """

    visible: tuple[tuple[str, str], ...]
    order: tuple[Order, ...] = ()

    @cached_property
    def stored(self) -> tuple[tuple[str, str], ...]:
        """For each column of the table its name and the child's field, the visible ones first.

        Of several visible columns that are one field the first is in the key.
        """
        seen = {field for _, field in self.visible}
        wanted = dict.fromkeys((*(one.name for one in self.order), *self.child.key))
        taken = {name.lower() for name, _ in self.visible}
        hidden = [(free_name(f"_{name}", taken), name) for name in wanted if name not in seen]
        return (*self.visible, *hidden)

    @property
    def hidden(self) -> Names:
        """The names of the table's columns that the SELECT does not have."""
        return tuple(name for name, _ in self.stored[len(self.visible) :])

    @cached_property
    def fields(self) -> tuple[types.Field, ...]:
        """The table's columns."""
        return tuple(types.Field(name, self.child.type_of(field)) for name, field in self.stored)

    @cached_property
    def key(self) -> Names:
        """The table's columns that hold the child's key."""
        return tuple(self._column_of(name) for name in self.child.key)

    @cached_property
    def table_key(self) -> tuple[Order, ...]:
        """The primary key of the table: the order, then what of the key is not in it."""
        order = [Order(self._column_of(o.name), o.descending, o.nulls_first) for o in self.order]
        sorted_by = {one.name for one in order}
        return (*order, *(Order(name) for name in self.key if name not in sorted_by))

    @cached_property
    def distribution(self) -> Names | None:
        """The table's columns that hold the child's distribution; the key where it has none."""
        found = self.child.distribution
        return self.key if found is None else tuple(map(self._column_of, found))

    def _column_of(self, field: str) -> str:
        return next(name for name, stored in self.stored if stored == field)
