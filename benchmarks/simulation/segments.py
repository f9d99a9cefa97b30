"""Segments without data: their records, as the writers of one table make them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from relstate.storage.log.segment_record import SegmentRecord, TableStatistics
from relstate.storage.segment.key import KeyPrefix
from relstate.storage.segment.writer import SEGMENT_BYTES

from .bucket import SimulatedBucket

SHARDS, VNODES = 16, 256
TABLE = 1
# Rows have keys from 0 to this, exclusive.
KEYS = 1 << 60
PREFIX = KeyPrefix(TABLE, VNODES)


def record(
    name: str, shard_bytes: Sequence[int], first: tuple[int, int], last: tuple[int, int]
) -> SegmentRecord:
    """Return the record of a segment with so many bytes of rows in each shard.

    ``first``, ``last``: the vnode and the number of its first and of its last row.
    """
    least, greatest = (first[1], last[1]) if first[0] == last[0] else (0, KEYS - 1)
    of_table = TableStatistics(
        TABLE,
        max(sum(shard_bytes) // 100, 1),
        0,
        full_key(*first),
        full_key(*last),
        tuple(shard_bytes),
        full_key(0, least)[PREFIX.size :],
        full_key(0, greatest)[PREFIX.size :],
    )
    return SegmentRecord(name, max(sum(shard_bytes), 4096), "0123456789abcdef", (of_table,))


def full_key(vnode: int, number: int) -> bytes:
    """Return the full key of a row: its primary key is a BIGINT."""
    return PREFIX.of(vnode) + b"\x01" + number.to_bytes(8, "big")


def unsorted(environment: SimulatedBucket, shard_bytes: Sequence[int]) -> SegmentRecord:
    """Return the record of a segment with rows of any keys."""
    shards = [shard for shard, size in enumerate(shard_bytes) if size]
    ends = (shards[0] * VNODES // SHARDS, 0), ((shards[-1] + 1) * VNODES // SHARDS - 1, KEYS - 1)
    return record(f"{environment.random_id()}-000000", shard_bytes, *ends)


def spread(size: int) -> list[int]:
    """Return a commit's bytes by shard: its rows are spread evenly."""
    return [size // SHARDS + 1] * SHARDS


def cut(sizes: Sequence[int]) -> Iterable[list[int]]:
    """Yield the shard bytes of the segments that a compaction of so many bytes by shard writes."""
    for shard, size in enumerate(sizes):
        for start in range(0, size, SEGMENT_BYTES):
            shard_bytes = [0] * SHARDS
            shard_bytes[shard] = min(SEGMENT_BYTES, size - start)
            yield shard_bytes
