"""Columns of text and of JSON as columns of a table's types, and back as text.

Promises: a value is converted exactly or not at all; the rows of those that cannot be are named.
Columns are converted at once; only what Arrow cannot convert is visited value by value.
Does not know: files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from relstate.connector.row_json import Json, json_values
from relstate.connector.value_json import example_of, parse_text, parse_value
from relstate.storage import arrow, cast, errors, types

_SHOWN = 60
_LONGEST_DATE = len("2026-01-31")
_NUMBERS = (
    types.TinyInt
    | types.SmallInt
    | types.Int
    | types.BigInt
    | types.Float
    | types.Double
    | types.Decimal
)
_PARSED_BY_ARROW = _NUMBERS | types.Date | types.Timestamp | types.TimestampNtz
# What Arrow's own CSV writer writes as `parse_texts` reads it.
_WRITTEN_BY_ARROW = _NUMBERS | types.Boolean | types.String | types.Date


@dataclass(frozen=True, slots=True)
class BadValue:
    """A value that is not of its column's type, and the row of the batch in which it is."""

    row: int
    text: str
    field: types.Field

    def __str__(self) -> str:
        example = example_of(self.field.type)
        article = "an" if str(self.field.type)[0] in "AI" else "a"
        return (
            f"{self.text!r:.{_SHOWN}} is not {article} {self.field.type}, the type of the column "
            f"{self.field.name!r}" + (f"; write it as {example}" if example else "")
        )


Converted = tuple[pa.Array, Sequence[BadValue]]
"""A column, NULL where a value is bad, and these values."""


def parse_texts(texts: pa.Array, field: types.Field) -> Converted:
    """Return texts as a column of a field's type. Blanks around what is not text do not count."""
    if isinstance(field.type, types.String):
        return texts, ()
    trimmed = pc.utf8_trim_whitespace(texts)
    if _is_parsed_by_arrow(trimmed, field.type):
        try:
            column = trimmed.cast(arrow.arrow_type(field.type))
            if not _may_overflow(column):
                return column, ()
        except pa.ArrowInvalid:
            pass  # Arrow does not say which value it is, and takes fewer forms of times
    return _by_value(trimmed.to_pylist(), field, lambda text: parse_text(text, field.type))


def parse_json(values: Sequence[Json], field: types.Field) -> Converted:
    """Return JSON values as a column of a field's type."""
    target = arrow.arrow_type(field.type)
    try:
        inferred = pa.array(values)
        if pa.types.is_string(inferred.type) and _is_parsed_by_arrow(inferred, field.type):
            column = inferred.cast(target)
            if not _may_overflow(column):
                return column, ()
        elif not pa.types.is_nested(inferred.type):
            column = cast.exact_cast(inferred.type, target)(inferred)
            if not _may_overflow(column):
                return column, ()
    except (pa.ArrowException, OverflowError, errors.SchemaMismatchError):
        pass  # values of several types, or of one that is not exactly the column's
    return _by_value(values, field, lambda value: parse_value(value, field.type))


def texts_of(column: pa.Array, field: types.Field) -> pa.Array:
    """Return a column as Arrow's CSV writer takes it, which `parse_texts` reads back."""
    if isinstance(field.type, _WRITTEN_BY_ARROW):
        return column
    return pa.array([_text(value) for value in json_values(column, field.type)], pa.string())


def _is_parsed_by_arrow(texts: pa.Array, data_type: types.DataType) -> bool:
    """Return whether Arrow's cast of texts is exact; of a date it drops the time of day."""
    if isinstance(data_type, types.Date):
        longest = pc.max(pc.utf8_length(texts)).as_py()
        return longest is not None and longest <= _LONGEST_DATE
    return isinstance(data_type, _PARSED_BY_ARROW)


def _may_overflow(column: pa.Array) -> bool:
    """Return whether a column holds infinities, which Arrow also makes of large numbers."""
    return pa.types.is_floating(column.type) and bool(pc.any(pc.is_inf(column)).as_py())


def _text(value: Json) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _by_value(values: Sequence[Any], field: types.Field, parse: Callable[[Any], Any]) -> Converted:
    """Convert values one by one, and collect the bad ones."""
    target = arrow.arrow_type(field.type)
    parsed, bad = [], []
    for row, value in enumerate(values):
        try:
            parsed.append(None if value is None else _checked(parse(value), target))
        except (ValueError, OverflowError, pa.ArrowException):
            parsed.append(None)
            bad.append(BadValue(row, _shown(value), field))
    return pa.array(parsed, target), bad


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, Decimal) else json.dumps(value, default=float)


def _checked(value: Any, target: pa.DataType) -> Any:
    """Return a value that Arrow takes for a type, else raise what it raises."""
    pa.array([value], target)
    return value
