"""A manifest: neighbouring segments of one shard, in the order of their sequence numbers.

The segments of a large store are divided among manifests: those of each shard are sorted and cut
after every segment whose name has a certain hash; those with rows of several shards are divided
apart. So where a manifest begins and ends follows from the segments alone, and a change of some
segments changes the manifests around them and no other. A manifest has a file of its own once a
checkpoint names it; it is read when its segments are needed, and may be forgotten again.

Promises: a manifest is a value; `read` returns what was written or raises CorruptionError.
Does not know: which manifests a state has, when they are written.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import xxhash

from relstate.vnode import cached_property

from ..errors import CorruptionError
from .file_frame import seal
from .sequenced_segment import KEY_OF, SegmentKey, SequencedSegment
from .table_summary import SMALL, TableSummary

Shard: TypeAlias = int | None
"""The number of a shard; None for the segments with rows of several."""


@dataclass(frozen=True)
class ManifestContent:
    """The segments of a manifest, in the order of their keys."""

    segments: tuple[SequencedSegment, ...]

    @cached_property
    def by_name(self) -> Mapping[str, SequencedSegment]:
        """The segments by their names."""
        return {segment.name: segment for segment in self.segments}

    @cached_property
    def by_table(self) -> Mapping[int, tuple[SequencedSegment, ...]]:
        """The segments with rows of each table, by its id."""
        tables: dict[int, list[SequencedSegment]] = {}
        for segment in self.segments:
            for table_id in segment.table_ids:
                tables.setdefault(table_id, []).append(segment)
        return {table_id: tuple(segments) for table_id, segments in tables.items()}

    @cached_property
    def tables(self) -> Mapping[int, int]:
        """The number of segments with rows of each table, by its id."""
        return {table_id: len(segments) for table_id, segments in self.by_table.items()}

    def summaries(self) -> dict[int, TableSummary]:
        """Return what checkpoints say of each table, by its id."""
        return {
            table_id: TableSummary.of(table_id, segments)
            for table_id, segments in self.by_table.items()
        }


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """The file of a manifest, and what checkpoints say of the segments in it.

    ``name`` is a hash of its content, ``size`` in bytes, ``period`` when it was put: see
    manifest_files.py. ``tables`` counts the segments with rows
    of each table, by its id; ``small`` those of them that have at most `SMALL` bytes.
    ``summaries``: of the tables, by their ids; a plan has only that of its own table.
    """

    name: str
    size: int
    period: int
    tables: Mapping[int, int]
    small: Mapping[int, int]
    summaries: Mapping[int, TableSummary]

    @classmethod
    def of(
        cls, name: str, size: int, period: int, summaries: Mapping[int, TableSummary]
    ) -> ManifestFile:
        """Return a file whose segments have these summaries."""
        tables = {table_id: summary.count for table_id, summary in summaries.items()}
        small = {table_id: summary.small for table_id, summary in summaries.items()}
        return cls(name, size, period, tables, small, summaries)

    def of_table(self, table_id: int) -> ManifestFile:
        """Return what is needed of it to read the rows of one table."""
        summaries = {table_id: self.summaries[table_id]}
        return ManifestFile(self.name, self.size, self.period, self.tables, {}, summaries)


class ManifestReader(Protocol):
    """Reads the files of manifests."""

    def read(self, manifests: Sequence[Manifest]) -> list[ManifestContent]:
        """Return the contents of manifests that have files. CorruptionError."""

    def cached(self, manifest: Manifest) -> ManifestContent | None:
        """Return the content of a manifest if it is in memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Manifest:
    """Neighbouring segments of one shard. Immutable; it has a content, or a file and its reader.

    ``last`` is the key of the last segment, ``count`` the number of segments.
    """

    shard: Shard
    last: SegmentKey
    count: int
    file: ManifestFile | None = None
    reader: ManifestReader | None = None
    in_memory: ManifestContent | None = None

    @classmethod
    def of(cls, shard: Shard, segments: Sequence[SequencedSegment]) -> Manifest:
        """Return the manifest of some segments, at least one, which are sorted."""
        content = ManifestContent(tuple(segments))
        return cls(shard, segments[-1].key, len(segments), in_memory=content)

    def has_content_of(self, manifest: Manifest) -> bool:
        """Return whether this one, which has a file, has the segments of another one."""
        assert self.file is not None
        if self.count != manifest.count:
            return False
        return name_of(manifest.encode(self.file.period)) == self.file.name

    def in_file(self, name: str, size: int, period: int, reader: ManifestReader) -> Manifest:
        """Return the manifest as one whose content is in a file: see `ManifestFile`."""
        file = ManifestFile.of(name, size, period, self.content.summaries())
        return Manifest(self.shard, self.last, self.count, file, reader)

    @property
    def tables(self) -> Mapping[int, int]:
        """The number of segments with rows of each table, by its id."""
        if self.file is not None:
            return self.file.tables
        return self.content.tables

    @property
    def small(self) -> Mapping[int, int]:
        """The number of segments of at most `SMALL` bytes with rows of each table, by its id."""
        if self.file is not None:
            return self.file.small
        small = [segment for segment in self.content.segments if segment.record.size <= SMALL]
        return Counter(table_id for segment in small for table_id in segment.table_ids)

    @property
    def content(self) -> ManifestContent:
        """The segments, which are read if they are not in memory. CorruptionError."""
        if self.in_memory is not None:
            return self.in_memory
        assert self.reader is not None
        (content,) = self.reader.read([self])
        return content

    @property
    def known(self) -> ManifestContent | None:
        """The segments if they are in memory."""
        if self.in_memory is not None:
            return self.in_memory
        assert self.reader is not None
        return self.reader.cached(self)

    def check_summaries(self) -> None:
        """Raise CorruptionError unless the checkpoint says of the tables what the segments do.

        Decodes all records: readers rely on it.
        """
        if self.file is not None and self.content.summaries() != self.file.summaries:
            raise CorruptionError(
                f"manifest {self.file.name}: its segments do not have the sums and keys that the "
                "checkpoint of the log says: restore both from a backup"
            )

    def get(self, key: SegmentKey) -> SequencedSegment | None:
        """Return the segment with a key, if it is in the manifest."""
        segments = self.content.segments
        index = bisect_left(segments, key, key=KEY_OF)
        return segments[index] if index < len(segments) and segments[index].key == key else None

    def changed(
        self, added: Sequence[SequencedSegment], removed: Iterable[str], most: int
    ) -> Iterator[Manifest]:
        """Yield the manifests of this one's segments without some and with others.

        Each is divided if it has more than ``most`` segments.
        """
        names = frozenset(removed)
        segments = [segment for segment in self.content.segments if segment.name not in names]
        if added:
            segments = sorted((*segments, *added), key=KEY_OF)
        if len(segments) > most:
            yield from (Manifest.of(self.shard, part) for part in divided(segments, most))
        elif segments:
            yield Manifest.of(self.shard, segments)

    def encode(self, period: int) -> bytes:
        """Return the content of the manifest's file; another one in each period."""
        segments = self.content.segments
        head = {"shard": self.shard, "period": period, "segments": columns(segments)}
        value = head | by_table(segments)
        return seal("manifest", value, [segment.record_json for segment in segments])

    def to_json(self) -> dict[str, Any]:
        """Return what a checkpoint says of the manifest. On disk: never change a name."""
        assert self.file is not None
        return {
            "name": self.file.name,
            "size": self.file.size,
            "period": self.file.period,
            "shard": self.shard,
            "last": list(self.last),
            "count": self.count,
            "tables": [summary.to_json() for _, summary in sorted(self.file.summaries.items())],
        }


