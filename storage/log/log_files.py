"""The files of a commit log, read: its folder's listing, entries and checkpoints.

Promises: what is returned was read in the call, nothing is remembered; a damaged file is a
CorruptionError that names it.
Does not know: which entries are committed (log.py, history.py).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from ..environment import Environment
from ..errors import CorruptionError, NotAStoreError, StoreNotFoundError
from ..paths import (
    ARCHIVE,
    LOG,
    archive_path,
    archived_checkpoint_path,
    checkpoint_path,
    entry_path,
    parse_archived_checkpoint,
    parse_log_file,
)
from .checkpoint import decode_checkpoint
from .entry import Entry, decode_entry
from .manifest_files import ManifestCache, shared_manifests
from .state import StoreState


@dataclass(frozen=True, slots=True)
class Listing:
    """The epochs, ascending, whose checkpoints and entries are in the log's folder."""

    checkpoints: tuple[int, ...]
    entries: tuple[int, ...]

    @property
    def newest(self) -> int:
        """The newest epoch of any of them; 0 if there is none."""
        return max(self.checkpoints[-1:] + self.entries[-1:], default=0)


class LogFiles:
    """The files of one store's log. Safe between threads."""

    def __init__(
        self, environment: Environment, manifests: ManifestCache = shared_manifests
    ) -> None:
        """``environment``: that of the store; ``manifests``: those that were read."""
        self.environment = environment
        self.manifest_cache = manifests

    def listing(self) -> Listing:
        """Return what is in the log's folder.

        StoreNotFoundError if there is nothing at the store's path, NotAStoreError if it has no log.
        """
        root = self.environment.location("")
        try:
            names = self.environment.list(LOG)
        except FileNotFoundError:
            if self.environment.exists(""):
                raise NotAStoreError(
                    f"{root}: this is not a store, it has no folder {LOG}: name the folder of a "
                    "store, or create one in a folder of its own"
                ) from None
            raise StoreNotFoundError(
                f"{root}: there is no store here: create one with relstate.create(path) or the "
                "command relstate create"
            ) from None
        epochs: dict[str, list[int]] = {"checkpoint": [], "entry": []}
        for file in map(parse_log_file, names):
            if file is not None:
                epochs[file.kind].append(file.epoch)
        return Listing(tuple(epochs["checkpoint"]), tuple(epochs["entry"]))

    def entry(self, epoch: int) -> Entry:
        """Return the entry in an epoch's slot. FileNotFoundError if there is none.

        It may be dead: see append.py, "Zombie writers".
        """
        path = entry_path(epoch)
        return decode_entry(self.environment.read(path), epoch, self.environment.location(path))

    def entries_after(self, epoch: int) -> list[Entry]:
        """Return the entries after an epoch, up to the first that is missing."""
        entries: list[Entry] = []
        with suppress(FileNotFoundError):
            while True:
                entries.append(self.entry(epoch + len(entries) + 1))
        return entries

    def consecutive_entries(self, first: int, last: int) -> list[Entry]:
        """Return the entries of some epochs, read at once, up to the first that is missing."""
        epochs = range(first, last + 1)
        contents = self.environment.read_all([entry_path(epoch) for epoch in epochs])
        entries: list[Entry] = []
        for epoch, data in zip(epochs, contents, strict=True):
            if data is None:
                break
            entries.append(decode_entry(data, epoch, self.environment.location(entry_path(epoch))))
        return entries

    def checkpoint(self, epoch: int) -> StoreState:
        """Return the state in an epoch's checkpoint, archived or not.

        FileNotFoundError if there is none.
        """
        try:
            return self._checkpoint(epoch, checkpoint_path(epoch))
        except FileNotFoundError:
            return self.archived_checkpoint(epoch)

    def archived_checkpoint(self, epoch: int) -> StoreState:
        """Return the state in an epoch's archived checkpoint. FileNotFoundError if none is."""
        return self._checkpoint(epoch, archived_checkpoint_path(epoch))

    def checkpoint_at(self, path: str) -> StoreState:
        """Return the state in a checkpoint by its path. FileNotFoundError if there is none."""
        file = parse_log_file(path.rsplit("/", 1)[-1])
        assert file is not None
        return self._checkpoint(file.epoch, path)

    def _checkpoint(self, epoch: int, path: str) -> StoreState:
        data = self.environment.read(path)
        location = self.environment.location(path)
        return decode_checkpoint(data, epoch, location, self.environment, self.manifest_cache)

    def checkpoint_epochs(self) -> tuple[int, ...]:
        """Return the epochs that have a checkpoint, archived or not, ascending."""
        names = self.environment.list(ARCHIVE)
        archived = {epoch for epoch in map(parse_archived_checkpoint, names) if epoch is not None}
        return tuple(sorted(archived.union(self.listing().checkpoints)))

    def missing_entry_error(self, epoch: int) -> CorruptionError:
        """Return the error for an entry that is missing: it names the file that should hold it."""
        is_folded = epoch < min(self.listing().entries, default=0)
        return self.missing_file_error(archive_path(epoch) if is_folded else entry_path(epoch))

    def missing_file_error(self, path: str) -> CorruptionError:
        """Return the error for a missing file of the log."""
        return CorruptionError(
            f"{self.environment.location(path)}: this file of the log is missing, although there "
            "are later ones: restore it from a backup"
        )
