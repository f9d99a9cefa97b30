"""One key at a time: the codec of memcomparable.py for point lookups, in plain Python.

Promises the same bytes as the codec for batches. Python values are those of Arrow's ``as_py``:
int, float, str, bytes, bool, Decimal, date, datetime (aware for a timestamp, naive without time
zone), time, timedelta, dict or tuple for a struct, list for an array, None.
Does not know: Arrow, tables.
"""

from __future__ import annotations

import datetime
import decimal
import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ..errors import SchemaError, SchemaMismatchError, ValueRangeError
from ..schema import types as t
from .key_field import (
    ELEMENT,
    END_OF_ARRAY,
    ESCAPED_ZERO,
    NULL_FIRST_TAG,
    TERMINATOR,
    VALUE_TAG,
    ZERO,
)
from .sortable import LONG_DECIMAL_PRECISION

Encoder: TypeAlias = Callable[[Any], bytes]

_TAG, _ELEMENT, _END = bytes([VALUE_TAG]), bytes([ELEMENT]), bytes([END_OF_ARRAY])
_INVERSE = bytes(range(255, -1, -1))
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_EXACT = decimal.Context(
    prec=2 * t.MAX_DECIMAL_PRECISION, traps=[decimal.Inexact, decimal.InvalidOperation]
)


def point_encoder(
    types: Sequence[t.DataType], descending: Sequence[bool], null_tags: Sequence[int]
) -> Callable[[Sequence[object]], bytes]:
    """Return the function that encodes the values of one key; errors as `KeyCodec.encode_one`."""
    encoders = [
        _column_encoder(*column) for column in zip(types, descending, null_tags, strict=True)
    ]
    encode = _single(encoders[0]) if len(encoders) == 1 else _several(encoders)

    def checked(values: Sequence[object]) -> bytes:
        try:
            return encode(values)
        except (struct.error, OverflowError, UnicodeError, decimal.DecimalException) as error:
            raise ValueRangeError(_complaint(values, types, "does not fit")) from error
        except (TypeError, AttributeError, ValueError, KeyError) as error:
            raise SchemaMismatchError(_complaint(values, types, "is not of")) from error

    return checked


def _single(encoder: Encoder) -> Encoder:
    def encode(values: Sequence[object]) -> bytes:
        (value,) = values
        return encoder(value)

    return encode


def _several(encoders: Sequence[Encoder]) -> Encoder:
    def encode(values: Sequence[object]) -> bytes:
        key = b""
        for encoder, value in zip(encoders, values, strict=True):
            key += encoder(value)
        return key

    return encode


def _complaint(values: Sequence[object], types: Sequence[t.DataType], verb: str) -> str:
    wanted = ", ".join(map(str, types))
    return f"the key {values!r} {verb} the key columns' types: {wanted}"


def _column_encoder(data_type: t.DataType, descending: bool, null_tag: int) -> Encoder:
    """Return the encoder of a column that may be NULL."""
    value = _value_encoder(data_type)
    null = bytes([null_tag])
    if not descending:
        return lambda found: null if found is None else value(found)
    null = null.translate(_INVERSE)
    return lambda found: null if found is None else value(found).translate(_INVERSE)


def _field_encoder(data_type: t.DataType) -> Encoder:
    return _column_encoder(data_type, False, NULL_FIRST_TAG)


def _value_encoder(data_type: t.DataType) -> Encoder:
    """Return the encoder of a tag and a value that is not NULL, ascending."""
    match data_type:
        case t.Decimal(precision, scale):
            return _decimal(precision, scale)
        case t.Struct(fields):
            return _struct([field.name for field in fields], [field.type for field in fields])
        case t.Array(element, _):
            return _array(_field_encoder(element))
    encoder = _VALUE_ENCODERS.get(type(data_type))
    if encoder is None:
        raise SchemaError(f"a column of type {data_type} cannot be in a key")
    return encoder


def _boolean(value: Any) -> bytes:
    if not isinstance(value, bool):
        raise TypeError("expected a bool")
    return _BOOLEANS[value]


_BOOLEANS = {False: _TAG + b"\x00", True: _TAG + b"\x01"}


def _integer(size: int, number_of: Callable[[Any], int] | None = None) -> Encoder:
    pack = struct.Struct(">B" + _INTEGER_CODES[size]).pack
    # Flips the sign bit, and keeps a number that does not fit from fitting.
    sign = -(1 << (8 * size - 1))

    def encode(value: Any) -> bytes:
        # Python counts True as 1.
        if value is True or value is False:
            raise TypeError("a bool is not a number")
        return pack(VALUE_TAG, value ^ sign)

    if number_of is None:
        return encode
    return lambda value: pack(VALUE_TAG, number_of(value) ^ sign)


