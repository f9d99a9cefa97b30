"""Which values of a column fail: for a cast, or any other function of arrays.

Promises: exactly the values that fail alone. Those that are out of the range of a number's type are
found by comparison; only what remains is halved until the parts that fail are single values.
Does not know: tables, or what is done about the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Flags: TypeAlias = NDArray[np.bool_]

# Arrow casts whole numbers to floats if these have a digit for each of their bits.
_MANTISSA_BITS = {16: 11, 32: 24, 64: 53}
_MOST_DIGITS = 38


def cast_failures(
    column: pa.Array, cast: Callable[[pa.Array], pa.Array], target: pa.DataType
) -> Flags:
    """Return which values an exact cast to a type refuses."""

    def fails(part: pa.Array) -> bool:
        try:
            cast(part)
        except pa.ArrowInvalid:
            return True
        return False

    if column.type == target or not fails(column):
        return np.zeros(len(column), np.bool_)
    flags = _out_of_range(column, target)
    fitting = np.flatnonzero(~flags)
    flags[fitting] = failures(column.take(pa.array(fitting)), fails)
    return flags


def failures(column: pa.Array, fails: Callable[[pa.Array], bool]) -> Flags:
    """Return which values fail; a part of the column fails if one of its values does."""
    flags = np.zeros(len(column), np.bool_)
    parts = [(0, len(column))]
    while parts:
        start, stop = parts.pop()
        if start == stop or not fails(column.slice(start, stop - start)):
            continue
        if stop - start == 1:
            flags[start] = True
            continue
        middle = (start + stop) // 2
        parts += [(start, middle), (middle, stop)]
    return flags


def _out_of_range(column: pa.Array, target: pa.DataType) -> Flags:
    """Return which numbers are out of the range of a type of numbers; maybe not all of them."""
    source = column.type
    bounds = None
    if pa.types.is_integer(source):
        bounds = _integer_bounds(target)
    elif pa.types.is_decimal(source) and pa.types.is_decimal(target):
        digits = target.precision - target.scale
        if digits + source.scale < _MOST_DIGITS:
            bounds = 1 - 10**digits, 10**digits - 1
            column = pc.trunc(column)
    if bounds is None:
        return np.zeros(len(column), np.bool_)
    values = column.cast(pa.decimal128(_MOST_DIGITS, 0), safe=False)
    low, high = (pa.scalar(Decimal(bound), values.type) for bound in bounds)
    outside = pc.or_(pc.less(values, low), pc.greater(values, high))
    flags: Flags = pc.fill_null(outside, pa.scalar(False)).to_numpy(zero_copy_only=False)
    return flags.copy()


def _integer_bounds(target: pa.DataType) -> tuple[int, int] | None:
    """Return the least and the greatest whole number of a type of numbers; None for others."""
    if pa.types.is_signed_integer(target):
        most = 2 ** (target.bit_width - 1) - 1
        return -most - 1, most
    if pa.types.is_floating(target):
        most = 1 << _MANTISSA_BITS[target.bit_width]
        return -most, most
    if pa.types.is_decimal(target):
        most = 10 ** (target.precision - target.scale) - 1
        return -most, most
    return None
