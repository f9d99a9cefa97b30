"""The codec of values: the columns of a row that are not in its key, to bytes and back.

Promises: what is decoded equals what was encoded, to the last bit, for every type that Spark
hands over, however nested; batches are encoded and decoded column by column, never row by row.
Does not know: keys, the header before a row, columns' names, versions.

The format is in row_body.py (rows), nested_field.py (structs, arrays, maps) and, for values of
fixed width, fixed_field.py. point_row.py reads and writes it one row at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ..errors import SchemaMismatchError
from ..schema.arrow import arrow_type
from ..schema.types import DataType
from .fixed_field import fixed_field
from .nested_field import ListField, StructField
from .point_row import PointRow
from .ragged import Buffer, Bytes, Positions
from .row_body import Field, RowBody
from .variable_field import BytesField


class RowCodec:
    """The codec of rows whose columns have the given types. Immutable; safe between threads."""

    def __init__(self, types: Sequence[DataType]) -> None:
        """Prepare the codec. UnsupportedTypeError for a type that Spark does not hand over."""
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

    def encode_one(self, values: Sequence[Any]) -> bytes:
        """Return the bytes of one row of Python values; `point_row` says which.

        SchemaMismatchError, NullValueError, ValueRangeError as for `encode`.
        """
        return self._point.encode(values)

    def decode_one(self, data: bytes, start: int) -> tuple[Any, ...]:
        """Return the values of the row from ``start`` to the end of ``data``; see `point_row`.

        ValueError if the bytes are not those of such a row. ValueRangeError if Python's type
        cannot hold a value, such as a date after the year 9999.
        """
        return self._point.decode(data, start)


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
