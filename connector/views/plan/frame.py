"""Frames of window functions: the rows around a row that a function reads.

Does not know: functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .node import Json, Names, read_flag, read_optional, read_text, require

WIDEST_FRAME = 1000
"""How many rows before or after a row a frame may reach; a wider one is recomputed."""


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
        return cls(read_flag(is_range), read_optional(start, read_offset), read_offset(end))

    @property
    def is_supported(self) -> bool:
        """Whether the executor maintains functions over the frame."""
        if self.start is None:
            return self.end == 0
        if self.is_range:
            return self.start == self.end == 0
        return -WIDEST_FRAME <= self.start <= self.end <= WIDEST_FRAME


@dataclass(frozen=True, slots=True)
class ValueBound:
    """An end of a frame, given by a value of the order.

    ``text``: in Spark's SQL, as ``1 PRECEDING``. ``field``: the field with the value for each row,
    of the type of the order; NULL where the order is NULL.
    """

    text: str
    field: str


@dataclass(frozen=True, slots=True)
class ValueFrame:
    """The rows whose value in the order is between two others: RANGE with an offset.

    The bounds are included. ``lower``, ``upper``: None for the value of the row itself. They do not
    decrease from row to row.
    """

    lower: ValueBound | None
    upper: ValueBound | None

    @property
    def sql(self) -> str:
        """The frame in Spark's SQL."""
        start, end = (
            "CURRENT ROW" if bound is None else bound.text for bound in (self.lower, self.upper)
        )
        return f"RANGE BETWEEN {start} AND {end}"

    @property
    def fields(self) -> Names:
        """The fields with the values of the bounds."""
        return tuple(bound.field for bound in (self.lower, self.upper) if bound is not None)

    def to_json(self) -> dict[str, Any]:
        """Return the frame as JSON values. On disk: never change a name."""
        return {
            name: None if bound is None else [bound.text, bound.field]
            for name, bound in (("lower", self.lower), ("upper", self.upper))
        }

    @classmethod
    def from_json(cls, value: Json) -> ValueFrame:
        """Return the frame that `to_json` described."""
        return cls(
            read_optional(value["lower"], _read_value_bound),
            read_optional(value["upper"], _read_value_bound),
        )


def _read_value_bound(value: Any) -> ValueBound:
    text, field = value
    return ValueBound(read_text(text), read_text(field))


def read_frame(value: Any) -> Frame | ValueFrame:
    """Return the frame that a JSON value describes."""
    return ValueFrame.from_json(value) if isinstance(value, dict) else Frame.from_json(value)


def _bound_sql(offset: int | None) -> str:
    if offset is None:
        return "UNBOUNDED PRECEDING"
    if not offset:
        return "CURRENT ROW"
    return f"{abs(offset)} {'PRECEDING' if offset < 0 else 'FOLLOWING'}"


def read_offset(value: Any) -> int:
    """Return a number of rows from JSON. ValueError if it is beyond `WIDEST_FRAME`."""
    is_offset = isinstance(value, int) and not isinstance(value, bool)
    require(is_offset and abs(value) <= WIDEST_FRAME, "the frame of a window is too wide")
    return int(value)
