"""One row, or one struct within a row, as Python values, in the layout of row_body.py.

Promises: the same bytes as row_body.py. What depends on the fields alone is done once.
Does not know: what the values of a field look like.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from ..errors import NullValueError
from .point_value import FixedPoint, PointValue, VariablePoint


class PointBody:
    """A row, or the fields of a struct, as in row_body.py."""

    def __init__(self, codecs: Sequence[PointValue], fields: Sequence[pa.Field]) -> None:
        width = -(-len(fields) // 8)
        self._bitmap_width = width
        self._no_nulls = bytes(width)
        self._required = sum(1 << i for i, field in enumerate(fields) if not field.nullable)
        self._names: list[str] = [field.name for field in fields]
        formats = [codec.format if isinstance(codec, FixedPoint) else "I" for codec in codecs]
        layout = struct.Struct(f"<{width}s{''.join(formats)}")
        self._width, self._pack, self._unpack = layout.size, layout.pack, layout.unpack_from
        self._fixed = [
            (index, codec.decode)
            for index, codec in enumerate(codecs)
            if isinstance(codec, FixedPoint) and codec.decode is not None
        ]
        self._variable = [
            (index, codec.decode)
            for index, codec in enumerate(codecs)
            if isinstance(codec, VariablePoint)
        ]
        self._steps: list[tuple[int, Callable[[Any], Any], bool, Any]] = [
            (1 << index, codec.encode, False, codec.zero)
            if isinstance(codec, FixedPoint)
            else (1 << index, codec.encode, True, None)
            for index, codec in enumerate(codecs)
        ]

    def encode(self, values: Sequence[Any]) -> bytes:
        """Return the bytes of as many values as there are fields."""
        nulls = end = 0
        slots: list[Any] = []
        parts = [b""]
        for value, (bit, encode, is_variable, zero) in zip(values, self._steps, strict=True):
            if value is None:
                nulls |= bit
                slots.append(end if is_variable else zero)
            elif is_variable:
                part = encode(value)
                parts.append(part)
                end += len(part)
                slots.append(end)
            else:
                slots.append(encode(value))
        if nulls & self._required:
            raise NullValueError(f"the field {self._first(nulls & self._required)!r} is NOT NULL")
        parts[0] = self._pack(nulls.to_bytes(self._bitmap_width, "little"), *slots)
        return b"".join(parts)

    def decode(self, data: bytes, start: int, end: int) -> list[Any]:
        """Return the values whose bytes fill ``data[start:end]``."""
        position = base = start + self._width
        if base > end:
            raise ValueError(f"a row has {end - start} bytes; its fields take {self._width}")
        bitmap, *values = self._unpack(data, start)
        nulls = 0 if bitmap == self._no_nulls else int.from_bytes(bitmap, "little")
        for index, decode in self._variable:
            stop = base + values[index]
            if not position <= stop <= end:
                raise ValueError(f"field {index} of a row does not end where its bytes do")
            if not nulls >> index & 1:
                values[index] = decode(data, position, stop)
            elif position != stop:
                raise ValueError(f"field {index} of a row is NULL and has bytes")
            position = stop
        if position != end:
            raise ValueError(f"a row has {end - position} bytes more than its fields")
        for index, decode_slot in self._fixed:
            values[index] = decode_slot(values[index])
        return self._with_nulls(values, nulls) if nulls else values

    def _with_nulls(self, values: list[Any], nulls: int) -> list[Any]:
        if nulls & self._required:
            name = self._first(nulls & self._required)
            raise ValueError(f"the field {name!r} of a struct is NULL and must not be")
        return [None if nulls >> index & 1 else value for index, value in enumerate(values)]

    def _first(self, bits: int) -> str:
        return self._names[(bits & -bits).bit_length() - 1]
