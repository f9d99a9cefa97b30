"""The part of covariances: sums over pairs of floats, and over their products.

A pair is *large* if one of its values is: both are divided by `SCALE` then, and added up
separately, as in floats. A pair with a value that is not finite is only counted.

Promises: removing pairs leaves the sums of the others, except for the last of the 106 bits of the
largest sum.
Does not know: what Spark returns for covariances (result).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from relstate.storage import types

from . import doubledouble
from .deltas import Deltas, Runs
from .doubledouble import Doubles, Pair
from .floats import SCALE, finite_masks, pair_of, sum_pairs, sums_of_runs, to_doubles
from .part import Columns, Part, to_counts

PAIR = types.Struct((types.Field("y", types.Double()), types.Field("x", types.Double())))
"""The type of the argument. Of a pair no value is NULL."""
_SUMS = ("y", "x", "product")
_KINDS = ("", "large_")
_COUNTS = ("finite_pairs", "large_pairs", "special_pairs")


class ProductSum(Part):
    """The sums of both values of the pairs and of their products, and how many pairs there are."""

    @property
    def fields(self) -> tuple[types.Field, ...]:
        """Two halves of each sum, and the counts."""
        sums = (
            self._field(f"{kind}{name}{half}", types.Double())
            for kind in _KINDS
            for name in _SUMS
            for half in ("", "_rest")
        )
        return (*sums, *(types.Field(name, types.BigInt()) for name in self.counts))

    @property
    def counts(self) -> tuple[str, ...]:
        """The names of the columns of counts."""
        return tuple(map(self.column, _COUNTS))

    def changed(self, deltas: Deltas) -> list[pa.Array]:
        """Return the sums over inserted pairs minus those over deleted ones, and the counts."""
        y, x = (to_doubles(values) for values in deltas.values.flatten())
        masks = _kinds_of(y, x)
        columns: list[NDArray[Any]] = []
        for mask, scale in zip(masks, (1.0, SCALE), strict=False):
            runs = Runs(deltas.groups, deltas.codes[mask])
            for high, low in _summands(y[mask] / scale, x[mask] / scale):
                signs = deltas.weights[mask]
                columns += sum_pairs((high * signs, low * signs), runs)
        columns += (deltas.totals(deltas.weights * mask) for mask in masks)
        return list(map(pa.array, columns))

    def summed(self, changes: Columns, runs: Runs) -> list[pa.Array]:
        """Return the sums of the sums, and of the counts."""
        pairs = (pair for kind in _KINDS for pair in self.sums(changes, kind))
        return sums_of_runs(pairs, self.kinds(changes), runs)

    def advance(self, before: Columns, change: Columns) -> list[pa.Array]:
        """Add the change."""
        counts = [a + b for a, b in zip(self.kinds(before), self.kinds(change), strict=True)]
        columns: list[NDArray[Any]] = []
        for kind, count in zip(_KINDS, counts, strict=False):
            for pair, addend in zip(self.sums(before, kind), self.sums(change, kind), strict=True):
                # A group without pairs has sums of exactly 0: drop the rounding error.
                added = doubledouble.add(pair, addend)
                columns += (np.where(count == 0, 0.0, half) for half in added)
        return list(map(pa.array, (*columns, *counts)))

    def kinds(self, columns: Columns) -> tuple[NDArray[np.int64], ...]:
        """Return how many pairs are ordinary, large, and not finite."""
        return tuple(to_counts(columns[name]) for name in self.counts)

    def sums(self, columns: Columns, kind: str) -> tuple[Pair, Pair, Pair]:
        """Return the sums of y, x and their product over the pairs of a kind: "" or "large_"."""
        y, x, product = (
            pair_of(columns, self.column(f"{kind}{name}"), self.column(f"{kind}{name}_rest"))
            for name in _SUMS
        )
        return y, x, product


def _kinds_of(y: Doubles, x: Doubles) -> tuple[NDArray[np.bool_], ...]:
    """Return which pairs are ordinary, large, and not finite."""
    ordinary_y, large_y = finite_masks(y)
    ordinary_x, large_x = finite_masks(x)
    is_finite = (ordinary_y | large_y) & (ordinary_x | large_x)
    is_large = is_finite & (large_y | large_x)
    return is_finite & ~is_large, is_large, ~is_finite


def _summands(y: Doubles, x: Doubles) -> tuple[Pair, Pair, Pair]:
    return (y, np.zeros_like(y)), (x, np.zeros_like(x)), doubledouble.product(y, x)
