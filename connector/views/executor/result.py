"""The result of a call as in Spark, computed from its parts.

Promises: whole numbers are exact, and rounded as Spark rounds them; floats are correct up to
the last bits.
Does not know: how the parts are maintained.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from relstate.storage import arrow, errors, types

from ..plan.aggregate import Call, Function
from . import doubledouble, exact
from .bits import BitCounts
from .doubledouble import Doubles, Pair
from .extreme import Extreme
from .floats import SCALE, FloatSum, SquareSum
from .mode import Mode
from .part import Columns, Count, Part, WholeSum
from .products import ProductSum

_SQUARE_ROOTS = (Function.STDDEV_POP, Function.STDDEV_SAMP)
_SAMPLES = (Function.VAR_SAMP, Function.STDDEV_SAMP, Function.COVAR_SAMP)
_NOISE = 2.0**-96
"""Relative to the sum of squares: a variance below it is a rounding error of 0."""


@dataclass(frozen=True)
class Overflow:
    """The treatment of a sum that does not fit its type: with ANSI an error, else as in Spark.

    ``describe``: returns the name of a group by its position; None for a global aggregate.
    """

    is_ansi: bool
    describe: Callable[[int], str] | None

    def check(self, call: Call, does_not_fit: NDArray[np.bool_], always: bool = False) -> None:
        """ValueRangeError if a sum does not fit; without ANSI only if ``always``."""
        if does_not_fit.any() and (self.is_ansi or always):
            group = int(np.flatnonzero(does_not_fit)[0])
            where = "" if self.describe is None else f" in the group with {self.describe(group)}"
            distinct = "DISTINCT " if call.is_distinct else ""
            raise errors.ValueRangeError(
                f"{call.function}({distinct}{call.argument}) overflows {call.output.type}{where}; "
                "correct the rows, or create the view again with its argument cast to a wider type"
            )


@dataclass(frozen=True)
class Result:
    """A call, the parts that it is computed from, and the type of its argument."""

    call: Call
    parts: tuple[Part, ...]
    argument: types.DataType | None

    def of(self, columns: Columns, overflow: Overflow) -> pa.Array:
        """Return the call's output for each group; ValueRangeError as `Overflow` says."""
        match self.parts:
            case (Count() as count,):
                return pa.array(count.of(columns))
            case (Mode() as mode,):
                return mode.modes(columns)
            case (BitCounts() as bits, Count() as count):
                return self._bits(bits, columns, count.of(columns))
            case (ProductSum() as products,):
                return self._covariance(products, columns)
            case (Extreme() as extreme,):
                return extreme.of(columns)
            case (WholeSum() as total, Count() as count):
                return self._whole(total.of(columns), count.of(columns), overflow)
            case (FloatSum() as total,):
                return self._float(total, columns)
            case (FloatSum() as total, SquareSum() as squares):
                return self._variance(total, squares, columns)
        raise AssertionError(self.parts)

    def _whole(self, total: exact.Exact, count: NDArray[np.int64], overflow: Overflow) -> pa.Array:
        is_null = count == 0
        output = self.call.output.type
        if self.call.function is Function.SUM:
            return self._whole_sum(total, is_null, overflow)
        if isinstance(output, types.Double):
            return _nullable(total.astype(np.float64) / np.maximum(count, 1), is_null)
        count = np.maximum(count, 1).astype(object)
        total = total.astype(object)
        if not isinstance(output, types.Decimal):
            return exact.to_arrow(
                exact.divide_half_up(total, count), arrow.arrow_type(output), is_null
            )
        assert isinstance(self.argument, types.Decimal)
        sum_precision = min(self.argument.precision + 10, exact.DIGITS)
        quotient = exact.divide_half_up(total * 10 ** (output.scale - self.argument.scale), count)
        too_large = (abs(total) >= 10**sum_precision) | (abs(quotient) >= 10**output.precision)
        too_large = too_large.astype(np.bool_)
        overflow.check(self.call, too_large)
        return exact.to_arrow(quotient, arrow.arrow_type(output), is_null | too_large)

    def _whole_sum(
        self, total: exact.Exact, is_null: NDArray[np.bool_], overflow: Overflow
    ) -> pa.Array:
        output = self.call.output.type
        if isinstance(output, types.Decimal):
            too_large = (abs(total) >= 10**output.precision).astype(np.bool_)
            overflow.check(self.call, too_large)
            return exact.to_arrow(total, arrow.arrow_type(output), is_null | too_large)
        too_large = ((total >= 2**63) | (total < -(2**63))).astype(np.bool_)
        overflow.check(self.call, too_large, isinstance(output, types.DayTimeInterval))
        if too_large.any():
            total = (total + 2**63) % 2**64 - 2**63
        return exact.to_arrow(total, arrow.arrow_type(output), is_null)

    def _float(self, total: FloatSum, columns: Columns) -> pa.Array:
        finite, large, nan, positive, negative = total.kinds(columns)
        (high, low), (large_high, large_low) = total.pairs(columns)
        with np.errstate(invalid="ignore", over="ignore"):
            result = (large_high + large_low) * SCALE + (high + low)
        result[positive > 0] = np.inf
        result[negative > 0] = -np.inf
        result[(nan > 0) | ((positive > 0) & (negative > 0))] = np.nan
        count = finite + large + nan + positive + negative
        if self.call.function is Function.AVG:
            result = result / np.maximum(count, 1)
        return _nullable(result, count == 0)

    def _bits(self, bits: BitCounts, columns: Columns, count: NDArray[np.int64]) -> pa.Array:
        counts = bits.of(columns)
        match self.call.function:
            case Function.BIT_AND:
                is_set = counts == count[:, np.newaxis]
            case Function.BIT_OR:
                is_set = counts > 0
            case _:
                is_set = counts % 2 == 1
        values = pa.array(bits.values_of(is_set), mask=count == 0)
        return values.cast(arrow.arrow_type(self.call.output.type))

    def _covariance(self, products: ProductSum, columns: Columns) -> pa.Array:
        finite, large, special = products.kinds(columns)
        count = finite + large
        scale = np.where(large > 0, SCALE, 1.0)
        sums = zip(products.sums(columns, ""), products.sums(columns, "large_"), strict=True)
        y, x, product = (
            _in_scale(pair, scale, times) for pair, times in zip(sums, (1, 1, 2), strict=True)
        )
        is_sample = self.call.function in _SAMPLES
        covariance = _covariance(y, x, product, count, is_sample)
        with np.errstate(over="ignore"):
            covariance = covariance * scale * scale
        is_null = count + special < (2 if is_sample else 1)
        return _nullable(np.where(special > 0, np.nan, covariance), is_null)

    def _variance(self, total: FloatSum, squares: SquareSum, columns: Columns) -> pa.Array:
        finite, large, *special_counts = total.kinds(columns)
        special = sum(special_counts)
        count = finite + large + special
        # If a group has large values, all its values are divided by the scale, else none.
        scale = np.where(large > 0, SCALE, 1.0)
        is_sample = self.call.function in _SAMPLES
        sums = _in_scale(total.pairs(columns), scale)
        variance = _variance(
            sums, _in_scale(squares.pairs(columns), scale, 2), finite + large, is_sample
        )
        with np.errstate(over="ignore"):
            variance = variance * scale * scale
        if self.call.function in _SQUARE_ROOTS:
            variance = np.sqrt(variance)
        return _nullable(np.where(special > 0, np.nan, variance), count < (2 if is_sample else 1))