_INTEGER_CODES = {1: "b", 2: "h", 4: "i", 8: "q"}


def _floating(size: int) -> Encoder:
    floating, unsigned = (">f", ">I") if size == 4 else (">d", ">Q")
    pack_float = struct.Struct(floating).pack
    unpack_bits = struct.Struct(unsigned).unpack
    pack = struct.Struct(">B" + unsigned[1]).pack
    sign, ones = 1 << (8 * size - 1), (1 << 8 * size) - 1
    nan = pack(VALUE_TAG, sign | (0x7FC00000 if size == 4 else 0x7FF8000000000000))
    zero = pack(VALUE_TAG, sign)

    def encode(value: Any) -> bytes:
        if value is True or value is False:
            raise TypeError("a bool is not a number")
        value += 0.0
        if value != value:
            return nan
        (bits,) = unpack_bits(pack_float(value))
        if bits == sign:
            return zero
        return pack(VALUE_TAG, bits ^ ones if bits & sign else bits ^ sign)

    return encode


def _decimal(precision: int, scale: int) -> Encoder:
    unit = decimal.Decimal(1).scaleb(-scale)
    limit = 10**precision
    pack = struct.Struct(">Bq").pack
    short = precision <= LONG_DECIMAL_PRECISION

    def encode(value: Any) -> bytes:
        if isinstance(value, bool):
            raise TypeError("a bool is not a number")
        unscaled = int(_EXACT.scaleb(_EXACT.quantize(value, unit), scale))
        if not -limit < unscaled < limit:
            raise OverflowError
        if short:
            return pack(VALUE_TAG, unscaled ^ _MINIMUM)
        return _TAG + (unscaled + _LONG_SIGN).to_bytes(16, "big")

    return encode


_MINIMUM, _LONG_SIGN = -(1 << 63), 1 << 127


def _text(value: Any) -> bytes:
    return _binary(value.encode())


def _binary(value: Any) -> bytes:
    found: bytes = _TAG + value.replace(ZERO, ESCAPED_ZERO) + TERMINATOR
    return found


def _days(value: Any) -> int:
    if isinstance(value, datetime.datetime):
        raise TypeError("a date has no time of day")
    days: int = value.toordinal() - _EPOCH_DAY
    return days


def _instant(value: Any) -> int:
    microseconds: int = (value - _EPOCH_UTC) // _MICROSECOND
    return microseconds


def _local(value: Any) -> int:
    microseconds: int = (value - _EPOCH) // _MICROSECOND
    return microseconds


def _time_of_day(value: Any) -> int:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    nanoseconds: int = (seconds * 1_000_000 + value.microsecond) * 1_000
    return nanoseconds


def _span(value: Any) -> int:
    microseconds: int = value // _MICROSECOND
    return microseconds


def _struct(names: Sequence[str], types: Sequence[t.DataType]) -> Encoder:
    encoders = [_field_encoder(data_type) for data_type in types]

    def encode(value: Any) -> bytes:
        if isinstance(value, dict):
            if len(value) != len(names):
                raise ValueError("a struct has other fields")
            value = [value[name] for name in names]
        elif not isinstance(value, tuple):
            raise TypeError("a struct is a dict or a tuple")
        pairs = zip(encoders, value, strict=True)
        return _TAG + b"".join([encoder(part) for encoder, part in pairs])

    return encode


def _array(encoder: Encoder) -> Encoder:
    def encode(value: Any) -> bytes:
        if not isinstance(value, list | tuple):
            raise TypeError("an array is a list")
        return _TAG + b"".join([_ELEMENT + encoder(element) for element in value]) + _END

    return encode


_VALUE_ENCODERS: dict[type[t.DataType], Encoder] = {
    t.Boolean: _boolean,
    t.TinyInt: _integer(1),
    t.SmallInt: _integer(2),
    t.Int: _integer(4),
    t.BigInt: _integer(8),
    t.Float: _floating(4),
    t.Double: _floating(8),
    t.String: _text,
    t.Binary: _binary,
    t.Date: _integer(4, _days),
    t.Timestamp: _integer(8, _instant),
    t.TimestampNtz: _integer(8, _local),
    t.Time: _integer(8, _time_of_day),
    t.DayTimeInterval: _integer(8, _span),
}
