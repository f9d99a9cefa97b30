"""The tasks and the commit of a full compaction that runs as a Spark job: one task per part.

A job is a batch write through a data source of its own, because the writer of a source lets tasks
report to the driver what they wrote, and the driver commit it once.

Promises: a task that is run again leaves an unused file and never a row; a job that fails changes
nothing.
Does not know: what is merged, or how (storage); which tables are compacted (sql/maintenance.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from relstate.connector.failure import strip_traceback
from relstate.connector.storage_options import location
from relstate.connector.task_report import TaskReport, received_reports
from relstate.storage import CompactionJob, Store, errors

COMPACTION_FORMAT = "relstate_compaction"
SPARES_YOUNG = "sparesYoung"


class CompactionSource(DataSource):
    """The source whose writer compacts; its rows are the numbers of the parts to run."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return COMPACTION_FORMAT

    @strip_traceback
    def writer(self, schema: StructType, overwrite: bool) -> CompactionWriter:
        """Return the writer of a job that is planned now."""
        with Store.open(location(self.options)) as store:
            spares_young = self.options[SPARES_YOUNG] == "true"
            return CompactionWriter(
                store.jobs.compaction_job(self.options["table"], spares_young=spares_young)
            )


class CompactionWriter(DataSourceArrowWriter):
    """Runs one compaction; without a job it does nothing. It is sent to the tasks."""

    def __init__(self, job: CompactionJob | None) -> None:
        self._job = job

    @strip_traceback
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Run the parts with the numbers that come, except numbers that no part has."""
        numbers = [number for batch in iterator for number in batch.column(0).to_pylist()]
        if self._job is None:
            return TaskReport(0, ()).message()
        parts = tuple(number for number in numbers if number < self._job.parts)
        segments = self._job.run(parts) if parts else ()
        return TaskReport(self._job.started, segments, parts=parts).message()

    @strip_traceback
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Replace the merged files by what all tasks wrote."""
        if self._job is None:
            return
        reports = received_reports(messages)
        done = sorted(part for report in reports for part in report.parts)
        if done != list(range(self._job.parts)):
            raise errors.ConflictError(
                f"the parts {done} of {self._job.parts} were compacted: files were added or "
                "removed while the job was planned; nothing was committed"
            )
        with Store.open(self._job.path) as store:
            store.jobs.commit_compaction(
                self._job, [segment for report in reports for segment in report.segments]
            )

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Leave the files: a commit that failed may have landed; vacuum removes the others."""
