"""The catalog of a store: tables and indexes created, altered and dropped.

Promises: every change is one epoch, all or nothing. What belongs to a view is changed by its
refresh only, and what a view reads stays as the view was planned on it.
Does not know: rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from .alteration import descriptions_of, with_constraint, with_default
from .catalog_commit import ATTEMPTS, check_storable, contested_error, drop, propose
from .epochs import Epochs
from .errors import (
    ConflictError,
    IndexExistsError,
    IndexNotFoundError,
    InternalTableError,
    SchemaError,
    TableExistsError,
    TableNotFoundError,
)
from .generated_columns import with_generated
from .index.layout import check_indexes_remain, new_index
from .log.names import check_table_name
from .log.proposal import AlteredTable, NewTable
from .log.rules import check_alterable, check_not_internal
from .log.state import StoreState
from .log.table_definition import TableDefinition
from .schema.arrow import fields_of
from .schema.ddl import parse_columns
from .schema.properties import (
    DEFAULT_TOMBSTONE_RETENTION,
    EncodingName,
    Merge,
    TableProperties,
)
from .schema.schema import TableSchema, name_list
from .schema.types import Field, quoted
from .table.encoding import encoding_of


class Catalog:
    """Changes the tables of a store, each change as one epoch. Safe between threads."""

    def __init__(self, epochs: Epochs) -> None:
        self._epochs = epochs

    # Tables

    def create_table(self, table: NewTable, *, if_not_exists: bool = False) -> None:
        """Create a table. SchemaError, UnsupportedTypeError, TableExistsError."""
        check_storable(table)
        try:
            propose(self._epochs, "create table", created_tables=(table,))
        except TableExistsError:
            if not if_not_exists:
                raise

    def replace_table(self, table: NewTable) -> None:
        """Create a table in place of the one of its name, if there is one, in one epoch.

        The errors of `create_table`, InternalTableError for a view, DependentViewsError.
        """
        check_storable(table)
        for _ in range(ATTEMPTS):
            replaced = replaced_tables(self._epochs.state, table.name)
            try:
                propose(
                    self._epochs,
                    "replace table" if replaced else "create table",
                    created_tables=(table,),
                    dropped_tables=replaced,
                )
                return
            except (TableExistsError, TableNotFoundError, ConflictError):
                continue
        raise contested_error(table.name)

    def drop_table(self, name: str, *, if_exists: bool, cascade: bool) -> None:
        """Drop a table: see `Store.drop_table`."""

        def ids_of_table(state: StoreState) -> tuple[int, ...]:
            definition = user_table(state, name, "dropped as a table")
            return (definition.table_id, *(index.table_id for index in definition.indexes))

        drop(self._epochs, "drop table", ids_of_table, if_exists=if_exists, cascade=cascade)

    def truncate(self, name: str) -> int:
        """Remove all rows of a table as one epoch and return it."""
        table_id = user_table(self._epochs.state, name, "truncated").table_id
        return propose(self._epochs, "truncate", based_tables=(table_id,)).epoch

    def alter_table(
        self, name: str, operation: str, alter: Callable[[TableDefinition], TableDefinition]
    ) -> int:
        """Commit what ``alter`` makes of a table's definition and return the epoch.

        If others alter the table at the same time, ``alter`` is called again on what they left.
        The errors of ``alter``, InternalTableError, DependentViewsError, ConflictError.
        """

        def altered_in(state: StoreState) -> AlteredTable:
            before = user_table(state, name, "altered")
            altered = AlteredTable(before, alter(before))
            check_indexes_remain(before, altered.after)
            check_alterable(state, altered)
            encoding_of(altered.after, vnode_count=1)
            return altered

        return self._alter(name, operation, altered_in)

    def describe_table(
        self, name: str, operation: str, describe: Callable[[TableDefinition], TableDefinition]
    ) -> int:
        """Commit what ``describe`` makes of the definition of a table or view.

        Return the epoch. It changes comments and a user's properties, which a view may have as
        well as a table.
        InternalTableError for a state table, the errors of ``describe``, ConflictError.
        """

        def altered_in(state: StoreState) -> AlteredTable:
            before = _described_table(state, name)
            return AlteredTable(before, describe(before))

        return self._alter(name, operation, altered_in)

    def _alter(
        self, name: str, operation: str, altered_in: Callable[[StoreState], AlteredTable]
    ) -> int:
        """Commit what ``altered_in`` returns for the latest state, and return the epoch."""
        for _ in range(ATTEMPTS):
            altered = altered_in(self._epochs.state)
            try:
                return propose(
                    self._epochs, operation, data_change=False, altered_tables=(altered,)
                ).epoch
            except ConflictError:
                continue
        raise contested_error(name)

    # Indexes

    def create_index(
        self,
        table: str,
        name: str,
        columns: Sequence[str],
        *,
        include: Sequence[str],
        unique: bool,
        if_not_exists: bool,
    ) -> int:
        """Create an index and return the epoch: see `Store.create_index`."""
        for _ in range(ATTEMPTS):
            state = self._epochs.state
            definition = _indexable_table(state, table)
            try:
                index = new_index(definition, name, columns, include, unique)
            except IndexExistsError:
                if not if_not_exists:
                    raise
                return state.epoch
            check_storable(index.table)
            try:
                return propose(
                    self._epochs, "create index", data_change=False, new_index=index
                ).epoch
            except (ConflictError, TableExistsError):
                if _indexable_table(self._epochs.state, table) == definition:
                    raise
        raise contested_error(table)

    def drop_index(self, table: str, name: str, *, if_exists: bool) -> int:
        """Drop an index and return the epoch: see `Store.drop_index`."""
        for _ in range(ATTEMPTS):
            state = self._epochs.state
            before = user_table(state, table, "altered")
            try:
                index = before.index(name)
            except IndexNotFoundError:
                if not if_exists:
                    raise
                return state.epoch
            remaining = tuple(other for other in before.indexes if other != index)
            altered = AlteredTable(before, replace(before, indexes=remaining))
            try:
                return propose(
                    self._epochs,
                    "drop index",
                    data_change=False,
                    altered_tables=(altered,),
                    dropped_tables=(index.table_id,),
                ).epoch
            except (ConflictError, TableNotFoundError):
                continue
        raise contested_error(table)


def _described_table(state: StoreState, name: str) -> TableDefinition:
    """Return the definition of a table or view. InternalTableError for a state table."""
    definition = state.table(name).definition
    if definition.table_id not in state.views:
        check_not_internal(state, definition.table_id, "described by users")
    return definition


def replaced_tables(state: StoreState, name: str) -> tuple[int, ...]:
    """Return the ids of a table and its indexes, to be dropped; none if there is no such table.

    InternalTableError for a view.
    """
    if name.lower() not in state.table_ids:
        return ()
    definition = user_table(state, name, "replaced by a table")
    return (definition.table_id, *(index.table_id for index in definition.indexes))


def user_table(state: StoreState, name: str, action: str) -> TableDefinition:
    """Return the definition of a table that belongs to no view.

    ``action``: what it would be, for the message. TableNotFoundError, InternalTableError.
    """
    definition = state.table(name).definition
    check_not_internal(state, definition.table_id, action)
    return definition


def _indexable_table(state: StoreState, name: str) -> TableDefinition:
    """Return the definition of a table that may have indexes; errors as of `user_table`."""
    table_id = state.table(name).definition.table_id
    if table_id in state.views:
        raise InternalTableError(
            f"{name!r} is a view, and only tables have indexes: give the view an ORDER BY that "
            "begins with the columns to look up, or write its rows to a table and index that"
        )
    return user_table(state, name, "indexed")


def new_table(
    name: str,
    columns: str | pa.Schema,
    *,
    primary_key: Sequence[str] | None = None,
    distribution_key: Sequence[str] | None = None,
    merge: Merge = "overwrite",
    version_column: str | Sequence[str] | None = None,
    ttl: int | None = None,
    append_only: bool = False,
    tombstone_retention: int = DEFAULT_TOMBSTONE_RETENTION,
    nullable_key: bool = False,
    encoding: EncodingName = "row",
    packed: bool = True,
    sets: Sequence[str] = (),
    user_properties: Mapping[str, str | None] | None = None,
    constraints: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
    generated: Mapping[str, str] | None = None,
) -> NewTable:
    """Return a table to be created: see `Store.create_table`.

    TableNameError, SchemaError, UnsupportedTypeError.
    """
    check_table_name(name)
    if distribution_key is not None and not distribution_key:
        raise SchemaError("the distribution key is empty; name at least one column")
    names = _version_names(version_column)
    if type(nullable_key) is not bool:
        raise SchemaError(f"nullable_key is True or False, not {nullable_key!r}")
    if primary_key is None:
        is_plain = merge == "overwrite" and not names and not nullable_key
        schema = _keyless_schema(fields_from(columns), distribution_key, is_plain=is_plain)
    else:
        schema = TableSchema.build(
            fields_from(columns), primary_key, distribution_key, nullable_key=nullable_key
        )
    versions = tuple(schema.column(column).id for column in names)
    set_ids = tuple(schema.column(column).id for column in name_list("sets", sets))
    properties = TableProperties(
        merge, versions, ttl, append_only, tombstone_retention, encoding, packed, set_ids
    )
    table = NewTable(name, schema, properties, *descriptions_of(user_properties or {}))
    definition = table.definition(table_id=1, epoch=1)
    for column, default in (defaults or {}).items():
        definition = with_default(definition, column, default)
    for column, expression in (generated or {}).items():
        definition = with_generated(definition, column, expression)
    for constraint, expression in (constraints or {}).items():
        definition = with_constraint(definition, constraint, expression)
    return replace(table, schema=definition.schema, constraints=definition.constraints)


def table_like(name: str, state: StoreState, source: str) -> NewTable:
    """Return a table to be created with the columns, keys and properties of a table or view.

    Without its indexes and rows. The key of a view is that of the table if it is visible; else
    the table has none. TableNameError, TableNotFoundError, InternalTableError.
    """
    check_table_name(name)
    definition = _described_table(state, source)
    schema = definition.schema
    if definition.table_id in state.views:
        schema = _visible_schema(schema)
    return NewTable(
        name,
        replace(schema, version=1),
        definition.properties,
        definition.comment,
        definition.user_properties,
        definition.constraints,
    )


def _visible_schema(schema: TableSchema) -> TableSchema:
    fields = [column.field for column in schema.visible_columns]
    if any(column.hidden for column in schema.key_columns):
        return TableSchema.build_keyless(fields)
    key = [
        f"{quoted(column.name)} {part.order}"
        for column, part in zip(schema.key_columns, schema.primary_key, strict=True)
    ]
    distribution = [column.name for column in schema.distribution_columns] or None
    return TableSchema.build(fields, key, distribution, nullable_key=True)


def _version_names(version_column: str | Sequence[str] | None) -> Sequence[str]:
    if version_column is None:
        return ()
    if isinstance(version_column, str):
        return (version_column,)
    names = name_list("version_column", version_column)
    if not names:
        raise SchemaError("version_column is an empty list; name at least one column")
    return names


def _keyless_schema(
    fields: Sequence[Field], distribution_key: Sequence[str] | None, *, is_plain: bool
) -> TableSchema:
    """Return the schema of a table without a primary key. SchemaError for what needs a key.

    ``is_plain``: nothing is declared that needs a key.
    """
    if distribution_key is not None:
        raise SchemaError(
            "a table without a primary key has no distribution key: its columns are chosen from "
            "those of the primary key"
        )
    if not is_plain:
        raise SchemaError(
            "rows of a table without a primary key are never merged: declare a primary key, or "
            "leave out the merge behaviour, the version column and nullable_key"
        )
    return TableSchema.build_keyless(fields)


def fields_from(columns: str | pa.Schema) -> tuple[Field, ...]:
    """Return the fields that Spark DDL or an Arrow schema describes. SchemaError for others."""
    if isinstance(columns, str):
        return parse_columns(columns)
    if not isinstance(columns, pa.Schema):
        raise SchemaError(f"columns are Spark DDL or a pyarrow.Schema, not {columns!r:.100}")
    return fields_of(columns)
