"""The files of a table at one epoch: opened at their first use, as sorted runs, and by key.

Promises: what is asked of files comes from the newest first; a lookup reads no file without rows in
the key's shard, a read of some vnodes none without rows in their shards; the first gets open only
the files that may have their keys.
Does not know: which version of a key is visible; files whose names are read when needed
(dividedfiles.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import compress
from typing import TypeAlias, TypeVar
from weakref import WeakMethod

import numpy as np

from relstate.vnode import cached_property, shards_of

from ..codec.ragged import Bytes
from ..environment import Environment
from ..errors import SegmentMissingError
from ..log.expired_read import missing_segment_error
from ..log.sequenced_segment import SequencedSegment
from ..segment import longkey
from ..segment.registry import registry
from ..segment.search import KeyRanges
from ..segment.segment import SegmentFile
from .coldfiles import ColdFile, cold_files
from .encoding import Encoding
from .filteredgets import FilteredGet, FilteredGets, Getter, possible_getters
from .keylookups import (
    FilesOfVnodes,
    KeyFile,
    KeyFiles,
    KeyLookups,
    lookups_by_slots,
    lookups_until_slots,
)
from .keysearch import SearchedFile
from .keyspan import KeySpan
from .rangetest import RangeTest
from .run import Run, Span, reading_order, sorted_runs, span_of
from .scan import Bounds

PrefixGetter: TypeAlias = Callable[[bytes], list[tuple[bytes, bytes]]]
_Lookup = TypeVar("_Lookup", Getter, PrefixGetter, int)


class TableFiles:
    """The files of a table. Safe between threads; it holds them open while it lives.

    ``key_lookups``: those of keys that are not long; None until `getters` is called, and after
    `close`. ``newest_below_by_vnode``: what finds the newest entry of each key below a prefix of
    each vnode; None until `prefix_getters` is called.
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
        self._table_id = encoding.table_id
        self._verify = verify
        self._epoch = epoch
        self._open_files: tuple[SegmentFile, ...] | None = None
        # Of every segment that was opened, by its name: vacuum may remove what is not open.
        self._held: dict[str, SegmentFile] = {}
        self.key_lookups: KeyLookups | None = None
        self._key_files: KeyFiles | None = None
        self._prefix_getters: Sequence[tuple[PrefixGetter, ...]] | None = None
        self.newest_below_by_vnode: Sequence[PrefixGetter] | None = None
        self._cold: _ColdLookups | None = None
        # Of the files that single gets have opened.
        self._bytes_of_gets = 0

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
            self._forget_lookups()
            files = self._open_files = self._open(self.segments)
        return files

    @property
    def _undamaged(self) -> tuple[SegmentFile, ...] | None:
        """The open files; None if there are none, or a read has met damage in one."""
        # Another thread that has met damage may reset the attribute at any time.
        files = self._open_files
        return None if files is None or any(file.is_damaged for file in files) else files

    def _open(self, segments: Sequence[SequencedSegment]) -> tuple[SegmentFile, ...]:
        # Files that are not here are fetched in the order in which they are opened.
        order: Sequence[int] = range(len(segments))
        if self._environment.is_remote:
            order = reading_order(segments, self._table_id)
        opened: dict[int, SegmentFile] = {}
        try:
            for number in order:
                record = segments[number].record
                opened[number] = registry.open(self._environment, record, self._verify)
        except SegmentMissingError as error:
            raise self._explain(error) from None
        files = tuple(opened[number] for number in range(len(segments)))
        self._held.update(zip((segment.name for segment in segments), files, strict=True))
        return files

    def close(self) -> None:
        """Release the files; the next use opens them again. For a read that has met damage."""
        self._open_files = self._cold = None
        self._forget_lookups()
        self._held = {}
        self._bytes_of_gets = 0

    def _forget_lookups(self) -> None:
        self.key_lookups = self._key_files = None
        self._prefix_getters = self.newest_below_by_vnode = None

    def _sorted_runs(
        self, segments: Sequence[SequencedSegment], files: Sequence[SegmentFile]
    ) -> tuple[Run, ...]:
        runs = sorted_runs(segments, files, self._table_id)
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
        if not ranges or not self.segments:
            return ()
        statistics = [segment.statistics_of(self._table_id) for segment in self.segments]
        test = RangeTest.of(ranges, self._encoding.prefix, len(statistics[0].shard_bytes))
        return self._sorted_runs(*self._opened_if(map(test.passes, statistics)))

    def portions(self, groups: Sequence[range]) -> Iterator[Sequence[range]]:
        """Yield ranges of vnodes as parts, one after another: of each all runs are open at once."""
        yield groups

    def of_keys(self, full_keys: Bytes) -> tuple[SearchedFile, ...]:
        """Return the files that may hold some keys, the newest first; others stay closed.

        None is needed for no keys.
        """
        if not len(full_keys):
            return ()
        span = KeySpan.of_keys(full_keys, self._encoding.prefix.size)
        return self._searched(*self._opened_if(map(span.overlaps, self._key_spans)))

    @cached_property
    def _key_spans(self) -> list[KeySpan]:
        """The span of the primary keys of each segment."""
        return [KeySpan.around([s.statistics_of(self._table_id)]) for s in self.segments]

    def _opened_if(
        self, is_needed: Iterable[bool]
    ) -> tuple[Sequence[SequencedSegment], Sequence[SegmentFile]]:
        """Return those segments, and their open files, of which it is said that they are needed."""
        passes = list(is_needed)
        files = self._undamaged
        if all(passes):
            return self.segments, self.opened if files is None else files
        segments = tuple(compress(self.segments, passes))
        return segments, self._open(segments) if files is None else [*compress(files, passes)]

    def of_ranges(self, ranges: KeyRanges) -> tuple[tuple[SegmentFile, Span], ...]:
        """Return the files that may hold keys in some ranges, and perhaps others, with spans.

        The newest file comes first; the span is that of the table's keys in it.
        """
        return self._with_spans(self.segments, self.opened)

    def _searched(
        self, segments: Sequence[SequencedSegment], files: Sequence[SegmentFile]
    ) -> tuple[SearchedFile, ...]:
        statistics = (segment.statistics_of(self._table_id) for segment in segments)
        return tuple(
            SearchedFile(file, (table.first_key, table.last_key), KeySpan.around([table]))
            for file, table in zip(files, statistics, strict=True)
        )

    def _with_spans(
        self, segments: Sequence[SequencedSegment], files: Sequence[SegmentFile]
    ) -> tuple[tuple[SegmentFile, Span], ...]:
        spans = (span_of(segment, self._table_id) for segment in segments)
        return tuple(zip(files, spans, strict=True))

    def holding(self, full_key: bytes) -> Sequence[SegmentFile]:
        """Return the open files that may hold a key, and perhaps others, the newest first."""
        return self.opened

    def getters(self, full_key: bytes) -> tuple[Getter, ...]:
        """Return the lookup functions of the files that may hold a key, the newest file first."""
        prefix = self._encoding.prefix
        key_files = self._key_files
        if key_files is None:
            cold = self._cold_lookups()
            if cold is not None:
                return cold.by_vnode[prefix.vnode_of(full_key)]
            few = self._getters_of_few(full_key)
            if few is not None:
                return few
            key_files = self._open_key_files()
            self._key_files = key_files
            fill = WeakMethod(self._fill_slots)
            self.key_lookups = lookups_until_slots(key_files, self._table_id, fill)
        numbers = key_files.of_vnodes.holding(prefix.vnode_of(full_key), full_key[prefix.size :])
        return key_files.gets.possible(numbers, longkey.group_key(full_key))

    def _getters_of_few(self, full_key: bytes) -> tuple[Getter, ...] | None:
        """Return the lookup functions of the files that may hold a key, before all are open.

        To open a file is to read it whole once, as its hash is verified. None where all files are
        to be opened: the key may be in most of them, or gets have asked for half of all bytes.
        """
        if self._open_files is not None or self._environment.is_remote:
            return None
        prefix = self._encoding.prefix
        numbers = self._files_of_vnodes.holding(prefix.vnode_of(full_key), full_key[prefix.size :])
        if 2 * len(numbers) > len(self.segments):
            return None
        segments = [self.segments[number] for number in numbers]
        new = (segment for segment in segments if segment.name not in self._held)
        self._bytes_of_gets += sum(segment.record.size for segment in new)
        if 2 * self._bytes_of_gets > sum(segment.record.size for segment in self.segments):
            return None
        lookups = [FilteredGet.of(file, self._table_id) for file in self._open(segments)]
        return possible_getters(lookups, longkey.group_key(full_key))

    @cached_property
    def _files_of_vnodes(self) -> FilesOfVnodes:
        by_shard = lookups_by_shard(self.segments, range(len(self.segments)), self._table_id)
        shard_of = shard_of_each_vnode(self._encoding.vnode_count, len(by_shard))
        return FilesOfVnodes.of(by_shard, shard_of, self._key_spans)

    def _open_key_files(self) -> KeyFiles:
        files = self.opened
        rows = (segment.statistics_of(self._table_id).rows for segment in self.segments)
        gets = FilteredGets([FilteredGet.of(file, self._table_id) for file in files])
        return KeyFiles([*map(KeyFile, files, rows)], gets, self._files_of_vnodes)

    def _fill_slots(self) -> None:
        """Let slots say which files to ask for a key."""
        key_files = self._key_files
        if key_files is not None:
            lookups = lookups_by_slots(key_files, self._encoding)
            if lookups is not None and self._key_files is key_files:
                self.key_lookups = lookups

    def prefix_getters(self, full_prefix: bytes) -> tuple[PrefixGetter, ...]:
        """Return what finds the entries below a prefix in each file that may hold such entries.

        The newest file comes first. The prefix determines the vnode.
        """
        by_vnode = self._prefix_getters
        if by_vnode is None:
            getters = [file.prefix_getter() for file in self.opened]
            by_vnode = lookups_by_vnode(self.segments, getters, self._encoding)
            self.newest_below_by_vnode = [
                lookups[0] if len(lookups) == 1 else partial(newest_pairs, lookups)
                for lookups in by_vnode
            ]
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


