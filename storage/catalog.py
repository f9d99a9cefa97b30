"""The catalog of a store: tables and views created, altered and dropped.

Promises: every change is one epoch, all or nothing. What belongs to a view is changed by its
refresh only, and what a view reads stays as the view was planned on it.
Does not know: rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from relstate.vnode import VnodeMapping

from .alteration import descriptions_of, with_user_properties
from .epochs import Epochs
from .errors import (
    ConflictError,
    DependentViewsError,
    IndexExistsError,
    IndexNotFoundError,
    OptionError,
    SchemaError,
    TableExistsError,
    TableNameError,
    TableNotFoundError,
)
from .index.layout import check_indexes_remain, new_index
from .log.names import RESERVED_PREFIX, check_table_name
from .log.proposal import AlteredTable, AlteredView, NewTable, NewView, Proposal, Required
from .log.rules import check_alterable, check_droppable, check_not_internal, dependants
from .log.state import StoreState
from .log.table_definition import TableDefinition
from .log.transaction import CommitResult
from .log.view import CatalogView, ViewDefinition
from .replacement import renamed_table
from .schema.arrow import fields_of
from .schema.ddl import parse_columns
from .schema.properties import Merge, TableProperties
from .schema.schema import TableSchema, name_list
from .schema.types import Field
from .table.encoding import encoding_of

# A conflict means that somebody else changed the same table or view.
_ATTEMPTS = 100

# Returns the definition of a view that reads a renamed one, given the state before.
FollowRename: TypeAlias = Callable[[StoreState, ViewDefinition], ViewDefinition]


class Catalog:
    """Changes the tables and views of a store, each change as one epoch. Safe between threads."""

    def __init__(self, epochs: Epochs) -> None:
        self._epochs = epochs

    # Tables

    def create_table(self, table: NewTable, *, if_not_exists: bool = False) -> None:
        """Create a table. SchemaError, UnsupportedTypeError, TableExistsError."""
        _check_storable(table)
        try:
            self._propose("create table", created_tables=(table,))
        except TableExistsError:
            if not if_not_exists:
                raise

    def drop_table(self, name: str, *, if_exists: bool, cascade: bool) -> None:
        """Drop a table: see `Store.drop_table`."""

        def ids_of_table(state: StoreState) -> tuple[int, ...]:
            definition = user_table(state, name, "dropped as a table")
            return (definition.table_id, *(index.table_id for index in definition.indexes))

        self._drop("drop table", ids_of_table, if_exists, cascade)

    def truncate(self, name: str) -> int:
        """Remove all rows of a table as one epoch and return it."""
        table_id = user_table(self._epochs.state, name, "truncated").table_id
        return self._propose("truncate", based_tables=(table_id,)).epoch

    def alter_table(
        self, name: str, operation: str, alter: Callable[[TableDefinition], TableDefinition]
    ) -> int:
        """Commit what ``alter`` makes of a table's definition and return the epoch.

        If others alter the table at the same time, ``alter`` is called again on what they left.
        The errors of ``alter``, InternalTableError, DependentViewsError, ConflictError.
        """
        for _ in range(_ATTEMPTS):
            state = self._epochs.state
            before = user_table(state, name, "altered")
            altered = AlteredTable(before, alter(before))
            check_indexes_remain(before, altered.after)
            check_alterable(state, altered)
            encoding_of(altered.after, vnode_count=1)
            try:
                return self._propose(operation, data_change=False, altered_tables=(altered,)).epoch
            except ConflictError:
                continue
        raise _contested(name)

    def describe_table(
        self, name: str, operation: str, describe: Callable[[TableDefinition], TableDefinition]
    ) -> int:
        """Commit what ``describe`` makes of the definition of a table or view.

        Return the epoch. It changes comments and a user's properties, which a view may have as
        well as a table.
        InternalTableError for a state table, the errors of ``describe``, ConflictError.
        """
        for _ in range(_ATTEMPTS):
            state = self._epochs.state
            before = _described_table(state, name)
            altered = AlteredTable(before, describe(before))
            try:
                return self._propose(operation, data_change=False, altered_tables=(altered,)).epoch
            except ConflictError:
                continue
        raise _contested(name)

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
        for _ in range(_ATTEMPTS):
            state = self._epochs.state
            definition = user_table(state, table, "indexed")
            try:
                index = new_index(definition, name, columns, include, unique)
            except IndexExistsError:
                if not if_not_exists:
                    raise
                return state.epoch
            _check_storable(index.table)
            try:
                return self._propose("create index", data_change=False, new_index=index).epoch
            except (ConflictError, TableExistsError):
                if user_table(self._epochs.state, table, "indexed") == definition:
                    raise
        raise _contested(table)

    def drop_index(self, table: str, name: str, *, if_exists: bool) -> int:
        """Drop an index and return the epoch: see `Store.drop_index`."""
        for _ in range(_ATTEMPTS):
            state = self._epochs.state
            before = user_table(state, table, "altered")
            try:
                index = before.index(name)
            except IndexNotFoundError:
                if not if_exists:
                    raise
                return state.epoch
            remaining = tuple(kept for kept in before.indexes if kept != index)
            altered = AlteredTable(before, replace(before, indexes=remaining))
            try:
                return self._propose(
                    "drop index",
                    data_change=False,
                    altered_tables=(altered,),
                    dropped_tables=(index.table_id,),
                ).epoch
            except (ConflictError, TableNotFoundError):
                continue
        raise _contested(table)

    # Views

    def create_view(self, view: NewView, requires: Sequence[Required] = ()) -> CatalogView:
        """Create a view and return it: see `Store.create_view`."""
        check_table_name(view.table.name)
        return self._create_view(view, requires, ())

    def create_replacement(
        self, replaced: int, view: NewView, requires: Sequence[Required]
    ) -> CatalogView:
        """Create the replacement of a view and return it: see `Store.create_replacement`."""
        for _ in range(_ATTEMPTS):
            earlier = self._epochs.state.replacement_of(replaced)
            dropped = () if earlier is None else earlier.definition.table_ids
            try:
                return self._create_view(view, requires, dropped)
            except (TableExistsError, TableNotFoundError):
                # Others began or ended a replacement of the same view.
                if replaced not in self._epochs.state.views:
                    raise
        raise _contested(view.table.name)

    def _create_view(
        self, view: NewView, requires: Sequence[Required], dropped: Sequence[int]
    ) -> CatalogView:
        for table in view.tables:
            _check_storable(table)
        for table in view.internal:
            if not table.name.startswith(RESERVED_PREFIX):
                raise TableNameError(
                    f"{table.name!r} cannot be the name of a state table: begin it with "
                    f"{RESERVED_PREFIX}"
                )
        self._check_mapping(view.mapping)
        done = self._propose(
            "create view",
            data_change=False,
            new_views=(view,),
            dropped_tables=tuple(dropped),
            requires=tuple(requires),
        )
        return done.state.view(view.table.name)

    def drop_view(self, name: str, *, if_exists: bool, cascade: bool) -> None:
        """Drop a view with all its tables: see `Store.drop_view`."""

        def ids_of_view(state: StoreState) -> tuple[int, ...]:
            view = state.view(name)
            replacement = state.replacement_of(view.view_id)
            views = (view,) if replacement is None else (view, replacement)
            return tuple(i for view in views for i in view.definition.table_ids)

        self._drop("drop view", ids_of_view, if_exists, cascade)

    def drop_replacement(self, view_id: int) -> None:
        """Drop a replacement if it is still there: see `Store.drop_replacement`."""

        def ids_of_replacement(state: StoreState) -> tuple[int, ...]:
            view = state.views.get(view_id)
            if view is None or view.definition.replaces is None:
                raise TableNotFoundError(f"there is no replacement with the id {view_id}")
            return view.definition.table_ids

        self._drop("drop view", ids_of_replacement, if_exists=True, cascade=False)

    def alter_view_mapping(self, name: str, mapping: VnodeMapping) -> int:
        """Give a view another mapping and return the epoch: see `Store.alter_view_mapping`."""
        self._check_mapping(mapping)
        for _ in range(_ATTEMPTS):
            before = self._epochs.state.view(name).definition
            altered = AlteredView(before, replace(before, mapping=mapping))
            try:
                done = self._propose("alter view", data_change=False, altered_views=(altered,))
                return done.epoch
            except ConflictError:
                continue
        raise _contested(name)

    def set_view_properties(
        self, name: str, units: int | None, changes: Mapping[str, str | None]
    ) -> int:
        """Set properties of a view and return the epoch: see `Store.set_view_properties`."""
        for _ in range(_ATTEMPTS):
            state = self._epochs.state
            view = state.view(name).definition
            table = state.tables[view.view_id].definition
            after = view
            if units is not None and units != view.mapping.units:
                after = replace(view, mapping=view.mapping.rescale(units))
            altered = AlteredTable(table, with_user_properties(table, changes))
            try:
                done = self._propose(
                    "set view properties",
                    data_change=False,
                    altered_views=(AlteredView(view, after),) if after != view else (),
                    altered_tables=(altered,) if altered.after != table else (),
                )
                return done.epoch
            except ConflictError:
                continue
        raise _contested(name)

    def rename_view(self, name: str, new: str, follow: FollowRename) -> int:
        """Give a view another name and return the epoch: see `Store.rename_view`."""
        check_table_name(new)
        for _ in range(_ATTEMPTS):
            state = self._epochs.state
            view = state.view(name)
            rename = partial(renamed_table, view=state.name_of(view.view_id), new=new)
            tables = [state.tables[table_id].definition for table_id in view.definition.table_ids]
            readers = [reader.definition for reader in state.views_reading(view.view_id)]
            try:
                done = self._propose(
                    "rename view",
                    data_change=False,
                    altered_tables=tuple(
                        AlteredTable(table, replace(table, name=rename(table.name)))
                        for table in tables
                    ),
                    altered_views=tuple(
                        AlteredView(reader, follow(state, reader)) for reader in readers
                    ),
                )
                return done.epoch
            except ConflictError:
                continue
        raise _contested(name)

    def _check_mapping(self, mapping: VnodeMapping) -> None:
        count = self._epochs.settings.vnode_count
        if mapping.vnode_count != count:
            raise OptionError(
                f"the mapping has {mapping.vnode_count} vnodes, but the store has {count}"
            )

    # Both

    def _drop(
        self,
        operation: str,
        ids_in: Callable[[StoreState], tuple[int, ...]],
        if_exists: bool,
        cascade: bool,
    ) -> None:
        """Drop the tables whose ids are found, whatever others create or drop meanwhile."""
        for _ in range(_ATTEMPTS):
            state = self._epochs.state
            try:
                table_ids = ids_in(state)
            except TableNotFoundError:
                if if_exists:
                    return
                raise
            dropped = dependants(state, table_ids) if cascade else table_ids
            check_droppable(state, dropped)
            try:
                self._propose(operation, dropped_tables=dropped)
                return
            except (TableNotFoundError, DependentViewsError, ConflictError):
                continue
        raise _contested(", ".join(map(state.name_of, table_ids)))

    def _propose(self, operation: str, **parts: Any) -> CommitResult:
        started = self._epochs.environment.now()
        return self._epochs.commit(Proposal(operation=operation, started=started, **parts))


def _described_table(state: StoreState, name: str) -> TableDefinition:
    """Return the definition of a table or view. InternalTableError for a state table."""
    definition = state.table(name).definition
    if definition.table_id not in state.views:
        check_not_internal(state, definition.table_id, "described by users")
    return definition


def user_table(state: StoreState, name: str, action: str) -> TableDefinition:
    """Return the definition of a table that belongs to no view.

    ``action``: what it would be, for the message. TableNotFoundError, InternalTableError.
    """
    definition = state.table(name).definition
    check_not_internal(state, definition.table_id, action)
    return definition


def new_table(
    name: str,
    columns: str | pa.Schema,
    primary_key: Sequence[str] | None,
    distribution_key: Sequence[str] | None,
    *,
    merge: Merge,
    version_column: str | Sequence[str] | None,
    ttl: int | None,
    append_only: bool,
    tombstone_retention: int,
    nullable_key: bool,
    user_properties: Mapping[str, str | None],
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
    properties = TableProperties(merge, versions, ttl, append_only, tombstone_retention)
    return NewTable(name, schema, properties, *descriptions_of(user_properties))


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


def _check_storable(table: NewTable) -> None:
    """Raise what would make the table unusable once it is created."""
    table.properties.check([key.column_id for key in table.schema.primary_key])
    definition = TableDefinition(0, table.name, table.schema, 0, table.properties)
    encoding_of(definition, vnode_count=1)


def _contested(name: str) -> ConflictError:
    return ConflictError(
        f"{name!r} was altered by others {_ATTEMPTS} times meanwhile; nothing was committed: try "
        "again"
    )
