"""Rows of one table that become rows of another one: by the driver if they are few, else by tasks.

Promises: rows keep their vnodes; a task that is run again leaves an unused file.
Does not know: which rows, and when the segments are committed (replacement.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

from relstate.connector.failure import strip_tracebacks, unwrap_errors
from relstate.connector.task_report import TaskReport
from relstate.storage import ReadPlan, SegmentRecord, WriteTarget, errors

from .sessions import keep_active_session

# Fewer stored bytes are copied by the driver: a Spark job would take longer.
_LOCAL_BYTES = 8 << 20
# About so many stored bytes are copied by one task.
_TASK_BYTES = 64 << 20
_REPORT = "report BINARY"


def copied_rows(
    spark: SparkSession, rows: ReadPlan, target: WriteTarget
) -> tuple[SegmentRecord, ...]:
    """Write the rows of a plan to a table and return the segments.

    LostMessageError unless each part of the rows was copied exactly once.
    """
    if rows.stored_bytes <= _LOCAL_BYTES:
        every_vnode = (range(rows.vnode_count),)
        return CopyTask(rows, target, (every_vnode,)).run(0)
    parts = rows.partitions(-(-rows.stored_bytes // _TASK_BYTES))
    task, count = CopyTask(rows, target, parts), len(parts)
    with unwrap_errors(), keep_active_session(spark):
        reports = spark.range(0, count, 1, count).mapInArrow(task, _REPORT).collect()
    received = [TaskReport.from_json(bytes(row[0])) for row in reports]
    done = sorted(part for report in received for part in report.parts)
    if done != list(range(count)):
        raise errors.LostMessageError(
            f"the parts {done} of {count} of a view were copied; nothing was committed: refresh "
            "again"
        )
    return tuple(segment for report in received for segment in report.segments)


@dataclass(frozen=True, slots=True)
class CopyTask:
    """Writes the rows of a plan to a table. Travels to the tasks, which get the parts' numbers.

    ``parts``: the vnodes of each part.
    """

    rows: ReadPlan
    target: WriteTarget
    parts: Sequence[tuple[range, ...]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a report of every part whose number comes."""
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        return strip_tracebacks(self._report(number) for number in numbers)

    def _report(self, number: int) -> pa.RecordBatch:
        report = TaskReport(0, self.run(number), parts=(number,))
        return pa.RecordBatch.from_pydict({"report": [report.to_json().encode()]})

    def run(self, number: int) -> tuple[SegmentRecord, ...]:
        """Write the rows of one part and return the segments."""
        with self.target.open() as writer:
            for batch in self.rows.read(self.parts[number]):
                writer.write(batch)
            return writer.finish()