def newest_pairs(getters: Sequence[PrefixGetter], prefix: bytes) -> list[tuple[bytes, bytes]]:
    """Return the newest entry of each key below a prefix, in key order.

    ``getters``: of files, the newest first.
    """
    newest: list[tuple[bytes, bytes]] = []
    for pairs_after in getters:
        pairs = pairs_after(prefix)
        if pairs:
            newest = sorted((dict(pairs) | dict(newest)).items()) if newest else pairs
    return newest


def lookups_by_vnode(
    segments: Sequence[SequencedSegment], lookups: Sequence[_Lookup], encoding: Encoding
) -> list[tuple[_Lookup, ...]]:
    """Return for each vnode the lookup functions of the segments with rows of its shard."""
    by_shard = lookups_by_shard(segments, lookups, encoding.table_id)
    shard_of = shard_of_each_vnode(encoding.vnode_count, len(by_shard))
    return [by_shard[shard] for shard in shard_of]


def lookups_by_shard(
    segments: Sequence[SequencedSegment], lookups: Sequence[_Lookup], table_id: int
) -> list[tuple[_Lookup, ...]]:
    """Return for each shard the lookup functions of the segments with rows of it.

    Without segments, for one shard of all vnodes.
    """
    sizes = [segment.statistics_of(table_id).shard_bytes for segment in segments]
    return [
        tuple(compress(lookups, sizes_of_shard)) for sizes_of_shard in zip(*sizes, strict=True)
    ] or [()]


@lru_cache(maxsize=64)
def shard_of_each_vnode(vnode_count: int, shards: int) -> Sequence[int]:
    """Return the number of the shard of each vnode."""
    return tuple(shards_of(np.arange(vnode_count), vnode_count, shards).tolist())


def shards_in(groups: Sequence[range], vnode_count: int, shards: int) -> set[int]:
    """Return the numbers of the shards of some ranges of vnodes."""
    owners = shard_of_each_vnode(vnode_count, shards)
    return {shard for group in groups for shard in owners[group.start : group.stop]}
