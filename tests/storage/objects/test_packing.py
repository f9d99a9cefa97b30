"""Segments as objects: compressed in blocks that are verified one by one."""

from __future__ import annotations

import random

import pytest
import xxhash

from relstate.storage.objects.packing import (
    BLOCK_BYTES,
    FIRST_BYTES,
    block_index,
    index_bytes,
    packed,
    packed_size,
    unpacked,
)

SIZES = (0, 1, FIRST_BYTES, FIRST_BYTES + 1, FIRST_BYTES + BLOCK_BYTES, 3 * BLOCK_BYTES)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("is_random", [False, True])
def test_what_was_packed_is_unpacked(size: int, is_random: bool) -> None:
    """Whole, and block by block; content that does not shrink takes no more than the index."""
    content = random.Random(size).randbytes(size) if is_random else b"abcd" * (size // 4)
    data = packed(memoryview(content))

    assert unpacked(data, len(content)) == content
    assert packed_size(data) == len(content)
    index = block_index(data[: index_bytes(data)])
    assert index.digest == xxhash.xxh3_64_hexdigest(content)
    stored = index.stored_starts
    blocks = [
        index.block(number, data[stored[number] : stored[number + 1]])
        for number in range(len(index.hashes))
    ]
    assert b"".join(blocks) == content
    assert len(data) <= len(content) + 100
    with pytest.raises(ValueError, match="a segment of"):
        unpacked(data, len(content) - 1)


def test_an_object_without_the_magic_is_the_segment() -> None:
    """As one that another program has copied into the bucket."""
    assert unpacked(b"\0" * 100, 100) == b"\0" * 100
    assert index_bytes(b"\0" * 100) is None


def test_every_damaged_byte_is_found() -> None:
    """Of the index, and of blocks, compressed or not."""
    content = b"ab" * 5000 + random.Random(1).randbytes(BLOCK_BYTES)
    data = packed(memoryview(content))
    for position in (8, 20, 33, 45, 60, len(data) // 2, len(data) - 1):
        damaged = bytearray(data)
        damaged[position] ^= 1
        with pytest.raises(ValueError, match=r"block|hash|size|segment"):
            unpacked(bytes(damaged), 2 * len(content))
    with pytest.raises(ValueError, match="an object of"):
        unpacked(data[:-1], len(content))
