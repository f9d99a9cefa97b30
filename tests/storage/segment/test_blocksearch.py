"""The search for many keys in a block at once is bisection."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relstate.storage.segment.block import Block
from relstate.storage.segment.blocksearch import find_in_block

# No key is a prefix of another: all have one length, or the last byte of each is its only zero.
_EQUALLY_LONG = st.binary(min_size=3, max_size=3)
_TERMINATED = st.text("\x01\x02\x7f", max_size=6).map(lambda text: text.encode() + b"\0")
_LONG = _TERMINATED.map(lambda key: b"\x05" * 80 + key)
_VERY_LONG = _TERMINATED.map(lambda key: b"\x05" * 600 + key)


@pytest.mark.parametrize("keys", [_EQUALLY_LONG, _TERMINATED, _LONG, _VERY_LONG])
@given(data=st.data(), is_cut=st.booleans())
def test_keys_are_found_as_by_bisection(
    keys: st.SearchStrategy[bytes], data: st.DataObject, is_cut: bool
) -> None:
    """Whatever the lengths of keys, in a part of a buffer or at its end, searched in any order."""
    stored = sorted(data.draw(st.sets(keys, max_size=40)))
    searched = data.draw(st.lists(keys | st.sampled_from(stored) if stored else keys, max_size=5))
    block = Block.of_pairs([(key, b"") for key in stored])
    if is_cut:
        block, stored = block.slice(1, len(block)), stored[1:]
    indices, is_found = find_in_block(block, pa.array(searched, pa.large_binary()))

    assert indices.tolist() == [bisect_left(stored, key) for key in searched]
    assert is_found.tolist() == [key in stored for key in searched]


@pytest.mark.parametrize("width", [9, 400, 600])
@pytest.mark.parametrize("count", [1, 7, 100, 3000])
def test_many_keys_are_found_in_a_large_block(count: int, width: int) -> None:
    """Also where most keys of the block are compared with none, and where not all at once are."""
    numbers = np.arange(0, 20_000, 2)
    searched = np.linspace(0, 20_001, count).astype(np.int64)
    keys, searched_keys = (
        pa.array([int(number).to_bytes(width, "big") for number in values], pa.large_binary())
        for values in (numbers, searched)
    )
    indices, is_found = find_in_block(Block.over(keys, keys), searched_keys)

    assert np.array_equal(indices, np.searchsorted(numbers, searched))
    assert np.array_equal(is_found, np.isin(searched, numbers))
