"""Keys of blocks and their numbers compare alike."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from relstate.storage.segment.block import Block
from relstate.storage.segment.keynumbers import key_numbers

# What follows a common prefix: few bytes that differ, whose numbers always fit, or many.
_KEYS = {
    width: st.tuples(
        st.sampled_from([b"\0" * (width - 6), b"\xff" * (width - 6)]),
        st.binary(min_size=6, max_size=6),
    ).map(b"".join)
    for width in (6, 7, 8, 15, 16, 31)
}


def block_of(keys: list[bytes]) -> Block:
    """Return a block of some keys, not the first of its buffer."""
    return Block.of_pairs([(b"?", b""), *((key, b"") for key in keys)]).slice(1, len(keys) + 1)


@given(data=st.data(), width=st.sampled_from([6, 7, 8, 15, 16, 31]))
def test_numbers_are_in_the_order_of_keys(data: st.DataObject, width: int) -> None:
    """Over all blocks, sorted or not; where there are none the keys differ in more than 8 bytes."""
    parts = data.draw(st.lists(st.lists(_KEYS[width], max_size=8), min_size=1, max_size=3))
    numbers = key_numbers([block_of(keys) for keys in parts])
    keys = [key for part in parts for key in part]
    if numbers is None:
        varying = sum(len(set(column)) > 1 for column in zip(*keys, strict=True))
        assert not keys or varying > 8
        return
    assert [len(part) for part in numbers] == [len(part) for part in parts]
    every = [int(number) for part in numbers for number in part]
    for (left, first), (right, second) in itertools.combinations(zip(keys, every, strict=True), 2):
        assert (left < right) == (first < second)
        assert (left == right) == (first == second)


def test_keys_that_fit_no_number_have_none() -> None:
    """Keys of two lengths, long ones, and keys that differ in nine bytes."""
    assert key_numbers([block_of([b"a" * 8, b"a" * 9])]) is None
    assert key_numbers([block_of([b"a" * 33])]) is None
    assert key_numbers([block_of([b"a" * 9, b"b" * 9])]) is None
    assert key_numbers([block_of([])]) is None
    assert key_numbers([block_of([b"a" * 32])]) is not None
    assert key_numbers([block_of([b"a"])]) is not None


def test_what_precedes_a_short_key_is_not_in_its_number() -> None:
    """Whether it is the first of its buffer or not."""
    first, later = Block.of_pairs([(b"abc", b"")]), block_of([b"xyz", b"abc"]).slice(1, 2)
    numbers = key_numbers([first, later])
    assert numbers is not None
    assert [part.tolist() for part in numbers] == [[0], [0]]
