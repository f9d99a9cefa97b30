"""Compaction: from a plan to a commit.

The files of a merge leave and their successors come in one commit, which conflicts only where one
of those files is gone already: another compaction took it, or its rows were truncated or dropped.
What was written for a commit that certainly did not happen is removed, and the plan made anew.

Promises: a writer that tends after its own commit waits for one commit at most, over a bounded
amount of input, and never fails by it.
Does not know: what is worth merging (policy.py), or how it is written (rewrite.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ..environment import CLOCK_TOLERANCE, Environment
from ..errors import (
    ConflictError,
    RelstateError,
    StorageError,
    TableNotFoundError,
    UnknownOutcomeError,
)
from ..log.entry import SegmentRecord
from ..log.log import Log
from ..log.proposal import Proposal
from ..log.state import StoreState
from ..log.transaction import commit
from ..paths import segment_path
from .layout import Component, components
from .policy import BUDGET, FEW, Merge, automatic, full
from .rewrite import Rewrite, has_expired

OPERATION = "compact"
# A conflict means that others compact too; so many in a row, that they never stop.
_ATTEMPTS = 5

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CompactionReport:
    """What a compaction did: the files it read and wrote, their bytes, and the store's epoch."""

    epoch: int
    files_read: int = 0
    bytes_read: int = 0
    files_written: int = 0
    bytes_written: int = 0


def tend(log: Log, state: StoreState, tables: Iterable[int], budget: int = BUDGET) -> StoreState:
    """After the commit of ``state``, which wrote to some tables: merge a little where it is due.

    Return the newest state known. The commit stands whatever happens here: trouble is logged, and
    met again after the next commit.
    """
    grown = {one for one in tables if len(state.segments_by_table.get(one, ())) > FEW}
    try:
        for component in components(state, grown):
            merges = automatic(component, budget)
            if merges:
                return _tended(log, state, component, merges)
    except (RelstateError, FileNotFoundError) as error:
        _logger.warning("nothing was compacted after epoch %d: %s", state.epoch, error)
    return state


def _tended(
    log: Log, state: StoreState, component: Component, merges: Sequence[Merge]
) -> StoreState:
    started = log.environment.now()
    time = rewrite_time(log.environment, state)
    rewrites = [Rewrite.of(state, component, merge, time) for merge in merges]
    records = _run_all(log.environment, rewrites)
    # If others were faster, they tend as well.
    return _replaced(log, state, started, merges, records) or state


def _run_all(environment: Environment, rewrites: Sequence[Rewrite]) -> list[SegmentRecord]:
    """Return what came of all rewrites; if one fails, nothing is left of any."""
    records: list[SegmentRecord] = []
    try:
        for rewrite in rewrites:
            records += rewrite.run(environment)
    except BaseException:
        discard(environment, records)
        raise
    return records


def compact(
    log: Log,
    state: StoreState,
    tables: Iterable[int],
    progress: Callable[[int, int], None] | None = None,
) -> tuple[StoreState, CompactionReport]:
    """Merge all files of some tables, and of those that share files with them, shard by shard.

    ``progress`` takes the groups of shards done, and how many there are. Return the newest state
    known and what was done. ConflictError if others never stop compacting; the errors of
    `Rewrite.run` and of a commit.
    """
    report = CompactionReport(state.epoch)
    rest = {table for one in components(state, set(tables)) for table in one.table_ids}
    while rest:
        table = min(rest)
        state, merged, together = _compacted(log, state, table, progress)
        rest -= {table, *together}
        report = _sum(report, merged, state.epoch)
    return state, report


