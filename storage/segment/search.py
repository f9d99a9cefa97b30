"""Many prefixes of keys, or ranges, looked for in the pages of one file at once.

A cursor finds one place a call, which is some microseconds of Python each. Here all prefixes are
searched in step: first among the keys with which leaf pages begin, then by halving inside of their
pages, one numpy operation for all of them.

Promises: only leaf pages that hold what is looked for are read, and those above them once a file.
Does not know: rows, or why a prefix is looked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..codec.ragged import (
    Bytes,
    Positions,
    expand,
    lengths_of,
    load_matrix,
    padded,
    texts_of,
)
from .block import Block
from .page import Pages

# With a bound on the entries, at least so many of a page are reckoned with, and some pages more.
_ENTRIES_A_LEAF, _SPARE_LEAVES = 8, 2


@dataclass(frozen=True, slots=True)
class Found:
    """Entries whose keys begin with some prefixes: prefix by prefix, in key order.

    ``owners``: the prefix of each entry, int64, ascending. ``is_cut``: of each prefix, whether
    there is more beneath it than was asked for.
    """

    owners: Positions
    entries: Block
    is_cut: NDArray[np.bool_]


def search(pages: Pages, prefixes: Bytes, most: Positions | None = None) -> Found:
    """Return the entries beneath some prefixes; they are found quickest if these ascend.

    Of prefix i at least one and at most ``most[i]``, the first ones; None: all. No key is a part
    that some prefix begins with, as none of full keys is. ValueError or IndexError if a page is
    damaged.
    """
    count = len(pages.first_keys)
    if not count or not len(prefixes):
        none = np.empty(0, np.int64)
        return Found(none, pages.entries(none), np.zeros(len(prefixes), np.bool_))
    first, last = _leaves_of(pages, prefixes)
    wanted = _Wanted.of(prefixes)
    begins = _begins(pages, first, wanted)
    ends = _ends(pages, (first, begins), last, wanted)
    counts = last - first + 1
    if most is not None:
        counts = np.minimum(counts, most // _ENTRIES_A_LEAF + _SPARE_LEAVES)
    return _read(pages, (first, begins), (last, ends), counts, most)


def reaches(pages: Pages, lows: Bytes, highs: Bytes) -> NDArray[np.bool_]:
    """Return of each pair, low <= high, whether there is an entry from the one to the other.

    Entries whose keys begin with ``highs[i]`` count. ValueError or IndexError if a page is damaged.
    """
    if not len(pages.first_keys) or not len(lows):
        return np.zeros(len(lows), np.bool_)
    (first, _), (_, last) = _leaves_of(pages, lows), _leaves_of(pages, highs)
    begins = _begins(pages, first, _Wanted.of(lows))
    ends = _ends(pages, (first, begins), last, _Wanted.of(highs))
    # A later leaf is reached only where its first key does not lie behind the high end.
    found: NDArray[np.bool_] = (first < last) | (begins < ends)
    return found


def _read(
    pages: Pages,
    begin: tuple[Positions, Positions],
    end: tuple[Positions, Positions],
    counts: Positions,
    most: Positions | None,
) -> Found:
    """Return what lies from ``begin`` to ``end``, each (leaves, slots), in ``counts`` leaves."""
    (first, begins), (last, ends) = begin, end
    owners = np.repeat(np.arange(len(first)), counts)
    leaves = expand(first, counts)
    starts, sizes = pages.leaves(leaves)
    slots = np.where(leaves == first[owners], begins[owners], 0)
    sizes = np.where(leaves == last[owners], ends[owners], sizes) - slots
    sizes = np.maximum(sizes, 0)
    is_cut = first + counts <= last
    if most is not None:
        totals = np.cumsum(sizes)
        before = totals - sizes
        before -= before[np.cumsum(counts) - counts][owners]
        kept = np.clip(most[owners] - before, 0, sizes)
        is_cut |= np.bincount(owners[kept < sizes], minlength=len(first)) > 0
        sizes = kept
    nodes = pages.nodes(np.repeat(starts, sizes), expand(slots, sizes))
    return Found(np.repeat(owners, sizes), pages.entries(nodes), is_cut)


def _leaves_of(pages: Pages, prefixes: Bytes) -> tuple[Positions, Positions]:
    """Return the first and the last leaf that can hold keys that begin with each prefix."""
    bounds = pages.first_keys
    width = max(int(lengths_of(prefixes).max()), bounds.dtype.itemsize)
    first = np.searchsorted(bounds, padded(prefixes, width), side="left")
    last = np.searchsorted(bounds, padded(prefixes, width, 0xFF), side="right")
    return np.maximum(first - 1, 0), np.maximum(last - 1, 0)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Prefixes as numpy compares them: texts of one width, zeros behind their ends.

    ``inside``: which bytes are in each, None if all are.
    """

    texts: NDArray[np.bytes_]
    inside: NDArray[np.bool_] | None

    @classmethod
    def of(cls, prefixes: Bytes) -> _Wanted:
        lengths = lengths_of(prefixes)
        width = int(lengths.max())
        is_even = bool((lengths == width).all())
        inside = None if is_even else np.arange(width) < lengths[:, None]
        return cls(padded(prefixes, width), inside)

    def take(self, places: Positions) -> _Wanted:
        """Return the prefixes at some places."""
        inside = None if self.inside is None else self.inside[places]
        return _Wanted(self.texts[places], inside)

    def heads_of(self, pages: Pages, nodes: Positions) -> NDArray[np.bytes_]:
        """Return as many bytes as the prefix of its place has from where each node's key begins.

        Where the key is shorter it differs before its end.
        """
        width = self.texts.dtype.itemsize
        starts, buffer = pages.key_starts(nodes), pages.buffer
        if len(starts) and int(starts.max()) + width > len(buffer):
            places = np.minimum(starts[:, None] + np.arange(width), len(buffer) - 1)
            heads = buffer[places]
        else:
            heads = load_matrix(buffer, starts, width)
        if self.inside is not None:
            heads = heads * self.inside
        return texts_of(heads)


