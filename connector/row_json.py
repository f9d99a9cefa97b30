"""Values of rows as JSON and as text.

Promises: a column of any type becomes values that ``json.dumps`` writes; Spark's own JSON reader
takes those of numbers, text, binary, dates, timestamps, arrays and structs back. What JSON lacks:

| type | is written as |
|---|---|
| DECIMAL | text, with all digits of its scale: ``"63.00"`` |
| FLOAT, DOUBLE | a number; ``"NaN"``, ``"Infinity"`` and ``"-Infinity"`` as text |
| BINARY | text, in base64 |
| DATE | ``"2026-01-31"`` |
| TIMESTAMP | ``"2026-01-31T12:00:00.000000Z"``, in UTC |
| TIMESTAMP_NTZ | the same without ``Z`` |
| TIME(p) | ``"12:00:00"`` with p digits after the second |
| INTERVAL DAY TO SECOND | ``"1 02:03:04.000005"``, a minus before all of it |
| ARRAY, STRUCT | array, object; a struct whose field names repeat is an array |
| MAP | an object; keys that are not text are written as JSON, in text |
| VARIANT | text, which is the variant's JSON |

A date or timestamp outside the years 1 to 9999 is its number of days or microseconds since 1970.
Values are converted by column; only those that become text are visited one by one.
Does not know: tables, files.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import isfinite
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from relstate.storage import types as t

Json = Any
"""What ``json.dumps`` takes."""

_DAY = 24 * 3600 * 1_000_000


def json_rows(batch: pa.RecordBatch, types: Sequence[t.DataType]) -> Iterator[dict[str, Json]]:
    """Yield the rows of a batch, whose columns have these types, as JSON objects."""
    columns = [json_values(*pair) for pair in zip(batch.columns, types, strict=True)]
    names = batch.schema.names
    for row in zip(*columns, strict=True):
        yield dict(zip(names, row, strict=True))


def json_values(array: pa.Array, data_type: t.DataType) -> list[Json]:
    """Return the values of an array of ``data_type`` as JSON values, None for NULL."""
    match data_type:
        case t.Array(element, _):
            return _lists(array, json_values(array.values, element))
        case t.Map(key, value, _):
            names = [_name(name) for name in json_values(array.keys, key)]
            pairs = list(zip(names, json_values(array.items, value), strict=True))
            return [None if entries is None else dict(entries) for entries in _lists(array, pairs)]
        case t.Struct(fields):
            return _structs(array, fields)
        case t.Time(precision):
            return _each(array.cast(pa.string()), lambda text: _time(text, precision))
    convert = _CONVERT.get(type(data_type))
    return array.to_pylist() if convert is None else convert(array)


def text_of(value: Json) -> str:
    """Return a JSON value as a cell of a table shows it: text as it is, what is nested as JSON."""
    if value is None:
        return "NULL"
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return value if value.isprintable() else "".join(map(_printable, value))


def _printable(character: str) -> str:
    """Return a character, escaped where a terminal would act on it."""
    return character if character.isprintable() else ascii(character)[1:-1]


def _each(array: pa.Array, convert: Callable[[Any], Json]) -> list[Json]:
    return [None if value is None else convert(value) for value in array.to_pylist()]


def _floats(array: pa.Array) -> list[Json]:
    if pc.all(pc.is_finite(array)).as_py() is not False:
        values: list[Json] = array.to_pylist()
        return values
    return _each(array, lambda value: value if isfinite(value) else _NOT_FINITE[str(value)])


_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _moments(array: pa.Array) -> list[Json]:
    """Return dates or timestamps as text, and as numbers where a year has not four digits."""
    is_date = pa.types.is_date(array.type)
    first, last = _DAYS if is_date else _MICROSECONDS
    numbers = array.cast(pa.int32() if is_date else pa.int64())
    within = pc.and_(pc.greater_equal(numbers, first), pc.less_equal(numbers, last))
    texts = pc.if_else(within, array, None).cast(pa.string())
    return [
        number if text is None else text.replace(" ", "T")
        for text, number in zip(texts.to_pylist(), numbers.to_pylist(), strict=True)
    ]


# From the year 1 to the year 9999, since 1970.
_DAYS = -719_162, 2_932_896
_MICROSECONDS = _DAYS[0] * _DAY, (_DAYS[1] + 1) * _DAY - 1


def _time(text: str, precision: int) -> str:
    """Return a time of nine digits with as many as its type has, and with more if they are set."""
    length = len("12:00:00") + (precision and precision + 1)
    return text.rstrip("0") if text[length:].strip(".0") else text[:length]


def _spans(array: pa.Array) -> list[Json]:
    return _each(array.cast(pa.int64()), _span)


def _span(microseconds: int) -> str:
    days, rest = divmod(abs(microseconds), _DAY)
    seconds, fraction = divmod(rest, 1_000_000)
    hours, minutes = seconds // 3600, seconds // 60 % 60
    sign = "-" if microseconds < 0 else ""
    return f"{sign}{days} {hours:02}:{minutes:02}:{seconds % 60:02}.{fraction:06}"


def _variants(array: pa.Array) -> list[Json]:
    from pyspark.sql.types import VariantVal

    def text(parts: dict[str, bytes]) -> str:
        return VariantVal(parts["value"], parts["metadata"]).toJson()

    return _each(array, text)


_CONVERT: dict[type[t.DataType], Callable[[pa.Array], list[Json]]] = {
    t.Float: _floats,
    t.Double: _floats,
    t.Decimal: lambda array: _each(array, lambda value: format(value, "f")),
    t.Binary: lambda array: _each(array, lambda value: b64encode(value).decode()),
    t.Date: _moments,
    t.Timestamp: _moments,
    t.TimestampNtz: _moments,
    t.DayTimeInterval: _spans,
    t.Variant: _variants,
}


def _structs(array: pa.StructArray, fields: Sequence[t.Field]) -> list[Json]:
    # flatten() makes a field NULL where the struct is.
    parts = [
        json_values(part, field.type) for part, field in zip(array.flatten(), fields, strict=True)
    ]
    names = [field.name for field in fields]
    rows = zip(*parts, strict=True) if parts else iter([()] * len(array))
    distinct = len(set(names)) == len(names)
    values = (dict(zip(names, row, strict=True)) if distinct else list(row) for row in rows)
    valid = array.is_valid().to_pylist()
    return [value if is_valid else None for value, is_valid in zip(values, valid, strict=True)]


def _lists(array: pa.ListArray, elements: list[Json]) -> list[Json]:
    """Return for each list of the array its part of the elements of all."""
    bounds = pairwise(array.offsets.to_pylist())
    valid = array.is_valid().to_pylist()
    return [
        elements[start:stop] if is_valid else None
        for (start, stop), is_valid in zip(bounds, valid, strict=True)
    ]


def _name(key: Json) -> str:
    return key if isinstance(key, str) else json.dumps(key, ensure_ascii=False)
