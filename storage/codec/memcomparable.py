"""The key codec: rows of key columns as bytes that compare as the rows do.

    key     column, column, ...
    column  a field of key_field.py, every byte inverted, tag included, if descending

                          ascending                  descending
    NULLs first           NULL 0x00, value 0x01      NULL 0xfd, value 0xfe
    NULLs last            value 0x01, NULL 0x02      value 0xfe, NULL 0xff

The tags are RisingWave's idea, the text is YugabyteDB's. On disk: never change.
Promises: the order of bytes is the order of rows under the key's orders; no key is a prefix of
another; what is decoded is what was encoded, except that -0 becomes 0 and every NaN the same NaN.
A single key, from values in their canonical form (`vnode.canonical`), has the bytes that it has in
a batch. A codec over the first columns of a key encodes the prefixes of its keys.
Does not know: tables, vnodes, versions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from relstate.vnode import canonical_row

from ..errors import SchemaError, SchemaMismatchError, ValueRangeError
from ..schema import types as t
from ..schema.arrow import arrow_type
from .key_field import (
    ELEMENT,
    END_OF_ARRAY,
    ESCAPED_ZERO,
    NULL_FIRST_TAG,
    NULL_LAST_TAG,
    TERMINATOR,
    VALUE_TAG,
    ZERO,
    KeyBytes,
    Part,
    Tagged,
    inverted,
    join,
    key_field_of,
)
from .ragged import Buffer, Bytes, Positions, content_of, parts_of
from .sortable import LONG_DECIMAL_PRECISION

Encoder: TypeAlias = Callable[[Any], bytes]

_TAG, _ELEMENT, _END = bytes([VALUE_TAG]), bytes([ELEMENT]), bytes([END_OF_ARRAY])
_INVERSE = bytes(range(255, -1, -1))
_BOOLEANS = {False: _TAG + b"\x00", True: _TAG + b"\x01"}
_INTEGER_CODES = {1: "b", 2: "h", 4: "i", 8: "q"}
_LONG_SIGN = 1 << 127


class Order(Protocol):
    """How the values of a key column sort, as `schema.KeyColumn` says it."""

    @property
    def descending(self) -> bool:
        """Whether greater values come first."""

    @property
    def nulls_first(self) -> bool:
        """Whether NULLs come before every value."""


def null_tag_of(order: Order) -> int:
    """Return the tag of a NULL as it is before the bytes of a descending column are inverted."""
    return NULL_FIRST_TAG if order.nulls_first != order.descending else NULL_LAST_TAG


class KeyCodec:
    """The codec of the keys over some columns. Immutable; safe between threads.

    ``width``: the length of every key in which no column is NULL; None if that varies.
    ``even_width``: the same; None if a column descends, too.
    ``encode_canonical``: the function from the canonical forms of a row's values to its key.
    """

    def __init__(
        self, types: Sequence[t.DataType], orders: Sequence[Order], *, tells_zeros: bool = False
    ) -> None:
        """Prepare the codec; SchemaError for a type whose values have no order.

        ``tells_zeros``: in batches -0 is before 0, instead of being 0.
        """
        self._fields = [
            Tagged(key_field_of(data_type, tells_zeros=tells_zeros), null_tag_of(order))
            for data_type, order in zip(types, orders, strict=True)
        ]
        self._descending = [order.descending for order in orders]
        self._arrow = [arrow_type(data_type) for data_type in types]
        self._types = types
        self._canonical = canonical_row(self._arrow)
        self.encode_canonical = point_encoder(
            types, self._descending, list(map(null_tag_of, orders))
        )
        self._widths = [field.width or 0 for field in self._fields]
        self.width = sum(self._widths) if all(self._widths) else None
        self.even_width = None if any(self._descending) else self.width

    def encode(self, columns: Sequence[pa.Array], prefix: Sequence[Part] = ()) -> Bytes:
        """Return the keys of rows whose key columns are ``columns``, of the types' Arrow types.

        ``prefix``: what each key begins with. SchemaMismatchError for other columns.
        """
        if [column.type for column in columns] != self._arrow:
            given_types = ", ".join(str(column.type) for column in columns)
            key_types = ", ".join(map(str, self._arrow))
            raise SchemaMismatchError(f"the key columns are {key_types}, not {given_types}")
        parts = [*prefix]
        for field, descending, column in zip(self._fields, self._descending, columns, strict=True):
            pieces = field.parts(column)
            parts += map(inverted, pieces) if descending else pieces
        return join(parts, len(columns[0]))

    def decode(self, keys: Bytes) -> list[pa.Array]:
        """Return the key columns of the rows with these keys, of exactly the types' Arrow types.

        ValueError or IndexError if the bytes are not such keys.
        """
        offsets = parts_of(keys)[1]
        starts, ends = offsets[:-1] - offsets[0], offsets[1:] - offsets[0]
        ascending = KeyBytes(content_of(keys))
        columns = []
        for field, descending in zip(self._fields, self._descending, strict=True):
            column, starts = field.read(ascending.inverted if descending else ascending, starts)
            columns.append(column)
        if not np.array_equal(starts, ends):
            raise ValueError("a key is longer or shorter than its columns")
        return columns

    def columns_at(
        self, buffer: Buffer, starts: Positions, indices: Sequence[int]
    ) -> list[pa.Array]:
        """Return some of the columns of the keys that begin at positions in a buffer.

        All keys have the length `even_width`, so that what is not asked for is not read.
        ValueError or IndexError if the bytes are not such keys.
        """
        keys = KeyBytes(buffer)
        return [
            self._fields[index].read(keys, starts + sum(self._widths[:index]))[0]
            for index in indices
        ]

    def encode_key(self, values: Sequence[object]) -> bytes:
        """Return the key of one row, given as Python values; the same bytes as from `encode`.

        Errors as of `canonical`.
        """
        return self.encode_canonical(self.canonical(values))

    def canonical(self, values: Sequence[object]) -> list[Any]:
        """Return the canonical forms of a row's values, from which `encode_canonical` makes a key.

        SchemaMismatchError for a value of another type, or too few or many values;
        ValueRangeError for one that does not fit.
        """
        try:
            return self._canonical(values)
        except (ArithmeticError, UnicodeError, struct.error) as error:
            raise ValueRangeError(self._misfit(values, "does not fit", error)) from error
        except (TypeError, AttributeError, ValueError) as error:
            raise SchemaMismatchError(self._misfit(values, "is not of", error)) from error

    def _misfit(self, values: Sequence[object], verb: str, error: Exception) -> str:
        types = ", ".join(map(str, self._types))
        if len(values) != len(self._types):
            return f"the key {values!r:.200} has not one value for each column: {types}"
        return f"the key {values!r:.200} {verb} the key columns' types: {types} ({error})"


# One key at a time: canonical forms to bytes, in plain Python


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
