"""The root of a plan: the view's own table.

Does not know: how it is maintained (executor).
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace
from typing import Any

from relstate.storage import types
from relstate.vnode import cached_property

from .node import (
    FieldsOf,
    Json,
    Names,
    Node,
    Order,
    ReadNode,
    Unary,
    check_names,
    free_name,
    read_list,
    read_names,
    read_orders,
    read_text,
)


@dataclass(frozen=True)
class Materialize(Unary):
    """The root: the rows of the child as the view's table holds them.

    ``visible``: for each column of the SELECT its name and the child's field; the other
    fields of the key are stored in hidden columns. ``order``: the order by which the table is
    sorted before its key, if the SELECT ends in ORDER BY. ``cluster``: fields among ``visible`` by
    which the table is distributed and first sorted; empty for the distribution of the child.
    """

    operator = "materialize"

    visible: tuple[tuple[str, str], ...]
    order: tuple[Order, ...] = ()
    cluster: Names = ()

    @cached_property
    def stored(self) -> tuple[tuple[str, str], ...]:
        """For each column of the table its name and the child's field, the visible ones first.

        If several visible columns are the same field, the first is in the key.
        """
        visible_fields = {field for _, field in self.visible}
        needed = dict.fromkeys((*(order.name for order in self.order), *self.child.key))
        used_names = {name.lower() for name, _ in self.visible}
        hidden = [
            (free_name(f"_{name}", used_names), name)
            for name in needed
            if name not in visible_fields
        ]
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
        """The table's columns that hold the child's key, after those it is clustered by."""
        names = dict.fromkeys((*self.cluster, *self.child.key))
        return tuple(self._column_of(name) for name in names)

    @property
    def cluster_columns(self) -> Names:
        """The table's columns that it is clustered by."""
        return tuple(map(self._column_of, self.cluster))

    @cached_property
    def table_key(self) -> tuple[Order, ...]:
        """The primary key of the table: what it is clustered by, the order, the rest of the key."""
        orders = {
            (name := self._column_of(o.name)): Order(name, o.descending, o.nulls_first)
            for o in self.order
        }
        names = dict.fromkeys((*self.cluster_columns, *orders, *self.key))
        return tuple(orders.get(name, Order(name)) for name in names)

    @cached_property
    def distribution(self) -> Names | None:
        """The table's columns that hold the input's distribution."""
        return tuple(map(self._column_of, self.input_distribution))

    @property
    def input_distribution(self) -> Names:
        """What the table is clustered by; else the child's distribution, its key if it has none."""
        names = self.cluster or self.child.distribution
        return self.child.key if names is None else names

    def _column_of(self, field: str) -> str:
        return next(name for name, stored in self.stored if stored == field)

    def prune(self, read: Set[str], fields_of: FieldsOf) -> Node:
        """Return the root over the fields that its table holds."""
        needed = {field for _, field in self.stored}
        return replace(self, child=self.child.prune(needed, fields_of))

    @property
    def explain_line(self) -> str:
        """``Materialize [field AS column] key [column] hidden [column] cluster by [column]``."""
        columns = ", ".join(f if f == n else f"{f} AS {n}" for n, f in self.visible)
        hidden = f" hidden [{', '.join(self.hidden)}]" if self.hidden else ""
        cluster = f" cluster by [{', '.join(self.cluster_columns)}]" if self.cluster else ""
        key = ", ".join(map(str, self.table_key))
        return f"Materialize [{columns}] key [{key}]{hidden}{cluster}"

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        cluster = {"cluster": list(self.cluster)} if self.cluster else {}
        return {
            "operator": self.operator,
            "child": self.child.to_json(),
            "visible": [list(column) for column in self.visible],
            "order": [order.to_json() for order in self.order],
            **cluster,
        }

    @classmethod
    def from_json(cls, value: Json, read: ReadNode) -> Node:
        """Return the root that `to_json` described."""
        visible = tuple(_read_visible(column) for column in read_list(value["visible"]))
        cluster = read_names(value.get("cluster", []))
        return cls(read(value["child"]), visible, read_orders(value["order"]), cluster)

    def check(self) -> None:
        """ValueError, too, if a column does not fit the input."""
        check_names([field for _, field in self.visible], self.child.names, "the view")
        check_names([order.name for order in self.order], self.child.names, "the view's order")
        check_names(self.cluster, [field for _, field in self.visible], "CLUSTER BY of the view")
        super().check()


def _read_visible(value: Any) -> tuple[str, str]:
    name, field = value
    return read_text(name), read_text(field)
