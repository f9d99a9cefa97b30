"""The type in which Spark compares values of different types, in its ANSI mode.

The rules are those of Spark's AnsiTypeCoercion: numbers meet in the wider type, integers and
floats in DOUBLE, text becomes what it is compared with (BIGINT beside an integer, DOUBLE beside
any other number).
Does not know: values.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import UnsupportedExpressionError
from ..schema import types as t

_NUMBERS: tuple[type[t.DataType], ...] = (
    t.TinyInt,
    t.SmallInt,
    t.Int,
    t.BigInt,
    t.Float,
    t.Double,
)
_MOMENTS: tuple[type[t.DataType], ...] = (t.Date, t.TimestampNtz, t.Timestamp)
_FROM_TEXT = (*_MOMENTS, t.Boolean, t.Binary)
_DIGITS: dict[type[t.DataType], int] = {t.TinyInt: 3, t.SmallInt: 5, t.Int: 10, t.BigInt: 20}


def common_type(types: Sequence[t.DataType]) -> t.DataType:
    """Return the type in which values of some types are compared.

    UnsupportedExpressionError if they do not compare.
    """
    common: t.DataType = t.Void()
    for data_type in sorted(types, key=lambda one: not isinstance(one, t.String)):
        found = _wider(common, data_type)
        if found is None:
            names = ", ".join(dict.fromkeys(map(str, types)))
            raise UnsupportedExpressionError(f"the types {names} do not compare")
        common = found
    return common


def integer_decimal(data_type: t.DataType) -> t.Decimal | None:
    """Return the decimal that holds every value of an integer type; None for other types."""
    digits = _DIGITS.get(type(data_type))
    return None if digits is None else t.Decimal(digits, 0)


def _wider(one: t.DataType, other: t.DataType) -> t.DataType | None:
    if one == other or isinstance(other, t.Void):
        return one
    if isinstance(one, t.Void):
        return other
    if isinstance(one, t.String) or isinstance(other, t.String):
        return _beside_text(other if isinstance(one, t.String) else one)
    if isinstance(one, t.Decimal) or isinstance(other, t.Decimal):
        return _wider_decimal(one, other)
    if isinstance(one, _NUMBERS) and isinstance(other, _NUMBERS):
        wide = max(one, other, key=lambda number: _NUMBERS.index(type(number)))
        return t.Double() if isinstance(wide, t.Float) else wide
    if isinstance(one, _MOMENTS) and isinstance(other, _MOMENTS):
        return max(one, other, key=lambda moment: _MOMENTS.index(type(moment)))
    return None


def _beside_text(other: t.DataType) -> t.DataType | None:
    if type(other) in _DIGITS:
        return t.BigInt()
    if isinstance(other, t.Decimal | t.Float | t.Double):
        return t.Double()
    return other if isinstance(other, _FROM_TEXT) else None


def _wider_decimal(one: t.DataType, other: t.DataType) -> t.DataType | None:
    if isinstance(one, t.Float | t.Double) or isinstance(other, t.Float | t.Double):
        return t.Double()
    first = one if isinstance(one, t.Decimal) else integer_decimal(one)
    second = other if isinstance(other, t.Decimal) else integer_decimal(other)
    if first is None or second is None:
        return None
    scale = max(first.scale, second.scale)
    whole = max(first.precision - first.scale, second.precision - second.scale)
    if whole + scale > t.MAX_DECIMAL_PRECISION:
        raise UnsupportedExpressionError(
            f"{one} and {other} meet in no decimal of {t.MAX_DECIMAL_PRECISION} digits, and Spark "
            "rounds; write a constant with fewer digits"
        )
    return t.Decimal(whole + scale, scale)
