"""A clock that moves only when a test moves it."""

from __future__ import annotations

# Noon of 2026-01-01 UTC, in microseconds since 1970: any fixed time will do.
START = 1_767_268_800_000_000


class ManualClock:
    """A `relstate.storage.environment.Clock` set by hand; its two clocks move apart at will."""

    def __init__(self, now: int = START) -> None:
        """Start at ``now``, in microseconds since 1970; the monotonic clock starts at zero."""
        self._now = now
        self._monotonic = 0.0

    def now(self) -> int:
        """Return the wall-clock time in microseconds since 1970."""
        return self._now

    def monotonic(self) -> float:
        """Return the monotonic clock in seconds."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let time pass: both clocks move."""
        self._now += round(seconds * 1_000_000)
        self._monotonic += seconds

    def suspend(self, seconds: float) -> None:
        """Let time pass while the machine sleeps: its monotonic clock stands still."""
        self._now += round(seconds * 1_000_000)

    def set_back(self, seconds: float) -> None:
        """Move the wall clock back, as a machine's owner may; the monotonic one stays."""
        self._now -= round(seconds * 1_000_000)
