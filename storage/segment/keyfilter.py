"""Bloom filters of keys: they leave out lookups of keys that are not there.

The bits of a key are in one word of a filter, so that a key costs one read of memory, and what
does not depend on the filter is computed once per key for all files (`KeyMarks`). The hash is one
that Python computes of one key as quickly as numpy does of many.

    hash        XXH64 of the bytes of the key, seed 0
    word        (hash >> 32) * words >> 32
    bits of it  hash & 63, hash >> 6 & 63, hash >> 12 & 63, hash >> 18 & 63

Promises: a key of the filter is never left out; of other keys about one in forty is let pass.
Does not know: what a key means, or where a filter is stored (filterblock.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh64_intdigest

from relstate.vnode import hash_bytes

from ..codec.ragged import Buffer, Bytes, Positions, lengths_of, parts_of
from .page import Pages

# On disk: never change these.
SEED = 0
_QUARTER_BITS_PER_KEY = 37
WORD_SHIFT = 32
BIT_WIDTH = 6
_BITS = 4
PAIR_WIDTH = 2 * BIT_WIDTH
BIT_MASK, PAIR_MASK = (1 << BIT_WIDTH) - 1, (1 << PAIR_WIDTH) - 1
# Arrays of so many words stay in the processor's cache.
_KEYS_AT_ONCE = 8192
_LEAVES_AT_ONCE = 64
# So few keys are hashed one by one in less time than all at once.
_FEW_KEYS = 1024
_BITS_PER_ADDED_KEY = 32


@dataclass(frozen=True, slots=True)
class KeyMarks:
    """What filters know of some keys.

    ``fractions``: uint64, the upper 32 bits of each hash, which say in which part of any filter the
    key's word is; ``bits``: uint64, its bits in that word.
    """

    fractions: NDArray[np.uint64]
    bits: NDArray[np.uint64]

    @classmethod
    def of(cls, hashes: NDArray[np.uint64]) -> KeyMarks:
        """Return the marks of keys with some hashes: see `key_hashes`."""
        bits = np.zeros(len(hashes), np.uint64)
        for number in _bit_numbers(hashes):
            bits |= np.uint64(1) << number
        return cls(hashes >> np.uint64(WORD_SHIFT), bits)

    def __len__(self) -> int:
        return len(self.bits)

    def take(self, indices: Positions | slice) -> KeyMarks:
        """Return the marks at some indices."""
        return KeyMarks(self.fractions[indices], self.bits[indices])


def _bit_numbers(hashes: NDArray[np.uint64]) -> Iterator[NDArray[np.uint64]]:
    """Yield the numbers of the bits of each key in its word, 0 to 63."""
    for shift in range(0, _BITS * BIT_WIDTH, BIT_WIDTH):
        yield hashes >> np.uint64(shift) & np.uint64(BIT_MASK)


def _words_at(fractions: NDArray[np.uint64], words: int) -> Positions:
    """Return which of the words of a filter each key has. ``words``: how many there are."""
    return (fractions * np.uint64(words) >> np.uint64(WORD_SHIFT)).view(np.int64)


@cache
def bit_pairs() -> Sequence[int]:
    """Return the two bits that each 12 bits of a hash stand for: see `mark_of`."""
    return [1 << (pair & BIT_MASK) | 1 << (pair >> BIT_WIDTH) for pair in range(PAIR_MASK + 1)]


def mark_of(key: bytes) -> tuple[int, int]:
    """Return the fraction and the bits of one key: see `KeyMarks`."""
    digest = xxh64_intdigest(key, SEED)
    pairs = bit_pairs()
    bits = pairs[digest & PAIR_MASK] | pairs[digest >> PAIR_WIDTH & PAIR_MASK]
    return digest >> WORD_SHIFT, bits


def key_hashes(keys: Bytes) -> NDArray[np.uint64]:
    """Return the hash of every key, uint64."""
    if len(keys) <= _FEW_KEYS:
        return np.array([xxh64_intdigest(key, SEED) for key in keys.to_pylist()], np.uint64)
    data, offsets = parts_of(keys)
    return hashes_at(data, offsets[:-1], lengths_of(keys))


def hashes_at(buffer: Buffer, starts: Positions, lengths: Positions) -> NDArray[np.uint64]:
    """Return the hash of each of the keys that begin at some places, uint64."""
    hashes = np.empty(len(starts), np.uint64)
    seeds = np.full(min(len(starts), _KEYS_AT_ONCE), SEED, np.uint64)
    for start in range(0, len(starts), _KEYS_AT_ONCE):
        part = slice(start, start + _KEYS_AT_ONCE)
        count = len(starts[part])
        hashes[part] = hash_bytes(buffer, starts[part], lengths[part], seeds[:count])
    return hashes


def hashes_in(pages: Pages, low: bytes | None, high: bytes | None) -> NDArray[np.uint64]:
    """Return the hashes of the keys of a file with ``low <= key < high``: see `key_hashes`.

    ValueError or IndexError if the file is damaged.
    """
    hashes = [
        hashes_at(pages.buffer, pages.key_starts(nodes), pages.key_lengths(nodes))
        for nodes in pages.nodes_between(low, high, _LEAVES_AT_ONCE)
    ]
    return np.concatenate([np.empty(0, np.uint64), *hashes])


def words_for(keys: int) -> int:
    """Return how many words the filter of some keys has, for 9.25 to 10.4 bits per key.

    It is 8 to 15 times a power of two: files of about one size have filters of one size.
    """
    least = max(-(-keys * _QUARTER_BITS_PER_KEY // (4 * 64)), 1)
    shift = max(least.bit_length() - 4, 0)
    return -(-least >> shift) << shift


def filter_words(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the words of the filter of keys with some hashes."""
    count = words_for(len(hashes))
    is_set = np.zeros(count * 64, np.bool_)
    for start in range(0, len(hashes), _KEYS_AT_ONCE):
        part = hashes[start : start + _KEYS_AT_ONCE]
        firsts = _words_at(part >> np.uint64(WORD_SHIFT), count) << BIT_WIDTH
        for number in _bit_numbers(part):
            is_set[firsts + number.view(np.int64)] = True
    words: NDArray[np.uint64] = np.packbits(is_set, bitorder="little").view("<u8")
    return words


