"""A Bloom filter of a table's keys in one file: it leaves out lookups of keys that are not there.

The bits of a key are in one word of the filter, so that a key costs one read of memory, and what
does not depend on the filter is computed once per key for all files (`KeyMarks`).

It takes two to four bytes of memory per entry, is never stored, and lets pass all keys that are
there and at most about one in a hundred of the others.

Promises: a key of the file is never left out. The filters of a process take a bounded memory.
Does not know: what a key means.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..codec.ragged import (
    Buffer,
    Bytes,
    Positions,
    gather,
    lengths_of,
    load,
    parts_of,
    prefix_words,
)
from .key import LEAST_PREFIX_BYTES
from .lookup_memory import filter_memory
from .page import Pages

_LEAVES_AT_ONCE = 512
_BITS_PER_KEY = 16
_BITS_PER_ADDED_KEY = 32
_WORD = 8
# Each key has so many bits in a word of 64: a bit is six bits of the hash, the word the others.
_BITS, _BIT_WIDTH = 4, 6
_FACTOR = np.uint64(0x9E3779B185EBCA87)
# To look up a key takes about as long as to read the keys of so many entries for a filter.
_ENTRIES_PER_LOOKUP = 10


@dataclass(frozen=True, slots=True)
class KeyMarks:
    """What filters know of some keys.

    ``words``: int64, a number that determines the word of each key in any filter; ``bits``: uint64,
    its bits in that word.
    """

    words: Positions
    bits: NDArray[np.uint64]

    @classmethod
    def of(cls, hashes: NDArray[np.uint64]) -> KeyMarks:
        """Return the marks of keys with some hashes: see `key_hashes`."""
        bits = np.zeros(len(hashes), np.uint64)
        for number in _bit_numbers(hashes):
            bits |= np.uint64(1) << number
        return cls((hashes >> np.uint64(_BITS * _BIT_WIDTH)).view(np.int64), bits)

    def __len__(self) -> int:
        return len(self.words)

    def take(self, indices: Positions | slice) -> KeyMarks:
        """Return the marks at some indices."""
        return KeyMarks(self.words[indices], self.bits[indices])


def _bit_numbers(hashes: NDArray[np.uint64]) -> list[NDArray[np.uint64]]:
    """Return the numbers of the bits of each key in its word, 0 to 63."""
    shifts = range(0, _BITS * _BIT_WIDTH, _BIT_WIDTH)
    return [hashes >> np.uint64(shift) & np.uint64(63) for shift in shifts]


class KeyFilter:
    """The filter of some keys, which are known by their hashes. Immutable."""

    def __init__(self, hashes: NDArray[np.uint64]) -> None:
        """``hashes``: those of all keys of a file, see `key_hashes`."""
        bits = _bits_for(len(hashes))
        self._mask = bits // 64 - 1
        is_set = np.zeros(bits, np.bool_)
        words = (hashes >> np.uint64(_BITS * _BIT_WIDTH)).view(np.int64) & self._mask
        for number in _bit_numbers(hashes):
            is_set[(words << _BIT_WIDTH) + number.view(np.int64)] = True
        self._words = np.packbits(is_set, bitorder="little").view("<u8")

    @classmethod
    def of(
        cls, pages: Pages, low: bytes | None = None, high: bytes | None = None
    ) -> KeyFilter | None:
        """Return the filter of the keys of a file with ``low <= key < high`` (None: unbounded).

        None if the memory for filters is taken. ValueError or IndexError if the file is damaged.
        """
        size = _bits_for(pages.entries_between(low, high)) // 8
        if not filter_memory.reserve(size):
            return None
        try:
            key_filter = cls(hashes_in(pages, low, high))
            # The number of entries was an estimate.
            surplus = key_filter.nbytes - size
            if surplus > 0 and not filter_memory.reserve(surplus):
                filter_memory.release(size)
                return None
            filter_memory.release(max(-surplus, 0))
        except BaseException:
            filter_memory.release(size)
            raise
        weakref.finalize(key_filter, filter_memory.release, key_filter.nbytes)
        return key_filter

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        return self._words.nbytes

    def may_hold(self, marks: KeyMarks) -> NDArray[np.bool_]:
        """Return for each key's marks whether the file may have the key."""
        return _are_set(self._words[marks.words & self._mask], marks.bits)


