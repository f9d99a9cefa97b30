"""The history of a store: the entries of its epochs, and the states at those epochs.

Each entry names the commit before it (its parent). So an entry is known to be committed if a chain
of parents leads to it from a state's commit: the files are read from the newest epoch of a block
down, each checked against the parent that the entry after it names. Only the newest of them, if no
later entry is known, needs the proof that its epoch has no archive (append.py, "Zombie writers").

Entries never change, so those that were read stay in a cache, by commit id. A lookup always follows
the chain of parents from a state: an entry of another store, or of a diverged copy of this one,
with the same path and epoch has another commit id, so a lookup never returns it. The states that
were asked for last stay, too: a later one is made of them instead of a checkpoint.

Does not know: how the newest state is found (log.py).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import pairwise

from ..errors import EpochNotFoundError
from ..forklock import ForkLock
from ..instant import iso_time
from ..paths import ARCHIVE, BLOCK, LOG, block_of
from .archive import check_parent, is_archived, mixed_stores_error, read_archive
from .entry import Entry
from .live_segments import is_outdated
from .log_files import LogFiles
from .state import StoreState, fold

# In units of one entry or one (segment, table) record in it: some 20 MB of memory at most.
_CACHE_UNITS = 20_000
# The refreshes of a few views ask for states that are a few epochs old.
_MOST_STATES = 4
# The state of an expired epoch may be the fold of the whole log, which is not held at once.
_MOST_ENTRIES = 1024


class EntryCache:
    """Entries by commit id; the first added are removed first. Safe between threads."""

    def __init__(self, units: int = _CACHE_UNITS) -> None:
        """``units``: how many entries, and records of segments in them, to hold at most."""
        self._room = units
        self._entries: dict[str, Entry] = {}
        self._lock = ForkLock()

    def add(self, entries: Iterable[Entry]) -> None:
        """Add entries, and remove the oldest ones that exceed the limit."""
        with self._lock:
            for entry in entries:
                if entry.commit_id not in self._entries:
                    self._entries[entry.commit_id] = entry
                    self._room -= _units(entry)
            while self._room < 0:
                self._room += _units(self._entries.pop(next(iter(self._entries))))

    def forget(self, state: StoreState, first: int) -> None:
        """Remove the entries before ``first`` that lead to a state, as far as there is no gap."""
        with self._lock:
            for epoch, entry in self.ancestors(state, 1).items():
                if epoch < first:
                    self._room += _units(self._entries.pop(entry.commit_id))

    def ancestors(self, state: StoreState, first: int) -> dict[int, Entry]:
        """Return the cached entries by epoch, of a state down to ``first`` or the first gap."""
        commit_id, epoch = state.commit_id, state.epoch
        entries: dict[int, Entry] = {}
        with self._lock:
            while epoch >= first and (entry := self._entries.get(commit_id)) is not None:
                entries[epoch] = entry
                commit_id, epoch = entry.parent, epoch - 1
        return entries


def _units(entry: Entry) -> int:
    return 1 + sum(1 + len(segment.tables) for segment in entry.added)


shared_cache = EntryCache()


class History:
    """The entries and states of one store up to a state that the caller knows to be committed."""

    def __init__(self, files: LogFiles, cache: EntryCache) -> None:
        """``cache``: holds the entries that were read."""
        self._files = files
        self._environment = files.environment
        self._cache = cache
        # The states that were returned last, the newest first.
        self._states: tuple[StoreState, ...] = ()

    def forget_expired(self, newest: StoreState) -> None:
        """Forget what was read of epochs that cannot be read any more.

        Those of a block before the oldest epoch stay: its state may be made of them.
        """
        self._cache.forget(newest, newest.oldest_epoch - BLOCK)

    def entries(self, newest: StoreState, first: int, last: int) -> Iterator[Entry]:
        """Yield the entries of the epochs ``first`` to ``last``, archived or not.

        ``newest``: a state of the store at ``last`` or later. CorruptionError if a file is missing
        or damaged, or an entry does not follow the one before it.
        """
        cached = self._cache.ancestors(newest, first)
        previous: Entry | None = None
        while first <= last:
            stop = min(block_of(first).stop, last + 1)
            for entry in self._block(newest, range(first, stop), cached):
                if previous is not None:
                    check_parent(previous.commit_id, entry, self._environment.location(""))
                yield entry
                previous = entry
            first = stop

    def _block(self, newest: StoreState, epochs: range, cached: Mapping[int, Entry]) -> list[Entry]:
        """Return the entries of some epochs of one block; those ``cached`` are not read."""
        missing = range(
            epochs.start, next((epoch for epoch in epochs if epoch in cached), epochs.stop)
        )
        if not missing:
            return [cached[epoch] for epoch in epochs]
        commit_id = None
        if missing.stop in cached:
            commit_id = cached[missing.stop].parent
        elif missing[-1] == newest.epoch:
            commit_id = newest.commit_id
        entries = self._read(newest, missing, commit_id)
        self._cache.add(entries)
        return [*entries, *(cached[epoch] for epoch in range(missing.stop, epochs.stop))]

    def _read(self, newest: StoreState, epochs: range, commit_id: str | None) -> list[Entry]:
        """Read the entries of some epochs of one block; ``commit_id``: the last one's, if known.

        The archive is read first if it exists unless folding failed.
        """
        is_folded = block_of(epochs[0])[-1] <= (newest.epoch // BLOCK - 1) * BLOCK
        archived = self._read_archived(epochs, commit_id) if is_folded else None
        # The archive is read last: no entry leaves the log's folder before it is in the archive.
        entries = (
            archived or self._read_live(epochs, commit_id) or self._read_archived(epochs, commit_id)
        )
        if not entries:
            raise self._files.missing_entry_error(self._first_missing(epochs))
        return entries

    def _first_missing(self, epochs: range) -> int:
        for epoch in epochs:
            try:
                self._files.entry(epoch)
            except FileNotFoundError:
                return epoch
        return epochs[0]

    def _read_archived(self, epochs: range, commit_id: str | None) -> list[Entry] | None:
        """Read entries from their archive; None if there is none."""
        archived = read_archive(self._environment, epochs[0])
        if archived is None:
            return None
        first = block_of(epochs[0])[0]
        entries = list(archived[epochs.start - first : epochs.stop - first])
        if commit_id not in (None, entries[-1].commit_id):
            raise mixed_stores_error(epochs[-1], self._environment.location(ARCHIVE))
        return entries

    def _read_live(self, epochs: range, commit_id: str | None) -> list[Entry] | None:
        """Read entries from the log's folder, the last first; None if they are in the archive."""
        entries: list[Entry] = []
        for epoch in reversed(epochs):
            try:
                entry = self._files.entry(epoch)
            except FileNotFoundError:
                return None
            if entry.commit_id != commit_id:
                # Dead, or not known to be alive: an epoch with an archive has its entry there.
                if is_archived(self._environment, epoch):
                    return None
                if commit_id is not None:
                    raise mixed_stores_error(epoch, self._environment.location(LOG))
            entries.append(entry)
            commit_id = entry.parent
        return entries[::-1]

    def newest_first(self, newest: StoreState) -> Iterator[Entry]:
        """Yield all entries up to a state's own, the newest first."""
        last = newest.epoch
        while last:
            first = block_of(last)[0]
            yield from reversed(list(self.entries(newest, first, last)))
            last = first - 1

    def state_at(self, newest: StoreState, epoch: int) -> StoreState:
        """Return the state of an epoch; ``newest`` says which epochs can be read.

        EpochNotFoundError or EpochExpiredError, CorruptionError if a file is missing or damaged.
        """
        newest.check_epoch(epoch)
        return self.past_state(newest, epoch)

    def past_state(self, newest: StoreState, epoch: int) -> StoreState:
        """Return the state of an epoch up to ``newest``, whether or not the epoch can be read.

        The files of its segments may be gone. It takes the whole log up to an expired epoch, since
        vacuum removes the checkpoints before it. CorruptionError if a file is missing or damaged.
        """
        state = newest if epoch == newest.epoch else self._folded(newest, epoch)
        others = [other for other in self._states if other.commit_id != state.commit_id]
        self._states = (state, *others)[:_MOST_STATES]
        return state

    def _folded(self, newest: StoreState, epoch: int) -> StoreState:
        state = self._known_before(newest, epoch) or self._start_before(newest, epoch)
        while state.epoch < epoch:
            last = min(state.epoch + _MOST_ENTRIES, epoch)
            entries = list(self.entries(newest, state.epoch + 1, last))
            check_parent(state.commit_id, entries[0], self._environment.location(LOG))
            state = fold(state, entries)
        return state

    def _known_before(self, newest: StoreState, epoch: int) -> StoreState | None:
        """Return the last known state at or before an epoch, unless it is far from it."""
        candidates = [
            state
            for state in self._states
            if epoch - BLOCK < state.epoch <= epoch and not is_outdated(state.segments, epoch)
        ]
        for state in sorted(candidates, key=lambda state: state.epoch, reverse=True):
            (entry,) = self.entries(newest, state.epoch, state.epoch)
            # The store may have been replaced by another one since the state was read.
            if entry.commit_id == state.commit_id:
                return state
        return None

    def _start_before(self, newest: StoreState, epoch: int) -> StoreState:
        """Return the state of the last checkpoint at or before an epoch; without one, of epoch 1.

        Writing a checkpoint may have failed: then there is one 32 epochs earlier.
        """
        for checkpoint in range(epoch // BLOCK * BLOCK, 0, -BLOCK):
            with suppress(FileNotFoundError):
                return self._files.checkpoint(checkpoint)
        (first,) = self.entries(newest, 1, 1)
        return StoreState.first(first)

    def epoch_at(self, newest: StoreState, time: int) -> int:
        """Return the newest epoch committed at or before a time, in microseconds since 1970.

        EpochNotFoundError if the store is younger, EpochExpiredError if the epoch has expired.
        """

        def time_of(epoch: int) -> int:
            (entry,) = self.entries(newest, epoch, epoch)
            return entry.time

        if time >= newest.time:
            return newest.epoch
        # Times ascend between repairs of the clock. Epochs that a wrong clock dated into the future
        # count as committed at the repair: so the result is the last epoch that is not later.
        starts = [1, *newest.clock_repairs]
        for start, stop in reversed([*pairwise([*starts, newest.epoch + 1])]):
            if time_of(start) <= time:
                epoch = start + bisect_right(range(start + 1, stop), time, key=time_of)
                newest.check_epoch(epoch)
                return epoch
        raise EpochNotFoundError(
            f"{iso_time(time)} is before the first epoch of the store, {iso_time(time_of(1))}: "
            "take that or a later time"
        )
