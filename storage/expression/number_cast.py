"""Casts between numbers, and of booleans to numbers.

Promises: a cast rounds only to DOUBLE, once; a number that the type does not have fails.
Does not know: texts and times.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import UnsupportedTypeError
from ..predicate.condition import Flags, valid_rows
from ..schema import arrow
from ..schema import types as t
from .kinds import WHOLE, becomes_double, decimal_of, is_whole
from .value import (
    Failure,
    Failures,
    Unary,
    Value,
    array_of,
    converted,
    failures_where,
    first_of,
    numbers_of,
    with_nulls,
)


@dataclass(frozen=True, slots=True)
class NumberCast(Unary):
    """A number, or a boolean as 0 and 1, in another type; `number_cast` makes it."""

    operand: Value
    type: t.DataType

    @property
    def nullable(self) -> bool:
        """Whether the number may be NULL, or it is to Spark: for a decimal of fewer digits."""
        is_narrower = isinstance(self.type, t.Decimal) and self.own_failures
        return self.operand.nullable or is_narrower

    @property
    def own_failures(self) -> bool:
        """Whether the type lacks numbers of the other."""
        source = self.operand.type
        if is_whole(self.type) and is_whole(source):
            return WHOLE[type(self.type)].bits < WHOLE[type(source)].bits
        if isinstance(self.type, t.Decimal):
            digits = decimal_of(source)
            return self.type.precision - self.type.scale < digits.precision - digits.scale
        return False

    def computed(self, rows: pa.RecordBatch) -> tuple[pa.Array, Failures]:
        """Return the numbers in the type."""
        column, failures = self.operand.computed(rows)
        valid = valid_rows(column)
        if isinstance(self.type, t.Double):
            return array_of(to_double(column), valid, self.type), failures
        if not self.own_failures:
            return converted(column, self.type), failures
        if isinstance(self.type, t.Decimal):
            column, wraps = self._narrower_decimal(column)
            lost = failures_where(wraps, Failure.DECIMAL_RANGE)
        else:
            numbers = numbers_of(column, np.int64)
            limit = 1 << WHOLE[type(self.type)].bits - 1
            wraps = ((numbers < -limit) | (numbers >= limit)) & valid
            column = array_of(np.where(wraps, 0, numbers), valid & ~wraps, self.type)
            lost = failures_where(wraps, Failure.CAST_OVERFLOW)
        return column, first_of(failures, lost)

    def _narrower_decimal(self, column: pa.Array) -> tuple[pa.Array, Flags]:
        """Return (decimals, flags): the decimals of fewer digits, and what has more than these."""
        assert isinstance(self.type, t.Decimal)
        source = decimal_of(self.operand.type)
        wide = converted(column, source)
        digits = self.type.precision - self.type.scale
        limit = pa.scalar(Decimal(10**digits), pa.decimal256(76, source.scale))
        wraps = pc.greater_equal(pc.abs(wide).cast(limit.type), limit)
        flags: Flags = pc.fill_null(wraps, pa.scalar(False)).to_numpy(zero_copy_only=False)
        return with_nulls(wide, flags).cast(arrow.arrow_type(self.type)), flags


def number_cast(operand: Value, target: t.DataType) -> Value:
    """Return a number or a boolean in another type.

    UnsupportedTypeError for a cast that is not known to be exact: one that drops digits after the
    point, or FLOAT and long decimals to DOUBLE.
    """
    source = operand.type
    if source == target:
        return operand
    is_known = (
        (is_whole(target) and (is_whole(source) or isinstance(source, t.Boolean)))
        or (isinstance(target, t.Double) and becomes_double(source))
        or (
            isinstance(target, t.Decimal)
            and (is_whole(source) or isinstance(source, t.Decimal))
            and target.scale >= decimal_of(source).scale
        )
    )
    if not is_known:
        raise UnsupportedTypeError(
            f"a cast of {source} to {target} is not supported: it may differ from Spark's"
        )
    return NumberCast(operand, target)


def to_double(column: pa.Array) -> NDArray[Any]:
    """Return numbers of a type that becomes a DOUBLE as doubles; 0 for NULL."""
    if not pa.types.is_decimal(column.type):
        return numbers_of(column, np.float64)
    # The low words of 128-bit integers are the numbers of up to 18 digits.
    words = np.frombuffer(column.buffers()[1], np.int64)
    start = 2 * column.offset
    units = words[start : start + 2 * len(column) : 2]
    result: NDArray[Any] = np.where(valid_rows(column), units, 0) / 10.0**column.type.scale
    return result
