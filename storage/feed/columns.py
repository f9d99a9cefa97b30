"""The columns of a change feed: the table's own, then what happened to a row and when.

Promises: names, types and labels are those of Delta Lake's change data feed, which Spark 4.2
adopted.
Does not know: how changes are found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..codec.ragged import Positions, from_values
from ..errors import SchemaError, SchemaMismatchError
from ..schema.arrow import arrow_schema
from ..schema.schema import Column, TableSchema, name_list
from ..schema.types import BigInt, Field, String, Timestamp

DEDUPLICATIONS = ("dropCarryovers", "netChanges")
"""Spark's names: every change of every commit, or what all commits together did to every key."""

CHANGE_TYPE = "_change_type"
COMMIT_VERSION = "_commit_version"
COMMIT_TIMESTAMP = "_commit_timestamp"

FEED_FIELDS = (
    Field(CHANGE_TYPE, String(), nullable=False),
    Field(COMMIT_VERSION, BigInt(), nullable=False),
    Field(COMMIT_TIMESTAMP, Timestamp(), nullable=False),
)

INSERT, DELETE, UPDATE_PREIMAGE, UPDATE_POSTIMAGE = range(4)
_LABELS = from_values([b"insert", b"delete", b"update_preimage", b"update_postimage"]).cast(
    pa.string()
)


_NAMES = frozenset(field.name for field in FEED_FIELDS)


def is_feed_column(name: str) -> bool:
    """Return whether a column of a table must not have a name, as its feed has such a column."""
    return name.lower() in _NAMES


def check_not_of_feed(names: Iterable[str]) -> None:
    """SchemaError for the name of a column that a table gets, if it is one of a feed's."""
    for name in names:
        if is_feed_column(name):
            raise SchemaError(
                f"a column cannot be named {name!r}, because the change feed of the table adds a "
                f"column of this name: name it {name.strip('_').lower()!r}, for example, or leave "
                "it out"
            )


def feed_fields(schema: TableSchema, names: Sequence[str] | None = None) -> tuple[Field, ...]:
    """Return the fields of a table's feed, or those with some names, in the order of the names.

    Hidden columns are returned only if they are named. SchemaMismatchError for an unknown or
    repeated name; SchemaError if the table itself has a column with one of the feed's names.
    """
    for column in schema.columns:
        if is_feed_column(column.name):
            raise SchemaError(
                f"the table has a column {column.name!r}, a name that a change feed adds: drop the "
                f"views that read it, and rename it, ALTER TABLE … RENAME COLUMN {column.name} TO "
                f"{column.name.strip('_').lower()}"
            )
    visible = (*(column.field for column in schema.visible_columns), *FEED_FIELDS)
    if names is None:
        return visible
    fields = (*(column.field for column in schema.columns), *FEED_FIELDS)
    fields_by_name = {field.name.lower(): field for field in fields}
    try:
        chosen = tuple(fields_by_name.pop(name.lower()) for name in name_list("columns", names))
    except KeyError as error:
        raise SchemaMismatchError(
            f"{error} is not a column of the change feed, or is named twice; the columns are "
            f"{', '.join(field.name for field in visible)}"
        ) from None
    if not chosen:
        raise SchemaMismatchError("the list of columns is empty; name at least one")
    return chosen


def feed_schema(schema: TableSchema, names: Sequence[str]) -> pa.Schema:
    """Return the Arrow schema of a feed's batches with the columns of these names."""
    return arrow_schema(feed_fields(schema, names))


def stored_columns(schema: TableSchema, names: Sequence[str]) -> tuple[Column, ...]:
    """Return the table's columns among those of its feed; if there are none, one of the key."""
    added = {field.name for field in FEED_FIELDS}
    columns = tuple(schema.column(name) for name in names if name not in added)
    return columns or schema.key_columns[:1]


def adds_row(types: pa.Array) -> NDArray[np.bool_]:
    """Return which rows of a feed exist after their change, by its column of change types."""
    after: NDArray[np.bool_] = np.asarray(pc.is_in(types, _LABELS.take([INSERT, UPDATE_POSTIMAGE])))
    return after


def feed_batch(
    schema: pa.Schema,
    rows: pa.RecordBatch,
    types: NDArray[np.int8],
    versions: Positions,
    times: Positions,
) -> pa.RecordBatch:
    """Return rows as a batch of a feed's ``schema``.

    ``types``: `INSERT` to `UPDATE_POSTIMAGE` for each row; ``versions``: epochs, and ``times``:
    microseconds since 1970, int64.
    """
    added = {
        CHANGE_TYPE: lambda: _LABELS.take(pa.array(types)),
        COMMIT_VERSION: lambda: pa.array(versions, pa.int64()),
        COMMIT_TIMESTAMP: lambda: pa.array(times, pa.timestamp("us", tz="UTC")),
    }
    columns = [added[name]() if name in added else rows.column(name) for name in schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
