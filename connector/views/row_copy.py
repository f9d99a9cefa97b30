"""Rows of one table that become rows of another one.

Promises: rows keep their vnodes; a copy that is run again leaves unused files.
Does not know: which rows, and when the segments are committed (replacement.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from relstate.connector.sink.numbered_parts import write_parts
from relstate.storage import ReadPlan, SegmentRecord, WriteTarget

from .sessions import keep_active_session

# A part has about so many stored bytes.
_PART_BYTES = 64 << 20


def copied_rows(
    spark: SparkSession, rows: ReadPlan, target: WriteTarget
) -> tuple[SegmentRecord, ...]:
    """Write the rows of a plan to a table and return the segments. Errors as of `write_parts`."""
    parts = rows.partitions(max(1, -(-rows.stored_bytes // _PART_BYTES)))
    copy = RowCopy(rows, target, parts)
    with keep_active_session(spark):
        return write_parts(spark, copy.part, len(parts), rows.stored_bytes)


@dataclass(frozen=True, slots=True)
class RowCopy:
    """The copy of the rows of a plan to a table; ``parts``: the vnodes of each part. Picklable."""

    rows: ReadPlan
    target: WriteTarget
    parts: Sequence[tuple[range, ...]]

    def part(self, number: int) -> tuple[SegmentRecord, ...]:
        """Write the rows of one part and return the segments."""
        with self.target.open() as writer:
            for batch in self.rows.read(self.parts[number]):
                writer.write(batch)
            return writer.finish()
