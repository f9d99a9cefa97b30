"""Lookups of a key in files of which each may have a filter of its keys, stored with it.

A lookup in a file that does not have the key takes a microsecond or more, to ask its filter some
tenths of one. Of many files the filters are asked together (segment/filtermatrix.py) once some
thousands of keys were looked up.

Promises: a file that has a key is asked for it, and files are asked in the order given. Safe
between threads.
Does not know: what a value means, or where the filters come from (segment/filterblock.py).
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Self, TypeAlias

from xxhash import xxh64_intdigest

from ..segment.filtermatrix import MOST_FILES, FilterMatrix
from ..segment.keyfilter import (
    BIT_MASK,
    BIT_WIDTH,
    PAIR_MASK,
    PAIR_WIDTH,
    SEED,
    WORD_SHIFT,
    bit_pairs,
    mark_of,
)
from ..segment.segment import SegmentFile

Getter: TypeAlias = Callable[[bytes], bytes | None]

# Filters of one size are asked together if they are so many: to ask a matrix takes as long.
_LEAST_TOGETHER = 6
# To make a matrix takes about as long per word as to ask four filters: it is made once a quarter of
# the time that it takes was spent so.
_ASKED_PER_WORD = 1


@dataclass(frozen=True, slots=True)
class FilteredGet:
    """The lookup in a file. ``words``: those of its filter, uint64; None if it has none."""

    get: Getter
    words: memoryview | None = None

    @classmethod
    def of(cls, file: SegmentFile, table_id: int) -> Self:
        """Return the lookup of a table's keys in an open file; errors as of its `getter`."""
        key_filter = file.key_filters.get(table_id)
        return cls(file.getter(), None if key_filter is None else key_filter.words.data)


class FilteredGets:
    """The lookups in the files of a table, the newest first."""

    def __init__(self, lookups: Sequence[FilteredGet]) -> None:
        """A file is known by its index in ``lookups``."""
        self._lookups = lookups
        filtered = [
            (number, words, lookup.get)
            for number, lookup in enumerate(lookups)
            if (words := lookup.words) is not None
        ]
        self._groups: dict[int, _Group] = {}
        self._columns: dict[int, int] = {}
        for start in range(0, len(filtered), MOST_FILES):
            members = filtered[start : start + MOST_FILES]
            group = _Group([(words, get) for _, words, get in members])
            for column, (number, _, _) in enumerate(members):
                self._groups[number], self._columns[number] = group, column

    def newest(self, numbers: Sequence[int]) -> tuple[Getter, ...]:
        """Return functions of which the first that returns a value returns that of the first file.

        ``numbers``: of the files, ascending. Some files with filters have one function together.
        """
        if len(numbers) == 1:
            return (self._lookups[numbers[0]].get,)
        getters: list[Getter] = []
        for group, members in groupby(numbers, self._groups.get):
            if group is None:
                getters += [self._lookups[number].get for number in members]
            else:
                getters.append(group.getter([self._columns[number] for number in members]))
        return tuple(getters)

    def possible(self, numbers: Sequence[int], key: bytes) -> tuple[Getter, ...]:
        """Return the functions of those of some files that may have a key: `possible_getters`."""
        return possible_getters([self._lookups[number] for number in numbers], key)


