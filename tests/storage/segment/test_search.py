"""Laws of the search for many ranges at once: it finds what a look at every key finds."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from relstate.storage.codec.ragged import Positions
from relstate.storage.paths import segment_path
from relstate.storage.segment import search
from relstate.storage.segment.page import Pages
from relstate.storage.segment.search import (
    KeyRanges,
    RangeMatches,
    blocks_in_ranges,
    find_keys,
    find_ranges,
    share_in_ranges,
)
from support.examples import examples
from support.segments import Pair, folder_for_segments, pairs_of, write_pairs

_SIZES = (0, 10, 300, 1400, 5000)


def _pages(path: Path, pairs: list[Pair]) -> Pages:
    environment = folder_for_segments(path)
    return Pages(environment.map(segment_path(write_pairs(environment, pairs).name)))


def _key(draw: random.Random) -> bytes:
    """Return a random key; its last byte is nowhere else, so that no key is a prefix of another."""
    letters = draw.choices(b"ab\0", k=draw.choice([0, 1, 2, 3, 5, 9, 30]))
    return bytes(letters) + b"k" * draw.choice([0, 0, 1, 300, 470]) + b"\xff"


def _pairs(matches: RangeMatches) -> list[tuple[int, Pair]]:
    return list(zip(matches.owners.tolist(), pairs_of([matches.entries])[0], strict=True))


@pytest.fixture(params=["all keys", "all keys of pages", "page by page"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Search among all keys of the file, among those of some pages, or in each page."""
    monkeypatch.setattr(search, "_FEW_KEYS", 1 << 40 if request.param == "all keys" else -1)
    monkeypatch.setattr(search, "_FEW_KEYS_PER_RANGE", 0)
    if request.param == "page by page":
        monkeypatch.setattr(search, "MOST_KEYS", -1 << 40)


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("size", [0, 1, 5, 40, 400, 3000])
@pytest.mark.parametrize("seed", range(examples(10)))
def test_the_entries_with_prefixes_are_found(tmp_path: Path, size: int, seed: int) -> None:
    """All of them, or the first ones and whether there are more, in files of any depth."""
    draw = random.Random(f"{size} {seed}")
    pairs = sorted({_key(draw): b"v" * draw.choice(_SIZES) for _ in range(size)}.items())
    pages = _pages(tmp_path, pairs)
    drawn = {_key(draw)[:-1] for _ in range(60)}
    drawn |= {
        key[: draw.randint(1, len(key))] for key, _ in draw.sample(pairs, min(60, len(pairs)))
    }
    prefixes = sorted(drawn - {b""})
    expected = [[pair for pair in pairs if pair[0].startswith(prefix)] for prefix in prefixes]
    ranges = KeyRanges.of_prefixes(pa.array(prefixes, pa.large_binary()))

    matches = find_ranges(pages, ranges)
    assert _pairs(matches) == [(at, pair) for at, group in enumerate(expected) for pair in group]
    assert not matches.is_cut.any()

    most = np.array([draw.choice([1, 2, 3, 10, 100, 1 << 40]) for _ in prefixes], np.int64)
    matches = find_ranges(pages, ranges, most)
    counts = np.bincount(matches.owners, minlength=len(prefixes)).tolist()
    first_pairs = [group[:count] for group, count in zip(expected, counts, strict=True)]
    assert _pairs(matches) == [(at, pair) for at, group in enumerate(first_pairs) for pair in group]
    for group, count, limit, is_cut in zip(expected, counts, most, matches.is_cut, strict=True):
        assert min(len(group), 1) <= count <= limit
        assert is_cut == (count < len(group))


