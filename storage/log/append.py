"""Appending to the commit log: creating an entry in the slot of its epoch is the commit.

Promises: of all writers that compete for an epoch exactly one gets it; that one knows it, or gets
UnknownOutcomeError if it cannot be known.
Does not know: what a commit must check (transaction.py).

**Zombie writers.** A writer may sleep between looking at the log and creating its entry, while
others commit and fold: the slot is free again, and the writer wins it. Such an entry is dead. The
writer detects this because its epoch has an archive: nothing is removed before it is archived, so a
slot without an archive was never used before. It removes its entry and tries again at the tail. A
crash before that is harmless: loading starts at a checkpoint after the dead entry, a reader accepts
a next entry only if its own still exists with the same commit id, and an entry of the past is
accepted if the one after it names it as its parent, or if it has no archive (history.py).

**The slot of a bucket.** Where each look is a request, a writer whose slot was taken meanwhile by
an entry that follows the same commit takes that as the next one, without a look at the archive: see
log.py, "The delay of removal". It looks there once it has a slot itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from ..errors import FormatVersionError, StorageError, UnknownOutcomeError
from ..paths import LOG, block_of, entry_path
from .archive import is_archived, read_archive
from .entry import Entry, check_entry, encode_entry
from .log import Log
from .moment import Moment


def append(log: Log, entry: Entry, after: Sequence[str] = ()) -> bool:
    """Commit an entry as its epoch, durably. Return whether this entry was committed.

    ``after``: files and folders that are made durable before the entry exists. False: another
    commit has this epoch; nothing happened. StorageFullError, FilesystemError or ClockError:
    nothing happened. UnknownOutcomeError: read the log again before retrying. UsageError, and
    nothing happened, for an entry that could not be read; FormatVersionError, and nothing happened,
    if the commit that has this epoch has a feature that this version does not know.
    """
    check_entry(entry)
    now = Moment.of(log.environment)
    doubt: UnknownOutcomeError | None = None
    is_created = False
    try:
        path, data = entry_path(entry.epoch), encode_entry(entry)
        log.environment.put_if_absent(path, data, entry.time, after)
    except FileExistsError:
        pass
    except UnknownOutcomeError as error:
        doubt = error
        log.announce(entry.epoch)
    else:
        is_created = True
        log.announce(entry.epoch)
        # Never by `SeenEntry`: the machine may have been suspended since the last look at it.
        if _is_alive(log, entry):
            log.note_commit(entry, now)
            return True
    log.note_rivals()
    if doubt is None and _is_lost(log, entry):
        return False
    try:
        return _resolve_outcome(log, entry, doubt)
    except FormatVersionError as error:
        if is_created or doubt is not None:
            raise _unknown_outcome_error(log, entry, error) from error
        raise


def _is_alive(log: Log, entry: Entry) -> bool:
    try:
        return not is_archived(log.environment, entry.epoch)
    except StorageError as error:
        raise _unknown_outcome_error(log, entry, error) from error


def _is_lost(log: Log, entry: Entry) -> bool:
    """Return whether one look shows that another commit has the slot of an entry.

    It does if the other one follows the same commit, whose own entry was seen so lately that the
    slot cannot have been free again since. See log.py, "The delay of removal".
    """
    if not log.environment.removal_delay:
        return False
    try:
        winner = log.files.entry(entry.epoch)
    except (StorageError, FileNotFoundError):
        return False
    if winner.commit_id == entry.commit_id or winner.parent != entry.parent:
        return False
    if not log.seen.is_recent(entry.parent):
        return False
    log.note_next(winner)
    return True


def _resolve_outcome(log: Log, entry: Entry, doubt: UnknownOutcomeError | None) -> bool:
    """Return whether an entry was committed, by reading the log; remove the entry if dead.

    FormatVersionError if the log has become one that this version does not read.
    """
    # The request may have taken any time: what was seen before it proves nothing after it.
    log.seen.forget()
    try:
        committed = _read_committed(log, entry.epoch)
        is_own = committed is not None and committed.commit_id == entry.commit_id
        if is_own:
            # The response that was lost may have reported that this failed.
            log.environment.sync_folder(LOG)
            log.announce(entry.epoch)
        else:
            _remove_dead(log, entry)
    except FormatVersionError:
        raise
    except (StorageError, FileNotFoundError) as error:
        raise _unknown_outcome_error(log, entry, error) from error
    if committed is None and doubt is not None:
        raise _unknown_outcome_error(log, entry, doubt) from doubt
    return is_own


def _read_committed(log: Log, epoch: int) -> Entry | None:
    """Return the entry that was committed as an epoch; None if there is none."""
    entry = None
    with suppress(FileNotFoundError):
        entry = log.files.entry(epoch)
    # The archive decides if the two differ. It is read last: no entry leaves the log before it is
    # in the archive.
    archived = read_archive(log.environment, epoch)
    return archived[block_of(epoch).index(epoch)] if archived else entry


def _remove_dead(log: Log, entry: Entry) -> None:
    """Remove an entry that was created for an epoch that had been folded."""
    with suppress(FileNotFoundError):
        if log.files.entry(entry.epoch).commit_id == entry.commit_id:
            log.environment.remove(entry_path(entry.epoch))


def _unknown_outcome_error(log: Log, entry: Entry, cause: Exception) -> UnknownOutcomeError:
    return UnknownOutcomeError(
        f"{log.environment.location(entry_path(entry.epoch))}: this commit ({entry.operation}) may "
        f"or may not have happened; look whether epoch {entry.epoch} has the commit id "
        f"{entry.commit_id} before writing it again; what failed: {cause}"
    )
