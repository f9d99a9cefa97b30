"""What a checkpoint says of the rows of one table in a manifest.

Promises: `from_json(to_json())` gives an equal summary; whoever reads only the summary learns no
less of the numbers than who reads the segments, and never that a key is not there which is.
Does not know: where it is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .segment_record import TableStatistics, check_statistics
from .sequenced_segment import SequencedSegment
from .typecheck import check_types

# What a segment counts as small, in bytes. On disk; a greater number would be as right.
SMALL = 2_516_582
# So many bytes of the first and the last full key. On disk; another number would be as right.
_KEY_BYTES = 40


@dataclass(frozen=True, slots=True)
class TableSummary:
    """The segments of a manifest with rows of a table, as one.

    ``count``: how many they are; ``small``: how many of them have at most `SMALL` bytes. ``epoch``:
    the least of their sequence numbers. ``statistics``: of all of them; the first and the last key
    are cut, so that the last may be a proper prefix of the greatest key.
    """

    count: int
    small: int
    epoch: int
    statistics: TableStatistics

    @classmethod
    def of(cls, table_id: int, segments: Sequence[SequencedSegment]) -> TableSummary:
        """Return the summary of some segments, at least one, with rows of a table."""
        parts = [segment.statistics_of(table_id) for segment in segments]
        statistics = TableStatistics(
            table_id,
            sum(part.rows for part in parts),
            sum(part.deletes for part in parts),
            min(part.first_key for part in parts)[:_KEY_BYTES],
            max(part.last_key for part in parts)[:_KEY_BYTES],
            tuple(map(sum, zip(*(part.shard_bytes for part in parts), strict=True))),
            min(part.least_key for part in parts),
            max(part.greatest_key for part in parts),
            sum(part.expiring for part in parts),
            sum(part.parts for part in parts),
        )
        small = sum(segment.record.size <= SMALL for segment in segments)
        return cls(len(segments), small, min(segment.epoch for segment in segments), statistics)

    def to_json(self) -> list[Any]:
        """Return the summary as JSON values. On disk: never change the order."""
        table = self.statistics
        shards = [[shard, size] for shard, size in enumerate(table.shard_bytes) if size]
        keys = (table.first_key, table.last_key, table.least_key, table.greatest_key)
        numbers = (table.rows, table.deletes, table.expiring, table.parts)
        return [
            table.table_id,
            self.count,
            self.small,
            self.epoch,
            *numbers,
            shards,
            *(key.hex() for key in keys),
        ]

    @classmethod
    def from_json(cls, value: Sequence[Any], shards: int) -> TableSummary:
        """Return the summary that `to_json` described, of a store with some number of shards.

        ValueError, TypeError or IndexError for what `to_json` does not return.
        """
        table_id, count, small, epoch, rows, deletes, expiring, parts, sizes, *keys = value
        first, last, least, greatest = map(bytes.fromhex, keys)
        shard_bytes = _by_shard(sizes, shards)
        statistics = TableStatistics(
            table_id, rows, deletes, first, last, shard_bytes, least, greatest, expiring, parts
        )
        summary = cls(count, small, epoch, statistics)
        check_types(summary)
        check_statistics(statistics)
        if not (0 <= small <= count <= rows and count >= 1 and epoch >= 1):
            raise ValueError(f"the summary {value!r:.200}")
        return summary


def _by_shard(sizes: Iterable[Sequence[int]], shards: int) -> tuple[int, ...]:
    by_shard = [0] * shards
    for shard, size in sizes:
        if type(shard) is not int or not 0 <= shard < shards:
            raise ValueError(f"the shard {shard!r:.100}")
        by_shard[shard] = size
    return tuple(by_shard)
