"""One key at a time: the codec of memcomparable.py for point lookups, in plain Python.

Promises the same bytes as the codec for batches, from values in their canonical form
(`vnode.canonical`). Does not know: Arrow, tables.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ..errors import SchemaError
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
_BOOLEANS = {False: _TAG + b"\x00", True: _TAG + b"\x01"}
_INTEGER_CODES = {1: "b", 2: "h", 4: "i", 8: "q"}
_LONG_SIGN = 1 << 127


def point_encoder(
    types: Sequence[t.DataType], descending: Sequence[bool], null_tags: Sequence[int]
) -> Callable[[Sequence[Any]], bytes]:
    """Return the function that encodes one key, given as canonical forms or None."""
    encoders = [
        _column_encoder(*column) for column in zip(types, descending, null_tags, strict=True)
    ]
    if len(encoders) == 1:
        (encoder,) = encoders
        return lambda forms: encoder(forms[0])
    return _joined(encoders)


def _joined(encoders: Sequence[Encoder]) -> Callable[[Sequence[Any]], bytes]:
    def encode(forms: Sequence[Any]) -> bytes:
        key = b""
        for encoder, form in zip(encoders, forms, strict=True):
            key += encoder(form)
        return key

    return encode


def _column_encoder(data_type: t.DataType, descending: bool, null_tag: int) -> Encoder:
    """Return the encoder of a column that may be NULL."""
    encode = _value_encoder(data_type)
    null = bytes([null_tag])
    if not descending:
        return lambda form: null if form is None else encode(form)
    null = null.translate(_INVERSE)
    return lambda form: null if form is None else encode(form).translate(_INVERSE)


def _value_encoder(data_type: t.DataType) -> Encoder:
    """Return the encoder of a tag and a value that is not NULL, ascending."""
    match data_type:
        case t.Decimal(precision, _):
            return _integer(8) if precision <= LONG_DECIMAL_PRECISION else _long_decimal
        case t.Struct(fields):
            return _struct([_column_encoder(field.type, False, NULL_FIRST_TAG) for field in fields])
        case t.Array(element, _):
            return _array(_column_encoder(element, False, NULL_FIRST_TAG))
    encoder = _VALUE_ENCODERS.get(type(data_type))
    if encoder is None:
        raise SchemaError(f"a column of type {data_type} cannot be in a key")
    return encoder


def _boolean(form: bool) -> bytes:
    return _BOOLEANS[form]


def _integer(size: int) -> Encoder:
    pack = struct.Struct(">B" + _INTEGER_CODES[size]).pack
    sign = -(1 << (8 * size - 1))
    return lambda form: pack(VALUE_TAG, form ^ sign)


def _floating(size: int) -> Encoder:
    floating, unsigned = (">f", ">I") if size == 4 else (">d", ">Q")
    pack_float = struct.Struct(floating).pack
    unpack_bits = struct.Struct(unsigned).unpack
    pack = struct.Struct(">B" + unsigned[1]).pack
    sign, ones = 1 << (8 * size - 1), (1 << 8 * size) - 1
    nan = pack(VALUE_TAG, sign | (0x7FC00000 if size == 4 else 0x7FF8000000000000))
    zero = pack(VALUE_TAG, sign)

    def encode(form: float) -> bytes:
        if form != form:
            return nan
        (bits,) = unpack_bits(pack_float(form))
        if bits == sign:
            return zero
        return pack(VALUE_TAG, bits ^ ones if bits & sign else bits ^ sign)

    return encode


def _long_decimal(form: int) -> bytes:
    return _TAG + (form + _LONG_SIGN).to_bytes(16, "big")


def _binary(form: bytes) -> bytes:
    return _TAG + form.replace(ZERO, ESCAPED_ZERO) + TERMINATOR


def _struct(encoders: Sequence[Encoder]) -> Encoder:
    encode_fields = _joined(encoders)
    return lambda form: _TAG + encode_fields(form)


def _array(encode_element: Encoder) -> Encoder:
    def encode(form: Sequence[Any]) -> bytes:
        return _TAG + b"".join([_ELEMENT + encode_element(element) for element in form]) + _END

    return encode


_VALUE_ENCODERS: dict[type[t.DataType], Encoder] = {
    t.Boolean: _boolean,
    t.TinyInt: _integer(1),
    t.SmallInt: _integer(2),
    t.Int: _integer(4),
    t.BigInt: _integer(8),
    t.Float: _floating(4),
    t.Double: _floating(8),
    t.String: _binary,
    t.Binary: _binary,
    t.Date: _integer(4),
    t.Timestamp: _integer(8),
    t.TimestampNtz: _integer(8),
    t.Time: _integer(8),
    t.DayTimeInterval: _integer(8),
}
