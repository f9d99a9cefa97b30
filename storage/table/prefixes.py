"""The visible rows in many ranges of keys at once: all of them, or the first or last few of each.

A key prefix is the range of the keys that begin with it.

1. Every file is searched for the ranges that its span can hold (segment/search.py).
2. The entries are put in key order, and the resolver makes one version of each key.
3. For the first few rows, a file returns a bounded number of entries per range. Rows after the
   last entry of a file that holds more are not known yet: their ranges are read again, with
   twice the bound. The last few rows are read in the same way, from the end.

Promises: no Python loop over rows or ranges.
Does not know: columns, vnodes, or what a range means.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..codec.ragged import (
    Bytes,
    Positions,
    equal_neighbours,
    gather,
    lengths_of,
    sort_order,
    sort_order_in_groups,
)
from ..errors import CorruptionError
from ..segment import longkey
from ..segment.block import Block
from ..segment.key import LEAST_PREFIX_BYTES
from ..segment.search import KeyRanges, RangeMatches
from ..segment.segment import SegmentFile
from .resolve import Resolver
from .run import Span

Flags = NDArray[np.bool_]

# Entries of a range that are read beyond the rows that are asked for, and one more for so many of
# these: newer files often hide some, and to read a range again takes longer.
_SPARE_ENTRIES, _ROWS_PER_SPARE = 2, 4
# So few entries are sorted in less time than it takes to find those that need not be.
_FEW_ENTRIES = 4096
# More than any file holds; its double does not overflow.
_EVERYTHING = 1 << 40


@dataclass(frozen=True, slots=True)
class _Read:
    """Visible rows in key order, the range of each row, and which ranges are complete."""

    owners: Positions
    rows: Block
    is_settled: Flags


@dataclass(frozen=True, slots=True)
class PrefixReader:
    """Reads files, the newest first, each with the span of the table's keys in it."""

    files: Sequence[tuple[SegmentFile, Span]]
    resolver: Resolver

    def prefix_scan(self, prefixes: Bytes) -> tuple[Positions, Block]:
        """Return (indices, rows): the visible rows with distinct prefixes, prefix by prefix.

        All prefixes are the first bytes of full keys, up to the same column.
        """
        order = sort_order(prefixes)
        ranges = KeyRanges.of_prefixes(prefixes.take(pa.array(order)))
        read = self._read(ranges, None, from_end=False)
        return _sort_by_range(order[read.owners], read.rows)

    def entries(self, prefixes: Bytes) -> list[Block]:
        """Return the entries of each file, the newest first, that begin with ascending prefixes."""
        parts = self._parts(KeyRanges.of_prefixes(prefixes), None, from_end=False)
        return [part.entries for part in parts if len(part.entries)]

    def range_scan(self, lows: Bytes, highs: Bytes, most: int | None = None) -> Block:
        """Return the visible rows with keys from ``lows[i]`` to those that begin with ``highs[i]``.

        Ranges ascend and do not overlap; rows come range by range, in key order. ``most``: of each
        range at most that many, the first; what comes after them is not read.
        """
        ranges = KeyRanges(lows, highs)
        if most is None:
            return self._read(ranges, None, from_end=False).rows
        counts = np.full(len(ranges), most, np.int64)
        return self.edges(ranges, counts, from_end=False)[1]

    def first_per_prefix(self, prefixes: Bytes, counts: Positions) -> tuple[Positions, Block]:
        """Return what `prefix_scan` does, but at most the first ``counts[i]`` rows of prefix i."""
        return self._edges_of_prefixes(prefixes, counts, from_end=False)

    def last_per_prefix(self, prefixes: Bytes, counts: Positions) -> tuple[Positions, Block]:
        """Return what `prefix_scan` does, but at most the last ``counts[i]`` rows of prefix i."""
        return self._edges_of_prefixes(prefixes, counts, from_end=True)

    def _edges_of_prefixes(
        self, prefixes: Bytes, counts: Positions, *, from_end: bool
    ) -> tuple[Positions, Block]:
        order = sort_order(prefixes)
        ranges = KeyRanges.of_prefixes(prefixes.take(pa.array(order)))
        return self._first_per_range(ranges, order, counts, from_end=from_end)

    def rows_from(self, starts: Bytes, groups: Bytes, counts: Positions) -> tuple[Positions, Block]:
        """Return (indices, rows): the first ``counts[i]`` visible rows from start i on.

        They are before the next greater start, and begin with ``groups[i]``, with which start i
        begins. Starts are distinct; rows come start by start.
        """
        order = sort_order(starts)
        starts, groups = starts.take(pa.array(order)), groups.take(pa.array(order))
        is_last = np.append(~equal_neighbours(groups), np.ones(min(len(starts), 1), np.bool_))
        nexts = pa.concat_arrays([starts.slice(1), starts.slice(0, min(len(starts), 1))])
        highs = pc.if_else(pa.array(is_last), groups, nexts)
        ranges = KeyRanges(starts, highs, ~is_last)
        return self._first_per_range(ranges, order, counts, from_end=False)

    def rows_before(self, ends: Bytes, groups: Bytes, counts: Positions) -> tuple[Positions, Block]:
        """Return (indices, rows): the last ``counts[i]`` visible rows before end i.

        They are not before the next lesser end, and begin with ``groups[i]``, with which end i
        begins. Ends are distinct; rows come end by end, each in key order.
        """
        order = sort_order(ends)
        ends, groups = ends.take(pa.array(order)), groups.take(pa.array(order))
        is_first = np.append(np.ones(min(len(ends), 1), np.bool_), ~equal_neighbours(groups))
        before = pa.concat_arrays([ends.slice(0, min(len(ends), 1)), ends.slice(0, len(ends) - 1)])
        lows = pc.if_else(pa.array(is_first), groups, before) if len(ends) else ends
        ranges = KeyRanges(lows, ends, np.ones(len(ends), np.bool_))
        return self._first_per_range(ranges, order, counts, from_end=True)

    def edges(
        self, ranges: KeyRanges, counts: Positions, *, from_end: bool
    ) -> tuple[Positions, Block]:
        """Return (indices, rows): the first ``counts[i]`` visible rows of range i, or the last.

        They come range by range, in key order; ``indices`` (int64, ascending) name the ranges.
        """
        return self._first_per_range(ranges, np.arange(len(ranges)), counts, from_end=from_end)

    def _first_per_range(
        self, ranges: KeyRanges, order: Positions, counts: Positions, *, from_end: bool
    ) -> tuple[Positions, Block]:
        """Return the first rows of each range, or the last ones.

        ``order``: the number of each range, by which ``counts`` and the result name it.
        """
        limits = np.minimum(counts[order], _EVERYTHING)
        depths = limits.copy()
        if len(self.files) > 1:
            depths += _SPARE_ENTRIES + limits // _ROWS_PER_SPARE
        unsettled = np.flatnonzero(limits > 0)
        owners: list[Positions] = []
        blocks: list[Block] = []
        while len(unsettled):
            read = self._read(ranges.take(unsettled), depths[unsettled], from_end=from_end)
            read = _first_of_settled(read, limits[unsettled], from_end=from_end)
            owners.append(order[unsettled[read.owners]])
            blocks.append(read.rows)
            unsettled = unsettled[~read.is_settled]
            depths[unsettled] = np.minimum(2 * depths[unsettled], _EVERYTHING)
        if not owners:
            return np.empty(0, np.int64), Block.of_pairs([])
        return _sort_by_range(np.concatenate(owners), Block.joined(blocks))

    def _read(self, ranges: KeyRanges, most: Positions | None, *, from_end: bool) -> _Read:
        """Return the visible rows in ascending ranges; ``most``: entries per range and file.

        Rows that may be hidden by an entry that was not read are omitted.
        """
        parts = list(self._parts(ranges, most, from_end=from_end))
        if not parts:
            return _Read(np.empty(0, np.int64), Block.of_pairs([]), np.ones(len(ranges), np.bool_))
        if most is not None and sum(len(part.owners) for part in parts) > _FEW_ENTRIES:
            parts = _without_unknown(parts, from_end=from_end)
        entries = Block.joined([part.entries for part in parts])
        owners = np.concatenate([part.owners for part in parts])
        order, firsts = _versions(parts, ranges, owners, entries)
        rows, fold = entries, self.resolver.fold
        if order is not None:
            winners = order[firsts]
            owners = owners[winners]
            rows = entries.take(winners) if fold is None else fold(entries.take(order), firsts)
        is_visible = self.resolver.keep(rows)
        is_settled = np.ones(len(ranges), np.bool_)
        if most is not None:
            key_indices = _key_indices(parts, order, firsts)
            indices = np.arange(len(rows))
            if from_end:
                is_visible = is_visible & (
                    indices >= _first_known(parts, key_indices, len(ranges))[owners]
                )
            else:
                is_visible = is_visible & (
                    indices < _limits(parts, key_indices, len(ranges))[owners]
                )
            is_settled = ~np.logical_or.reduce([part.is_cut for part in parts])
        visible = np.flatnonzero(is_visible)
        return _Read(owners[visible], rows.take(visible), is_settled)

    def _parts(
        self, ranges: KeyRanges, most: Positions | None, *, from_end: bool
    ) -> Iterator[RangeMatches]:
        """Yield the rows in the ranges in each file that has any."""
        entry_ranges, is_long = _entry_ranges(ranges)
        for file, span in self.files:
            start, stop = _ranges_within(ranges, span)
            if start == stop:
                continue
            depth = None if most is None else most[start:stop]
            matches = file.find_ranges(entry_ranges.slice(start, stop), depth, from_end=from_end)
            matches = _rows_of(file.path, matches)
            if is_long[start:stop].any():
                matches = _inside(matches, ranges.slice(start, stop))
            is_cut = np.zeros(len(ranges), np.bool_)
            is_cut[start:stop] = matches.is_cut
            if len(matches.owners) or is_cut.any():
                yield RangeMatches(matches.owners + start, matches.entries, is_cut)


