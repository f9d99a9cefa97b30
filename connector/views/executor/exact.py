"""Exact sums of whole numbers of any size.

*Exact* numbers are an int64 array if all are below 2**62, else an array of Python's integers.
Decimals are represented by their unscaled values.

Promises: nothing is rounded, nothing overflows.
Does not know: what Spark returns for a number that does not fit its type.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from .deltas import Runs

Exact: TypeAlias = NDArray[Any]

DIGITS = 38
_SAFE = 1 << 62
_LIMB = 32
_LIMB_MASK = (1 << _LIMB) - 1
_WORD = 64
_WORD_MASK = (1 << _WORD) - 1


def totals(runs: Runs, values: pa.Array, weights: NDArray[np.int64] | None = None) -> Exact:
    """Return the exact sum of values, integers or decimals, over each group.

    ``weights``: 1 for values that are added, -1 for subtracted ones; by default all are added.
    """
    low, high = _words_of(values)
    signs = np.int64(1) if weights is None else weights
    if high is None:
        if _magnitude(low) * max(len(low), 1) < _SAFE:
            return runs.totals(low * signs)
        limbs = [low & _LIMB_MASK, low >> _LIMB]
    else:
        limbs = [low & _LIMB_MASK, low >> _LIMB & _LIMB_MASK, high & _LIMB_MASK, high >> _LIMB]
    # The sum of a limb needs 32 bits plus those of the number of rows.
    sums = np.zeros(runs.groups, object)
    for limb in reversed(limbs):
        sums = (sums << _LIMB) + runs.totals(limb * signs).astype(object)
    return narrow(sums)


def add(left: Exact, right: Exact) -> Exact:
    """Return the sums of two arrays of exact numbers."""
    if left.dtype == right.dtype == np.int64:
        total = left + right
        return total if _magnitude(total) < _SAFE else total.astype(object)
    return narrow(left.astype(object) + right.astype(object))


def narrow(numbers: Exact) -> Exact:
    """Return Python's integers as int64 if all are below 2**62, else unchanged."""
    if not len(numbers) or max(numbers.max(), -numbers.min()) < _SAFE:
        return numbers.astype(np.int64)
    return numbers


def divide_half_up(numerators: Exact, denominators: Exact) -> Exact:
    """Return quotients of Python's integers rounded to the nearest, halves away from 0.

    Denominators are positive.
    """
    negative = numerators < 0
    quotients = (2 * abs(numerators) + denominators) // (2 * denominators)
    rounded: Exact = np.where(negative, -quotients, quotients)
    return rounded


def from_arrow(column: pa.Array) -> Exact:
    """Return the values of a column of integers or decimals as exact numbers; 0 for NULL."""
    low, high = _words_of(column)
    if column.null_count:
        is_valid = np.asarray(column.is_valid())
        low = np.where(is_valid, low, 0)
        high = None if high is None else np.where(is_valid, high, 0)
    if high is None:
        return low if _magnitude(low) < _SAFE else low.astype(object)
    return narrow((high.astype(object) << _WORD) + low.view(np.uint64).astype(object))


def to_arrow(numbers: Exact, arrow: pa.DataType, is_null: NDArray[np.bool_]) -> pa.Array:
    """Return exact numbers, which fit the type, as a column of decimals, integers or intervals."""
    numbers = np.where(is_null, 0, numbers)
    if not pa.types.is_decimal(arrow):
        integers = pa.array(numbers.astype(np.int64), pa.int64(), mask=is_null)
        return integers if arrow == pa.int64() else integers.cast(arrow)
    if numbers.dtype == np.int64:
        words = np.stack([numbers, numbers >> (_WORD - 1)], axis=1)
    else:
        low = (numbers & _WORD_MASK).astype(np.uint64).view(np.int64)
        words = np.stack([low, (numbers >> _WORD).astype(np.int64)], axis=1)
    buffer = pa.py_buffer(np.ascontiguousarray(words))
    column = pa.Array.from_buffers(arrow, len(numbers), [None, buffer])
    return pc.if_else(pa.array(~is_null), column, pa.scalar(None, arrow))


def _words_of(column: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Return (low, high): the bits of each value; high is None if every value fits low."""
    if not pa.types.is_decimal(column.type):
        integers = column if pa.types.is_integer(column.type) else column.cast(pa.int64())
        return np.asarray(integers.fill_null(0)).astype(np.int64), None
    if not len(column):
        return np.empty(0, np.int64), None
    words = np.frombuffer(column.buffers()[1], np.int64, 2 * len(column), 16 * column.offset)
    low, high = words[::2], words[1::2]
    if (low >> (_WORD - 1) == high).all():
        return low, None
    return low, high


def _magnitude(numbers: NDArray[np.int64]) -> int:
    return max(int(numbers.max()), -int(numbers.min())) if len(numbers) else 0