def name_of(data: bytes) -> str:
    """Return the name of a manifest with this content."""
    return xxhash.xxh3_128_hexdigest(data)


def ends(name: str, size: int) -> bool:
    """Return whether a manifest ends after a segment; ``size``: of about how many it consists."""
    return xxhash.xxh3_64_intdigest(name.encode()) % size == 0


def divided(
    segments: Iterable[SequencedSegment], size: int
) -> Iterator[Sequence[SequencedSegment]]:
    """Yield the parts of sorted segments that are a manifest each, of about ``size`` segments."""
    part: list[SequencedSegment] = []
    for segment in segments:
        part.append(segment)
        if ends(segment.name, size):
            yield part
            part = []
    if part:
        yield part


# What checkpoints and manifests say beside the records. On disk: never change a name.


def columns(segments: Sequence[SequencedSegment]) -> dict[str, list[Any]]:
    """Return the names and sequence numbers of segments as JSON values."""
    return {
        "names": [segment.name for segment in segments],
        "epochs": [segment.epoch for segment in segments],
        "ranks": [segment.rank for segment in segments],
    }


def by_table(segments: Sequence[SequencedSegment]) -> dict[str, list[Any]]:
    """Return for each table the indices of the segments with rows of it as JSON values."""
    tables: dict[int, list[int]] = {}
    for index, segment in enumerate(segments):
        for table_id in segment.table_ids:
            tables.setdefault(table_id, []).append(index)
    # Pairs, in the order of the ids: as names of an object they would sort as text.
    return {"segments_by_table": [[table_id, tables[table_id]] for table_id in sorted(tables)]}


def segments_from_json(
    value: Mapping[str, Any],
    lines: Sequence[bytes],
    shards: int,
    shard_of: Sequence[tuple[int, ...]],
) -> list[SequencedSegment]:
    """Return the segments of `columns` and `by_table` and of the lines of their records.

    ``shards``: how many the store has; ``shard_of``: for each segment, see `SequencedSegment`.
    """
    names, epochs, ranks = (value["segments"][name] for name in ("names", "epochs", "ranks"))
    tables: list[tuple[int, ...]] = [()] * len(names)
    for table_id, indices in value["segments_by_table"]:
        alone = (table_id,)
        for index in indices:
            tables[index] = alone if not tables[index] else (*tables[index], table_id)
    for epoch, rank in zip(epochs, ranks, strict=True):
        if type(epoch) is not int or type(rank) is not int or epoch < 1:
            raise ValueError(f"the sequence number ({epoch!r:.50}, {rank!r:.50})")
    rows = zip(lines, epochs, ranks, names, shard_of, tables, strict=True)
    return [
        SequencedSegment.from_json(line, epoch, rank, name, shards, shard, table_ids)
        for line, epoch, rank, name, shard, table_ids in rows
    ]