def _entry_ranges(ranges: KeyRanges) -> tuple[KeyRanges, Flags]:
    """Return (ranges of entries, flags): the entries that hold all rows of some ranges.

    Where the flag is set an end was cut off: the entries may hold other rows too.
    """
    lows, is_long = longkey.entry_prefixes(ranges.lows)
    if ranges.highs is ranges.lows:
        return KeyRanges.of_prefixes(lows), is_long
    highs, is_cut = longkey.entry_prefixes(ranges.highs)
    is_open = None if ranges.is_open is None else ranges.is_open & ~is_cut
    return KeyRanges(lows, highs, is_open), is_long | is_cut


def _ranges_within(ranges: KeyRanges, span: Span) -> tuple[int, int]:
    """Return (start, stop): the ascending ranges that keys of a span can be in."""
    first, last = span
    indices = range(len(ranges))

    def is_not_below(index: int) -> bool:
        high: bytes = ranges.highs[index].as_py()
        return high >= first[: len(high)]

    def is_above(index: int) -> bool:
        return bool(ranges.lows[index].as_py() > last)

    start = bisect_left(indices, True, key=is_not_below)
    return start, bisect_left(indices, True, start, key=is_above)


def _rows_of(path: str, matches: RangeMatches) -> RangeMatches:
    """Return the rows of entries: a group of long keys is replaced by its rows."""
    try:
        sizes = longkey.row_counts(matches.entries)
        rows = matches.entries if sizes is None else longkey.unpack(matches.entries)
        if (rows.key_lengths < LEAST_PREFIX_BYTES).any():
            raise ValueError("a key is too short to be a row's")
    except (ValueError, IndexError) as error:
        raise CorruptionError(f"{path}: {error}") from error
    owners = matches.owners if sizes is None else np.repeat(matches.owners, sizes)
    return RangeMatches(owners, rows, matches.is_cut)


