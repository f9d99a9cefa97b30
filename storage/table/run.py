"""Sorted runs: files of a table none of which overlaps another, read file after file.

Files of one place are the output of one merge: they hold different keys and make one run.

Promises: runs come in the order of their files' places; the entries of a run are those of its files
within the bounds that are asked for, in key order.
Does not know: which files a read needs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from ..errors import CorruptionError, SegmentMissingError
from ..log.segment_record import TableStatistics
from ..log.sequenced_segment import SequencedSegment
from ..segment import longkey
from ..segment.block import Block, join_small
from ..segment.key import LEAST_PREFIX_BYTES
from ..segment.search import KeyRanges
from ..segment.segment import SegmentFile
from .keyspan import KeySpan
from .scan import Bounds, Source, joined_ranges
from .vnoderanges import VnodeRanges

# With more ranges per leaf page, comparing all keys of a file with the ranges takes less time than
# searching the ends of each range.
_MOST_RANGES_PER_LEAF = 4

Span: TypeAlias = tuple[bytes, bytes]
"""The first and the last full key of a table in a file."""


@dataclass(frozen=True, slots=True)
class Run:
    """Files with rows of a table, none of which overlaps another, in the order of their keys.

    ``key_span``: that of the primary keys; ``rows``: how many entries there are. ``explain``:
    returns a better error of a file that turns out to be missing while it arrives.
    """

    files: tuple[tuple[SegmentFile, Span], ...]
    key_span: KeySpan
    rows: int
    explain: Callable[[SegmentMissingError], SegmentMissingError] | None = None

    @property
    def span(self) -> Span:
        """The first and the last full key."""
        return self.files[0][1][0], self.files[-1][1][1]

    def source(self, bounds: Bounds, leaves: int, descending: bool) -> Iterator[Block]:
        """Yield the entries within bounds; see `scan.Source`."""
        blocks = self._blocks(bounds, leaves, descending)
        return blocks if self.explain is None else _explained(blocks, self.explain)

    def _blocks(self, bounds: Bounds, leaves: int, descending: bool) -> Iterator[Block]:
        low, high = bounds
        inside = [
            file
            for file, (first, last) in self.files
            if last >= low[: len(last)] and (high is None or first < high)
        ]
        if inside:
            # A merge reads its sources in turn, and would wait for one after the other.
            inside[-1 if descending else 0].announce()
        if len(inside) == 1:
            return file_source(inside[0], bounds, leaves, descending)
        if descending:
            return (
                block
                for file in reversed(inside)
                for block in file_source(file, bounds, leaves, descending)
            )
        return join_small(
            block for file in inside for block in file_source(file, bounds, leaves, descending)
        )

    def source_of(self, ranges: Sequence[Bounds]) -> Source:
        """Return a source of the entries in ascending ranges; it ignores its bounds.

        All ranges of a file are searched at once, or all of its entries are compared with them.
        """
        key_ranges = key_ranges_of(ranges)
        if longkey.has_long(key_ranges.lows) or longkey.has_long(key_ranges.highs):
            return joined_ranges(self.source, ranges)

        def read(_bounds: Bounds, leaves: int, descending: bool) -> Iterator[Block]:
            assert not descending
            blocks = join_small(
                block
                for file, span in self.files
                for block in _blocks_within(file, span, ranges, key_ranges, leaves)
            )
            return blocks if self.explain is None else _explained(blocks, self.explain)

        return read

    def bytes_in(self, ranges: Sequence[Bounds]) -> int:
        """Return about how many bytes of the files hold entries in some ascending ranges."""
        key_ranges = key_ranges_of(ranges)
        return sum(
            file.bytes_in_ranges(key_ranges.slice(*_part_within(ranges, span)))
            for file, span in self.files
        )


def _explained(
    blocks: Iterable[Block], explain: Callable[[SegmentMissingError], SegmentMissingError]
) -> Iterator[Block]:
    try:
        yield from blocks
    except SegmentMissingError as error:
        raise explain(error) from None


def key_ranges_of(ranges: Sequence[Bounds]) -> KeyRanges:
    """Return ascending ranges of full keys, each of which has an end, as a search takes them."""
    if isinstance(ranges, VnodeRanges):
        return ranges.key_ranges
    lows, highs = zip(*ranges, strict=True) if ranges else ((), ())
    is_open = np.ones(len(ranges), np.bool_)
    return KeyRanges(pa.array(lows, pa.large_binary()), pa.array(highs, pa.large_binary()), is_open)


def _blocks_within(
    file: SegmentFile, span: Span, ranges: Sequence[Bounds], key_ranges: KeyRanges, leaves: int
) -> Iterator[Block]:
    """Yield the rows of a file in some ascending ranges, in blocks of ``leaves`` leaf pages.

    ``span``: that of the table in the file; ``key_ranges``: all of the ranges.
    """
    start, stop = _part_within(ranges, span)
    if (
        isinstance(ranges, VnodeRanges)
        and 0 < file.leaf_count * _MOST_RANGES_PER_LEAF < stop - start
    ):
        around = ranges[start][0], ranges[stop - 1][1]
        for block in file_source(file, around, leaves, descending=False):
            inside = ranges.entries_of(block)
            if len(inside):
                yield inside
    else:
        yield from _rows_of(file, file.blocks_in_ranges(key_ranges.slice(start, stop), leaves))


def _part_within(ranges: Sequence[Bounds], span: Span) -> tuple[int, int]:
    """Return the (start, stop) of those of some ascending ranges in which keys of a span can be."""
    first, last = span
    start = bisect_right(ranges, first, key=_high)
    return start, bisect_right(ranges, last, start, key=itemgetter(0))


def _high(bounds: Bounds) -> bytes:
    high = bounds[1]
    # A range of a vnode ends where the next vnode begins.
    assert high is not None
    return high


def sorted_runs(
    segments: Sequence[SequencedSegment], files: Sequence[SegmentFile], table_id: int
) -> tuple[Run, ...]:
    """Return the runs of a table's segments, the newest first; ``files`` are theirs."""
    table_runs: list[Run] = []
    pairs = zip(segments, files, strict=True)
    for _, siblings in groupby(pairs, lambda pair: (pair[0].epoch, pair[0].rank)):
        members = [(file, segment.statistics_of(table_id)) for segment, file in siblings]
        members.sort(key=lambda member: member[1].first_key)
        spans = [(table.first_key, table.last_key) for _, table in members]
        if _overlap(spans):
            table_runs += (_run([member]) for member in members)
        else:
            table_runs.append(_run(members))
    return tuple(table_runs)


