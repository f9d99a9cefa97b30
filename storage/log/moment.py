"""A moment by both clocks of a machine, to tell whether it is less than some seconds ago.

The monotonic clock stops while the machine is suspended; the wall clock may be set. So a moment is
recent only if both say so.

Promises: a moment that was longer ago than the limit counts as recent only if the machine was
suspended and its wall clock was set back, too.
Does not know: what happened at the moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from ..clock import Clock

# Vacuum removes files that nothing names once they are older than this, in microseconds; so nothing
# may begin to name files that may be as old.
ORPHAN_GRACE = 24 * 3600 * 1_000_000


@dataclass(frozen=True, slots=True)
class Moment:
    """What both clocks showed: microseconds since 1970, and seconds of the monotonic clock."""

    wall: float
    monotonic: float

    @classmethod
    def of(cls, clock: Clock) -> Self:
        """Return what a machine's clocks show now."""
        return cls(clock.now(), clock.monotonic())

    def is_within(self, seconds: float, now: Moment) -> bool:
        """Return whether this moment is less than ``seconds`` before ``now`` by both clocks.

        False if the wall clock was set back since.
        """
        return (
            now.monotonic - self.monotonic < seconds
            and 0 <= now.wall - self.wall < seconds * 1_000_000
        )


LONG_AGO = Moment(float("-inf"), float("-inf"))
