"""Constants of an expression, and what a cast makes of them.

Promises: a cast gives what Spark's gives in ANSI mode; where that would round, overflow or fail,
and for spellings of dates and times that only Spark knows, it is refused.
Does not know: sqlglot, columns.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

import numpy as np

from ..errors import OptionError, UnsupportedExpressionError
from ..schema import types as t
from .domain import domain_of
from .zone import MICROSECONDS_A_DAY, Zone, zone_of

_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")
_DATE_AND_REST = re.compile(r"(\d{4}-\d{1,2}-\d{1,2})[ T].*", re.DOTALL)
_MOMENT = re.compile(
    r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})"
    r"(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?)?)?)?"
)
_WITH_ZONE = re.compile(
    r"(\S+[ T]\d{1,2}:\d{1,2}:\d{1,2}(?:\.\d{1,6})?) ?(Z|[+-]\d\d:\d\d|[A-Z]\S+)"
)
_TIME = re.compile(r"(\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,6}))?")
_BLANKS = " \t\n\r\f\v"
_BOOLEANS = dict.fromkeys(("t", "true", "y", "yes", "1"), True) | dict.fromkeys(
    ("f", "false", "n", "no", "0"), False
)
_SPECIAL_FLOATS = {
    "inf": "inf", "+inf": "inf", "infinity": "inf", "+infinity": "inf",
    "-inf": "-inf", "-infinity": "-inf", "nan": "nan",
}  # fmt: skip
_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_WIDE = Context(prec=100)

INTEGERS = (t.TinyInt, t.SmallInt, t.Int, t.BigInt)


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
    """Return the constant that a number means, a sign before it included."""
    if "e" in text or "E" in text:
        value = float(text)
        if value in (float("inf"), float("-inf")):
            raise UnsupportedExpressionError(f"the number {text} is outside of DOUBLE")
        return Constant(value, t.Double())
    if "." not in text:
        number = int(text)
        for data_type in (t.Int(), t.BigInt()):
            if _fits(number, data_type):
                return Constant(number, data_type)
    return decimal_constant(text)


def decimal_constant(text: str) -> Constant:
    """Return the constant of the narrowest decimal that a number without exponent needs."""
    value = Decimal(text)
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        raise UnsupportedExpressionError(f"{text} is not a number")
    if exponent > 0:
        value, exponent = value.quantize(Decimal(1), context=_WIDE), 0
    scale = -exponent
    precision = max(len(str(abs(int(value.scaleb(scale, _WIDE))))), scale, 1)
    if precision > t.MAX_DECIMAL_PRECISION:
        raise UnsupportedExpressionError(
            f"the number {text} has {precision} digits; {t.MAX_DECIMAL_PRECISION} are the most"
        )
    return Constant(value, t.Decimal(precision, scale))


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
            f"{constant.value!r} of type {constant.type} is no {target}, or becomes one only by "
            "rounding; write the constant in that type"
        )
    return Constant(value, target)


def _converted(constant: Constant, target: t.DataType, zone: Zone) -> Any:
    value, source = constant.value, constant.type
    if isinstance(source, t.String):
        parse = _PARSERS.get(type(target))
        return None if parse is None else parse(value.strip(_BLANKS), value, target, zone)
    match target:
        case t.TinyInt() | t.SmallInt() | t.Int() | t.BigInt():
            return _whole(value, source, target)
        case t.Decimal():
            return _decimal(value, source, target)
        case t.Double():
            return float(value) if _is_number(source) else None
        case t.Float():
            return nearest_float(Fraction(value)) if _is_finite_number(value, source) else None
        case t.Date() | t.Timestamp() | t.TimestampNtz():
            return _moment(value, source, target, zone)
    return None


def _is_number(source: t.DataType) -> bool:
    return isinstance(source, (*INTEGERS, t.Decimal, t.Float, t.Double))


def _is_finite_number(value: Any, source: t.DataType) -> bool:
    return _is_number(source) and abs(value) <= 1e38


def _fits(number: int, data_type: t.DataType) -> bool:
    domain = domain_of(data_type)
    assert domain is not None
    assert domain.most is not None
    assert isinstance(domain.least, int)
    return domain.least <= number <= domain.most


def _whole(value: Any, source: t.DataType, target: t.DataType) -> int | None:
    if not isinstance(source, (*INTEGERS, t.Decimal)) or int(value) != value:
        return None
    return int(value) if _fits(int(value), target) else None


def _decimal(value: Any, source: t.DataType, target: t.Decimal) -> Decimal | None:
    if not isinstance(source, (*INTEGERS, t.Decimal)):
        return None
    return _exact_decimal(Decimal(value), target)


def _exact_decimal(value: Decimal, target: t.Decimal) -> Decimal | None:
    unscaled = value.scaleb(target.scale, _WIDE)
    if unscaled != int(unscaled) or abs(unscaled) >= 10**target.precision:
        return None
    return Decimal(int(unscaled)).scaleb(-target.scale, _WIDE)


def nearest_float(number: Fraction) -> float | None:
    """Return the float of 32 bits nearest to a number, of two the even one; None beyond them."""
    first = np.float32(float(number))
    near = [
        first,
        np.nextafter(first, np.float32(-np.inf)),
        np.nextafter(first, np.float32(np.inf)),
    ]
    if not np.isfinite(near).all():
        return None
    return float(
        min(near, key=lambda one: (abs(Fraction(float(one)) - number), one.view(np.uint32) & 1))
    )


def _moment(value: int, source: t.DataType, target: t.DataType, zone: Zone) -> int | None:
    """Return a date or timestamp as another kind of them."""
    match source, target:
        case t.Date(), t.TimestampNtz():
            return value * MICROSECONDS_A_DAY
        case t.Date(), t.Timestamp() if zone.offset is not None:
            return zone.instant(value * MICROSECONDS_A_DAY)
        case t.TimestampNtz(), t.Date():
            return value // MICROSECONDS_A_DAY
        case t.TimestampNtz(), t.Timestamp():
            return zone.instant(value)
        case t.Timestamp(), t.Date() if zone.offset is not None:
            return (value + zone.offset) // MICROSECONDS_A_DAY
        case t.Timestamp(), t.TimestampNtz() if zone.offset is not None:
            return value + zone.offset
    return None


# --- Text: what Spark reads in it. Each gets it without blanks around it, and as it is. ---------


def _parse_integer(text: str, _whole: str, target: t.DataType, _zone: Zone) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    return int(text) if _fits(int(text), target) else None


def _parse_double(text: str, _whole: str, _target: t.DataType, _zone: Zone) -> float | None:
    special = _SPECIAL_FLOATS.get(text.lower())
    if special is not None:
        return float(special)
    return float(text) if _NUMBER.fullmatch(text) else None


def _parse_float(text: str, whole: str, target: t.DataType, zone: Zone) -> float | None:
    if text.lower() in _SPECIAL_FLOATS:
        return _parse_double(text, whole, target, zone)
    return nearest_float(Fraction(text)) if _NUMBER.fullmatch(text) else None


def _parse_decimal(text: str, _whole: str, target: t.DataType, _zone: Zone) -> Decimal | None:
    assert isinstance(target, t.Decimal)
    if not _NUMBER.fullmatch(text):
        return None
    try:
        return _exact_decimal(Decimal(text), target)
    except InvalidOperation:
        return None


def _parse_boolean(text: str, _whole: str, _target: t.DataType, _zone: Zone) -> bool | None:
    return _BOOLEANS.get(text.lower())


def _parse_binary(_text: str, whole: str, _target: t.DataType, _zone: Zone) -> bytes:
    return whole.encode()


def _parse_date(text: str, _whole: str, _target: t.DataType, _zone: Zone) -> int | None:
    rest = _DATE_AND_REST.fullmatch(text)
    match = _DATE.fullmatch(rest[1] if rest is not None else text)
    if match is None:
        return None
    local = _local(match[1], match[2], match[3])
    return None if local is None else local // MICROSECONDS_A_DAY


def _parse_local(text: str, _whole: str, _target: t.DataType, _zone: Zone) -> int | None:
    match = _MOMENT.fullmatch(text)
    return None if match is None else _local(*match.groups())


def _parse_instant(text: str, whole: str, target: t.DataType, zone: Zone) -> int | None:
    match = _WITH_ZONE.fullmatch(text)
    if match is not None:
        try:
            zone, text = zone_of(match[2]), match[1]
        except OptionError as error:
            raise UnsupportedExpressionError(f"{whole!r}: {error}") from None
    local = _parse_local(text, whole, target, zone)
    return None if local is None else zone.instant(local)


def _parse_time(text: str, _whole: str, target: t.DataType, _zone: Zone) -> int | None:
    match = _TIME.fullmatch(text)
    if match is None or target != t.Time():
        return None
    local = _local("1970", None, None, *match.groups())
    return None if local is None else local * 1000


def _local(
    year: str,
    month: str | None = None,
    day: str | None = None,
    hour: str | None = None,
    minute: str | None = None,
    second: str | None = None,
    fraction: str | None = None,
) -> int | None:
    """Return a local time in microseconds since 1970; None if there is no such time."""
    numbers = [int(part or least) for part, least in ((year, 0), (month, 1), (day, 1))]
    numbers += [int(part or 0) for part in (hour, minute, second)]
    try:
        moment = datetime.datetime(*numbers)  # type: ignore[arg-type]
    except ValueError:
        return None
    return (moment - _EPOCH) // _MICROSECOND + int((fraction or "").ljust(6, "0"))


_PARSERS: dict[type[t.DataType], Callable[[str, str, Any, Zone], Any]] = {
    t.TinyInt: _parse_integer,
    t.SmallInt: _parse_integer,
    t.Int: _parse_integer,
    t.BigInt: _parse_integer,
    t.Float: _parse_float,
    t.Double: _parse_double,
    t.Decimal: _parse_decimal,
    t.Boolean: _parse_boolean,
    t.Binary: _parse_binary,
    t.Date: _parse_date,
    t.Timestamp: _parse_instant,
    t.TimestampNtz: _parse_local,
    t.Time: _parse_time,
}
