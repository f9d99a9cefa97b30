"""Constants of a condition: what a cast makes of them, and which columns they compare with.

A column compares with constants of its own family:

    TINYINT to BIGINT, DECIMAL    integers, and decimals such as 9.99
    FLOAT, DOUBLE                 any number: both become DOUBLE, as in Spark
    DATE                          dates, and text with one
    TIMESTAMP, TIMESTAMP_NTZ      timestamps of the same kind, dates, and text with either
    any other                     its own type

Promises: a cast gives what Spark's gives in ANSI mode; a cast that rounds, overflows or fails is
refused, and so are spellings of dates and times that only Spark knows.
Does not know: sqlglot, columns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from ..errors import UnsupportedExpressionError
from ..instant import (
    MICROSECONDS_PER_DAY,
    Zone,
    parse_date,
    parse_local_timestamp,
    parse_time,
    parse_timestamp,
)
from ..schema import types as t
from .domain import domain_of

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_BLANKS = " \t\n\r\f\v"
_SPECIAL_FLOATS = {
    "inf": "inf", "+inf": "inf", "infinity": "inf", "+infinity": "inf",
    "-inf": "-inf", "-infinity": "-inf", "nan": "nan",
}  # fmt: skip
_WIDE = Context(prec=100)

_DIGITS: dict[type[t.DataType], int] = {t.TinyInt: 3, t.SmallInt: 5, t.Int: 10, t.BigInt: 20}
_EXACT = (*_DIGITS, t.Decimal)
_FLOATS = (t.Float, t.Double)
_MOST_FLOAT = 1e38

_ADVICE: dict[type[t.DataType], str] = {
    **dict.fromkeys(_DIGITS, "a whole number such as 5, or a decimal such as 9.99"),
    t.Decimal: "a number without an exponent, such as 9.99",
    t.Float: "a number such as 1.5",
    t.Double: "a number such as 1.5",
    t.String: "text in quotes",
    t.Binary: "bytes such as X'00FF'",
    t.Boolean: "TRUE or FALSE",
    t.Date: "a date such as '2024-01-31'",
    t.Timestamp: "a timestamp such as '2024-01-31 12:00:00', with the option timeZone",
    t.TimestampNtz: "a timestamp such as TIMESTAMP_NTZ '2024-01-31 12:00:00'",
    t.Time: "a time such as CAST('12:00:00' AS TIME)",
}


@dataclass(frozen=True, slots=True)
class Constant:
    """A value and its type; None is NULL.

    Dates are days, timestamps microseconds and times nanoseconds, as ints; text is str, binary
    bytes, decimals Decimal, floats float.
    """

    value: Any
    type: t.DataType


NULL = Constant(None, t.Void())


def number_constant(text: str) -> Constant:
    """Return the constant that a number is, a sign before it included."""
    if not _NUMBER.fullmatch(text):
        raise UnsupportedExpressionError(f"{text} is not a number")
    if "e" in text or "E" in text:
        value = float(text)
        if value in (float("inf"), float("-inf")):
            raise UnsupportedExpressionError(f"the number {text} is outside of DOUBLE")
        return Constant(value, t.Double())
    if "." not in text:
        number = int(text)
        for data_type in (t.Int(), t.BigInt()):
            if _is_in_range(number, data_type):
                return Constant(number, data_type)
    return _decimal_constant(text)


def _decimal_constant(text: str) -> Constant:
    """Return the constant of the narrowest decimal that a number without exponent needs."""
    value = Decimal(text)
    _, _, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    precision = max(len(str(abs(int(value.scaleb(scale, _WIDE))))), scale, 1)
    if precision > t.MAX_DECIMAL_PRECISION:
        raise UnsupportedExpressionError(
            f"the number {text} has {precision} digits, more than {t.MAX_DECIMAL_PRECISION}"
        )
    return Constant(value, t.Decimal(precision, scale))


# --- Casts --------------------------------------------------------------------------------------


def cast(constant: Constant, target: t.DataType, zone: Zone) -> Constant:
    """Return what ``CAST(constant AS target)`` is, in a session of that time zone.

    UnsupportedExpressionError if it fails, loses something, or is not known here.
    """
    if constant.type == target:
        return constant
    if constant.value is None:
        return Constant(None, target)
    value = _converted(constant, target, zone)
    if value is None:
        raise UnsupportedExpressionError(
            f"{constant.value!r} of type {constant.type} is not a {target}, or only after rounding"
            f"{_advice(target)}"
        )
    return Constant(value, target)


def _converted(constant: Constant, target: t.DataType, zone: Zone) -> Any:
    """Return the value of a cast; None if it is refused."""
    value, source = constant.value, constant.type
    if isinstance(source, t.String):
        return _parsed(value, target, zone)
    if isinstance(source, t.Date):
        return _start_of_day(value, target, zone)
    if not isinstance(source, (*_EXACT, *_FLOATS)):
        return None
    match target:
        case t.Double():
            return float(value)
        case t.Float():
            return nearest_float(Fraction(value)) if abs(value) <= _MOST_FLOAT else None
        case t.Decimal() if isinstance(source, _EXACT):
            return _exact_decimal(Decimal(value), target)
        case t.TinyInt() | t.SmallInt() | t.Int() | t.BigInt() if isinstance(source, _EXACT):
            is_whole = int(value) == value and _is_in_range(int(value), target)
            return int(value) if is_whole else None
    return None


def _parsed(text: str, target: t.DataType, zone: Zone) -> Any:
    """Return the value that a text has as a type; None if it has none."""
    match target:
        case t.Date():
            return parse_date(text)
        case t.Timestamp():
            return parse_timestamp(text, zone)
        case t.TimestampNtz():
            return parse_local_timestamp(text)
        case t.Time() if target == t.Time():
            return parse_time(text)
    number = text.strip(_BLANKS)
    special = _SPECIAL_FLOATS.get(number.lower())
    if isinstance(target, _FLOATS) and special is not None:
        return float(special)
    if not _NUMBER.fullmatch(number):
        return None
    match target:
        case t.Double():
            return float(number)
        case t.Float():
            return nearest_float(Fraction(number))
        case t.Decimal():
            return _exact_decimal(Decimal(number), target)
    return None


def _start_of_day(day: int, target: t.DataType, zone: Zone) -> int | None:
    if isinstance(target, t.TimestampNtz):
        return day * MICROSECONDS_PER_DAY
    if isinstance(target, t.Timestamp) and zone.offset is not None:
        return zone.instant(day * MICROSECONDS_PER_DAY)
    return None


def _is_in_range(number: int | Decimal, data_type: t.DataType) -> bool:
    domain = domain_of(data_type)
    assert domain is not None
    assert domain.most is not None
    assert isinstance(domain.least, int)
    return domain.least <= number <= domain.most


def _exact_decimal(value: Decimal, target: t.Decimal) -> Decimal | None:
    unscaled = value.scaleb(target.scale, _WIDE)
    if unscaled != int(unscaled) or abs(unscaled) >= 10**target.precision:
        return None
    return Decimal(int(unscaled)).scaleb(-target.scale, _WIDE)


def nearest_float(number: Fraction) -> float | None:
    """Return the float of 32 bits nearest to a number, of two the even one; None beyond them."""
    first = np.float32(float(number))
    candidates = [
        first,
        np.nextafter(first, np.float32(-np.inf)),
        np.nextafter(first, np.float32(np.inf)),
    ]
    if not np.isfinite(candidates).all():
        return None
    return float(
        min(
            candidates,
            key=lambda value: (abs(Fraction(float(value)) - number), value.view(np.uint32) & 1),
        )
    )


# --- Comparison with columns --------------------------------------------------------------------


def fit_to_column(
    constants: Sequence[Constant], column_type: t.DataType, zone: Zone
) -> list[Constant]:
    """Return constants as a column of some type compares with them; none of them is NULL.

    UnsupportedExpressionError for one that is not of the column's family.
    """
    _check_digits(constants, column_type)
    return [_fitted(constant, column_type, zone) for constant in constants]


def check_order(constant: Constant, column_type: t.DataType) -> None:
    """UnsupportedExpressionError for a number beyond BIGINT beside a column of integers.

    Spark makes ``<`` and the like of the two TRUE or FALSE, for NULL too.
    """
    if type(column_type) in _DIGITS and not _is_in_range(constant.value, t.BigInt()):
        raise UnsupportedExpressionError(
            f"{constant.value} is outside of BIGINT, and all values of {column_type} are on one "
            "side of it; use IS NOT NULL or FALSE"
        )


def _fitted(constant: Constant, column_type: t.DataType, zone: Zone) -> Constant:
    source = constant.type
    match column_type:
        case t.Float() | t.Double() if isinstance(source, (*_EXACT, *_FLOATS)):
            return replace(constant, value=float(constant.value))
        case t.Date() if isinstance(source, t.String):
            return cast(constant, column_type, zone)
        case t.Timestamp() | t.TimestampNtz() if isinstance(source, t.String | t.Date):
            return cast(constant, column_type, zone)
    if source == column_type or (isinstance(column_type, _EXACT) and isinstance(source, _EXACT)):
        return constant
    raise UnsupportedExpressionError(
        f"a column of type {column_type} is not compared with a constant of type {source}"
        f"{_advice(column_type)}"
    )


def _check_digits(constants: Sequence[Constant], column_type: t.DataType) -> None:
    """UnsupportedExpressionError where Spark would round to compare, in 38 digits."""
    sizes = [_size_of(column_type), *(_size_of(c.type, c.value) for c in constants)]
    known_sizes = [size for size in sizes if size is not None]
    if len(known_sizes) < len(sizes):
        return
    if max(whole for whole, _ in known_sizes) + max(scale for _, scale in known_sizes) > (
        t.MAX_DECIMAL_PRECISION
    ):
        raise UnsupportedExpressionError(
            f"{column_type} and the constants do not fit in a decimal of "
            f"{t.MAX_DECIMAL_PRECISION} digits, and Spark rounds; write fewer digits"
        )


def _size_of(data_type: t.DataType, value: Any = None) -> tuple[int, int] | None:
    """Return (digits before the point, digits after it) of a type or an integer; None if none."""
    if isinstance(data_type, t.Decimal):
        return data_type.precision - data_type.scale, data_type.scale
    if isinstance(value, int) and type(data_type) in _DIGITS:
        return len(str(abs(value))), 0
    digits = _DIGITS.get(type(data_type))
    return None if digits is None else (digits, 0)


def _advice(column_type: t.DataType) -> str:
    advice = _ADVICE.get(type(column_type))
    return "" if advice is None else f"; write {advice}"
