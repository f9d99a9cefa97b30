"""The files of a table at one epoch: opened at their first use, as sorted runs, and by key.

Files of one place are the output of one merge: they hold different keys and make one run, which is
read file after file.

Promises: runs come in the order of their files' places; a lookup reads no file without rows in the
key's shard.
Does not know: which version of a key is visible.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress, groupby, pairwise
from operator import itemgetter
from typing import TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from relstate.vnode import shards_of

from ..codec.ragged import Bytes
from ..environment import Environment
from ..errors import CorruptionError, SegmentMissingError
from ..log.log import missing_segment_error
from ..log.segment_record import TableStatistics
from ..log.sequenced_segment import SequencedSegment
from ..segment import longkey
from ..segment.block import Block, join_small
from ..segment.key import LEAST_PREFIX_BYTES, successor
from ..segment.registry import registry
from ..segment.search import KeyRanges
from ..segment.segment import SegmentFile
from .coldfiles import ColdFile, cold_files
from .encoding import Encoding
from .keyspan import KeySpan, PrimaryKeyRanges
from .scan import Bounds, Source, joined_ranges

Getter: TypeAlias = Callable[[bytes], bytes | None]
PrefixGetter: TypeAlias = Callable[[bytes], list[tuple[bytes, bytes]]]
_Lookup = TypeVar("_Lookup", Getter, PrefixGetter, int)
KeyGetters: TypeAlias = tuple[Sequence[bytes], Sequence[tuple[Getter, ...]]]
"""(bounds, lookups): the lookups of the files that may hold a primary key, the newest first.

They are those at the index ``bisect_right(bounds, primary_key)``."""
Span: TypeAlias = tuple[bytes, bytes]
"""The first and the last full key of a table in a file."""

# Of more files than these a lookup asks all, as it would take long to know which have which keys.
_MOST_SPANS = 64


@dataclass(frozen=True, slots=True)
class Run:
    """Files with rows of a table, none of which overlaps another, in the order of their keys.

    ``key_span``: that of the primary keys. ``explain``: returns a better error of a file that turns
    out to be missing while it arrives.
    """

    files: tuple[tuple[SegmentFile, Span], ...]
    key_span: KeySpan
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

        All ranges of a file are searched at once.
        """
        lows, highs = _ends_of(ranges)
        if longkey.has_long(lows) or longkey.has_long(highs):
            return joined_ranges(self.source, ranges)

        def read(_bounds: Bounds, leaves: int, descending: bool) -> Iterator[Block]:
            assert not descending
            blocks = join_small(
                block
                for file, span in self.files
                for block in _rows_of(
                    file, file.blocks_in_ranges(_within(ranges, lows, highs, span), leaves)
                )
            )
            return blocks if self.explain is None else _explained(blocks, self.explain)

        return read

    def bytes_in(self, ranges: Sequence[Bounds]) -> int:
        """Return about how many bytes of the files hold entries in some ascending ranges."""
        lows, highs = _ends_of(ranges)
        return sum(
            file.bytes_in_ranges(_within(ranges, lows, highs, span)) for file, span in self.files
        )


def _explained(
    blocks: Iterable[Block], explain: Callable[[SegmentMissingError], SegmentMissingError]
) -> Iterator[Block]:
    try:
        yield from blocks
    except SegmentMissingError as error:
        raise explain(error) from None


def _ends_of(ranges: Sequence[Bounds]) -> tuple[Bytes, Bytes]:
    """Return the first keys of some ranges, and the first keys after them."""
    lows, highs = zip(*ranges, strict=True)
    return pa.array(lows, pa.large_binary()), pa.array(highs, pa.large_binary())


def _within(ranges: Sequence[Bounds], lows: Bytes, highs: Bytes, span: Span) -> KeyRanges:
    """Return those of some ascending ranges in which keys of a span can be."""
    first, last = span
    start = bisect_right(ranges, first, key=_high)
    stop = bisect_right(ranges, last, start, key=itemgetter(0))
    cut = start, stop - start
    return KeyRanges(lows.slice(*cut), highs.slice(*cut), np.ones(stop - start, np.bool_))


