"""The clocks of a machine, and how far they may differ from those of the files.

Does not know: what is timed.
"""

from __future__ import annotations

import time
from typing import Protocol

from .errors import ClockError

# How far clocks of machines and file systems may differ, in microseconds.
CLOCK_TOLERANCE = 60 * 1_000_000


class Clock(Protocol):
    """The two clocks of a machine, as `Environment` has them."""

    def now(self) -> int:
        """Return the wall-clock time in microseconds since 1970, UTC."""

    def monotonic(self) -> float:
        """Return seconds of a clock that never goes backwards."""


class SystemClock:
    """The clocks of the machine this runs on."""

    def now(self) -> int:
        """Return the wall-clock time in microseconds since 1970, UTC."""
        return time.time_ns() // 1000

    # Not a function of its own, which would double the time: each get asks for it.
    monotonic = staticmethod(time.monotonic)


def check_clock(
    path: str, commit_time: int, file_time: int, clock: str = "the file system's clock"
) -> None:
    """Raise ClockError if a commit's time is too far ahead of the clock of its files."""
    ahead = commit_time - file_time
    if ahead > CLOCK_TOLERANCE:
        raise ClockError(
            f"{path}: the time of this commit is {ahead / 1_000_000:.0f} s ahead of "
            f"{clock}; nothing was committed: set this machine's clock, or, if it is right "
            "and the last commit was made by a wrong one, call Store.repair_clock() "
            "(relstate repair --clock)"
        )
