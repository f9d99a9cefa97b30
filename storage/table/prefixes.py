"""The visible rows with many key prefixes at once: all of them, or the first few per prefix.

1. Every file is searched for the prefixes that its span can hold (segment/search.py).
2. The entries are put in key order, and the resolver makes one version of each key.
3. For the first few rows, a file returns a bounded number of entries per prefix. Rows after the
   last entry of a file that holds more are not known yet: their prefixes are read again, with
   twice the bound.

Promises: no Python loop over rows or prefixes.
Does not know: columns, vnodes, or what a prefix means.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..codec.ragged import (
    Bytes,
    Positions,
    equal_neighbours,
    gather,
    lengths_of,
    sort_order,
)
from ..errors import CorruptionError
from ..segment import longkey
from ..segment.block import Block
from ..segment.key import PREFIX_BYTES
from ..segment.search import PrefixMatches
from ..segment.segment import SegmentFile
from .resolve import Resolver, row_keys
from .tablefiles import Span

Flags = NDArray[np.bool_]

# More than any file holds; its double does not overflow.
_EVERYTHING = 1 << 40


@dataclass(frozen=True, slots=True)
class _Read:
    """Visible rows in key order, the prefix of each row, and which prefixes are complete."""

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
        read = self._read(prefixes.take(pa.array(order)), None)
        return _sort_by_prefix(order[read.owners], read.rows)

    def first_per_prefix(self, prefixes: Bytes, counts: Positions) -> tuple[Positions, Block]:
        """Return what `prefix_scan` does, but at most the first ``counts[i]`` rows of prefix i."""
        order = sort_order(prefixes)
        unsettled = order[counts[order] > 0]
        limits = np.minimum(counts, _EVERYTHING)
        depths = limits.copy()
        owners: list[Positions] = []
        blocks: list[Block] = []
        while len(unsettled):
            read = self._read(prefixes.take(pa.array(unsettled)), depths[unsettled])
            read = _first_per_prefix(read, limits[unsettled])
            owners.append(unsettled[read.owners])
            blocks.append(read.rows)
            unsettled = unsettled[~read.is_settled]
            depths[unsettled] = np.minimum(2 * depths[unsettled], _EVERYTHING)
        if not owners:
            return np.empty(0, np.int64), Block.of_pairs([])
        return _sort_by_prefix(np.concatenate(owners), Block.joined(blocks))

    def _read(self, prefixes: Bytes, most: Positions | None) -> _Read:
        """Return the visible rows with ascending prefixes; ``most``: entries per prefix and file.

        Rows that may be hidden by an entry that was not read are omitted.
        """
        parts = list(self._parts(prefixes, most))
        if not parts:
            return _Read(
                np.empty(0, np.int64), Block.of_pairs([]), np.ones(len(prefixes), np.bool_)
            )
        entries = Block.joined([part.entries for part in parts])
        owners = np.concatenate([part.owners for part in parts])
        order, firsts = _versions(parts, entries)
        rows, fold = entries, self.resolver.fold
        if order is not None:
            winners = order[firsts]
            owners = owners[winners]
            rows = entries.take(winners) if fold is None else fold(entries.take(order), firsts)
        is_visible = self.resolver.keep(rows)
        is_settled = np.ones(len(prefixes), np.bool_)
        if most is not None:
            limits = _limits(parts, order, firsts, len(prefixes))
            is_settled = ~np.logical_or.reduce([part.is_cut for part in parts])
            is_visible = is_visible & (np.arange(len(rows)) < limits[owners])
        visible = np.flatnonzero(is_visible)
        return _Read(owners[visible], rows.take(visible), is_settled)

    def _parts(self, prefixes: Bytes, most: Positions | None) -> Iterator[PrefixMatches]:
        """Yield the rows with the prefixes in each file that has any."""
        entry_prefixes, is_long = longkey.entry_prefixes(prefixes)
        for file, span in self.files:
            start, stop = _prefixes_within(prefixes, span)
            if start == stop:
                continue
            depth = None if most is None else most[start:stop]
            matches = file.find_prefixes(entry_prefixes.slice(start, stop - start), depth)
            matches = _rows_of(file.path, matches)
            if is_long[start:stop].any():
                matches = _with_whole_prefixes(matches, prefixes.slice(start, stop - start))
            is_cut = np.zeros(len(prefixes), np.bool_)
            is_cut[start:stop] = matches.is_cut
            if len(matches.owners) or is_cut.any():
                yield PrefixMatches(matches.owners + start, matches.entries, is_cut)


def _prefixes_within(prefixes: Bytes, span: Span) -> tuple[int, int]:
    """Return (start, stop): the ascending prefixes that keys of a span can have."""
    first, last = span
    indices = range(len(prefixes))

    def is_not_below(index: int) -> bool:
        prefix: bytes = prefixes[index].as_py()
        return prefix >= first[: len(prefix)]

    def is_above(index: int) -> bool:
        return bool(prefixes[index].as_py() > last)

    start = bisect_left(indices, True, key=is_not_below)
    return start, bisect_left(indices, True, start, key=is_above)


def _rows_of(path: str, matches: PrefixMatches) -> PrefixMatches:
    """Return the rows of entries: a group of long keys is replaced by its rows."""
    try:
        sizes = longkey.row_counts(matches.entries)
        rows = matches.entries if sizes is None else longkey.unpack(matches.entries)
        if (rows.key_lengths < PREFIX_BYTES).any():
            raise ValueError("a key is too short to be a row's")
    except (ValueError, IndexError) as error:
        raise CorruptionError(f"{path}: {error}") from error
    owners = matches.owners if sizes is None else np.repeat(matches.owners, sizes)
    return PrefixMatches(owners, rows, matches.is_cut)


def _with_whole_prefixes(matches: PrefixMatches, prefixes: Bytes) -> PrefixMatches:
    """Return the rows whose keys begin with the whole of their prefix."""
    rows = matches.entries
    lengths = lengths_of(prefixes)[matches.owners]
    indices = np.flatnonzero(rows.key_lengths >= lengths)
    first_bytes = gather(rows.keys, rows.key_starts[indices], lengths[indices])
    expected = prefixes.take(pa.array(matches.owners[indices]))
    # The two arrays are interleaved, so that each row is compared with its neighbour.
    pairs = np.arange(2 * len(indices)).reshape(2, -1).T.reshape(-1)
    is_equal = equal_neighbours(pa.concat_arrays([first_bytes, expected]).take(pa.array(pairs)))[
        ::2
    ]
    indices = indices[is_equal]
    return PrefixMatches(matches.owners[indices], rows.take(indices), matches.is_cut)


def _versions(parts: Sequence[PrefixMatches], entries: Block) -> tuple[Positions | None, Positions]:
    """Return (order, firsts): the key order of entries, and the first entry of each key in it.

    The newest version of a key comes first. An order of None: they are in order, each key once.
    """
    filled = [part.owners for part in parts if len(part.owners)]
    if all(left[-1] < right[0] for left, right in pairwise(filled)):
        return None, np.arange(len(entries))
    keys = row_keys(entries)
    order = sort_order(keys)
    repeats = np.append(False, equal_neighbours(keys.take(pa.array(order))))
    return order, np.flatnonzero(~repeats)


def _limits(
    parts: Sequence[PrefixMatches], order: Positions | None, firsts: Positions, count: int
) -> Positions:
    """Return for each prefix how many keys, in key order, are known; the number of keys if all are.

    A file whose entries were cut is known up to its last entry.
    """
    size = sum(len(part.owners) for part in parts)
    key_indices = np.arange(size)
    if order is not None:
        starts = np.zeros(size, np.int64)
        starts[firsts] = 1
        key_indices = np.empty(size, np.int64)
        key_indices[order] = np.cumsum(starts) - 1
    limits = np.full(count, len(firsts))
    start = 0
    for part in parts:
        known = np.zeros(count, np.int64)
        # Of several entries of a prefix the last assignment, which is the greatest, remains.
        known[part.owners] = key_indices[start : start + len(part.owners)] + 1
        limits = np.where(part.is_cut, np.minimum(limits, known), limits)
        start += len(part.owners)
    return limits


def _first_per_prefix(read: _Read, counts: Positions) -> _Read:
    """Return the first rows of each settled prefix; one with enough rows is settled too."""
    totals = np.bincount(read.owners, minlength=len(counts))
    is_settled = read.is_settled | (totals >= counts)
    ranks = np.arange(len(read.owners)) - (np.cumsum(totals) - totals)[read.owners]
    indices = np.flatnonzero(is_settled[read.owners] & (ranks < counts[read.owners]))
    return _Read(read.owners[indices], read.rows.take(indices), is_settled)


def _sort_by_prefix(owners: Positions, rows: Block) -> tuple[Positions, Block]:
    """Return rows and their prefixes in the order of the prefixes."""
    if (owners[1:] >= owners[:-1]).all():
        return owners, rows
    order = np.argsort(owners, kind="stable")
    return owners[order], rows.take(order)
