"""Even groups, shards, and groups balanced by weight."""

from __future__ import annotations

from itertools import chain, combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relstate.vnode import (
    DEFAULT_SHARDS,
    DEFAULT_VNODE_COUNT,
    MAX_VNODE_COUNT,
    check_vnode_count,
    even_ranges,
    groups,
    shard_of,
    shard_ranges,
    shards_of,
)

WEIGHTS = st.lists(st.integers(0, 2**40), min_size=1, max_size=9)


@given(st.integers(0, MAX_VNODE_COUNT), st.integers(1, 1000))
def test_even_ranges_hold_every_vnode_and_differ_by_one(vnode_count: int, count: int) -> None:
    """The groups follow each other without gap; the larger ones come first."""
    ranges = even_ranges(vnode_count, count)
    sizes = [len(vnodes) for vnodes in ranges]

    assert_division(ranges, vnode_count, count)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] - sizes[-1] <= 1


@given(st.integers(1, MAX_VNODE_COUNT), st.data())
def test_a_vnode_is_in_its_shard(vnode_count: int, data: st.DataObject) -> None:
    """Both ways to ask for a vnode's shard give the range that holds it."""
    shards = data.draw(st.integers(1, vnode_count))
    vnodes = data.draw(st.lists(st.integers(0, vnode_count - 1), min_size=1))
    ranges = shard_ranges(vnode_count, shards)
    found = [shard_of(vnode, vnode_count, shards) for vnode in vnodes]

    assert all(vnode in ranges[shard] for vnode, shard in zip(vnodes, found, strict=True))
    assert shards_of(np.array(vnodes, np.uint16), vnode_count, shards).tolist() == found


def test_shards_stay_where_they_are() -> None:
    """Files are cut at these bounds: they never change."""
    starts = [shard.start for shard in shard_ranges(DEFAULT_VNODE_COUNT, DEFAULT_SHARDS)]

    assert starts == list(range(0, 256, 16))
    assert shard_ranges(10, 4) == (range(3), range(3, 6), range(6, 8), range(8, 10))


@given(WEIGHTS, st.integers(1, 12))
def test_the_heaviest_group_is_as_light_as_can_be(weights: list[int], count: int) -> None:
    """No other way to cut the vnodes into as many groups has a lighter heaviest group."""
    found = groups(weights, count)
    filled = min(count, len(weights))
    heaviest = max(sum(weights[vnodes.start : vnodes.stop]) for vnodes in found)
    possible = (
        max(sum(weights[start:end]) for start, end in pairwise((0, *cuts, len(weights))))
        for cuts in combinations(range(1, len(weights)), filled - 1)
    )

    assert heaviest == min(possible)


@given(WEIGHTS | st.lists(st.integers(0, 3), max_size=300), st.integers(1, 20))
def test_no_group_is_empty_unless_it_must_be(weights: list[int], count: int) -> None:
    """Groups hold every vnode once; only beyond one a vnode are there empty ones, at the end."""
    found = groups(weights, count)
    filled = [vnodes for vnodes in found if vnodes]

    assert_division(found, len(weights), count)
    assert len(filled) == min(count, len(weights))
    assert all(found[: len(filled)])


@given(st.integers(1, 500), st.integers(1, 20), st.integers(0, 2**40))
def test_equal_weights_are_grouped_by_number(vnode_count: int, count: int, weight: int) -> None:
    """Where no vnode is heavier, not even one with nothing in it, the longest group is short."""
    longest = max(len(vnodes) for vnodes in groups([weight] * vnode_count, count))

    assert longest == -(-vnode_count // count)


def test_one_heavy_vnode_stands_alone() -> None:
    """A vnode heavier than all others does not drag its neighbours along."""
    assert groups([1, 1, 100, 1, 1, 1], 3) == (range(2), range(2, 3), range(3, 6))


def test_as_many_vnodes_as_can_be_are_grouped() -> None:
    """The largest vnode count is cut into groups of about the mean weight."""
    weights = [vnode % 97 for vnode in range(MAX_VNODE_COUNT)]
    heaviest = max(sum(weights[vnodes.start : vnodes.stop]) for vnodes in groups(weights, 64))

    assert heaviest <= sum(weights) / 64 + 97


def test_what_cannot_be_grouped_is_refused() -> None:
    """Negative weights, no groups, more shards than vnodes, vnodes that are not there."""
    with pytest.raises(ValueError, match="not be negative, as -2 is"):
        groups([1, -2], 1)
    for cut in (groups, even_ranges):
        with pytest.raises(ValueError, match="at least 1, not 0"):
            cut([] if cut is groups else 8, 0)
    for shards in (0, 9):
        with pytest.raises(ValueError, match="shards must be 1 to 8"):
            shard_ranges(8, shards)
    for vnode in (-1, 8):
        with pytest.raises(ValueError, match="vnode must be 0 to 7"):
            shard_of(vnode, 8, 2)


@pytest.mark.parametrize("count", [-1, 0, MAX_VNODE_COUNT + 1])
def test_an_impossible_vnode_count_is_refused(count: int) -> None:
    """There are 1 to 32768 vnodes."""
    with pytest.raises(ValueError, match=f"1 to 32768, not {count}"):
        check_vnode_count(count)
    check_vnode_count(1)
    check_vnode_count(MAX_VNODE_COUNT)


def assert_division(ranges: tuple[range, ...], vnode_count: int, count: int) -> None:
    """Every vnode is in one range, in order."""
    assert len(ranges) == count
    assert list(chain.from_iterable(ranges)) == list(range(vnode_count))
