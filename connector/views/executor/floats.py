"""The parts of an aggregate's state that add up floats, and their squares.

*Large* floats are added up apart, divided by `SCALE`, and so are their squares, by it twice: no
sum of them overflows, and where the last one goes nothing is left of them. Of the others the
squares add up to no more than a double holds.

Promises: values that are taken out leave what was there, but for the last of 106 bits of the
largest value, large ones not counted.
Does not know: what Spark makes of sums (result).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from relstate.storage import ragged, types

from . import doubledouble
from .deltas import Deltas, Runs
from .doubledouble import Doubles, Pair
from .part import Columns, Mask, Part, numbers

_KINDS = ("finite", "large", "nan", "infinity", "minus_infinity")
_SUMS, _SQUARES = ("sum", "large_sum"), ("squares", "large_squares")

# On disk, as the state's columns hold what was divided: never change either.
_LARGE = 2.0**480
SCALE = 2.0**600


class _Floats(Part):
    """A part with two pairs: of the finite values, and of the large ones."""

    def _pairs_of(self, columns: Columns, suffixes: tuple[str, str]) -> tuple[Pair, Pair]:
        ordinary, large = (
            (_or_zero(columns[self.column(one)]), _or_zero(columns[self.column(f"{one}_rest")]))
            for one in suffixes
        )
        return ordinary, large


class FloatSum(_Floats):
    """The sums of the finite values and of the large ones as pairs, and how many of each kind."""

    @property
    def fields(self) -> tuple[types.Field, ...]:
        """Two pairs and five counts."""
        pairs = (self._field(suffix, types.Double()) for suffix in _columns_of(_SUMS))
        return (*pairs, *(types.Field(name, types.BigInt()) for name in self.counts))

    @property
    def counts(self) -> tuple[str, ...]:
        """The counts of each kind of values."""
        return tuple(map(self.column, _KINDS))

    def changed(self, deltas: Deltas) -> list[pa.Array]:
        """Return the sums of what comes less what goes, and the counts."""
        values = doubles(deltas.values)
        finite, large = _finite(values)
        kinds = (finite, large, np.isnan(values), values == np.inf, values == -np.inf)
        counts = [deltas.totals(deltas.weights * kind) for kind in kinds]
        pairs = (
            _signed_total(values[finite], deltas, finite),
            _signed_total(values[large] / SCALE, deltas, large),
        )
        return list(map(pa.array, (*pairs[0], *pairs[1], *counts)))

    def summed(self, changes: Columns, runs: Runs) -> list[pa.Array]:
        """Return the sums of the pairs, and of the counts."""
        pairs = (_total(pair, runs) for pair in self.pairs(changes))
        counts = (runs.totals(count) for count in self.kinds(changes))
        return list(map(pa.array, (*(part for pair in pairs for part in pair), *counts)))

    def advance(self, before: Columns, change: Columns) -> list[pa.Array]:
        """Add what comes and goes."""
        counts = [a + b for a, b in zip(self.kinds(before), self.kinds(change), strict=True)]
        pairs = _advanced(self.pairs(before), self.pairs(change), counts[:2])
        return list(map(pa.array, (*pairs, *counts)))

    def pairs(self, columns: Columns) -> tuple[Pair, Pair]:
        """Return the sums of the finite values, and of the large ones divided by `SCALE`."""
        return self._pairs_of(columns, _SUMS)

    def kinds(self, columns: Columns) -> tuple[NDArray[np.int64], ...]:
        """Return how many values are finite, large, NaN, positive and negative infinities."""
        return tuple(numbers(columns[name]) for name in self.counts)


class SquareSum(_Floats):
    """The sums of the squares of the finite values and of the large ones as pairs."""

    @property
    def fields(self) -> tuple[types.Field, ...]:
        """Two pairs, and how many values are in each."""
        pairs = (self._field(suffix, types.Double()) for suffix in _columns_of(_SQUARES))
        return (*pairs, *(types.Field(name, types.BigInt()) for name in self.counts))

    @property
    def counts(self) -> tuple[str, ...]:
        """The counts of the finite values and of the large ones."""
        return tuple(self.column(f"{suffix}_count") for suffix in _SQUARES)

    def changed(self, deltas: Deltas) -> list[pa.Array]:
        """Return the sums of the squares of what comes less those of what goes, and the counts."""
        values = doubles(deltas.values)
        finite, large = _finite(values)
        pairs = (
            _signed_squares(values[finite], deltas, finite),
            _signed_squares(values[large] / SCALE, deltas, large),
        )
        counts = (deltas.totals(deltas.weights * kind) for kind in (finite, large))
        return list(map(pa.array, (*pairs[0], *pairs[1], *counts)))

    def summed(self, changes: Columns, runs: Runs) -> list[pa.Array]:
        """Return the sums of the pairs, and of the counts."""
        pairs = (_total(pair, runs) for pair in self.pairs(changes))
        counts = (runs.totals(numbers(changes[name])) for name in self.counts)
        return list(map(pa.array, (*(part for pair in pairs for part in pair), *counts)))

    def advance(self, before: Columns, change: Columns) -> list[pa.Array]:
        """Add what comes and goes."""
        counts = [numbers(before[name]) + numbers(change[name]) for name in self.counts]
        pairs = _advanced(self.pairs(before), self.pairs(change), counts)
        return list(map(pa.array, (*pairs, *counts)))

    def pairs(self, columns: Columns) -> tuple[Pair, Pair]:
        """Return the sums of the squares, of the large values divided by `SCALE` twice."""
        return self._pairs_of(columns, _SQUARES)


def doubles(column: pa.Array) -> Doubles:
    """Return a column of floats without NULLs as doubles."""
    return np.asarray(column).astype(np.float64, copy=False)


def _or_zero(column: pa.Array) -> Doubles:
    return np.asarray(pc.fill_null(column, 0.0))


def in_order(values: Doubles, codes: NDArray[np.int64]) -> Doubles:
    """Return values sorted within their groups, so that equal ones give equal sums."""
    if not len(values):
        return values
    bits = values.view(np.uint64)
    words = np.empty(len(values), [("code", ">u4"), ("bits", ">u8")])
    words["code"], words["bits"] = codes, bits
    matrix = words.view(np.uint8).reshape(len(values), words.itemsize)
    return values[ragged.sort_order(ragged.from_matrix(matrix))]


def _columns_of(suffixes: tuple[str, str]) -> Iterator[str]:
    return (name for suffix in suffixes for name in (suffix, f"{suffix}_rest"))


def _finite(values: Doubles) -> tuple[Mask, Mask]:
    """Return (finite, large): which values are finite but not large, and which are."""
    finite = np.isfinite(values)
    large = finite & (np.abs(values) >= _LARGE)
    return finite & ~large, large


def _signed_total(values: Doubles, deltas: Deltas, kind: Mask) -> Pair:
    """Return over each group the sum of values, those of the ``kind``, less those that go."""
    codes = deltas.codes[kind]
    signed = in_order(values * deltas.weights[kind], codes)
    return doubledouble.totals((signed, np.zeros_like(signed)), codes, deltas.groups)


def _signed_squares(values: Doubles, deltas: Deltas, kind: Mask) -> Pair:
    """Return over each group the sum of the squares, less those of the values that go."""
    codes, weights = deltas.codes[kind], deltas.weights[kind]
    # Sorted by weight, then size: the weight is the sign that `in_order` sees.
    sized = in_order(np.copysign(values, weights), codes)
    high, low = doubledouble.product(sized, sized)
    signs = np.copysign(1.0, sized)
    return doubledouble.totals((high * signs, low * signs), codes, deltas.groups)


def _total(pair: Pair, runs: Runs) -> Pair:
    """Return the sums of pairs over each group, whatever their order within it."""
    order = np.lexsort((pair[1], pair[0], runs.codes))
    return doubledouble.totals((pair[0][order], pair[1][order]), runs.codes, runs.groups)


def _advanced(
    before: Sequence[Pair], change: Sequence[Pair], counts: Sequence[NDArray[np.int64]]
) -> Iterator[Doubles]:
    """Yield the columns of pairs after a change that leaves so many values in each."""
    for pair, more, count in zip(before, change, counts, strict=True):
        for column in doubledouble.add(pair, more):
            # Where no value is left, no error of rounding is left either.
            yield np.where(count == 0, 0.0, column)
