"""Work on a store that other processes share: planned here, run there, committed here.

Spark's driver asks for plans, which travel to the tasks; the tasks return what they wrote, and the
driver commits it. Users read and write by `Store` itself.

Promises: a plan is a value, and says all that another process needs; what was written elsewhere
becomes visible by one commit or not at all.
Does not know: Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

import pyarrow as pa

from relstate.vnode import cached_property

from .catalog_commit import check_storable
from .epochs import Epochs, epoch_number
from .errors import ConflictError
from .log.entry import Entry
from .log.proposal import NewTable, Proposal, Reads
from .log.segment_record import SegmentRecord
from .log.table_definition import TableDefinition
from .log.table_segments import select
from .read_plan import ReadPlan
from .schema.types import Field
from .table.encoding import encoding_of
from .table.writetarget import WriteTarget
from .writing import changes_any, write_target

if TYPE_CHECKING:
    from .erasure import ErasureReport
    from .feed.expiries import Expiries
    from .feed.feed_plan import FeedPlan, FeedSnapshot
    from .log.transaction import CommitResult
    from .maintenance.compaction import CompactionJob, CompactionReport
    from .rows import Rows
    from .segment.writer import SegmentWriter

_ATTEMPTS_TO_MERGE = 10


class Jobs:
    """The plans and commits of work on an open store. Safe between threads."""

    def __init__(self, epochs: Epochs) -> None:
        self._epochs = epochs

    @cached_property
    def _expiries(self) -> Expiries:
        from .feed.expiries import Expiries

        return Expiries(self._epochs.environment)

    # Writing

    def write_target(self, name: str, *, expiring: bool = False) -> WriteTarget:
        """Return what other processes need to write rows of a table. InternalTableError.

        ``expiring``: rows that expire, though the table has no TTL. DependentViewsError if a view
        reads it: the rows leave without a commit that the view could follow.
        """
        return write_target(self._epochs, name, expiring=expiring)

    def quarantine_target(self, table: str) -> WriteTarget:
        """Return what other processes need to write rows to the quarantine of a table.

        It is created if there is none. TableNotFoundError, InternalTableError, OptionError for a
        quarantine, SchemaMismatchError for one that was altered.
        """
        from .quarantine import quarantine_target

        return quarantine_target(self._epochs, table)

    def row_reads(self, target: WriteTarget, keys: pa.RecordBatch) -> Reads:
        """Return that a commit relies on rows with some keys, as they were at the target's epoch.

        ``keys``: a batch with the columns of the primary key.
        """
        encoding = encoding_of(target.definition, target.vnode_count)
        full_keys = encoding.encode_keys(encoding.conform_keys(keys))
        return Reads(target.epoch, partial(changes_any, self._epochs, encoding, full_keys))

    def new_target(self, table: NewTable) -> WriteTarget:
        """Return what other processes need to write rows of a table that is to be created.

        Its id is the next one: name that in the proposal, as ``first_table_id``. The errors of
        `Store.create_table`.
        """
        check_storable(table)
        state = self._epochs.state
        definition = table.definition(state.next_table_id, state.epoch + 1)
        settings = state.settings
        return WriteTarget(self._epochs.path, definition, settings.vnode_count, settings.shards)

    def merged_target(self, target: WriteTarget, fields: Sequence[Field]) -> WriteTarget:
        """Return a target whose table has the columns of ``fields`` as well, as wide as these.

        The table is altered by `commit_merging`, with the rows. Errors as of `merged_definition`.
        """
        state = self._epochs.state
        from .schema_merge import merged_definition

        return replace(target, definition=merged_definition(state, target.definition, fields))

    def commit_merging(
        self, proposal: Proposal, written: TableDefinition, fields: Sequence[Field]
    ) -> CommitResult:
        """Commit rows that were written under the definition of a `merged_target`.

        The table gets that definition in the same epoch. ConflictError if others altered it so that
        it cannot; errors as of `commit`.
        """
        from .schema_merge import alterations, altered_meanwhile_error

        for _ in range(_ATTEMPTS_TO_MERGE):
            altered = alterations(self._epochs.state, written, fields)
            try:
                return self.commit(replace(proposal, altered_tables=altered))
            except ConflictError:
                continue
        raise altered_meanwhile_error(written.name)

    def segment_writer(self) -> SegmentWriter:
        """Return a writer of segments for this store.

        An error in its ``with`` block removes the segments: commit them after the block.
        """
        return self._epochs.segment_writer()

    def commit(self, proposal: Proposal) -> CommitResult:
        """Commit a proposal: see `transaction.commit`.

        AppendOnlyError if it would change a row of an append-only table, or adds a row with a key
        that the table has already. After UnknownOutcomeError the commit may have happened: its
        segments must not be discarded.
        """
        return self._epochs.commit(proposal)

    def commit_uncompacted(self, proposal: Proposal) -> tuple[CommitResult, frozenset[int]]:
        """Commit a proposal as `commit` does, but merge no files.

        Return also the ids of the tables that `auto_compact` is to be called for, in any thread.
        """
        return self._epochs.commit_uncompacted(proposal)

    def auto_compact(self, table_ids: Collection[int]) -> None:
        """Merge files of some tables where that is due. Errors are logged."""
        self._epochs.auto_compact(table_ids)

    def discard(self, segments: Sequence[SegmentRecord]) -> None:
        """Remove segments that no commit names: theirs was refused, by an error that says so.

        After UnknownOutcomeError leave them to `Store.vacuum`.
        """
        self._epochs.discard(segments)

    def discarding(self, segments: Sequence[SegmentRecord]) -> AbstractContextManager[None]:
        """Remove segments if the block, which commits them, is refused.

        For what no one commits again. Not after UnknownOutcomeError.
        """
        return self._epochs.discarding(segments)

    # Changes

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
        shows_expiry: bool = False,
        times: tuple[int, int] | None = None,
    ) -> FeedPlan:
        """Return what other processes need to read the changes that `Store.changes` yields.

        A feed that ends right before it begins is empty. ``pending``: a commit that is about to
        follow the last epoch, whose changes belong to the feed. ``shows_expiry``: the feed is of
        all rows, whether or not they have expired, each with its `EXPIRY`. ``times``: by which
        rows and parts of rows have expired that are not there before the feed, and after it: see
        `FeedRequest`; they take the place of those of the epochs. EpochNotFoundError,
        EpochExpiredError, TableNotFoundError, also if the table was dropped and created again
        within the range; OptionError for a range that ends before it begins, or that holds a
        repair of the clock if rows expire; SchemaMismatchError for an unknown column.
        """
        first = epoch_number(first_epoch)
        last = None if last_epoch is None else epoch_number(last_epoch)
        from .feed.planning import FeedRequest, plan_feed

        request = FeedRequest(
            name, first, last, deduplication, update_images, columns, pending, shows_expiry, times
        )
        return plan_feed(self._epochs.log, self._epochs.state, request, self._expiries)

    def next_expiry(self, table_id: int, epoch: int, time: int) -> int | None:
        """Return the first time after ``time`` by which a table may have other rows.

        It is of the table at an epoch that is still kept, to which nothing is written any more.
        Times are in microseconds since 1970; None if nothing more of it expires.
        """
        state = self._epochs.state_at(epoch)
        encoding = encoding_of(state.tables[table_id].definition, state.settings.vnode_count)
        expiring = select(state.segments_of(table_id), table_id, attrgetter("expiring"))
        return self._expiries.next_time(encoding, expiring, time)

    def feed_snapshot(
        self, name: str, epoch: int, *, columns: Sequence[str] | None = None
    ) -> FeedSnapshot:
        """Return a table at an epoch as a feed of inserts; its changes follow after the epoch."""
        state = self._epochs.state_at(epoch)
        plan = ReadPlan.of(self._epochs.path, state, name, time=state.time)
        from .feed.planning import snapshot_of

        return snapshot_of(plan, state.time, columns)

    def data_epochs(self, table_id: int, after: int, last: int | None = None) -> Iterator[int]:
        """Yield the epochs after ``after`` that may have changed a table's rows, ascending."""
        state = self._epochs.state
        last = state.epoch if last is None else last
        from .feed.planning import data_epochs

        return data_epochs(self._epochs.log, state, table_id, after, last)

    def feed_epochs(self, table_id: int, after: int, last: int | None = None) -> Iterable[int]:
        """Return the epochs after ``after`` of which a table's feed may have changes, ascending.

        Those of `data_epochs`; of a table whose rows expire, all from the first by which one may
        have expired.
        """
        state = self._epochs.state
        last = state.epoch if last is None else last
        from .feed.planning import feed_epochs

        return feed_epochs(self._epochs.log, state, table_id, after, last)

    def newest_feed_epoch(self, table_id: int, after: int) -> int:
        """Return the newest epoch that `feed_epochs` may return, of a table that exists."""
        from .feed.planning import newest_feed_epoch

        return newest_feed_epoch(self._epochs.log, self._epochs.state, table_id, after)

    def entry(self, epoch: int) -> Entry:
        """Return the entry of the log that committed an epoch. EpochNotFoundError."""
        return self._epochs.entry(epoch_number(epoch))

    # Erasure

    def erase(
        self, table: str, keys: Rows, refresh: Callable[[], object], *, dry_run: bool = False
    ) -> ErasureReport:
        """Do what `Store.erase` does, in a store whose views ``refresh`` brings up to date."""
        from .erasure import erase

        return erase(self._epochs, table, keys, refresh, dry_run=dry_run)

    # Compaction

    def compaction_job(self, table: str, *, spares_young: bool = False) -> CompactionJob | None:
        """Return the job of compacting a table, to run in parts elsewhere; None if nothing is due.

        ``spares_young``: leave young files to automatic merges, as a second attempt does while a
        writer is busy. TableNotFoundError.
        """
        from .maintenance.compaction import CompactionJob

        state = self._epochs.state
        table_id = state.table(table).definition.table_id
        environment = self._epochs.environment
        return CompactionJob.plan(environment, state, table_id, spares_young=spares_young)

    def commit_compaction(
        self, job: CompactionJob, records: Sequence[SegmentRecord]
    ) -> CompactionReport:
        """Commit what all parts of a job have written.

        Errors as of `CompactionJob.commit`.
        """
        newest, report = job.commit(self._epochs.log, self._epochs.state, records)
        self._epochs.advance(newest)
        return report
