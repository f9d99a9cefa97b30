"""Lookups of a key in files of which each may have a filter of its keys, stored with it.

A lookup in a file that does not have the key takes a microsecond, to ask its filter a tenth of one.

Promises: a file that has a key is asked for it, and files are asked in the order given.
Does not know: what a value means, or where the filters come from (segment/filterblock.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Self, TypeAlias

from xxhash import xxh64_intdigest

from ..segment.keyfilter import PAIR_MASK, PAIR_WIDTH, SEED, WORD_SHIFT, bit_pairs, mark_of
from ..segment.segment import SegmentFile

Getter: TypeAlias = Callable[[bytes], bytes | None]


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


def newest_getters(lookups: Sequence[FilteredGet]) -> tuple[Getter, ...]:
    """Return functions of which the first that returns a value returns that of the first file.

    Files with filters that follow one another have one function for all of them.
    """
    if len(lookups) == 1:
        return (lookups[0].get,)
    getters: list[Getter] = []
    for has_filter, group in groupby(lookups, lambda lookup: lookup.words is not None):
        members = list(group)
        getters += [_first_getter(members)] if has_filter else [member.get for member in members]
    return tuple(getters)


def _first_getter(lookups: Sequence[FilteredGet]) -> Getter:
    """Return the function that returns the value of the first of some files that has a key."""
    filters = [(words, len(words), lookup.get) for lookup in lookups if (words := lookup.words)]
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
