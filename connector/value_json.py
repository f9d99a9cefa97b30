"""Values of rows read from JSON: what `row_json` writes, read back.

Promises: the JSON of a value is read back as that value, of any type. Text is a value of every type
whose JSON is text, a number or a boolean, so that the words of a command line and the cells of a
CSV file are values, too.
Does not know: tables, files, NULL in columns that forbid it.
"""

from __future__ import annotations

import json
import math
import re
from base64 import b64decode
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from relstate.storage import errors, instant, parse_instant, types

from .row_json import Json

_SPAN = re.compile(r"(?P<sign>-?)(?P<days>\d+) (?P<h>\d+):(?P<m>\d+):(?P<s>\d+(\.\d{1,6})?)")


def parse_value(value: Json, data_type: types.DataType) -> Any:
    """Return a JSON value, or its text, as a Python value that Arrow takes for a type.

    Of a struct that is a tuple, of a map a list of pairs. ValueError if it is not one.
    """
    try:
        return _value(value, data_type)
    except (ArithmeticError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(str(error)) from error


def parse_text(text: str, data_type: types.DataType) -> Any:
    """Return the value of a type that a text is; of a nested type the text is its JSON.

    ValueError if it is not one.
    """
    nested = isinstance(data_type, types.Array | types.Struct | types.Map)
    return parse_value(json.loads(text) if nested else text, data_type)


def example_of(data_type: types.DataType) -> str:
    """Return how a value of a type is written; empty where nobody has to be told."""
    return _EXAMPLES.get(type(data_type), "")


def _value(value: Json, data_type: types.DataType) -> Any:
    """Return a JSON value, or a word, as the value of a type."""
    if value is None:
        return None
    match data_type:
        case types.Array(element, _):
            return [_value(part, element) for part in _of(list, value)]
        case types.Map(key, item, _):
            pairs = _of(dict, value).items()
            return [(parse_text(name, key), _value(part, item)) for name, part in pairs]
        case types.Struct(fields):
            return _struct(value, fields)
    return _PARSE[type(data_type)](value)


def _struct(value: Json, fields: Sequence[types.Field]) -> tuple[Any, ...]:
    if isinstance(value, dict):
        if len(value) != len(fields):
            raise ValueError("the object has other fields")
        value = [value[field.name] for field in fields]
    parts = zip(_of(list, value), fields, strict=True)
    return tuple(_value(part, field.type) for part, field in parts)


def _of(kind: type, value: Json) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"not a {kind.__name__}")
    return value


def _boolean(value: Json) -> bool:
    return _BOOLEANS[value if isinstance(value, bool) else value.lower()]


_BOOLEANS = {True: True, False: False, "true": True, "false": False}


def _double(value: Json) -> float:
    """Return the nearest double; ValueError if that is infinite and the value is not."""
    number = float(value)
    if math.isinf(number) and not _is_infinite(value):
        raise ValueError("too large")
    return number


def _float(value: Json) -> float:
    number = _double(value)
    if _ROUNDED_TO_INFINITY <= abs(number) < math.inf:
        raise ValueError("too large")
    return number


def _is_infinite(value: Json | Decimal) -> bool:
    return Decimal(value.strip() if isinstance(value, str) else value).is_infinite()


# The smallest number of which the nearest 32-bit float is infinite.
_ROUNDED_TO_INFINITY = 2.0**128 - 2.0**103


def _integer(value: Json) -> int:
    if isinstance(value, bool):
        raise TypeError("a boolean, not a number")
    return value if isinstance(value, int) else int(_of(str, value))


def _text(value: Json) -> str:
    text: str = _of(str, value)
    return text


def _timestamp(value: Json) -> datetime:
    """Return an instant; a local time is in UTC."""
    try:
        return parse_instant(_of(str, value))
    except errors.OptionError as error:
        raise ValueError(str(error)) from None


def _local_timestamp(value: Json) -> datetime:
    microseconds = instant.parse_local_timestamp(_of(str, value))
    if microseconds is None:
        raise ValueError("not a local timestamp")
    return instant.moment_of(microseconds).replace(tzinfo=None)


def _date(value: Json) -> date:
    text = _of(str, value).strip()
    days = instant.parse_date(text)
    if days is None:
        raise ValueError("not a date")
    # Spark's cast drops what follows a date; a DATE cannot keep a time of day.
    has_more = " " in text or "T" in text
    if has_more and instant.parse_local_timestamp(text) != days * instant.MICROSECONDS_PER_DAY:
        raise ValueError("not a date alone")
    return instant.moment_of(days * instant.MICROSECONDS_PER_DAY).date()


def _time(value: Json) -> time:
    moment = time.fromisoformat(_to_microseconds(value))
    if moment.tzinfo is not None:
        raise ValueError("the value has a time zone")
    return moment


def _variant(value: Json) -> dict[str, bytes]:
    from pyspark.sql.types import VariantVal

    variant = VariantVal.parseJson(_of(str, value))
    return {"value": variant.value, "metadata": variant.metadata}


def _to_microseconds(value: str) -> str:
    """Return the text; ValueError for more digits than Python's times hold, which drop them."""
    if re.search(r"\.\d{6}0*[1-9]", value):
        raise ValueError("finer than microseconds")
    return value


def _span(value: Json) -> timedelta:
    match = _SPAN.fullmatch(value)
    if match is None:
        raise ValueError("not an interval")
    microseconds = int(Decimal(match["s"]) * 1_000_000)
    span = timedelta(
        days=int(match["days"]),
        hours=int(match["h"]),
        minutes=int(match["m"]),
        microseconds=microseconds,
    )
    return -span if match["sign"] else span


_PARSE: dict[type[types.DataType], Callable[[Json], Any]] = {
    types.Boolean: _boolean,
    types.TinyInt: _integer,
    types.SmallInt: _integer,
    types.Int: _integer,
    types.BigInt: _integer,
    types.Float: _float,
    types.Double: _double,
    types.Decimal: lambda value: Decimal(str(value)),
    types.String: _text,
    types.Binary: lambda value: b64decode(value, validate=True),
    types.Date: _date,
    types.Timestamp: _timestamp,
    types.TimestampNtz: _local_timestamp,
    types.Time: _time,
    types.DayTimeInterval: _span,
    types.Variant: _variant,
}

_EXAMPLES: dict[type[types.DataType], str] = {
    types.Boolean: "true or false",
    types.Float: "1.5, NaN or Infinity",
    types.Double: "1.5, NaN or Infinity",
    types.Decimal: "63.00",
    types.Binary: "base64",
    types.Date: "2026-01-31",
    types.Timestamp: "2026-01-31T12:00:00Z",
    types.TimestampNtz: "2026-01-31T12:00:00",
    types.Time: "12:00:00",
    types.DayTimeInterval: "'1 02:03:04.000005'",
    types.Array: "a JSON array with elements of its type",
    types.Map: "a JSON object with values of its type",
    types.Struct: "a JSON object with values of these fields only",
}
