"""Compaction: from the choice of files to a commit.

The inputs of a merge are removed and its outputs added in one commit, which conflicts only if an
input is gone: another compaction replaced it, or its rows were truncated or dropped; or if a table
with a version column was altered, which may have an index now. The files
written for a commit that certainly did not happen are removed, and the merge is planned again.

Promises: a writer that compacts after its own commit waits for at most one more commit, over a
bounded amount of input, and its own commit never fails because of it. A job whose parts run in
other processes becomes visible whole or not at all, in whatever order and however often they run.
Does not know: what is worth merging (policy.py), how files are merged (rewrite.py), or who runs
the parts of a job.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from ..clock import CLOCK_TOLERANCE
from ..environment import Environment
from ..environment_choice import environment_of
from ..errors import (
    ConflictError,
    RelstateError,
    StorageError,
    TableNotFoundError,
    UnknownOutcomeError,
)
from ..log.log import Log
from ..log.proposal import Proposal
from ..log.segment_record import SegmentRecord
from ..log.state import StoreState
from ..log.transaction import commit
from ..paths import segment_path
from .components import Component, components, recent_components
from .policy import BUDGET, FEW, Merge, automatic, full
from .rewrite import Rewrite, forgets_late_rows, has_expired

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

    def plus(self, later: CompactionReport) -> CompactionReport:
        """Return the report of both compactions, at the epoch of the later one."""
        return CompactionReport(
            later.epoch,
            self.files_read + later.files_read,
            self.bytes_read + later.bytes_read,
            self.files_written + later.files_written,
            self.bytes_written + later.bytes_written,
        )


@dataclass(frozen=True, slots=True)
class CompactionJob:
    """The full compaction of a table and of those that share files with it. Picklable.

    ``started``: microseconds since 1970.
    """

    path: str
    started: int
    merge: Merge
    rewrite: Rewrite

    @classmethod
    def plan(
        cls,
        environment: Environment,
        state: StoreState,
        table_id: int,
        *,
        spares_young: bool = False,
    ) -> CompactionJob | None:
        """Return the job for a table in a state; None if it would change nothing.

        ``spares_young``: as `policy.full` takes it.
        """
        started = environment.now()
        time = rewrite_time(environment, state)
        for component in components(state, [table_id]):
            expired = has_expired(environment, state, component, time)
            merge = full(component, has_expired=expired, spares_young=spares_young)
            if merge is not None:
                rewrite = Rewrite.of(state, component, merge, time)
                return cls(environment.location(""), started, merge, rewrite)
        return None

    @property
    def inputs(self) -> frozenset[str]:
        """The names of the segments that are merged."""
        return frozenset(file.name for file in self.merge.inputs)

    @property
    def table_ids(self) -> frozenset[int]:
        """The ids of the tables whose rows are in the segments."""
        return frozenset(table.table_id for table in self.rewrite.tables)

    @property
    def parts(self) -> int:
        """How many parts can run independently: one per shard, or one in all."""
        return len(self.rewrite.groups)

    def run(
        self, parts: Iterable[int], environment: Environment | None = None
    ) -> tuple[SegmentRecord, ...]:
        """Write the segments of some parts, by their numbers; errors as of `Rewrite.run`."""
        groups = self.rewrite.groups
        return self.rewrite.run(
            environment or environment_of(self.path), (groups[part] for part in parts)
        )

    def part(self, number: int) -> tuple[SegmentRecord, ...]:
        """Write the segments of one part, elsewhere than in the process that planned the job."""
        return self.run((number,))

    def commit(
        self, log: Log, state: StoreState, records: Sequence[SegmentRecord]
    ) -> tuple[StoreState, CompactionReport]:
        """Commit what all parts have written; return the state after it and what was done.

        ConflictError if an input was removed meanwhile, or a table got an index that the merge did
        not know of; TableNotFoundError if a table was dropped. No file is removed then: this may be
        a second attempt of a job whose first one has been committed. Vacuum removes what no commit
        names.
        """
        state = _commit_merges(log, state, self.started, [self.rewrite], records)
        report = CompactionReport(
            state.epoch,
            len(self.merge.inputs),
            self.merge.size,
            len(records),
            sum(record.size for record in records),
        )
        return state, report


def compact(
    log: Log,
    state: StoreState,
    tables: Iterable[int],
    progress: Callable[[int, int], None] | None = None,
) -> tuple[StoreState, CompactionReport]:
    """Merge all files of some tables, and of those that share files with them, shard by shard.

    ``progress`` takes the number of parts done, and of all. Return the newest state known and what
    was done. ConflictError if others never stop compacting; the errors of `Rewrite.run` and of a
    commit.
    """
    report = CompactionReport(state.epoch)
    affected = components(state, set(tables))
    remaining = {table_id for component in affected for table_id in component.table_ids}
    while remaining:
        table = min(remaining)
        state, merged, together = _compact_table(log, state, table, progress)
        remaining -= {table, *together}
        report = report.plus(merged)
    return state, report


def _compact_table(
    log: Log, state: StoreState, table: int, progress: Callable[[int, int], None] | None
) -> tuple[StoreState, CompactionReport, frozenset[int]]:
    """Compact a table; return (state, what was done, the tables that share its files)."""
    for attempt in range(_ATTEMPTS):
        state = log.refresh(state)
        job = CompactionJob.plan(log.environment, state, table, spares_young=attempt > 0)
        if job is None:
            return state, CompactionReport(state.epoch), frozenset()
        records = job.run(_reported(job.parts, progress), log.environment)
        try:
            with _removed_if_refused(log.environment, records):
                return *job.commit(log, state, records), job.table_ids
        except (ConflictError, TableNotFoundError):
            continue
    raise ConflictError(
        f"{log.environment.location('')}: other compactions replaced the files {_ATTEMPTS} times; "
        "nothing was compacted: let one process compact at a time"
    )


def _reported(parts: int, progress: Callable[[int, int], None] | None) -> Iterator[int]:
    """Yield the numbers of parts, and report before each and at the end how many are done."""
    for part in range(parts):
        if progress is not None:
            progress(part, parts)
        yield part
    if progress is not None:
        progress(parts, parts)


def auto_compact(
    log: Log, state: StoreState, tables: Iterable[int], budget: int = BUDGET
) -> StoreState:
    """After the commit of ``state``, which wrote to some tables: merge a few files where needed.

    Return the newest state known. Whatever happens here, the commit is in the log: an error is
    logged, and the merge is due again after the next commit.
    """
    grown = {table for table in tables if state.segments.count_of(table) > FEW}
    try:
        for component in recent_components(state, grown):
            merges = automatic(component, budget)
            if merges:
                return _run_merges(log, state, component, merges)
    except Exception as error:  # the commit happened: a caller that sees an error would repeat it
        is_unexpected = not isinstance(error, RelstateError | FileNotFoundError)
        _logger.warning(
            "nothing was compacted after epoch %d: %s", state.epoch, error, exc_info=is_unexpected
        )
    return state


def _run_merges(
    log: Log, state: StoreState, component: Component, merges: Sequence[Merge]
) -> StoreState:
    """Run merges of one component and commit them; return ``state`` if others were faster."""
    started = log.environment.now()
    time = rewrite_time(log.environment, state)
    rewrites = [Rewrite.of(state, component, merge, time) for merge in merges]
    records = _run_rewrites(log.environment, rewrites)
    try:
        with _removed_if_refused(log.environment, records):
            return _commit_merges(log, state, started, rewrites, records)
    except (ConflictError, TableNotFoundError):
        # Another compaction came first, and it merges as much as this one would have.
        return state


def run_rewrite(log: Log, state: StoreState, rewrite: Rewrite, operation: str) -> StoreState:
    """Run one rewrite and commit it; return the state after it.

    ``operation``: its name in the history. ConflictError if an input was replaced meanwhile,
    TableNotFoundError if a table was dropped; what was written is removed then. The errors of
    `Rewrite.run`.
    """
    started = log.environment.now()
    records = rewrite.run(log.environment)
    with _removed_if_refused(log.environment, records):
        return _commit_merges(log, state, started, [rewrite], records, operation)


def _run_rewrites(environment: Environment, rewrites: Sequence[Rewrite]) -> list[SegmentRecord]:
    """Return the segments that merges make; if one merge fails, those of all are removed."""
    records: list[SegmentRecord] = []
    try:
        for rewrite in rewrites:
            records += rewrite.run(environment)
    except BaseException:
        _remove(environment, records)
        raise
    return records


@contextmanager
def _removed_if_refused(
    environment: Environment, records: Sequence[SegmentRecord]
) -> Iterator[None]:
    """Remove segments if their commit certainly did not happen."""
    try:
        yield
    except UnknownOutcomeError:
        raise
    except RelstateError:
        _remove(environment, records)
        raise


def _remove(environment: Environment, records: Iterable[SegmentRecord]) -> None:
    """Remove the files of segments; vacuum removes those for which that fails."""
    for record in records:
        with suppress(StorageError):
            environment.remove(segment_path(record.name))


def _commit_merges(
    log: Log,
    state: StoreState,
    started: int,
    rewrites: Sequence[Rewrite],
    records: Sequence[SegmentRecord],
    operation: str = OPERATION,
) -> StoreState:
    """Commit that the inputs of merges are replaced; return the state after it.

    ConflictError if an input was removed meanwhile, or a table from which a merge dropped what
    hides late rows was altered: it may have an index now. TableNotFoundError if a table was
    dropped, the other errors of a commit.
    """
    tables = {table: None for rewrite in rewrites for table in rewrite.tables}
    inputs = tuple(segment for rewrite in rewrites for segment in rewrite.inputs)
    proposal = Proposal(
        operation=operation,
        started=started,
        data_change=False,
        segments=tuple(records),
        removed=inputs,
        requires=tuple(table for table in tables if forgets_late_rows(table)),
    )
    result = commit(log, state, proposal)
    _logger.info(
        "epoch %d: compacted %d files (%d bytes) to %d in %.3f s",
        result.epoch,
        len(inputs),
        sum(segment.record.size for segment in inputs),
        len(records),
        (log.environment.now() - started) / 1_000_000,
    )
    return result.state


def rewrite_time(environment: Environment, state: StoreState) -> int:
    """Return the time by which rows must have expired to be removed: no later commit is older."""
    return max(state.time, environment.now() - CLOCK_TOLERANCE)
