"""Deterministic races for the log: others act just before a chosen call of the environment."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

from relstate.storage.log.log import Log
from relstate.storage.log.state import StoreState, fold

from .commits import advanced, entries_on_disk, quick_environment

# So far that the entry after the one raced for is archived and removed.
FAR = 100


def others_advance(root: Path, epochs: int) -> StoreState:
    """Let another process commit some epochs."""
    log = Log(quick_environment(root))
    state = log.load()
    return advanced(log, state, state.epoch + epochs)


class Before:
    """A hook that acts once: before the touch of a number, or the first that matches a pattern.

    With ``after``, it waits until a touch that matches that pattern has begun.
    """

    def __init__(self, moment: int | str, act: Callable[[], object], after: str = "*") -> None:
        self.happened = False
        self._moment = moment
        self._act = act
        self._after = after
        self._touches: list[str] = []

    def __call__(self, touch: str) -> None:
        self._touches.append(touch)
        if not self.happened and self._is_now(touch):
            self.happened = True
            self._act()

    def _is_now(self, touch: str) -> bool:
        if isinstance(self._moment, int):
            return len(self._touches) == self._moment
        waited = any(fnmatchcase(earlier, self._after) for earlier in self._touches)
        return waited and fnmatchcase(touch, self._moment)


def loaded(root: Path) -> StoreState:
    """Return the state a new process finds, which must be the fold of the whole history."""
    log = Log(quick_environment(root))
    state = log.load()
    assert state == history(root, state.epoch)
    return state


def history(root: Path, epoch: int) -> StoreState:
    """Return the state at an epoch, from all entries since the first."""
    first, *rest = entries_on_disk(quick_environment(root), 1, epoch)
    return fold(StoreState.first(first), rest)


def landed(root: Path, commit_id: str) -> list[int]:
    """Return the epochs that have a commit id."""
    entries = entries_on_disk(quick_environment(root), 1, loaded(root).epoch)
    return [entry.epoch for entry in entries if entry.commit_id == commit_id]
