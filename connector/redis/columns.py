"""Values as the columns of their table have them, and back.

Does not know: tables, keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from relstate.storage import Row

from .values import (
    HashValue,
    ListValue,
    SeriesEntry,
    SeriesValue,
    SetValue,
    SortedSetValue,
    StringValue,
    Value,
)

COLUMN_OF = {
    "string": "value",
    "hash": "fields",
    "set": "members",
    "zset": "scores",
    "list": "items",
    "timeseries": "series",
}
_EXPIRY = pa.timestamp("us", "UTC")
TYPES = {
    "value": pa.binary(),
    "fields": pa.map_(pa.binary(), pa.binary()),
    "members": pa.map_(pa.binary(), pa.bool_()),
    "scores": pa.map_(pa.binary(), pa.float64()),
    "items": pa.map_(pa.int64(), pa.binary()),
    "series": pa.map_(pa.int64(), pa.struct({"value": pa.binary(), "expiry": _EXPIRY})),
}
MILLISECOND = 1000
"""In microseconds, in which tables have times."""


def value_of(row: Row) -> Value:
    """Return what the row of a key holds. A type that is unknown counts as an empty string."""
    _, kind, expiry, value, fields, members, scores, items, series = row
    result: Value
    match kind:
        case "hash":
            result = HashValue(_parts_of(fields))
        case "set":
            result = SetValue(_parts_of(members))
        case "zset":
            result = SortedSetValue(_parts_of(scores))
        case "list":
            result = ListValue.of_parts(_parts_of(items))
        case "timeseries":
            return SeriesValue(_entries_of(series))
        case _:
            result = StringValue(value or b"")
    if expiry is not None:
        result.expiry = _milliseconds(expiry)
    return result


def _parts_of(pairs: Mapping[Any, Any] | Iterable[tuple[Any, Any]] | None) -> dict[Any, Any]:
    """Return the parts of a collection; NULL, which another writer may leave, is not there."""
    return {name: part for name, part in dict(pairs or ()).items() if part is not None}


def _entries_of(
    pairs: Mapping[int, Any] | Iterable[tuple[int, Any]] | None,
) -> dict[int, SeriesEntry]:
    """Return the entries of a time series; one without a value is not there."""
    return {
        timestamp: (
            entry["value"],
            None if entry["expiry"] is None else _milliseconds(entry["expiry"]),
        )
        for timestamp, entry in _parts_of(pairs).items()
        if entry["value"] is not None
    }


def _milliseconds(moment: Any) -> int:
    """Return a time as milliseconds since 1970."""
    return int(pa.scalar(moment, _EXPIRY).value) // MILLISECOND


def content_array(kind: str, contents: Sequence[Any]) -> pa.Array:
    """Return contents of values of a type as the table's column of the type has them."""
    if kind == SeriesValue.kind:
        contents = [
            [(timestamp, _stored_entry(entry)) for timestamp, entry in parts] for parts in contents
        ]
    return pa.array(contents, TYPES[COLUMN_OF[kind]])


def content_values(kind: str, column: pa.Array) -> list[Any]:
    """Return what `content_array` made an array of: bytes, or the parts by their names.

    KeyError if there is no such type; TypeError if the array has another one.
    """
    if column.type != TYPES[COLUMN_OF[kind]]:
        raise TypeError(f"{column.type} for {kind}")
    values: list[Any] = column.to_pylist()
    if kind == StringValue.kind:
        return values
    parts_of = _entries_of if kind == SeriesValue.kind else _parts_of
    return [parts_of(value) for value in values]


def _stored_entry(entry: SeriesEntry | None) -> dict[str, Any] | None:
    if entry is None:
        return None
    data, expiry = entry
    return {"value": data, "expiry": None if expiry is None else expiry * MILLISECOND}


def expiry_array(expiries: Sequence[int | None]) -> pa.Array:
    """Return times in milliseconds as the column of expiries has them; None is NULL."""
    micros = [None if expiry is None else expiry * MILLISECOND for expiry in expiries]
    return pa.array(micros, pa.int64()).cast(_EXPIRY)
