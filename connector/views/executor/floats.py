"""The parts of an aggregate's state that add up floats, and their squares.

*Large* floats are divided by `SCALE` and added up separately; so are their squares, divided by it
twice. Therefore no sum overflows, and deleting the last large value leaves no rounding error. The
sum of the squares of the other floats fits in a double.

Promises: removing values leaves the sum of the others, except for the last of the 106 bits of the
largest value that is not a large float.
Does not know: what Spark returns for sums (result).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from relstate.storage import ragged, types

from . import doubledouble
from .deltas import Deltas, Runs
from .doubledouble import Doubles, Pair
from .part import Columns, Mask, Part, to_counts

# The state's columns hold values divided by the scale: never change either number.
_LARGE = 2.0**480
SCALE = 2.0**600


class _Floats(Part):
    """A part of two pairs, the sum over finite values and that over large ones, and some counts.

    ``pair_names``: names of the pairs; ``count_names``: names of the counts, first those of the
    values in each pair.
    """

    pair_names: ClassVar[tuple[str, str]]
    count_names: ClassVar[tuple[str, ...]]

    @abstractmethod
    def _kinds_of(self, values: Doubles) -> tuple[Mask, ...]:
        """Return for each count a mask of the values that it counts."""

    @abstractmethod
    def _total_of(self, values: Doubles, runs: Runs, weights: NDArray[np.int64]) -> Pair:
        """Return for each group the sum of inserted values minus that of deleted ones."""

    @property
    def fields(self) -> tuple[types.Field, ...]:
        """The pairs and the counts."""
        halves = (half for name in self.pair_names for half in (name, f"{name}_rest"))
        pairs = (self._field(half, types.Double()) for half in halves)
        return (*pairs, *(types.Field(name, types.BigInt()) for name in self.counts))

    @property
    def counts(self) -> tuple[str, ...]:
        """The names of the columns of counts."""
        return tuple(map(self.column, self.count_names))

    def changed(self, deltas: Deltas) -> list[pa.Array]:
        """Return the sums of inserted values minus those of deleted ones, and the counts."""
        values = to_doubles(deltas.values)
        kinds = self._kinds_of(values)
        columns: list[NDArray[Any]] = []
        for kind, scale in zip(kinds, (1.0, SCALE), strict=False):
            runs = Runs(deltas.groups, deltas.codes[kind])
            columns += self._total_of(values[kind] / scale, runs, deltas.weights[kind])
        columns += (deltas.totals(deltas.weights * kind) for kind in kinds)
        return list(map(pa.array, columns))

    def summed(self, changes: Columns, runs: Runs) -> list[pa.Array]:
        """Return the sums of the pairs, and of the counts."""
        return sums_of_runs(self.pairs(changes), self.kinds(changes), runs)

    def advance(self, before: Columns, change: Columns) -> list[pa.Array]:
        """Add the change."""
        counts = [a + b for a, b in zip(self.kinds(before), self.kinds(change), strict=True)]
        columns: list[NDArray[Any]] = []
        for pair, addend, count in zip(
            self.pairs(before), self.pairs(change), counts, strict=False
        ):
            # A group without values has a sum of exactly 0: drop the rounding error.
            columns += (np.where(count == 0, 0.0, half) for half in doubledouble.add(pair, addend))
        return list(map(pa.array, (*columns, *counts)))

    def pairs(self, columns: Columns) -> tuple[Pair, Pair]:
        """Return the sum over the finite values, and over the large ones divided by `SCALE`."""
        ordinary, large = (
            pair_of(columns, self.column(name), self.column(f"{name}_rest"))
            for name in self.pair_names
        )
        return ordinary, large

    def kinds(self, columns: Columns) -> tuple[NDArray[np.int64], ...]:
        """Return the counts."""
        return tuple(to_counts(columns[name]) for name in self.counts)


class FloatSum(_Floats):
    """The sums of the values, and how many are finite, large, NaN and either infinity."""

    pair_names = ("sum", "large_sum")
    count_names = ("finite", "large", "nan", "infinity", "minus_infinity")

    def _kinds_of(self, values: Doubles) -> tuple[Mask, ...]:
        return (*finite_masks(values), np.isnan(values), values == np.inf, values == -np.inf)

    def _total_of(self, values: Doubles, runs: Runs, weights: NDArray[np.int64]) -> Pair:
        signed = sort_within_groups(values * weights, runs.codes)
        return doubledouble.totals((signed, np.zeros_like(signed)), runs.codes, runs.groups)


class SquareSum(_Floats):
    """The sums of the squares of the values, and how many are in each."""

    pair_names = ("squares", "large_squares")
    count_names = ("squares_count", "large_squares_count")

    def _kinds_of(self, values: Doubles) -> tuple[Mask, ...]:
        return finite_masks(values)

    def _total_of(self, values: Doubles, runs: Runs, weights: NDArray[np.int64]) -> Pair:
        # Sorted by weight, then size: the weight is the sign that `sort_within_groups` sees.
        sized = sort_within_groups(np.copysign(values, weights), runs.codes)
        high, low = doubledouble.product(sized, sized)
        signs = np.copysign(1.0, sized)
        return doubledouble.totals((high * signs, low * signs), runs.codes, runs.groups)


def to_doubles(column: pa.Array) -> Doubles:
    """Return a column of floats without NULLs as doubles."""
    return np.asarray(column).astype(np.float64, copy=False)


def pair_of(columns: Columns, high: str, low: str) -> Pair:
    """Return the sums in two columns; 0 where there is no row."""
    return _zero_if_null(columns[high]), _zero_if_null(columns[low])


def _zero_if_null(column: pa.Array) -> Doubles:
    return np.asarray(pc.fill_null(column, 0.0))


def sort_within_groups(values: Doubles, codes: NDArray[np.int64]) -> Doubles:
    """Return values sorted within their groups, so that equal sets of values give equal sums."""
    if not len(values):
        return values
    bits = values.view(np.uint64)
    words = np.empty(len(values), [("code", ">u4"), ("bits", ">u8")])
    words["code"], words["bits"] = codes, bits
    matrix = words.view(np.uint8).reshape(len(values), words.itemsize)
    return values[ragged.sort_order(ragged.from_matrix(matrix))]


def finite_masks(values: Doubles) -> tuple[Mask, Mask]:
    """Return (finite, large): which values are finite but not large, and which are."""
    finite = np.isfinite(values)
    large = finite & (np.abs(values) >= _LARGE)
    return finite & ~large, large


def sums_of_runs(
    pairs: Iterable[Pair], counts: Iterable[NDArray[np.int64]], runs: Runs
) -> list[pa.Array]:
    """Return the sums, over each run, of pairs, high and low, and after them of counts."""
    columns: list[NDArray[Any]] = []
    for pair in pairs:
        columns += sum_pairs(pair, runs)
    columns += map(runs.totals, counts)
    return list(map(pa.array, columns))


def sum_pairs(pair: Pair, runs: Runs) -> Pair:
    """Return the sums of pairs over each group, whatever their order within it."""
    order = np.lexsort((pair[1], pair[0], runs.codes))
    return doubledouble.totals((pair[0][order], pair[1][order]), runs.codes, runs.groups)