@pytest.mark.parametrize("size", [0, 1, 5, 40, 400, 3000])
@pytest.mark.parametrize("seed", range(examples(10)))
def test_the_entries_of_keys_are_found(tmp_path: Path, size: int, seed: int) -> None:
    """Of those keys that are there, whether or not they ascend, in files of any depth."""
    draw = random.Random(f"{size} {seed}")
    pairs = sorted({_key(draw): b"v" * draw.choice(_SIZES) for _ in range(size)}.items())
    pages = _pages(tmp_path, pairs)
    keys = [*{_key(draw) for _ in range(60)} | {key for key, _ in pairs[:: 1 + size // 60]}]
    draw.shuffle(keys)

    indices, entries = find_keys(pages, pa.array(keys, pa.large_binary()))

    assert [keys[index] for index in indices.tolist()] == [
        key for key in keys if key in dict(pairs)
    ]
    assert pairs_of([entries])[0] == [(key, dict(pairs)[key]) for key in keys if key in dict(pairs)]
    assert len(find_keys(pages, pa.array([], pa.large_binary()))[1]) == 0


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("size", [0, 1, 40, 400, 3000])
@pytest.mark.parametrize("seed", range(examples(10)))
def test_the_entries_between_keys_are_found(tmp_path: Path, size: int, seed: int) -> None:
    """Of ranges that follow each other, with open ends; all entries, or those at an end."""
    draw = random.Random(f"{size} {seed}")
    pairs = sorted({_key(draw): b"v" * draw.choice(_SIZES) for _ in range(size)}.items())
    pages = _pages(tmp_path, pairs)
    keys = {_key(draw) for _ in range(40)} | {
        key for key, _ in draw.sample(pairs, min(40, len(pairs)))
    }
    lows = sorted(keys)
    highs = [*lows[1:], lows[-1]]
    is_open = np.arange(len(lows)) < len(lows) - 1
    low_ends, high_ends = (pa.array(ends, pa.large_binary()) for ends in (lows, highs))
    ranges = KeyRanges(low_ends, high_ends, is_open)
    expected = [
        [pair for pair in pairs if low <= pair[0] and (pair[0] < high or low == high == pair[0])]
        for low, high in zip(lows, highs, strict=True)
    ]

    matches = find_ranges(pages, ranges)
    assert _pairs(matches) == [(at, pair) for at, group in enumerate(expected) for pair in group]
    assert not matches.is_cut.any()

    most = np.array([draw.choice([1, 2, 3, 10, 100, 1 << 40]) for _ in lows], np.int64)
    for from_end in (False, True):
        matches = find_ranges(pages, ranges, most, from_end=from_end)
        counts = np.bincount(matches.owners, minlength=len(lows)).tolist()
        chosen = [
            group[len(group) - count :] if from_end else group[:count]
            for group, count in zip(expected, counts, strict=True)
        ]
        assert _pairs(matches) == [(at, pair) for at, group in enumerate(chosen) for pair in group]
        for group, count, limit, is_cut in zip(expected, counts, most, matches.is_cut, strict=True):
            assert count <= min(len(group), limit)
            assert is_cut or count == len(group)


def test_few_pages_are_read_for_the_first_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many entries a prefix has."""
    pages = _pages(tmp_path, [(b"a%06d\xff" % number, b"v" * 100) for number in range(20_000)])
    assert len(pages.first_keys) > 300
    assert pages.first_keys[0] == b""
    read: list[int] = []
    leaves = Pages.leaves

    def counted(self: Pages, indices: Positions) -> Any:
        read.append(len(indices))
        return leaves(self, indices)

    monkeypatch.setattr(Pages, "leaves", counted)
    ranges = KeyRanges.of_prefixes(pa.array([b"a"], pa.large_binary()))
    matches = find_ranges(pages, ranges, np.array([3]))

    assert [pair[0] for _, pair in _pairs(matches)] == [
        b"a%06d\xff" % number for number in range(3)
    ]
    assert matches.is_cut.tolist() == [True]
    matches = find_ranges(pages, ranges, np.array([3]), from_end=True)
    assert [pair[0] for _, pair in _pairs(matches)] == [
        b"a%06d\xff" % number for number in range(19_997, 20_000)
    ]
    assert sum(read) < 20


@pytest.mark.parametrize("size", [0, 1, 40, 400, 3000])
@pytest.mark.parametrize("seed", range(examples(10)))
def test_the_entries_of_ranges_come_in_blocks(tmp_path: Path, size: int, seed: int) -> None:
    """Each entry once, in key order, however many pages a block may have."""
    draw = random.Random(f"{size} {seed}")
    pairs = sorted({_key(draw): b"v" * draw.choice(_SIZES) for _ in range(size)}.items())
    pages = _pages(tmp_path, pairs)
    ends = sorted({_key(draw) for _ in range(40)} | {key for key, _ in pairs[:: size // 30 + 1]})
    chosen = [pair for pair in itertools.pairwise(ends) if draw.random() < 0.6]
    lows, highs = (pa.array([pair[end] for pair in chosen], pa.large_binary()) for end in (0, 1))
    ranges = KeyRanges(lows, highs, np.ones(len(chosen), np.bool_))
    expected = [pair for pair in pairs if any(low <= pair[0] < high for low, high in chosen)]

    for leaves in (1, 3, 1000):
        blocks = list(blocks_in_ranges(pages, ranges, leaves))
        assert all(len(block) for block in blocks)
        assert [pair for block in pairs_of(blocks) for pair in block] == expected
    assert (1 if expected else 0) * 1e-6 <= share_in_ranges(pages, ranges) <= 1
