"""Measuring two things in turns, so that a disturbance affects both."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

from .figure import Samples

Run = Callable[[], float]
"""Does something once and returns what it measured."""


def seconds(action: Callable[[], object]) -> Run:
    """Return a run that does ``action`` and measures how long it takes."""

    def run() -> float:
        gc.collect()
        start = time.perf_counter()
        action()
        return time.perf_counter() - start

    return run


def in_turns(ours: Run, baseline: Run, rounds: int) -> Samples:
    """Return the measurements of ``rounds`` turns, after one uncounted turn.

    Which side runs first alternates.
    """
    baseline()
    ours()
    pairs: list[tuple[float, float]] = []
    for turn in range(rounds):
        if turn % 2:
            measured = ours()
            pairs.append((measured, baseline()))
        else:
            measured = baseline()
            pairs.append((ours(), measured))
    return Samples(tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs))
