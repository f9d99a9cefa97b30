"""The keys of rows: as bytes that compare as the values do, as numbers, and the pairs they make.

Keys are numbered: equal keys have one *code*, and codes sort as the keys do.
Promises: equal keys are equal bytes; NULL is a value; the bytes sort in the order of the key. There
is no loop over rows. Pairs are computed in slices: only the requested ones are in memory.
Does not know: changes, state tables, what the rows are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from relstate.storage import KeyCodec, arrow, ragged, types
from relstate.vnode import cached_property

from ..plan.node import Order

Codes: TypeAlias = NDArray[np.int64]
Rows: TypeAlias = NDArray[np.int64]


class RowKeys:
    """The key columns of rows, and their order. Immutable."""

    def __init__(self, fields: Sequence[types.Field], key: Sequence[Order]) -> None:
        """``fields``: those of the rows, or at least of the key."""
        by_name = {field.name: field for field in fields}
        self.names = tuple(order.name for order in key)
        self.fields = tuple(by_name[name] for name in self.names)
        self._codec = KeyCodec([field.type for field in self.fields], key)
        self._floating = tuple(field for field in self.fields if types.holds_floats(field.type))

    def encode(self, rows: pa.RecordBatch) -> ragged.Bytes:
        """Return the key of every row."""
        return self._codec.encode([rows.column(name) for name in self.names])

    def decode(self, keys: ragged.Bytes) -> list[pa.Array]:
        """Return the columns of encoded keys."""
        return self._codec.decode(keys)

    def normalize(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with one value for equal floats in the key, as GROUP BY does.

        -0 becomes 0, and every NaN the same NaN.
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

    def values(self, fields: Sequence[types.Field]) -> tuple[types.Field, ...]:
        """Return those of some fields in which rows of one key may differ.

        Those that are not in the key, and floats, of which a key does not tell -0 from 0.
        """
        return tuple(
            field
            for field in fields
            if field.name not in self.names or types.holds_floats(field.type)
        )

    def describe(self, rows: pa.RecordBatch, row: int) -> str:
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


def _show_value(column: pa.Array, row: int) -> str:
    try:
        return repr(column[row].as_py())
    except (ValueError, OverflowError):  # Python's dates end earlier than Spark's
        return " ".join(column.slice(row, 1).to_string().split())


def number_keys(keys: Sequence[ragged.Bytes]) -> tuple[list[Codes], int]:
    """Return (the codes of each array of keys, the number of different keys in all of them)."""
    all_keys = pa.concat_arrays(keys)
    order = ragged.sort_order(all_keys)
    ranks = number_sorted_keys(all_keys.take(pa.array(order)))
    codes = np.empty(len(all_keys), np.int64)
    codes[order] = ranks
    ends = np.cumsum([len(array) for array in keys])
    return np.split(codes, ends[:-1]), int(ranks[-1]) + 1 if len(ranks) else 0


def number_sorted_keys(keys: ragged.Bytes) -> Codes:
    """Return the codes of sorted keys."""
    ranks = np.zeros(len(keys), np.int64)
    if len(keys):
        np.cumsum(~ragged.equal_neighbours(keys), out=ranks[1:])
    return ranks


def first_positions(codes: Codes) -> Rows:
    """Return the first position of each code; ``codes`` ascend."""
    later_firsts: Rows = np.flatnonzero(codes[1:] != codes[:-1]) + 1
    return np.append(np.zeros(min(len(codes), 1), np.int64), later_firsts)


def last_positions(codes: Codes) -> Rows:
    """Return the last position of each code; ``codes`` ascend."""
    ends = np.full(min(len(codes), 1), len(codes))
    return np.append(first_positions(codes)[1:], ends) - 1


def number_runs(codes: Codes) -> Codes:
    """Return for each of ascending codes its number among the different ones, from 0."""
    numbers = np.zeros(len(codes), np.int64)
    np.cumsum(codes[1:] != codes[:-1], out=numbers[1:])
    return numbers


def offsets_in_runs(codes: Codes) -> Rows:
    """Return for each of ascending codes how many equal ones are before it."""
    return np.arange(len(codes)) - first_positions(codes)[number_runs(codes)]


def mark_codes(codes: Codes, count: int) -> NDArray[np.bool_]:
    """Return for each of ``count`` codes whether ``codes`` has it."""
    is_marked = np.zeros(count, np.bool_)
    is_marked[codes] = True
    return is_marked


def first_row_per_code(codes: Codes, rows: Rows, count: int) -> Rows:
    """Return for each of ``count`` codes the first of ``rows`` with it, -1 if there is none."""
    first_rows = np.full(count, -1, np.int64)
    first_rows[codes[::-1]] = rows[::-1]
    return first_rows


@dataclass(frozen=True, slots=True)
class Matches:
    """All pairs of a left row and a right row with equal codes, computed on demand."""

    lefts: Rows
    rights: Rows
    starts: Rows
    """For each left row, the position of its first match in ``rights``."""
    before: Rows
    """For each left row, the number of pairs before its own; the last item is the total."""

    @classmethod
    def of(
        cls, lefts: Rows, left_codes: Codes, rights: Rows, right_codes: Codes, count: int
    ) -> Matches:
        """Return the pairs of ``lefts`` and ``rights``, whose codes are below ``count``."""
        sizes = np.bincount(right_codes, minlength=count)
        ends = np.cumsum(sizes)
        before = np.zeros(len(lefts) + 1, np.int64)
        np.cumsum(sizes[left_codes], out=before[1:])
        order = np.argsort(right_codes, kind="stable")
        return cls(lefts, rights[order], (ends - sizes)[left_codes], before)

    @property
    def total(self) -> int:
        """The number of pairs."""
        return int(self.before[-1])

    def pairs(self, start: int, stop: int) -> tuple[Rows, Rows]:
        """Return (left rows, right rows) of the pairs numbered from ``start`` to ``stop``."""
        first = int(np.searchsorted(self.before, start, "right")) - 1
        last = int(np.searchsorted(self.before, stop, "left"))
        row_starts = self.before[first:last]
        pair_starts = np.maximum(row_starts, start)
        counts = np.minimum(self.before[first + 1 : last + 1], stop) - pair_starts
        right_positions = ragged.expand(self.starts[first:last] + pair_starts - row_starts, counts)
        return np.repeat(self.lefts[first:last], counts), self.rights[right_positions]
