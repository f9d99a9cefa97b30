"""The DEFAULT of a column, as the schema of its table holds it.

Promises: `default_from_json(to_json())` is equal; the value has the type of the column, also after
it was widened.
Does not know: how the expression was read, or what the time is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from ..instant import MICROSECONDS_PER_DAY

ClockName: TypeAlias = Literal["timestamp", "date"]


@dataclass(frozen=True, slots=True)
class ColumnDefault:
    """The value of a column in rows that are written without it.

    ``expression``: SQL, as it was written. ``value``: what it is, as text: numbers in decimal
    digits, dates in days, times in microseconds or nanoseconds, bytes in hexadecimal digits, and
    ``True`` or ``False``.
    """

    expression: str
    value: str

    @classmethod
    def of(cls, expression: str, value: Any) -> ColumnDefault:
        """Return the default of a constant's value, which is not None."""
        if isinstance(value, Decimal):
            return cls(expression, f"{value:f}")
        return cls(expression, value.hex() if isinstance(value, bytes) else str(value))

    def scalar(self, data_type: pa.DataType) -> pa.Scalar:
        """Return the value in the Arrow type of its column."""
        if pa.types.is_boolean(data_type):
            return pa.scalar(self.value == str(True), data_type)
        if pa.types.is_decimal(data_type):
            # Of a column that was widened it is an integer.
            return pa.scalar(Decimal(self.value)).cast(data_type)
        if pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type):
            return pa.scalar(bytes.fromhex(self.value), data_type)
        if pa.types.is_floating(data_type):
            return pa.scalar(float(self.value), data_type)
        if pa.types.is_integer(data_type):
            return pa.scalar(int(self.value), data_type)
        if pa.types.is_temporal(data_type):
            width = pa.int32() if data_type.bit_width == pa.int32().bit_width else pa.int64()
            return pa.scalar(int(self.value), width).cast(data_type)
        return pa.scalar(self.value, data_type)

    def to_json(self) -> dict[str, Any]:
        """Return the default as JSON values. On disk: never change a name."""
        return {"expression": self.expression, "value": self.value}


@dataclass(frozen=True, slots=True)
class ClockDefault:
    """The value of a column in rows that are written without it: the time of their write.

    ``expression``: SQL, as it was written. ``clock``: whether it is the time, or its day in UTC.
    """

    expression: str
    clock: ClockName

    def at(self, data_type: pa.DataType, time: int) -> ColumnDefault:
        """Return the default at a time, microseconds since 1970, of a column of an Arrow type."""
        days = time // MICROSECONDS_PER_DAY
        if pa.types.is_date32(data_type):
            return ColumnDefault(self.expression, str(days))
        start = days * MICROSECONDS_PER_DAY if self.clock == "date" else time
        return ColumnDefault(self.expression, str(start))

    def to_json(self) -> dict[str, Any]:
        """Return the default as JSON values. On disk: never change a name."""
        return {"expression": self.expression, "clock": self.clock}


def default_from_json(value: Mapping[str, Any]) -> ColumnDefault | ClockDefault:
    """Return the default from the result of `to_json`. KeyError for another value."""
    if "clock" in value:
        return ClockDefault(value["expression"], value["clock"])
    return ColumnDefault(value["expression"], value["value"])