def _compacted(
    log: Log, state: StoreState, table: int, progress: Callable[[int, int], None] | None
) -> tuple[StoreState, CompactionReport, tuple[int, ...]]:
    """Merge the component of a table; return (state, what was done, its tables)."""
    for attempt in range(_ATTEMPTS):
        state = log.refresh(state)
        started = log.environment.now()
        planned = full_merge(log.environment, state, table, spares_young=attempt > 0)
        if planned is None:
            return state, CompactionReport(state.epoch), ()
        component, merge, rewrite = planned
        records = _run(log.environment, rewrite, progress)
        after = _replaced(log, state, started, [merge], records)
        if after is not None:
            return after, report_of(after.epoch, [merge], records), component.table_ids
    raise ConflictError(
        f"{log.environment.location('')}: other compactions took files away {_ATTEMPTS} times; "
        "nothing was compacted: let one process compact at a time"
    )


def full_merge(
    environment: Environment, state: StoreState, table: int, *, spares_young: bool = False
) -> tuple[Component, Merge, Rewrite] | None:
    """Return the merge of all files of a table's component; None if it would change nothing.

    ``spares_young``: as `policy.full` takes it.
    """
    time = rewrite_time(environment, state)
    for component in components(state, [table]):
        expired = has_expired(environment, state, component, time)
        merge = full(component, has_expired=expired, spares_young=spares_young)
        if merge is not None:
            return component, merge, Rewrite.of(state, component, merge, time)
    return None


def _run(
    environment: Environment, rewrite: Rewrite, progress: Callable[[int, int], None] | None
) -> tuple[SegmentRecord, ...]:
    groups = rewrite.groups

    def told() -> Iterable[frozenset[int]]:
        for done, group in enumerate(groups):
            if progress is not None:
                progress(done, len(groups))
            yield group

    records = rewrite.run(environment, told())
    if progress is not None:
        progress(len(groups), len(groups))
    return records


def rewrite_time(environment: Environment, state: StoreState) -> int:
    """Return the time by which rows must have expired to leave: no later commit is before it."""
    return max(state.time, environment.now() - CLOCK_TOLERANCE)


def replaced(
    log: Log,
    state: StoreState,
    started: int,
    merges: Sequence[Merge],
    records: Sequence[SegmentRecord],
) -> StoreState:
    """Commit that the files of some merges were replaced; return the state after it.

    ConflictError if a file was taken away meanwhile, TableNotFoundError if a table was dropped, the
    other errors of a commit.
    """
    proposal = Proposal(
        operation=OPERATION,
        started=started,
        data_change=False,
        segments=tuple(records),
        removed=tuple(file.name for merge in merges for file in merge.inputs),
    )
    done = commit(log, state, proposal)
    assert done.committed
    return done.state


def _replaced(
    log: Log,
    state: StoreState,
    started: int,
    merges: Sequence[Merge],
    records: Sequence[SegmentRecord],
) -> StoreState | None:
    """Do what `replaced` does for the first and only time; None if others were faster.

    What certainly did not happen leaves no files behind.
    """
    try:
        return replaced(log, state, started, merges, records)
    except UnknownOutcomeError:
        raise
    except (ConflictError, TableNotFoundError):
        discard(log.environment, records)
        return None
    except RelstateError:
        discard(log.environment, records)
        raise


def discard(environment: Environment, records: Iterable[SegmentRecord]) -> None:
    """Remove files that no commit names or ever will; what cannot be removed is left to vacuum."""
    for record in records:
        with suppress(StorageError):
            environment.remove(segment_path(record.name))


def report_of(
    epoch: int, merges: Sequence[Merge], records: Sequence[SegmentRecord]
) -> CompactionReport:
    """Return what some merges did, committed as an epoch."""
    return CompactionReport(
        epoch,
        sum(len(merge.inputs) for merge in merges),
        sum(merge.size for merge in merges),
        len(records),
        sum(record.size for record in records),
    )


def _sum(one: CompactionReport, other: CompactionReport, epoch: int) -> CompactionReport:
    return CompactionReport(
        epoch,
        one.files_read + other.files_read,
        one.bytes_read + other.bytes_read,
        one.files_written + other.files_written,
        one.bytes_written + other.bytes_written,
    )
