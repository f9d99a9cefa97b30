"""The vectorised XXH64 against the reference implementation."""

from __future__ import annotations

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from relstate.vnode.xxh64 import hash_bytes, hash_half_words, hash_words

SEEDS = st.integers(0, 2**64 - 1)


@given(st.lists(st.tuples(st.binary(max_size=200), SEEDS), max_size=20))
def test_bytes_hash_as_the_reference_does(rows: list[tuple[bytes, int]]) -> None:
    """Rows of any length, each under a seed of its own, hash as if hashed alone."""
    expected = [xxhash.xxh64_intdigest(value, seed) for value, seed in rows]

    assert _hash([value for value, _ in rows], [seed for _, seed in rows]) == expected


@pytest.mark.parametrize("length", [*range(70), 127, 128, 129, 255, 256, 257, 5000])
def test_every_length_hashes_as_the_reference_does(length: int) -> None:
    """Lengths around a word, a stripe and the limit of vectorised hashing give the right hash."""
    rows = [bytes((start + step) % 256 for step in range(length)) for start in range(3)]
    seeds = [42, 0, 2**64 - 1]
    expected = [xxhash.xxh64_intdigest(*row) for row in zip(rows, seeds, strict=True)]

    assert _hash(rows, seeds) == expected


def test_rows_that_overlap_in_any_order_hash_as_their_bytes() -> None:
    """Starts and lengths name the bytes; those around them have no effect."""
    data = np.arange(60, dtype=np.uint8)
    starts, lengths = np.array([30, 0, 57, 60, 1]), np.array([13, 60, 3, 0, 40])
    seeds = np.full(5, 42, np.uint64)
    expected = [
        xxhash.xxh64_intdigest(data[start : start + length].tobytes(), 42)
        for start, length in zip(starts, lengths, strict=True)
    ]

    assert hash_bytes(data, starts, lengths, seeds).tolist() == expected


@given(st.integers(-(2**63), 2**63 - 1), SEEDS)
def test_words_hash_as_their_eight_bytes(value: int, seed: int) -> None:
    """A 64-bit integer hashes as its eight little-endian bytes."""
    expected = xxhash.xxh64_intdigest(value.to_bytes(8, "little", signed=True), seed)

    assert hash_words(np.array([value]), np.array([seed], np.uint64)).tolist() == [expected]


@given(st.integers(-(2**31), 2**31 - 1), SEEDS)
def test_half_words_hash_as_their_four_bytes(value: int, seed: int) -> None:
    """A 32-bit integer hashes as its four little-endian bytes."""
    expected = xxhash.xxh64_intdigest(value.to_bytes(4, "little", signed=True), seed)
    hashed = hash_half_words(np.array([value], np.int32), np.array([seed], np.uint64))

    assert hashed.tolist() == [expected]


def test_seeds_are_not_changed() -> None:
    """The caller needs the seeds again: they are the hashes where this column is NULL."""
    seeds = np.array([1, 2], np.uint64)
    hash_words(np.array([3, 4]), seeds)
    hash_half_words(np.array([3, 4], np.int32), seeds)
    for lengths in ([36, 5], [36, 33], [200, 36]):
        hash_bytes(np.zeros(201, np.uint8), np.array([0, 1]), np.array(lengths), seeds)

    assert seeds.tolist() == [1, 2]


def _hash(rows: list[bytes], seeds: list[int]) -> list[int]:
    lengths = np.array([len(row) for row in rows], np.int64)
    data = np.frombuffer(b"".join(rows), np.uint8)
    starts = np.cumsum(lengths) - lengths
    hashes: list[int] = hash_bytes(data, starts, lengths, np.array(seeds, np.uint64)).tolist()
    return hashes