def _in_scale(pairs: tuple[Pair, Pair], scale: Doubles, times: int = 1) -> Pair:
    """Return the sums of the ordinary values, divided ``times`` times, plus the large ones'."""
    (high, low), large = pairs
    for _ in range(times):
        high, low = high / scale, low / scale
    return doubledouble.add((high, low), large)


def _variance(
    total: doubledouble.Pair,
    squares: doubledouble.Pair,
    count: NDArray[np.int64],
    is_sample: bool,
) -> Doubles:
    """Return (count * squares - total * total) / count / (count, or count - 1 for samples)."""
    size = np.maximum(count, 1).astype(np.float64)
    scaled = doubledouble.multiply(squares, (size, np.zeros_like(size)))
    high, low = doubledouble.subtract(scaled, doubledouble.multiply(total, total))
    with np.errstate(invalid="ignore", over="ignore"):
        is_noise = (high + low <= scaled[0] * _NOISE) | (count == 1)
        spread = np.where(is_noise, 0.0, high + low)
    return spread / size / (np.maximum(size - 1, 1) if is_sample else size)


def _covariance(
    y: Pair, x: Pair, product: Pair, count: NDArray[np.int64], is_sample: bool
) -> Doubles:
    """Return (count * product - y * x) / count / (count, or count - 1 for samples)."""
    size = np.maximum(count, 1).astype(np.float64)
    scaled = doubledouble.multiply(product, (size, np.zeros_like(size)))
    high, low = doubledouble.subtract(scaled, doubledouble.multiply(y, x))
    with np.errstate(invalid="ignore", over="ignore"):
        is_noise = (np.abs(high + low) <= np.abs(scaled[0]) * _NOISE) | (count == 1)
        spread = np.where(is_noise, 0.0, high + low)
    return spread / size / (np.maximum(size - 1, 1) if is_sample else size)


def _nullable(values: Doubles, is_null: NDArray[np.bool_]) -> pa.Array:
    return pa.array(values, pa.float64(), mask=is_null)