class _Group:
    """Up to 64 files with filters, known by their columns, the newest first.

    ``files``: the filter and the lookup of each; ``matrices``: those of filters of one size, none
    until enough filters were asked; ``loose``: the columns that are in no matrix.
    """

    def __init__(self, files: Sequence[tuple[memoryview, Getter]]) -> None:
        self.files = files
        self.matrices: Sequence[FilterMatrix] = ()
        by_size: dict[int, list[int]] = defaultdict(list)
        for column, (words, _) in enumerate(files):
            by_size[len(words)].append(column)
        self._alike = {
            size: columns for size, columns in by_size.items() if len(columns) >= _LEAST_TOGETHER
        }
        self.loose = {*range(len(files))}.difference(*self._alike.values())
        self._asks_left = _ASKED_PER_WORD * sum(self._alike)

    def getter(self, columns: Sequence[int]) -> Getter:
        """Return the function that returns the value of the first of some files that has a key."""
        one_by_one = _one_by_one([self.files[column] for column in columns])
        if not self._alike or len(columns) < _LEAST_TOGETHER:
            return one_by_one
        together, count = _together(self, columns), len(columns)

        def get(key: bytes) -> bytes | None:
            if self.matrices:
                return together(key)
            # Another thread may do the same: some are not counted, or it makes matrices twice.
            self._asks_left -= count
            if self._asks_left < 0:
                self._make_matrices()
            return one_by_one(key)

        return get

    def _make_matrices(self) -> None:
        """Make the matrices, or none again if there is no memory for all of them."""
        self._asks_left = sys.maxsize
        matrices = []
        for columns in self._alike.values():
            filters = [(column, self.files[column][0]) for column in columns]
            matrix = FilterMatrix.of(filters, len(self.files))
            if matrix is None:
                return
            matrices.append(matrix)
        self.matrices = matrices


def _one_by_one(files: Sequence[tuple[memoryview, Getter]]) -> Getter:
    """Return the function that returns the value of the first of some files that has a key."""
    filters = [(words, len(words), get) for words, get in files]
    pairs = bit_pairs()

    def get(key: bytes) -> bytes | None:
        # What `mark_of` returns: the call would cost as much as the hash.
        digest = xxh64_intdigest(key, SEED)
        fraction = digest >> WORD_SHIFT
        bits = pairs[digest & PAIR_MASK] | pairs[digest >> PAIR_WIDTH & PAIR_MASK]
        for words, count, look_up in filters:
            if words[fraction * count >> WORD_SHIFT] & bits == bits:
                value = look_up(key)
                if value is not None:
                    return value
        return None

    return get


def _together(group: _Group, columns: Sequence[int]) -> Getter:
    """Return the function that does so for some files of a group that has matrices."""
    look_ups = [get for _, get in group.files]
    mask = sum(1 << column for column in columns)
    loose = [
        (1 << column, words, len(words))
        for column in columns
        if column in group.loose and (words := group.files[column][0])
    ]
    pairs = bit_pairs()

    def get(key: bytes) -> bytes | None:
        digest = xxh64_intdigest(key, SEED)
        fraction = digest >> WORD_SHIFT
        first, second = digest & BIT_MASK, digest >> BIT_WIDTH & BIT_MASK
        third, fourth = digest >> 2 * BIT_WIDTH & BIT_MASK, digest >> 3 * BIT_WIDTH & BIT_MASK
        candidates = 0
        for matrix in group.matrices:
            numbers = matrix.numbers
            row = (fraction * matrix.words >> WORD_SHIFT) << BIT_WIDTH
            candidates |= (
                numbers[row | first]
                & numbers[row | second]
                & numbers[row | third]
                & numbers[row | fourth]
            )
        candidates &= mask
        if loose:
            bits = pairs[digest & PAIR_MASK] | pairs[digest >> PAIR_WIDTH & PAIR_MASK]
            for column_bit, words, count in loose:
                if words[fraction * count >> WORD_SHIFT] & bits == bits:
                    candidates |= column_bit
        while candidates:
            newest = candidates & -candidates
            value = look_ups[newest.bit_length() - 1](key)
            if value is not None:
                return value
            candidates ^= newest
        return None

    return get


def possible_getters(lookups: Sequence[FilteredGet], key: bytes) -> tuple[Getter, ...]:
    """Return the functions of those of some files that may have a key, in their order.

    ``key``: as the file has it, see segment/longkey.py.
    """
    if len(lookups) == 1:
        return (lookups[0].get,)
    fraction, bits = mark_of(key)
    return tuple(
        lookup.get
        for lookup in lookups
        if (words := lookup.words) is None
        or words[fraction * len(words) >> WORD_SHIFT] & bits == bits
    )
