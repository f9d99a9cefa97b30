"""Where the keys of a file are, in memory: for many lookups in a file that has been asked for many.

A search in pages reads a pointer and a key from another place of the file at each of its steps.
Here each key is one number, and all numbers are one array.

Promises: what is found is what a search in the pages finds. The indexes of a process take
a bounded memory (lookup_memory.py). Does not know: what a key means.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..codec.ragged import Buffer, Bytes, Positions, load, load_matrix, parts_of
from .lookup_memory import index_memory
from .page import NODE_HEADER, Pages

Numbers: TypeAlias = NDArray[np.uint64]

_LEAVES_AT_ONCE = 1024
_WORD = 8
# Where a node has the length of its key.
_LENGTH_AT = 6
# Of the keys that have an index: up to four words, of which the last may begin within another.
_LEAST_WIDTH, _MOST_WIDTH = _WORD, 4 * _WORD
_NUMBER_BYTES, _MARK_BYTES = 8 + 4, 8
_STRIDE = 64
_MOST_POSITION = 2**32 - 1
# To search a key in the pages takes about 0.5 us more than with an index, and to make one 0.03 us
# for each entry: it has paid after four times as many lookups. So many read about every page once.
_ENTRIES_PER_LOOKUP = 64


@dataclass(frozen=True, slots=True, weakref_slot=True)
class KeyIndex:
    """The keys of a file, all of one length, as ascending numbers, and the nodes of their entries.

    ``marks``: every 64th of the numbers; ``base``: the words of one key; ``varies``: the bits of
    each word in which keys differ.
    """

    numbers: Numbers
    marks: Numbers
    nodes: NDArray[np.uint32]
    width: int
    base: tuple[np.uint64, ...]
    varies: tuple[np.uint64, ...]

    @classmethod
    def of(cls, pages: Pages) -> KeyIndex | None:
        """Return the index of a file.

        None if the keys have several lengths, or too many bits that differ, or the memory is taken.
        ValueError or IndexError if the file is damaged.
        """
        size = pages.entry_count * _NUMBER_BYTES
        size += -(-pages.entry_count // _STRIDE) * _MARK_BYTES
        if len(pages.buffer) > _MOST_POSITION or not index_memory.reserve(size):
            return None
        index = None
        try:
            index = cls._of_pages(pages)
        finally:
            if index is None:
                index_memory.release(size)
        if index is not None:
            weakref.finalize(index, index_memory.release, size)
        return index

    @classmethod
    def _of_pages(cls, pages: Pages) -> KeyIndex | None:
        parts = list(pages.all_nodes(_LEAVES_AT_ONCE))
        nodes = np.concatenate([np.empty(0, np.int64), *parts])
        width = int(pages.key_lengths(nodes[:1]).max(initial=0))
        if not _LEAST_WIDTH <= width <= _MOST_WIDTH:
            return None
        if int(nodes.max()) > len(pages.buffer) - NODE_HEADER - width:
            return None
        words_of_parts = []
        for part in parts:
            # What is spread over the file is read once.
            starts = load_matrix(pages.buffer, part, NODE_HEADER + width).reshape(-1)
            begins = np.arange(len(part)) * (NODE_HEADER + width)
            if (load(starts, begins + _LENGTH_AT, "<u2") != width).any():
                return None
            words_of_parts.append(_words(starts, begins + NODE_HEADER, width))
        words = [np.concatenate(word) for word in zip(*words_of_parts, strict=True)]
        base = tuple(word[0] for word in words)
        varies = tuple(np.bitwise_or.reduce(word ^ word[0]) for word in words)
        if sum(map(_bits, varies)) > 8 * _WORD:
            return None
        numbers = _numbers(words, varies)
        if (numbers[1:] <= numbers[:-1]).any():
            raise ValueError("keys are not in ascending order")
        marks = numbers[::_STRIDE].copy()
        return cls(numbers, marks, nodes.astype(np.uint32), width, base, varies)

    def has_width_of(self, keys: Bytes, rows: Positions) -> bool:
        """Return whether the keys at some rows have the length of those of the file."""
        offsets = parts_of(keys)[1]
        return bool((offsets[rows + 1] - offsets[rows] == self.width).all())

    def find(self, keys: Bytes, rows: Positions) -> tuple[Positions, Positions]:
        """Return (indices, nodes): the nodes of those of the keys at some rows that are there.

        ``indices``: into ``rows``. All these keys have the length ``width``.
        """
        data, offsets = parts_of(keys)
        words = _words(data, offsets[rows], self.width)
        numbers = _numbers(words, self.varies)
        places = self._places(numbers)
        is_there = self.numbers[places] == numbers
        for word, base, varying in zip(words, self.base, self.varies, strict=True):
            is_there &= (word ^ base) & ~varying == 0
        indices = np.flatnonzero(is_there)
        return indices, self.nodes[places[indices]].astype(np.int64)

    def _places(self, numbers: Numbers) -> Positions:
        """Return where each number is, if it is there; else any index of the file's numbers."""
        last = len(self.numbers) - 1
        if len(numbers) * _STRIDE > last:
            return np.minimum(np.searchsorted(self.numbers, numbers), last)
        # The places of few numbers are far apart, so each step of a search waits for memory. Here
        # the last steps of all are made at once, and do not wait for one another.
        blocks = np.searchsorted(self.marks, numbers, side="right") - 1
        places: Positions = np.maximum(blocks, 0) * _STRIDE
        step = _STRIDE // 2
        while step:
            reached = np.minimum(places + step, last)
            places = np.where(self.numbers[reached] <= numbers, reached, places)
            step //= 2
        return places


