"""The search for many ranges of keys in the pages of one file at once.

A cursor finds one key per call, which costs some microseconds of Python. Here the ends of all
ranges are searched together: first among the first keys of the leaf pages, then inside their pages.
If these have few keys, all of them are read, and one search finds all ends. Else each step of a
binary search in every page is one numpy operation for all of them. If the whole file has few keys,
nothing but its keys is searched.

Promises: only leaf pages with matching entries are read, and the branch pages above them once per
file. Does not know: rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
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

# So many keys, and so many more per range, are read in less time than a binary search in each page
# takes, which is about fifteen steps of a dozen numpy operations.
MOST_KEYS, _MOST_KEYS_PER_RANGE = 4096, 16
# So few keys, or so few per range, are those of a file of which all keys are read.
_FEW_KEYS, _FEW_KEYS_PER_RANGE = 256, 8
_LEAVES_AT_ONCE = 1024
# With a bound on the entries, a page is expected to have at least this many; some pages are added.
_ENTRIES_PER_LEAF, _SPARE_LEAVES = 8, 2


@dataclass(frozen=True, slots=True)
class KeyRanges:
    """Ranges of keys that ascend and do not overlap.

    Range i has the keys from ``lows[i]`` to those that begin with ``highs[i]``; where ``is_open``
    is set, to those below ``highs[i]``. No key may be a proper prefix of an end, as is true of full
    keys. ``is_open`` None: no range is open.
    """

    lows: Bytes
    highs: Bytes
    is_open: NDArray[np.bool_] | None = None

    @classmethod
    def of_prefixes(cls, prefixes: Bytes) -> KeyRanges:
        """Return the ranges of the keys that begin with some prefixes."""
        return cls(prefixes, prefixes)

    def __len__(self) -> int:
        return len(self.lows)

    @property
    def are_all_open(self) -> bool:
        """Whether each range has the keys below its high."""
        return self.is_open is not None and bool(self.is_open.all())

    def take(self, indices: Positions) -> KeyRanges:
        """Return the ranges at some indices."""
        rows = pa.array(indices)
        lows = self.lows.take(rows)
        if self.highs is self.lows:
            return KeyRanges(lows, lows)
        is_open = None if self.is_open is None else self.is_open[indices]
        return KeyRanges(lows, self.highs.take(rows), is_open)

    def slice(self, start: int, stop: int) -> KeyRanges:
        """Return the ranges from ``start`` up to, not including, ``stop``."""
        lows = self.lows.slice(start, stop - start)
        if self.highs is self.lows:
            return KeyRanges(lows, lows)
        is_open = None if self.is_open is None else self.is_open[start:stop]
        return KeyRanges(lows, self.highs.slice(start, stop - start), is_open)


@dataclass(frozen=True, slots=True)
class RangeMatches:
    """Entries in some ranges of keys: range by range, in key order.

    ``owners``: the range of each entry, int64, ascending. ``is_cut``: for each range, whether
    it has more entries than these.
    """

    owners: Positions
    entries: Block
    is_cut: NDArray[np.bool_]


def find_ranges(
    pages: Pages, ranges: KeyRanges, most: Positions | None = None, *, from_end: bool = False
) -> RangeMatches:
    """Return the entries in some ranges of keys.

    Of range i the first ``most[i]`` entries, at least one, or the last with ``from_end``; None:
    all. ValueError or IndexError if a page is damaged.
    """
    count = len(pages.first_keys)
    if not count or not len(ranges):
        empty = np.empty(0, np.int64)
        return RangeMatches(empty, pages.entries(empty), np.zeros(len(ranges), np.bool_))
    if pages.entry_count <= max(_FEW_KEYS, _FEW_KEYS_PER_RANGE * len(ranges)):
        return _find_in_all_keys(pages, ranges, most, from_end=from_end)
    if most is not None and not from_end:
        return _find_first(pages, ranges, most)
    first, last, begins, ends = _find_ends(pages, ranges)
    counts = last - first + 1
    if most is not None:
        counts = np.minimum(counts, most // _ENTRIES_PER_LEAF + _SPARE_LEAVES)
    return _read(pages, (first, begins), (last, ends), counts, most, from_end=from_end)


def _find_in_all_keys(
    pages: Pages, ranges: KeyRanges, most: Positions | None, *, from_end: bool
) -> RangeMatches:
    """Return what `find_ranges` does, by a search among all keys of the file."""
    nodes = np.concatenate(list(pages.all_nodes(_LEAVES_AT_ONCE)))
    width = max(int(lengths_of(ends).max()) for ends in (ranges.lows, ranges.highs))
    keys = texts_of(_first_bytes(pages, nodes, width))
    begins = np.searchsorted(keys, padded(ranges.lows, width), "left")
    ends = np.searchsorted(keys, padded(ranges.highs, width, 0xFF), "right")
    if ranges.is_open is not None:
        at_highs = np.searchsorted(keys, padded(ranges.highs, width), "left")
        ends = np.where(ranges.is_open, at_highs, ends)
    # In a damaged file keys may be in no order.
    sizes = np.maximum(ends - begins, 0)
    is_cut = np.zeros(len(ranges), np.bool_)
    if most is not None:
        is_cut = sizes > most
        sizes = np.minimum(sizes, most)
        begins = ends - sizes if from_end else begins
    owners = np.repeat(np.arange(len(ranges)), sizes)
    return RangeMatches(owners, pages.entries(nodes[expand(begins, sizes)]), is_cut)


def _find_first(pages: Pages, ranges: KeyRanges, most: Positions) -> RangeMatches:
    """Return what `find_ranges` does of the first entries: the ends of ranges are not searched."""
    first, last = _leaves_of(pages, ranges.lows)
    if ranges.highs is not ranges.lows:
        last = _leaves_of(pages, ranges.highs)[1]
    begins = _begins(pages, first, _PaddedPrefixes.of(ranges.lows))
    counts = np.minimum(last - first + 1, most // _ENTRIES_PER_LEAF + _SPARE_LEAVES)
    owners = np.repeat(np.arange(len(first)), counts)
    starts, sizes = pages.leaves(expand(first, counts))
    firsts = np.cumsum(counts) - counts
    slots = np.zeros_like(sizes)
    slots[firsts] = begins
    sizes -= slots
    # One more than asked for says whether there are more.
    before = np.cumsum(sizes) - sizes
    sizes = np.clip(most[owners] + 1 - (before - before[firsts][owners]), 0, sizes)
    nodes = pages.nodes(np.repeat(starts, sizes), expand(slots, sizes))
    owners = np.repeat(owners, sizes)
    read = np.bincount(owners, minlength=len(first))
    is_inside = _are_below_ends(pages, nodes, ranges, owners)
    nodes, owners = nodes[is_inside], owners[is_inside]
    inside = np.bincount(owners, minlength=len(first))
    ranks = np.arange(len(owners)) - (np.cumsum(inside) - inside)[owners]
    is_asked = ranks < most[owners]
    is_cut = (inside > most) | ((inside == read) & (first + counts <= last))
    return RangeMatches(owners[is_asked], pages.entries(nodes[is_asked]), is_cut)


def _are_below_ends(
    pages: Pages, nodes: Positions, ranges: KeyRanges, owners: Positions
) -> NDArray[np.bool_]:
    """Return for each node whether its key is not after the end of its range."""
    width = int(lengths_of(ranges.highs).max())
    keys = texts_of(_first_bytes(pages, nodes, width))
    are_below: NDArray[np.bool_] = keys <= padded(ranges.highs, width, 0xFF)[owners]
    if ranges.is_open is not None:
        are_before_highs = keys < padded(ranges.highs, width)[owners]
        are_below = np.where(ranges.is_open[owners], are_before_highs, are_below)
    return are_below


def find_keys(pages: Pages, keys: Bytes) -> tuple[Positions, Block]:
    """Return (indices, entries): the entries of those of some keys that are there, in their order.

    No key may be a proper prefix of another, or of a key in the file. Ascending keys are found
    fastest. ValueError or IndexError if a page is damaged.
    """
    if not len(pages.first_keys) or not len(keys):
        nothing = np.empty(0, np.int64)
        return nothing, pages.entries(nothing)
    texts = _PaddedPrefixes.of(keys)
    starts, counts = pages.leaves(_leaves_before(pages, padded(keys, _width_of(pages, keys))))
    slots = _binary_search(pages, starts, (np.zeros_like(counts), counts), texts, np.less)
    indices = np.flatnonzero(slots < counts)
    nodes = pages.nodes(starts[indices], slots[indices])
    key_texts = texts.take(indices)
    is_found = key_texts.key_starts_of(pages, nodes) == key_texts.texts
    is_found &= pages.key_lengths(nodes) == lengths_of(keys)[indices]
    return indices[is_found], pages.entries(nodes[is_found])


def blocks_in_ranges(pages: Pages, ranges: KeyRanges, leaves: int) -> Iterator[Block]:
    """Yield the entries in some ranges of keys, in key order, of ``leaves`` leaf pages at most.

    ValueError or IndexError if a page is damaged.
    """
    if not len(pages.first_keys) or not len(ranges):
        return
    owners, numbers, bounds = _leaves_in(pages, ranges)
    for start in range(0, len(numbers), leaves):
        stop = start + leaves
        starts, slots, sizes = _slots(pages, owners[start:stop], numbers[start:stop], bounds)
        nodes = pages.nodes(np.repeat(starts, sizes), expand(slots, sizes))
        if len(nodes):
            yield pages.entries(nodes)


def share_in_ranges(pages: Pages, ranges: KeyRanges) -> float:
    """Return which part of the leaf pages has entries in some ranges of keys, 0 to 1, about.

    ValueError or IndexError if a page is damaged.
    """
    count = len(pages.first_keys)
    if not count or not len(ranges):
        return 0.0
    return min(len(_leaves_in(pages, ranges)[1]) / count, 1.0)


_Bounds: TypeAlias = tuple[Positions, Positions, Positions, Positions]
"""Of each range (first leaf, last leaf, slot of its first key, slot after its last)."""


def _leaves_in(pages: Pages, ranges: KeyRanges) -> tuple[Positions, Positions, _Bounds]:
    """Return (the range of each leaf with entries in one, the number of the leaf, bounds)."""
    bounds = _find_ends(pages, ranges)
    first, last, begins, ends = bounds
    filled = np.flatnonzero((first < last) | (begins < ends))
    counts = (last - first + 1)[filled]
    return np.repeat(filled, counts), expand(first[filled], counts), bounds


def _slots(
    pages: Pages, owners: Positions, leaves: Positions, bounds: _Bounds
) -> tuple[Positions, Positions, Positions]:
    """Return of each leaf (where it begins, the first slot in its range, how many are in it)."""
    first, last, begins, ends = bounds
    starts, sizes = pages.leaves(leaves)
    slots = np.where(leaves == first[owners], begins[owners], 0)
    sizes = np.where(leaves == last[owners], ends[owners], sizes) - slots
    return starts, slots, np.maximum(sizes, 0)


def _find_ends(pages: Pages, ranges: KeyRanges) -> _Bounds:
    """Return where each range begins and ends."""
    if ranges.are_all_open:
        # A search for the ends of the keys that begin with the highs takes as long as all others.
        first, last = (_first_leaves_of(pages, ends) for ends in (ranges.lows, ranges.highs))
    else:
        first, last = _leaves_of(pages, ranges.lows)
        before = first
        if ranges.highs is not ranges.lows:
            before, last = _leaves_of(pages, ranges.highs)
        if ranges.is_open is not None:
            last = np.where(ranges.is_open, before, last)
    keys = _LeafKeys.of(pages, ranges, first, last)
    if keys is None:
        return first, last, *_search_pages(pages, ranges, first, last)
    begins = keys.slots(first, padded(ranges.lows, keys.width), "left")
    if ranges.are_all_open:
        return first, last, begins, keys.slots(last, padded(ranges.highs, keys.width), "left")
    ends = keys.slots(last, padded(ranges.highs, keys.width, 0xFF), "right")
    if ranges.is_open is not None:
        at_highs = keys.slots(last, padded(ranges.highs, keys.width), "left")
        ends = np.where(ranges.is_open, at_highs, ends)
    return first, last, begins, ends


def _search_pages(
    pages: Pages, ranges: KeyRanges, first: Positions, last: Positions
) -> tuple[Positions, Positions]:
    """Return of each range (slot of its first key, slot after its last) by a search in its pages.

    ``first`` and ``last``: its leaves.
    """
    lows = _PaddedPrefixes.of(ranges.lows)
    highs = lows if ranges.highs is ranges.lows else _PaddedPrefixes.of(ranges.highs)
    begins = _begins(pages, first, lows)
    ends = _ends(pages, (first, begins), last, highs)
    if ranges.is_open is not None and ranges.is_open.any():
        is_open = np.flatnonzero(ranges.is_open)
        ends[is_open] = _begins(pages, last[is_open], highs.take(is_open))
    return begins, ends


def has_entries_between(pages: Pages, lows: Bytes, highs: Bytes) -> NDArray[np.bool_]:
    """Return for each pair, low <= high, whether there is an entry from low to high.

    Entries whose keys begin with ``highs[i]`` count. ValueError or IndexError if a page is damaged.
    """
    if not len(pages.first_keys) or not len(lows):
        return np.zeros(len(lows), np.bool_)
    first, last, begins, ends = _find_ends(pages, KeyRanges(lows, highs))
    # A later leaf is reached only if its first key is not above the high end.
    reached: NDArray[np.bool_] = (first < last) | (begins < ends)
    return reached


def _read(
    pages: Pages,
    begin: tuple[Positions, Positions],
    end: tuple[Positions, Positions],
    counts: Positions,
    most: Positions | None,
    *,
    from_end: bool,
) -> RangeMatches:
    """Return the entries from ``begin`` to ``end``, each (leaves, slots), in ``counts`` leaves.

    These are the first leaves of a range; with ``from_end`` the last ones.
    """
    (first, begins), (last, ends) = begin, end
    owners = np.repeat(np.arange(len(first)), counts)
    leaves = expand(last - counts + 1 if from_end else first, counts)
    starts, slots, sizes = _slots(pages, owners, leaves, (first, last, begins, ends))
    is_cut = first + counts <= last
    if most is not None:
        totals = np.cumsum(sizes)
        before = totals - sizes
        before -= before[np.cumsum(counts) - counts][owners]
        if from_end:
            before = (before + sizes)[np.cumsum(counts) - 1][owners] - before - sizes
        limited = np.clip(most[owners] - before, 0, sizes)
        is_cut |= np.bincount(owners[limited < sizes], minlength=len(first)) > 0
        if from_end:
            slots = slots + sizes - limited
        sizes = limited
    nodes = pages.nodes(np.repeat(starts, sizes), expand(slots, sizes))
    return RangeMatches(np.repeat(owners, sizes), pages.entries(nodes), is_cut)


def _leaves_of(pages: Pages, prefixes: Bytes) -> tuple[Positions, Positions]:
    """Return the first and the last leaf that can hold keys that begin with each prefix."""
    width = _width_of(pages, prefixes)
    return _first_leaves_of(pages, prefixes), _leaves_before(pages, padded(prefixes, width, 0xFF))


def _first_leaves_of(pages: Pages, prefixes: Bytes) -> Positions:
    """Return the first leaf that can hold keys that begin with each prefix."""
    texts = padded(prefixes, _width_of(pages, prefixes))
    return np.maximum(np.searchsorted(pages.first_keys, texts, side="left") - 1, 0)


def _leaves_before(pages: Pages, texts: NDArray[np.bytes_]) -> Positions:
    """Return the last leaf whose first key is not above each text; the first leaf if none is."""
    return np.maximum(np.searchsorted(pages.first_keys, texts, side="right") - 1, 0)


def _width_of(pages: Pages, keys: Bytes) -> int:
    """Return the length of the longest of some keys and of the first keys of leaves."""
    return max(int(lengths_of(keys).max()), pages.first_keys.dtype.itemsize)


@dataclass(frozen=True, slots=True)
class _LeafKeys:
    """The first ``width`` bytes of all keys of some leaves, in order.

    ``leaves``: distinct, ascending; ``offsets``: the index of the first key of each, and the end.
    """

    keys: NDArray[np.bytes_]
    leaves: Positions
    offsets: Positions
    width: int

    @classmethod
    def of(
        cls, pages: Pages, ranges: KeyRanges, first: Positions, last: Positions
    ) -> _LeafKeys | None:
        """Return the keys of the first and last leaves of some ranges.

        None if they are so many that a search in each page takes less time than to read them.
        """
        leaves = np.unique(np.concatenate([first, last]))
        starts, counts = pages.leaves(leaves)
        offsets = np.append(0, np.cumsum(counts))
        if offsets[-1] > MOST_KEYS + _MOST_KEYS_PER_RANGE * len(ranges):
            return None
        width = max(int(lengths_of(ends).max()) for ends in (ranges.lows, ranges.highs))
        nodes = pages.nodes(np.repeat(starts, counts), expand(np.zeros_like(starts), counts))
        return cls(texts_of(_first_bytes(pages, nodes, width)), leaves, offsets, width)

    def slots(
        self, leaves: Positions, texts: NDArray[np.bytes_], side: Literal["left", "right"]
    ) -> Positions:
        """Return the slot of each text in its leaf: the first after all lesser keys.

        ``side`` "right": the first after all keys that are not greater.
        """
        numbers = np.searchsorted(self.leaves, leaves)
        begins, ends = self.offsets[numbers], self.offsets[numbers + 1]
        indices = np.searchsorted(self.keys, texts, side)
        # In a damaged file keys may be in no order.
        slots: Positions = np.clip(indices, begins, ends) - begins
        return slots


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
        first_bytes = _first_bytes(pages, nodes, self.texts.dtype.itemsize)
        if self.inside is not None:
            first_bytes = first_bytes * self.inside
        return texts_of(first_bytes)


def _first_bytes(pages: Pages, nodes: Positions, width: int) -> NDArray[np.uint8]:
    """Return the first ``width`` bytes of the keys of some nodes; what follows a shorter key too.

    Keys being no prefixes of each other, what follows one does not change their order.
    """
    starts, buffer = pages.key_starts(nodes), pages.buffer
    if len(starts) and int(starts.max()) + width > len(buffer):
        positions = np.minimum(starts[:, None] + np.arange(width), len(buffer) - 1)
        first_bytes: NDArray[np.uint8] = buffer[positions]
        return first_bytes
    return load_matrix(buffer, starts, width)


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
    """Return the first slot between two in each page whose key is not before the prefix.

    A slot advances by steps that halve, where the key before the one that it would reach is before
    the prefix: fewer operations than to move two ends.
    """
    low, high = between
    if not len(low):
        return low
    slots = low.copy()
    for power in reversed(range(int((high - low).max()).bit_length())):
        reached = slots + (1 << power)
        is_inside = reached <= high
        nodes = pages.nodes(starts, np.where(is_inside, reached - 1, 0))
        is_key_before = is_before(prefixes.key_starts_of(pages, nodes), prefixes.texts)
        is_key_before &= is_inside
        slots += is_key_before.astype(np.int64) << power
    return slots