def _high(bounds: Bounds) -> bytes:
    high = bounds[1]
    # A range of a vnode ends where the next vnode begins.
    assert high is not None
    return high


class TableFiles:
    """The files of a table. Safe between threads; it holds them open while it lives.

    ``getters_by_vnode``: where `getters` finds what it returns for the keys of each vnode; None
    until it is called and after `close`.
    """

    def __init__(
        self,
        environment: Environment,
        segments: Sequence[SequencedSegment],
        encoding: Encoding,
        verify: str,
        epoch: int | None,
    ) -> None:
        """``segments``: those that hold rows of the table, the newest first. ``verify``: see
        `SegmentRegistry.open`. ``epoch``: the epoch that is read, for messages.
        """
        self.segments = segments
        self._environment = environment
        self._encoding = encoding
        self._verify = verify
        self._epoch = epoch
        self._open_files: tuple[SegmentFile, ...] | None = None
        # Of every segment that was opened, by its name: vacuum may remove what is not open.
        self._held: dict[str, SegmentFile] = {}
        self.getters_by_vnode: Sequence[KeyGetters] | None = None
        self._prefix_getters: Sequence[tuple[PrefixGetter, ...]] | None = None
        self._cold: _ColdLookups | None = None

    @property
    def is_cold(self) -> bool:
        """Whether few keys are found sooner by `getters` than by opening the files."""
        return self._cold_lookups() is not None

    def _cold_lookups(self) -> _ColdLookups | None:
        """Return the lookups in files that are not all here; None if they are, or were opened."""
        if self._open_files is not None or not self._environment.is_remote:
            return None
        cold = self._cold
        if cold is None or not any(file.is_cold for file in cold.files):
            files = cold_files(self._environment, self.segments, self._verify, self._epoch)
            cold = None if files is None else _ColdLookups.of(files, self.segments, self._encoding)
            self._cold = cold
        return cold

    @property
    def opened(self) -> tuple[SegmentFile, ...]:
        """The open files, the newest first; all threads get the same.

        SegmentMissingError or CorruptionError, naming the file, if one cannot be opened.
        """
        files = self._undamaged
        if files is None:
            self.getters_by_vnode = self._prefix_getters = None
            files = self._open_files = self._open(self.segments)
        return files

    @property
    def _undamaged(self) -> tuple[SegmentFile, ...] | None:
        """The open files; None if there are none, or a read has met damage in one."""
        # Another thread that has met damage may reset the attribute at any time.
        files = self._open_files
        return None if files is None or any(file.is_damaged for file in files) else files

    def _open(self, segments: Sequence[SequencedSegment]) -> tuple[SegmentFile, ...]:
        try:
            files = tuple(
                registry.open(self._environment, segment.record, self._verify)
                for segment in segments
            )
        except SegmentMissingError as error:
            raise self._explain(error) from None
        self._held.update(zip((segment.name for segment in segments), files, strict=True))
        return files

    def close(self) -> None:
        """Release the files; the next use opens them again. For a read that has met damage."""
        self._open_files = self.getters_by_vnode = self._prefix_getters = self._cold = None
        self._held = {}

    @property
    def runs(self) -> tuple[Run, ...]:
        """The files as sorted runs, the newest first."""
        return self._sorted_runs(self.segments, self.opened)

    def _sorted_runs(
        self, segments: Sequence[SequencedSegment], files: Sequence[SegmentFile]
    ) -> tuple[Run, ...]:
        runs = sorted_runs(segments, files, self._encoding.table_id)
        if self._epoch is None or not self._environment.is_remote:
            return runs
        return tuple(replace(run, explain=self._explain) for run in runs)

    def _explain(self, error: SegmentMissingError) -> SegmentMissingError:
        if self._epoch is None:
            return error
        return missing_segment_error(self._environment, self._epoch, error)

    def runs_of(self, ranges: Sequence[Bounds]) -> tuple[Run, ...]:
        """Return as sorted runs the files that may hold rows of some ranges, the newest first.

        Others are not opened. ``ranges``: of full keys.
        """
        keys = PrimaryKeyRanges.of(ranges, self._encoding.prefix.size)
        return self._sorted_runs(*self._opened_if(keys.may_meet))

    def of_keys(self, full_keys: Bytes) -> tuple[tuple[SegmentFile, Span], ...]:
        """Return what `with_spans` does of the files that may hold some keys; others stay closed.

        None is needed for no keys.
        """
        if not len(full_keys):
            return ()
        table_id = self._encoding.table_id
        span = KeySpan.of_keys(full_keys, self._encoding.prefix.size)
        segments, files = self._opened_if(span.overlaps)
        spans = (span_of(segment, table_id) for segment in segments)
        return tuple(zip(files, spans, strict=True))

    @cached_property
    def _key_spans(self) -> list[KeySpan]:
        """The span of the primary keys of each segment."""
        table_id = self._encoding.table_id
        return [KeySpan.around([statistics_of(s, table_id)]) for s in self.segments]

    def _opened_if(
        self, is_needed: Callable[[KeySpan], bool]
    ) -> tuple[Sequence[SequencedSegment], Sequence[SegmentFile]]:
        """Return the segments, and the open files, whose spans of primary keys pass a test."""
        passes = [is_needed(span) for span in self._key_spans]
        files = self._undamaged
        if all(passes):
            return self.segments, self.opened if files is None else files
        segments = tuple(compress(self.segments, passes))
        return segments, self._open(segments) if files is None else [*compress(files, passes)]

    @property
    def with_spans(self) -> tuple[tuple[SegmentFile, Span], ...]:
        """Each open file, the newest first, and the span of the table's keys in it."""
        table_id = self._encoding.table_id
        spans = (span_of(segment, table_id) for segment in self.segments)
        return tuple(zip(self.opened, spans, strict=True))

    def getters(self, full_key: bytes) -> tuple[Getter, ...]:
        """Return the lookup functions of the files that may hold a key, the newest file first."""
        by_vnode = self.getters_by_vnode
        if by_vnode is None:
            cold = self._cold_lookups()
            if cold is not None:
                return cold.by_vnode[self._encoding.prefix.vnode_of(full_key)]
            getters = [file.getter() for file in self.opened]
            numbers = lookups_by_vnode(self.segments, range(len(getters)), self._encoding)
            by_vnode = getters_by_key(numbers, self._key_spans, getters)
            self.getters_by_vnode = by_vnode
        prefix = self._encoding.prefix
        bounds, asked = by_vnode[prefix.vnode_of(full_key)]
        return asked[bisect_right(bounds, full_key[prefix.size :])]

    def prefix_getters(self, full_prefix: bytes) -> tuple[PrefixGetter, ...]:
        """Return what finds the entries below a prefix in each file that may hold such entries.

        The newest file comes first. The prefix determines the vnode.
        """
        by_vnode = self._prefix_getters
        if by_vnode is None:
            getters = [file.pairs_after for file in self.opened]
            by_vnode = lookups_by_vnode(self.segments, getters, self._encoding)
            self._prefix_getters = by_vnode
        return by_vnode[self._encoding.prefix.vnode_of(full_prefix)]


