"""The visible rows beneath many prefixes of keys at once: all of them, or the first few of each.

    every file    the entries beneath the prefixes that its span can hold (segment/search.py)
    together      put in key order, of each key one version, as the resolver has it
    heads         what lies behind the last entry that some file gave of a prefix, though it holds
                  more, is not known yet: such prefixes are read again, twice as deep

Promises: nothing here loops over rows or prefixes in Python.
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
from ..segment.search import Found
from ..segment.segment import SegmentFile
from .resolve import Resolver, row_keys
from .run import Span

Flags = NDArray[np.bool_]

# More than any file holds: its double is still a number.
_EVERYTHING = 1 << 40


@dataclass(frozen=True, slots=True)
class _Read:
    """Visible rows in key order, the prefix of each, and which prefixes have all they should."""

    owners: Positions
    rows: Block
    is_settled: Flags


@dataclass(frozen=True, slots=True)
class PrefixReader:
    """Reads some files, the newest first, each with the span of the table's keys in it."""

    files: Sequence[tuple[SegmentFile, Span]]
    resolver: Resolver

    def prefix_scan(self, prefixes: Bytes) -> tuple[Positions, Block]:
        """Return (indices, rows): what is visible beneath distinct prefixes, prefix by prefix.

        Prefixes are full keys without their ends, all of them of as many columns.
        """
        order = sort_order(prefixes)
        found = self._read(prefixes.take(pa.array(order)), None)
        return _arranged(order[found.owners], found.rows)

    def first_per_prefix(self, prefixes: Bytes, counts: Positions) -> tuple[Positions, Block]:
        """Return what `prefix_scan` does, but at most the first ``counts[i]`` rows of prefix i."""
        order = sort_order(prefixes)
        waiting = order[counts[order] > 0]
        wanted = np.minimum(counts, _EVERYTHING)
        depths = wanted.copy()
        owners: list[Positions] = []
        blocks: list[Block] = []
        while len(waiting):
            asked = prefixes.take(pa.array(waiting))
            found = self._read(asked, depths[waiting])
            found = _first_of_each(found, wanted[waiting])
            owners.append(waiting[found.owners])
            blocks.append(found.rows)
            waiting = waiting[~found.is_settled]
            depths[waiting] = np.minimum(2 * depths[waiting], _EVERYTHING)
        if not owners:
            return np.empty(0, np.int64), Block.of_pairs([])
        return _arranged(np.concatenate(owners), Block.joined(blocks))

    def _read(self, prefixes: Bytes, most: Positions | None) -> _Read:
        """Return what is visible beneath ascending prefixes; ``most``: entries a prefix and file.

        What may not be visible after all, for what was not read, is left out.
        """
        parts = list(self._parts(prefixes, most))
        if not parts:
            none = np.empty(0, np.int64)
            return _Read(none, Block.of_pairs([]), np.ones(len(prefixes), np.bool_))
        entries = Block.joined([part.entries for part in parts])
        owners = np.concatenate([part.owners for part in parts])
        order, firsts = _versions(parts, entries)
        rows, fold = entries, self.resolver.fold
        if order is not None:
            winners = order[firsts]
            owners = owners[winners]
            rows = entries.take(winners) if fold is None else fold(entries.take(order), firsts)
        kept = self.resolver.keep(rows)
        is_settled = np.ones(len(prefixes), np.bool_)
        if most is not None:
            limits = _limits(parts, order, firsts, len(prefixes))
            is_settled = ~np.logical_or.reduce([part.is_cut for part in parts])
            kept = kept & (np.arange(len(rows)) < limits[owners])
        places = np.flatnonzero(kept)
        return _Read(owners[places], rows.take(places), is_settled)

    def _parts(self, prefixes: Bytes, most: Positions | None) -> Iterator[Found]:
        """Yield what each file holds beneath some of the prefixes, rows for entries."""
        asked, is_long = longkey.entry_prefixes(prefixes)
        for file, span in self.files:
            start, stop = _within(prefixes, span)
            if start == stop:
                continue
            depth = None if most is None else most[start:stop]
            found = file.find_prefixes(asked.slice(start, stop - start), depth)
            found = _rows_of(file.path, found)
            if is_long[start:stop].any():
                found = _beneath(found, prefixes.slice(start, stop - start))
            is_cut = np.zeros(len(prefixes), np.bool_)
            is_cut[start:stop] = found.is_cut
            if len(found.owners) or is_cut.any():
                yield Found(found.owners + start, found.entries, is_cut)


