"""The shared operator: rows that several operators read, computed once.

A plan with one is not a tree: all that read the rows have the same node as an input. In JSON each
of them has a copy of it, with its number.

Does not know: how Spark runs it (frame), or what is shared (planner).
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Any

from relstate.storage import types

from .node import FieldsOf, Json, Names, Node, ReadNode, Unary, read_number

_MOST_SHARED = 1 << 16


@dataclass(frozen=True)
class Shared(Unary):
    """The rows of its child, for several operators. ``number``: unique in a plan, from 1."""

    operator = "shared"

    number: int

    @property
    def fields(self) -> tuple[types.Field, ...]:
        """As the child."""
        return self.child.fields

    @property
    def distribution(self) -> Names | None:
        """None: what reads the rows is in other tasks than what computes them."""
        return None

    def prune(self, read: Set[str], fields_of: FieldsOf) -> Node:
        """Return the operator itself: what its other readers read is not known here."""
        return self

    @property
    def explain_line(self) -> str:
        """``Shared number``."""
        return f"Shared {self.number}"

    def to_json(self) -> dict[str, Any]:
        """Return the plan from here down as JSON values."""
        return {"operator": self.operator, "child": self.child.to_json(), "number": self.number}

    @classmethod
    def from_json(cls, value: Json, read: ReadNode) -> Node:
        """Return the operator that `to_json` described, a new one for each of its readers."""
        return cls(read(value["child"]), read_number(value["number"], _MOST_SHARED))
