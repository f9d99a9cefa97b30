"""A store: one directory with a commit log and segments, and the tables in it.

Promises: opening it costs the same however many epochs it has; every change is one epoch, all or
nothing; two stores, or one store twice, can be open in one process.
Does not know: Spark. It only composes what the other files do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

import pyarrow as pa

from relstate.vnode import DEFAULT_SHARDS, DEFAULT_VNODE_COUNT, MAX_VNODE_COUNT

from .appending import AppendCheck
from .catalog import Catalog
from .check import Report, check
from .environment import Environment, environment_of
from .errors import (
    ClosedError,
    OptionError,
    StoreExistsError,
)
from .executor import open_state_table
from .feed.plan import FeedPlan, FeedRequest, data_epochs, plan_feed
from .feed.snapshot import FeedSnapshot, snapshot_of
from .instant import micros_of
from .log.entry import Entry, SegmentRecord, Settings
from .log.log import Log
from .log.proposal import Proposal
from .log.rules import check_unread
from .log.state import StoreState
from .log.transaction import CommitResult, commit
from .paths import SEGMENTS, segment_path
from .plan import ReadPlan, WriteTarget
from .segment.kind import Kind
from .segment.registry import registry
from .segment.writer import SegmentWriter
from .snapshot import LatestReader, Snapshot, plan_at
from .table.statetable import StateTable
from .table.table import Table
from .upkeep import compaction
from .upkeep.compaction import CompactionReport
from .upkeep.job import CompactionJob
from .upkeep.vacuum import VacuumReport, vacuum
from .writing import Rows, write_rows

DEFAULT_RETENTION = 24 * 3600


class Store(Catalog):
    """An open store. Safe between threads; each process opens its own."""

    def __init__(self, environment: Environment, log: Log, state: StoreState) -> None:
        """Wrap an opened log; use `create` or `open`."""
        self.environment = environment
        self._log = log
        self._state = state
        self._closed = False

    @classmethod
    def create(
        cls,
        path: str,
        *,
        vnode_count: int = DEFAULT_VNODE_COUNT,
        shards: int | None = None,
        retention: int = DEFAULT_RETENTION,
        exist_ok: bool = False,
        environment: Environment | None = None,
    ) -> Store:
        """Make an empty store at ``path`` and open it.

        ``vnode_count``: 1 to 32768, fixed for ever. ``shards``: ranges of vnodes, 16 by default.
        ``retention``: seconds for which older epochs stay readable. ``exist_ok``: open a store
        that is there already, whatever its settings. OptionError, StoreExistsError, NotAStoreError.
        """
        shards = min(DEFAULT_SHARDS, vnode_count) if shards is None else shards
        _check_settings(vnode_count, shards, retention)
        environment = environment or environment_of(path)
        log = Log(environment)
        settings = Settings(environment.random_id(), vnode_count, shards, retention)
        try:
            return cls(environment, log, log.create(settings))
        except StoreExistsError:
            if not exist_ok:
                raise
            return cls(environment, log, log.load())

    @classmethod
    def open(cls, path: str, *, environment: Environment | None = None) -> Store:
        """Open the store at ``path``. StoreNotFoundError, NotAStoreError, CorruptionError."""
        environment = environment or environment_of(path)
        log = Log(environment)
        return cls(environment, log, log.load())

    def close(self) -> None:
        """Let go of the files; what is read or committed later raises ClosedError.

        A state table or a scan that is under way still reads what it has open.
        """
        self._closed = True
        registry.close(self.environment.local_path(SEGMENTS))

    def check_open(self) -> None:
        """Raise ClosedError if the store was closed."""
        if self._closed:
            raise ClosedError(f"{self.path}: this store was closed; open it again")

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Store({self.path!r})"

    # What it is

    @property
    def path(self) -> str:
        """The store's folder."""
        return self.environment.location("")

    @property
    def settings(self) -> Settings:
        """What was fixed when the store was created."""
        return self._state.settings

    @property
    def state(self) -> StoreState:
        """The store at its latest epoch, looked up now."""
        self.check_open()
        state = self._state
        newest = self._log.refresh(state)
        if newest is not state:
            self._state = newest
        return newest

    @property
    def epoch(self) -> int:
        """The latest committed epoch."""
        return self.state.epoch

    def table(self, name: str) -> Table:
        """Return a table that follows the latest epoch. TableNotFoundError."""
        reader = LatestReader(self, name)
        reader()
        return Table(name, reader)

    # The past

    def at(self, epoch: int) -> Snapshot:
        """Return the store as of an epoch. EpochNotFoundError, EpochExpiredError."""
        return Snapshot(self, self.state_at(epoch))

    def state_at(self, epoch: int) -> StoreState:
        """Return the store's state as of an epoch. EpochNotFoundError, EpochExpiredError."""
        return self._log.state_at(self.state, epoch)

    def epoch_at(self, time: datetime) -> int:
        """Return the newest epoch committed at or before a time, which has a time zone.

        EpochNotFoundError if the store is younger, EpochExpiredError if the epoch is not kept,
        OptionError for a time without a zone.
        """
        return self._log.epoch_at(self.state, micros_of(time))

    def history(self) -> Iterator[Entry]:
        """Yield what every commit said, the newest first."""
        return self._log.history(self.state)

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
        the order of the epochs. Errors as of `feed_plan`.
        """
        plan = self.feed_plan(
            name,
            first_epoch,
            last_epoch,
            deduplication=deduplication,
            update_images=update_images,
            columns=columns,
        )
        return plan.read(environment=self.environment)

    def feed_plan(
        self,
        name: str,
        first_epoch: int,
        last_epoch: int | None = None,
        *,
        deduplication: str = "dropCarryovers",
        update_images: bool = True,
        columns: Sequence[str] | None = None,
        pending: Entry | None = None,
    ) -> FeedPlan:
        """Return what other processes need to read the changes that `changes` yields.

        A feed that ends right before it begins is empty. ``pending``: a commit that is about to
        follow the last epoch, whose changes belong to the feed. EpochNotFoundError,
        EpochExpiredError, TableNotFoundError, also where the table was dropped and created anew
        within the range; OptionError for a range that ends before it begins, or a table with a TTL;
        SchemaMismatchError for an unknown column.
        """
        request = FeedRequest(
            name, first_epoch, last_epoch, deduplication, update_images, columns, pending
        )
        return plan_feed(self._log, self.state, request)

    def feed_snapshot(
        self, name: str, epoch: int, *, columns: Sequence[str] | None = None
    ) -> FeedSnapshot:
        """Return a table as a feed of inserts at an epoch, behind which its changes follow."""
        plan = self.read_plan(name, epoch=epoch)
        return snapshot_of(plan, self.state_at(epoch).time, columns)

    def data_epochs(self, table_id: int, after: int, last: int | None = None) -> Iterator[int]:
        """Yield the epochs behind one that may have changed a table's rows, ascending."""
        state = self.state
        return data_epochs(self._log, state, table_id, after, last or state.epoch)

    def state_table(
        self, name: str, *, strict: bool = False, vnodes: Sequence[range] | None = None
    ) -> StateTable:
        """Return a table as a streaming executor uses it: see `StateTable`.

        UsageError for a table whose rows are merged or expire: it holds its rows as they are put.
        """
        return open_state_table(self, name, vnodes, strict)

    # Reading and writing elsewhere

    def read_plan(
        self,
        name: str,
        *,
        epoch: int | None = None,
        columns: Sequence[str] | None = None,
        time: datetime | None = None,
    ) -> ReadPlan:
        """Return what other processes need to read a table at an epoch, by default the latest.

        Rows that had expired by ``time`` are left out: by default now for the latest epoch, for
        one that is named its own time, so that it answers the same for ever.
        TableNotFoundError, SchemaError for an unknown column, the errors of `at`, OptionError for
        a time without a zone.
        """
        state = self.state if epoch is None else self.state_at(epoch)
        if time is not None:
            moment = micros_of(time)
        else:
            moment = self.environment.now() if epoch is None else state.time
        return plan_at(self, state, max(moment, state.time), name, columns)

    def write_target(self, name: str, *, expiring: bool = False) -> WriteTarget:
        """Return what other processes need to write rows of a table. InternalTableError.

        ``expiring``: rows that expire, though the table has no TTL. DependentViewsError if a view
        reads it: no commit would tell the view that they are gone.
        """
        definition = self.free_table(name, "written")
        if expiring:
            check_unread(self.state, definition.table_id, "written with rows that expire")
        return WriteTarget(self.path, definition, self.settings.vnode_count, self.settings.shards)

    def write(
        self, table: str, rows: Rows, *, overwrite: bool = False, ttls: pa.Array | None = None
    ) -> int:
        """Upsert rows as one epoch and return it; with ``overwrite`` they replace all others.

        Of two rows of one key the later wins, or what the table's merge behaviour makes of them.
        ``ttls``: seconds after which each row expires (int64), NULL for the table's own. The errors
        of `TableWriter.write` and `transaction.commit`.
        """
        return write_rows(self, table, rows, overwrite=overwrite, ttls=ttls)

    def delete(self, table: str, keys: Rows) -> int:
        """Delete the rows with some primary keys as one epoch and return it.

        ``keys`` has the key's columns, and the version column where the delete has a version.
        """
        return write_rows(self, table, keys, kind=Kind.DELETE)

    def segment_writer(self) -> SegmentWriter:
        """Return a writer of segments for this store."""
        return SegmentWriter(self.environment, self.settings.vnode_count, self.settings.shards)

    def commit(self, proposal: Proposal) -> CommitResult:
        """Commit a proposal: see `transaction.commit`.

        AppendOnlyError if it would change a row of an append-only table, or has one with a key
        that is there.
        """
        appends = AppendCheck(self.environment, proposal)
        done = commit(self._log, self.state, proposal, appends)
        self._state = done.state
        if proposal.segments and proposal.data_change:
            tables = {table.table_id for one in proposal.segments for table in one.tables}
            self._state = compaction.tend(self._log, done.state, tables)
        return done

    def discard(self, segments: Sequence[SegmentRecord]) -> None:
        """Remove segments that were written for a commit which was refused: no other names them."""
        for record in segments:
            self.environment.remove(segment_path(record.name))

    # Upkeep

    def compact(
        self, table: str | None = None, progress: Callable[[int, int], None] | None = None
    ) -> CompactionReport:
        """Merge the files of a table, or of all, to one a shard; nothing to do is no commit.

        Tables that share files with it are merged too. ``progress`` takes the parts done, and how
        many there are. TableNotFoundError, ConflictError where others never stop compacting.
        """
        state = self.state
        tables = state.tables if table is None else [state.table(table).definition.table_id]
        self._state, report = compaction.compact(self._log, state, tables, progress)
        return report

    def compaction_job(self, table: str, *, spares_young: bool = False) -> CompactionJob | None:
        """Return what `compact` would do for a table, to be run in parts elsewhere; None: nothing.

        ``spares_young``: leave young files that automatic merges take care of, as a second attempt
        beside a busy writer does. TableNotFoundError if there is no such table.
        """
        state = self.state
        return CompactionJob.planned(
            self.environment,
            state,
            state.table(table).definition.table_id,
            spares_young=spares_young,
        )

    def commit_compaction(
        self, job: CompactionJob, records: Sequence[SegmentRecord]
    ) -> CompactionReport:
        """Commit what all parts of a job have written.

        ConflictError if a file was taken away meanwhile, TableNotFoundError if a table was dropped.
        """
        self._state, report = job.commit(self._log, self.state, records)
        return report

    def vacuum(self, retention: int | None = None, dry_run: bool = False) -> VacuumReport:
        """Remove the files that no epoch of the last ``retention`` seconds needs.

        By default the store's own retention; older epochs can no longer be read. ``dry_run``: only
        tell what would go. OptionError for a negative retention.
        """
        self._state, report = vacuum(self._log, self.state, retention, dry_run=dry_run)
        return report

    def check(self, progress: Callable[[int, int], None] | None = None) -> Report:
        """Verify everything: see `check`; ``progress`` takes the segments done, and how many."""
        return check(self.environment, self._log, self.state, progress)


def _check_settings(vnode_count: int, shards: int, retention: int) -> None:
    if not 1 <= vnode_count <= MAX_VNODE_COUNT:
        raise OptionError(f"vnode_count must be 1 to {MAX_VNODE_COUNT}, not {vnode_count}")
    if not 1 <= shards <= vnode_count:
        raise OptionError(f"shards must be 1 to vnode_count ({vnode_count}), not {shards}")
    if retention < 0:
        raise OptionError(f"retention is in seconds and cannot be negative: {retention}")
