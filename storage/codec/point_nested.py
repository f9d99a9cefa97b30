"""Single rows and nested values, as Python values, to and from the bytes of whole batches.

A row, or the fields of a struct, has the layout of row_body.py, other values that of
nested_field.py.

    STRUCT, VARIANT   dict by field name; a tuple of the values is taken too, and is what is
                      returned where two fields have one name
    ARRAY             list
    MAP               dict; a list of (key, value) is taken too, and is what is returned where
                      keys are structs, arrays or the like, which Python cannot hash

Promises: the same bytes and values as in batches; None only where the type allows NULL. What
depends on the fields alone is done once.
Does not know: which codec the values within have.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import pyarrow as pa

from relstate.vnode import struct_values

from ..errors import NullValueError
from .point_value import FixedPoint, PointValue, TextPoint, VariablePoint
from .row_body import bitmap_width, null_bit
from .row_function import Place, RowForm, RowFunction, row_function

_HEADER = struct.Struct("<IB")


class PointBody:
    """A row, or the fields of a struct, as in row_body.py.

    ``decode``: the function from (data, start, end) to the values whose bytes fill
    ``data[start:end]``.
    """

    def __init__(self, codecs: Sequence[PointValue], fields: Sequence[pa.Field]) -> None:
        width = bitmap_width(len(fields))
        self._codecs = codecs
        self._bitmap_width = width
        self._no_nulls = bytes(width)
        self._bits = [1 << null_bit(index) for index in range(len(fields))]
        self._required = sum(
            bit for bit, field in zip(self._bits, fields, strict=True) if not field.nullable
        )
        self._names: list[str] = [field.name for field in fields]
        # The last variable field ends where the row does, and has no slot: one of no bytes.
        last = max(
            (index for index, codec in enumerate(codecs) if isinstance(codec, VariablePoint)),
            default=-1,
        )
        formats = [
            codec.format if isinstance(codec, FixedPoint) else "0s" if index == last else "I"
            for index, codec in enumerate(codecs)
        ]
        layout = struct.Struct(f"<{width}s{''.join(formats)}")
        self._width, self._pack, self._unpack = layout.size, layout.pack, layout.unpack_from
        self._fixed = [
            (index, codec.decode)
            for index, codec in enumerate(codecs)
            if isinstance(codec, FixedPoint) and codec.decode is not None
        ]
        # Texts are decoded here: another call would take longer than that.
        self._variable = [
            (index, self._bits[index], None if isinstance(codec, TextPoint) else codec.decode)
            for index, codec in enumerate(codecs)
            if isinstance(codec, VariablePoint)
        ]
        self._last = last
        self._steps: list[tuple[int, Callable[[Any], Any], bool, Any]] = [
            (bit, codec.encode, False, codec.zero)
            if isinstance(codec, FixedPoint)
            else (bit, codec.encode, True, None)
            for bit, codec in zip(self._bits, codecs, strict=True)
        ]
        self.decode = self._decoder()

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
        if self._last >= 0:
            slots[self._last] = b""
        parts[0] = self._pack(nulls.to_bytes(self._bitmap_width, "little"), *slots)
        return b"".join(parts)

    def _decoder(self) -> Callable[[bytes, int, int], list[Any]]:
        """Return `decode`. A closure: each attribute would be looked up for every row."""
        width, unpack, no_nulls, last = self._width, self._unpack, self._no_nulls, self._last
        variable, fixed, with_nulls = self._variable, self._fixed, self._with_nulls

        def decode(data: bytes, start: int, end: int) -> list[Any]:
            position = base = start + width
            if base > end:
                raise ValueError(f"a row has {end - start} bytes; its fields take {width}")
            bitmap, *values = unpack(data, start)
            nulls = 0 if bitmap == no_nulls else int.from_bytes(bitmap, "little")
            for index, bit, decode_value in variable:
                stop = end if index == last else base + values[index]
                if not position <= stop <= end:
                    raise ValueError(f"field {index} of a row does not end where its bytes do")
                if not nulls & bit:
                    values[index] = (
                        data[position:stop].decode()
                        if decode_value is None
                        else decode_value(data, position, stop)
                    )
                elif position != stop:
                    raise ValueError(f"field {index} of a row is NULL and has bytes")
                position = stop
            if position != end:
                raise ValueError(f"a row has {end - position} bytes more than its fields")
            for index, decode_slot in fixed:
                values[index] = decode_slot(values[index])
            return with_nulls(values, nulls) if nulls else values

        return decode

    def decoder_of(self, indices: Sequence[int]) -> Callable[[bytes, int, int], list[Any]]:
        """Return the function from (data, start, end) to the values of the fields at ``indices``.

        It is `decode` for these fields only; the bytes of the others are not looked at.
        """
        fixed: dict[int, Any] = dict(self._fixed)
        variable: dict[int, Any] = {index: decode for index, _, decode in self._variable}
        befores = dict(zip(variable, [None, *variable], strict=False))
        steps = [
            (
                (index, self._bits[index], index in variable),
                (variable.get(index, fixed.get(index)), befores.get(index)),
            )
            for index in indices
        ]
        width, unpack, no_nulls = self._width, self._unpack, self._no_nulls
        last = self._last

        def decode(data: bytes, start: int, end: int) -> list[Any]:
            base = start + width
            if base > end:
                raise ValueError(f"a row has {end - start} bytes; its fields take {width}")
            bitmap, *slots = unpack(data, start)
            nulls = 0 if bitmap == no_nulls else int.from_bytes(bitmap, "little")
            values: list[Any] = []
            for (index, bit, is_variable), (decode_value, before) in steps:
                value = slots[index]
                if nulls & bit:
                    value = None
                elif is_variable:
                    position = base + (0 if before is None else slots[before])
                    stop = end if index == last else base + value
                    if not position <= stop <= end:
                        raise ValueError(f"field {index} of a row does not end where its bytes do")
                    value = (
                        data[position:stop].decode()
                        if decode_value is None
                        else decode_value(data, position, stop)
                    )
                elif decode_value is not None:
                    value = decode_value(value)
                values.append(value)
            return values

        return decode

    def row_function(
        self, places: Sequence[Place], header: bytes, row_class: type[Any], otherwise: RowFunction
    ) -> RowFunction:
        """Return the quickest function that makes rows of these fields: see `row_function`."""
        form = RowForm(self._codecs, self._bitmap_width, header)
        return row_function(form, places, row_class, otherwise)

    def _with_nulls(self, values: list[Any], nulls: int) -> list[Any]:
        if nulls & self._required:
            name = self._first(nulls & self._required)
            raise ValueError(f"the field {name!r} of a struct is NULL and must not be")
        return [
            None if nulls & bit else value for bit, value in zip(self._bits, values, strict=True)
        ]

    def _first(self, bits: int) -> str:
        return self._names[self._bits.index(bits & -bits)]


class TuplePoint(VariablePoint):
    """A struct, as a tuple: an entry of a map, or a struct that has two fields of one name."""

    def __init__(self, codecs: Sequence[PointValue], fields: Sequence[pa.Field]) -> None:
        self._body = PointBody(codecs, fields)
        self._names = [field.name for field in fields]
        self._values_of = struct_values(self._names)

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a dict, in which a field left out is NULL, or of a tuple or list."""
        return self._body.encode(self._values_of(value))

    def decode(self, data: bytes, start: int, end: int) -> Any:
        """Return a tuple."""
        return tuple(self._body.decode(data, start, end))


