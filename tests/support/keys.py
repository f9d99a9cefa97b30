"""Random keys, and how Spark orders their rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from relstate.storage import types as t
from relstate.storage.codec.memcomparable import KeyCodec
from relstate.storage.schema.schema import KeyColumn

from .datatypes import array_of, key_types, values_of


@dataclass(frozen=True)
class Keys:
    """A drawn case: the columns' types and orders, and rows of Python values."""

    types: list[t.DataType]
    orders: list[KeyColumn]
    rows: list[list[Any]]

    @property
    def codec(self) -> KeyCodec:
        """The codec of the columns in their orders."""
        return KeyCodec(self.types, self.orders)

    @property
    def columns(self) -> list[pa.Array]:
        """The rows as Arrow columns."""
        return [
            array_of(data_type, [row[index] for row in self.rows])
            for index, data_type in enumerate(self.types)
        ]

    def encoded(self) -> list[bytes]:
        """Return the key of every row, encoded as one batch."""
        keys: list[bytes] = self.codec.encode(self.columns).to_pylist()
        return keys


def orders() -> st.SearchStrategy[KeyColumn]:
    """Ascending and descending, with NULLs first and last."""
    return st.builds(KeyColumn, st.just(1), st.booleans(), st.booleans())


@st.composite
def keys(draw: st.DrawFn, max_columns: int = 3) -> Keys:
    """Keys of up to ``max_columns`` columns of any types in any orders, and a few rows."""
    types = draw(st.lists(key_types(), min_size=1, max_size=max_columns))
    chosen = draw(st.lists(orders(), min_size=len(types), max_size=len(types)))
    row = st.tuples(*map(values_of, types)).map(list)
    rows = draw(st.lists(row, min_size=1, max_size=6))
    # Rows with the same first values show the order of the later columns.
    shared = draw(st.integers(0, len(types)))
    rows += [rows[0][:shared] + values[shared:] for values in draw(st.lists(row, max_size=3))]
    return Keys(types, chosen, rows)


def sort_value(data_type: t.DataType, value: Any) -> Any:
    """Return a value that Python orders as Spark orders ``value``; NULLs first in nested values."""
    match data_type:
        case t.Float() | t.Double():
            return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
        case t.String():
            return value.encode()
        case t.Array(element, _):
            return [_nested_sort_value(element, item) for item in value]
        case t.Struct(fields):
            return [_nested_sort_value(field.type, value[field.name]) for field in fields]
    return value


def _nested_sort_value(data_type: t.DataType, value: Any) -> Any:
    return (0, 0) if value is None else (1, sort_value(data_type, value))


def compared(left: Any, right: Any) -> int:
    """Return the sign of the order of two values: -1, 0 or 1."""
    return int(left > right) - int(left < right)


def compared_rows(case: Keys, left: Sequence[Any], right: Sequence[Any]) -> int:
    """Return the sign of the order of two rows, column by column."""
    for data_type, order, first, second in zip(case.types, case.orders, left, right, strict=True):
        if first is None or second is None:
            sign = compared(first is None, second is None) * (-1 if order.nulls_first else 1)
        else:
            sign = compared(sort_value(data_type, first), sort_value(data_type, second))
            sign = -sign if order.descending else sign
        if sign:
            return sign
    return 0


def normal(value: Any) -> Any:
    """Return a value as decoding a key returns it: -0 is 0, a struct is its fields."""
    match value:
        case float():
            return value + 0.0
        case dict():
            return {name: normal(item) for name, item in value.items()}
        case list() | tuple():
            return [normal(item) for item in value]
    return value
