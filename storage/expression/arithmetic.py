"""Sums, differences and products, negative numbers and absolute values.

Promises: whole numbers that leave their type fail; decimals have all their digits.
Does not know: division.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
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
from .kinds import arithmetic_type, decimal_of, is_number, is_whole
from .literal import Literal
from .number_cast import to_double
from .value import (
    Binary,
    Failure,
    Failures,
    Unary,
    Value,
    array_of,
    computed_in_turn,
    converted,
    failures_where,
    first_of,
    numbers_of,
)

_OPERATORS: dict[str, Callable[..., Any]] = {"+": np.add, "-": np.subtract, "*": np.multiply}
_OF_DECIMALS = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}
_SIGNED = ("-", "abs")
# Spark rounds a decimal whose sign it changes to so many digits.
_SIGNED_DIGITS = 34


@dataclass(frozen=True, slots=True)
class Arithmetic(Binary):
    """A sum, a difference or a product; `arithmetic` makes it. ``type``: of the result."""

    operator: str
    left: Value
    right: Value
    type: t.DataType

    @property
    def own_failures(self) -> bool:
        """Whether it is of whole numbers."""
        return is_whole(self.type)

    def computed(self, rows: pa.RecordBatch) -> tuple[pa.Array, Failures]:
        """Return the results; the right operand counts only beside a left one, as in Spark."""
        left, right, failures = computed_in_turn(self.left, self.right, rows)
        if isinstance(self.type, t.Decimal):
            left, right = _as_decimal(self.left, left), _as_decimal(self.right, right)
            return _OF_DECIMALS[self.operator](left, right), failures
        valid = valid_rows(left) & valid_rows(right)
        if isinstance(self.type, t.Double):
            with np.errstate(all="ignore"):
                result = _OPERATORS[self.operator](to_double(left), to_double(right))
            return array_of(result, valid, self.type), failures
        first, second = (numbers_of(column, np.int64) for column in (left, right))
        with np.errstate(all="ignore"):
            result = _OPERATORS[self.operator](first, second)
            bits = arrow.arrow_type(self.type).bit_width
            wraps = _leaves(self.operator, first, second, result, bits) & valid
        failures = first_of(failures, failures_where(wraps, Failure.OVERFLOW))
        return array_of(result, valid & ~wraps, self.type), failures


@dataclass(frozen=True, slots=True)
class Signed(Unary):
    """A number with the other sign (``-``), or without one (``abs``); `signed` makes it."""

    function: str
    operand: Value

    @property
    def type(self) -> t.DataType:  # type: ignore[override]
        """That of the number."""
        return self.operand.type

    @property
    def own_failures(self) -> bool:
        """Whether it is whole: the least number has no other sign."""
        return is_whole(self.type)

    def computed(self, rows: pa.RecordBatch) -> tuple[pa.Array, Failures]:
        """Return the numbers."""
        column, failures = self.operand.computed(rows)
        if isinstance(self.type, t.Decimal):
            return (pc.negate if self.function == "-" else pc.abs)(column), failures
        kind = arrow.arrow_type(self.type).to_pandas_dtype()
        numbers, valid = numbers_of(column, kind), valid_rows(column)
        result = np.negative(numbers) if self.function == "-" else np.abs(numbers)
        if is_whole(self.type):
            wraps = (numbers == np.iinfo(kind).min) & valid
            valid = valid & ~wraps
            failures = first_of(failures, failures_where(wraps, Failure.OVERFLOW))
        return array_of(result, valid, self.type), failures


def arithmetic(operator: str, left: Value, right: Value) -> Arithmetic:
    """Return a sum, a difference or a product, in the type of Spark.

    UnsupportedTypeError if it is not known to be computed exactly.
    """
    if operator not in _OPERATORS:
        raise UnsupportedTypeError(f"{operator!r} is not supported for numbers")
    left, right = beside(left, right.type), beside(right, left.type)
    data_type = arithmetic_type(operator, operand_type(left, right), operand_type(right, left))
    return Arithmetic(operator, left, right, data_type)


def signed(function: str, operand: Value) -> Signed:
    """Return the number with the other sign (``-``) or without one (``abs``).

    UnsupportedTypeError for what is not a number, and for decimals of more than 34 digits, which
    Spark rounds.
    """
    data_type = operand.type
    if isinstance(data_type, t.Decimal) and data_type.precision > _SIGNED_DIGITS:
        raise UnsupportedTypeError(f"{function} of {data_type} is rounded by Spark")
    if function not in _SIGNED or not is_number(data_type):
        raise UnsupportedTypeError(f"{function} of {operand.type} is not supported")
    return Signed(function, operand)


def operand_type(value: Value, sibling: Value) -> t.DataType:
    """Return the type that a value has beside another: of a literal beside a decimal its digits."""
    content = value.content if isinstance(value, Literal) else None
    if isinstance(sibling.type, t.Decimal) and isinstance(content, int) and is_whole(value.type):
        return t.Decimal(len(str(abs(content))), 0)
    return value.type


def beside(value: Value, sibling_type: t.DataType) -> Value:
    """Return a value; a literal decimal beside a DOUBLE as the DOUBLE that it becomes."""
    if not isinstance(value, Literal) or not isinstance(sibling_type, t.Double):
        return value
    content = value.content
    if not isinstance(content, Decimal | int) or isinstance(content, bool):
        return value
    return replace(value, content=float(content), type=sibling_type)


def _as_decimal(value: Value, column: pa.Array) -> pa.Array:
    """Return the numbers of a value in the type that they have beside a decimal."""
    if isinstance(value, Literal) and isinstance(value.content, int):
        # Arrow casts an integer only to as many digits as any integer of its type may have.
        target = t.Decimal(len(str(abs(value.content))), 0)
        scalar = pa.scalar(Decimal(value.content), arrow.arrow_type(target))
        return pa.repeat(scalar, len(column))
    return converted(column, decimal_of(value.type))


def _leaves(
    operator: str, left: NDArray[Any], right: NDArray[Any], result: NDArray[Any], bits: int
) -> Flags:
    """Return which results of 64-bit arithmetic are not those of the type with so many bits."""
    if bits < 64:
        # Neither a sum nor a product of narrower numbers leaves 64 bits.
        limit = 1 << bits - 1
        wraps: Flags = (result < -limit) | (result >= limit)
        return wraps
    if operator == "+":
        wraps = ((left ^ result) & (right ^ result)) < 0
        return wraps
    if operator == "-":
        wraps = ((left ^ right) & (left ^ result)) < 0
        return wraps
    if _largest(left) * _largest(right) < 1 << 63:
        return np.zeros(len(result), np.bool_)
    # The quotient of a product that wrapped around is another number; only that of the least
    # number by -1 wraps around, too.
    least = np.iinfo(np.int64).min
    divisor = np.where(right == 0, 1, right)
    wraps = (right != 0) & ((result // divisor != left) | ((right == -1) & (left == least)))
    return wraps


def _largest(numbers: NDArray[Any]) -> int:
    return max(abs(int(numbers.min())), abs(int(numbers.max()))) if len(numbers) else 0
