"""A commit: what one proposes, the checks it must pass, and the race for the next epoch.

Promises: what was proposed is in the log once, whole, or not at all; every check is made against
the very state that the commit follows, at every attempt. Writes that read nothing never conflict:
the later epoch wins.
Does not know: how rows get into segments, or who is to try again after a conflict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..environment import Environment
from ..errors import (
    ClockError,
    ConflictError,
    CorruptionError,
    OptionError,
    RepeatedWriteError,
    SegmentMissingError,
    StaleJobError,
    TableExistsError,
    TableNotFoundError,
)
from ..paths import SEGMENTS, segment_path
from ..schema.properties import PLAIN, TableProperties
from ..schema.schema import TableSchema
from .entry import MAX_SEGMENTS, Entry, SegmentRecord, TableDefinition, Transaction
from .log import Log
from .state import StoreState
from .time import iso_time

# Vacuum removes files that no commit names once they are older than this; so a commit must not
# name files of a job that began longer ago.
ORPHAN_GRACE = 24 * 3600 * 1_000_000
# How far, in microseconds, this machine's clock may be behind the last commit.
CLOCK_TOLERANCE = 60 * 1_000_000
# A lost race means that somebody else committed; so many in a row mean something else.
_ATTEMPTS = 1_000


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table to be created; the commit gives it its id."""

    name: str
    schema: TableSchema
    properties: TableProperties = PLAIN


@dataclass(frozen=True, slots=True)
class AlteredTable:
    """A table's definition, and the one that is to take its place."""

    before: TableDefinition
    after: TableDefinition


