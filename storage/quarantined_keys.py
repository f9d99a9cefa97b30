"""The keys of rows that writes have set aside: which rows of a quarantine are rows of a table.

A quarantine has rows as JSON, with the names of columns as they were written (quarantine.py). A
value of a key is text or a number there, as the connector writes it: binary as base64, dates and
times in ISO 8601.

Promises: a row that is named has just the key; what cannot be read as a key is counted.
Does not know: what becomes of the rows.
"""

from __future__ import annotations

import json
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .codec.ragged import Bytes
from .schema.failing import Flags, failures
from .table.encoding import Encoding


@dataclass(frozen=True, slots=True)
class QuarantinedKeys:
    """Rows of a quarantine that have some keys, by their ``ids``.

    ``unread``: how many other rows have no key of the table that can be read.
    """

    ids: pa.StringArray
    unread: int


def find_keys(
    batches: Iterable[pa.RecordBatch], encoding: Encoding, keys: Bytes
) -> QuarantinedKeys:
    """Return which rows of a quarantine have one of some keys of its table.

    ``batches``: with the columns ``id`` and ``row_json``; ``keys``: as the table's encoding writes
    them.
    """
    ids, unread = [pa.array([], pa.string())], 0
    for batch in batches:
        rows, is_read = _keys_of(batch.column("row_json").to_pylist(), encoding)
        unread += int(np.count_nonzero(~is_read))
        if rows.num_rows:
            is_one = pc.is_in(encoding.encode_keys(encoding.conform_keys(rows)), keys)
            ids.append(batch.column("id").filter(pa.array(is_read)).filter(is_one))
    return QuarantinedKeys(pa.concat_arrays(ids), unread)


def _keys_of(texts: list[str], encoding: Encoding) -> tuple[pa.RecordBatch, Flags]:
    """Return the keys of the rows that have one, and which those are."""
    objects = list(map(_object, texts))
    is_read = np.ones(len(texts), np.bool_)
    columns = []
    schema = encoding.definition.schema
    for column in schema.key_columns:
        name = column.name.lower()
        values = pa.array([_text(item.get(name)) for item in objects], pa.string())
        target = schema.arrow_schema.field(column.name).type
        failed = _unreadable(values, target)
        is_read &= ~failed & np.asarray(values.is_valid())
        columns.append((values, target))
    arrays = [_cast(values.filter(pa.array(is_read)), target) for values, target in columns]
    names = [column.name for column in schema.key_columns]
    return pa.RecordBatch.from_arrays(arrays, names), is_read


def _object(text: str) -> dict[str, Any]:
    """Return a JSON object with its names in lower case; an empty one for any other text."""
    try:
        value = json.loads(text, parse_float=Decimal)
    except ValueError:
        return {}
    return {name.lower(): item for name, item in value.items()} if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, bool | list | dict) else str(value)


def _unreadable(values: pa.StringArray, target: pa.DataType) -> Flags:
    def fails(part: pa.StringArray) -> bool:
        try:
            _cast(part, target)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, Base64Error):
            return True
        return False

    return failures(values, fails)


def _cast(values: pa.StringArray, target: pa.DataType) -> pa.Array:
    if pa.types.is_binary(target) or pa.types.is_large_binary(target):
        return pa.array(
            [text and b64decode(text, validate=True) for text in values.to_pylist()], target
        )
    return values.cast(target)
