"""Sums of floats in twice their precision: a *pair* (high, low) is the number high + low.

Promises: about 106 bits; what depends on the order of what is added is lost in the last of them.
Values must be finite; a sum too large for a double is an infinity, its low part 0.
Does not know: groups of rows beyond their codes, NULLs.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Doubles: TypeAlias = NDArray[np.float64]
Pair: TypeAlias = tuple[Doubles, Doubles]

_SPLITTER = float(2**27 + 1)


def add(one: Pair, other: Pair) -> Pair:
    """Return the sum of two pairs."""
    with np.errstate(over="ignore", invalid="ignore"):
        high, error = _two_sum(one[0], other[0])
        low, rest = _two_sum(one[1], other[1])
        total, error = _quick_two_sum(high, error + low)
        total, error = _quick_two_sum(total, error + rest)
        return _whole((np.where(np.isfinite(high), total, high), error))


def subtract(one: Pair, other: Pair) -> Pair:
    """Return the difference of two pairs."""
    return add(one, (-other[0], -other[1]))


def product(one: Doubles, other: Doubles) -> Pair:
    """Return the exact product of doubles that do not come near the ends of their range."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        high = one * other
        one_high, one_low = _split(one)
        other_high, other_low = _split(other)
        error = one_high * other_high - high + one_high * other_low + one_low * other_high
        return _whole((high, error + one_low * other_low))


def multiply(one: Pair, other: Pair) -> Pair:
    """Return the product of two pairs."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        high, low = product(one[0], other[0])
        return _whole(_quick_two_sum(high, low + (one[0] * other[1] + one[1] * other[0])))


def totals(values: Pair, codes: NDArray[np.int64], groups: int) -> Pair:
    """Return the sum over each group; ``codes``: the group of each value, never falling.

    Neighbours are added until one pair a group is left, so that errors grow with the logarithm
    of their number.
    """
    high, low = values
    while len(codes) > 1 and (same := codes[1:] == codes[:-1]).any():
        places = np.arange(len(codes))
        starts = np.maximum.accumulate(np.where(np.append(False, same), 0, places))
        heads = np.flatnonzero((places - starts) % 2 == 0)
        paired = np.append(same, False)[heads]
        seconds = heads[paired] + 1
        summed = add((high[heads[paired]], low[heads[paired]]), (high[seconds], low[seconds]))
        high, low, codes = high[heads], low[heads], codes[heads]
        high[paired], low[paired] = summed
    found = np.zeros(groups), np.zeros(groups)
    found[0][codes], found[1][codes] = high, low
    return found


def _two_sum(one: Doubles, other: Doubles) -> Pair:
    total = one + other
    part = total - one
    return total, (one - (total - part)) + (other - part)


def _quick_two_sum(high: Doubles, low: Doubles) -> Pair:
    total = high + low
    return total, low - (total - high)


def _split(value: Doubles) -> Pair:
    scaled = value * _SPLITTER
    high = scaled - (scaled - value)
    return high, value - high


def _whole(pair: Pair) -> Pair:
    high, low = pair
    return high, np.where(np.isfinite(high) & np.isfinite(low), low, 0.0)
