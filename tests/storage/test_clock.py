"""The clocks of a machine."""

from __future__ import annotations

import time

from relstate.storage.clock import SystemClock


def test_the_system_clock_counts_microseconds() -> None:
    """The wall clock is Unix time in microseconds; the monotonic one does not go back."""
    clock = SystemClock()

    assert abs(clock.now() - time.time() * 1_000_000) < 5_000_000
    assert clock.monotonic() <= clock.monotonic()