def _inside(matches: RangeMatches, ranges: KeyRanges) -> RangeMatches:
    """Return the rows whose keys are in their ranges."""
    rows, owners = matches.entries, matches.owners
    keys = rows.key_bytes()
    highs = ranges.highs.take(pa.array(owners))
    first_bytes = gather(
        rows.keys, rows.key_starts, np.minimum(rows.key_lengths, lengths_of(highs))
    )
    is_inside = np.asarray(pc.greater_equal(keys, ranges.lows.take(pa.array(owners))))
    is_inside = is_inside & np.asarray(pc.less_equal(first_bytes, highs))
    if ranges.is_open is not None:
        is_inside &= ~ranges.is_open[owners] | np.asarray(pc.less(keys, highs))
    indices = np.flatnonzero(is_inside)
    return RangeMatches(owners[indices], rows.take(indices), matches.is_cut)


def _without_unknown(parts: Sequence[RangeMatches], *, from_end: bool) -> list[RangeMatches]:
    """Return the parts without entries after the last one that another part knows of its range.

    Where entries of a part were cut nothing is known after its last one (`_limits`), or before its
    first one with ``from_end``. Of several such parts the oldest decides, which is the largest.
    """
    limiters = np.full(len(parts[0].is_cut), -1)
    for number, part in enumerate(parts):
        if part.is_cut.any():
            limiters[part.is_cut & (np.bincount(part.owners, minlength=len(limiters)) > 0)] = number
    limit_rows = np.full(len(limiters), -1)
    limits: list[Bytes] = []
    for number, part in enumerate(parts):
        limited = np.flatnonzero(limiters == number)
        if len(limited):
            limit_rows[limited] = sum(map(len, limits)) + np.arange(len(limited))
            edge = np.searchsorted(part.owners, limited, "left" if from_end else "right")
            limits.append(part.entries.take(edge if from_end else edge - 1).key_bytes())
    if not limits:
        return list(parts)
    limit_keys = pa.concat_arrays(limits)
    return [
        _without_rows_after(part, limiters != number, limit_rows, limit_keys, from_end=from_end)
        for number, part in enumerate(parts)
    ]


