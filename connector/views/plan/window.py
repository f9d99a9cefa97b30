"""Windows over sorted partitions, of functions whose change has a limited effect.

A function has a frame that is bounded on both sides, or it *runs*: its value for a row follows from
its value for the row before. All other functions are recomputed (recompute).

Does not know: how the functions are maintained (executor).
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

from relstate.storage import types

from .node import (
    Expression,
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
    read_list,
    read_names,
    read_optional,
    read_orders,
    read_text,
    require,
)

WIDEST_FRAME = 1000
"""How many rows before or after a row a frame may reach; a wider one is recomputed."""


class WindowFunction(StrEnum):
    """A function, by its name in Spark. On disk: never change one."""

    ROW_NUMBER = "row_number"
    RANK = "rank"
    DENSE_RANK = "dense_rank"
    LAG = "lag"
    LEAD = "lead"
    FIRST_VALUE = "first_value"
    LAST_VALUE = "last_value"
    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"


NUMBERINGS = frozenset({WindowFunction.ROW_NUMBER, WindowFunction.RANK, WindowFunction.DENSE_RANK})
SHIFTS = frozenset({WindowFunction.LAG, WindowFunction.LEAD})


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows around a row that a function reads.

    Of ROWS: ``start`` and ``end`` count rows after the row, so that those before are negative. Of
    RANGE (``is_range``) they are 0, the rows that tie with the row. A ``start`` of None: from the
    first row of the partition on, up to ``end`` 0.
    """

    is_range: bool
    start: int | None
    end: int

    @property
    def sql(self) -> str:
        """The frame in Spark's SQL."""
        unit = "RANGE" if self.is_range else "ROWS"
        return f"{unit} BETWEEN {_bound_sql(self.start)} AND {_bound_sql(self.end)}"

    def to_json(self) -> list[Any]:
        """Return the frame as JSON values. On disk: never change."""
        return [self.is_range, self.start, self.end]

    @classmethod
    def from_json(cls, value: Any) -> Frame:
        """Return the frame that `to_json` described."""
        is_range, start, end = value
        return cls(read_flag(is_range), read_optional(start, _read_offset), _read_offset(end))

    @property
    def is_supported(self) -> bool:
        """Whether the executor maintains functions over the frame."""
        if self.start is None:
            return self.end == 0
        if self.is_range:
            return self.start == self.end == 0
        return -WIDEST_FRAME <= self.start <= self.end <= WIDEST_FRAME


def _bound_sql(offset: int | None) -> str:
    if offset is None:
        return "UNBOUNDED PRECEDING"
    if not offset:
        return "CURRENT ROW"
    return f"{abs(offset)} {'PRECEDING' if offset < 0 else 'FOLLOWING'}"


def _read_offset(value: Any) -> int:
    is_offset = isinstance(value, int) and not isinstance(value, bool)
    require(is_offset and abs(value) <= WIDEST_FRAME, "the frame of a window is too wide")
    return int(value)


@dataclass(frozen=True, slots=True)
class OrderedCall:
    """A window function over fields of the child.

    ``argument``: None for a numbering and for ``count(*)``. ``frame``: None for a numbering, lag
    and lead. ``offset``: by how many rows lag and lead look back or ahead; ``default``: the field
    with their value where there is no such row, None for NULL.
    """

    function: WindowFunction
    argument: str | None
    output: types.Field
    frame: Frame | None = None
    offset: int = 0
    default: str | None = None

    def __str__(self) -> str:
        frame = "" if self.frame is None else f" {self.frame.sql}"
        return f"{self.text}{frame} AS {self.output.name}"

    @property
    def inputs(self) -> Names:
        """The fields that it reads."""
        return tuple(name for name in (self.argument, self.default) if name is not None)

    @property
    def text(self) -> str:
        """The function in Spark's SQL, without OVER."""
        arguments = [types.quoted(name) for name in self.inputs]
        if self.function in SHIFTS:
            arguments.insert(1, str(self.offset))
        elif self.function is WindowFunction.COUNT and not arguments:
            arguments = ["*"]
        return f"{self.function.upper()}({', '.join(arguments)})"

    def sql(self, partition: Sequence[str], order: Sequence[Order]) -> str:
        """Return the function in Spark's SQL over sorted partitions by some columns."""
        clauses = [f"PARTITION BY {', '.join(map(types.quoted, partition))}"]
        clauses.append(f"ORDER BY {', '.join(field.sql for field in order)}")
        if self.frame is not None:
            clauses.append(self.frame.sql)
        return f"{self.text} OVER ({' '.join(clauses)})"

    @property
    def is_running(self) -> bool:
        """Whether its value for a row follows from that for the row before."""
        return self.function in NUMBERINGS or (self.frame is not None and self.frame.start is None)

    @property
    def is_by_place(self) -> bool:
        """Whether rows that tie in the order have one value."""
        return self.function in (WindowFunction.RANK, WindowFunction.DENSE_RANK) or (
            self.frame is not None and self.frame.is_range
        )

    @property
    def depends_on_ties(self) -> bool:
        """Whether its value depends on the order of rows that tie."""
        values = WindowFunction.FIRST_VALUE, WindowFunction.LAST_VALUE
        return not self.is_by_place or self.function in values

    @property
    def reach(self) -> tuple[int, int]:
        """The first and the last row that it reads, counted from its own, as far as that is known.

        0 is between them.
        """
        if self.function in SHIFTS:
            shift = self.shift
            return min(shift, 0), max(shift, 0)
        if self.frame is None or self.frame.is_range or self.frame.start is None:
            return 0, 0
        return min(self.frame.start, 0), max(self.frame.end, 0)

    @property
    def shift(self) -> int:
        """How many rows after its own is the row whose value lag and lead return."""
        return -self.offset if self.function is WindowFunction.LAG else self.offset

    def to_json(self) -> dict[str, Any]:
        """Return the function as JSON values. On disk: never change a name."""
        return {
            "function": str(self.function),
            "argument": self.argument,
            "output": field_json(self.output),
            "frame": None if self.frame is None else self.frame.to_json(),
            "offset": self.offset,
            "default": self.default,
        }

    @classmethod
    def from_json(cls, value: Json) -> OrderedCall:
        """Return the function that `to_json` described."""
        return cls(
            WindowFunction(read_text(value["function"])),
            read_optional(value["argument"], read_text),
            read_field(value["output"]),
            read_optional(value["frame"], Frame.from_json),
            _read_offset(value["offset"]),
            read_optional(value["default"], read_text),
        )

    def check(self) -> None:
        """ValueError if the parts of the call contradict each other."""
        is_framed = self.function not in NUMBERINGS | SHIFTS
        require(is_framed == (self.frame is not None), f"{self.function} has a wrong frame")
        fits = self.frame is None or self.frame.is_supported
        require(fits, f"the frame of {self.function} is not maintained")
        needs_argument = self.function not in NUMBERINGS | {WindowFunction.COUNT}
        has_argument = self.argument is not None
        require(has_argument or not needs_argument, f"{self.function} has no argument")
        is_shift = self.function in SHIFTS
        require(is_shift or (not self.offset and self.default is None), "only lag and lead shift")
        require(self.offset >= 0, "lag and lead have an offset that is not negative")


