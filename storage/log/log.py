"""The commit log: one file per epoch; creating the file is the commit.

Promises: a state that `load` or `refresh` returns was the newest at some moment during the call;
opening a store reads one checkpoint and a few entries, whatever its age; a missing or damaged file
is a CorruptionError that names it.
Does not know: how an entry is added (append.py), what a commit must check (transaction.py),
segments.

**The order of removal** (folding.py). Archives are durable first; then checkpoints are removed,
then entries, each in ascending order. So while the file that a reader started from (a checkpoint,
or the entry of its own epoch) still exists, no entry after it has been removed, and a missing next
entry means that there is none. A reader looks for the next entry, then for its own: two cheap
calls (folder_watch.py), and no reader, however long it slept, mistakes a folded log for one without
new commits. Listing the folder once per interval of the environment bounds what a file system with
a stale cache, or the entry of a dead writer (append.py), can hide.

**No look at all** is needed while the signal of the store has the number that it had before the
last look, for some milliseconds: see commit_signal.py. So a process that makes or finds an entry
announces it before a call returns anything of it.

**The delay of removal.** Where each look is a request to a server, the environment has a delay: an
entry is removed only when it is so much older, by the clock of the files, than the newest one. So
within half of that time after a reader saw its own entry, a missing next entry was not removed, and
one look is enough; the look reads the next entry, which is as cheap.

**The look before a commit.** Where it is a request, a writer leaves it out if what it knows of the
log is probably the newest: its own entry was seen lately, and no other writer has come between its
last few commits. If it is wrong, its entry's slot is taken, and it looks then; if it is right, no
other commit came after what it knew, as the slot shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ..commit_signal import LOOK_INTERVAL
from ..environment import Environment
from ..errors import CorruptionError
from ..paths import LOG, SIGNAL, entry_path
from .archive import check_chain
from .entry import Entry
from .epoch_marks import EpochMarks
from .folder_watch import FolderWatch
from .folding import DIVISION, Division, Folding
from .history import EntryCache, History, shared_cache
from .live_segments import is_outdated
from .log_files import LogFiles
from .manifest_files import ManifestCache, shared_manifests
from .moment import LONG_AGO, Moment
from .newest_state import load_newest
from .seen_entry import SeenEntry
from .state import StoreState, fold

# A writer is alone after so many commits in a row between which no other writer's came.
_ALONE = 8

_Quiet: TypeAlias = tuple[Sequence[int], int | None, StoreState | None, float]
_NEVER: _Quiet = ((0,), None, None, 0.0)


class Log:
    """The log of one store. Safe between threads and processes; it keeps no state of the store.

    ``files`` reads single entries and checkpoints, ``history`` what is known to be committed,
    ``folding`` writes checkpoints; ``seen`` is the entry that was seen last, ``marks`` are epochs
    by times.
    """

    def __init__(
        self,
        environment: Environment,
        cache: EntryCache = shared_cache,
        manifests: ManifestCache = shared_manifests,
        division: Division = DIVISION,
    ) -> None:
        """``environment``: the store's, whose folder need not exist yet.

        ``cache`` holds the entries that were read, ``manifests`` those of checkpoints; by default
        one of each for the process. ``division``: how checkpoints are divided.
        """
        self.environment = environment
        self.files = LogFiles(environment, manifests)
        self.history = History(self.files, cache)
        self.folding = Folding(self.files, division)
        self.seen = SeenEntry(environment)
        self.marks = EpochMarks()
        self._cache = cache
        self._watch = FolderWatch(environment)
        # When the folder was listed last.
        self._listed = LONG_AGO
        # What the last look found: the signal, its number before the look, the newest state, and
        # until when that may be relied on.
        self._quiet: _Quiet = _NEVER
        self._monotonic = environment.monotonic
        # How many commits there were since another writer's; see "The look before a commit".
        self._undisturbed = _ALONE
        # The entry that was in the slot of the last commit that came too late.
        self._winner: Entry | None = None

    # The newest state

    def load(self) -> StoreState:
        """Return the newest state, read from the files alone.

        StoreNotFoundError if there is nothing at the path, NotAStoreError if it holds something
        else.
        """
        state, self._listed = load_newest(self.files, self._cache)
        self.seen.note(state.commit_id, self._listed)
        self.announce(state.epoch)
        return state

    def is_quiet(self, state: StoreState) -> bool:
        """Return whether a state is certainly still the newest; if False, call `refresh`.

        It takes no look at the folder.
        """
        signal, number, newest, end = self._quiet
        return signal[0] == number and newest is state and self._monotonic() < end

    def refresh(self, state: StoreState) -> StoreState:
        """Return the newest state; ``state`` itself if it is the newest.

        It takes no look at the folder if nothing was announced since the last one, which was within
        `LOOK_INTERVAL`; else one if nothing changed in it, else two or three.
        """
        if self.is_quiet(state):
            return state
        # All three before the look: see commit_signal.py.
        end = self._monotonic() + LOOK_INTERVAL
        signal = self.environment.signal(SIGNAL)
        number = None if signal is None else signal[0]
        newest = self._look(state)
        if newest is not state:
            self.announce(newest.epoch)
        self._quiet = _NEVER if signal is None else (signal, number, newest, end)
        return newest

    def _look(self, state: StoreState) -> StoreState:
        """Return the newest state, as `refresh` does, by looks at the folder."""
        environment = self.environment
        monotonic = environment.monotonic()
        if not self._was_listed(monotonic):
            return state if self._is_newest(state) else self._reload(state)
        if environment.removal_delay:
            # A look that finds the next entry would be a request that only its reading repeats.
            return self._follow(state)
        if self._watch.is_newest(state.epoch, monotonic):
            return state
        now = Moment.of(environment)
        return self._advance(state, self._next_entries(state), now)

    def _follow(self, state: StoreState) -> StoreState:
        """Return the newest state, by reading the next entry at once."""
        now = Moment.of(self.environment)
        entries = self._next_entries(state)
        return self._advance(state, entries, now) if entries else self.confirm(state)

    def _was_listed(self, monotonic: float) -> bool:
        """Return whether the folder was listed lately; ``monotonic``: the clock's time now."""
        environment, interval = self.environment, self.environment.listing_interval
        if monotonic - self._listed.monotonic >= interval:
            return False
        # Gets call this: the other clock is read only where what comes after relies on the time.
        return not environment.removal_delay or self._listed.is_within(
            interval, Moment.of(environment)
        )

    def confirm(self, state: StoreState) -> StoreState:
        """Return ``state`` if the log still contains its entry, else the newest state.

        A writer calls this before it adds to a log that it has not read for a while.
        CorruptionError if the log is another store's, or has lost entries that were read from it.
        """
        if self.seen.is_recent(state.commit_id):
            return state
        now = Moment.of(self.environment)
        if not self._contains(state):
            return self._reload(state)
        self.seen.note(state.commit_id, now)
        return state

    def _contains(self, state: StoreState) -> bool:
        try:
            return self.files.entry(state.epoch).commit_id == state.commit_id
        except FileNotFoundError:
            return False

    def _is_newest(self, state: StoreState) -> bool:
        now = Moment.of(self.environment)
        newest = self.files.listing().newest
        # Not before: a listing that fails shows nothing.
        self._listed = now
        return newest == state.epoch and self._contains(state)

    def _next_entries(self, state: StoreState) -> list[Entry]:
        """Return the entries after a state; that of a winner of a race is not read again."""
        winner = self._winner
        if winner is None or winner.parent != state.commit_id:
            return self.files.entries_after(state.epoch)
        return [winner, *self.files.entries_after(winner.epoch)]

    def _advance(self, state: StoreState, entries: Sequence[Entry], now: Moment) -> StoreState:
        """Return the state after entries, which were read after ``now``, if they are committed."""
        # See "The order of removal", and "The delay of removal" for what was seen.
        if not entries or not (self.seen.is_recent(state.commit_id) or self._contains(state)):
            return self._reload(state)
        check_chain(state.commit_id, entries, self.environment.location(LOG))
        self._cache.add(entries)
        if is_outdated(state.segments, entries[-1].epoch):
            return self._reload(state)
        self._undisturbed = 0
        newest = fold(state, entries)
        self.seen.note(newest.commit_id, now)
        return newest

    def is_probably_newest(self, state: StoreState) -> bool:
        """Return whether to commit after a state without a look. See "The look before a commit"."""
        return self._undisturbed >= _ALONE and self.was_newest_lately(state)

    def was_newest_lately(self, state: StoreState) -> bool:
        """Return whether a state was the newest within minutes; False where looks are cheap."""
        return self.environment.removal_delay > 0 and self.seen.is_recent(state.commit_id)

    def _reload(self, state: StoreState) -> StoreState:
        self._undisturbed = 0
        loaded = self.load()
        root = self.environment.location("")
        if loaded.settings.store_id != state.settings.store_id:
            raise CorruptionError(
                f"{root}: another store has replaced the one that was opened: open it again"
            )
        if loaded.epoch < state.epoch:
            raise CorruptionError(
                f"{self.environment.location(entry_path(loaded.epoch + 1))}: this file of the log "
                f"is missing, although epoch {state.epoch} was read here: restore it from a backup"
            )
        return loaded

    # What a writer reports: see append.py

    def announce(self, epoch: int) -> None:
        """Let other processes look at the log, before a call returns anything of an epoch."""
        self.environment.announce(SIGNAL, entry_path(epoch))

    def note_commit(self, entry: Entry, moment: Moment) -> None:
        """Take an entry that was committed here; ``moment``: before it was created."""
        self._cache.add([entry])
        self.seen.note(entry.commit_id, moment)
        self._undisturbed += 1
        if entry.epoch == 1:
            # It was put into a folder that was found to be empty.
            self._listed = moment

    def note_rivals(self) -> None:
        """Let the next commit, and the next `refresh`, look at the folder: others commit too.

        The entry in their slot may not have been announced.
        """
        self._undisturbed = 0
        self._quiet = _NEVER

    def note_next(self, entry: Entry) -> None:
        """Take an entry that was read and follows its parent, so that it is not read again."""
        self._winner = entry