def _without_rows_after(
    part: RangeMatches, is_other: Flags, limit_rows: Positions, limit_keys: Bytes, *, from_end: bool
) -> RangeMatches:
    """Return a part without the entries after the limits of ranges, or before with ``from_end``.

    ``limit_rows``: the row of the limit of each range, -1 for none; only those with ``is_other``.
    """
    rows = limit_rows[part.owners]
    compared = np.flatnonzero((rows >= 0) & is_other[part.owners])
    if not len(compared):
        return part
    keys = part.entries.take(compared).key_bytes()
    limits = limit_keys.take(pa.array(rows[compared]))
    is_after = pc.less(keys, limits) if from_end else pc.greater(keys, limits)
    dropped = compared[np.asarray(is_after)]
    remains = np.ones(len(part.owners), np.bool_)
    remains[dropped] = False
    # The part is known beyond the limit.
    is_cut = part.is_cut.copy()
    is_cut[part.owners[dropped]] = False
    indices = np.flatnonzero(remains)
    return RangeMatches(part.owners[indices], part.entries.take(indices), is_cut)


def _versions(
    parts: Sequence[RangeMatches], ranges: KeyRanges, owners: Positions, entries: Block
) -> tuple[Positions | None, Positions]:
    """Return (order, firsts): the key order of entries, and the first entry of each key in it.

    The newest version of a key comes first. An order of None: they are in order, each key once.
    """
    filled = [part.owners for part in parts if len(part.owners)]
    if all(left[-1] < right[0] for left, right in pairwise(filled)):
        return None, np.arange(len(entries))
    # What the keys of a range have in common need not be compared.
    common = lengths_of(ranges.lows)[owners] if ranges.highs is ranges.lows else 0
    rests = gather(entries.keys, entries.key_starts + common, entries.key_lengths - common)
    order = sort_order_in_groups(owners, rests)
    ordered = owners[order]
    repeats = equal_neighbours(rests.take(pa.array(order))) & (ordered[1:] == ordered[:-1])
    return order, np.flatnonzero(np.append(True, ~repeats))


def _key_indices(
    parts: Sequence[RangeMatches], order: Positions | None, firsts: Positions
) -> list[Positions]:
    """Return the number of the key, in key order, of each entry of each part."""
    sizes = [len(part.owners) for part in parts]
    key_indices = np.arange(sum(sizes))
    if order is not None:
        starts = np.zeros(sum(sizes), np.int64)
        starts[firsts] = 1
        key_indices[order] = np.cumsum(starts) - 1
    return np.split(key_indices, np.cumsum(sizes)[:-1])


def _limits(
    parts: Sequence[RangeMatches], key_indices: Sequence[Positions], count: int
) -> Positions:
    """Return for each range how many keys, in key order, are known; more than all if all are.

    A file whose entries were cut is known up to its last entry.
    """
    limits = np.full(count, _EVERYTHING)
    for part, indices in zip(parts, key_indices, strict=True):
        part_limits = np.zeros(count, np.int64)
        # Of several entries of a range the last assignment, which is the greatest, remains.
        part_limits[part.owners] = indices + 1
        limits = np.where(part.is_cut, np.minimum(limits, part_limits), limits)
    return limits


def _first_known(
    parts: Sequence[RangeMatches], key_indices: Sequence[Positions], count: int
) -> Positions:
    """Return for each range from which key on, in key order, its keys are known; 0 if all are.

    A file whose entries were cut is known from its first entry on.
    """
    firsts = np.zeros(count, np.int64)
    for part, indices in zip(parts, key_indices, strict=True):
        part_firsts = np.full(count, _EVERYTHING)
        part_firsts[part.owners[::-1]] = indices[::-1]
        firsts = np.where(part.is_cut, np.maximum(firsts, part_firsts), firsts)
    return firsts


def _first_of_settled(read: _Read, counts: Positions, *, from_end: bool) -> _Read:
    """Return the first rows of each settled range, or the last ones.

    One with enough rows is settled too.
    """
    totals = np.bincount(read.owners, minlength=len(counts))
    is_settled = read.is_settled | (totals >= counts)
    ends = np.cumsum(totals)
    indices = np.arange(len(read.owners))
    starts = ends - totals
    ranks = ends[read.owners] - indices - 1 if from_end else indices - starts[read.owners]
    chosen = np.flatnonzero(is_settled[read.owners] & (ranks < counts[read.owners]))
    return _Read(read.owners[chosen], read.rows.take(chosen), is_settled)


def _sort_by_range(owners: Positions, rows: Block) -> tuple[Positions, Block]:
    """Return rows and the numbers of their ranges in the order of these numbers."""
    if (owners[1:] >= owners[:-1]).all():
        return owners, rows
    order = np.argsort(owners, kind="stable")
    return owners[order], rows.take(order)
