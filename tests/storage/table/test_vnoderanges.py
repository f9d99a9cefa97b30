"""Laws of ranges of keys in many vnodes: as arrays they say what they say one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from relstate.storage.segment.block import Block
from relstate.storage.segment.key import KeyPrefix
from relstate.storage.segment.search import KeyRanges
from relstate.storage.table.keyspan import merged
from relstate.storage.table.scan import Bounds
from relstate.storage.table.vnoderanges import VnodeRanges, clipped

_KEY = st.binary(min_size=1, max_size=3)
_BOUNDS = st.lists(st.tuples(_KEY, st.none() | _KEY), min_size=1, max_size=4).map(merged)
_GROUPS = st.sampled_from([[range(256)], [range(3, 5), range(250, 256)], [range(7, 8)], []])
# The first vnodes of the next table follow the last vnode of one whose id ends with ff.
_PREFIX = st.sampled_from([KeyPrefix(1, 256), KeyPrefix(127, 256), KeyPrefix(5, 32_768)])


@given(_PREFIX, _GROUPS, _BOUNDS, st.lists(st.tuples(st.integers(0, 255), _KEY), max_size=20))
def test_arrays_say_what_the_sequence_says(
    prefix: KeyPrefix, groups: list[range], primary: list[Bounds], keys: list[tuple[int, bytes]]
) -> None:
    """Of every key: whether it is in a range, in one of some entries, and in one that is sought."""
    ranges = VnodeRanges.of(prefix, groups, primary)
    bounds = list(ranges)
    full_keys = sorted({prefix.of(vnode) + key + b"\0\0" for vnode, key in keys})
    inside = [key for key in full_keys if any(low <= key < _end(high) for low, high in bounds)]

    assert len(bounds) == len(ranges) == len(primary) * sum(map(len, groups))
    assert bounds == sorted(bounds)
    assert [*ranges[1:3]] == bounds[1:3]
    assert [key for key in full_keys if ranges.holds(key)] == inside
    block = Block.of_pairs([(key, b"") for key in full_keys])
    assert ranges.entries_of(block).key_bytes().to_pylist() == inside
    if bounds:
        assert [key for key in full_keys if _is_sought(ranges.key_ranges, key)] == inside
        assert all(any(low <= key < _end(high) for low, high in ranges.spans) for key in inside)


@given(_GROUPS, _BOUNDS, _KEY, st.none() | _KEY)
def test_a_part_of_ranges_is_that_of_each(
    groups: list[range], primary: list[Bounds], low: bytes, high: bytes | None
) -> None:
    """Of the arrays and of a list of ranges."""
    prefix = KeyPrefix(1, 256)
    ranges = VnodeRanges.of(prefix, groups, primary)

    assert list(ranges.clipped(low, high)) == list(clipped(list(ranges), prefix, low, high))


def _end(high: bytes | None) -> bytes:
    assert high is not None
    return high


def _is_sought(ranges: KeyRanges, key: bytes) -> bool:
    lows, highs = ranges.lows.to_pylist(), ranges.highs.to_pylist()
    is_open = np.ones(len(lows), bool) if ranges.is_open is None else ranges.is_open
    return any(
        low <= key and (key < high or (not below and key.startswith(high)))
        for low, high, below in zip(lows, highs, is_open, strict=True)
    )
