"""Folding: the writing of checkpoints, and the removal of what they cover.

Every 32 epochs the writer that committed writes a checkpoint: the fold of all entries so far.
Entries that two checkpoints cover are copied to an archive, one file per block of 32, and then
removed, together with the older checkpoints, which are archived too: the state of an older epoch
is the fold of at most 31 entries onto the checkpoint before it. So `_log` holds at most about a
hundred files, and opening a store lists them. A pointer to the newest checkpoint would not help:
it could be stale, so the folder would be listed all the same.

The checkpoint of a store with many segments names manifests, which are put before it. What it names
like the newest checkpoint in the log's folder is not put again: see manifest_files.py.

Promises: a crash at any moment leaves a log that reads as before; checkpoints of one epoch are
equal, whoever writes them, but for the names of manifests if writers divide in different ways.
Does not know: what is committed.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from dataclasses import dataclass

from ..errors import FilesystemError, RelstateError
from ..paths import ARCHIVE, BLOCK, archived_checkpoint_path, block_of, checkpoint_path, entry_path
from .archive import archive_block
from .checkpoint import encode_checkpoint, encode_divided
from .live_segments import SIZE, LiveSegments, Manifests, file_names
from .log_files import Listing, LogFiles
from .manifest_files import RELIED, ManifestFiles
from .moment import Moment
from .state import StoreState

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Division:
    """How checkpoints are divided: one of at most ``most`` segments is one file.

    Those of others are in manifests of about ``size`` segments each.
    """

    most: int = 8192
    size: int = SIZE


DIVISION = Division()


class Folding:
    """The folding of one store's log. Safe between threads."""

    def __init__(self, files: LogFiles, division: Division) -> None:
        self._files = files
        self._environment = files.environment
        self._division = division

    def auto_fold(self, state: StoreState) -> None:
        """Write a checkpoint and fold after the commit of ``state``, every 32 epochs.

        The commit is valid whatever happens here: an error is logged, and folding is tried again
        32 epochs later.
        """
        if state.epoch % BLOCK:
            return
        try:
            self.put_checkpoint(state)
            self.fold()
        except Exception as error:  # the commit happened: who sees an error would repeat it
            is_unexpected = not isinstance(error, RelstateError | FileNotFoundError)
            _logger.warning(
                "the log could not be folded at epoch %d: %s",
                state.epoch,
                error,
                exc_info=is_unexpected,
            )

    def put_checkpoint(self, state: StoreState) -> None:
        """Write the checkpoint of a state unless it exists."""
        if len(state.segments) > self._division.most:
            self._put_divided(state)
        else:
            self._put(state.epoch, encode_checkpoint(state))

    def _put(self, epoch: int, data: bytes) -> bool:
        """Write a checkpoint; return whether there was none, which would be equal."""
        try:
            self._environment.put_if_absent(checkpoint_path(epoch), data)
        except FileExistsError:
            return False
        return True

    def _put_divided(self, state: StoreState) -> None:
        """Write a checkpoint that names manifests. In this order: see manifest_files.py."""
        # They are kept while the checkpoint that names them is the newest or the one before.
        begun = Moment.of(self._environment)
        kept_manifests = self._kept_manifests()
        files = ManifestFiles(self._environment, state.settings.shards, self._files.manifest_cache)
        manifests = files.put(state.segments.divided(self._division.size).manifests, kept_manifests)
        if not begun.is_within(RELIED, Moment.of(self._environment)):
            raise FilesystemError(
                f"{self._environment.location(ARCHIVE)}: the manifests of epoch {state.epoch} took "
                "so long that a vacuum may remove them before a checkpoint names them; the next "
                "checkpoint replaces this one"
            )
        is_new = self._put(state.epoch, encode_divided(state, manifests))
        # Another writer may have divided it otherwise: what that one named is kept.
        if is_new or file_names(self._manifests(state.epoch)) >= file_names(manifests):
            state.segments.adopt(manifests, state.epoch)

    def _kept_manifests(self) -> Manifests:
        """Return the manifests of the newest checkpoint in the log's folder."""
        checkpoints = self._files.listing().checkpoints
        return self._manifests(checkpoints[-1]) if checkpoints else {}

    def _manifests(self, epoch: int) -> Manifests:
        """Return the manifests of a checkpoint; none if it is gone."""
        try:
            return self._files.checkpoint(epoch).segments.manifests
        except FileNotFoundError:
            return {}

    def replace_checkpoint(self, path: str, state: StoreState) -> None:
        """Give a checkpoint, which exists, the records of segments that a state has.

        They differ from its own only in what no reader of a readable epoch asks for.
        """
        if len(state.segments) <= self._division.most:
            data = encode_checkpoint(state)
        else:
            # Manifests are put as new: those that the checkpoint names have other records.
            divided = LiveSegments.of(state.segments.values()).divided(self._division.size)
            cache = self._files.manifest_cache
            files = ManifestFiles(self._environment, state.settings.shards, cache)
            data = encode_divided(state, files.put(divided.manifests, {}))
        self._environment.replace(path, data)

    def _archive_checkpoint(self, epoch: int) -> None:
        try:
            data = self._environment.read(checkpoint_path(epoch))
        except FileNotFoundError:  # another writer archived and removed it
            return
        try:
            self._environment.put_if_absent(archived_checkpoint_path(epoch), data)
        except FileExistsError:  # by another writer, who may have divided it otherwise
            self._files.archived_checkpoint(epoch)

    def fold(self) -> None:
        """Archive and remove what two checkpoints cover. See log.py, "The order of removal"."""
        listing = self._files.listing()
        if len(listing.checkpoints) < 2:
            return
        *older, covering, _ = listing.checkpoints
        covered = self._old_enough(listing, covering)
        for first in sorted({block_of(epoch)[0] for epoch in covered}):
            archive_block(self._environment, first)
        for epoch in older:
            self._archive_checkpoint(epoch)
        for epoch in older:
            self._environment.remove(checkpoint_path(epoch))
        for epoch in covered:
            self._environment.remove(entry_path(epoch))

    def _old_enough(self, listing: Listing, covering: int) -> list[int]:
        """Return the entries up to a covering checkpoint that the delay of removal lets go."""
        covered = [epoch for epoch in listing.entries if epoch <= covering]
        delay = int(self._environment.removal_delay * 1_000_000)
        if not delay:
            return covered
        latest = self._environment.modified(checkpoint_path(listing.checkpoints[-1])) - delay
        # The entries were created in the order of their epochs.
        return covered[
            : bisect_left(covered, latest, key=lambda epoch: self._modified(entry_path(epoch)))
        ]

    def _modified(self, path: str) -> int:
        try:
            return self._environment.modified(path)
        except FileNotFoundError:
            return 0  # another writer removed it
