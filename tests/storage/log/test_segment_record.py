"""The log's record of a segment."""

from __future__ import annotations

from relstate.storage.log.segment_record import SegmentRecord, TableStatistics

STATISTICS = TableStatistics(3, 10, 2, b"\x00\x01", b"\xff", (0, 640), b"", b"\xff")
RECORD = SegmentRecord("0c-1", 4096, "00112233aabbccdd", (STATISTICS,))


def test_rows_and_bytes_of_a_table_are_counted() -> None:
    """A segment has the counts of each of its tables, and zero for other tables."""
    assert (RECORD.rows(3), STATISTICS.stored_bytes) == (10, 640)
    assert (RECORD.rows(4), RECORD.expiring(4)) == (0, 0)
