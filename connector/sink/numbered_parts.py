"""Segments that are written in numbered parts: by Spark tasks, or by the driver.

Promises: the segments of each part are returned once, or nothing is; a task that is run again
leaves an unused file and never a row.
Does not know: what is written, and who commits it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

from relstate.connector.failure import strip_tracebacks, unwrap_errors
from relstate.connector.parallelism import parallelism
from relstate.connector.task_report import REPORT_SCHEMA, TaskReport
from relstate.storage import SegmentRecord, errors

# Jobs that read fewer stored bytes are run by the driver: a Spark job would take longer.
_DRIVER_BYTES = 8 << 20
# About so many stored bytes are read by one task, which takes parts one after another: starting a
# task takes as long as compacting some MiB.
_TASK_BYTES = 32 << 20


def write_parts(
    spark: SparkSession,
    part: Callable[[int], tuple[SegmentRecord, ...]],
    count: int,
    stored_bytes: int,
) -> tuple[SegmentRecord, ...]:
    """Run all parts of a job and return the segments they wrote, in the order of their numbers.

    ``part`` writes the segments of one part, 0 to ``count`` - 1, and returns them; it is sent to
    the tasks. ``stored_bytes``: what all parts read together. LostMessageError unless Spark
    delivers one report of each part; the errors of ``part``.
    """
    if stored_bytes <= _DRIVER_BYTES:
        return tuple(segment for number in range(count) for segment in part(number))
    tasks = min(count, max(parallelism(spark), -(-stored_bytes // _TASK_BYTES)))
    with unwrap_errors():
        rows = spark.range(0, count, 1, tasks).mapInArrow(PartsTask(part), REPORT_SCHEMA).collect()
    return received_segments([TaskReport.from_json(text) for (text,) in rows], count)


def received_segments(reports: Sequence[TaskReport], count: int) -> tuple[SegmentRecord, ...]:
    """Return the segments of all parts from the reports of tasks, in the order of the parts.

    LostMessageError unless each part was reported once.
    """
    reports = sorted(reports, key=lambda report: report.parts)
    part_numbers = [part for report in reports for part in report.parts]
    if part_numbers != list(range(count)):
        raise errors.LostMessageError(
            f"tasks reported the parts {part_numbers} of {count}; nothing was committed: run it "
            "again"
        )
    return tuple(segment for report in reports for segment in report.segments)


@dataclass(frozen=True, slots=True)
class PartsTask:
    """Runs the parts whose numbers come, and reports each. It is sent to the tasks."""

    part: Callable[[int], tuple[SegmentRecord, ...]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a report of every part whose number comes."""
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        return strip_tracebacks(self._report(number) for number in numbers)

    def _report(self, number: int) -> pa.RecordBatch:
        return TaskReport(0, self.part(number), parts=(number,)).batch()