@dataclass(frozen=True, slots=True)
class _ColdLookups:
    """Lookups in the files of a table, and those for the keys of each vnode."""

    files: Sequence[ColdFile]
    by_vnode: Sequence[tuple[Getter, ...]]

    @classmethod
    def of(
        cls, files: Sequence[ColdFile], segments: Sequence[SequencedSegment], encoding: Encoding
    ) -> _ColdLookups:
        getters: list[Getter] = [*files]
        return cls(files, lookups_by_vnode(segments, getters, encoding))


def sorted_runs(
    segments: Sequence[SequencedSegment], files: Sequence[SegmentFile], table_id: int
) -> tuple[Run, ...]:
    """Return the runs of a table's segments, the newest first; ``files`` are theirs."""
    table_runs: list[Run] = []
    pairs = zip(segments, files, strict=True)
    for _, siblings in groupby(pairs, lambda pair: (pair[0].epoch, pair[0].rank)):
        members = [(file, statistics_of(segment, table_id)) for segment, file in siblings]
        members.sort(key=lambda member: member[1].first_key)
        spans = [(table.first_key, table.last_key) for _, table in members]
        if _overlap(spans):
            table_runs += (_run([member]) for member in members)
        else:
            table_runs.append(_run(members))
    return tuple(table_runs)


