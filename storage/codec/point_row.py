"""Single rows: tuples of Python values, to and from the same bytes as whole batches.

`vnode.canonical` says which Python values a type takes, point_value.py and, for nested types,
point_nested.py which ones are returned; None is NULL.

Promises: fast enough for point lookups, about a microsecond for a handful of plain columns.
Does not know: Arrow arrays, the header before a row.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ..errors import DataError, SchemaMismatchError, ValueRangeError
from .point_body import PointBody
from .point_nested import MapPoint, StructPoint, TuplePoint, list_point
from .point_value import PointValue, point_value

_MISFITS = (struct.error, TypeError, AttributeError, ValueError, ArithmeticError)


class PointRow:
    """The codec of single rows whose columns have the given Arrow types. Immutable."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self._types = tuple(types)
        fields = [pa.field("", arrow_type) for arrow_type in types]
        self._body = PointBody([_point_of(arrow_type) for arrow_type in types], fields)

    def encode(self, values: Sequence[Any]) -> bytes:
        """Return the bytes of a row.

        SchemaMismatchError if the number of values or a value's type is wrong, NullValueError
        for a None within a value whose type allows none, ValueRangeError if a value does not fit.
        """
        if len(values) != len(self._types):
            raise SchemaMismatchError(
                f"a row has {len(self._types)} values; {len(values)} were given"
            )
        try:
            return self._body.encode(values)
        except _MISFITS as error:
            raise self._misfit(values, error) from error

    def decode(self, data: bytes, start: int) -> tuple[Any, ...]:
        """Return the values of the row from ``start`` to the end of ``data``.

        ValueError if the bytes are no such row. ValueRangeError if a Python type cannot hold
        a value.
        """
        try:
            return tuple(self._body.decode(data, start, len(data)))
        except OverflowError as error:
            raise ValueRangeError(
                f"a row holds a value beyond those of Python's type ({error}), such as a date "
                "after the year 9999: read the row with scan, as Arrow"
            ) from error

    def _misfit(self, values: Sequence[Any], error: Exception) -> DataError:
        """Return the error for the first value that cannot be encoded."""
        for index, value in enumerate(values):
            alone: list[Any] = [None] * len(values)
            alone[index] = value
            try:
                self._body.encode(alone)
            except _MISFITS as reason:
                kind = (
                    SchemaMismatchError
                    if isinstance(reason, TypeError | AttributeError)
                    else ValueRangeError
                )
                shown = f"{value!r:.60}" if len(repr(value)) <= 60 else f"{value!r:.60}..."
                return kind(f"{shown} is not a value of {self._types[index]}: {reason}")
        return ValueRangeError(f"the row is too large to be stored: {error}")


def _point_of(arrow_type: pa.DataType) -> PointValue:
    """Return the codec of an Arrow type as `arrow_type` makes them."""
    if pa.types.is_struct(arrow_type):
        fields = list(arrow_type)
        is_distinct = len({field.name for field in fields}) == len(fields)
        made = StructPoint if is_distinct else TuplePoint
        return made([_point_of(field.type) for field in fields], fields)
    if pa.types.is_map(arrow_type):
        return MapPoint(_point_of(arrow_type.key_type), _point_of(arrow_type.item_type), arrow_type)
    if pa.types.is_list(arrow_type):
        return list_point(_point_of(arrow_type.value_type), arrow_type.value_field.nullable)
    codec = point_value(arrow_type)
    assert codec is not None, arrow_type
    return codec
