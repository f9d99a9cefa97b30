"""Loading the newest state of a log, from its files alone.

Promises: reads one checkpoint and the entries after it, whatever the age of the store; the state
was the newest at some moment during the call; a missing or damaged file is a CorruptionError that
names it.
Does not know: what was read before.
"""

from __future__ import annotations

from typing import NamedTuple

from ..errors import FilesystemError, NotAStoreError
from ..paths import LOG, checkpoint_path, entry_path
from .archive import check_chain
from .history import EntryCache
from .log_files import Listing, LogFiles
from .moment import Moment
from .state import StoreState, fold

# Loading starts again when the log was folded meanwhile, which takes 33 commits each time.
_ATTEMPTS = 100


class Loaded(NamedTuple):
    """The newest state of a log; ``moment``: before its folder was listed."""

    state: StoreState
    moment: Moment


def load_newest(files: LogFiles, cache: EntryCache) -> Loaded:
    """Return the newest state; entries that are read are added to ``cache``.

    StoreNotFoundError if there is nothing at the path, NotAStoreError if it holds something else.
    """
    for _ in range(_ATTEMPTS):
        moment = Moment.of(files.environment)
        state = _load(files, cache)
        if state is not None:
            return Loaded(state, moment)
    raise FilesystemError(
        f"{files.environment.location(LOG)}: the log changed under each of {_ATTEMPTS} attempts to "
        "read it: is the file system's view of the folder consistent?"
    )


def _load(files: LogFiles, cache: EntryCache) -> StoreState | None:
    """Return the newest state; None if the log was folded meanwhile."""
    environment = files.environment
    listing = files.listing()
    if not listing.newest:
        raise NotAStoreError(
            f"{environment.location('')}: its log has no entry, because the creation of the store "
            "was interrupted: create it again"
        )
    start = checkpoint_path(listing.checkpoints[-1]) if listing.checkpoints else entry_path(1)
    try:
        state = _read_start(files, cache, listing)
    except FileNotFoundError:
        if files.listing().checkpoints != listing.checkpoints:
            return None
        raise files.missing_file_error(start) from None
    if environment.has_current_names:
        entries = files.consecutive_entries(state.epoch + 1, listing.newest)
    else:
        entries = files.entries_after(state.epoch)
    is_complete = state.epoch + len(entries) >= listing.newest
    is_proven = environment.has_current_names and is_complete
    if not is_proven and not environment.exists(start):
        return None
    check_chain(state.commit_id, entries, environment.location(LOG))
    cache.add(entries)
    if not is_complete:
        raise files.missing_entry_error(state.epoch + len(entries) + 1)
    return fold(state, entries)


def _read_start(files: LogFiles, cache: EntryCache, listing: Listing) -> StoreState:
    if not listing.checkpoints:
        first = files.entry(1)
        cache.add([first])
        return StoreState.first(first)
    return files.checkpoint(listing.checkpoints[-1])