def _run(members: Sequence[tuple[SegmentFile, TableStatistics]]) -> Run:
    """Return the run of some files, which do not overlap."""
    files = ((file, (table.first_key, table.last_key)) for file, table in members)
    return Run(tuple(files), KeySpan.around(table for _, table in members))


def span_of(segment: SequencedSegment, table_id: int) -> Span:
    """Return the first and the last key of a table in a segment."""
    table = statistics_of(segment, table_id)
    return table.first_key, table.last_key


def statistics_of(segment: SequencedSegment, table_id: int) -> TableStatistics:
    """Return the statistics of a table in a segment that has rows of it."""
    for table in segment.record.tables:
        if table.table_id == table_id:
            return table
    raise AssertionError(f"segment {segment.name} has no rows of table {table_id}")


def _overlap(spans: Sequence[Span]) -> bool:
    return any(last >= first for (_, last), (first, _) in pairwise(spans))


def lookups_by_vnode(
    segments: Sequence[SequencedSegment], lookups: Sequence[_Lookup], encoding: Encoding
) -> list[tuple[_Lookup, ...]]:
    """Return for each vnode the lookup functions of the segments with rows of its shard."""
    if not segments:
        return [()] * encoding.vnode_count
    sizes = [statistics_of(segment, encoding.table_id).shard_bytes for segment in segments]
    shards = len(sizes[0])
    by_shard = [
        tuple(look for look, held in zip(lookups, sizes, strict=True) if held[shard])
        for shard in range(shards)
    ]
    owners = shards_of(np.arange(encoding.vnode_count), encoding.vnode_count, shards)
    return [by_shard[shard] for shard in owners.tolist()]


def getters_by_key(
    files_by_vnode: Sequence[tuple[int, ...]], spans: Sequence[KeySpan], getters: Sequence[Getter]
) -> list[KeyGetters]:
    """Return for each vnode the getters of the files that may hold it, by primary key if it pays.

    ``files_by_vnode``: the numbers of those files; ``spans``, ``getters``: of all files.
    """
    # Vnodes of one shard have the same files.
    by_files = {files: _key_getters(files, spans, getters) for files in set(files_by_vnode)}
    return [by_files[files] for files in files_by_vnode]


def _key_getters(
    numbers: tuple[int, ...], spans: Sequence[KeySpan], getters: Sequence[Getter]
) -> KeyGetters:
    """Return the getters of some files, given by their numbers, the newest file first.

    There are no bounds if a key may be in more than half of the files, or they are many.
    """
    files = [(spans[number].least, successor(spans[number].greatest), number) for number in numbers]
    bounds = sorted({bound for first, end, _ in files for bound in (first, end) if bound})
    asked: list[tuple[Getter, ...]] = [()]
    if len(files) <= _MOST_SPANS and all(end for _, end, _ in files):
        asked += (
            tuple(getters[n] for first, end, n in files if end and first <= bound < end)
            for bound in bounds
        )
        if max(map(len, asked)) * 2 <= len(files):
            return bounds, asked
    return [], [tuple(getters[number] for number in numbers)]


def file_source(
    file: SegmentFile, bounds: Bounds, leaves: int, descending: bool
) -> Iterator[Block]:
    """Yield the rows of a segment within bounds; groups of long keys are unpacked."""
    around = longkey.entry_bounds(*bounds)
    for rows in _rows_of(file, file.blocks(*around, leaves, descending=descending)):
        inside = rows if around == bounds else rows.between(*bounds)
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
