"""Keys are numbered in their order, and rows are paired by those numbers."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from relstate.connector.views.executor.matching import (
    Matches,
    codes_of,
    firsts_of,
    marked,
    places_of,
    ranks_of,
)


@pytest.mark.parametrize("seed", range(50))
def test_codes_are_those_of_the_sorted_keys(seed: int) -> None:
    """Equal keys have one code, across arrays, and codes sort as the keys do."""
    chance = random.Random(seed)
    arrays = [
        [chance.choice([b"a", b"bc", b"bd", b"zzzzzzzzzzz"]) for _ in range(chance.randint(0, 9))]
        for _ in range(3)
    ]
    different = sorted({key for array in arrays for key in array})

    codes, count = codes_of([pa.array(array, pa.large_binary()) for array in arrays])

    assert count == len(different)
    assert [list(found) for found in codes] == [[*map(different.index, keys)] for keys in arrays]
    ranked = sorted(arrays[0])
    ranks = ranks_of(pa.array(ranked, pa.large_binary()))
    assert [ranked[first] for first in firsts_of(ranks)] == sorted(set(ranked))


def test_codes_are_found_again() -> None:
    """Codes are marked, and the first row of each is named."""
    codes = np.array([3, 1, 3])

    assert marked(codes, 5).tolist() == [False, True, False, True, False]
    assert places_of(codes, np.array([7, 8, 9]), 5).tolist() == [-1, 8, -1, 7, -1]


@pytest.mark.parametrize("seed", range(50))
def test_every_pair_comes_once(seed: int) -> None:
    """However the pairs are sliced, they are those of a nested loop."""
    chance = random.Random(seed)
    lefts, rights = ([chance.randrange(4) for _ in range(chance.randint(0, 9))] for _ in range(2))
    left_rows, right_rows = np.arange(len(lefts)) + 100, np.arange(len(rights)) + 200
    matches = Matches.of(
        left_rows, np.array(lefts, np.int64), right_rows, np.array(rights, np.int64), 4
    )
    step = chance.randint(1, 5)
    found = []
    for start in range(0, matches.total, step):
        pairs = matches.pairs(start, min(start + step, matches.total))
        found += list(zip(*(side.tolist() for side in pairs), strict=True))

    wanted = [
        (x + 100, y + 200) for x, a in enumerate(lefts) for y, b in enumerate(rights) if a == b
    ]
    assert found == wanted
