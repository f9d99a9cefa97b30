"""Windows over sorted partitions, of functions whose change has a limited effect.

A function has a frame that is bounded on both sides, by a number of rows or by values of the order,
or it *runs*: its value for a row follows from its value for the row before. All other functions are
recomputed (recompute).

Does not know: how the functions are maintained (executor).
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from relstate.storage import types
from relstate.vnode import cached_property

from .frame import Frame, ValueFrame, read_frame, read_offset
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
    sorted_key,
)


class WindowFunction(StrEnum):
    """A function, by its name in Spark. On disk: never change one."""

    ROW_NUMBER = "row_number"
    RANK = "rank"
    DENSE_RANK = "dense_rank"
    LAG = "lag"
    LEAD = "lead"
    FIRST_VALUE = "first_value"
    LAST_VALUE = "last_value"
    NTH_VALUE = "nth_value"
    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"


NUMBERINGS = frozenset({WindowFunction.ROW_NUMBER, WindowFunction.RANK, WindowFunction.DENSE_RANK})
SHIFTS = frozenset({WindowFunction.LAG, WindowFunction.LEAD})
PICKS = frozenset({WindowFunction.FIRST_VALUE, WindowFunction.LAST_VALUE, WindowFunction.NTH_VALUE})
"""The functions that return the value of one row of their frame."""
_SETTLING = (PICKS - {WindowFunction.FIRST_VALUE}) | {WindowFunction.MIN, WindowFunction.MAX}


@dataclass(frozen=True, slots=True)
class OrderedCall:
    """A window function over fields of the child.

    ``argument``: None for a numbering and for ``count(*)``. ``frame``: None for a numbering, lag
    and lead. ``offset``: by how many rows lag and lead look back or ahead, or which row of the
    frame nth_value returns, from 1; ``default``: the field with the value of lag and lead where
    there is no such row, None for NULL. ``ignores_nulls``: only rows whose argument is not NULL are
    counted.
    """

    function: WindowFunction
    argument: str | None
    output: types.Field
    frame: Frame | ValueFrame | None = None
    offset: int = 0
    default: str | None = None
    ignores_nulls: bool = False

    def __str__(self) -> str:
        frame = "" if self.frame is None else f" {self.frame.sql}"
        return f"{self.text}{frame} AS {self.output.name}"

    @property
    def inputs(self) -> Names:
        """The fields that it reads."""
        bounds = self.frame.fields if isinstance(self.frame, ValueFrame) else ()
        return (*self._arguments, *bounds)

    @property
    def _arguments(self) -> Names:
        return tuple(name for name in (self.argument, self.default) if name is not None)

    @property
    def text(self) -> str:
        """The function in Spark's SQL, without OVER."""
        arguments = [types.quoted(name) for name in self._arguments]
        if self.function in SHIFTS or self.function is WindowFunction.NTH_VALUE:
            arguments.insert(1, str(self.offset))
        elif self.function is WindowFunction.COUNT and not arguments:
            arguments = ["*"]
        nulls = " IGNORE NULLS" if self.ignores_nulls else ""
        return f"{self.function.upper()}({', '.join(arguments)}){nulls}"

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
        is_framed = isinstance(self.frame, Frame) and self.frame.start is None
        return self.function in NUMBERINGS or is_framed

    @property
    def can_settle(self) -> bool:
        """Whether a function that runs may be as it was again some rows after the last change.

        The difference in the value of any other one remains up to the end of the partition.
        """
        return self.function in _SETTLING

    @property
    def is_by_place(self) -> bool:
        """Whether it is computed for all rows that tie in the order at once."""
        return self.function in (WindowFunction.RANK, WindowFunction.DENSE_RANK) or (
            isinstance(self.frame, Frame) and self.frame.is_range
        )

    @property
    def depends_on_ties(self) -> bool:
        """Whether its value depends on the order of rows that tie."""
        is_same = self.is_by_place or isinstance(self.frame, ValueFrame)
        return not is_same or self.function in PICKS

    @property
    def reaches_by_value(self) -> bool:
        """Whether the values of rows decide how many rows before and after a row it reads."""
        is_shift = self.function in SHIFTS and self.ignores_nulls
        return is_shift or isinstance(self.frame, ValueFrame)

    @property
    def reach(self) -> tuple[int, int]:
        """The first and the last row that it reads, counted from its own, as far as that is known.

        0 is between them.
        """
        if self.reaches_by_value:
            return 0, 0
        if self.function in SHIFTS:
            shift = self.shift
            return min(shift, 0), max(shift, 0)
        if not isinstance(self.frame, Frame) or self.frame.is_range or self.frame.start is None:
            return 0, 0
        return min(self.frame.start, 0), max(self.frame.end, 0)

    @property
    def shift(self) -> int:
        """How many rows after its own is the row whose value lag and lead return."""
        return -self.offset if self.function is WindowFunction.LAG else self.offset

    def to_json(self) -> dict[str, Any]:
        """Return the function as JSON values. On disk: never change a name."""
        return {
            **({"ignores_nulls": True} if self.ignores_nulls else {}),
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
            read_optional(value["frame"], read_frame),
            read_offset(value["offset"]),
            read_optional(value["default"], read_text),
            read_flag(value.get("ignores_nulls", False)),
        )

    def check(self) -> None:
        """ValueError if the parts of the call contradict each other."""
        is_framed = self.function not in NUMBERINGS | SHIFTS
        require(is_framed == (self.frame is not None), f"{self.function} has a wrong frame")
        fits = not isinstance(self.frame, Frame) or self.frame.is_supported
        require(fits, f"the frame of {self.function} is not maintained")
        has_bounds = not isinstance(self.frame, ValueFrame) or bool(self.frame.fields)
        require(has_bounds, f"the frame of {self.function} has no bounds")
        needs_argument = self.function not in NUMBERINGS | {WindowFunction.COUNT}
        has_argument = self.argument is not None
        require(has_argument or not needs_argument, f"{self.function} has no argument")
        self._check_offset()

    def _check_offset(self) -> None:
        if self.function is WindowFunction.NTH_VALUE:
            require(self.offset > 0, "nth_value has no row before the first")
            require(self.default is None, "nth_value has a default")
        else:
            is_shift = self.function in SHIFTS
            require(
                is_shift or (not self.offset and self.default is None), "only lag and lead shift"
            )
            require(self.offset >= 0, "lag and lead have an offset that is not negative")
        may_ignore = self.function in PICKS or (self.function in SHIFTS and self.offset > 0)
        require(may_ignore or not self.ignores_nulls, f"{self.function} ignores NULLs")


