"""Single Python values that are not nested, to and from the bytes of a stored row.

What is packed is the canonical form of a value (`vnode.canonical`, which says what Python value a
type takes). Read back are bool, int, float, decimal.Decimal, datetime.date, datetime.datetime (in
UTC, or naive for a TIMESTAMP_NTZ), datetime.time, datetime.timedelta, str and bytes.

Does not know: rows, NULL.

An encoder raises what the canonical form raises. A decoder raises OverflowError if Python's type
cannot hold the value, ValueError if the bytes are not a value of the type.
"""

from __future__ import annotations

import datetime as dt
import decimal
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from relstate.vnode import canonical_form

from .value_field import decimal_width

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_NAIVE_EPOCH = dt.datetime(1970, 1, 1)
# A product with it takes half the time of the constructor.
_MICROSECOND = dt.timedelta(microseconds=1)
_EPOCH_DATE = dt.date(1970, 1, 1)
_DAY_MICROSECONDS = 86_400_000_000
_INTEGERS = {1: "b", 2: "h", 4: "i", 8: "q"}
_LONG_DECIMAL_BYTES = 16
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


_string_form, _binary_form = canonical_form(pa.string()), canonical_form(pa.binary())


class TextPoint(VariablePoint):
    """A string: its UTF-8 bytes."""

    def encode(self, value: Any) -> bytes:
        """Return the value's bytes."""
        form: bytes = _string_form(value)
        return form

    def decode(self, data: bytes, start: int, end: int) -> str:
        """Return the text."""
        return data[start:end].decode()


class BinaryPoint(VariablePoint):
    """Bytes as they are."""

    def encode(self, value: Any) -> bytes:
        """Return the value's bytes."""
        form: bytes = _binary_form(value)
        return form

    def decode(self, data: bytes, start: int, end: int) -> bytes:
        """Return the bytes."""
        return data[start:end]


PointValue = FixedPoint | VariablePoint


def point_value(arrow_type: pa.DataType) -> PointValue | None:
    """Return the codec of a type; None if it is nested."""
    if pa.types.is_decimal(arrow_type):
        return _decimal(arrow_type)
    if pa.types.is_timestamp(arrow_type):
        return _NAIVE_TIMESTAMP if arrow_type.tz is None else _TIMESTAMP
    return _PLAIN.get(arrow_type)


def _unpack_date(days: int) -> dt.date:
    return _EPOCH_DATE + dt.timedelta(days)


def _unpack_interval(microseconds: int) -> dt.timedelta:
    return microseconds * _MICROSECOND


def _unpack_timestamp(microseconds: int) -> dt.datetime:
    return _EPOCH + microseconds * _MICROSECOND


def _unpack_naive_timestamp(microseconds: int) -> dt.datetime:
    return _NAIVE_EPOCH + microseconds * _MICROSECOND


def _unpack_time(nanoseconds: int) -> dt.time:
    if not 0 <= nanoseconds < _DAY_MICROSECONDS * 1000:
        raise ValueError(f"{nanoseconds} ns is not a time of day")
    return (_NAIVE_EPOCH + dt.timedelta(0, 0, nanoseconds // 1000)).time()


def _decimal(arrow_type: pa.Decimal128Type) -> FixedPoint:
    unscaled_of, scale = canonical_form(arrow_type), arrow_type.scale

    unit, multiply = decimal.Decimal((0, (1,), -scale)), _EXACT.multiply

    def value_of(unscaled: int) -> decimal.Decimal:
        return multiply(unscaled, unit)

    width = decimal_width(arrow_type.precision) or _LONG_DECIMAL_BYTES
    if width in _INTEGERS:
        return FixedPoint(_INTEGERS[width], unscaled_of, value_of)

    def value_in(data: bytes) -> decimal.Decimal:
        # Not by `value_of`: a call takes a third of what this does.
        return multiply(int.from_bytes(data, "little", signed=True), unit)

    return FixedPoint(
        f"{width}s",
        lambda value: unscaled_of(value).to_bytes(width, "little", signed=True),
        value_in,
        b"",
    )


def _fixed(
    arrow_type: pa.DataType,
    slot: str,
    decode: Callable[[Any], Any] | None = None,
    zero: Any = 0,
) -> FixedPoint:
    return FixedPoint(slot, canonical_form(arrow_type), decode, zero)


_TIMESTAMP = _fixed(pa.timestamp("us", "UTC"), "q", _unpack_timestamp)
_NAIVE_TIMESTAMP = _fixed(pa.timestamp("us"), "q", _unpack_naive_timestamp)
_PLAIN: dict[pa.DataType, PointValue] = {
    pa.null(): _fixed(pa.null(), "0s", zero=b""),
    pa.bool_(): _fixed(pa.bool_(), "?", zero=False),
    pa.int8(): _fixed(pa.int8(), "b"),
    pa.int16(): _fixed(pa.int16(), "h"),
    pa.int32(): _fixed(pa.int32(), "i"),
    pa.int64(): _fixed(pa.int64(), "q"),
    pa.float32(): _fixed(pa.float32(), "f"),
    pa.float64(): _fixed(pa.float64(), "d"),
    pa.date32(): _fixed(pa.date32(), "i", _unpack_date),
    pa.time64("ns"): _fixed(pa.time64("ns"), "q", _unpack_time),
    pa.duration("us"): _fixed(pa.duration("us"), "q", _unpack_interval),
    pa.string(): TextPoint(),
    pa.binary(): BinaryPoint(),
}