def reading_order(segments: Sequence[SequencedSegment], table_id: int) -> Sequence[int]:
    """Return the numbers of a table's segments in the order in which a scan comes to them."""
    from .keydivision import KeyDivision

    tables = [segment.statistics_of(table_id) for segment in segments]
    spans = [(table.first_key, table.last_key) for table in tables]
    division = KeyDivision.of(
        [KeySpan.around([table]) for table in tables], spans, [table.rows for table in tables]
    )
    return [
        number
        for group in (division.shared, *division.groups)
        for number in sorted(group, key=lambda number: tables[number].first_key)
    ]


def _run(members: Sequence[tuple[SegmentFile, TableStatistics]]) -> Run:
    """Return the run of some files, which do not overlap."""
    files = ((file, (table.first_key, table.last_key)) for file, table in members)
    rows = sum(table.rows for _, table in members)
    return Run(tuple(files), KeySpan.around(table for _, table in members), rows)


def span_of(segment: SequencedSegment, table_id: int) -> Span:
    """Return the first and the last key of a table in a segment."""
    table = segment.statistics_of(table_id)
    return table.first_key, table.last_key


def _overlap(spans: Sequence[Span]) -> bool:
    return any(last >= first for (_, last), (first, _) in pairwise(spans))


def file_source(
    file: SegmentFile, bounds: Bounds, leaves: int, descending: bool
) -> Iterator[Block]:
    """Yield the rows of a segment within bounds; groups of long keys are unpacked."""
    around = longkey.entry_bounds(*bounds)
    for rows in _rows_of(file, file.blocks(*around, leaves, descending=descending)):
        inside = rows if around == bounds else rows.between(*bounds)
        if len(inside):
            yield inside


def sampled_rows(file: SegmentFile, bounds: Bounds, step: int) -> Iterator[Block]:
    """Yield the rows of every ``step``-th leaf page of a segment within bounds."""
    low, high = longkey.entry_bounds(*bounds)
    for rows in _rows_of(file, file.sampled_blocks(low, high, step)):
        inside = rows.between(*bounds)
        if len(inside):
            yield inside


def _rows_of(file: SegmentFile, blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the rows of a file's blocks of entries; groups of long keys are unpacked."""
    for block in blocks:
        try:
            rows = longkey.unpack(block)
            if (rows.key_lengths < LEAST_PREFIX_BYTES).any():
                raise ValueError("a key is too short to be a row's")
        except (ValueError, IndexError) as error:
            raise CorruptionError(f"{file.path}: {error}") from error
        yield rows
