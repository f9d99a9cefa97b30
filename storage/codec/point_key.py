"""One key at a time: its bytes to Python values, without Arrow where the types are simple.

Promises: the values are those that `KeyCodec.decode` gives, as Python values.
Does not know: tables, vnodes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from ..schema import types as t
from .key_field import ESCAPED_ZERO, TERMINATOR, VALUE_TAG, ZERO
from .memcomparable import KeyCodec, Order

ColumnReader: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
"""Takes an ascending key and where a column's value begins; returns the value and where it ends."""

_INVERSE = bytes(range(255, -1, -1))


def key_decoder(
    codec: KeyCodec, types: Sequence[t.DataType], orders: Sequence[Order]
) -> Callable[[bytes], list[Any]]:
    """Return the function from a key to the values of its columns.

    It raises ValueError, IndexError or struct.error for bytes that are not such a key.
    """
    readers = [column_reader(data_type) for data_type in types]
    if None in readers:
        return lambda key: [
            column[0].as_py() for column in codec.decode(pa.array([key], pa.large_binary()))
        ]
    columns = [
        (reader, order.descending)
        for reader, order in zip(readers, orders, strict=True)
        if reader is not None
    ]

    descends = any(descending for _, descending in columns)

    def decode(key: bytes) -> list[Any]:
        inverted = key.translate(_INVERSE) if descends else key
        values: list[Any] = []
        position = 0
        for read, descending in columns:
            data = inverted if descending else key
            position += 1
            if data[position - 1] != VALUE_TAG:
                values.append(None)
                continue
            value, position = read(data, position)
            values.append(value)
        if position != len(key):
            raise ValueError("a key is longer or shorter than its columns")
        return values

    return decode


def column_reader(data_type: t.DataType) -> ColumnReader | None:
    """Return the reader of the values of a type that are not NULL; None if there is none."""
    return _READERS.get(type(data_type))


def read_tagged(read: ColumnReader, key: bytes, start: int) -> tuple[Any, int]:
    """Return the value whose tag is at a position of an ascending key, and where it ends.

    ValueError, IndexError or struct.error for NULL, and for bytes that are not such a value.
    """
    if key[start] != VALUE_TAG:
        raise ValueError("NULL, or no value, where a key is expected")
    return read(key, start + 1)


def _integer(code: str) -> ColumnReader:
    layout = struct.Struct(f">{code}")
    unpack, size = layout.unpack_from, layout.size
    sign = 1 << (8 * size - 1)
    return lambda data, start: (unpack(data, start)[0] - sign, start + size)


def _binary(data: bytes, start: int) -> tuple[bytes, int]:
    stop = data.index(TERMINATOR, start)
    return data[start:stop].replace(ESCAPED_ZERO, ZERO), stop + len(TERMINATOR)


def _text(data: bytes, start: int) -> tuple[str, int]:
    content, stop = _binary(data, start)
    return content.decode(), stop


_READERS: dict[type[t.DataType], ColumnReader] = {
    t.TinyInt: _integer("B"),
    t.SmallInt: _integer("H"),
    t.Int: _integer("I"),
    t.BigInt: _integer("Q"),
    t.String: _text,
    t.Binary: _binary,
}
