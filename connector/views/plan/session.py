"""Session windows: rows of a group whose intervals of time touch each other are one session.

Does not know: how it is maintained (executor), or what made the intervals (planner).
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
    ReadNode,
    check_names,
    field_json,
    read_field,
    read_flag,
    read_names,
    read_text,
    require,
)
from .recompute import KeyedRecompute


def session_type(moment: types.DataType) -> types.Struct:
    """Return the type of a session between moments of a type."""
    return types.Struct((types.Field("start", moment), types.Field("end", moment)))


@dataclass(frozen=True)
class SessionRecompute(KeyedRecompute):
    """Every row of the child with the session that it is in.

    ``start``, ``end``: fields of the child that are never NULL, the interval of a row, both
    TIMESTAMP or both TIMESTAMP_NTZ; ``session``: from the first start to the last end of the rows
    whose intervals touch.
    """

    operator = "session_recompute"

    start: str
    end: str
    session: types.Field

    @cached_property
    def fields(self) -> tuple[types.Field, ...]:
        """The child's fields and the session."""
        return (*self.child.fields, self.session)

    @property
    def is_of_spark(self) -> bool:
        """False: a step between the executors finds the sessions."""
        return False

    @cached_property
    def key(self) -> Names:
        """The group and the rest of the child's key."""
        return self.row_key

    def prune(self, read: Set[str], fields_of: FieldsOf) -> Node:
        """Return the operator over the fields that are read, or that make sessions."""
        needed = {*read, *self.key, self.start, self.end} & set(self.child.names)
        return replace(self, child=self.child.prune(needed, fields_of))

    @property
    def explain_line(self) -> str:
        """``Session of each [field] [start, end AS field] by keyed recompute, …``."""
        group = self._group_text("of each")
        columns = f"{self.start}, {self.end} AS {self.session.name}"
        return f"Session{group} [{columns}] {self._cost('all rows of its group')}"

    def to_json(self) -> dict[str, Any]:
        """Return the plan from here down as JSON values."""
        return {
            "operator": self.operator,
            "child": self.child.to_json(),
            "group": list(self.group),
            "is_global": self.is_global,
            "start": self.start,
            "end": self.end,
            "session": field_json(self.session),
        }

    @classmethod
    def from_json(cls, value: Json, read: ReadNode) -> Node:
        """Return the operator that `to_json` described."""
        return cls(
            read(value["child"]),
            read_names(value["group"]),
            read_text(value["start"]),
            read_text(value["end"]),
            read_field(value["session"]),
            is_global=read_flag(value["is_global"]),
        )

    def check(self) -> None:
        """ValueError, too, if the interval does not fit the input."""
        bounds = (self.start, self.end)
        check_names(bounds, self.child.names, f"the interval of {self.operator}")
        moment = self.child.type_of(self.start)
        is_time = isinstance(moment, types.Timestamp | types.TimestampNtz)
        require(is_time, f"the bound {self.start!r} of a session is not a TIMESTAMP")
        is_same = self.child.type_of(self.end) == moment
        require(is_same, f"the bounds {bounds} of a session have different types")
        require(self.session.type == session_type(moment), "a session is not a start and an end")
        super().check()
