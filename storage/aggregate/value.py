"""What a measure is of: a column, or a number that is computed from the columns of a row.

Promises: values and types are those of Spark in ANSI mode, to the bit; where Spark raises that a
whole number overflows, `overflows` says so, and the value means nothing. What is not known to be
computed exactly is refused when it is made: quotients, casts, decimals with more than 38 digits,
FLOAT and DECIMAL columns beside numbers of other families.
Does not know: SQL, or groups.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import UnsupportedTypeError
from ..predicate.condition import Condition, Flags, valid_rows
from ..predicate.constant import number_constant
from ..schema import arrow
from ..schema import types as t

# Whole numbers by their widths, and the digits that a decimal of them has.
_WHOLE: dict[type[t.DataType], tuple[int, int]] = {
    t.TinyInt: (8, 3), t.SmallInt: (16, 5), t.Int: (32, 10), t.BigInt: (64, 20),
}  # fmt: skip
_OPERATORS = {"+": np.add, "-": np.subtract, "*": np.multiply}
_OF_DECIMALS = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}


class Value(ABC):
    """A value of each row. Immutable; picklable; compares as what it is made of."""

    __slots__ = ()
    type: t.DataType

    @property
    def may_overflow(self) -> bool:
        """Whether it is an overflow for some rows that there may be."""
        return False

    @abstractmethod
    def computed(self, rows: pa.RecordBatch) -> tuple[pa.Array, Flags]:
        """Return (values, flags): the values of rows, and for which Spark raises an overflow.

        Values have the Arrow type of `type`; one that overflows is NULL.
        """

    def of(self, rows: pa.RecordBatch) -> pa.Array:
        """Return the values of rows."""
        return self.computed(rows)[0]

    def overflows(self, rows: pa.RecordBatch) -> Flags:
        """Return for which rows Spark raises an overflow."""
        return self.computed(rows)[1]

    def columns(self) -> Iterator[str]:
        """Yield the names of the columns it reads, possibly several times."""
        return iter(())


@dataclass(frozen=True, slots=True)
class ColumnValue(Value):
    """A column of the table."""

    name: str
    type: t.DataType

    def computed(self, rows: pa.RecordBatch) -> tuple[pa.Array, Flags]:
        """Return the column, and no flag."""
        return rows.column(self.name), _no_flags(rows)

    def columns(self) -> Iterator[str]:
        """Yield its name."""
        yield self.name


@dataclass(frozen=True, slots=True)
class NumberValue(Value):
    """A literal; `number_value` makes it."""

    number: int | float | Decimal
    type: t.DataType

    def computed(self, rows: pa.RecordBatch) -> tuple[pa.Array, Flags]:
        """Return the number for each row, and no flag."""
        scalar = pa.scalar(self.number, arrow.arrow_type(self.type))
        return pa.repeat(scalar, rows.num_rows), _no_flags(rows)


@dataclass(frozen=True, slots=True)
class Arithmetic(Value):
    """A sum, a difference or a product; `arithmetic` makes it. ``type``: of the result."""

    operator: str
    left: Value
    right: Value
    type: t.DataType

    @property
    def may_overflow(self) -> bool:
        """Whether it is of whole numbers, or a part of it is."""
        return type(self.type) in _WHOLE or self.left.may_overflow or self.right.may_overflow

    def computed(self, rows: pa.RecordBatch) -> tuple[pa.Array, Flags]:
        """Return the results; flags of both operands, of the right one only beside a left one.

        Spark does not compute the right operand if the left one is NULL.
        """
        left, flags = self.left.computed(rows)
        right, flags_of_right = self.right.computed(rows)
        flags = flags | (valid_rows(left) & flags_of_right)
        if isinstance(self.type, t.Decimal):
            left, right = _as_decimal(self.left, left), _as_decimal(self.right, right)
            return _OF_DECIMALS[self.operator](left, right), flags
        numbers, wraps = self._number(left, right)
        return numbers, flags | wraps

    def _number(self, left: pa.Array, right: pa.Array) -> tuple[pa.Array, Flags]:
        """Return whole numbers or floats, and which of them have left the type."""
        valid = valid_rows(left) & valid_rows(right)
        target = arrow.arrow_type(self.type)
        kind = np.float64 if isinstance(self.type, t.Double) else np.int64
        first, second = (_numbers(column, kind) for column in (left, right))
        with np.errstate(all="ignore"):
            result = _OPERATORS[self.operator](first, second)
            wraps = (
                np.zeros(len(result), np.bool_)
                if kind is np.float64
                else _leaves(self.operator, first, second, result, target.bit_width) & valid
            )
        mask = None if valid.all() and not wraps.any() else ~valid | wraps
        return pa.array(result.astype(target.to_pandas_dtype()), mask=mask), wraps

    def columns(self) -> Iterator[str]:
        """Yield those of both operands."""
        yield from self.left.columns()
        yield from self.right.columns()


@dataclass(frozen=True, slots=True)
class Choice(Value):
    """The value of the first condition that is true; `choice` makes it.

    ``otherwise``: where none is; None is NULL.
    """

    branches: tuple[tuple[Condition, Value], ...]
    otherwise: Value | None
    type: t.DataType

    @property
    def may_overflow(self) -> bool:
        """Whether the value of a branch may."""
        values = [value for _, value in self.branches]
        return any(value.may_overflow for value in (*values, self.otherwise) if value is not None)

    def computed(self, rows: pa.RecordBatch) -> tuple[pa.Array, Flags]:
        """Return for each row the value that is chosen; those of others are not computed."""
        if self.otherwise is None:
            chosen = pa.nulls(rows.num_rows, arrow.arrow_type(self.type))
            flags = _no_flags(rows)
        else:
            values, flags = self.otherwise.computed(rows)
            chosen = _cast(values, self.type)
        for condition, value in reversed(self.branches):
            is_chosen = condition.holds(rows)
            values, flags_of_value = value.computed(rows)
            chosen = pc.if_else(pa.array(is_chosen), _cast(values, self.type), chosen)
            flags = np.where(is_chosen, flags_of_value, flags)
        return chosen, flags

    def columns(self) -> Iterator[str]:
        """Yield those of the conditions and the values."""
        for condition, value in self.branches:
            yield from condition.columns()
            yield from value.columns()
        if self.otherwise is not None:
            yield from self.otherwise.columns()


def number_value(number: Any, data_type: t.DataType) -> NumberValue:
    """Return a literal of type INT, BIGINT, DECIMAL or DOUBLE. UnsupportedTypeError for others."""
    if isinstance(data_type, t.Int | t.BigInt) and type(number) is int:
        bits, _ = _WHOLE[type(data_type)]
        if -(1 << bits - 1) <= number < 1 << bits - 1:
            return NumberValue(number, data_type)
    if isinstance(data_type, t.Decimal) and isinstance(number, Decimal) and number.is_finite():
        return NumberValue(number, data_type)
    if isinstance(data_type, t.Double) and isinstance(number, float):
        return NumberValue(number, data_type)
    raise UnsupportedTypeError(f"{number!r} is not a number of type {data_type}")


def number_of(text: str) -> NumberValue:
    """Return the literal that a number in SQL is, a sign before it included.

    UnsupportedExpressionError for a number of more digits than a type has.
    """
    constant = number_constant(text)
    return number_value(constant.value, constant.type)


def arithmetic(operator: str, left: Value, right: Value) -> Arithmetic:
    """Return a sum, a difference or a product, in the type of Spark.

    UnsupportedTypeError if it is not known to be computed exactly.
    """
    if operator not in _OPERATORS:
        raise UnsupportedTypeError(f"{operator!r} is not known of numbers")
    left, right = _beside(left, right.type), _beside(right, left.type)
    return Arithmetic(operator, left, right, _result_type(operator, left, right))


def choice(branches: tuple[tuple[Condition, Value], ...], otherwise: Value | None) -> Choice:
    """Return the value of the first condition that is true; errors as of `arithmetic`."""
    values = [value for _, value in branches] + ([] if otherwise is None else [otherwise])
    if not branches:
        raise UnsupportedTypeError("there is nothing to choose from")
    if any(isinstance(value.type, t.Double) for value in values):
        values = [_beside(value, t.Double()) for value in values]
    common = values[0].type
    for value in values[1:]:
        common = _common_type(common, value.type)
    conditions = [condition for condition, _ in branches]
    made = tuple(zip(conditions, values[: len(branches)], strict=True))
    return Choice(made, None if otherwise is None else values[-1], common)


def decimal_operand(value: Value) -> t.Decimal:
    """Return the type that a number has beside a decimal: of a literal just its digits."""
    if isinstance(value.type, t.Decimal):
        return value.type
    if isinstance(value, NumberValue) and isinstance(value.number, int):
        return t.Decimal(len(str(abs(value.number))), 0)
    return _decimal_of(value.type)


def _beside(value: Value, other: t.DataType) -> Value:
    """Return a value; a literal decimal beside a DOUBLE as the DOUBLE that it becomes."""
    if not isinstance(value, NumberValue) or not isinstance(value.number, Decimal):
        return value
    return NumberValue(float(value.number), other) if isinstance(other, t.Double) else value


def _decimal_of(data_type: t.DataType) -> t.Decimal:
    if isinstance(data_type, t.Decimal):
        return data_type
    if type(data_type) not in _WHOLE:
        raise UnsupportedTypeError(f"{data_type} is not computed with decimals")
    return t.Decimal(_WHOLE[type(data_type)][1], 0)


def _result_type(operator: str, left: Value, right: Value) -> t.DataType:
    kinds = (type(left.type), type(right.type))
    if t.Double in kinds and all(_becomes_double(value) for value in (left, right)):
        return t.Double()
    if all(kind in _WHOLE for kind in kinds):
        return _wider(left.type, right.type)
    first, second = decimal_operand(left), decimal_operand(right)
    if operator == "*":
        precision = first.precision + second.precision + 1
        scale = first.scale + second.scale
    else:
        scale = max(first.scale, second.scale)
        whole = max(first.precision - first.scale, second.precision - second.scale)
        precision = whole + scale + 1
    return _decimal(precision, scale)


def _becomes_double(value: Value) -> bool:
    """Return whether a number is the same DOUBLE to Spark and here."""
    kind = type(value.type)
    return kind is t.Double or kind in _WHOLE


def _common_type(first: t.DataType, second: t.DataType) -> t.DataType:
    """Return the type of a value that is one or the other."""
    if first == second:
        return first
    kinds = (type(first), type(second))
    if all(kind in _WHOLE for kind in kinds):
        return _wider(first, second)
    if t.Double in kinds and all(kind is t.Double or kind in _WHOLE for kind in kinds):
        return t.Double()
    left, right = _decimal_of(first), _decimal_of(second)
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return _decimal(whole + scale, scale)


def _wider(first: t.DataType, second: t.DataType) -> t.DataType:
    return max((first, second), key=lambda data_type: _WHOLE[type(data_type)])


def _decimal(precision: int, scale: int) -> t.Decimal:
    if precision > t.MAX_DECIMAL_PRECISION:
        raise UnsupportedTypeError(f"a decimal of {precision} digits would be rounded")
    return t.Decimal(precision, scale)


def _as_decimal(value: Value, column: pa.Array) -> pa.Array:
    """Return the numbers of a value in the type that they have beside a decimal."""
    target = decimal_operand(value)
    if isinstance(value, NumberValue):
        # Arrow casts an integer only to as many digits as any integer of its type may have.
        scalar = pa.scalar(Decimal(value.number), arrow.arrow_type(target))
        return pa.repeat(scalar, len(column))
    return _cast(column, target)


def _no_flags(rows: pa.RecordBatch) -> Flags:
    return np.zeros(rows.num_rows, np.bool_)


def _cast(column: pa.Array, data_type: t.DataType) -> pa.Array:
    target = arrow.arrow_type(data_type)
    return column if column.type == target else column.cast(target, safe=False)


def _numbers(column: pa.Array, kind: type[np.generic]) -> NDArray[Any]:
    """Return the numbers of a column; 0 for NULL."""
    filled = pc.fill_null(column, pa.scalar(0, column.type)) if column.null_count else column
    numbers: NDArray[Any] = filled.to_numpy(zero_copy_only=False).astype(kind, copy=False)
    return numbers


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
