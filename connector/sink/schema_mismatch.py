"""Data that does not fit the table's schema: what changed in it, and what to do.

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
)

_MOST_ENTRIES = 10_000
# Columns of change feeds, and of what `debezium` returns.
_OPERATION_COLUMNS = ("_change_type", "_op")
_COMMIT_COLUMNS = ("_commit_version", "_commit_timestamp")


def mismatch_error(
    store: Store,
    definition: TableDefinition,
    error: errors.SchemaMismatchError,
    rows: pa.Schema,
    *,
    is_merged: bool = False,
) -> errors.SchemaMismatchError:
    """Return the error of rows that do not fit a table, with the past changes of its schema.

    ``rows``: the schema of the rows, without the operation column. ``is_merged``: the write would
    have added and widened columns.
    """
    advice = _feed_advice(definition.schema, rows)
    if advice is not None:
        return errors.SchemaMismatchError(f"{error}. {advice}")
    changes = list(_schema_changes(store, definition)) if definition.older_schemas else []
    merge_advice = "" if is_merged else _merge_advice(definition.schema, rows)
    history = f". The table's schema has changed: {'; '.join(changes)}" if changes else ""
    return errors.SchemaMismatchError(f"{error}{history}{merge_advice}")


def _merge_advice(schema: TableSchema, rows: pa.Schema) -> str:
    """Return that the table can take the rows' new columns and wider types, if they have any."""
    own = {column.name.lower(): column for column in schema.columns}
    keys = {column.id for column in schema.key_columns}
    columns = [(own.get(field.name.lower()), field.type) for field in arrow.fields_of(rows)]
    if any(
        column is None or (column.id not in keys and is_wider(column.type, data_type))
        for column, data_type in columns
    ):
        return (
            ". Add or widen columns with ALTER TABLE, or write by format('relstate') with the "
            "option mergeSchema=true, which does both"
        )
    return ""


def _feed_advice(schema: TableSchema, rows: pa.Schema) -> str | None:
    """Return what to do with columns of a change feed that the table does not have, if any."""
    column_names = {column.name.lower() for column in schema.columns}
    unknown = {name.lower() for name in rows.names} - column_names
    operation = next((name for name in _OPERATION_COLUMNS if name in unknown), None)
    others = [name for name in _COMMIT_COLUMNS if name in unknown]
    leave_out = f"leave out {' and '.join(others)}"
    if operation is None:
        return f"Of a change feed {leave_out}" if others else None
    advice = (
        f"The column {operation!r} says what each row does: name it in option 'opColumn' "
        f"(op_column={operation!r} of db.writer)"
    )
    return f"{advice}, and {leave_out}" if others else advice


@dataclass(frozen=True, slots=True)
class _Version:
    """The epoch and the time at which a schema was made."""

    epoch: int
    time: int


def _schema_changes(store: Store, definition: TableDefinition) -> Iterator[str]:
    """Yield the changes that each version of a table's schema made, the oldest first."""
    versions = _versions(store, definition.table_id)
    schemas = (*definition.older_schemas, definition.schema)
    for before, after in pairwise(schemas):
        when = versions.get(after.version)
        suffix = f" (epoch {when.epoch}, {iso_time(when.time)})" if when is not None else ""
        yield ", ".join(_difference(before.columns, after.columns)) + suffix


def _versions(store: Store, table_id: int) -> dict[int, _Version]:
    versions: dict[int, _Version] = {}
    for entry in islice(store.history(), _MOST_ENTRIES):
        for altered in entry.altered_tables:
            if altered.table_id == table_id:
                # Entries come newest first: the last one of a version is the one that made it.
                versions[altered.schema.version] = _Version(entry.epoch, entry.time)
    return versions


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
