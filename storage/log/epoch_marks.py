"""Epochs that were the newest at some times, so that a search of the log is not made twice.

A commit asks since when its files may have been in the log: only that part of a large store is
looked through for their names. The answer need not be exact, only early enough.

Promises: what `before` returns had been committed by that time. Bounded; safe between threads.
Does not know: entries.
"""

from __future__ import annotations

from bisect import bisect_right

# Times of marks are so far apart, in microseconds, and there are at most so many: they reach hours
# back, as far as most jobs began.
_INTERVAL = 60 * 1_000_000
_MOST = 256


class EpochMarks:
    """Some epochs of one log with the times of their commits, ascending."""

    def __init__(self) -> None:
        self._marks: tuple[tuple[int, int], ...] = ()

    def note(self, time: int, epoch: int) -> None:
        """Take note that an epoch had been committed by a time, in microseconds since 1970."""
        marks = self._marks
        if not marks or (time >= marks[-1][0] + _INTERVAL and epoch >= marks[-1][1]):
            self._marks = (*marks, (time, epoch))[-_MOST:]

    def before(self, time: int) -> int | None:
        """Return an epoch that had been committed by a time; None if none is known."""
        marks = self._marks
        count = bisect_right(marks, time, key=lambda mark: mark[0])
        return marks[count - 1][1] if count else None
