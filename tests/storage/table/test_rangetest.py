"""Which segments may hold rows of some ranges."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from relstate.storage.log.manifest import ManifestContent
from relstate.storage.log.segment_record import KEY_BOUND_BYTES, SegmentRecord, TableStatistics
from relstate.storage.log.sequenced_segment import SequencedSegment
from relstate.storage.log.table_summary import TableSummary
from relstate.storage.segment.key import KeyPrefix, successor
from relstate.storage.segment.search import KeyRanges
from relstate.storage.table import rangetest
from relstate.storage.table.rangetest import RangeTest
from relstate.vnode import shards_of


def drawn_key(draw: random.Random, prefix: KeyPrefix) -> bytes:
    """Return a full key, with long common beginnings and bytes at the limits."""
    primary = bytes(draw.choices([0, 1, 0xFE, 0xFF], k=draw.choice([0, 1, 3, 60])))
    return prefix.of(draw.randrange(prefix.vnode_count)) + primary


def segment_of(keys: list[bytes], prefix: KeyPrefix, shards: int, name: str) -> SequencedSegment:
    """Return a segment with some full keys."""
    vnodes = [prefix.vnode_of(key) for key in keys]
    owners = shards_of(np.array(vnodes), prefix.vnode_count, shards)
    sizes = tuple(int(size) for size in np.bincount(owners, minlength=shards))
    primary = [key[prefix.size :][:KEY_BOUND_BYTES] for key in keys]
    table = TableStatistics(
        prefix.table_id, len(keys), 0, min(keys), max(keys), sizes, min(primary), max(primary)
    )
    return SequencedSegment(SegmentRecord(name, 1, "", (table,)), 1, 0)


@pytest.mark.parametrize("most", [4096, 2])
@pytest.mark.parametrize(("table_id", "vnode_count", "shards"), [(1, 256, 16), (127, 300, 7)])
def test_no_segment_with_a_row_fails(
    table_id: int, vnode_count: int, shards: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the ranges, the keys and how they are asked for; nor do several as one."""
    monkeypatch.setattr(rangetest, "_MOST_RANGES", most)
    draw = random.Random(table_id * most)
    prefix = KeyPrefix(table_id, vnode_count)
    failed = 0
    for _ in range(600):
        keys = [drawn_key(draw, prefix) for _ in range(draw.choice([1, 1, 2, 5]))]
        segment = segment_of(keys, prefix, shards, "a")
        statistics = segment.statistics_of(table_id)
        other = segment_of([drawn_key(draw, prefix)], prefix, shards, "b")
        together = TableSummary.of(table_id, [segment, other]).statistics

        asked = sorted({drawn_key(draw, prefix) for _ in range(draw.choice([1, 3]))})
        of_keys = RangeTest.of_keys(pa.array(asked, pa.large_binary()), prefix, shards)
        ends = sorted({drawn_key(draw, prefix) for _ in range(draw.choice([2, 4, 8]))})
        ranges: list[tuple[bytes, bytes | None]] = [(ends[0], None)]
        if len(ends) > 1:
            ranges = [*zip(ends[::2], ends[1::2], strict=False)]
        of_ranges = RangeTest.of(ranges, prefix, shards)
        begins = [prefix.of(draw.randrange(vnode_count)) + b"\xff" * draw.randrange(3)]
        of_prefixes = RangeTest.of_key_ranges(
            KeyRanges.of_prefixes(pa.array(begins, pa.large_binary())), prefix, shards
        )
        for test, has_row in (
            (of_keys, any(key in asked for key in keys)),
            (
                of_ranges,
                any(low <= key < (high or b"\xff") for low, high in ranges for key in keys),
            ),
            (of_prefixes, any(key.startswith(begins[0]) for key in keys)),
        ):
            assert test.passes(statistics) or not has_row
            assert test.passes(together) or not test.passes(statistics)
            failed += not test.passes(statistics)
    assert failed > 100


def test_a_segment_of_other_keys_fails() -> None:
    """By its vnodes, by its primary keys in any vnode, and between two ranges."""
    prefix, shards = KeyPrefix(1, 256), 16
    segment = segment_of([prefix.of(3) + b"c", prefix.of(200) + b"f"], prefix, shards, "a")
    statistics = segment.statistics_of(1)

    def passes(*ranges: tuple[bytes, bytes]) -> bool:
        return RangeTest.of(ranges, prefix, shards).passes(statistics)

    assert passes((prefix.of(3) + b"c", prefix.of(3) + b"d"))
    assert not passes((prefix.of(90) + b"c", prefix.of(90) + b"d"))
    assert not passes((prefix.of(3) + b"a", prefix.of(3) + b"b"))
    assert not passes((prefix.of(200) + b"g", prefix.of(201)))
    assert not passes((prefix.of(3) + b"a", prefix.of(3) + b"b"), (prefix.of(201), prefix.of(250)))


def test_a_summary_is_read_as_it_was_written() -> None:
    """Of any shards; it says no less than its segments do together."""
    draw = random.Random(4)
    prefix, shards = KeyPrefix(9, 64), 5
    segments = [
        segment_of([drawn_key(draw, prefix) for _ in range(4)], prefix, shards, f"{number}")
        for number in range(20)
    ]
    (summary,) = ManifestContent(tuple(segments)).summaries().values()
    assert TableSummary.from_json(summary.to_json(), shards) == summary
    assert summary.statistics.rows == 80
    last = max(segment.statistics_of(9).last_key for segment in segments)
    assert summary.statistics.last_key <= last < (successor(summary.statistics.last_key) or b"\xff")
    for index, value in ((0, "9"), (1, 0), (2, 99), (4, -1), (8, [[9, 1]]), (9, "ff")):
        forged = summary.to_json()
        forged[index] = value
        with pytest.raises((ValueError, TypeError)):
            TableSummary.from_json(forged, shards)
