"""A commit: a proposal, the checks it must pass, and the race for the next epoch.

Promises: a proposal is in the log once, whole, or not at all; every check is made against the
state that the commit follows, at every attempt. Writes that read nothing never conflict:
the later epoch wins.
Does not know: how rows get into segments, or who retries after a conflict.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from ..clock import CLOCK_TOLERANCE
from ..environment import Environment
from ..errors import (
    ClockError,
    ConflictError,
    CorruptionError,
    EpochExpiredError,
    EpochNotFoundError,
    OptionError,
    RelstateError,
    RepeatedWriteError,
    SegmentMissingError,
    StaleJobError,
    StorageError,
    StorageFullError,
    UnknownOutcomeError,
)
from ..instant import iso_time
from ..paths import RESERVE, SEGMENTS, segment_path
from .append import append
from .entry import MAX_SEGMENTS, Entry, Transaction
from .features import check_writable, united
from .file_frame import canonical
from .log import Log
from .moment import ORPHAN_GRACE
from .proposal import NO_ADDITIONS, Additions, Proposal, Reads
from .rules import check_catalog, name_of
from .segment_record import SegmentRecord
from .state import StoreState
from .table_definition import TableDefinition
from .view import ViewDefinition, ViewProgress
from .violations import added_up

# A lost race means that another writer committed; this many in a row mean a fault.
_ATTEMPTS = 1_000

# Room for the entry of a vacuum or a drop, its temporary file and the folder's growth.
_RESERVE_BYTES = 65_536

REPAIR_CLOCK = "repair clock"


class CommittedSegmentError(ConflictError):
    """A segment of a proposal is in the log already: its file must stay."""


@dataclass(frozen=True, slots=True)
class CommitResult:
    """The outcome of a proposal; ``state`` is the store at ``epoch``.

    ``committed``: the proposal is in the log as ``epoch``. Otherwise there was nothing to commit:
    it changes nothing, or all of its transactions are already in the store.
    """

    epoch: int
    state: StoreState
    committed: bool = True


def commit(
    log: Log,
    state: StoreState,
    proposal: Proposal,
    check: Callable[[StoreState], None] | None = None,
    additions_after: Callable[[StoreState], Additions] | None = None,
) -> CommitResult:
    """Commit a proposal as the next epoch, durably; ``state`` is any earlier state of the store.

    ``check`` is called at every attempt and raises unless the proposal can follow a state.
    ``additions_after`` is called after it and returns what is committed too after that state.
    A proposal that cannot be committed raises and changes nothing: the errors of `check_catalog`,
    ConflictError, SegmentMissingError, CorruptionError, RepeatedWriteError, StaleJobError,
    ClockError, StorageFullError, FilesystemError, FormatVersionError where the store has a feature
    that this version does not know. After UnknownOutcomeError the commit may or
    may not be in the log.
    """
    if proposal.is_empty:
        return CommitResult(state.epoch, state, committed=False)
    environment = log.environment
    race = _Race(log, state, proposal, check, additions_after)
    for attempt in range(_ATTEMPTS):
        is_guess = not attempt and log.is_probably_newest(state)
        if not is_guess:
            state = log.refresh(state if attempt else log.confirm(state))
        try:
            result = race.attempt(state)
        except UnknownOutcomeError:
            raise
        except RelstateError:
            # What forbids the commit may have been changed by another one.
            if not is_guess or log.refresh(state) is state:
                raise
            continue
        if result is not None:
            return result
    raise ConflictError(
        f"{environment.location('')}: lost the race for the next epoch {_ATTEMPTS} times; "
        "nothing was committed: let fewer writers commit at once and try again"
    )


class _Race:
    """The attempts of one proposal. The arguments of `commit`."""

    def __init__(
        self,
        log: Log,
        planned_state: StoreState,
        proposal: Proposal,
        check: Callable[[StoreState], None] | None,
        additions_after: Callable[[StoreState], Additions] | None,
    ) -> None:
        self._log, self._planned_state, self._proposal = log, planned_state, proposal
        self._check, self._additions_after = check, additions_after
        self._checked_epoch = None if proposal.reads is None else proposal.reads.epoch

    def attempt(self, state: StoreState) -> CommitResult | None:
        """Commit after a state; None if another commit came between. The errors of `commit`."""
        log, proposal = self._log, self._proposal
        check_writable(state.features, log.environment.location(""))
        if _is_committed(state, proposal):
            return CommitResult(state.epoch, state, committed=False)
        if proposal.reads is not None and self._checked_epoch is not None:
            _check_reads(log, proposal.reads, self._checked_epoch, state)
            self._checked_epoch = state.epoch
        check_catalog(self._planned_state, state, proposal)
        _check_segments(log, state, proposal)
        if self._check is not None:
            self._check(state)
        additions = NO_ADDITIONS if self._additions_after is None else self._additions_after(state)
        entry = _entry(log.environment, state, proposal, additions)
        # Before the entry exists: it may read manifests, and after an error here the caller removes
        # the files of a commit that did not happen.
        after = state.apply(entry)
        if not _append(log, entry, proposal, _unsynced(proposal, additions)):
            return None
        log.folding.auto_fold(after)
        return CommitResult(entry.epoch, after)


def _unsynced(proposal: Proposal, additions: Additions) -> tuple[str, ...]:
    """Return the files and folders that have to be durable before the entry of a commit exists."""
    if not (proposal.segments or additions.segments):
        return ()
    records = (*(proposal.segments if proposal.syncs_segments else ()), *additions.segments)
    return (*(segment_path(record.name) for record in records), SEGMENTS)


def _append(log: Log, entry: Entry, proposal: Proposal, after: Sequence[str]) -> bool:
    """Append an entry as `append` does; on a full disk, release the reserve if that helps.

    Only for a proposal that frees space.
    """
    if proposal.frees_space and after:
        # Before the entry: with the reserve released, the entry alone is written again. A sync that
        # is tried again might not report what was lost.
        *segments, folder = after
        for path in segments:
            log.environment.publish(path)
        log.environment.sync_folder(folder)
        after = ()
    try:
        return append(log, entry, after)
    except StorageFullError:
        if not (proposal.frees_space and release_reserve(log.environment)):
            raise
    return append(log, entry)


def keep_reserve(environment: Environment) -> None:
    """Create the reserve of a store if it is missing, and its disk has room for it."""
    if environment.fills_up and not environment.exists(RESERVE):
        with suppress(FileExistsError, StorageError, UnknownOutcomeError):
            environment.put_if_absent(RESERVE, bytes(_RESERVE_BYTES))


def release_reserve(environment: Environment) -> bool:
    """Remove the reserve of a store, and return whether there was one."""
    existed = environment.exists(RESERVE)
    environment.remove(RESERVE)
    return existed


def _is_committed(state: StoreState, proposal: Proposal) -> bool:
    """Return whether all of a proposal's transactions are in the store.

    A batch is in the store if it or a later one is: ids may have gaps. RepeatedWriteError if the
    run that wrote the last batch writes it a second time; ConflictError if only some of the tables
    have the batch.
    """
    committed = [
        transaction for transaction in proposal.transactions if _is_done(state, transaction)
    ]
    if not committed:
        return False
    if len(committed) < len(proposal.transactions):
        raise ConflictError(
            f"batch {committed[0].batch} of writer {committed[0].writer!r} is in table "
            f"{name_of(state, committed[0].table_id)}, but not in all tables this commit writes; "
            "nothing was committed: write the tables of a batch in one commit, or under other "
            "writer ids"
        )
    return True


def _is_done(state: StoreState, transaction: Transaction) -> bool:
    last = state.transactions.get((transaction.writer, transaction.table_id))
    if last is None or transaction.batch > last.batch:
        return False
    if transaction.batch == last.batch and transaction.run == last.run is not None:
        raise RepeatedWriteError(
            f"a second write of table {name_of(state, transaction.table_id)} by one run and batch "
            f"(writer {transaction.writer!r}, run {transaction.run}, batch {transaction.batch}); "
            "nothing was committed: write each table once a batch"
        )
    return True


def _check_reads(log: Log, reads: Reads, after: int, state: StoreState) -> None:
    for entry in log.history.entries(state, after + 1, state.epoch):
        if entry.data_change and _conflicts(log, reads, entry, state):
            raise ConflictError(
                f"epoch {entry.epoch} ({entry.operation}) changed rows that were read at epoch "
                f"{reads.epoch}, or was vacuumed since; nothing was committed: read again and retry"
            )


def _conflicts(log: Log, reads: Reads, entry: Entry, state: StoreState) -> bool:
    """Return whether a commit changed what was read; True if a vacuum has removed its files."""
    try:
        return reads.conflicts(entry)
    except (SegmentMissingError, EpochExpiredError):
        # The vacuum may be newer than ``state``. The rows before the commit, which are in the epoch
        # before it, may have been needed too.
        if entry.epoch - 1 < log.refresh(state).oldest_epoch:
            return True
        raise


def _check_segments(log: Log, state: StoreState, proposal: Proposal) -> None:
    """Check that the added segments are complete files and new, the removed ones in the state."""
    environment = log.environment
    if len(proposal.segments) > MAX_SEGMENTS:
        raise OptionError(
            f"{len(proposal.segments)} segments, but a commit takes at most {MAX_SEGMENTS}: "
            "write in fewer tasks"
        )
    if proposal.syncs_segments or not environment.is_remote:
        # Those of tasks are not asked for where each look is a request: their puts were answered.
        sizes = environment.sizes([segment_path(record.name) for record in proposal.segments])
        for record, size in zip(proposal.segments, sizes, strict=True):
            _check_file(environment, record, size)
    first = _first_epoch(log, state, proposal) if proposal.segments else 1
    for record in proposal.segments:
        committed = state.segments.with_name_of(record, first)
        if committed is not None:
            raise CommittedSegmentError(
                f"segment {record.name} is part of epoch {committed.epoch} already; nothing was "
                "committed: its rows are stored"
            )
    for segment in proposal.removed:
        if not state.segments.holds(segment):
            raise ConflictError(
                f"segment {segment.name} was replaced meanwhile; nothing was committed: read the "
                "store again and retry"
            )


def _first_epoch(log: Log, state: StoreState, proposal: Proposal) -> int:
    """Return an epoch before which nothing of a proposal can have been committed."""
    # Times ascend between repairs of the clock only.
    if state.clock_repairs or not state.segments.has_files:
        return 1
    time = proposal.started - CLOCK_TOLERANCE
    epoch = log.marks.before(time)
    if epoch is None or epoch > state.epoch:
        try:
            epoch = log.history.epoch_at(state, time)
        except EpochExpiredError:
            return 1
        except EpochNotFoundError:
            epoch = 1
        log.marks.note(time, epoch)
    log.marks.note(state.time, state.epoch)
    return epoch


def _check_file(environment: Environment, record: SegmentRecord, size: int | None) -> None:
    path = segment_path(record.name)
    if size is None:
        raise SegmentMissingError(
            f"{environment.location(path)}: this segment is to be committed, but it is not there; "
            "nothing was committed: was it vacuumed, or written on another machine's disk?"
        )
    if size != record.size:
        raise CorruptionError(
            f"{environment.location(path)}: {size} bytes, but {record.size} were written; nothing "
            "was committed: write again"
        )


def _entry(
    environment: Environment, state: StoreState, proposal: Proposal, additions: Additions
) -> Entry:
    """Return the entry that commits a proposal and additions to it right after a state."""
    epoch = state.epoch + 1
    time = environment.now() if proposal.repairs_clock else _commit_time(environment, state)
    _check_age(time, proposal)
    created = tuple(
        table.definition(table_id, epoch)
        for table_id, table in enumerate(proposal.new_tables, state.next_table_id)
    )
    return Entry(
        commit_id=environment.random_id(),
        parent=state.commit_id,
        epoch=epoch,
        time=time,
        started=proposal.started,
        operation=proposal.operation,
        data_change=proposal.data_change,
        added=proposal.segments + additions.segments,
        removed=tuple(segment.name for segment in proposal.removed),
        created_tables=created,
        altered_tables=(
            *(altered.after for altered in proposal.altered_tables),
            *_indexed_table(proposal, created),
        ),
        dropped_tables=proposal.dropped_tables,
        based_tables=proposal.based_tables + additions.based_tables,
        created_views=tuple(_view_definitions(proposal, created)),
        altered_views=tuple(altered.after for altered in proposal.altered_views),
        progress=tuple(_progress_as_stored(progress.at(epoch)) for progress in proposal.progress),
        transactions=proposal.transactions,
        oldest_epoch=proposal.oldest_epoch,
        violations=added_up((*proposal.violations, *additions.violations)),
        features=united(state.features, proposal.features),
    )


def _indexed_table(
    proposal: Proposal, created: Sequence[TableDefinition]
) -> Iterator[TableDefinition]:
    """Yield the definition of the table that gets an index, whose own table is the last created."""
    if proposal.new_index is not None:
        before = proposal.new_index.before
        index = proposal.new_index.definition(created[-1].table_id)
        yield replace(before, indexes=(*before.indexes, index))


def _view_definitions(
    proposal: Proposal, created: Sequence[TableDefinition]
) -> Iterator[ViewDefinition]:
    """Yield the definitions of new views, whose tables are the last of those created."""
    ids = iter([table.table_id for table in created[len(proposal.created_tables) :]])
    for view in proposal.new_views:
        view_id, *others = islice(ids, len(view.tables))
        internal = others[: len(view.internal)]
        yield ViewDefinition(
            view_id,
            view.query,
            view.inputs,
            tuple(internal),
            view.mapping,
            dict(view.settings),
            _as_stored(view.plan),
            view.replaces,
            quarantine=None if view.quarantine is None else others[-1],
        )


def _progress_as_stored(progress: ViewProgress) -> ViewProgress:
    return replace(progress, backfill=_as_stored(progress.backfill))


def _as_stored(value: Any) -> Any:
    """Return a JSON value as decoding returns it, so that an entry equals its decoded bytes."""
    return json.loads(canonical(value))


def _commit_time(environment: Environment, state: StoreState) -> int:
    """Return the time of a commit after a state: now, but never before the state's time.

    ClockError if the clock is behind the last commit by more than `CLOCK_TOLERANCE`.
    """
    now = environment.now()
    if now < state.time - CLOCK_TOLERANCE:
        raise ClockError(
            f"this machine's clock ({iso_time(now)}) is {(state.time - now) / 1_000_000:.0f} s "
            f"behind the commit of epoch {state.epoch} ({iso_time(state.time)}); nothing was "
            "committed: set this machine's clock, or, if it is right and the last commit was made "
            "by a wrong one, call Store.repair_clock() (relstate repair --clock)"
        )
    return max(now, state.time)


def repair_clock(log: Log, state: StoreState) -> CommitResult:
    """Set the store's time to this machine's by a commit, if the last commit is ahead of it.

    The epochs committed by the wrong clock count as committed at the time of this commit.
    """
    state = log.refresh(state)
    now = log.environment.now()
    if state.time <= now:
        return CommitResult(state.epoch, state, committed=False)
    proposal = Proposal(operation=REPAIR_CLOCK, started=now, data_change=False, repairs_clock=True)
    return commit(log, state, proposal)


def _check_age(time: int, proposal: Proposal) -> None:
    if time - proposal.started > ORPHAN_GRACE:
        raise StaleJobError(
            f"the job ({proposal.operation}) began at {iso_time(proposal.started)}, more than "
            f"{ORPHAN_GRACE // 3_600_000_000} hours ago, so its files may have been vacuumed; "
            "nothing was committed: run it again"
        )
