"""A segment with its sequence number, which orders the versions of a row.

Does not know: files, or which segments a state has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TypeAlias

from .entry import malformed_error
from .file_frame import canonical, parse
from .segment_record import SegmentRecord, TableStatistics, check_record, check_shards
from .typecheck import check_types

SegmentKey: TypeAlias = tuple[int, int, str]
"""The sequence number of a segment, and its name.

Segments of one compaction share a sequence number and no row: the name makes the order total.
"""
# `SequencedSegment.key`, three times as fast.
KEY_OF: Callable[[SequencedSegment], SegmentKey] = attrgetter("epoch", "rank", "name")


class SequencedSegment:
    """A segment and its sequence number: an epoch, and a rank in that epoch's commit.

    The sequence number orders the versions of a row: of two segments that hold a row, the one with
    the greater number wins. It is the epoch and rank of the commit that added the segment; a
    segment that compaction wrote has the number of its newest input. Immutable. A segment from a
    checkpoint holds the JSON of its record and decodes it at the first access, so opening a store
    does not decode the records of segments that nobody reads.
    """

    __slots__ = (
        *("_json", "_record", "_shard", "_shards", "_tables", "epoch", "name", "rank"),
        "__weakref__",
    )

    _json: bytes | None
    _record: SegmentRecord | None
    _shards: int | None
    # Of one shard a tuple with its number, of several an empty one; None until it is known.
    _shard: tuple[int, ...] | None
    _tables: tuple[int, ...] | None

    def __init__(self, record: SegmentRecord, epoch: int, rank: int) -> None:
        """``epoch``, ``rank``: the sequence number."""
        self.name = record.name
        self.epoch = epoch
        self.rank = rank
        self._json = None
        self._record = record
        self._shards = None
        self._shard = None
        self._tables = None

    @classmethod
    def from_json(
        cls,
        record: bytes,
        epoch: int,
        rank: int,
        name: str,
        shards: int,
        shard: tuple[int, ...] | None = None,
        tables: tuple[int, ...] | None = None,
    ) -> SequencedSegment:
        """Return the segment ``name`` whose record has the canonical JSON ``record``.

        ``shards``: how many the store has; ``shard``: the one that all its rows are in, as a tuple,
        an empty one if they are in several; ``tables``: `table_ids`; None: the record says it.
        """
        segment = cls.__new__(cls)
        segment.name = name
        segment.epoch = epoch
        segment.rank = rank
        segment._json = record
        segment._record = None
        segment._shards = shards
        segment._shard = shard
        segment._tables = tables
        return segment

    @property
    def key(self) -> SegmentKey:
        """What segments are sorted by."""
        return self.epoch, self.rank, self.name

    @property
    def shard(self) -> int | None:
        """The shard that all its rows are in; None if they are in several."""
        if self._shard is None:
            self._shard = shard_of(self.record)
        return self._shard[0] if self._shard else None

    @property
    def table_ids(self) -> tuple[int, ...]:
        """The ids of the tables with rows in it, also of those that are no longer visible."""
        if self._tables is None:
            self._tables = tuple([table.table_id for table in self.record.tables])
        return self._tables

    @property
    def record(self) -> SegmentRecord:
        """The log's record of the segment."""
        if self._record is None:
            self._record = self._decode(self.record_json)
        return self._record

    def statistics_of(self, table_id: int) -> TableStatistics:
        """Return the statistics of a table that has rows in it."""
        for table in self.record.tables:
            if table.table_id == table_id:
                return table
        raise AssertionError(f"segment {self.name} has no rows of table {table_id}")

    @property
    def record_json(self) -> bytes:
        """The canonical JSON of the record."""
        if self._json is None:
            self._json = canonical(self.record.to_json())
        return self._json

    def _decode(self, record: bytes) -> SegmentRecord:
        try:
            decoded = SegmentRecord.from_json(parse(record))
            check_types(decoded)
            check_record(decoded)
            if self._shards is not None:
                check_shards(decoded, self._shards)
            if decoded.name != self.name:
                raise ValueError(f"it is the record of {decoded.name}")
        except Exception as error:
            location = f"segment {self.name} in the log's checkpoint"
            raise malformed_error(location, "segment record", error) from error
        return decoded

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SequencedSegment):
            return NotImplemented
        return (self.epoch, self.rank, self.record) == (other.epoch, other.rank, other.record)

    def __hash__(self) -> int:
        return hash((self.epoch, self.rank, self.name))

    def __reduce__(self) -> tuple[Callable[..., SequencedSegment], tuple[object, ...]]:
        if self._json is None or self._shards is None:
            return SequencedSegment, (self.record, self.epoch, self.rank)
        # What was not decoded need not be.
        values = (self._json, self.epoch, self.rank, self.name, self._shards)
        return SequencedSegment.from_json, (*values, self._shard, self._tables)

    def __repr__(self) -> str:
        return f"SequencedSegment({self.name!r}, epoch={self.epoch}, rank={self.rank})"


def shard_of(record: SegmentRecord) -> tuple[int, ...]:
    """Return the shard that all rows of a segment are in; nothing if they are in several."""
    shards = {
        shard for table in record.tables for shard, size in enumerate(table.shard_bytes) if size
    }
    return tuple(shards) if len(shards) == 1 else ()


def sequence_segments(
    added: Sequence[SegmentRecord], epoch: int, table_id: int
) -> tuple[SequencedSegment, ...]:
    """Return the segments with rows of a table among those that a commit adds, the newest first.

    Their sequence numbers are those of an entry of ``epoch`` whose segments are ``added``.
    """
    segments = (SequencedSegment(record, epoch, rank) for rank, record in enumerate(added))
    return tuple(segment for segment in segments if segment.record.rows(table_id))[::-1]
