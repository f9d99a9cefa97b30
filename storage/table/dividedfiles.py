"""The files of a table with many segments, whose names are read when they are needed.

Promises: what `TableFiles` promises; a read of some keys, ranges or vnodes reads the manifests that
may name files with them, and opens these files only.
Does not know: where manifests are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeAlias

from ..codec.ragged import Bytes
from ..environment import Environment
from ..log.expired_read import missing_manifest_error
from ..log.manifest import Manifest
from ..log.manifest_files import MissingManifestError
from ..log.segment_record import TableStatistics
from ..log.sequenced_segment import SequencedSegment
from ..log.table_segments import DividedSegments
from ..segment import longkey
from ..segment.key import successor
from ..segment.search import KeyRanges
from ..segment.segment import SegmentFile
from .coldfiles import ColdFile
from .encoding import Encoding
from .filteredgets import FilteredGet, Getter, possible_getters
from .keysearch import SearchedFile
from .rangetest import RangeTest
from .run import Run, Span
from .scan import Bounds
from .tablefiles import PrefixGetter, TableFiles, shard_of_each_vnode, shards_in

# Segments whose spans are kept for the next lookup.
_MOST_KEPT = 16_384
# So many bytes of a key are compared, and what is more than these.
_KEY_BYTES = 48
_END = b"\xff" * (_KEY_BYTES + 1)
_Spans: TypeAlias = tuple[bytes, bytes, bytes, bytes]
"""The first full key, an upper bound of them, the least primary key, and an upper bound of them."""


class DividedFiles(TableFiles):
    """The files of a table with many segments. Safe between threads."""

    segments: DividedSegments

    def __init__(
        self,
        environment: Environment,
        segments: DividedSegments,
        encoding: Encoding,
        verify: str,
        epoch: int | None,
    ) -> None:
        """See `TableFiles`."""
        super().__init__(environment, segments, encoding, verify, epoch)
        self._shard_of = shard_of_each_vnode(encoding.vnode_count, segments.shards)
        # The manifests of each shard, of which one or more lookups have asked.
        self._lines: dict[int, list[tuple[_Spans, Manifest]]] = {}
        self._portions: OrderedDict[tuple[int, ...], _Portion] = OrderedDict()
        self._cold_files: dict[str, ColdFile] = {}

    @property
    def is_cold(self) -> bool:
        """Whether few keys are found sooner by `getters` than by opening the files."""
        return self._environment.is_remote

    def close(self) -> None:
        """Release the files and what is known of them; see `TableFiles.close`."""
        super().close()
        self._lines, self._cold_files, self._portions = {}, {}, OrderedDict()

    # Many keys, and ranges

    def runs_of(self, ranges: Sequence[Bounds]) -> tuple[Run, ...]:
        """Return as sorted runs the files that may hold rows of some ranges, the newest first."""
        if not ranges:
            return ()
        test = RangeTest.of(ranges, self._encoding.prefix, self.segments.shards)
        return self._sorted_runs(*self._chosen(test))

    def portions(self, groups: Sequence[range]) -> Iterator[Sequence[range]]:
        """Yield the vnodes of each shard: not all files of the table are open at once."""
        shards = sorted(shards_in(groups, self._encoding.vnode_count, self.segments.shards))
        for shard in shards:
            start = self._shard_of.index(shard)
            stop = start + self._shard_of.count(shard)
            within = [
                range(max(group.start, start), min(group.stop, stop))
                for group in groups
                if group.start < stop and group.stop > start
            ]
            yield [group for group in within if len(group)]

    def of_keys(self, full_keys: Bytes) -> tuple[SearchedFile, ...]:
        """Return the files that may hold some keys; see `TableFiles.of_keys`."""
        if not len(full_keys):
            return ()
        test = RangeTest.of_keys(full_keys, self._encoding.prefix, self.segments.shards)
        return self._searched(*self._chosen(test))

    def of_ranges(self, ranges: KeyRanges) -> tuple[tuple[SegmentFile, Span], ...]:
        """Return the files that may hold keys in some ranges; see `TableFiles.of_ranges`."""
        if not len(ranges):
            return ()
        test = RangeTest.of_key_ranges(ranges, self._encoding.prefix, self.segments.shards)
        return self._with_spans(*self._chosen(test))

    def _chosen(self, test: RangeTest) -> tuple[Sequence[SequencedSegment], Sequence[SegmentFile]]:
        """Return the segments that pass a test, and their open files."""
        with self._explaining():
            segments = self.segments.select(test, test.shards)
        return segments, self._open(segments)

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Raise a better error for a manifest that a vacuum has removed."""
        try:
            yield
        except MissingManifestError as error:
            if self._epoch is None:
                raise
            raise missing_manifest_error(self._environment, self._epoch, error) from None

    # One key, or one prefix

    def getters(self, full_key: bytes) -> tuple[Getter, ...]:
        """Return the lookup functions of the files that may hold a key, the newest file first."""
        segments = self._holding(full_key, full_key + b"\0")
        return possible_getters([*map(self._lookup, segments)], longkey.group_key(full_key))

    def prefix_getters(self, full_prefix: bytes) -> tuple[PrefixGetter, ...]:
        """Return what finds entries below a prefix; see `TableFiles.prefix_getters`."""
        segments = self._holding(full_prefix, successor(full_prefix) or _END)
        return tuple(file.prefix_getter() for file in self._open(segments))

    def holding(self, full_key: bytes) -> Sequence[SegmentFile]:
        """Return the open files that may hold a key, the newest first."""
        return self._open(self._holding(full_key, full_key + b"\0"))

    def _lookup(self, segment: SequencedSegment) -> FilteredGet:
        file = self._held.get(segment.name)
        if file is not None and not file.is_damaged:
            return FilteredGet.of(file, self._table_id)
        if self._environment.is_remote:
            cold = self._cold_files.get(segment.name) or ColdFile(
                self._environment, segment.record, self._verify, self._epoch
            )
            if cold.is_cold:
                self._cold_files[segment.name] = cold
                return FilteredGet(cold)
        return FilteredGet.of(self._open([segment])[0], self._table_id)

    def _holding(self, low: bytes, high: bytes) -> list[SequencedSegment]:
        """Return the segments that may have keys of a range in one vnode, the newest first."""
        prefix = self._encoding.prefix
        shard = self._shard_of[prefix.vnode_of(low)]
        # The end of the range may be the beginning of the next vnode.
        end = high[prefix.size :] if high[: prefix.size] == low[: prefix.size] else _END
        key_range = low[:_KEY_BYTES], high, low[prefix.size :][:_KEY_BYTES], end
        lines = self._lines.get(shard)
        if lines is None:
            lines = self._lines[shard] = self._lines_of(shard)
        manifests = [manifest for spans, manifest in lines if _may_meet(spans, key_range)]
        portion = self._portion(shard, manifests)
        return [segment for spans, segment in portion.segments if _may_meet(spans, key_range)]

    def _lines_of(self, shard: int) -> list[tuple[_Spans, Manifest]]:
        """Return the manifests with rows of a shard."""
        manifests = self.segments.manifests_for(lambda _: True, [shard])
        return [(self._spans_of(manifest), manifest) for manifest in manifests]

    def _spans_of(self, manifest: Manifest) -> _Spans:
        if manifest.file is None:
            return b"", _END, b"", _END
        return _spans(manifest.file.summaries[self._table_id].statistics)

    def _portion(self, shard: int, manifests: Sequence[Manifest]) -> _Portion:
        """Return the segments of some manifests of a shard."""
        key = (shard, *map(id, manifests))
        # Another thread may remove it at any time.
        portion = self._portions.pop(key, None)
        if portion is None:
            with self._explaining():
                segments = self.segments.read(manifests, _always, [shard])
            portion = _Portion(
                [(_spans(segment.statistics_of(self._table_id)), segment) for segment in segments]
            )
            self._make_room(len(segments))
        self._portions[key] = portion
        return portion

    def _make_room(self, count: int) -> None:
        """Forget what was used longest ago if with so many segments more they are too many."""
        segment_count = count + sum(
            len(portion.segments) for portion in self._portions.copy().values()
        )
        with suppress(KeyError):  # another thread forgot the last one
            while segment_count > _MOST_KEPT:
                _, oldest = self._portions.popitem(last=False)
                segment_count -= len(oldest.segments)


def files_of(
    environment: Environment,
    segments: Sequence[SequencedSegment],
    encoding: Encoding,
    verify: str,
    epoch: int | None,
) -> TableFiles:
    """Return the files of a table: see `TableFiles`."""
    if isinstance(segments, DividedSegments):
        return DividedFiles(environment, segments, encoding, verify, epoch)
    return TableFiles(environment, segments, encoding, verify, epoch)


@dataclass(frozen=True, slots=True)
class _Portion:
    """The segments of some manifests, the newest first, with their spans."""

    segments: list[tuple[_Spans, SequencedSegment]]


def _always(_: TableStatistics) -> bool:
    return True


def _spans(statistics: TableStatistics) -> _Spans:
    # What follows a last key may have been cut off.
    return (
        statistics.first_key,
        successor(statistics.last_key) or _END,
        statistics.least_key,
        successor(statistics.greatest_key) or _END,
    )


def _may_meet(spans: _Spans, key_range: _Spans) -> bool:
    first, end, least, primary_end = spans
    low, high, primary_low, primary_high = key_range
    return first < high and low < end and least < primary_high and primary_low < primary_end
