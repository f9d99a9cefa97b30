"""Sums of floats in twice their precision: a *pair* (high, low) is the number high + low.

Promises: about 106 bits; the order of the summands affects only the last of them.
Values must be finite; a sum too large for a double is an infinity, its low part 0.
Does not know: NULLs, or what a group is: it sees only codes.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Doubles: TypeAlias = NDArray[np.float64]
Pair: TypeAlias = tuple[Doubles, Doubles]

_SPLITTER = float(2**27 + 1)


def add(left: Pair, right: Pair) -> Pair:
    """Return the sum of two pairs."""
    with np.errstate(over="ignore", invalid="ignore"):
        high, error = _two_sum(left[0], right[0])
        low, low_error = _two_sum(left[1], right[1])
        total, error = _quick_two_sum(high, error + low)
        total, error = _quick_two_sum(total, error + low_error)
        return _drop_non_finite_low((np.where(np.isfinite(high), total, high), error))


def subtract(left: Pair, right: Pair) -> Pair:
    """Return the difference of two pairs."""
    return add(left, (-right[0], -right[1]))


def product(left: Doubles, right: Doubles) -> Pair:
    """Return the exact product of doubles that are not near the ends of their range."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        high = left * right
        left_high, left_low = _split(left)
        right_high, right_low = _split(right)
        error = left_high * right_high - high + left_high * right_low + left_low * right_high
        return _drop_non_finite_low((high, error + left_low * right_low))


def multiply(left: Pair, right: Pair) -> Pair:
    """Return the product of two pairs."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        high, low = product(left[0], right[0])
        return _drop_non_finite_low(
            _quick_two_sum(high, low + (left[0] * right[1] + left[1] * right[0]))
        )


def totals(values: Pair, codes: NDArray[np.int64], groups: int) -> Pair:
    """Return the sum over each group; ``codes``: the group of each value, ascending.

    Neighbours are added until one pair per group is left, so that the error grows with the
    logarithm of the number of values.
    """
    high, low = values
    while len(codes) > 1 and (same := codes[1:] == codes[:-1]).any():
        positions = np.arange(len(codes))
        starts = np.maximum.accumulate(np.where(np.append(False, same), 0, positions))
        firsts = np.flatnonzero((positions - starts) % 2 == 0)
        has_second = np.append(same, False)[firsts]
        seconds = firsts[has_second] + 1
        sums = add(
            (high[firsts[has_second]], low[firsts[has_second]]), (high[seconds], low[seconds])
        )
        high, low, codes = high[firsts], low[firsts], codes[firsts]
        high[has_second], low[has_second] = sums
    result = np.zeros(groups), np.zeros(groups)
    result[0][codes], result[1][codes] = high, low
    return result


def _two_sum(left: Doubles, right: Doubles) -> Pair:
    total = left + right
    part = total - left
    return total, (left - (total - part)) + (right - part)


def _quick_two_sum(high: Doubles, low: Doubles) -> Pair:
    total = high + low
    return total, low - (total - high)


def _split(value: Doubles) -> Pair:
    scaled = value * _SPLITTER
    high = scaled - (scaled - value)
    return high, value - high


def _drop_non_finite_low(pair: Pair) -> Pair:
    high, low = pair
    return high, np.where(np.isfinite(high) & np.isfinite(low), low, 0.0)
