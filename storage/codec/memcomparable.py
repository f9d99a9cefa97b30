"""The key codec: rows of key columns as bytes that compare as the rows do.

    key     column, column, ...
    column  a field of key_field.py, every byte inverted, tag included, if descending

                          ascending                  descending
    NULLs first           NULL 0x00, value 0x01      NULL 0xfd, value 0xfe
    NULLs last            value 0x01, NULL 0x02      value 0xfe, NULL 0xff

The tags are RisingWave's idea, the text is YugabyteDB's. On disk: never change.
Promises: the order of bytes is the order of rows under the key's orders; no key is a prefix of
another; what is decoded is what was encoded, except that -0 becomes 0 and every NaN the same NaN.
A codec over the first columns of a key encodes the prefixes of its keys.
Does not know: tables, vnodes, versions.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from relstate.vnode import canonical_row

from ..errors import SchemaMismatchError, ValueRangeError
from ..schema import types as t
from ..schema.arrow import arrow_type
from .key_field import NULL_FIRST_TAG, NULL_LAST_TAG, KeyBytes, Tagged, field_of
from .key_part import Part, inverted, join
from .point_key import point_encoder
from .ragged import Bytes, content_of, parts_of


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
    ``encode_canonical``: the function from the canonical forms of a row's values to its key.
    """

    def __init__(self, types: Sequence[t.DataType], orders: Sequence[Order]) -> None:
        """Prepare the codec; SchemaError for a type whose values have no order."""
        self._fields = [
            Tagged(field_of(data_type), null_tag_of(order))
            for data_type, order in zip(types, orders, strict=True)
        ]
        self._descending = [order.descending for order in orders]
        self._arrow = [arrow_type(data_type) for data_type in types]
        self._types = types
        self._canonical = canonical_row(self._arrow)
        self.encode_canonical = point_encoder(
            types, self._descending, list(map(null_tag_of, orders))
        )
        widths = [field.width for field in self._fields]
        self.width = None if None in widths else sum(width or 0 for width in widths)

    def encode(self, columns: Sequence[pa.Array]) -> Bytes:
        """Return the keys of rows whose key columns are ``columns``, of the types' Arrow types.

        SchemaMismatchError for other columns.
        """
        if [column.type for column in columns] != self._arrow:
            given_types = ", ".join(str(column.type) for column in columns)
            key_types = ", ".join(map(str, self._arrow))
            raise SchemaMismatchError(f"the key columns are {key_types}, not {given_types}")
        parts: list[Part] = []
        for field, descending, column in zip(self._fields, self._descending, columns, strict=True):
            pieces = field.parts(column)
            parts += map(inverted, pieces) if descending else pieces
        return join(parts, len(columns[0]))

    def decode(self, keys: Bytes) -> list[pa.Array]:
        """Return the key columns of the rows with these keys, of exactly the types' Arrow types.

        ValueError or IndexError if the bytes are not such keys.
        """
        offsets = parts_of(keys)[1]
        places, ends = offsets[:-1] - offsets[0], offsets[1:] - offsets[0]
        ascending = KeyBytes(content_of(keys))
        columns = []
        for field, descending in zip(self._fields, self._descending, strict=True):
            column, places = field.read(ascending.inverted if descending else ascending, places)
            columns.append(column)
        if not np.array_equal(places, ends):
            raise ValueError("a key is longer or shorter than its columns")
        return columns

    def encode_one(self, values: Sequence[object]) -> bytes:
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
        return f"the key {values!r} {verb} the key columns' types: {types} ({error})"