@dataclass(frozen=True)
class OrderedWindow(Grouped):
    """Every row of the child with the values of functions over its partition in one order.

    Rows that are equal in the order are sorted by their keys.
    """

    operator = "window"

    order: tuple[Order, ...]
    calls: tuple[OrderedCall, ...]

    @cached_property
    def fields(self) -> tuple[types.Field, ...]:
        """The child's fields and the outputs of the functions."""
        return (*self.child.fields, *(call.output for call in self.calls))

    @cached_property
    def key(self) -> Names:
        """The group and the rest of the child's key."""
        return self.row_key

    @property
    def is_append_only(self) -> bool:
        """False: an inserted row can change the values of others."""
        return False

    @property
    def aggregate_expressions(self) -> tuple[Expression, ...]:
        """The functions over their partitions."""
        return tuple(
            Expression(call.sql(self.group, self.order), call.output.type) for call in self.calls
        )

    @property
    def is_running(self) -> bool:
        """Whether a function runs."""
        return any(call.is_running for call in self.calls)

    @property
    def is_by_place(self) -> bool:
        """Whether a function has one value for rows that tie."""
        return any(call.is_by_place for call in self.calls)

    @property
    def reach(self) -> tuple[int, int]:
        """The first and the last row that the functions read, as `OrderedCall.reach`."""
        reaches = [call.reach for call in self.calls]
        return min(low for low, _ in reaches), max(high for _, high in reaches)

    def prune(self, read: Set[str], fields_of: FieldsOf) -> Node:
        """Return the operator with the functions that are read, and at least one."""
        calls = tuple(call for call in self.calls if call.output.name in read) or self.calls[:1]
        inputs = {name for call in calls for name in call.inputs}
        inputs |= {order.name for order in self.order}
        needed = {*read, *self.key} & set(self.child.names) | inputs
        return replace(self, child=self.child.prune(needed, fields_of), calls=calls)

    @property
    def explain_line(self) -> str:
        """``Window of each [field] by [order] [function AS field], a change costs …``."""
        group = self._group_text("of each")
        order = ", ".join(map(str, self.order))
        calls = ", ".join(map(str, self.calls))
        return f"Window{group} by [{order}] [{calls}], a change costs {self._cost}"

    @property
    def _cost(self) -> str:
        low, high = self.reach
        if self.is_running:
            return "the rows after it whose values change"
        return "the rows that tie with it" if self.is_by_place else f"{2 * (high - low) + 1} rows"

    def to_json(self) -> dict[str, Any]:
        """Return the plan from here down as JSON values."""
        return {
            "operator": self.operator,
            "child": self.child.to_json(),
            "group": list(self.group),
            "is_global": self.is_global,
            "order": [order.to_json() for order in self.order],
            "calls": [call.to_json() for call in self.calls],
        }

    @classmethod
    def from_json(cls, value: Json, read: ReadNode) -> Node:
        """Return the operator that `to_json` described."""
        return cls(
            read(value["child"]),
            read_names(value["group"]),
            read_orders(value["order"]),
            tuple(map(OrderedCall.from_json, read_list(value["calls"]))),
            is_global=read_flag(value["is_global"]),
        )

    def check(self) -> None:
        """ValueError, too, if a function or the order does not fit the input."""
        require(bool(self.calls), f"{self.operator} has no calls")
        require(bool(self.order), f"{self.operator} has no order")
        names = [order.name for order in self.order]
        check_names(names, self.child.names, f"the order of {self.operator}")
        for call in self.calls:
            check_names(call.inputs, self.child.names, f"a call of {self.operator}")
            call.check()
            is_same = call.default is None or self.child.type_of(call.default) == call.output.type
            require(is_same, f"the default of {call.function} has another type")
        super().check()