@dataclass(frozen=True, slots=True)
class Reads:
    """What a proposal rests on: it read the store at ``epoch``.

    ``conflicts`` tells of an entry committed since whether it changed what was read.
    """

    epoch: int
    conflicts: Callable[[Entry], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What one wants committed as one epoch, over any number of tables.

    ``operation`` names it for the history; ``started`` is when its job began, in microseconds
    since 1970; ``data_change`` is False for upkeep, which no reader notices. ``segments`` are in
    the order of their ranks, already published. ``removed`` names segments that upkeep replaced.
    ``dropped_tables`` and ``based_tables`` are ids; based ones keep only what this commit adds.
    ``transactions`` make a retry of the same work recognisable. ``reads`` is None for blind writes.
    ``oldest_epoch``: what is older can no longer be read after this commit.
    """

    operation: str
    started: int
    data_change: bool = True
    segments: tuple[SegmentRecord, ...] = ()
    removed: tuple[str, ...] = ()
    created_tables: tuple[NewTable, ...] = ()
    altered_tables: tuple[AlteredTable, ...] = ()
    dropped_tables: tuple[int, ...] = ()
    based_tables: tuple[int, ...] = ()
    transactions: tuple[Transaction, ...] = ()
    reads: Reads | None = None
    oldest_epoch: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether a commit of it would change nothing: transactions alone are no change."""
        return self.oldest_epoch is None and not (
            self.segments
            or self.removed
            or self.created_tables
            or self.altered_tables
            or self.dropped_tables
            or self.based_tables
        )


@dataclass(frozen=True, slots=True)
class Committed:
    """The proposal is in the log as ``epoch``; ``state`` is the store's at it."""

    epoch: int
    state: StoreState


@dataclass(frozen=True, slots=True)
class Skipped:
    """Nothing was to be committed: no rows, or all there already. The store is at ``epoch``."""

    epoch: int
    state: StoreState


def commit(log: Log, state: StoreState, proposal: Proposal) -> Committed | Skipped:
    """Commit a proposal as the next epoch, durably; ``state`` is any earlier one of the store.

    What cannot be committed raises and changes nothing: ConflictError, TableNotFoundError (dropped
    meanwhile), TableExistsError, SegmentMissingError, CorruptionError, RepeatedWriteError,
    StaleJobError, ClockError, StorageFullError, FilesystemError. After UnknownOutcomeError the
    commit may be in the log or not.
    """
    if proposal.is_empty:
        return Skipped(state.epoch, state)
    environment = log.environment
    checked = None if proposal.reads is None else proposal.reads.epoch
    if proposal.segments:
        environment.sync_folder(SEGMENTS)
    known, state = state, log.confirm(state)
    for _ in range(_ATTEMPTS):
        state = log.refresh(state)
        if _is_committed(state, proposal):
            return Skipped(state.epoch, state)
        if proposal.reads is not None and checked is not None:
            _check_reads(log, proposal.reads, checked, state.epoch)
            checked = state.epoch
        _check_catalog(known, state, proposal)
        _check_segments(environment, state, proposal)
        entry = _entry(environment, state, proposal)
        if log.append(entry):
            state = state.apply(entry)
            log.tend(state)
            return Committed(entry.epoch, state)
    raise ConflictError(
        f"{environment.location('')}: lost the race for the next epoch {_ATTEMPTS} times; "
        "nothing was committed: let fewer writers commit at once and try again"
    )


def _is_committed(state: StoreState, proposal: Proposal) -> bool:
    """Return whether all of a proposal's transactions are in the store.

    A batch is there if it or a later one is: ids may have gaps. RepeatedWriteError if the run that
    wrote the last batch brings it a second time; ConflictError if some tables have it, others not.
    """
    done = [one for one in proposal.transactions if _is_done(state, one)]
    if not done:
        return False
    if len(done) < len(proposal.transactions):
        raise ConflictError(
            f"batch {done[0].batch} of writer {done[0].writer!r} is in table "
            f"{_name(state, done[0].table_id)}, but not in all tables this commit writes; nothing "
            "was committed: write the tables of a batch in one commit, or under other writer ids"
        )
    return True


def _is_done(state: StoreState, transaction: Transaction) -> bool:
    last = state.transactions.get((transaction.writer, transaction.table_id))
    if last is None or transaction.batch > last.batch:
        return False
    if transaction.batch == last.batch and transaction.run == last.run is not None:
        raise RepeatedWriteError(
            f"a second write of table {_name(state, transaction.table_id)} by one run and batch "
            f"(writer {transaction.writer!r}, run {transaction.run}, batch {transaction.batch}); "
            "nothing was committed: write each table once a batch"
        )
    return True


def _check_reads(log: Log, reads: Reads, after: int, epoch: int) -> None:
    for entry in log.entries(after + 1, epoch):
        if entry.data_change and reads.conflicts(entry):
            raise ConflictError(
                f"epoch {entry.epoch} ({entry.operation}) changed what was read at epoch "
                f"{reads.epoch}; nothing was committed: read again and retry"
            )


def _check_catalog(known: StoreState, state: StoreState, proposal: Proposal) -> None:
    """Check that the tables written are there, and the names of new ones free.

    ``known`` is the earlier state that the proposal was made from.
    """
    touched = {table.table_id for segment in proposal.segments for table in segment.tables}
    touched.update(transaction.table_id for transaction in proposal.transactions)
    touched.update(proposal.dropped_tables, proposal.based_tables)
    touched.update(altered.before.table_id for altered in proposal.altered_tables)
    for table_id in sorted(touched):
        _check_live(known, state, table_id)
    for altered in proposal.altered_tables:
        _check_unaltered(state, altered.before)
    taken = state.table_ids.keys() - {
        state.tables[table_id].definition.name.lower() for table_id in proposal.dropped_tables
    }
    for table in proposal.created_tables:
        if table.name.lower() in taken:
            raise TableExistsError(
                f"there is a table {table.name!r} already: drop it, or take another name"
            )
        taken.add(table.name.lower())


def _check_unaltered(state: StoreState, definition: TableDefinition) -> None:
    if state.tables[definition.table_id].definition != definition:
        raise ConflictError(
            f"table {definition.name!r} was altered meanwhile; nothing was committed: look at its "
            "columns again and retry"
        )


def _check_live(known: StoreState, state: StoreState, table_id: int) -> None:
    if table_id in state.tables:
        return
    if table_id < state.next_table_id:
        raise TableNotFoundError(
            f"the table {_name(known, table_id)} was dropped meanwhile; nothing was committed"
        )
    raise TableNotFoundError(f"there never was a table with the id {table_id}")


def _check_segments(environment: Environment, state: StoreState, proposal: Proposal) -> None:
    """Check that the segments to be added are there, whole and new, those to be removed known."""
    if len(proposal.segments) > MAX_SEGMENTS:
        raise OptionError(
            f"{len(proposal.segments)} segments, but a commit takes at most {MAX_SEGMENTS}: "
            "write in fewer tasks"
        )
    for record in proposal.segments:
        _check_file(environment, record)
        if record.name in state.segments:
            raise ConflictError(
                f"segment {record.name} is part of epoch {state.segments[record.name].epoch} "
                "already; nothing was committed: what was written is there"
            )
    for name in proposal.removed:
        if name not in state.segments:
            raise ConflictError(
                f"segment {name} was replaced meanwhile; nothing was committed: look at the "
                "store again and retry"
            )


def _check_file(environment: Environment, record: SegmentRecord) -> None:
    path = segment_path(record.name)
    try:
        size = environment.size(path)
    except FileNotFoundError:
        raise SegmentMissingError(
            f"{environment.location(path)}: this segment is to be committed, but it is not there; "
            "nothing was committed: was it vacuumed, or written on another machine's disk?"
        ) from None
    if size != record.size:
        raise CorruptionError(
            f"{environment.location(path)}: {size} bytes, but {record.size} were written; nothing "
            "was committed: write again"
        )


def _entry(environment: Environment, state: StoreState, proposal: Proposal) -> Entry:
    """Return the entry that commits a proposal right after a state."""
    epoch = state.epoch + 1
    time = _commit_time(environment, state)
    _check_age(time, proposal)
    created = (
        TableDefinition(table_id, table.name, table.schema, epoch, table.properties)
        for table_id, table in enumerate(proposal.created_tables, state.next_table_id)
    )
    return Entry(
        commit_id=environment.random_id(),
        parent=state.commit_id,
        epoch=epoch,
        time=time,
        started=proposal.started,
        operation=proposal.operation,
        data_change=proposal.data_change,
        added=proposal.segments,
        removed=proposal.removed,
        created_tables=tuple(created),
        altered_tables=tuple(altered.after for altered in proposal.altered_tables),
        dropped_tables=proposal.dropped_tables,
        based_tables=proposal.based_tables,
        transactions=proposal.transactions,
        oldest_epoch=proposal.oldest_epoch,
    )


def _commit_time(environment: Environment, state: StoreState) -> int:
    """Return the time of a commit after a state: now, but never before the last one."""
    now = environment.now()
    if now < state.time - CLOCK_TOLERANCE:
        raise ClockError(
            f"this machine's clock ({iso_time(now)}) is {(state.time - now) / 1_000_000:.0f} s "
            f"behind the commit of epoch {state.epoch} ({iso_time(state.time)}); nothing was "
            "committed: set the clocks of the machines that write to this store"
        )
    return max(now, state.time)


def _check_age(time: int, proposal: Proposal) -> None:
    if time - proposal.started > ORPHAN_GRACE:
        raise StaleJobError(
            f"the job ({proposal.operation}) began at {iso_time(proposal.started)}, more than "
            f"{ORPHAN_GRACE // 3_600_000_000} hours ago, so its files may have been vacuumed; "
            "nothing was committed: run it again"
        )


def _name(state: StoreState, table_id: int) -> str:
    table = state.tables.get(table_id)
    return f"with the id {table_id}" if table is None else repr(table.definition.name)