@dataclass(frozen=True)
class OrderedWindow(Grouped):
    """Every row of the child with the values of functions over its partition in one order.

    Rows that are equal in the order are sorted by their keys; ``reverses_ties``: descending, so
    that all rows are in the reverse of another order.
    """

    operator = "window"

    order: tuple[Order, ...]
    calls: tuple[OrderedCall, ...]
    reverses_ties: bool = False

    @cached_property
    def whole_order(self) -> tuple[Order, ...]:
        """The partition, the order, and the key of the child, which sort all rows."""
        key = map(Order, self.child.key)
        ties = [field.reverse if self.reverses_ties else field for field in key]
        return sorted_key(self.group, self.order, ties)

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
        """Whether a function is computed for all rows that tie at once."""
        return any(call.is_by_place for call in self.calls)

    @property
    def reaches_by_value(self) -> bool:
        """Whether the values of rows decide how far a function reads."""
        return any(call.reaches_by_value for call in self.calls)

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
        ties = ", ties last first" if self.reverses_ties else ""
        calls = ", ".join(map(str, self.calls))
        return f"Window{group} by [{order}{ties}] [{calls}], a change costs {self._cost}"

    @property
    def _cost(self) -> str:
        low, high = self.reach
        if self.is_running:
            return "the rows after it whose values change"
        if any(isinstance(call.frame, ValueFrame) for call in self.calls):
            return "the rows whose frames it is in, and the rows of their frames"
        if self.reaches_by_value:
            count = max(call.offset for call in self.calls if call.reaches_by_value)
            return f"the rows up to {count} values that are not NULL before and after it"
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
            **({"reverses_ties": True} if self.reverses_ties else {}),
        }

    @classmethod
    def from_json(cls, value: Json, read: ReadNode) -> Node:
        """Return the operator that `to_json` described."""
        return cls(
            read(value["child"]),
            read_names(value["group"]),
            read_orders(value["order"]),
            tuple(map(OrderedCall.from_json, read_list(value["calls"]))),
            read_flag(value.get("reverses_ties", False)),
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
            if isinstance(call.frame, ValueFrame):
                self._check_values(call.frame)
        super().check()

    def _check_values(self, frame: ValueFrame) -> None:
        is_one = len(self.order) == 1 and self.order[0].name not in self.group
        require(is_one, "a frame of values is not of one sort key")
        order_type = self.child.type_of(self.order[0].name)
        is_same = all(self.child.type_of(name) == order_type for name in frame.fields)
        require(is_same, "the bounds of a frame have another type than the order")
