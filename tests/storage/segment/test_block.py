"""Laws of blocks: runs of entries, given by their positions."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from relstate.storage.segment.block import Block, join_small_ones
from support.segments import Pair, pairs_of

_PAIRS = st.dictionaries(st.binary(max_size=4), st.binary(max_size=4), max_size=9).map(
    lambda pairs: sorted(pairs.items())
)
_PLACES = st.integers(0, 9)


def pairs_in(block: Block) -> list[Pair]:
    """Return the entries of a block."""
    return pairs_of([block])[0]


@given(_PAIRS, _PLACES, _PLACES)
def test_a_block_and_its_slices_hold_their_entries(
    pairs: list[Pair], start: int, stop: int
) -> None:
    """Keys and values are those of the pairs; a slice has the pairs of its range."""
    block = Block.of_pairs(pairs)

    assert pairs_in(block) == pairs
    assert [block.key(at) for at in range(-len(block), len(block))] == [key for key, _ in pairs] * 2
    assert pairs_in(block.slice(start, stop)) == pairs[start:stop]


@given(_PAIRS, st.binary(max_size=4), st.binary(max_size=4))
def test_entries_are_found_by_their_keys(pairs: list[Pair], low: bytes, high: bytes) -> None:
    """Seeking is bisection, and a range holds its lower end but not its upper."""
    block, keys = Block.of_pairs(pairs), [key for key, _ in pairs]

    assert block.first_at_or_after(low) == bisect_left(keys, low)
    assert block.first_after(low) == bisect_right(keys, low)
    assert pairs_in(block.between(low, high)) == [pair for pair in pairs if low <= pair[0] < high]
    assert pairs_in(block.between(None, high)) == [pair for pair in pairs if pair[0] < high]
    assert pairs_in(block.between(low, None)) == [pair for pair in pairs if low <= pair[0]]


@given(_PAIRS, _PAIRS)
def test_blocks_follow_each_other_whatever_buffers_they_live_in(
    first: list[Pair], second: list[Pair]
) -> None:
    """Blocks over one buffer, over two, or with a common buffer of values give the same entries."""
    pairs = first + second
    both, cut = Block.of_pairs(pairs), len(first)
    other_keys = Block.over(
        pa.array([key for key, _ in second], pa.large_binary()),
        pa.array([value for _, value in second], pa.large_binary()),
    )
    shared = Block(
        other_keys.keys,
        other_keys.key_starts,
        other_keys.key_lengths,
        both.values,
        both.value_starts[cut:],
        both.value_lengths[cut:],
    )

    assert pairs_in(both.slice(0, cut).followed_by(both.slice(cut, len(both)))) == pairs
    assert pairs_in(Block.of_pairs(first).followed_by(Block.of_pairs(second))) == pairs
    assert pairs_in(both.slice(0, cut).followed_by(shared)) == pairs
    assert both.slice(0, cut).followed_by(shared).values is both.values
    copied = both.with_keys(other_keys.keys, both.key_starts, both.key_lengths)
    assert pairs_in(copied.with_keys(both.keys, both.key_starts, both.key_lengths)) == pairs


def test_joined_blocks_share_the_keys_that_their_blocks_share() -> None:
    """Only values of several buffers are copied; first bytes that are known stay known."""
    keys = pa.array([b"a", b"b", b"c"], pa.large_binary())
    whole = Block.over(keys, pa.array([b"1x", b"2y", b"3z"], pa.large_binary()))
    others = [Block.of_pairs([(b"", value)]) for value in (b"4", b"56")]
    blocks = [
        whole.slice(0, 1),
        *(
            other.with_keys(whole.keys, whole.key_starts[n:][:1], whole.key_lengths[n:][:1])
            for n, other in enumerate(others, 1)
        ),
    ]

    unknown = Block.joined(blocks)
    first_bytes = [block.first_bytes for block in blocks]
    known = Block.joined(blocks)

    assert pairs_in(unknown) == pairs_in(known) == [(b"a", b"1x"), (b"b", b"4"), (b"c", b"56")]
    assert known.keys is whole.keys
    assert unknown.known_first_bytes is None
    assert known.known_first_bytes is not None
    assert known.known_first_bytes.tolist() == np.concatenate(first_bytes).tolist()


def test_an_entry_may_be_anywhere() -> None:
    """Positions need not ascend, and values may be shared."""
    buffer = np.frombuffer(b"xyab", np.uint8)
    block = Block(
        buffer, np.array([2, 3]), np.array([1, 1]), buffer, np.array([1, 0]), np.array([2, 2])
    )

    assert pairs_in(block) == [(b"a", b"ya"), (b"b", b"xy")]


@given(sizes=st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0, 1, 300, 9000])), max_size=9))
def test_small_blocks_are_joined_by_their_buffers(sizes: list[tuple[int, int]]) -> None:
    """Every entry comes once; only what is few of its buffer is copied."""
    files = [
        Block.of_pairs(
            [(bytes([file]) + number.to_bytes(2, "big"), b"v") for number in range(9000)]
        )
        for file in range(3)
    ]
    blocks = [files[file].slice(0, count) for file, count in sizes]
    joined = list(join_small_ones(blocks))

    assert sorted(key for block in joined for key in block.key_bytes().to_pylist()) == sorted(
        key for block in blocks for key in block.key_bytes().to_pylist()
    )
    copies = [block for block in joined if all(block.keys is not file.keys for file in files)]
    assert len(copies) <= 1
    assert all(len(block) < 3 * 4096 for block in copies)
