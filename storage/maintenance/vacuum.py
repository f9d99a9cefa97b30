"""Vacuum: the removal of files that no epoch in retention needs.

The order makes it safe. First a commit sets the oldest epoch that can be read from then on: a
writer that slept finds its slot taken, checks its job's age again, and is refused if its files may
be removed. Then the folders are listed, then the log is read, so that every segment named by a
commit before that is known. Only then files are removed:

- segments that a newly expired epoch names, and no retained one does: at once;
- segments that nothing in the log names: when they are older than any job that may still commit;
- archived checkpoints older than the one from which the oldest epoch is read, and temporary files
  whose writer has ended long ago;
- manifests that no remaining checkpoint names: when they are older than any checkpoint that may
  still be written.

Archived entries are never removed: they identify the entry of a writer that slept.

Promises: after an interruption at any point every epoch in retention reads as before, and the next
vacuum removes what this one left.
Does not know: who reads. A reader of an epoch that expires meanwhile gets an error that says so
(registry, state).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from ..clock import CLOCK_TOLERANCE
from ..environment import Environment
from ..errors import ConflictError, EpochExpiredError, EpochNotFoundError
from ..instant import MOST_SECONDS, seconds_of
from ..log.entry import Entry
from ..log.live_segments import KEPT_BLOCKS, file_names
from ..log.log import Log
from ..log.moment import ORPHAN_GRACE
from ..log.proposal import Proposal
from ..log.rules import oldest_epoch_needed_by_views
from ..log.state import StoreState
from ..log.transaction import commit, keep_reserve
from ..paths import (
    ARCHIVE,
    BLOCK,
    LOG,
    SEGMENTS,
    is_temporary,
    manifest_path,
    parse_archived_checkpoint,
    parse_manifest_file,
    parse_segment_file,
    segment_path,
)
from ..segment.registry import registry

OPERATION = "vacuum"
# An attempt fails if a view began to read an epoch that this vacuum was about to expire.
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class VacuumReport:
    """What a vacuum removed, or would remove: how many files, of how many bytes in all.

    ``oldest_epoch``: the oldest that can be read from then on.
    """

    files: int
    bytes: int
    oldest_epoch: int


@dataclass(frozen=True, slots=True)
class _Files:
    """Files to be removed; the segments among them by name."""

    segments: tuple[str, ...]
    others: tuple[str, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        return (*map(segment_path, self.segments), *self.others)


def vacuum(
    log: Log, state: StoreState, retention: int | str | None = None, *, dry_run: bool = False
) -> tuple[StoreState, VacuumReport]:
    """Remove files that no epoch of the last ``retention`` seconds needs, by default the store's.

    It may be a text, as in ``'7 days'``. ``dry_run``: only report. Return the newest state known,
    and what was done. Epochs before the oldest can no longer be read then; the oldest epoch never
    decreases. OptionError for a retention that is not a whole number; the errors of a commit,
    CorruptionError if the log is damaged: nothing was removed then.
    """
    if retention is None:
        # A store that was created before there was a limit may have a longer one.
        retention = min(state.settings.retention, MOST_SECONDS)
    seconds = seconds_of("retention", retention)
    for _ in range(_ATTEMPTS - 1):
        with suppress(ConflictError):
            return _vacuum(log, state, seconds, dry_run)
    return _vacuum(log, state, seconds, dry_run)


def _vacuum(
    log: Log, state: StoreState, retention: int, dry_run: bool
) -> tuple[StoreState, VacuumReport]:
    """Vacuum once. ConflictError if a view began to read an epoch that would expire."""
    state = log.refresh(state)
    oldest = _oldest_retained_epoch(log, state, retention)
    expiring = _expiring(log, state, oldest)
    fence = log.environment.now()
    files = _removable(log, state, expiring, oldest, fence)
    if not files.paths and _is_idle(log, state, oldest):
        return state, VacuumReport(0, 0, state.oldest_epoch)
    if dry_run:
        return state, VacuumReport(len(files.paths), _bytes(log.environment, files), oldest)
    return _expire(log, state, oldest, expiring)


def expire(log: Log, state: StoreState, oldest: int) -> tuple[StoreState, VacuumReport]:
    """Make an epoch the oldest that can be read, and remove the files that none from it on needs.

    So are those that an interrupted vacuum has left: it reads the whole log. ConflictError if a
    view still has to read an older epoch: nothing was removed then; the errors of `vacuum`.
    """
    state = log.refresh(state)
    entries = log.history.newest_first(state)
    committed = {record.name for entry in entries for record in entry.added}
    return _expire(log, state, max(oldest, state.oldest_epoch), committed)


def _expire(
    log: Log, state: StoreState, oldest: int, expiring: set[str]
) -> tuple[StoreState, VacuumReport]:
    fence = log.environment.now()
    proposal = Proposal(operation=OPERATION, started=fence, data_change=False, oldest_epoch=oldest)
    state = commit(log, state, proposal).state
    files = _removable(log, state, expiring, oldest, fence)
    report = VacuumReport(len(files.paths), _bytes(log.environment, files), state.oldest_epoch)
    _remove(log.environment, files)
    keep_reserve(log.environment)
    return state, report


def _oldest_retained_epoch(log: Log, state: StoreState, retention: int) -> int:
    """Return the oldest epoch to retain: the newest one at the beginning of the retention.

    It is an older one if a view still has to read that, to follow its changes or to backfill.
    """
    try:
        oldest = log.history.epoch_at(state, log.environment.now() - retention * 1_000_000)
    except (EpochNotFoundError, EpochExpiredError):
        return state.oldest_epoch
    needed = oldest_epoch_needed_by_views(state)
    return oldest if needed is None else min(oldest, needed)


def _is_idle(log: Log, state: StoreState, oldest: int) -> bool:
    """Return whether the epochs that expire changed nothing but the oldest epoch."""
    return all(map(_changes_nothing, log.history.entries(state, state.oldest_epoch + 1, oldest)))


def _changes_nothing(entry: Entry) -> bool:
    return entry.operation == OPERATION and not entry.data_change


def _expiring(log: Log, state: StoreState, oldest: int) -> set[str]:
    """Return the segments that the epochs from the oldest one to ``oldest`` name."""
    first = log.history.state_at(state, state.oldest_epoch)
    return _named(log, state, first, oldest)


def _named(log: Log, newest: StoreState, first: StoreState, last: int) -> set[str]:
    """Return the segments that the epochs from that of ``first`` to ``last`` name."""
    entries = log.history.entries(newest, first.epoch + 1, last)
    return {*first.segments, *(record.name for entry in entries for record in entry.added)}


def _removable(log: Log, state: StoreState, expiring: set[str], oldest: int, fence: int) -> _Files:
    """Return the files to remove once ``oldest`` is the oldest epoch, committed after ``fence``."""
    environment = log.environment
    listed, archived, logged = map(environment.list, (SEGMENTS, ARCHIVE, LOG))
    newest = log.refresh(state)
    oldest = max(oldest, newest.oldest_epoch)
    needed = _named(log, newest, log.history.state_at(newest, oldest), newest.epoch)
    # A file is at most as old as the job that may commit it, within the tolerance of clocks.
    too_old = fence - ORPHAN_GRACE - CLOCK_TOLERANCE
    names = [name for name in map(parse_segment_file, listed) if name is not None]
    segments = [
        name
        for name in names
        if name not in needed
        and (name in expiring or _is_older(environment, segment_path(name), too_old))
    ]
    temporary = [
        path
        for folder, files in ((SEGMENTS, listed), (ARCHIVE, archived), (LOG, logged))
        for path in (f"{folder}/{file}" for file in files if is_temporary(file))
        if _is_older(environment, path, too_old)
    ]
    manifests = [name for name in map(parse_manifest_file, archived) if name is not None]
    # Readers rely on manifests that are named a while before the epoch that they read.
    start = _first_kept_checkpoint(log, oldest - (KEPT_BLOCKS * BLOCK if manifests else 0))
    checkpoints = [
        f"{ARCHIVE}/{file}"
        for file in archived
        if (epoch := parse_archived_checkpoint(file)) is not None and epoch < start
    ]
    old = [path for path in map(manifest_path, manifests) if _is_older(environment, path, too_old)]
    # The checkpoints first: they name manifests.
    return _Files(tuple(segments), (*temporary, *checkpoints, *_unnamed(log, old, start)))


def _first_kept_checkpoint(log: Log, epoch: int) -> int:
    """Return the epoch of the last checkpoint at or before an epoch; 0 if there is none."""
    return max((number for number in log.files.checkpoint_epochs() if number <= epoch), default=0)


def _unnamed(log: Log, manifests: Sequence[str], start: int) -> list[str]:
    """Return the files of those manifests that no checkpoint from ``start`` on names."""
    unnamed = set(manifests)
    # The newest has most of them.
    for epoch in reversed(log.files.checkpoint_epochs()):
        if not unnamed or epoch < start:
            break
        with suppress(FileNotFoundError):  # another vacuum removed it
            segments = log.files.checkpoint(epoch).segments
            unnamed.difference_update(map(manifest_path, file_names(segments.manifests)))
    return sorted(unnamed)


def _is_older(environment: Environment, path: str, time: int) -> bool:
    try:
        return environment.modified(path) < time
    except FileNotFoundError:
        return False


def _bytes(environment: Environment, files: _Files) -> int:
    return sum(size or 0 for size in environment.sizes(files.paths))


def _remove(environment: Environment, files: _Files) -> None:
    for path in files.paths:
        environment.remove(path)
    registry.forget(environment, files.segments)
    for folder in sorted({path.split("/")[0] for path in files.paths}):
        environment.sync_folder(folder)
