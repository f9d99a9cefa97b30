"""What an expression is: a value of each row, and for which rows Spark raises an error instead.

Does not know: SQL, or which expressions there are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..predicate.condition import Flags, valid_rows
from ..schema import arrow
from ..schema import types as t

Failures: TypeAlias = NDArray[np.uint8]


class Failure(IntEnum):
    """Why Spark raises an error for a row; 0 where it does not. The numbers travel to tasks."""

    OVERFLOW = 1
    DIVISION_BY_ZERO = 2
    REMAINDER_BY_ZERO = 3
    CAST_OVERFLOW = 4
    DECIMAL_RANGE = 5


DESCRIPTIONS = {
    Failure.OVERFLOW: "overflows its type",
    Failure.DIVISION_BY_ZERO: "divides by zero",
    Failure.REMAINDER_BY_ZERO: "has a remainder by zero",
    Failure.CAST_OVERFLOW: "casts a number to a type that does not have it",
    Failure.DECIMAL_RANGE: "casts a number to a DECIMAL of fewer digits",
}
"""What an expression does that fails, for messages."""


class Value(ABC):
    """A value of each row. Immutable; picklable; compares as what it is made of.

    ``type``: of the values; ``nullable``: whether Spark takes it that some may be NULL.
    """

    __slots__ = ()
    type: t.DataType

    @property
    def nullable(self) -> bool:
        """Whether Spark takes it that values may be NULL: where an operand may, if not stated."""
        return any(operand.nullable for operand in self.operands)

    @property
    def operands(self) -> tuple[Value, ...]:
        """The values that it is computed of."""
        return ()

    @property
    def own_failures(self) -> bool:
        """Whether it may fail for operands that do not."""
        return False

    @property
    def may_fail(self) -> bool:
        """Whether Spark raises an error for some rows that there may be."""
        return self.own_failures or any(operand.may_fail for operand in self.operands)

    @abstractmethod
    def computed(self, rows: pa.RecordBatch) -> tuple[pa.Array, Failures]:
        """Return (values, failures): the values of rows, and a `Failure` or 0 for each.

        Values have the Arrow type of `type`; one that fails is NULL.
        """

    def of(self, rows: pa.RecordBatch) -> pa.Array:
        """Return the values of rows."""
        return self.computed(rows)[0]

    def failures(self, rows: pa.RecordBatch) -> Failures:
        """Return for each row the `Failure` that Spark raises, or 0."""
        return self.computed(rows)[1]

    def columns(self) -> Iterator[str]:
        """Yield the names of the columns it reads, possibly several times."""
        for operand in self.operands:
            yield from operand.columns()


class Unary(Value):
    """A value that is computed of one operand."""

    __slots__ = ()
    operand: Value

    @property
    def operands(self) -> tuple[Value, ...]:
        """The operand."""
        return (self.operand,)


class Binary(Value):
    """A value that is computed of two operands."""

    __slots__ = ()
    left: Value
    right: Value

    @property
    def operands(self) -> tuple[Value, ...]:
        """Both operands."""
        return self.left, self.right


def no_failures(rows: pa.RecordBatch | pa.Array) -> Failures:
    """Return that no row fails."""
    return np.zeros(len(rows), np.uint8)


def failures_where(flags: Flags, failure: Failure) -> Failures:
    """Return a failure of the rows with a flag."""
    return flags.astype(np.uint8) * np.uint8(failure)


def first_of(*failures: Failures) -> Failures:
    """Return of each row the first of several failures."""
    result = failures[0]
    for later in failures[1:]:
        result = np.where(result != 0, result, later)
    return result


def computed_in_turn(
    first: Value, second: Value, rows: pa.RecordBatch
) -> tuple[pa.Array, pa.Array, Failures]:
    """Return the values of two operands; the second counts only beside a first one.

    Spark does not compute the second operand where the first one is NULL.
    """
    left, failures = first.computed(rows)
    right, failures_of_right = second.computed(rows)
    return left, right, first_of(failures, np.where(valid_rows(left), failures_of_right, 0))


def with_nulls(values: pa.Array, is_null: Flags) -> pa.Array:
    """Return values that are NULL also in the rows with a flag."""
    if not is_null.any():
        return values
    return pc.if_else(pa.array(~is_null), values, pa.scalar(None, values.type))


def converted(column: pa.Array, data_type: t.DataType) -> pa.Array:
    """Return numbers in the Arrow type of another type, which has all of them."""
    target = arrow.arrow_type(data_type)
    return column if column.type == target else column.cast(target, safe=False)


def numbers_of(column: pa.Array, kind: type[np.generic]) -> NDArray[Any]:
    """Return the numbers of a column; 0 for NULL."""
    filled = pc.fill_null(column, pa.scalar(0, column.type)) if column.null_count else column
    numbers: NDArray[Any] = filled.to_numpy(zero_copy_only=False).astype(kind, copy=False)
    return numbers


def array_of(numbers: NDArray[Any], valid: Flags, data_type: t.DataType) -> pa.Array:
    """Return numbers, dates in days or timestamps in microseconds, as an array of a type."""
    target = arrow.arrow_type(data_type)
    mask = None if valid.all() else ~valid
    if pa.types.is_date32(target):
        return pa.array(numbers.astype(np.int32), mask=mask).cast(target)
    if pa.types.is_timestamp(target):
        return pa.array(numbers.astype(np.int64), mask=mask).cast(target)
    return pa.array(numbers.astype(target.to_pandas_dtype()), mask=mask)


def flags_of(column: pa.Array) -> Flags:
    """Return where booleans are true; not where they are NULL."""
    filled = pc.fill_null(column, pa.scalar(False)) if column.null_count else column
    flags: Flags = filled.to_numpy(zero_copy_only=False)
    return flags
