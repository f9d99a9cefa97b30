"""The search for many key prefixes, or ranges of keys, in the pages of one file at once.

A cursor finds one key per call, which costs some microseconds of Python. Here all prefixes are
searched together: first among the first keys of the leaf pages, then by binary search inside their
pages, with one numpy operation for all of them.

Promises: only leaf pages with matching entries are read, and the branch pages above them once per
file. Does not know: rows.
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

# With a bound on the entries, a page is expected to have at least this many; some pages are added.
_ENTRIES_PER_LEAF, _SPARE_LEAVES = 8, 2


@dataclass(frozen=True, slots=True)
class PrefixMatches:
    """Entries whose keys begin with some prefixes: prefix by prefix, in key order.

    ``owners``: the prefix of each entry, int64, ascending. ``is_cut``: for each prefix, whether
    it has more entries than these.
    """

    owners: Positions
    entries: Block
    is_cut: NDArray[np.bool_]


def find_prefixes(pages: Pages, prefixes: Bytes, most: Positions | None = None) -> PrefixMatches:
    """Return the entries with some key prefixes; the search is fastest if these ascend.

    Of prefix i the first ``most[i]`` entries, at least one; None: all. Requires that no key is a
    proper prefix of one of ``prefixes``, as is true of full keys. ValueError or IndexError if a
    page is damaged.
    """
    count = len(pages.first_keys)
    if not count or not len(prefixes):
        empty = np.empty(0, np.int64)
        return PrefixMatches(empty, pages.entries(empty), np.zeros(len(prefixes), np.bool_))
    first, last = _leaves_of(pages, prefixes)
    padded_prefixes = _PaddedPrefixes.of(prefixes)
    begins = _begins(pages, first, padded_prefixes)
    ends = _ends(pages, (first, begins), last, padded_prefixes)
    counts = last - first + 1
    if most is not None:
        counts = np.minimum(counts, most // _ENTRIES_PER_LEAF + _SPARE_LEAVES)
    return _read(pages, (first, begins), (last, ends), counts, most)


def has_entries_between(pages: Pages, lows: Bytes, highs: Bytes) -> NDArray[np.bool_]:
    """Return for each pair, low <= high, whether there is an entry from low to high.

    Entries whose keys begin with ``highs[i]`` count. ValueError or IndexError if a page is damaged.
    """
    if not len(pages.first_keys) or not len(lows):
        return np.zeros(len(lows), np.bool_)
    (first, _), (_, last) = _leaves_of(pages, lows), _leaves_of(pages, highs)
    begins = _begins(pages, first, _PaddedPrefixes.of(lows))
    ends = _ends(pages, (first, begins), last, _PaddedPrefixes.of(highs))
    # A later leaf is reached only if its first key is not above the high end.
    reached: NDArray[np.bool_] = (first < last) | (begins < ends)
    return reached


def _read(
    pages: Pages,
    begin: tuple[Positions, Positions],
    end: tuple[Positions, Positions],
    counts: Positions,
    most: Positions | None,
) -> PrefixMatches:
    """Return the entries from ``begin`` to ``end``, each (leaves, slots), in ``counts`` leaves."""
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
        limited = np.clip(most[owners] - before, 0, sizes)
        is_cut |= np.bincount(owners[limited < sizes], minlength=len(first)) > 0
        sizes = limited
    nodes = pages.nodes(np.repeat(starts, sizes), expand(slots, sizes))
    return PrefixMatches(np.repeat(owners, sizes), pages.entries(nodes), is_cut)


def _leaves_of(pages: Pages, prefixes: Bytes) -> tuple[Positions, Positions]:
    """Return the first and the last leaf that can hold keys that begin with each prefix."""
    bounds = pages.first_keys
    width = max(int(lengths_of(prefixes).max()), bounds.dtype.itemsize)
    first = np.searchsorted(bounds, padded(prefixes, width), side="left")
    last = np.searchsorted(bounds, padded(prefixes, width, 0xFF), side="right")
    return np.maximum(first - 1, 0), np.maximum(last - 1, 0)


@dataclass(frozen=True, slots=True)
class _PaddedPrefixes:
    """Prefixes in a form that numpy compares: texts of one width, padded with zeros.

    ``inside``: which bytes belong to each prefix; None if all do.
    """

    texts: NDArray[np.bytes_]
    inside: NDArray[np.bool_] | None

    @classmethod
    def of(cls, prefixes: Bytes) -> _PaddedPrefixes:
        lengths = lengths_of(prefixes)
        width = int(lengths.max())
        is_even = bool((lengths == width).all())
        inside = None if is_even else np.arange(width) < lengths[:, None]
        return cls(padded(prefixes, width), inside)

    def take(self, indices: Positions) -> _PaddedPrefixes:
        """Return the prefixes at some indices."""
        inside = None if self.inside is None else self.inside[indices]
        return _PaddedPrefixes(self.texts[indices], inside)

    def key_starts_of(self, pages: Pages, nodes: Positions) -> NDArray[np.bytes_]:
        """Return the first bytes of each node's key, as many as the prefix at its index has.

        A shorter key differs from the prefix before its end.
        """
        width = self.texts.dtype.itemsize
        starts, buffer = pages.key_starts(nodes), pages.buffer
        if len(starts) and int(starts.max()) + width > len(buffer):
            offsets = np.minimum(starts[:, None] + np.arange(width), len(buffer) - 1)
            first_bytes = buffer[offsets]
        else:
            first_bytes = load_matrix(buffer, starts, width)
        if self.inside is not None:
            first_bytes = first_bytes * self.inside
        return texts_of(first_bytes)


def _begins(pages: Pages, leaves: Positions, prefixes: _PaddedPrefixes) -> Positions:
    """Return for each prefix the slot in its leaf of the first key that is not below it."""
    starts, counts = pages.leaves(leaves)
    return _binary_search(pages, starts, (np.zeros_like(counts), counts), prefixes, np.less)


def _ends(
    pages: Pages, begin: tuple[Positions, Positions], last: Positions, prefixes: _PaddedPrefixes
) -> Positions:
    """Return for each prefix the slot in its last leaf after all keys that begin with it."""
    first, begins = begin
    starts, counts = pages.leaves(last)
    low = np.where(first == last, begins, 0)
    ends = low.copy()
    # If the first key does not begin with the prefix, no key does: this is so in most files.
    indices = np.flatnonzero(low < counts)
    nodes = pages.nodes(starts[indices], low[indices])
    first_prefixes = prefixes.take(indices)
    is_present = first_prefixes.key_starts_of(pages, nodes) <= first_prefixes.texts
    indices, present = indices[is_present], first_prefixes.take(np.flatnonzero(is_present))
    between = low[indices] + 1, counts[indices]
    ends[indices] = _binary_search(pages, starts[indices], between, present, np.less_equal)
    return ends


def _binary_search(
    pages: Pages,
    starts: Positions,
    between: tuple[Positions, Positions],
    prefixes: _PaddedPrefixes,
    is_before: Callable[[NDArray[np.bytes_], NDArray[np.bytes_]], NDArray[np.bool_]],
) -> Positions:
    """Return the first slot between two in each page whose key is not before the prefix."""
    low, high = between
    if not len(low):
        return low
    for _ in range(int((high - low).max()).bit_length()):
        is_open = low < high
        middle = np.where(is_open, (low + high) >> 1, 0)
        nodes = pages.nodes(starts, middle)
        is_key_before = is_before(prefixes.key_starts_of(pages, nodes), prefixes.texts)
        low = np.where(is_open & is_key_before, middle + 1, low)
        high = np.where(is_open & ~is_key_before, middle, high)
    return low
