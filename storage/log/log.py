"""The commit log: one file per epoch; creating the file is the commit.

Promises: of all writers that compete for an epoch exactly one gets it; that one knows it, or
gets UnknownOutcomeError if it cannot be known; a state that `load` or `refresh` returns was the
newest at some moment during the call; opening a store reads one checkpoint and a few entries,
whatever its age; a missing or damaged file is a CorruptionError that names it.
Does not know: what a commit must check (transaction.py), segments.

**The order of removal** (folding.py). Archives are durable first; then checkpoints are removed,
then entries, each in ascending order. So while the file that a reader started from (a checkpoint,
or the entry of its own epoch) still exists, no entry after it has been removed, and a missing next
entry means that there is none. A reader looks for the next entry, then for its own: two cheap
calls, and no reader, however long it slept, mistakes a folded log for one without new commits. If
the folder's version is the one taken before such a pair of calls, no name has been added or removed
since, and the calls would have the same result: one call is enough. Such a version counts only once
it was there for longer than a tick of the file system's clock, since a second change within the
tick might not show in it; that is timed by the reader's own clock, for the file system's may be
behind. Listing the folder once per interval of the environment bounds what a file system with a
stale cache, or the entry of a dead writer (below), can hide.

**No look at all** is needed while the signal of the store has the number that it had before the
last look, for some milliseconds: see commit_signal.py. So a process that makes or finds an entry
announces it before a call returns anything of it.

**The delay of removal.** Where each look is a request to a server, the environment has a delay: an
entry is removed only when it is so much older, by the clock of the files, than the newest one. So
within half of that time after a reader saw its own entry, a missing next entry was not removed, and
one look is enough; the look reads the next entry, which is as cheap. A writer whose slot was taken
meanwhile by an entry that follows the same commit takes that as the next one, without a look at the
archive; it looks there once it has a slot itself (below).

**The look before a commit.** Where it is a request, a writer leaves it out if what it knows of the
log is probably the newest: its own entry was seen lately, and no other writer has come between its
last few commits. If it is wrong, its entry's slot is taken, and it looks then; if it is right, no
other commit came after what it knew, as the slot shows.

**Zombie writers.** A writer may sleep between looking at the log and creating its entry, while
others commit and fold: the slot is free again, and the writer wins it. Such an entry is dead. The
writer detects this because its epoch has an archive: nothing is removed before it is archived, so a
slot without an archive was never used before. It removes its entry and tries again at the tail. A
crash before that is harmless: loading starts at a checkpoint after the dead entry, a reader accepts
a next entry only if its own still exists with the same commit id, and an entry of the past is
accepted if the one after it names it as its parent, or if it has no archive (history.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeAlias

from ..commit_signal import LOOK_INTERVAL
from ..disk import FolderVersion
from ..environment import FOLDER_VERSION_TICK, Environment
from ..errors import (
    CorruptionError,
    FilesystemError,
    NotAStoreError,
    StorageError,
    StoreExistsError,
    UnknownOutcomeError,
)
from ..paths import (
    FOLDERS,
    LOG,
    SIGNAL,
    block_of,
    checkpoint_path,
    entry_path,
)
from .archive import check_chain, check_parent, is_archived, read_archive
from .entry import Entry, Settings, check_entry, encode_entry
from .files import Listing, LogFiles
from .folding import DIVISION, Division, Folding
from .history import EntryCache, History, shared_cache
from .live_segments import is_outdated
from .manifest_files import ManifestCache, shared_manifests
from .moment import LONG_AGO, Moment
from .state import StoreState, fold

# Loading starts again when the log was folded meanwhile, which takes 33 commits each time.
_LOADING_ATTEMPTS = 100
# A writer is alone after so many commits in a row between which no other writer's came.
_ALONE = 8

_Quiet: TypeAlias = tuple[Sequence[int], int | None, StoreState | None, float]
_NEVER: _Quiet = ((0,), None, None, 0.0)


@dataclass(frozen=True, slots=True)
class _Watch:
    """What a follower checks: its own entry, the next one, and the version of their folder.

    ``version``: the version of the log's folder before the state was confirmed to be the newest;
    None if it is not known.
    """

    epoch: int
    own_path: str
    next_path: str
    version: FolderVersion | None

    @classmethod
    def of(cls, epoch: int, version: FolderVersion | None = None) -> _Watch:
        return cls(epoch, entry_path(epoch), entry_path(epoch + 1), version)


class Log:
    """The log of one store. Safe between threads and processes; it keeps no state of the store.

    ``files`` reads single entries and checkpoints, ``history`` what is known to be committed,
    ``folding`` writes checkpoints.
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
        self.folding = Folding(self.files, division)
        self._cache = cache
        self.history = History(self.files, cache)
        # When the folder was listed last, and from when on its version is asked for again.
        self._listed = LONG_AGO
        self._next_version = float("-inf")
        # The folder's version that was seen last, and from when on it shows every later change.
        self._last_version: tuple[FolderVersion | None, float] = (None, 0.0)
        self._watch = _Watch.of(0)
        # What the last look found: the signal, its number before the look, the newest state, and
        # until when that may be relied on.
        self._quiet: _Quiet = _NEVER
        self._monotonic = environment.monotonic
        # The commit whose own entry was there last, and when; see "The delay of removal".
        self._last_own: tuple[str, Moment] = ("", LONG_AGO)
        # How many commits there were since another writer's; see "The look before a commit".
        self._undisturbed = _ALONE
        # The entry that was in the slot of the last commit that came too late.
        self._winner: Entry | None = None

    # Creating

    def create(self, settings: Settings) -> StoreState:
        """Create an empty store by committing its first entry, and return its state.

        StoreExistsError if there is one, or another process created it first; NotAStoreError if
        the path holds something else.
        """
        self._check_vacant()
        self.environment.make_folders(FOLDERS)
        now = self.environment.now()
        first = Entry(
            commit_id=self.environment.random_id(),
            parent="",
            epoch=1,
            time=now,
            started=now,
            operation="create store",
            data_change=False,
            settings=settings,
        )
        if not self.append(first):
            raise self._store_exists_error()
        return StoreState.first(first)

    def _check_vacant(self) -> None:
        root = self.environment.location("")
        try:
            names = self.environment.list("")
        except FileNotFoundError:
            if self.environment.exists(""):
                raise NotAStoreError(f"{root}: this is a file; a store is a folder") from None
            return
        foreign_names = [name for name in names if name not in FOLDERS and not name.startswith(".")]
        if foreign_names:
            raise NotAStoreError(
                f"{root}: there are other things in it ({', '.join(foreign_names[:3])}): "
                "a store needs a folder of its own"
            )
        if LOG in names and self.files.listing().newest:
            raise self._store_exists_error()

    def _store_exists_error(self) -> StoreExistsError:
        root = self.environment.location("")
        return StoreExistsError(f"{root}: there is a store already: open it, or take another path")

    # Reading

    def load(self) -> StoreState:
        """Return the newest state, read from the files alone.

        StoreNotFoundError if there is nothing at the path, NotAStoreError if it holds something
        else.
        """
        for _ in range(_LOADING_ATTEMPTS):
            self._listed = Moment.of(self.environment)
            state = self._load()
            if state is not None:
                self._announce(state.epoch)
                return state
        raise FilesystemError(
            f"{self.environment.location(LOG)}: the log changed under each of {_LOADING_ATTEMPTS} "
            "attempts to read it: is the file system's view of the folder consistent?"
        )

    def _load(self) -> StoreState | None:
        """Return the newest state; None if the log was folded meanwhile."""
        now = Moment.of(self.environment)
        listing = self.files.listing()
        if not listing.newest:
            raise NotAStoreError(
                f"{self.environment.location('')}: its log has no entry, the creation of a store "
                "was cut short: create it again"
            )
        start = checkpoint_path(listing.checkpoints[-1]) if listing.checkpoints else entry_path(1)
        try:
            state = self._read_start(listing)
        except FileNotFoundError:
            if self.files.listing().checkpoints != listing.checkpoints:
                return None
            raise self.files.missing_file_error(start) from None
        if self.environment.has_current_names:
            entries = self.files.consecutive_entries(state.epoch + 1, listing.newest)
        else:
            entries = self.files.entries_after(state.epoch)
        is_complete = state.epoch + len(entries) >= listing.newest
        is_proven = self.environment.has_current_names and is_complete
        if not is_proven and not self.environment.exists(start):
            return None
        self._check_parents(state, entries)
        self._cache.add(entries)
        if not is_complete:
            raise self.files.missing_entry_error(state.epoch + len(entries) + 1)
        return self._seen(fold(state, entries), now)

    def _read_start(self, listing: Listing) -> StoreState:
        if not listing.checkpoints:
            first = self.files.entry(1)
            self._cache.add([first])
            return StoreState.first(first)
        return self.files.checkpoint(listing.checkpoints[-1])

    def _check_parents(self, state: StoreState, entries: Sequence[Entry]) -> None:
        location = self.environment.location(LOG)
        if entries:
            check_parent(state.commit_id, entries[0], location)
            check_chain(entries, location)

    # Following

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
            self._announce(newest.epoch)
        self._quiet = _NEVER if signal is None else (signal, number, newest, end)
        return newest

    def _announce(self, epoch: int) -> None:
        """Let other processes look at the log, before a call returns anything of an epoch."""
        self.environment.announce(SIGNAL, entry_path(epoch))

    def _look(self, state: StoreState) -> StoreState:
        """Return the newest state, as `refresh` does, by looks at the folder."""
        environment = self.environment
        monotonic = environment.monotonic()
        if not self._was_listed(monotonic):
            return state if self._is_newest(state) else self._reload(state)
        if environment.removal_delay:
            # A look that finds the next entry would be a request that only its reading repeats.
            return self._follow(state)
        watch, version = self._watch, None
        if monotonic >= self._next_version:
            version = environment.folder_version(LOG)
            if version is not None and version == watch.version and watch.epoch == state.epoch:
                return state
            if not self._is_at_rest(version, monotonic):
                version = None
        if watch.epoch != state.epoch:
            watch = _Watch.of(state.epoch)
        # In this order: see "The order of removal".
        if environment.exists(watch.next_path) or not self._has_own(state, watch):
            now = Moment.of(environment)
            return self._advance(state, self._next_entries(state), now)
        # Gets call this: a new watch would cost as much as a look.
        self._watch = watch if watch.version == version else replace(watch, version=version)
        return state

    def _follow(self, state: StoreState) -> StoreState:
        """Return the newest state, by reading the next entry at once."""
        now = Moment.of(self.environment)
        entries = self._next_entries(state)
        if entries:
            return self._advance(state, entries, now)
        return state if self._has_own(state, _Watch.of(state.epoch)) else self._reload(state)

    def _was_listed(self, monotonic: float) -> bool:
        """Return whether the folder was listed lately; ``monotonic``: the clock's time now."""
        environment, interval = self.environment, self.environment.listing_interval
        if monotonic - self._listed.monotonic >= interval:
            return False
        # Gets call this: the other clock is read only where what comes after relies on the time.
        return not environment.removal_delay or self._listed.is_within(
            interval, Moment.of(environment)
        )

    def _has_own(self, state: StoreState, watch: _Watch) -> bool:
        """Return whether a state's own entry is there. See "The delay of removal"."""
        if not self.environment.removal_delay:
            return self.environment.exists(watch.own_path)
        if self._was_seen(state.commit_id):
            return True
        now = Moment.of(self.environment)
        if self._contains(state):
            self._seen(state, now)
            return True
        return False

    def _seen(self, state: StoreState, now: Moment) -> StoreState:
        """Remember that a state's own entry was there at a time; return the state."""
        self._last_own = (state.commit_id, now)
        return state

    def _was_seen(self, commit_id: str) -> bool:
        """Return whether an entry was there so lately that the next cannot have been removed."""
        last, moment = self._last_own
        if last != commit_id:
            return False
        return moment.is_within(self.environment.removal_delay / 2, Moment.of(self.environment))

    def _is_at_rest(self, version: FolderVersion | None, now: float) -> bool:
        """Return whether a version of the folder was seen for so long that a change would show.

        If not, the folder is not asked again before that: single looks are cheaper until then.
        """
        last, start = self._last_version
        if version is not None and version == last:
            return now >= start
        # Not from ``now`` on: the change may have come between that and the look at the folder.
        self._next_version = self.environment.monotonic() + FOLDER_VERSION_TICK
        self._last_version = (version, self._next_version)
        return False

    def confirm(self, state: StoreState) -> StoreState:
        """Return ``state`` if the log still contains its entry, else the newest state.

        A writer calls this before it adds to a log that it has not read for a while.
        CorruptionError if the log is another store's, or has lost entries that were read from it.
        """
        if self._was_seen(state.commit_id):
            return state
        now = Moment.of(self.environment)
        return self._seen(state, now) if self._contains(state) else self._reload(state)

    def _contains(self, state: StoreState) -> bool:
        try:
            return self.files.entry(state.epoch).commit_id == state.commit_id
        except FileNotFoundError:
            return False

    def _is_newest(self, state: StoreState) -> bool:
        self._listed = Moment.of(self.environment)
        return self.files.listing().newest == state.epoch and self._contains(state)

    def _next_entries(self, state: StoreState) -> list[Entry]:
        """Return the entries after a state; that of a winner of a race is not read again."""
        winner = self._winner
        if winner is None or winner.parent != state.commit_id:
            return self.files.entries_after(state.epoch)
        return [winner, *self.files.entries_after(winner.epoch)]

    def _advance(self, state: StoreState, entries: Sequence[Entry], now: Moment) -> StoreState:
        """Return the state after entries, which were read after ``now``, if they are committed."""
        # See "The order of removal", and "The delay of removal" for what was seen.
        if not entries or not (self._was_seen(state.commit_id) or self._contains(state)):
            return self._reload(state)
        self._check_parents(state, entries)
        self._cache.add(entries)
        if is_outdated(state.segments, entries[-1].epoch):
            return self._reload(state)
        self._undisturbed = 0
        return self._seen(fold(state, entries), now)

    def is_probably_newest(self, state: StoreState) -> bool:
        """Return whether to commit after a state without a look. See "The look before a commit"."""
        return self._undisturbed >= _ALONE and self.was_newest_lately(state)

    def was_newest_lately(self, state: StoreState) -> bool:
        """Return whether a state was the newest within minutes; False where looks are cheap."""
        return self.environment.removal_delay > 0 and self._was_seen(state.commit_id)

    def _reload(self, state: StoreState) -> StoreState:
        self._undisturbed = 0
        loaded = self.load()
        root = self.environment.location("")
        if loaded.settings.store_id != state.settings.store_id:
            raise CorruptionError(
                f"{root}: another store has taken the place of the one that was opened: open it"
            )
        if loaded.epoch < state.epoch:
            raise CorruptionError(
                f"{self.environment.location(entry_path(loaded.epoch + 1))}: this file of the log "
                f"is missing, although epoch {state.epoch} was read here: restore it from a backup"
            )
        return loaded

    # Writing

    def append(self, entry: Entry, after: Sequence[str] = ()) -> bool:
        """Commit an entry as its epoch, durably. Return whether this entry was committed.

        ``after``: files and folders that are made durable before the entry exists. False: another
        commit has this epoch; nothing happened. StorageFullError, FilesystemError or ClockError:
        nothing happened. UnknownOutcomeError: read the log again before retrying. UsageError, and
        nothing happened, for an entry that could not be read.
        """
        check_entry(entry)
        now = Moment.of(self.environment)
        doubt: UnknownOutcomeError | None = None
        try:
            path, data = entry_path(entry.epoch), encode_entry(entry)
            self.environment.put_if_absent(path, data, entry.time, after)
        except FileExistsError:
            pass
        except UnknownOutcomeError as error:
            doubt = error
            self._announce(entry.epoch)
        else:
            self._announce(entry.epoch)
            # Never by `_was_seen`: the machine may have been suspended since the last look at it.
            if self._is_alive(entry):
                self._cache.add([entry])
                self._last_own = (entry.commit_id, now)
                self._undisturbed += 1
                return True
        return self._resolve_outcome(entry, doubt)

    def _is_alive(self, entry: Entry) -> bool:
        try:
            return not is_archived(self.environment, entry.epoch)
        except StorageError as error:
            raise self._unknown_outcome_error(entry) from error

    def _resolve_outcome(self, entry: Entry, doubt: UnknownOutcomeError | None) -> bool:
        """Return whether an entry was committed, by reading the log; remove the entry if dead."""
        self._undisturbed = 0
        # The entry in its slot may not have been announced: the next `refresh` is to find it.
        self._quiet = _NEVER
        if doubt is None and self._is_lost(entry):
            return False
        # The request may have taken any time: what was seen before it proves nothing after it.
        self._last_own = ("", LONG_AGO)
        try:
            committed = self._read_committed(entry.epoch)
            is_own = committed is not None and committed.commit_id == entry.commit_id
            if is_own:
                # The response that was lost may have reported that this failed.
                self.environment.sync_folder(LOG)
                self._announce(entry.epoch)
            else:
                self._remove_dead(entry)
        except (StorageError, FileNotFoundError) as error:
            raise self._unknown_outcome_error(entry) from error
        if committed is None and doubt is not None:
            raise self._unknown_outcome_error(entry) from doubt
        return is_own

    def _is_lost(self, entry: Entry) -> bool:
        """Return whether one look shows that another commit has the slot of an entry.

        It does if the other one follows the same commit, whose own entry was seen so lately that
        the slot cannot have been free again since. See "The delay of removal".
        """
        if not self.environment.removal_delay:
            return False
        try:
            winner = self.files.entry(entry.epoch)
        except (StorageError, FileNotFoundError):
            return False
        if winner.commit_id == entry.commit_id or winner.parent != entry.parent:
            return False
        if not self._was_seen(entry.parent):
            return False
        self._winner = winner
        return True

    def _read_committed(self, epoch: int) -> Entry | None:
        """Return the entry that was committed as an epoch; None if there is none."""
        entry = None
        with suppress(FileNotFoundError):
            entry = self.files.entry(epoch)
        # The archive decides if the two differ. It is read last: no entry leaves the log before it
        # is in the archive.
        archived = read_archive(self.environment, epoch)
        return archived[block_of(epoch).index(epoch)] if archived else entry

    def _remove_dead(self, entry: Entry) -> None:
        """Remove an entry that was created for an epoch that had been folded."""
        with suppress(FileNotFoundError):
            if self.files.entry(entry.epoch).commit_id == entry.commit_id:
                self.environment.remove(entry_path(entry.epoch))

    def _unknown_outcome_error(self, entry: Entry) -> UnknownOutcomeError:
        return UnknownOutcomeError(
            f"{self.environment.location(entry_path(entry.epoch))}: this commit "
            f"({entry.operation}) may or may not have happened; look whether epoch {entry.epoch} "
            f"has the commit id {entry.commit_id} before writing it again"
        )
