"""The catalog of a store: tables and views created, altered and dropped.

Promises: every change is one epoch, all or nothing; what views keep is theirs, and what they read
stays as they read it.
Does not know: rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from relstate.vnode import VnodeMapping

from . import alteration
from .alteration import Alteration
from .environment import Environment
from .errors import (
    ConflictError,
    DependentViewsError,
    OptionError,
    SchemaError,
    TableExistsError,
    TableNameError,
    TableNotFoundError,
)
from .log.entry import RESERVED_PREFIX, TableDefinition, check_table_name
from .log.proposal import AlteredTable, AlteredView, NewTable, NewView, Proposal, Required
from .log.rules import check_alterable, check_droppable, check_not_internal, dependants
from .log.state import StoreState
from .log.transaction import CommitResult
from .log.view import CatalogView
from .schema.arrow import fields_of
from .schema.ddl import parse_columns, parse_type
from .schema.properties import DEFAULT_TOMBSTONE_RETENTION, Merge, TableProperties
from .schema.schema import TableSchema
from .table.encoding import RowEncoding
from .table.table import Table

# A conflict means that somebody else changed the same table or view.
_ATTEMPTS = 100


class Catalog(ABC):
    """The part of a store that knows which tables and views there are."""

    environment: Environment

    @property
    @abstractmethod
    def state(self) -> StoreState:
        """The store at its latest epoch, looked up now."""

    @abstractmethod
    def commit(self, proposal: Proposal) -> CommitResult:
        """Commit a proposal."""

    @abstractmethod
    def table(self, name: str) -> Table:
        """Return a table that follows the latest epoch. TableNotFoundError."""

    # Tables

    def tables(self) -> tuple[str, ...]:
        """Return the names of the tables, sorted; those that views keep are not among them."""
        return self.state.table_names()

    def create_table(
        self,
        name: str,
        columns: str | pa.Schema,
        *,
        primary_key: Sequence[str],
        distribution_key: Sequence[str] | None = None,
        merge: Merge = "overwrite",
        version_column: str | None = None,
        ttl: int | None = None,
        append_only: bool = False,
        tombstone_retention: int = DEFAULT_TOMBSTONE_RETENTION,
        if_not_exists: bool = False,
    ) -> Table:
        """Create a table and return it.

        ``columns``: Spark DDL (``"id BIGINT, amount DECIMAL(12,2)"``) or an Arrow schema.
        ``primary_key``: names, each with an order where wanted (``"amount desc"``).
        ``distribution_key``: those of its columns that are hashed to the vnode, by default all.
        ``merge``, ``version_column`` (a name), ``ttl`` (seconds), ``append_only`` and
        ``tombstone_retention`` (seconds): see `TableProperties`.
        TableNameError, SchemaError, UnsupportedTypeError, TableExistsError.
        """
        check_table_name(name)
        fields = parse_columns(columns) if isinstance(columns, str) else fields_of(columns)
        if distribution_key is not None and not distribution_key:
            raise SchemaError("the distribution key is empty; name at least one column")
        schema = TableSchema.build(fields, primary_key, distribution_key)
        version = None if version_column is None else schema.column(version_column).id
        properties = TableProperties(merge, version, ttl, append_only, tombstone_retention)
        table = NewTable(name, schema, properties)
        _check_storable(table)
        try:
            self._propose("create table", created_tables=(table,))
        except TableExistsError:
            if not if_not_exists:
                raise
        return self.table(name)

    def drop_table(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> None:
        """Drop a table; older epochs still have it. TableNotFoundError unless ``if_exists``.

        ``cascade``: drop the views that read it, too; else DependentViewsError.
        InternalTableError for a view's table.
        """

        def find(state: StoreState) -> tuple[int, ...]:
            table_id = state.table(name).definition.table_id
            check_not_internal(state, table_id, "dropped as a table")
            return (table_id,)

        self._drop("drop table", find, if_exists, cascade)

    def truncate(self, name: str) -> int:
        """Remove all rows of a table as one epoch and return it; later upserts land after it."""
        based = self.free_table(name, "truncated").table_id
        return self._propose("truncate", based_tables=(based,)).epoch

    def free_table(self, name: str, done: str) -> TableDefinition:
        """Return a table that no view keeps. TableNotFoundError, InternalTableError."""
        state = self.state
        definition = state.table(name).definition
        check_not_internal(state, definition.table_id, done)
        return definition

    def add_columns(self, table: str, columns: str | pa.Schema) -> int:
        """Add columns behind a table's own, NULL in the rows there are; return the epoch.

        ``columns``: Spark DDL or an Arrow schema. SchemaError, UnsupportedTypeError.
        """
        fields = parse_columns(columns) if isinstance(columns, str) else fields_of(columns)
        return self._alter(table, "add columns", alteration.adding(fields))

    def drop_columns(self, table: str, *names: str) -> int:
        """Drop columns, none of the key; return the epoch. Older epochs still have them.

        DependentViewsError if a view reads one.
        """
        return self._alter(table, "drop columns", alteration.dropping(names))

    def rename_column(self, table: str, name: str, new: str) -> int:
        """Rename a column and return the epoch. Older epochs have its old name.

        DependentViewsError if a view reads it.
        """
        return self._alter(table, "rename column", alteration.renaming(name, new))

    def widen_column(self, table: str, name: str, data_type: str) -> int:
        """Give a column a wider type (Spark DDL) and return the epoch; see `evolution.widened`.

        DependentViewsError if a view reads it.
        """
        return self._alter(table, "widen column", alteration.widening(name, parse_type(data_type)))

    def set_ttl(self, table: str, ttl: int | None) -> int:
        """Set after how many seconds rows written from now on expire (None: never).

        Return the epoch. The rows there are keep the expiry they were written with.
        DependentViewsError if a view reads the table.
        """
        return self._alter(table, "set ttl", alteration.expiring(ttl))

    def _alter(self, table: str, operation: str, alter: Alteration) -> int:
        """Commit an alteration of whatever definition a table has then."""
        for _ in range(_ATTEMPTS):
            state = self.state
            before = state.table(table).definition
            check_not_internal(state, before.table_id, "altered")
            altered = AlteredTable(before, alter(before))
            check_alterable(state, altered)
            RowEncoding(altered.after, vnode_count=1)
            try:
                return self._propose(operation, data_change=False, altered_tables=(altered,)).epoch
            except ConflictError:
                continue
        raise _contested(table)

    # Views

    def views(self) -> tuple[str, ...]:
        """Return the names of the views, sorted."""
        return self.state.view_names()

    def view(self, name: str) -> CatalogView:
        """Return what the catalog knows of a view. ViewNotFoundError."""
        return self.state.view(name)

    def internal_tables(self, view: str) -> tuple[str, ...]:
        """Return the names of a view's state tables, in its plan's order. ViewNotFoundError."""
        state = self.state
        return tuple(map(state.name_of, state.view(view).definition.internal))

    def create_view(self, view: NewView, requires: Sequence[Required] = ()) -> CatalogView:
        """Create a view that has not begun to read, and return it.

        ``requires``: the definitions it was planned from; ConflictError if one is another by now.
        TableNameError, TableExistsError, TableNotFoundError, SchemaError for an input with a TTL,
        OptionError for a mapping of other vnodes than the store's.
        """
        check_table_name(view.table.name)
        for table in view.tables:
            _check_storable(table)
        for table in view.internal:
            if not table.name.startswith(RESERVED_PREFIX):
                raise TableNameError(
                    f"{table.name!r} is to hold a view's state: begin it with {RESERVED_PREFIX}"
                )
        self._check_mapping(view.mapping)
        done = self._propose(
            "create view", data_change=False, new_views=(view,), requires=tuple(requires)
        )
        return done.state.view(view.table.name)

    def drop_view(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> None:
        """Drop a view with all its tables. ViewNotFoundError unless ``if_exists``.

        ``cascade``: drop the views that read it, too; else DependentViewsError.
        """

        def find(state: StoreState) -> tuple[int, ...]:
            return state.view(name).definition.table_ids

        self._drop("drop view", find, if_exists, cascade)

    def alter_view_mapping(self, name: str, mapping: VnodeMapping) -> int:
        """Give the vnodes of a view to other parallel units and return the epoch.

        A refresh under way conflicts. ViewNotFoundError, OptionError for a mapping of other vnodes
        than the store's.
        """
        self._check_mapping(mapping)
        for _ in range(_ATTEMPTS):
            before = self.view(name).definition
            altered = AlteredView(before, replace(before, mapping=mapping))
            try:
                return self._propose(
                    "alter view", data_change=False, altered_views=(altered,)
                ).epoch
            except ConflictError:
                continue
        raise _contested(name)

    def _check_mapping(self, mapping: VnodeMapping) -> None:
        count = self.state.settings.vnode_count
        if mapping.vnode_count != count:
            raise OptionError(f"the mapping is of {mapping.vnode_count} vnodes, not {count}")

    # Both

    def _drop(
        self,
        operation: str,
        find: Callable[[StoreState], tuple[int, ...]],
        if_exists: bool,
        cascade: bool,
    ) -> None:
        """Drop what is found, whatever else is created or dropped meanwhile."""
        for _ in range(_ATTEMPTS):
            state = self.state
            try:
                found = find(state)
            except TableNotFoundError:
                if if_exists:
                    return
                raise
            dropped = dependants(state, found) if cascade else found
            check_droppable(state, dropped)
            try:
                self._propose(operation, dropped_tables=dropped)
                return
            except (TableNotFoundError, DependentViewsError):
                continue
        raise _contested(", ".join(map(state.name_of, found)))

    def _propose(self, operation: str, **parts: Any) -> CommitResult:
        started = self.environment.now()
        return self.commit(Proposal(operation=operation, started=started, **parts))


def _check_storable(table: NewTable) -> None:
    """Find what cannot be stored before there is a table with it."""
    table.properties.check([key.column_id for key in table.schema.primary_key])
    definition = TableDefinition(0, table.name, table.schema, 0, table.properties)
    RowEncoding(definition, vnode_count=1)


def _contested(name: str) -> ConflictError:
    return ConflictError(
        f"{name!r} was altered by others {_ATTEMPTS} times meanwhile; nothing was committed: try "
        "again"
    )
