"""Vacuum: the removal of files that no epoch in retention needs.

The order carries the proofs. First a commit says which epoch is the oldest that can be read from
here on: a writer that slept finds its slot taken, looks at its job's age again, and is refused if
its files may go. Then the folders are listed, then the log is read, so that whatever a commit
before that named is known. Only then files go:

- segments that an epoch which has just expired names, and no retained one does: at once;
- segments that nothing in the log names: when they are older than any job that may still commit;
- archived checkpoints older than the one from which the oldest epoch is read, and temporary files
  whose writer is long gone.

Archived entries stay for ever: a writer that slept is recognised by them.

Promises: whatever is cut short, every epoch in retention reads as before, and the next vacuum
removes what this one left.
Does not know: who reads. A reader of an epoch that expires under it is told so (registry, state).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from ..environment import CLOCK_TOLERANCE, Environment
from ..errors import ConflictError, EpochExpiredError, EpochNotFoundError, OptionError
from ..log.entry import Entry
from ..log.log import Log
from ..log.proposal import Proposal
from ..log.rules import oldest_epoch_needed_by_views
from ..log.state import StoreState
from ..log.transaction import ORPHAN_GRACE, commit, keep_reserve
from ..paths import (
    ARCHIVE,
    LOG,
    SEGMENTS,
    is_temporary,
    parse_archived_checkpoint,
    parse_segment_file,
    segment_path,
)
from ..segment.registry import registry

OPERATION = "vacuum"
# Each is a view that began to read while this vacuum looked.
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
    log: Log, state: StoreState, retention: int | None = None, *, dry_run: bool = False
) -> tuple[StoreState, VacuumReport]:
    """Remove what no epoch of the last ``retention`` seconds needs, by default the store's.

    ``dry_run``: only tell. Return the newest state known, and what was done. Epochs before the
    oldest can no longer be read then; it never goes back. OptionError for a negative retention;
    the errors of a commit, CorruptionError if the log is damaged: nothing was removed then.
    """
    retention = state.settings.retention if retention is None else retention
    if retention < 0:
        raise OptionError(f"retention is in seconds and cannot be negative: {retention}")
    for _ in range(_ATTEMPTS - 1):
        with suppress(ConflictError):
            return _vacuum(log, state, retention, dry_run)
    return _vacuum(log, state, retention, dry_run)


def _vacuum(
    log: Log, state: StoreState, retention: int, dry_run: bool
) -> tuple[StoreState, VacuumReport]:
    """Vacuum once. ConflictError if a view began to read what would have gone."""
    state = log.refresh(state)
    oldest = floor(log, state, retention)
    expiring = _expiring(log, state, oldest)
    fence = log.environment.now()
    found = _removable(log, state, expiring, oldest, fence)
    if not found.paths and _is_idle(log, state, oldest):
        return state, VacuumReport(0, 0, state.oldest_epoch)
    if dry_run:
        return state, VacuumReport(len(found.paths), _bytes(log.environment, found), oldest)
    proposal = Proposal(operation=OPERATION, started=fence, data_change=False, oldest_epoch=oldest)
    state = commit(log, state, proposal).state
    found = _removable(log, state, expiring, oldest, fence)
    report = VacuumReport(len(found.paths), _bytes(log.environment, found), state.oldest_epoch)
    _remove(log.environment, found)
    keep_reserve(log.environment)
    return state, report


def floor(log: Log, state: StoreState, retention: int) -> int:
    """Return the oldest epoch to be kept: the newest at the beginning of the retention.

    Or an older one that a view has to read: where it goes on from, or what it still backfills.
    """
    try:
        oldest = log.epoch_at(state, log.environment.now() - retention * 1_000_000)
    except (EpochNotFoundError, EpochExpiredError):
        return state.oldest_epoch
    needed = oldest_epoch_needed_by_views(state)
    return oldest if needed is None else min(oldest, needed)


def _is_idle(log: Log, state: StoreState, oldest: int) -> bool:
    """Return whether all that expires is epochs in which nothing but the oldest epoch moved."""
    return all(map(_changes_nothing, log.entries(state, state.oldest_epoch + 1, oldest)))


def _changes_nothing(entry: Entry) -> bool:
    return entry.operation == OPERATION and not entry.data_change


def _expiring(log: Log, state: StoreState, oldest: int) -> set[str]:
    """Return the segments that epochs before the one that becomes the oldest name."""
    first = log.state_at(state, state.oldest_epoch)
    return _named(log, state, first, oldest)


def _named(log: Log, newest: StoreState, first: StoreState, last: int) -> set[str]:
    """Return the segments that the epochs from that of a state to the last name."""
    entries = log.entries(newest, first.epoch + 1, last)
    return {*first.segments, *(record.name for entry in entries for record in entry.added)}


def _removable(log: Log, state: StoreState, expiring: set[str], oldest: int, fence: int) -> _Files:
    """Return what may go, once ``oldest`` is committed as the oldest epoch, after ``fence``."""
    environment = log.environment
    listed, archived, logged = map(environment.list, (SEGMENTS, ARCHIVE, LOG))
    newest = log.refresh(state)
    oldest = max(oldest, newest.oldest_epoch)
    needed = _named(log, newest, log.state_at(newest, oldest), newest.epoch)
    # A file is as old as a job that may commit it, give or take what clocks may differ.
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
    checkpoints = _old_checkpoints(log, archived, oldest)
    return _Files(tuple(segments), (*temporary, *checkpoints))


def _old_checkpoints(log: Log, archived: list[str], oldest: int) -> Iterator[str]:
    """Yield the archived checkpoints that are not needed to read the oldest epoch or later ones."""
    start = max((epoch for epoch in log.checkpoint_epochs() if epoch <= oldest), default=0)
    for file in archived:
        epoch = parse_archived_checkpoint(file)
        if epoch is not None and epoch < start:
            yield f"{ARCHIVE}/{file}"


def _is_older(environment: Environment, path: str, time: int) -> bool:
    try:
        return environment.modified(path) < time
    except FileNotFoundError:
        return False


def _bytes(environment: Environment, found: _Files) -> int:
    return sum(_size(environment, path) for path in found.paths)


def _size(environment: Environment, path: str) -> int:
    try:
        return environment.size(path)
    except FileNotFoundError:
        return 0


def _remove(environment: Environment, found: _Files) -> None:
    for path in found.paths:
        environment.remove(path)
    registry.forget(environment, found.segments)
    for folder in sorted({path.split("/")[0] for path in found.paths}):
        environment.sync_folder(folder)
