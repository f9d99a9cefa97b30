"""A Bloom filter of the keys of one file: it leaves out lookups of keys that are not in the file.

It takes two to four bytes of memory per entry, is never stored, and lets pass all keys that are
there and at most about one in seventy of the others.

Promises: a key of the file is never left out. The filters of a process take a bounded memory.
Does not know: what a key means, or when a filter pays.
"""

from __future__ import annotations

import threading
import weakref

import numpy as np
from numpy.typing import NDArray

from ..codec.ragged import Buffer, Bytes, Positions, lengths_of, load, parts_of
from ..environment import after_fork
from .page import Pages

_LEAVES_AT_ONCE = 512
_BITS_PER_KEY = 16
_WORD = 8
_MOST_BYTES = 64 << 20
_FACTOR = np.uint64(0x9E3779B185EBCA87)


class KeyFilter:
    """The filter of some keys, which are known by their hashes. Immutable."""

    def __init__(self, hashes: NDArray[np.uint64]) -> None:
        """``hashes``: those of all keys of a file, see `key_hashes`."""
        bits = _bits_for(len(hashes))
        self._mask = np.uint64(bits - 1)
        is_set = np.zeros(bits, np.bool_)
        for positions in self._positions(hashes):
            is_set[positions] = True
        self._bits = np.packbits(is_set, bitorder="little")

    @classmethod
    def of(cls, pages: Pages) -> KeyFilter | None:
        """Return the filter of all keys of a file; None if the memory for filters is taken.

        ValueError or IndexError if the file is damaged.
        """
        size = _bits_for(pages.entry_count) // 8
        if not filter_memory.reserve(size):
            return None
        try:
            hashes = [
                _hashes(block.keys, block.key_starts, block.key_lengths)
                for block in pages.blocks(None, None, _LEAVES_AT_ONCE)
            ]
            key_filter = cls(np.concatenate([np.empty(0, np.uint64), *hashes]))
        except BaseException:
            filter_memory.release(size)
            raise
        weakref.finalize(key_filter, filter_memory.release, size)
        return key_filter

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        return self._bits.nbytes

    def may_hold(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return for each key's hash whether the file may have the key."""
        first, second = (
            self._bits[positions >> 3] >> (positions & 7).astype(np.uint8)
            for positions in self._positions(hashes)
        )
        may_hold: NDArray[np.bool_] = (first & second & 1).astype(np.bool_)
        return may_hold

    def _positions(self, hashes: NDArray[np.uint64]) -> tuple[Positions, Positions]:
        """Return the positions of the two bits of each key."""
        return (
            (hashes & self._mask).view(np.int64),
            ((hashes >> np.uint64(32)) & self._mask).view(np.int64),
        )


class FilterMemory:
    """The memory that the filters of a process may take. Safe between threads."""

    def __init__(self, size: int) -> None:
        """``size``: in bytes."""
        self._free = size
        # Reentrant: a filter may be collected, and its memory released, within `reserve`.
        self._lock = threading.RLock()

    def reserve(self, size: int) -> bool:
        """Return whether so many bytes were free; they are not any more."""
        with self._lock:
            if size > self._free:
                return False
            self._free -= size
            return True

    def release(self, size: int) -> None:
        """Free so many bytes."""
        with self._lock:
            self._free += size

    def renew_lock(self) -> None:
        """Replace the lock, which another thread may have held when this process forked."""
        self._lock = threading.RLock()


filter_memory = FilterMemory(_MOST_BYTES)
after_fork(lambda: filter_memory.renew_lock())


def _bits_for(entries: int) -> int:
    """Return the bits of a filter of some entries, a power of two."""
    return 1 << max((entries * _BITS_PER_KEY - 1).bit_length(), 6)


def key_hashes(keys: Bytes) -> NDArray[np.uint64]:
    """Return a hash of the first and the last bytes of every key, uint64."""
    data, offsets = parts_of(keys)
    return _hashes(data, offsets[:-1], lengths_of(keys))


def _hashes(buffer: Buffer, starts: Positions, lengths: Positions) -> NDArray[np.uint64]:
    """Return the hash of each key from its words: after the table's id, the last two."""
    if len(lengths) and lengths.min() < _WORD:
        # A key of fewer bytes than a word has the hash 0.
        hashes = np.zeros(len(lengths), np.uint64)
        long = np.flatnonzero(lengths >= _WORD)
        hashes[long] = _hashes(buffer, starts[long], lengths[long])
        return hashes
    ends = starts + lengths
    positions = (
        np.minimum(starts + 4, ends - _WORD),
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