class LookupIndex:
    """The index of one file, made once it pays. Safe between threads.

    ``index``: None until then.
    """

    def __init__(self) -> None:
        self.index: KeyIndex | None = None
        self._is_possible = True
        self._lookups = 0

    def for_lookups(self, pages: Pages, count: int) -> KeyIndex | None:
        """Return the index for the lookup of ``count`` keys; None if there is none.

        ValueError or IndexError if the file is damaged.
        """
        self._lookups += count
        is_worth_it = self._lookups * _ENTRIES_PER_LOOKUP >= pages.entry_count
        if self.index is None and self._is_possible and is_worth_it:
            self.index = KeyIndex.of(pages)
            self._is_possible = self.index is not None
        return self.index


def _words(buffer: Buffer, starts: Positions, width: int) -> list[Numbers]:
    """Return the bytes of keys, eight and eight, as numbers."""
    words = []
    for begin in range(0, width, _WORD):
        # The last word begins early enough to end with the key; what it repeats is shifted out.
        start = min(begin, width - _WORD)
        word = load(buffer, starts + start, ">u8").astype(np.uint64)
        if start < begin:
            word <<= np.uint64(8 * (begin - start))
        words.append(word)
    return words


def _numbers(words: Sequence[Numbers], varies: Sequence[np.uint64]) -> Numbers:
    """Return the bytes of words in which keys differ, put together in their order."""
    numbers = np.zeros(len(words[0]), np.uint64)
    for word, varying in zip(words, varies, strict=True):
        for start, count in _runs(int(varying)):
            numbers <<= np.uint64(count)
            numbers |= word >> np.uint64(start) & np.uint64((1 << count) - 1)
    return numbers


def _bits(varying: np.uint64) -> int:
    return sum(count for _, count in _runs(int(varying)))


def _runs(varying: int) -> list[tuple[int, int]]:
    """Return (lowest bit, number of bits) of the runs of bytes that vary, the highest first."""
    runs: list[tuple[int, int]] = []
    for byte in range(_WORD - 1, -1, -1):
        if not varying >> 8 * byte & 0xFF:
            continue
        if runs and runs[-1][0] == 8 * (byte + 1):
            runs[-1] = 8 * byte, runs[-1][1] + 8
        else:
            runs.append((8 * byte, 8))
    return runs