def _within(prefixes: Bytes, span: Span) -> tuple[int, int]:
    """Return from where to where prefixes, ascending, can begin keys of a span."""
    first, last = span
    places = range(len(prefixes))

    def begins(place: int) -> bool:
        prefix: bytes = prefixes[place].as_py()
        return prefix >= first[: len(prefix)]

    start = bisect_left(places, True, key=begins)
    return start, bisect_left(places, True, start, key=lambda place: prefixes[place].as_py() > last)


def _rows_of(path: str, found: Found) -> Found:
    """Return rows for entries: those of groups of long keys one by one."""
    try:
        sizes = longkey.row_counts(found.entries)
        rows = found.entries if sizes is None else longkey.unpack(found.entries)
        if (rows.key_lengths < PREFIX_BYTES).any():
            raise ValueError("a key is too short to be a row's")
    except (ValueError, IndexError) as error:
        raise CorruptionError(f"{path}: {error}") from error
    owners = found.owners if sizes is None else np.repeat(found.owners, sizes)
    return Found(owners, rows, found.is_cut)


def _beneath(found: Found, prefixes: Bytes) -> Found:
    """Return those of some rows whose keys begin with all of their prefixes."""
    rows = found.entries
    wanted = lengths_of(prefixes)[found.owners]
    places = np.flatnonzero(rows.key_lengths >= wanted)
    heads = gather(rows.keys, rows.key_starts[places], wanted[places])
    asked = prefixes.take(pa.array(found.owners[places]))
    # Each is compared with what it should be: neighbours of two arrays laid side by side.
    pairs = np.arange(2 * len(places)).reshape(2, -1).T.reshape(-1)
    same = equal_neighbours(pa.concat_arrays([heads, asked]).take(pa.array(pairs)))[::2]
    places = places[same]
    return Found(found.owners[places], rows.take(places), found.is_cut)


def _versions(parts: Sequence[Found], entries: Block) -> tuple[Positions | None, Positions]:
    """Return (order, firsts): what brings entries in key order, and the first of each key in it.

    The newest version of a key comes first. None: they are in order, and no key has two.
    """
    filled = [part.owners for part in parts if len(part.owners)]
    if all(one[-1] < other[0] for one, other in pairwise(filled)):
        return None, np.arange(len(entries))
    keys = row_keys(entries)
    order = sort_order(keys)
    repeats = np.append(False, equal_neighbours(keys.take(pa.array(order))))
    return order, np.flatnonzero(~repeats)


def _limits(
    parts: Sequence[Found], order: Positions | None, firsts: Positions, count: int
) -> Positions:
    """Return for each prefix before which key all is known; the number of keys if all is.

    A file that was cut has told all up to its last entry.
    """
    size = sum(len(part.owners) for part in parts)
    places = np.arange(size)
    if order is not None:
        starts = np.zeros(size, np.int64)
        starts[firsts] = 1
        places = np.empty(size, np.int64)
        places[order] = np.cumsum(starts) - 1
    limits = np.full(count, len(firsts))
    start = 0
    for part in parts:
        known = np.zeros(count, np.int64)
        # The last of several entries of a prefix is what stays.
        known[part.owners] = places[start : start + len(part.owners)] + 1
        limits = np.where(part.is_cut, np.minimum(limits, known), limits)
        start += len(part.owners)
    return limits


def _first_of_each(found: _Read, counts: Positions) -> _Read:
    """Return of each settled prefix the first rows, and which are settled by having enough."""
    totals = np.bincount(found.owners, minlength=len(counts))
    is_settled = found.is_settled | (totals >= counts)
    ranks = np.arange(len(found.owners)) - (np.cumsum(totals) - totals)[found.owners]
    places = np.flatnonzero(is_settled[found.owners] & (ranks < counts[found.owners]))
    return _Read(found.owners[places], found.rows.take(places), is_settled)


def _arranged(owners: Positions, rows: Block) -> tuple[Positions, Block]:
    """Return rows and their prefixes in the order of these."""
    if (owners[1:] >= owners[:-1]).all():
        return owners, rows
    order = np.argsort(owners, kind="stable")
    return owners[order], rows.take(order)
