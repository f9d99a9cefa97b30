"""Rows that do not fit the table's schema: what to change, or what has changed.

Promises: only what loses nothing is changed: columns that are new are added, and may be NULL;
columns that the data has wider are widened.
Does not know: rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

import pyarrow as pa

from relstate.storage import (
    Column,
    Store,
    TableDefinition,
    TableSchema,
    arrow,
    errors,
    is_wider,
    iso_time,
    types,
)

# Others may alter the table at the same time.
_ATTEMPTS = 5
_MOST_ENTRIES = 10_000


def merge_schema(store: Store, table: str, found: pa.Schema) -> None:
    """Alter a table so that rows of a schema fit it, where that can be.

    Each kind of change is an epoch. SchemaError, ConflictError.
    """
    for _ in range(_ATTEMPTS):
        schema = store.write_target(table).definition.schema
        try:
            _add_columns(store, table, schema, found)
            _widen_columns(store, table, schema, found)
            return
        except errors.SchemaError:
            if store.write_target(table).definition.schema == schema:
                raise


def misfit(
    store: Store, definition: TableDefinition, error: errors.SchemaMismatchError
) -> errors.SchemaMismatchError:
    """Return the error of rows that do not fit a table, with what has changed in the table."""
    told = list(_changes(store, definition)) if definition.older_schemas else []
    since = f". The table's schema has changed: {'; '.join(told)}" if told else ""
    return errors.SchemaMismatchError(
        f"{error}{since}. The option mergeSchema=true adds columns that the table lacks, and "
        "widens types"
    )


def _add_columns(store: Store, table: str, schema: TableSchema, found: pa.Schema) -> None:
    known = {column.name.lower() for column in schema.columns}
    new = [field for field in arrow.fields_of(found) if field.name.lower() not in known]
    if new:
        ddl = ", ".join(f"{types.quoted(field.name)} {field.type}" for field in new)
        store.add_columns(table, ddl)


def _widen_columns(store: Store, table: str, schema: TableSchema, found: pa.Schema) -> None:
    own = {column.name.lower(): column for column in schema.columns}
    keys = {column.id for column in schema.key_columns}
    for field in arrow.fields_of(found):
        column = own.get(field.name.lower())
        if column is not None and column.id not in keys and is_wider(column.type, field.type):
            store.widen_column(table, column.name, str(field.type))


@dataclass(frozen=True, slots=True)
class _Version:
    """When a schema came to be."""

    epoch: int
    time: int


def _changes(store: Store, definition: TableDefinition) -> Iterator[str]:
    """Yield what each version of a table's schema changed, the oldest first."""
    versions = _versions(store, definition.table_id)
    schemas = (*definition.older_schemas, definition.schema)
    for before, after in pairwise(schemas):
        when = versions.get(after.version)
        place = f" (epoch {when.epoch}, {iso_time(when.time)})" if when is not None else ""
        yield ", ".join(_difference(before.columns, after.columns)) + place


def _versions(store: Store, table_id: int) -> dict[int, _Version]:
    found: dict[int, _Version] = {}
    for entry in islice(store.history(), _MOST_ENTRIES):
        for altered in entry.altered_tables:
            if altered.table_id == table_id:
                # An earlier entry of the same version is the one that made it.
                found[altered.schema.version] = _Version(entry.epoch, entry.time)
    return found


def _difference(before: Sequence[Column], after: Sequence[Column]) -> Iterator[str]:
    old = {column.id: column for column in before}
    new = {column.id: column for column in after}
    for column_id, column in old.items():
        now = new.get(column_id)
        if now is None:
            yield f"{column.name!r} was dropped"
        elif now.name != column.name:
            yield f"{column.name!r} was renamed to {now.name!r}"
        elif now.type != column.type:
            yield f"{column.name!r} became {now.type}"
    for column_id, column in new.items():
        if column_id not in old:
            yield f"{column.name!r} {column.type} was added"
