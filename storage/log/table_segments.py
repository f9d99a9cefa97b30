"""The segments with visible rows of one table at one epoch, of a store with many: read when needed.

Promises: a value; what is asked of some shards or keys reads only manifests that may name segments
with such rows; the sums of all are in the checkpoint. A pickled one has what the checkpoint says of
the manifests, not what is in them, beside the segments that the checkpoint does not name.
Does not know: files, or which keys a read needs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TypeAlias, overload

from .live_segments import LiveSegments, contents_of
from .manifest import Manifest, ManifestContent, Shard
from .segment_record import TableStatistics
from .sequenced_segment import KEY_OF, SequencedSegment

StatisticsTest: TypeAlias = Callable[[TableStatistics], bool]
"""Returns whether segments with some statistics are needed; their last keys may be cut."""

# Of fewer segments all are read at once: then a read looks for nothing else.
FEW = 64


class DividedSegments(Sequence[SequencedSegment]):
    """Segments of a table, the newest first, most of which are in files until they are read.

    ``table_id``: the table; ``shards``: how many the store has.
    """

    __slots__ = ("_base_epoch", "_by_shard", "_newer", "shards", "table_id")

    def __init__(
        self,
        table_id: int,
        base_epoch: int,
        shards: int,
        by_shard: Mapping[Shard, tuple[Manifest, ...]],
        newer: tuple[SequencedSegment, ...] = (),
    ) -> None:
        """``base_epoch``: older segments are not visible. ``by_shard``: all manifests with rows of
        the table. ``newer``: segments before all of theirs.
        """
        self.table_id = table_id
        self.shards = shards
        self._base_epoch = base_epoch
        self._by_shard = by_shard
        self._newer = newer

    @classmethod
    def of(
        cls, segments: LiveSegments, table_id: int, base_epoch: int, shards: int
    ) -> DividedSegments | None:
        """Return those of a table among all segments; None if they are few, or all in memory."""
        if not segments.has_files or segments.count_of(table_id) <= FEW:
            return None
        by_shard = {}
        for shard, manifests in segments.manifests.items():
            of_table = [
                manifest
                for manifest in manifests
                if manifest.last[0] >= base_epoch and table_id in manifest.tables
            ]
            if of_table:
                by_shard[shard] = tuple(of_table)
        return cls(table_id, base_epoch, shards, by_shard)

    def preceded_by(self, newer: Sequence[SequencedSegment]) -> DividedSegments:
        """Return these segments after newer ones."""
        segments = (*newer, *self._newer)
        return DividedSegments(
            self.table_id, self._base_epoch, self.shards, self._by_shard, segments
        )

    # What is known of them

    def statistics(self) -> Iterator[TableStatistics]:
        """Yield the table's statistics: of the segments of a manifest together where it has a file.

        Their sums are those of all segments.
        """
        yield from (segment.statistics_of(self.table_id) for segment in self._newer)
        for manifest in self._manifests():
            summary = self._summary_of(manifest)
            if summary is not None:
                yield summary
            else:
                visible = self._visible(manifest.content)
                yield from (segment.statistics_of(self.table_id) for segment in visible)

    def __len__(self) -> int:
        return len(self._newer) + sum(
            len(self._visible(manifest.content))
            if self._summary_of(manifest) is None
            else manifest.tables[self.table_id]
            for manifest in self._manifests()
        )

    def __bool__(self) -> bool:
        return any(True for _ in self.statistics())

    def _manifests(self) -> Iterator[Manifest]:
        return chain.from_iterable(self._by_shard.values())

    def _summary_of(self, manifest: Manifest) -> TableStatistics | None:
        """Return what the checkpoint says of a manifest; None if some of it is not visible."""
        if manifest.file is None:
            return None
        summary = manifest.file.summaries[self.table_id]
        return summary.statistics if summary.epoch >= self._base_epoch else None

    def _visible(self, content: ManifestContent) -> Sequence[SequencedSegment]:
        segments = content.by_table.get(self.table_id, ())
        # They ascend, and mostly all are visible.
        if not segments or segments[0].epoch >= self._base_epoch:
            return segments
        return [segment for segment in segments if segment.epoch >= self._base_epoch]

    # The segments

    def select(
        self, is_needed: StatisticsTest, shards: Collection[int] | None = None
    ) -> tuple[SequencedSegment, ...]:
        """Return the segments that are needed, the newest first; others may not be read.

        ``shards``: only those with rows in one of these, None for all.
        """
        return self.read(self.manifests_for(is_needed, shards), is_needed, shards)

    def manifests_for(
        self, is_needed: StatisticsTest, shards: Collection[int] | None = None
    ) -> tuple[Manifest, ...]:
        """Return the manifests that may name segments which are needed."""
        chosen = (
            manifest
            for shard in (self._by_shard if shards is None else (None, *shards))
            for manifest in self._by_shard.get(shard, ())
        )
        return tuple(
            manifest
            for manifest in chosen
            if manifest.file is None
            or _may_be_needed(manifest.file.summaries[self.table_id].statistics, is_needed, shards)
        )

    def read(
        self,
        manifests: Sequence[Manifest],
        is_needed: StatisticsTest,
        shards: Collection[int] | None = None,
    ) -> tuple[SequencedSegment, ...]:
        """Return what `select` does, of some of the manifests."""
        parts = (self._visible(content) for content in contents_of(manifests))
        needed = [
            segment
            for segment in chain(self._newer[::-1], *parts)
            if _may_be_needed(segment.statistics_of(self.table_id), is_needed, shards)
        ]
        return tuple(sorted(needed, key=KEY_OF, reverse=True))

    def added_since(self, earlier: LiveSegments) -> tuple[SequencedSegment, ...]:
        """Return the segments that are not among earlier ones, the newest first."""
        added = []
        for shard, manifests in self._by_shard.items():
            before = earlier.manifests.get(shard, ())
            files = {manifest.file.name for manifest in before if manifest.file is not None}
            earlier_ids = set(map(id, before))
            added += [
                manifest
                for manifest in manifests
                if id(manifest) not in earlier_ids
                and (manifest.file is None or manifest.file.name not in files)
            ]
        segments = self.read(added, lambda _: True)
        return tuple(segment for segment in segments if not earlier.holds(segment))

    def __iter__(self) -> Iterator[SequencedSegment]:
        return iter(self.select(lambda _: True))

    @overload
    def __getitem__(self, index: int) -> SequencedSegment: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[SequencedSegment, ...]: ...

    def __getitem__(self, index: int | slice) -> SequencedSegment | tuple[SequencedSegment, ...]:
        return tuple(self)[index]

    def __eq__(self, other: object) -> bool:
        """Return whether the segments are known to be the same, without a look at any file."""
        if not isinstance(other, DividedSegments):
            return NotImplemented
        return (
            self.table_id == other.table_id
            and self._base_epoch == other._base_epoch
            and self._newer == other._newer
            and self._by_shard.keys() == other._by_shard.keys()
            and all(
                len(manifests) == len(other._by_shard[shard])
                and all(map(_are_same, manifests, other._by_shard[shard]))
                for shard, manifests in self._by_shard.items()
            )
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"DividedSegments(table {self.table_id}: {len(self)} in {self._by_shard.keys()})"

    def __reduce__(self) -> tuple[type[DividedSegments], tuple[object, ...]]:
        by_shard = {
            shard: tuple(self._light(manifest) for manifest in manifests)
            for shard, manifests in self._by_shard.items()
        }
        return DividedSegments, (
            self.table_id,
            self._base_epoch,
            self.shards,
            by_shard,
            self._newer,
        )

    def _light(self, manifest: Manifest) -> Manifest:
        """Return what is needed of a manifest to read the table."""
        if manifest.file is None:
            return Manifest.of(manifest.shard, manifest.content.by_table[self.table_id])
        file = manifest.file.of_table(self.table_id)
        return Manifest(manifest.shard, manifest.last, manifest.count, file, manifest.reader)


def _may_be_needed(
    statistics: TableStatistics, is_needed: StatisticsTest, shards: Collection[int] | None
) -> bool:
    sizes = statistics.shard_bytes
    return (shards is None or any(sizes[shard] for shard in shards)) and is_needed(statistics)


def _are_same(manifest: Manifest, other: Manifest) -> bool:
    if manifest is other:
        return True
    file = manifest.file
    return file is not None and other.file is not None and file.name == other.file.name


def statistics_in(segments: Sequence[SequencedSegment], table_id: int) -> Iterable[TableStatistics]:
    """Return the statistics of a table in its segments: of each, or of many together."""
    if isinstance(segments, DividedSegments):
        return segments.statistics()
    return (segment.statistics_of(table_id) for segment in segments)


def select(
    segments: Sequence[SequencedSegment],
    table_id: int,
    is_needed: StatisticsTest,
    shards: Collection[int] | None = None,
) -> tuple[SequencedSegment, ...]:
    """Return those of a table's segments that are needed, in their order.

    ``shards``: only those with rows in one of these, None for all.
    """
    if isinstance(segments, DividedSegments):
        return segments.select(is_needed, shards)
    return tuple(
        segment
        for segment in segments
        if _may_be_needed(segment.statistics_of(table_id), is_needed, shards)
    )


def added_since(
    earlier: LiveSegments, segments: Sequence[SequencedSegment]
) -> tuple[SequencedSegment, ...]:
    """Return those of a table's segments that are not among earlier ones of all tables."""
    if isinstance(segments, DividedSegments):
        return segments.added_since(earlier)
    return tuple(segment for segment in segments if not earlier.holds(segment))


def after_newer(
    newer: Sequence[SequencedSegment], segments: Sequence[SequencedSegment]
) -> Sequence[SequencedSegment]:
    """Return a table's segments after newer ones, which come first."""
    if isinstance(segments, DividedSegments):
        return segments.preceded_by(newer)
    return (*newer, *segments)
