"""Changes in portions of whole groups: as many at a time as what they affect fits in memory.

How many rows a change affects is known when they are read, and in one view it is often alike: a
portion is sized by what the one before it held, and the first is small.

Promises: every group is in one portion, in the order of the groups; a portion has a group at least.
Does not know: what a group is, or what is computed over it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .rowkeys import Rows

HELD_ROWS = 1 << 17
"""Rows of its state that an executor holds at once, about: some 150 MiB with all that is computed.

Few more than the tasks of a refresh need to work with whole arrays.
"""
_FIRST_CHANGES = 1 << 10
# How many times as large as the one before a portion is at most, and how many times smaller one is
# that is tried again.
_STEP = 8


@dataclass(frozen=True, slots=True)
class Portion:
    """The changes from ``start`` up to, not including, ``stop``; ``is_one_group``: of one group."""

    start: int
    stop: int
    is_one_group: bool


class Portions:
    """The portions of sorted changes; each is taken, and then said to be done or too large."""

    def __init__(self, group_starts: Rows, count: int) -> None:
        """``group_starts``: the first change of each group, of ``count`` changes."""
        self._starts = np.append(group_starts, count)
        self._group = 0
        self._most = _FIRST_CHANGES

    @property
    def is_done(self) -> bool:
        """Whether all changes are."""
        return self._group == len(self._starts) - 1

    def take(self) -> Portion:
        """Return the next portion: that which was too large, but smaller, or the one after it."""
        start = int(self._starts[self._group])
        stop_group = self._stop_group()
        is_one_group = stop_group == self._group + 1
        return Portion(start, int(self._starts[stop_group]), is_one_group)

    def done(self, rows: int) -> None:
        """Say that the portion taken last is done; ``rows``: how many were held for it."""
        stop_group = self._stop_group()
        changes = int(self._starts[stop_group] - self._starts[self._group])
        fitting = changes * HELD_ROWS // max(rows, 1)
        self._most = max(min(fitting, _STEP * max(changes, _FIRST_CHANGES)), 1)
        self._group = stop_group

    def too_large(self) -> None:
        """Say that more rows would be held for the portion taken last than may be."""
        portion = self.take()
        self._most = max((portion.stop - portion.start) // _STEP, 1)

    def _stop_group(self) -> int:
        """Return the group after the next portion."""
        most = int(self._starts[self._group]) + self._most
        return max(int(np.searchsorted(self._starts, most, "right")) - 1, self._group + 1)
