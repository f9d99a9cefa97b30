"""How many values have each bit: the part of bitwise aggregates.

Promises: exact, and adds up; removing a value leaves what the others make.
Does not know: which of AND, OR and XOR is asked for (result).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from relstate.storage import ragged, types

from .deltas import Deltas, Runs
from .part import Columns, Part

WIDTHS: dict[type[types.DataType], int] = {
    types.TinyInt: 8, types.SmallInt: 16, types.Int: 32, types.BigInt: 64,
}  # fmt: skip
"""The types of which bits are counted, and how many bits their values have."""
_COUNT = np.dtype("<i8")
"""How a count is stored: never change it."""
Counts = NDArray[np.int64]
"""Counts of shape (groups, width), the lowest bit first."""


@dataclass(frozen=True)
class BitCounts(Part):
    """For each bit of two's complement the number of values in which it is set."""

    type: types.DataType

    @property
    def width(self) -> int:
        """The number of bits."""
        return WIDTHS[type(self.type)]

    @property
    def fields(self) -> tuple[types.Field, ...]:
        """One column: 8 bytes per bit, from the lowest bit on."""
        return (self._field("bits", types.Binary()),)

    def changed(self, deltas: Deltas) -> list[pa.Array]:
        """Return the change of the counts."""
        words = np.asarray(deltas.values).astype(np.int64)
        counts = np.empty((deltas.groups, self.width), np.int64)
        for bit in range(self.width):
            counts[:, bit] = deltas.totals((words >> bit & 1) * deltas.weights)
        return [_column(counts)]

    def summed(self, changes: Columns, runs: Runs) -> list[pa.Array]:
        """Return the sums."""
        parts = self.of(changes)
        sums = [runs.totals(parts[:, bit]) for bit in range(self.width)]
        return [_column(np.stack(sums, axis=1))]

    def advance(self, before: Columns, change: Columns) -> list[pa.Array]:
        """Add the change."""
        return [_column(self.of(before) + self.of(change))]

    def of(self, columns: Columns) -> Counts:
        """Return the counts; 0 where there is no row."""
        size = self.width * _COUNT.itemsize
        column = pc.fill_null(columns[self.column("bits")], bytes(size))
        return ragged.matrix_of(ragged.from_binary(column), size).view(_COUNT)

    def values_of(self, is_set: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the values that have the bits set; ``is_set``: of shape (groups, width)."""
        values = np.zeros(len(is_set), np.int64)
        for bit in range(self.width):
            values |= is_set[:, bit].astype(np.int64) << bit
        # The highest bit of a narrower type is the sign.
        unused = 64 - self.width
        return values << unused >> unused


def _column(counts: Counts) -> pa.Array:
    matrix = np.ascontiguousarray(counts.astype(_COUNT, copy=False)).view(np.uint8)
    return ragged.from_matrix(matrix).cast(pa.binary())