def _begins(pages: Pages, leaves: Positions, wanted: _Wanted) -> Positions:
    """Return for each prefix the slot in its leaf of the first key that does not lie before it."""
    starts, counts = pages.leaves(leaves)
    return _halve(pages, starts, (np.zeros_like(counts), counts), wanted, np.less)


def _ends(
    pages: Pages, begin: tuple[Positions, Positions], last: Positions, wanted: _Wanted
) -> Positions:
    """Return for each prefix the slot in its last leaf behind all keys that begin with it."""
    first, begins = begin
    starts, counts = pages.leaves(last)
    low = np.where(first == last, begins, 0)
    ends = low.copy()
    # Where the very first key begins otherwise there is none, as mostly in all files but one.
    places = np.flatnonzero(low < counts)
    nodes = pages.nodes(starts[places], low[places])
    asked = wanted.take(places)
    is_there = asked.heads_of(pages, nodes) <= asked.texts
    places, asked = places[is_there], asked.take(np.flatnonzero(is_there))
    between = low[places] + 1, counts[places]
    ends[places] = _halve(pages, starts[places], between, asked, np.less_equal)
    return ends


def _halve(
    pages: Pages,
    starts: Positions,
    between: tuple[Positions, Positions],
    wanted: _Wanted,
    is_before: Callable[[NDArray[np.bytes_], NDArray[np.bytes_]], NDArray[np.bool_]],
) -> Positions:
    """Return the first slot between two in each page whose key does not lie before the prefix."""
    low, high = between
    if not len(low):
        return low
    for _ in range(int((high - low).max()).bit_length()):
        is_open = low < high
        middle = np.where(is_open, (low + high) >> 1, 0)
        nodes = pages.nodes(starts, middle)
        goes_on = is_before(wanted.heads_of(pages, nodes), wanted.texts)
        low = np.where(is_open & goes_on, middle + 1, low)
        high = np.where(is_open & ~goes_on, middle, high)
    return low
