"""The writer of one batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from relstate.connector.failure import reported

from .commit import commit_batch
from .write_job import WriteJob


class BatchWriter(DataSourceArrowWriter):
    """Writes one job. Spark calls `write` in tasks and `commit` or `abort` once, on the driver."""

    def __init__(self, job: WriteJob) -> None:
        self._job = job

    @reported
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task."""
        return self._job.run(iterator).message()

    @reported
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Make all rows visible at once."""
        commit_batch(self._job, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Leave the files: a commit that failed may have landed, and vacuum owns the others."""
