"""The codec of values: the columns of a row that are not in its key, to bytes and back.

Promises: what is decoded equals what was encoded, to the last bit, for every type that Spark
passes to Python, however nested; batches are encoded and decoded column by column, not row by row.
Does not know: keys, the header before a row, columns' names, versions.

The format is in row_body.py (rows), value_field.py (plain values) and nested_field.py (structs,
arrays, maps). Single rows, tuples of Python values, have the same bytes: `vnode.canonical` says
which Python values a type takes, point_value.py and point_nested.py which ones are returned.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from ..errors import DataError, SchemaMismatchError, ValueRangeError
from ..schema.arrow import arrow_type
from ..schema.types import DataType
from .nested_field import ListField, StructField
from .point_nested import MapPoint, PointBody, StructPoint, TuplePoint, list_point
from .point_value import PointValue, point_value
from .ragged import Buffer, Bytes, Positions
from .row_body import RowBody
from .row_function import Place, RowFunction
from .value_field import BytesField, Field, fixed_field

_MISFITS = (struct.error, TypeError, AttributeError, ValueError, ArithmeticError)


class RowCodec:
    """The codec of rows whose columns have the given types. Immutable; safe between threads."""

    def __init__(self, types: Sequence[DataType]) -> None:
        """Prepare the codec. UnsupportedTypeError for a type that Spark does not pass to Python."""
        arrow_types = [arrow_type(data_type) for data_type in types]
        self._body = RowBody([_field_of(arrow) for arrow in arrow_types])
        self._point = PointRow(arrow_types)

    def encode(self, columns: Sequence[pa.Array], header: bytes) -> Bytes:
        """Return the bytes of every row, each after ``header``.

        ``columns``: at least one array, one for each of the codec's types, all equally long.
        SchemaMismatchError if an array has another type, NullValueError for a null within a
        value whose type allows none, ValueRangeError for a decimal with too many digits or a
        row of more than 4 GiB.
        """
        for field, column in zip(self._body.fields, columns, strict=True):
            if column.type != field.arrow_type:
                raise SchemaMismatchError(
                    f"the column has type {column.type}, not {field.arrow_type}"
                )
        return self._body.encode(columns, len(columns[0]), header)

    def decode(
        self, buffer: Buffer, starts: Positions, indices: Sequence[int], lengths: Positions
    ) -> list[pa.Array]:
        """Return the columns at ``indices``, each exactly of its Arrow type.

        Row i is the ``lengths[i]`` bytes (without the header) from ``starts[i]`` on in ``buffer``,
        both int64, in any order; ascending is fastest. Only the bytes of these columns are
        touched. ValueError if the bytes are not those of such rows: then the file is damaged.
        OverflowError if one column of all rows takes more than the 2 GiB that an array holds.
        """
        return self._body.decode(buffer, starts, lengths, indices)

    def encode_row(self, values: Sequence[Any]) -> bytes:
        """Return the bytes of one row of Python values; None is NULL.

        SchemaMismatchError, NullValueError, ValueRangeError as for `encode`.
        """
        return self._point.encode(values)

    @property
    def decode_fields(self) -> Callable[[bytes, int, int], list[Any]]:
        """The function from (data, start, end) to the values of the row there.

        OverflowError if Python's type cannot hold a value, else errors as of `decode_row`.
        """
        return self._point.decode_fields

    def decoder_of(self, indices: Sequence[int]) -> Callable[[bytes, int, int], list[Any]]:
        """Return `decode_fields` for the columns at ``indices`` only, in that order."""
        return self._point.decoder_of(indices)

    def row_function(
        self, places: Sequence[Place], header: bytes, row_class: type[Any], otherwise: RowFunction
    ) -> RowFunction:
        """Return the quickest function from (key, data) to a row of the values at some places.

        See `row_function.row_function`. ``header`` is what precedes the row in ``data``. ValueError
        or struct.error if the bytes are not such a row, OverflowError as of `decode_fields`.
        """
        return self._point.row_function(places, header, row_class, otherwise)

    def decode_row(self, data: bytes, start: int) -> tuple[Any, ...]:
        """Return the values of the row from ``start`` to the end of ``data``.

        ValueError if the bytes are not those of such a row. ValueRangeError if Python's type
        cannot hold a value, such as a date after the year 9999.
        """
        return self._point.decode(data, start)


class PointRow:
    """The codec of single rows whose columns have the given Arrow types. Immutable.

    It takes about a microsecond for a handful of plain columns. ``decode_fields`` and
    ``row_function``: see `RowCodec`.
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self._types = tuple(types)
        fields = [pa.field("", data_type) for data_type in types]
        self._body = PointBody([_point_of(data_type) for data_type in types], fields)
        self.decode_fields = self._body.decode
        self.decoder_of = self._body.decoder_of
        self.row_function = self._body.row_function

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


def _field_of(arrow: pa.DataType) -> Field:
    """Return the codec of an Arrow type as `arrow_type` makes them."""
    if pa.types.is_struct(arrow):
        return StructField(arrow, [_field_of(field.type) for field in arrow])
    if pa.types.is_map(arrow):
        entry = pa.struct([arrow.key_field, arrow.item_field])
        return ListField(arrow, _field_of(entry))
    if pa.types.is_list(arrow):
        return ListField(arrow, _field_of(arrow.value_type))
    return fixed_field(arrow) or BytesField(arrow)


def _point_of(arrow_type: pa.DataType) -> PointValue:
    """Return the codec of single values of an Arrow type as `arrow_type` makes them."""
    if pa.types.is_struct(arrow_type):
        fields = list(arrow_type)
        is_distinct = len({field.name for field in fields}) == len(fields)
        struct_class = StructPoint if is_distinct else TuplePoint
        return struct_class([_point_of(field.type) for field in fields], fields)
    if pa.types.is_map(arrow_type):
        return MapPoint(_point_of(arrow_type.key_type), _point_of(arrow_type.item_type), arrow_type)
    if pa.types.is_list(arrow_type):
        return list_point(_point_of(arrow_type.value_type), arrow_type.value_field.nullable)
    codec = point_value(arrow_type)
    assert codec is not None, arrow_type
    return codec
