"""The filters of several files in one array: for each of their bits, which files have it.

To ask the filters of fifty files is to read fifty words, each from another place of memory. Here
the words of one place in all filters are together, turned: of a key's four bits each has a number
in which each file has a bit. Four reads of neighbours answer for all files.

Promises: it says of each file what its filter says. The matrices of a process take a bounded memory
(lookup_memory.py). Does not know: what a key means.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .lookup_memory import filter_memory

MOST_FILES = 64
_WORD_BITS = 64
# Arrays of so many words of each file stay in the processor's cache.
_WORDS_AT_ONCE = 512


@dataclass(frozen=True, slots=True, weakref_slot=True)
class FilterMatrix:
    """The bits of some filters of one size.

    ``numbers``: for each bit of a filter, in its order, the number in which the file of each column
    has a bit; ``words``: how many words a filter has.
    """

    numbers: memoryview
    words: int

    @classmethod
    def of(cls, filters: Sequence[tuple[int, memoryview]], columns: int) -> FilterMatrix | None:
        """Return the matrix of some filters of one size, each with its column.

        ``columns``: how many there are, at most `MOST_FILES`. None if the memory is taken.
        """
        words = len(filters[0][1])
        dtype = np.min_scalar_type((1 << columns) - 1)
        size = words * _WORD_BITS * dtype.itemsize
        if not filter_memory.reserve(size):
            return None
        try:
            numbers = np.empty((words, _WORD_BITS), dtype)
            arrays = [(column, np.frombuffer(view, np.uint64)) for column, view in filters]
            for start in range(0, words, _WORDS_AT_ONCE):
                part = slice(start, start + _WORDS_AT_ONCE)
                numbers[part] = _turned([(column, array[part]) for column, array in arrays])
            matrix = cls(numbers.reshape(-1).data, words)
        except BaseException:
            filter_memory.release(size)
            raise
        weakref.finalize(matrix, filter_memory.release, size)
        return matrix


def _turned(words: Sequence[tuple[int, NDArray[np.uint64]]]) -> NDArray[np.uint64]:
    """Return for each word a row of 64 numbers: number i has bit c if that of column c has bit i.

    Each two squares of bits beside the diagonal change places, of 32 by 32 bits, then of 16 by 16.
    """
    square = np.zeros((_WORD_BITS, len(words[0][1])), np.uint64)
    for column, column_words in words:
        square[column] = column_words
    width = _WORD_BITS // 2
    mask = (1 << width) - 1
    while width:
        pairs = square.reshape(_WORD_BITS // (2 * width), 2, width, -1)
        upper, lower = pairs[:, 0], pairs[:, 1]
        changed = (upper >> np.uint64(width) ^ lower) & np.uint64(mask)
        lower ^= changed
        upper ^= changed << np.uint64(width)
        width //= 2
        mask ^= mask << width & (1 << _WORD_BITS) - 1
    return square.T