class GrowingFilter:
    """A filter of keys that are added from time to time. For one thread at a time."""

    def __init__(self, capacity: int) -> None:
        """``capacity``: for how many keys, a power of two; more of them let more others pass."""
        self._mask = capacity * _BITS_PER_ADDED_KEY // 64 - 1
        self._words = np.zeros(self._mask + 1, np.uint64)
        self._room = capacity

    @property
    def is_full(self) -> bool:
        """Whether as many keys were added as it is made for."""
        return self._room <= 0

    def add(self, marks: KeyMarks) -> None:
        """Add some keys, whether or not they are there already."""
        np.bitwise_or.at(self._words, marks.words & self._mask, marks.bits)
        self._room -= len(marks)

    def may_hold(self, marks: KeyMarks) -> NDArray[np.bool_]:
        """Return for each key's marks whether the key may have been added."""
        return _are_set(self._words[marks.words & self._mask], marks.bits)


class SpanFilter:
    """The filter of a table's keys in one file, made once it pays. Safe between threads.

    It pays for a file in which many keys were looked up in vain. ``filter``: None until then.
    """

    def __init__(self, pages: Pages, low: bytes, high: bytes) -> None:
        """The keys are those with ``low <= key < high``.

        ValueError or IndexError if a page is damaged.
        """
        self._pages, self._low, self._high = pages, low, high
        self._entries = pages.entries_between(low, high)
        self._misses = 0
        self.filter: KeyFilter | None = None

    def record_misses(self, count: int) -> None:
        """Take note that so many keys were looked up that are not in the file."""
        self._misses += count

    def for_lookups(self, count: int) -> KeyFilter | None:
        """Return the filter for the lookup of ``count`` keys; None if it does not pay.

        ValueError or IndexError if a page is damaged.
        """
        if self.filter is None and (self._misses + count) * _ENTRIES_PER_LOOKUP >= self._entries:
            self.filter = KeyFilter.of(self._pages, self._low, self._high)
        return self.filter


def _are_set(words: NDArray[np.uint64], bits: NDArray[np.uint64]) -> NDArray[np.bool_]:
    are_set: NDArray[np.bool_] = (words & bits) == bits
    return are_set


def _bits_for(entries: int) -> int:
    """Return the bits of a filter of some entries, a power of two."""
    return 1 << max((entries * _BITS_PER_KEY - 1).bit_length(), 6)


def hashes_in(pages: Pages, low: bytes | None, high: bytes | None) -> NDArray[np.uint64]:
    """Return the hashes of the keys of a file with ``low <= key < high``: see `key_hashes`.

    ValueError or IndexError if the file is damaged.
    """
    hashes = [
        _hashes(block.keys, block.key_starts, block.key_lengths)
        for block in pages.blocks(low, high, _LEAVES_AT_ONCE)
    ]
    return np.concatenate([np.empty(0, np.uint64), *hashes])


def key_hashes(keys: Bytes) -> NDArray[np.uint64]:
    """Return a hash of the first and the last bytes of every key, uint64."""
    data, offsets = parts_of(keys)
    return _hashes(data, offsets[:-1], lengths_of(keys))


def _hashes(buffer: Buffer, starts: Positions, lengths: Positions) -> NDArray[np.uint64]:
    """Return the hash of each key from its words: after the table and the vnode, the last two."""
    is_short = lengths < _WORD
    if is_short.any():
        hashes = np.empty(len(lengths), np.uint64)
        short, long = np.flatnonzero(is_short), np.flatnonzero(~is_short)
        (words,) = prefix_words(gather(buffer, starts[short], lengths[short]), 1)
        hashes[short] = _mixed(_mixed(words ^ lengths[short].astype(np.uint64)))
        if len(long):
            hashes[long] = _hashes(buffer, starts[long], lengths[long])
        return hashes
    ends = starts + lengths
    positions = (
        np.minimum(starts + LEAST_PREFIX_BYTES, ends - _WORD),
        np.maximum(starts, ends - 2 * _WORD),
        ends - _WORD,
    )
    hashes = np.zeros(len(starts), np.uint64)
    for position in positions:
        hashes ^= load(buffer, position, "<u8").astype(np.uint64, copy=False)
        hashes = _mixed(hashes)
    # A product's low bits depend on the low bits of its factors only: one round is too few.
    return _mixed(hashes)


def _mixed(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    hashes = (hashes ^ (hashes >> np.uint64(32))) * _FACTOR
    return hashes ^ (hashes >> np.uint64(29))
