"""A store: one directory with a commit log and segments, and the tables in it.

Promises: opening a store costs the same however many epochs it has; every change is one epoch, all
or nothing; one process can open several stores, and one store several times.
Does not know: Spark. It only composes what the other modules do. Here are the calls of users; those
of Spark's driver and tasks are in jobs, those of the planner of views in view_catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial

import pyarrow as pa

from relstate.vnode import DEFAULT_VNODE_COUNT

from . import alteration
from .catalog import Catalog, fields_from, new_table, table_like, user_table
from .check import Report, check
from .documentwriter import DocumentWriter
from .environment import Environment
from .environments import environment_of
from .epochs import Epochs, epoch_number
from .errors import DependentViewsError, OptionError, RelstateError
from .figures.html import tables_html
from .index.layout import IndexDescription, indexes_of
from .instant import micros_of
from .jobs import Jobs
from .log.entry import Entry, Settings
from .log.proposal import NewTable
from .log.state import StoreState
from .log.transaction import repair_clock
from .log.view import CatalogView, ViewDefinition
from .maintenance import compaction
from .maintenance.compaction import CompactionReport
from .maintenance.vacuum import VacuumReport, vacuum
from .read_plan import ReadPlan
from .restoring import restored_columns
from .rows import Rows
from .schema.ddl import parse_type
from .schema.properties import DEFAULT_TOMBSTONE_RETENTION, EncodingName, Merge
from .segment.key import Kind
from .snapshot import LatestReaders, Snapshot
from .table.statetable import StateTable
from .table.table import Table
from .view_catalog import ViewCatalog
from .writing import open_state_table, patch_rows, write_rows

DEFAULT_RETENTION = 24 * 3600


class Store:
    """An open store. Safe between threads; each process opens its own."""

    def __init__(self, epochs: Epochs) -> None:
        """Wrap an opened log; use `create` or `open`."""
        self.environment = epochs.environment
        self._epochs = epochs
        self._catalog = Catalog(epochs)
        self._view_catalog = ViewCatalog(epochs)
        self._jobs = Jobs(epochs)
        self._readers = LatestReaders(epochs)

    @classmethod
    def create(
        cls,
        path: str,
        *,
        vnode_count: int = DEFAULT_VNODE_COUNT,
        shards: int | None = None,
        retention: int = DEFAULT_RETENTION,
        exist_ok: bool = False,
        storage_options: Mapping[str, str] | None = None,
        environment: Environment | None = None,
    ) -> Store:
        """Make an empty store at ``path`` and open it.

        ``vnode_count``: 1 to 32768, fixed for ever. ``shards``: ranges of vnodes, 16 by default.
        ``retention``: seconds for which older epochs stay readable. ``exist_ok``: open a store
        that is there already, whatever its settings. ``storage_options``: of the object store that
        the path is in, such as ``{"region": "eu-central-1"}``. OptionError, StoreExistsError,
        NotAStoreError.
        """
        epochs = Epochs.create(
            environment or environment_of(path, storage_options),
            vnode_count=vnode_count,
            shards=shards,
            retention=retention,
            exist_ok=exist_ok,
        )
        return cls(epochs)

    @classmethod
    def open(
        cls,
        path: str,
        *,
        storage_options: Mapping[str, str] | None = None,
        max_staleness: int = 0,
        environment: Environment | None = None,
    ) -> Store:
        """Open the store at ``path``; ``storage_options`` as of `create`.

        ``max_staleness``: seconds for which reads may leave out what others have committed. With 0
        each read looks for a newer epoch, which is a request where the store is in a bucket. What
        this object commits, it reads at once; no commit relies on what may be stale.
        StoreNotFoundError, NotAStoreError, CorruptionError, OptionError.
        """
        environment = environment or environment_of(path, storage_options)
        return cls(Epochs.open(environment, max_staleness))

    def close(self) -> None:
        """Close the store's files; what is read or committed later raises ClosedError.

        A state table or a scan that has begun still reads what it has open.
        """
        self._readers.clear()
        self._epochs.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Store({self.path!r})"

    def _repr_html_(self) -> str:
        """Return the tables and views, with their sizes, as notebooks show them."""
        return tables_html(self.path, self.state)

    def __reduce__(self) -> tuple[object, tuple[str]]:
        """Pickle by the path: the copy opens the store again, in its own process."""
        return Store.open, (self.path,)

    # What it is

    @property
    def path(self) -> str:
        """The store's folder."""
        return self._epochs.path

    @property
    def settings(self) -> Settings:
        """What was fixed when the store was created."""
        return self._epochs.settings

    @property
    def state(self) -> StoreState:
        """The store at its latest epoch, looked up now."""
        return self._epochs.state

    @property
    def epoch(self) -> int:
        """The latest committed epoch."""
        return self.state.epoch

    @property
    def jobs(self) -> Jobs:
        """The plans and commits of work that other processes share, as Spark's tasks do."""
        return self._jobs

    @property
    def view_catalog(self) -> ViewCatalog:
        """The changes of views: for the planner of views, which users reach by SQL."""
        return self._view_catalog

    def one_look(self, *, again: bool = False) -> AbstractContextManager[None]:
        """Return a block in which this thread looks up the newest epoch of a bucket only once.

        For the parts of a statement, which are to see one epoch; what this object commits in the
        block, they see. A block inside of another one looks only if ``again``. Looks at a folder
        cost nothing and are left as they are.
        """
        return self._epochs.one_look(again=again)

    # Tables

    def tables(self) -> tuple[str, ...]:
        """Return the names of the tables, sorted; those of views are not among them."""
        return self.state.table_names()

    def table(self, name: str) -> Table:
        """Return a table that follows the latest epoch. TableNotFoundError."""
        with self.one_look():
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
        ttl: int | None = None,
        append_only: bool = False,
        tombstone_retention: int = DEFAULT_TOMBSTONE_RETENTION,
        user_properties: Mapping[str, str | None] | None = None,
        constraints: Mapping[str, str] | None = None,
        defaults: Mapping[str, str] | None = None,
        generated: Mapping[str, str] | None = None,
        nullable_key: bool = False,
        encoding: EncodingName = "row",
        packed: bool = True,
        sets: Sequence[str] = (),
        if_not_exists: bool = False,
        or_replace: bool = False,
    ) -> Table:
        """Create a table and return it.

        ``columns``: Spark DDL (``"id BIGINT, amount DECIMAL(12,2)"``) or an Arrow schema.
        ``primary_key``: names, each with an order where wanted (``"amount desc"``); without it,
        every row that is written is a new row, equal rows included.
        ``distribution_key``: those of its columns that are hashed to the vnode, by default all.
        ``user_properties``: keys and values that mean nothing to relstate, and as ``comment`` the
        comment of the table.
        ``merge``, ``version_column`` (a name, or several that are compared in order), ``ttl``
        (seconds), ``append_only``, ``tombstone_retention`` (seconds), ``encoding``, ``packed`` and
        ``sets`` (names of columns): see `TableProperties`.
        ``constraints``: CHECK constraints by their names: see `add_constraint`.
        ``defaults``: DEFAULT values by the names of their columns: see `set_default`.
        ``generated``: expressions by the names of the columns that are computed by them in every
        row, SQL over other columns; times without a zone are in UTC. A row that is written without
        the column gets its value, one with another value is refused (CheckViolationError).
        ``nullable_key``: key columns that are not declared NOT NULL may be NULL; NULL is one value
        of the key. Otherwise key columns are NOT NULL.
        ``or_replace``: an empty table takes the place of the one of this name, with its rows and
        indexes, which older epochs still have.
        TableNameError, SchemaError, UnsupportedTypeError, TableExistsError; with ``or_replace``
        InternalTableError for a view, DependentViewsError if a view reads the table.
        """
        if or_replace and if_not_exists:
            raise OptionError("or_replace and if_not_exists exclude each other; give one")
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
            defaults=defaults,
            generated=generated,
            nullable_key=nullable_key,
            encoding=encoding,
            packed=packed,
            sets=sets,
        )
        self._create(table, if_not_exists=if_not_exists, or_replace=or_replace)
        return self.table(name)

    def create_table_like(
        self, name: str, source: str, *, if_not_exists: bool = False, or_replace: bool = False
    ) -> Table:
        """Create an empty table with the columns, keys and properties of a table or view.

        It has no indexes. Errors as of `create_table`, and TableNotFoundError.
        """
        if or_replace and if_not_exists:
            raise OptionError("or_replace and if_not_exists exclude each other; give one")
        table = table_like(name, self.state, source)
        self._create(table, if_not_exists=if_not_exists, or_replace=or_replace)
        return self.table(name)

    def _create(self, table: NewTable, *, if_not_exists: bool, or_replace: bool) -> None:
        if or_replace:
            self._catalog.replace_table(table)
        else:
            self._catalog.create_table(table, if_not_exists=if_not_exists)

    def rename_table(self, name: str, new: str) -> int:
        """Give a table another name and return the epoch. Older epochs have its old name.

        TableNotFoundError, InternalTableError for a view, TableExistsError, TableNameError;
        DependentViewsError if a view reads it: ALTER TABLE … RENAME TO changes their queries too.
        """
        return self._view_catalog.rename_table(name, new, partial(_refuse_rename, name))

    def drop_table(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> None:
        """Drop a table; older epochs still have it. TableNotFoundError unless ``if_exists``.

        ``cascade``: also drop the views that read it; else DependentViewsError.
        InternalTableError for a view's table.
        """
        self._catalog.drop_table(name, if_exists=if_exists, cascade=cascade)

    def truncate(self, name: str) -> int:
        """Remove all rows of a table as one epoch and return it; later upserts come after it."""
        return self._catalog.truncate(name)

    def add_columns(self, table: str, columns: str | pa.Schema) -> int:
        """Add columns after a table's own, NULL in its rows, and return the epoch.

        ``columns``: Spark DDL or an Arrow schema. SchemaError, UnsupportedTypeError.
        """
        alter = partial(alteration.with_columns, fields=fields_from(columns))
        return self._catalog.alter_table(table, "add columns", alter)

    def drop_columns(self, table: str, *names: str) -> int:
        """Drop columns, none of the key, and return the epoch. Older epochs still have them.

        DependentViewsError if a view reads one.
        """
        alter = partial(alteration.without_columns, names=names)
        return self._catalog.alter_table(table, "drop columns", alter)

    def rename_column(self, table: str, name: str, new: str) -> int:
        """Rename a column and return the epoch. Older epochs have its old name.

        DependentViewsError if a view reads it.
        """
        alter = partial(alteration.with_column_renamed, name=name, new=new)
        return self._catalog.alter_table(table, "rename column", alter)

    def widen_column(self, table: str, name: str, data_type: str) -> int:
        """Give a column a wider type (Spark DDL) and return the epoch: see `alteration.is_wider`.

        DependentViewsError if a view reads it.
        """
        alter = partial(alteration.with_column_widened, name=name, data_type=parse_type(data_type))
        return self._catalog.alter_table(table, "widen column", alter)

    def allow_null(self, table: str, name: str) -> int:
        """Let a column that is NOT NULL be NULL and return the epoch.

        SchemaError for a column of the primary key; DependentViewsError if a view reads it.
        """
        alter = partial(alteration.with_column_nullable, name=name)
        return self._catalog.alter_table(table, "allow null", alter)

    def add_constraint(self, table: str, name: str, expression: str) -> int:
        """Add a CHECK constraint and return the epoch: no row may make ``expression`` false.

        The expression is SQL over the columns, as for `Table.scan`; times without a zone are in
        UTC. Where it is unknown, because of a NULL, the row is allowed. Every writer obeys, also
        one that began before. CheckViolationError if a row of the table is in the way, SchemaError,
        UnsupportedExpressionError.
        """
        alter = partial(alteration.with_constraint, name=name, expression=expression)
        return self._catalog.alter_table(table, "add constraint", alter)

    def drop_constraint(self, table: str, name: str, *, if_exists: bool = False) -> int:
        """Drop a CHECK constraint and return the epoch. SchemaError unless ``if_exists``."""
        alter = partial(alteration.without_constraint, name=name, if_exists=if_exists)
        return self._catalog.alter_table(table, "drop constraint", alter)

    def set_default(self, table: str, column: str, expression: str | None) -> int:
        """Set the value of a column in rows that are written without it, and return the epoch.

        ``expression``: SQL, of constants, or a function of the clock such as current_timestamp(),
        which is the time of each write; times without a zone are in UTC. None: NULL, as without
        a default. Rows that are stored stay as they are. SchemaError for a column of the primary
        key, a generated one, a table that merges partially, or another type;
        UnsupportedExpressionError for other functions.
        """
        alter = partial(alteration.with_default, name=column, expression=expression)
        return self._catalog.alter_table(table, "set default", alter)

    def comment_column(self, table: str, name: str, comment: str | None) -> int:
        """Set the comment of a column (None: remove it) and return the epoch.

        The table may be a view.
        """
        describe = partial(alteration.with_comment, name=name, comment=comment)
        return self._catalog.describe_table(table, "comment column", describe)

    def set_user_properties(self, table: str, changes: Mapping[str, str | None]) -> int:
        """Set properties that mean nothing to relstate, of a table or view; return the epoch.

        None removes one. The property ``comment`` is the comment of the table.
        """
        describe = partial(alteration.with_user_properties, changes=changes)
        return self._catalog.describe_table(table, "set properties", describe)

    def set_ttl(self, table: str, ttl: int | None) -> int:
        """Set after how many seconds rows written from now on expire (None: never).

        Return the epoch. Rows written before keep the expiry they were written with.
        DependentViewsError if a view reads the table.
        """
        return self._catalog.alter_table(table, "set ttl", partial(alteration.with_ttl, ttl=ttl))

    def set_encoding(self, table: str, encoding: EncodingName) -> int:
        """Set whether parts of a table's rows may be written alone; return the epoch.

        ``encoding``: ``document`` or ``row``. Nothing is rewritten: rows and parts that were
        written before are read as they are. SchemaError for a table that cannot be a document
        table: one with an index, a merge behaviour or a column that is NOT NULL;
        DependentViewsError if a view follows the expiry of its rows.
        """
        alter = partial(alteration.with_encoding, encoding=encoding)
        return self._catalog.alter_table(table, "set encoding", alter)

    # Indexes

    def indexes(self, table: str) -> tuple[IndexDescription, ...]:
        """Return the indexes of a table, in the order of their creation. TableNotFoundError."""
        return indexes_of(self.state, table)

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

        From this epoch on every commit that changes rows of the table changes the index too.
        ``columns``: names, each with an order where wanted (``"amount desc"``). ``include``: other
        columns whose values the index holds, so that reads of these need not look at the table.
        ``unique``: no two rows have equal values in ``columns``, unless one is NULL.
        TableNotFoundError, InternalTableError for a view, TableNameError, SchemaError,
        IndexExistsError; UniqueViolationError for rows with equal values; ConflictError if others
        write the table all the time.
        """
        return self._catalog.create_index(
            table,
            name,
            columns,
            include=include,
            unique=unique,
            if_not_exists=if_not_exists,
        )

    def drop_index(self, table: str, name: str, *, if_exists: bool = False) -> int:
        """Drop an index of a table and return the epoch; older epochs still have it.

        TableNotFoundError, InternalTableError; IndexNotFoundError unless ``if_exists``.
        """
        return self._catalog.drop_index(table, name, if_exists=if_exists)

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

    def drop_view(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> None:
        """Drop a view with all its tables. ViewNotFoundError unless ``if_exists``.

        ``cascade``: also drop the views that read it; else DependentViewsError.
        """
        self._view_catalog.drop(name, if_exists=if_exists, cascade=cascade)

    # The past

    def at(self, epoch: int) -> Snapshot:
        """Return the store as of an epoch. EpochNotFoundError, EpochExpiredError."""
        return Snapshot(self._epochs, self.state_at(epoch))

    def state_at(self, epoch: int) -> StoreState:
        """Return the store's state as of an epoch. EpochNotFoundError, EpochExpiredError."""
        return self._epochs.state_at(epoch)

    def epoch_at(self, time: datetime) -> int:
        """Return the newest epoch committed at or before a time, which has a time zone.

        EpochNotFoundError if the store is younger, EpochExpiredError if the epoch is not kept,
        OptionError for a time without a zone.
        """
        return self._epochs.epoch_at(time)

    def history(self) -> Iterator[Entry]:
        """Yield the entry of every commit, the newest first."""
        return self._epochs.history()

    # Changes

    def changes(
        self,
        name: str,
        first_epoch: int,
        last_epoch: int | None = None,
        *,
        deduplication: str = "dropCarryovers",
        update_images: bool = True,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield what the commits of some epochs, both ends included, changed in a table's rows.

        Batches have the table's columns, under its schema at the last epoch, by default the latest,
        and ``_change_type``, ``_commit_version`` and ``_commit_timestamp`` as Delta Lake names
        them. ``deduplication``: ``dropCarryovers``, what every commit changed, or ``netChanges``,
        what all of them together did. ``update_images``: an update is an ``update_preimage`` and
        an ``update_postimage``, else a ``delete`` and an ``insert``. The changes of a row come in
        the order of the epochs. Errors as of `Jobs.feed_plan`.
        """
        plan = self.jobs.feed_plan(
            name,
            first_epoch,
            last_epoch,
            deduplication=deduplication,
            update_images=update_images,
            columns=columns,
        )
        return plan.read(environment=self.environment)

    def state_table(
        self, name: str, *, strict: bool = False, vnodes: Sequence[range] | None = None
    ) -> StateTable:
        """Return a table as a streaming executor uses it: see `StateTable`.

        UsageError for a table whose rows are merged or expire, because it holds its rows as they
        are put, and for one without a primary key.
        """
        return open_state_table(self._epochs, name, vnodes, strict)

    # Reading elsewhere, and writing

    def read_plan(
        self,
        name: str,
        *,
        epoch: int | None = None,
        columns: Sequence[str] | None = None,
        time: datetime | None = None,
    ) -> ReadPlan:
        """Return what other processes need to read a table at an epoch, by default the latest.

        Rows that had expired by ``time`` are left out: by default now for the latest epoch, and the
        time of its commit for a named epoch, so that its rows never change.
        TableNotFoundError, SchemaError for an unknown column, the errors of `at`, OptionError for
        a time without a zone.
        """
        state = self.state if epoch is None else self.state_at(epoch)
        if time is not None:
            moment = micros_of(time)
        else:
            moment = self.environment.now() if epoch is None else state.time
        return ReadPlan.of(self.path, state, name, columns, time=max(moment, state.time))

    def write(
        self, table: str, rows: Rows, *, overwrite: bool = False, ttls: pa.Array | None = None
    ) -> int:
        """Upsert rows as one epoch and return it; with ``overwrite`` they replace all rows.

        ``rows``: whatever hands over Arrow data (pyarrow, pandas, polars, DuckDB), an iterator of
        RecordBatches, or a list or iterator of dicts. Of two rows of one key the later wins, or
        what the table's merge behaviour makes of them. In a table without a primary key all of
        them are new rows.
        ``ttls``: seconds after which each row expires (int64), NULL for the table's own. The errors
        of `TableWriter.write` and `transaction.commit`.
        """
        return write_rows(self._epochs, table, rows, overwrite=overwrite, ttls=ttls)

    def restore(self, table: str, epoch: int) -> int:
        """Replace the rows of a table by those that it had at an epoch, as one epoch; return it.

        Columns that came later are NULL. Rows that expire live as long again as those that are
        written now. EpochNotFoundError, EpochExpiredError, TableNotFoundError if there was no such
        table, SchemaError if it had a column that was dropped since; the errors of `write`.
        """
        then = self.at(epoch)
        columns = restored_columns(user_table(self.state, table, "restored"), then.state)
        batches = then.table(columns.old_table).scan(list(columns.old_names.values()))
        return self.write(table, map(columns.restored, batches), overwrite=True)

    def patch(self, table: str, patches: Rows, *, ttls: pa.Array | None = None) -> int:
        """Change parts of rows of a document table as one epoch, without reading; return the epoch.

        ``patches`` has the key and some other columns, and means what a JSON merge patch does: a
        column that it does not have stays, NULL removes, structs and maps are merged, all else
        is replaced. Of a struct it may have some fields only. A row that there is not comes to be,
        and goes with the last of its columns.
        ``ttls``: seconds after which what is written expires (int64), NULL for the table's own.
        OptionError for a table of rows, SchemaMismatchError, NullKeyError or ValueRangeError if a
        patch does not fit the table; the errors of `transaction.commit`.
        """
        return patch_rows(self._epochs, table, patches, ttls=ttls)

    def document_writer(self, table: str) -> DocumentWriter:
        """Return what changes parts of single rows of a document table, as one epoch.

        OptionError for a table of rows, TableNotFoundError, InternalTableError.
        """
        return DocumentWriter(self._epochs, table)

    def delete(self, table: str, keys: Rows) -> int:
        """Delete the rows with some primary keys as one epoch and return it.

        ``keys`` has the key's columns, and the version column where the delete has a version.
        UsageError for a table without a primary key.
        """
        return write_rows(self._epochs, table, keys, kind=Kind.DELETE)

    # Maintenance

    def compact(
        self, table: str | None = None, progress: Callable[[int, int], None] | None = None
    ) -> CompactionReport:
        """Merge the files of a table, or of all, to one per shard; commit only if that changes any.

        Tables that share files with it are merged too. ``progress`` takes the number of parts done,
        and of all. TableNotFoundError, ConflictError if others never stop compacting.
        """
        state = self.state
        tables = state.tables if table is None else [state.table(table).definition.table_id]
        newest, report = compaction.compact(self._epochs.log, state, tables, progress)
        self._epochs.advance(newest)
        return report

    def repair_clock(self) -> int:
        """Set the store's time back to this machine's, after a commit by a clock that was ahead.

        Return the epoch of the commit, or the latest one if the store's time is not ahead. Call it
        on a machine whose clock is right.
        """
        result = repair_clock(self._epochs.log, self.state)
        self._epochs.advance(result.state)
        return result.epoch

    def vacuum(self, retention: int | None = None, dry_run: bool = False) -> VacuumReport:
        """Remove the files that no epoch of the last ``retention`` seconds needs.

        By default the store's own retention; older epochs can no longer be read. ``dry_run``: only
        report what would be removed. OptionError for a retention that is not a whole number.
        """
        newest, report = vacuum(self._epochs.log, self.state, retention, dry_run=dry_run)
        self._epochs.advance(newest)
        self._readers.clear()
        return report

    def check(
        self,
        progress: Callable[[int, int], None] | None = None,
        *,
        expect_epoch: int | None = None,
    ) -> Report:
        """Verify everything and return what is wrong: see `check.check`.

        Raises ClosedError, OptionError for an ``expect_epoch`` that is not a number, and
        FilesystemError if the store is on a server that does not answer.

        ``progress`` takes the segments done, and how many there are. ``expect_epoch``: an epoch
        that was committed; that its entry is missing from the end of the log nothing else shows.
        """
        self._epochs.check_open()
        expect_epoch = None if expect_epoch is None else epoch_number(expect_epoch)
        try:
            state = self.state
        except RelstateError as error:
            return Report.of_unreadable(self.environment, error)
        return check(self.environment, state, progress, expect_epoch)


def _refuse_rename(name: str, state: StoreState, reader: ViewDefinition) -> ViewDefinition:
    raise DependentViewsError(
        f"{name!r} cannot be renamed here: the view {state.name_of(reader.view_id)!r} reads it by "
        "its name; rename it by SQL, db.sql('ALTER TABLE … RENAME TO …'), which changes the "
        "queries of views too"
    )
