"""Portions are whole groups, as many as fit what an executor may hold."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from relstate.connector.views.executor.portions import HELD_ROWS, Portion, Portions
from relstate.connector.views.executor.rowkeys import Rows, first_positions
from support.examples import Seeds


def taken(group_sizes: Rows, rows_of: Callable[[Portion], int], most: int) -> list[Portion]:
    """Return the portions of which at most ``most`` rows are held, or that are one group."""
    groups = np.repeat(np.arange(len(group_sizes)), group_sizes)
    portions = Portions(first_positions(groups), len(groups))
    done = []
    while not portions.is_done:
        portion = portions.take()
        rows = rows_of(portion)
        if rows > most and not portion.is_one_group:
            portions.too_large()
            continue
        portions.done(rows)
        done.append(portion)
    return done


def test_every_change_is_in_one_portion_with_its_group(seeds: Seeds) -> None:
    """In their order, also if portions are tried again because they were too large."""
    for seed in seeds(20):
        chance = random.Random(seed)
        sizes = np.array([chance.choice([1, 2, 50, 3000]) for _ in range(chance.randint(1, 200))])
        edges = {0, *np.cumsum(sizes).tolist()}
        width = chance.choice([1, 100, 10_000])

        def rows_of(portion: Portion, width: int = width) -> int:
            return (portion.stop - portion.start) * width

        portions = taken(sizes, rows_of, HELD_ROWS)

        assert [portion.start for portion in portions[1:]] == [p.stop for p in portions[:-1]]
        assert (portions[0].start, portions[-1].stop) == (0, int(sizes.sum()))
        assert {edge for p in portions for edge in (p.start, p.stop)} <= edges


@pytest.mark.parametrize("rows_of_change", [1, 40, 500, 100_000])
def test_portions_follow_from_what_changes_affect(rows_of_change: int) -> None:
    """After the first few, each holds at most what it may, and not much less if there is more."""
    sizes = np.ones(1_000_000 // rows_of_change + 50_000, np.int64)
    held: list[int] = []

    def rows_of(portion: Portion) -> int:
        rows = (portion.stop - portion.start) * rows_of_change
        if rows <= 4 * HELD_ROWS or portion.is_one_group:
            held.append(rows)
        return rows

    taken(sizes, rows_of, 4 * HELD_ROWS)

    assert max(held) <= max(4 * HELD_ROWS, rows_of_change)
    assert all(HELD_ROWS / 2 <= rows <= max(HELD_ROWS, rows_of_change) for rows in held[5:-1])


def test_no_changes_are_no_portion() -> None:
    """There is nothing to take."""
    assert taken(np.empty(0, np.int64), lambda _: 0, 1) == []
