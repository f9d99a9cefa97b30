"""The keys of rows: some of their columns as bytes that compare as the values do.

Promises: equal keys are equal bytes; NULL is a value; the bytes sort in the order of the key.
Does not know: changes, state tables, what the rows are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import pyarrow as pa

from relstate.storage import KeyCodec, arrow, ragged, types

from ..plan.node import Order

_FLOATS = (types.Float, types.Double)


class RowKeys:
    """The key columns of rows, and their order. Immutable."""

    def __init__(self, fields: Sequence[types.Field], key: Sequence[Order]) -> None:
        """``fields``: those of the rows, or at least of the key."""
        by_name = {field.name: field for field in fields}
        self.names = tuple(order.name for order in key)
        self.fields = tuple(by_name[name] for name in self.names)
        self._codec = KeyCodec([field.type for field in self.fields], key)
        self._floating = tuple(field for field in self.fields if _holds_floats(field.type))

    def encode(self, rows: pa.RecordBatch) -> ragged.Bytes:
        """Return the key of every row."""
        return self._codec.encode([rows.column(name) for name in self.names])

    def normal(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with the key's values as a state table returns them.

        Equal floats become one value: -0 becomes 0, and every NaN the same NaN.
        """
        if not self._floating or not rows.num_rows:
            return rows
        columns = [rows.column(field.name) for field in self._floating]
        for field, column in zip(
            self._floating, self._floats.decode(self._floats.encode(columns)), strict=True
        ):
            index = rows.schema.get_field_index(field.name)
            rows = rows.set_column(index, rows.schema.field(index), column)
        return rows

    def described(self, rows: pa.RecordBatch, row: int) -> str:
        """Return a row's key as text for an error message."""
        return ", ".join(f"{name} = {_show_value(rows.column(name), row)}" for name in self.names)

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the key's columns, in its order."""
        return arrow.arrow_schema(self.fields)

    @cached_property
    def _floats(self) -> KeyCodec:
        orders = [Order(field.name) for field in self._floating]
        return KeyCodec([field.type for field in self._floating], orders)


def _holds_floats(data_type: types.DataType) -> bool:
    match data_type:
        case types.Array(element):
            return _holds_floats(element)
        case types.Struct(fields):
            return any(_holds_floats(field.type) for field in fields)
    return isinstance(data_type, _FLOATS)


def _show_value(column: pa.Array, row: int) -> str:
    try:
        return repr(column[row].as_py())
    except (ValueError, OverflowError):  # Python's dates end earlier than Spark's
        return " ".join(column.slice(row, 1).to_string().split())