@dataclass(frozen=True, slots=True)
class KeyFilter:
    """The filter of a table's keys in a file. Immutable.

    ``words``: uint64, perhaps in the map of the file, which they keep there.
    """

    words: NDArray[np.uint64]

    @classmethod
    def of(cls, hashes: NDArray[np.uint64]) -> KeyFilter:
        """Return that of keys with some hashes: see `key_hashes`."""
        return cls(filter_words(hashes))

    def may_hold(self, marks: KeyMarks) -> NDArray[np.bool_]:
        """Return for each key's marks whether the file may have the key."""
        words = self.words[_words_at(marks.fractions, len(self.words))]
        are_set: NDArray[np.bool_] = (words & marks.bits) == marks.bits
        return are_set


class GrowingFilter:
    """A filter of keys that are added from time to time. For one thread at a time."""

    def __init__(self, capacity: int) -> None:
        """``capacity``: for how many keys, a power of two; more of them let more others pass."""
        self._words = np.zeros(capacity * _BITS_PER_ADDED_KEY // 64, np.uint64)
        self._room = capacity

    @property
    def is_full(self) -> bool:
        """Whether as many keys were added as it is made for."""
        return self._room <= 0

    def add(self, marks: KeyMarks) -> None:
        """Add some keys, whether or not they are there already."""
        places = _words_at(marks.fractions, len(self._words))
        np.bitwise_or.at(self._words, places, marks.bits)
        self._room -= len(marks)

    def may_hold(self, marks: KeyMarks) -> NDArray[np.bool_]:
        """Return for each key's marks whether the key may have been added."""
        return KeyFilter(self._words).may_hold(marks)
