"""Looks at a log's folder that tell whether an epoch is still the newest.

In this order: the next entry, then the epoch's own; see log.py, "The order of removal". If the
folder's version is the one taken before such a pair of looks, no name has been added or removed
since, and the looks would have the same result: one look is enough. Such a version counts only once
it was there for longer than a tick of the file system's clock, since a second change within the
tick might not show in it; that is timed by the reader's own clock, for the file system's may be
behind.

Promises: no next entry is overlooked that the file system shows.
Does not know: what is in an entry.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..disk import FolderVersion
from ..environment import FOLDER_VERSION_TICK, Environment
from ..paths import LOG, entry_path


@dataclass(frozen=True, slots=True)
class _Look:
    """A look that found an epoch to be the newest.

    ``version``: the version of the log's folder before the look; None if it is not known.
    """

    epoch: int
    own_path: str
    next_path: str
    version: FolderVersion | None

    @classmethod
    def at(cls, epoch: int) -> _Look:
        return cls(epoch, entry_path(epoch), entry_path(epoch + 1), None)


class FolderWatch:
    """Watches the folder of one log, by one object that follows it. Safe between threads."""

    def __init__(self, environment: Environment) -> None:
        """``environment``: that of the store."""
        self._environment = environment
        self._last_look = _Look.at(0)
        # The folder's version that was seen last, and from when on it shows every later change.
        self._last_version: tuple[FolderVersion | None, float] = (None, 0.0)
        # From when on the version is asked for again.
        self._next_version = float("-inf")

    def is_newest(self, epoch: int, monotonic: float) -> bool:
        """Return whether an epoch has its entry and there is no next one.

        ``monotonic``: the time now. It takes one look if nothing changed in the folder, else two or
        three.
        """
        environment, look, version = self._environment, self._last_look, None
        if monotonic >= self._next_version:
            version = environment.folder_version(LOG)
            if version is not None and version == look.version and look.epoch == epoch:
                return True
            if not self._is_at_rest(version, monotonic):
                version = None
        if look.epoch != epoch:
            look = _Look.at(epoch)
        if environment.exists(look.next_path) or not environment.exists(look.own_path):
            return False
        # Gets call this: a new object would cost as much as a look.
        self._last_look = look if look.version == version else replace(look, version=version)
        return True

    def _is_at_rest(self, version: FolderVersion | None, now: float) -> bool:
        """Return whether a version of the folder was seen for so long that a change would show.

        If not, the folder is not asked again before that: single looks are cheaper until then.
        """
        last, start = self._last_version
        if version is not None and version == last:
            return now >= start
        # Not from ``now`` on: the change may have come between that and the look at the folder.
        self._next_version = self._environment.monotonic() + FOLDER_VERSION_TICK
        self._last_version = (version, self._next_version)
        return False
