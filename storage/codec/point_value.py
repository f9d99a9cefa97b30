"""Single Python values that are not nested, to and from their bytes.

    BOOLEAN                     bool
    TINYINT .. BIGINT           int
    FLOAT, DOUBLE               float (an int is taken)
    DECIMAL                     decimal.Decimal (an int is taken)
    DATE                        datetime.date
    TIMESTAMP, TIMESTAMP_NTZ    datetime.datetime, aware (in UTC when read) and naive
    TIME                        datetime.time
    INTERVAL DAY TO SECOND      datetime.timedelta
    STRING, BINARY              str, bytes

Promises: a value is stored exactly or refused; only a FLOAT is rounded, to its 32 bits.
Does not know: rows, NULL.

An encoder raises TypeError or AttributeError for a value of another type, ValueError or
ArithmeticError for one that does not fit. A decoder raises OverflowError if Python's type cannot
hold the value, ValueError if the bytes are none.
"""

from __future__ import annotations

import datetime as dt
import decimal
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from .fixed_field import NARROW_DECIMAL_DIGITS

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_NAIVE_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_DATE = dt.date(1970, 1, 1)
_DAY_MICROSECONDS = 86_400_000_000
_EXACT = decimal.Context(
    prec=2 * pa.decimal128(38).precision,
    traps=[decimal.Inexact, decimal.InvalidOperation, decimal.Overflow],
)


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """The codec of one value of fixed width: what ``struct`` packs as ``format``, and back.

    ``decode`` is None where there is nothing to do. ``zero`` is packed for NULL.
    """

    format: str
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any] | None = None
    zero: Any = 0


class VariablePoint(ABC):
    """The codec of one value of variable length."""

    @abstractmethod
    def encode(self, value: Any) -> bytes:
        """Return the value's bytes."""

    @abstractmethod
    def decode(self, data: bytes, start: int, end: int) -> Any:
        """Return the value whose bytes are ``data[start:end]``."""


PointValue = FixedPoint | VariablePoint


class TextPoint(VariablePoint):
    """A string: its UTF-8 bytes."""

    def encode(self, value: str) -> bytes:
        """Return the text's bytes."""
        return value.encode()

    def decode(self, data: bytes, start: int, end: int) -> str:
        """Return the text."""
        return data[start:end].decode()


class BinaryPoint(VariablePoint):
    """Bytes as they are."""

    def encode(self, value: object) -> bytes:
        """Return the value itself."""
        if not isinstance(value, bytes | bytearray | memoryview):
            raise TypeError("bytes are due")
        return bytes(value)

    def decode(self, data: bytes, start: int, end: int) -> bytes:
        """Return the bytes."""
        return data[start:end]


def point_value(arrow_type: pa.DataType) -> PointValue | None:
    """Return the codec of a type; None if it is nested."""
    if pa.types.is_decimal(arrow_type):
        return _decimal(arrow_type)
    if pa.types.is_timestamp(arrow_type):
        return _NAIVE_TIMESTAMP if arrow_type.tz is None else _TIMESTAMP
    return _PLAIN.get(arrow_type)


def _pack_nothing(value: object) -> bytes:
    raise TypeError("None is due")


def _pack_boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError("a bool is due")
    return value


def _pack_float(value: object) -> float:
    if isinstance(value, float):
        return value
    if not isinstance(value, int):
        raise TypeError("a float is due")
    if float(value) != value:
        raise OverflowError("the integer has too many digits for a float")
    return float(value)


def _pack_date(value: dt.date) -> int:
    if isinstance(value, dt.datetime):
        raise TypeError("a date without a time of day is due")
    return (value - _EPOCH_DATE).days


def _unpack_date(days: int) -> dt.date:
    return _EPOCH_DATE + dt.timedelta(days)


def _pack_interval(value: dt.timedelta) -> int:
    return value.days * _DAY_MICROSECONDS + value.seconds * 1_000_000 + value.microseconds


def _unpack_interval(microseconds: int) -> dt.timedelta:
    return dt.timedelta(0, 0, microseconds)


def _pack_timestamp(value: dt.datetime) -> int:
    return _pack_interval(value - _EPOCH)


def _unpack_timestamp(microseconds: int) -> dt.datetime:
    return _EPOCH + dt.timedelta(0, 0, microseconds)


def _pack_naive_timestamp(value: dt.datetime) -> int:
    return _pack_interval(value - _NAIVE_EPOCH)


def _unpack_naive_timestamp(microseconds: int) -> dt.datetime:
    return _NAIVE_EPOCH + dt.timedelta(0, 0, microseconds)


def _pack_time(value: dt.time) -> int:
    if value.tzinfo is not None:
        raise TypeError("a time without a zone is due")
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return (seconds * 1_000_000 + value.microsecond) * 1000


def _unpack_time(nanoseconds: int) -> dt.time:
    if not 0 <= nanoseconds < _DAY_MICROSECONDS * 1000:
        raise ValueError(f"{nanoseconds} ns are no time of day")
    return (_NAIVE_EPOCH + dt.timedelta(0, 0, nanoseconds // 1000)).time()


def _decimal(arrow_type: pa.Decimal128Type) -> FixedPoint:
    scale, limit = arrow_type.scale, 10**arrow_type.precision

    def unscaled_of(value: object) -> int:
        if not isinstance(value, decimal.Decimal | int):
            raise TypeError("a Decimal is due")
        try:
            scaled = _EXACT.scaleb(decimal.Decimal(value), scale)
            # Compared first: as an integer it might have millions of digits.
            if -limit < scaled < limit:
                return int(_EXACT.to_integral_exact(scaled))
        except decimal.DecimalException as error:
            raise OverflowError("it has more digits than the type") from error
        raise OverflowError("it has more digits than the type")

    def value_of(unscaled: int) -> decimal.Decimal:
        return _EXACT.scaleb(decimal.Decimal(unscaled), -scale)

    if arrow_type.precision <= NARROW_DECIMAL_DIGITS:
        return FixedPoint("q", unscaled_of, value_of)
    return FixedPoint(
        "16s",
        lambda value: unscaled_of(value).to_bytes(16, "little", signed=True),
        lambda data: value_of(int.from_bytes(data, "little", signed=True)),
        b"",
    )


_TIMESTAMP = FixedPoint("q", _pack_timestamp, _unpack_timestamp)
_NAIVE_TIMESTAMP = FixedPoint("q", _pack_naive_timestamp, _unpack_naive_timestamp)
_PLAIN: dict[pa.DataType, PointValue] = {
    pa.null(): FixedPoint("0s", _pack_nothing, zero=b""),
    pa.bool_(): FixedPoint("?", _pack_boolean, zero=False),
    pa.int8(): FixedPoint("b", operator.index),
    pa.int16(): FixedPoint("h", operator.index),
    pa.int32(): FixedPoint("i", operator.index),
    pa.int64(): FixedPoint("q", operator.index),
    pa.float32(): FixedPoint("f", _pack_float),
    pa.float64(): FixedPoint("d", _pack_float),
    pa.date32(): FixedPoint("i", _pack_date, _unpack_date),
    pa.time64("ns"): FixedPoint("q", _pack_time, _unpack_time),
    pa.duration("us"): FixedPoint("q", _pack_interval, _unpack_interval),
    pa.string(): TextPoint(),
    pa.binary(): BinaryPoint(),
}
