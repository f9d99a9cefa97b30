"""Values of a primary key, read from the words of a command line.

Promises: the form in which `row_json.json_values` writes a value is read back as that value; an
array or a struct is read from its JSON. A word that is not a value of the key's type is a
ValueRangeError with an example.
Does not know: tables, files.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from relstate.storage import errors, instant, parse_instant, types

from .row_json import Json

_SPAN = re.compile(r"(?P<sign>-?)(?P<days>\d+) (?P<h>\d+):(?P<m>\d+):(?P<s>\d+(\.\d{1,6})?)")


def parse_key(words: Sequence[str], key: Sequence[types.Field]) -> tuple[Any, ...]:
    """Return the values of a key whose columns are ``key`` from one word for each.

    SchemaMismatchError for another number of words, ValueRangeError for a word that is not a value.
    """
    if len(words) != len(key):
        names = ", ".join(map(str, key))
        raise errors.SchemaMismatchError(
            f"the primary key is ({names}): it takes {len(key)} values, not {len(words)}"
        )
    return tuple(_parse_word(*pair) for pair in zip(words, key, strict=True))


def _parse_word(word: str, column: types.Field) -> Any:
    nested = isinstance(column.type, types.Array | types.Struct)
    try:
        return _value(json.loads(word) if nested else word, column.type)
    except (ValueError, ArithmeticError, TypeError, KeyError, OverflowError) as error:
        example = _EXAMPLES.get(type(column.type), "")
        raise errors.ValueRangeError(
            f"{word!r} is not a {column.type}, the type of the key's column {column.name!r}"
            + (f"; write it as {example}" if example else "")
        ) from error


def _value(value: Json, data_type: types.DataType) -> Any:
    """Return a JSON value, or a word, as the value of a type."""
    if value is None:
        return None
    match data_type:
        case types.Array(element, _):
            return [_value(part, element) for part in _of(list, value)]
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
    days = instant.parse_date(_of(str, value))
    if days is None:
        raise ValueError("not a date")
    return instant.moment_of(days * instant.MICROSECONDS_PER_DAY).date()


def _time(value: Json) -> time:
    moment = time.fromisoformat(_to_microseconds(value))
    if moment.tzinfo is not None:
        raise ValueError("the value has a time zone")
    return moment


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
    types.Float: float,
    types.Double: float,
    types.Decimal: lambda value: Decimal(str(value)),
    types.String: _text,
    types.Binary: lambda value: b64decode(value, validate=True),
    types.Date: _date,
    types.Timestamp: _timestamp,
    types.TimestampNtz: _local_timestamp,
    types.Time: _time,
    types.DayTimeInterval: _span,
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
    types.Array: "a JSON array",
    types.Struct: "a JSON object",
}
