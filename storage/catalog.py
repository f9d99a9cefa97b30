"""The catalog of a store: its tables, indexes and views, listed, created and dropped.

Promises: every change is one epoch, all or nothing. What belongs to a view is changed by its
refresh only.
Does not know: how a definition changes (definition_changes.py), or rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from relstate.vnode import cached_property

from .definition_changes import DefinitionChanges
from .epochs import Epochs
from .errors import (
    ConflictError,
    DependentViewsError,
    IndexExistsError,
    IndexNotFoundError,
    OptionError,
    TableExistsError,
    TableNotFoundError,
)
from .log.state import StoreState
from .log.view import CatalogView, ViewDefinition
from .schema.properties import DEFAULT_TOMBSTONE_RETENTION, EncodingName, Merge
from .snapshot import LatestReader, LatestReaders
from .table.table import Table
from .user_tables import indexable_table, replaced_tables, user_table, with_belongings

if TYPE_CHECKING:
    from .index.layout import IndexDescription
    from .log.proposal import NewTable
    from .view_catalog import ViewCatalog


class Catalog(DefinitionChanges):
    """The tables, indexes and views of a store. Safe between threads."""

    def __init__(self, epochs: Epochs) -> None:
        super().__init__(epochs)
        self._readers = LatestReaders(epochs)

    @cached_property
    def view_catalog(self) -> ViewCatalog:
        """The changes of views, for the planner of views; users change views in SQL."""
        from .view_catalog import ViewCatalog

        return ViewCatalog(self._epochs)

    # Tables

    def tables(self) -> tuple[str, ...]:
        """Return the names of the tables without views, sorted."""
        return self._epochs.state.table_names()

    def table(self, name: str) -> Table:
        """Return a table that follows the latest epoch. TableNotFoundError."""
        with self._epochs.one_look():
            return Table(name, self._readers.reader(name))

    def create_table(
        self,
        name: str,
        columns: str | pa.Schema,
        *,
        primary_key: Sequence[str] | None = None,
        distribution_key: Sequence[str] | None = None,
        merge: Merge = "overwrite",
        version_column: str | Sequence[str] | None = None,
        ttl: int | str | None = None,
        append_only: bool = False,
        tombstone_retention: int | str = DEFAULT_TOMBSTONE_RETENTION,
        user_properties: Mapping[str, str | None] | None = None,
        constraints: Mapping[str, str] | None = None,
        expectations: Mapping[str, tuple[str, Literal["count", "drop", "fail"]]] | None = None,
        defaults: Mapping[str, str] | None = None,
        generated: Mapping[str, str] | None = None,
        nullable_key: bool = False,
        encoding: EncodingName = "row",
        packed: bool = True,
        sets: Sequence[str] = (),
        transaction_retention: int | str | None = None,
        if_not_exists: bool = False,
        or_replace: bool = False,
    ) -> Table:
        """Create a table and return it.

        ``columns``: Spark DDL (``"id BIGINT, amount DECIMAL(12,2)"``) or an Arrow schema.
        ``primary_key``: column names, optionally with an order (``"amount desc"``); without it,
        every written row is a new row, even if it equals another one.
        ``distribution_key``: the columns of the key that are hashed to the vnode, by default all.
        ``user_properties``: your own keys and values, which relstate ignores; ``comment`` is the
        comment of the table.
        ``merge``, ``version_column`` (one name, or several, compared in order), ``ttl``
        (seconds, or ``"7 days"``), ``append_only``, ``tombstone_retention`` (likewise),
        ``encoding``, ``packed``, ``sets`` (names of columns) and ``transaction_retention`` (as
        ``ttl``): see `TableProperties`.
        ``constraints``: CHECK constraints by name: see `add_constraint`.
        ``expectations``: conditions by name, each with what becomes of a row that violates it: see
        `add_expectation`.
        ``defaults``: DEFAULT values by column: see `set_default`.
        ``generated``: expressions of generated columns by column, in SQL over other columns; times
        without a zone are in UTC. If a written row lacks the column, its value is computed; a row
        with another value is refused (CheckViolationError).
        ``nullable_key``: key columns that are not declared NOT NULL may be NULL; NULL is one value
        of the key. Otherwise key columns are NOT NULL.
        ``or_replace``: an empty table replaces the one with this name, its rows and its indexes;
        older epochs still have them.
        TableNameError, SchemaError, UnsupportedTypeError, TableExistsError; with ``or_replace``
        InternalTableError for a view, DependentViewsError if a view reads the table.
        """
        from .table_creation import new_table

        _check_exclusive(or_replace, if_not_exists)
        table = new_table(
            name,
            columns,
            primary_key=primary_key,
            distribution_key=distribution_key,
            merge=merge,
            version_column=version_column,
            ttl=ttl,
            append_only=append_only,
            tombstone_retention=tombstone_retention,
            user_properties=user_properties,
            constraints=constraints,
            expectations=expectations,
            defaults=defaults,
            generated=generated,
            nullable_key=nullable_key,
            encoding=encoding,
            packed=packed,
            sets=sets,
            transaction_retention=transaction_retention,
        )
        return self._create(table, if_not_exists=if_not_exists, or_replace=or_replace)

    def create_table_like(
        self, name: str, source: str, *, if_not_exists: bool = False, or_replace: bool = False
    ) -> Table:
        """Create an empty table with the columns, keys and properties of a table or view.

        It has no indexes. Errors as of `create_table`, and TableNotFoundError.
        """
        from .table_creation import table_like

        _check_exclusive(or_replace, if_not_exists)
        table = table_like(name, self._epochs.state, source)
        return self._create(table, if_not_exists=if_not_exists, or_replace=or_replace)

    def _create(self, table: NewTable, *, if_not_exists: bool, or_replace: bool) -> Table:
        from .catalog_commit import check_storable, propose

        check_storable(table)
        if or_replace:
            self._replace(table)
        else:
            try:
                propose(self._epochs, "create table", created_tables=(table,))
            except TableExistsError:
                if not if_not_exists:
                    raise
        # Not opened before it is read: an error would hide that the table was created.
        return Table(table.name, LatestReader(self._epochs, table.name))

    def _replace(self, table: NewTable) -> None:
        """Create a table in place of the one of its name, if there is one, in one epoch.

        The errors of `create_table`, InternalTableError for a view, DependentViewsError.
        """
        from .catalog_commit import ATTEMPTS, contested_error, propose

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

    def rename_table(self, name: str, new: str) -> int:
        """Rename a table, and its quarantine, and return the epoch. Older epochs have the old name.

        TableNotFoundError, InternalTableError for a view, TableExistsError, TableNameError;
        DependentViewsError if a view reads it: ALTER TABLE … RENAME TO changes their queries too.
        """
        return self.view_catalog.rename_table(name, new, _refuse_rename)

    def drop_table(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> None:
        """Drop a table and its quarantine; older epochs still have them.

        TableNotFoundError unless ``if_exists``.

        ``cascade``: also drop the views that read it; else DependentViewsError.
        InternalTableError for a view's table.
        """
        from .catalog_commit import drop

        def ids_of_table(state: StoreState) -> tuple[int, ...]:
            return with_belongings(state, user_table(state, name, "dropped as a table"))

        drop(self._epochs, "drop table", ids_of_table, if_exists=if_exists, cascade=cascade)

    def truncate(self, name: str) -> int:
        """Remove all rows of a table as one epoch and return it."""
        from .catalog_commit import propose

        table_id = user_table(self._epochs.state, name, "truncated").table_id
        return propose(self._epochs, "truncate", based_tables=(table_id,)).epoch

    # Indexes

    def indexes(self, table: str) -> tuple[IndexDescription, ...]:
        """Return the indexes of a table, in the order of their creation. TableNotFoundError."""
        from .index.layout import indexes_of

        return indexes_of(self._epochs.state, table)

    def create_index(
        self,
        table: str,
        name: str,
        columns: Sequence[str],
        *,
        include: Sequence[str] = (),
        unique: bool = False,
        if_not_exists: bool = False,
    ) -> int:
        """Create a secondary index of a table, fill it, and return the epoch.

        From this epoch on, every commit that changes rows of the table also updates the index.
        ``columns``: names, optionally with an order (``"amount desc"``). ``include``: other columns
        that the index stores, so that reads of these do not read the table.
        ``unique``: no two rows may have equal values in ``columns``, unless one is NULL.
        TableNotFoundError, InternalTableError for a view, TableNameError, SchemaError,
        IndexExistsError; UniqueViolationError for rows with equal values; ConflictError if other
        processes write the table all the time.
        """
        from .catalog_commit import ATTEMPTS, check_storable, contested_error, propose
        from .index.layout import new_index

        for _ in range(ATTEMPTS):
            state = self._epochs.state
            definition = indexable_table(state, table)
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
                if indexable_table(self._epochs.state, table) == definition:
                    raise
        raise contested_error(table)

    def drop_index(self, table: str, name: str, *, if_exists: bool = False) -> int:
        """Drop an index of a table and return the epoch; older epochs still have it.

        TableNotFoundError, InternalTableError; IndexNotFoundError unless ``if_exists``.
        """
        from .catalog_commit import ATTEMPTS, contested_error, propose
        from .log.proposal import AlteredTable

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

    # Views

    def views(self) -> tuple[str, ...]:
        """Return the names of the views, sorted."""
        return self._epochs.state.view_names()

    def view(self, name: str) -> CatalogView:
        """Return the definition and progress of a view. ViewNotFoundError."""
        return self._epochs.state.view(name)

    def internal_tables(self, view: str) -> tuple[str, ...]:
        """Return the names of a view's state tables, in plan order. ViewNotFoundError."""
        state = self._epochs.state
        return tuple(map(state.name_of, state.view(view).definition.internal))

    def drop_view(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> None:
        """Drop a view with all its tables. ViewNotFoundError unless ``if_exists``.

        ``cascade``: also drop the views that read it; else DependentViewsError.
        """
        self.view_catalog.drop(name, if_exists=if_exists, cascade=cascade)


def _check_exclusive(or_replace: bool, if_not_exists: bool) -> None:
    if or_replace and if_not_exists:
        raise OptionError("or_replace and if_not_exists exclude each other; give one")


def _refuse_rename(
    name: str, new: str, state: StoreState, reader: ViewDefinition
) -> ViewDefinition:
    raise DependentViewsError(
        f"{name!r} cannot be renamed here: the view {state.name_of(reader.view_id)!r} reads it by "
        "its name; rename it by SQL, db.sql('ALTER TABLE … RENAME TO …'), which changes the "
        "queries of views too"
    )
