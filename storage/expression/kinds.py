"""The rules of types: what is computed of two numbers has which type, and what two values share.

Promises: types are those of Spark in ANSI mode; where Spark would round, there is none.
Does not know: values.
"""

from __future__ import annotations

from typing import NamedTuple

from ..errors import UnsupportedTypeError
from ..schema import types as t


class Width(NamedTuple):
    """A whole number's bits, and the digits of a decimal that has all of its values."""

    bits: int
    digits: int


WHOLE: dict[type[t.DataType], Width] = {
    t.TinyInt: Width(8, 3), t.SmallInt: Width(16, 5), t.Int: Width(32, 10),
    t.BigInt: Width(64, 20),
}  # fmt: skip
"""Whole numbers, in the order of their widths."""
# A decimal of so many digits is a 64-bit integer that a DOUBLE has, divided by a power of ten that
# a DOUBLE has: one rounding.
_DOUBLE_DIGITS = 15


def is_whole(data_type: t.DataType) -> bool:
    """Return whether values are whole numbers."""
    return type(data_type) in WHOLE


def is_number(data_type: t.DataType) -> bool:
    """Return whether values are numbers that are computed with here."""
    return is_whole(data_type) or isinstance(data_type, t.Double | t.Decimal)


def becomes_double(data_type: t.DataType) -> bool:
    """Return whether a number of a type is the same DOUBLE to Spark and here."""
    if isinstance(data_type, t.Decimal):
        return data_type.precision <= _DOUBLE_DIGITS
    return is_whole(data_type) or isinstance(data_type, t.Float | t.Double)


def decimal_of(data_type: t.DataType) -> t.Decimal:
    """Return the decimal that a number of a type becomes beside decimals."""
    if isinstance(data_type, t.Decimal):
        return data_type
    if not is_whole(data_type):
        raise UnsupportedTypeError(f"{data_type} is not computed with decimals")
    return t.Decimal(WHOLE[type(data_type)].digits, 0)


def wider(first: t.DataType, second: t.DataType) -> t.DataType:
    """Return the wider of two types of whole numbers."""
    return max((first, second), key=lambda data_type: WHOLE[type(data_type)])


def whole_or_double(first: t.DataType, second: t.DataType) -> t.DataType | None:
    """Return the type of two numbers together if it is not a decimal; None if it is one."""
    kinds = (first, second)
    if any(isinstance(kind, t.Double) for kind in kinds):
        if any(isinstance(kind, t.Float) for kind in kinds) or not all(map(becomes_double, kinds)):
            raise UnsupportedTypeError(f"{first} and {second} are not one DOUBLE exactly")
        return t.Double()
    return wider(first, second) if all(map(is_whole, kinds)) else None


def arithmetic_type(operator: str, first: t.DataType, second: t.DataType) -> t.DataType:
    """Return the type of a sum, a difference or a product.

    UnsupportedTypeError if it is not known to be computed exactly.
    """
    common = whole_or_double(first, second)
    if common is not None:
        return common
    left, right = decimal_of(first), decimal_of(second)
    if operator == "*":
        return decimal(left.precision + right.precision + 1, left.scale + right.scale)
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return decimal(whole + scale + 1, scale)


def common_type(first: t.DataType, second: t.DataType) -> t.DataType:
    """Return the type of a value that is one or the other. UnsupportedTypeError if none is."""
    if first == second:
        return first
    common = whole_or_double(first, second)
    if common is not None:
        return common
    left, right = decimal_of(first), decimal_of(second)
    scale = max(left.scale, right.scale)
    return decimal(max(left.precision - left.scale, right.precision - right.scale) + scale, scale)


def decimal(precision: int, scale: int) -> t.Decimal:
    """Return a type of decimals. UnsupportedTypeError for one of too many digits."""
    if precision > t.MAX_DECIMAL_PRECISION:
        raise UnsupportedTypeError(f"a decimal of {precision} digits would be rounded")
    return t.Decimal(precision, scale)
