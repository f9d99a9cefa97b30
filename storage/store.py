"""A store: one directory with a commit log and segments, opened, read, written and maintained.

Its tables are created and altered by the calls of its catalog; those of Spark's driver and tasks
are in jobs, those of the planner of views in view_catalog.

Promises: the cost of opening a store does not depend on its number of epochs; every change is one
epoch, all or nothing; one process can open several stores, and one store several times. What every
process needs is imported with the module, and what a call needs besides by that call.
Does not know: Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from relstate.vnode import DEFAULT_VNODE_COUNT, cached_property

from .catalog import Catalog
from .environment import Environment
from .environment_choice import environment_of
from .epochs import Epochs, epoch_number
from .errors import RelstateError
from .instant import micros_of
from .log.entry import Entry, Settings
from .log.state import StoreState
from .read_plan import ReadPlan
from .segment.key import Kind
from .snapshot import Snapshot
from .user_tables import user_table

if TYPE_CHECKING:
    from .check import Report
    from .documentwriter import DocumentWriter
    from .erasure import ErasureReport
    from .jobs import Jobs
    from .maintenance.compaction import CompactionReport
    from .maintenance.vacuum import VacuumReport
    from .rows import Rows
    from .table.statetable import StateTable

DEFAULT_RETENTION = 24 * 3600


class Store(Catalog):
    """An open store, which threads may share; each process opens its own."""

    def __init__(self, epochs: Epochs) -> None:
        """Wrap an opened log; use `create` or `open`."""
        super().__init__(epochs)
        self.environment = epochs.environment

    @classmethod
    def create(
        cls,
        path: str,
        *,
        vnode_count: int = DEFAULT_VNODE_COUNT,
        shards: int | None = None,
        retention: int | str = DEFAULT_RETENTION,
        exist_ok: bool = False,
        storage_options: Mapping[str, str] | None = None,
        environment: Environment | None = None,
    ) -> Store:
        """Create an empty store at ``path`` and open it.

        ``vnode_count``: 1 to 32768, never changed. ``shards``: ranges of vnodes, 16 by default.
        ``retention``: for how long older epochs can be read, in seconds or as a text, ``"7 days"``.
        ``exist_ok``: open an existing store, with any settings. ``storage_options``: those of the
        object store of the path, such as ``{"region": "eu-central-1"}``. OptionError,
        StoreExistsError, NotAStoreError.
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
        max_staleness: int | str = 0,
        environment: Environment | None = None,
    ) -> Store:
        """Open the store at ``path``; ``storage_options`` as in `create`.

        ``max_staleness``: for how long reads may miss commits of others, in seconds or as a text.
        With 0, each read checks for a newer epoch, which is one request in an object store. The
        commits of this object are visible to it at once; commits never use stale state.
        StoreNotFoundError, NotAStoreError, CorruptionError, OptionError.
        """
        environment = environment or environment_of(path, storage_options)
        return cls(Epochs.open(environment, max_staleness))

    def close(self) -> None:
        """Close the store's files; later reads and commits raise ClosedError.

        A state table or scan that has begun can still read its open files.
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
        from .figures.html import tables_html

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
        """The settings that were fixed when the store was created."""
        return self._epochs.settings

    @property
    def state(self) -> StoreState:
        """The state of the store at its latest epoch, looked up now."""
        return self._epochs.state

    @property
    def epoch(self) -> int:
        """The latest committed epoch."""
        return self.state.epoch

    @property
    def known_epoch(self) -> int:
        """The latest epoch that this object knows, at least that of its own last commit.

        It makes no look, which could fail: what a statement returns after its commit.
        """
        return self._epochs.known_epoch

    @cached_property
    def jobs(self) -> Jobs:
        """The plans and commits of distributed work, such as that of Spark's tasks."""
        from .jobs import Jobs

        return Jobs(self._epochs)

    def one_look(self, *, again: bool = False) -> AbstractContextManager[None]:
        """Return a block in which this thread looks up the newest epoch of a bucket only once.

        For the parts of a statement, which are to see one epoch; what this object commits in the
        block, they see. A block inside of another one looks only if ``again``. Looks at a folder
        cost nothing and are left as they are.
        """
        return self._epochs.one_look(again=again)

    # The past

    def at(self, epoch: int) -> Snapshot:
        """Return the store as of an epoch. EpochNotFoundError, EpochExpiredError."""
        return Snapshot(self._epochs, self.state_at(epoch))

    def state_at(self, epoch: int) -> StoreState:
        """Return the store's state as of an epoch. EpochNotFoundError, EpochExpiredError."""
        return self._epochs.state_at(epoch)

    def epoch_at(self, time: datetime) -> int:
        """Return the newest epoch committed at or before a time with a time zone.

        EpochNotFoundError if the store is younger, EpochExpiredError if it was vacuumed,
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
        """Yield the changed rows of a table in a range of epochs, both ends included.

        Batches have the columns of the table, with its schema at the last epoch (by default the
        latest), and ``_change_type``, ``_commit_version`` and ``_commit_timestamp``, as in Delta
        Lake. ``deduplication``: ``dropCarryovers`` for the changes of every commit, or
        ``netChanges`` for the difference between the start and the end. ``update_images``: an
        update is an ``update_preimage`` and an ``update_postimage``, otherwise a ``delete`` and an
        ``insert``. The changes of a row are in the order of the epochs. Errors as of
        `Jobs.feed_plan`.
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
        """Return a state table, which sees its own uncommitted changes: see `StateTable`.

        UsageError for a table whose rows merge or expire, and for one without a primary key.
        """
        from .writing import open_state_table

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
        """Return a plan for other processes to read a table at an epoch, by default the latest.

        Rows that had expired by ``time`` are left out: the default is now for the latest epoch, and
        the time of its commit for a named epoch, so its rows never change.
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

        ``rows``: an object that exports Arrow data (pyarrow, pandas, polars, DuckDB), an iterator
        of RecordBatches, or a list or iterator of dicts. Of two rows with one key the later wins,
        or they are merged by the table's merge behaviour. In a table without a primary key every
        row is new.
        ``ttls``: the time to live of each row in seconds (int64), NULL for that of the table. The
        errors of `TableWriter.write` and `transaction.commit`.
        """
        from .writing import write_rows

        return write_rows(self._epochs, table, rows, overwrite=overwrite, ttls=ttls)

    def restore(self, table: str, epoch: int) -> int:
        """Replace the rows of a table with those that it had at an epoch, as one epoch; return it.

        Columns that were added later are NULL. The time to live of rows starts again.
        EpochNotFoundError, EpochExpiredError, TableNotFoundError if there was no such table,
        SchemaError if it had a column that was dropped since; the errors of `write`.
        """
        from .restoring import restored_columns

        then = self.at(epoch)
        columns = restored_columns(user_table(self.state, table, "restored"), then.state)
        batches = then.table(columns.old_table).scan(list(columns.old_names.values()))
        return self.write(table, map(columns.restored, batches), overwrite=True)

    def patch(self, table: str, patches: Rows, *, ttls: pa.Array | None = None) -> int:
        """Change parts of rows of a document table as one epoch, without reading; return the epoch.

        ``patches`` has the key and some other columns, and is applied like a JSON merge patch:
        missing columns keep their values, NULL removes, structs and maps are merged, all other
        values are replaced. It may have some fields of a struct. A missing row is created, and
        disappears with the last of its columns.
        ``ttls``: the time to live of the written parts in seconds (int64), NULL for that of the
        table.
        OptionError for a table of rows, SchemaMismatchError, NullKeyError or ValueRangeError if a
        patch does not fit the table; the errors of `transaction.commit`.
        """
        from .writing import patch_rows

        return patch_rows(self._epochs, table, patches, ttls=ttls)

    def document_writer(self, table: str) -> DocumentWriter:
        """Return a writer that changes parts of single rows of a document table, as one epoch.

        OptionError for a table of rows, TableNotFoundError, InternalTableError.
        """
        from .documentwriter import DocumentWriter

        return DocumentWriter(self._epochs, table)

    def delete(self, table: str, keys: Rows) -> int:
        """Delete the rows with some primary keys as one epoch and return it.

        ``keys`` has the columns of the key, and of a table with version columns these too (NULL is
        the lowest version). UsageError for a table without a primary key.
        """
        from .writing import write_rows

        return write_rows(self._epochs, table, keys, kind=Kind.DELETE)

    def erase(self, table: str, keys: Rows = (), *, dry_run: bool = False) -> ErasureReport:
        """Delete the rows with some primary keys, and remove them from all files of the store.

        ``keys``: dicts or Arrow data with the columns of the primary key; without them, what was
        deleted before is removed. Files are rewritten of the table, its indexes, and the views that
        read it; earlier epochs can no longer be read, whatever the retention, and keys leave the
        log. The report says what the store cannot reach. An interrupted call is completed by the
        same call. ``dry_run``: only report the tables and files that may hold the rows.
        `Database.erase` refreshes the views first; here DependentViewsError, after the rows were
        deleted, if a view has not followed that, or needs an earlier epoch.
        TableNotFoundError, InternalTableError for a view, AppendOnlyError, UsageError for keys of a
        table without a primary key, SchemaMismatchError; ConflictError if others keep compacting.
        """
        report = self.jobs.erase(table, keys, lambda: None, dry_run=dry_run)
        self._readers.clear()
        return report

    # Maintenance

    def compact(
        self, table: str | None = None, progress: Callable[[int, int], None] | None = None
    ) -> CompactionReport:
        """Merge the files of a table, or of all tables, to one per shard.

        It commits nothing if there is nothing to merge. Tables that share files with it are merged
        too. ``progress`` is called with the number of finished parts and of all parts.
        TableNotFoundError, ConflictError if others keep compacting.
        """
        from .maintenance import compaction

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
        from .log.transaction import repair_clock

        result = repair_clock(self._epochs.log, self.state)
        self._epochs.advance(result.state)
        return result.epoch

    def vacuum(self, retention: int | str | None = None, dry_run: bool = False) -> VacuumReport:
        """Remove the files that no epoch of the last ``retention`` seconds needs.

        A text, ``"7 days"``, is a retention too; by default it is the store's own. Older epochs can
        no longer be read. ``dry_run``: only report what would be removed. OptionError for a
        retention that is neither.
        """
        from .maintenance.vacuum import vacuum

        newest, report = vacuum(self._epochs.log, self.state, retention, dry_run=dry_run)
        self._epochs.advance(newest)
        self._readers.clear()
        return report

    def check(
        self,
        progress: Callable[[int, int], None] | None = None,
        *,
        expect_epoch: int | None = None,
        part: int = 1,
        parts: int = 1,
    ) -> Report:
        """Verify the store and return a report of the problems: see `check.check`.

        Raises ClosedError, OptionError for an ``expect_epoch`` that is not a number or a part that
        does not exist, and FilesystemError if the store is on a server that does not answer.

        ``part``, ``parts``: which of how many parts of the files are read, from 1; the log is read
        in each. So 30 checks, of one part each, read a large store once.

        ``progress`` is called with the number of checked segments and of all segments.
        ``expect_epoch``: an epoch that was committed, to detect that the newest log entries are
        missing.
        """
        from .check import Part, Report, check

        self._epochs.check_open()
        expect_epoch = None if expect_epoch is None else epoch_number(expect_epoch)
        files = Part(part, parts)
        try:
            state = self.state
        except RelstateError as error:
            return Report.of_unreadable(self.environment, error)
        return check(self.environment, state, progress, expect_epoch, files)
