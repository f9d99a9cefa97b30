from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import flights_progress


def _store(*operations: str) -> Any:
    """A store whose epochs, from 1, did these things, a second each."""
    entries = [
        SimpleNamespace(epoch=epoch, operation=operation, time=epoch * 1_000_000)
        for epoch, operation in enumerate(operations, 1)
    ]
    return SimpleNamespace(history=lambda: reversed(entries))


def _views(*refreshes: tuple[int, int]) -> Any:
    """A stream of views that did these refreshes: of an epoch, reflecting one."""
    progress = [{"epoch": epoch, "reflects": reflects} for epoch, reflects in refreshes]
    return SimpleNamespace(recentProgress=progress)


def test_a_write_is_in_the_views_with_the_first_refresh_that_reflects_it() -> None:
    """Each write from the beginning on counts once; what else was committed does not."""
    store = _store("write", "write", "compact", "write", "refresh", "write", "refresh")

    told = flights_progress.latencies(store, _views((5, 4), (7, 6)), begin=2)

    # After 5 - 2, 5 - 4 and 7 - 6 seconds.
    assert told.startswith("3 epochs were in the views after 1.00 s (p50), after 3.00 s at most")


def test_views_without_a_refresh_had_nothing_to_take_in() -> None:
    """Where nothing was written there is no latency to tell."""
    assert "nothing" in flights_progress.latencies(_store("write"), _views(), begin=2)