class StructPoint(TuplePoint):
    """A struct whose fields have distinct names, as a dict."""

    def decode(self, data: bytes, start: int, end: int) -> Any:
        """Return a dict."""
        return dict(zip(self._names, self._body.decode(data, start, end), strict=True))


class _ListPoint(VariablePoint):
    """An array, as a list."""

    def __init__(self, contains_null: bool) -> None:
        self._contains_null = contains_null

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a list or tuple."""
        if not isinstance(value, list | tuple):
            raise TypeError("expected a list")
        if not any(item is None for item in value):
            return _HEADER.pack(len(value), 0) + self._encode_items(value)
        if not self._contains_null:
            raise NullValueError("an element of an array is None; its type allows none")
        validity = bytes(item is not None for item in value)
        return _HEADER.pack(len(value), 1) + validity + self._encode_items(value)

    def decode(self, data: bytes, start: int, end: int) -> list[Any]:
        """Return a list."""
        position = start + _HEADER.size
        if position > end:
            raise ValueError("an array is shorter than its header")
        count, flag = _HEADER.unpack_from(data, start)
        # Every element takes a byte at least, of its own or of validity.
        if count > end - position or flag > self._contains_null:
            raise ValueError("an array's header does not fit its length or type")
        if not flag:
            return self._decode_items(data, position, end, b"\1" * count)
        validity = data[position : position + count]
        return self._decode_items(data, position + count, end, validity)

    @abstractmethod
    def _encode_items(self, items: Sequence[Any]) -> bytes:
        """Return the bytes that follow the header and the validity bytes."""

    @abstractmethod
    def _decode_items(self, data: bytes, start: int, end: int, validity: bytes) -> list[Any]:
        """Return one value for every validity byte, None where it is 0."""


class FixedListPoint(_ListPoint):
    """An array of values of fixed width."""

    def __init__(self, element: FixedPoint, contains_null: bool) -> None:
        super().__init__(contains_null)
        self._element = element
        self._slot = struct.Struct(f"<{element.format}")

    def _encode_items(self, items: Sequence[Any]) -> bytes:
        encode, zero = self._element.encode, self._element.zero
        slots = [zero if item is None else encode(item) for item in items]
        return b"".join(map(self._slot.pack, slots))

    def _decode_items(self, data: bytes, start: int, end: int, validity: bytes) -> list[Any]:
        if end - start != len(validity) * self._slot.size:
            raise ValueError("the elements of an array do not fill its length")
        if start == end:
            return [None] * len(validity)
        slots = [slot for (slot,) in self._slot.iter_unpack(data[start:end])]
        decode = self._element.decode
        values = slots if decode is None else list(map(decode, slots))
        return [value if valid else None for value, valid in zip(values, validity, strict=True)]


class VariableListPoint(_ListPoint):
    """An array of values of variable length."""

    def __init__(self, element: VariablePoint, contains_null: bool) -> None:
        super().__init__(contains_null)
        self._element = element

    def _encode_items(self, items: Sequence[Any]) -> bytes:
        encode = self._element.encode
        parts = [b"" if item is None else encode(item) for item in items]
        ends = accumulate(map(len, parts))
        return struct.pack(f"<{len(parts)}I", *ends) + b"".join(parts)

    def _decode_items(self, data: bytes, start: int, end: int, validity: bytes) -> list[Any]:
        first = position = start + 4 * len(validity)
        if first > end:
            raise ValueError("an array is shorter than the ends of its elements")
        values: list[Any] = []
        ends = struct.unpack_from(f"<{len(validity)}I", data, start)
        for stop, valid in zip(ends, validity, strict=True):
            if not position <= first + stop <= (end if valid else position):
                raise ValueError("the elements of an array do not end where its bytes do")
            values.append(self._element.decode(data, position, first + stop) if valid else None)
            position = first + stop
        if position != end:
            raise ValueError("the elements of an array do not fill its length")
        return values


class MapPoint(VariablePoint):
    """A map, as a dict where Python can hash the keys."""

    def __init__(self, key: PointValue, value: PointValue, arrow_type: pa.MapType) -> None:
        entry = TuplePoint([key, value], [arrow_type.key_field, arrow_type.item_field])
        self._entries = VariableListPoint(entry, contains_null=False)
        self._is_dict = not pa.types.is_nested(arrow_type.key_type)

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a dict, or of a list of keys and values."""
        return self._entries.encode(list(value.items()) if isinstance(value, dict) else value)

    def decode(self, data: bytes, start: int, end: int) -> Any:
        """Return a dict, or a list of keys and values."""
        entries = self._entries.decode(data, start, end)
        return dict(entries) if self._is_dict else entries


def list_point(element: PointValue, contains_null: bool) -> VariablePoint:
    """Return the codec of arrays of an element."""
    if isinstance(element, FixedPoint):
        return FixedListPoint(element, contains_null)
    return VariableListPoint(element, contains_null)
