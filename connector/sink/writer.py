"""What Spark calls to write: one writer for a batch, one for the micro-batches of a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from relstate.connector.failure import strip_traceback

from .commit import commit_batch, commit_microbatch
from .write_job import WriteJob


class BatchWriter(DataSourceArrowWriter):
    """Writes one batch. Spark calls `write` in tasks, then `commit` or `abort` on the driver."""

    def __init__(self, job: WriteJob) -> None:
        self._job = job

    @strip_traceback
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task."""
        return self._job.run(iterator).message()

    @strip_traceback
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Make all rows visible at once."""
        commit_batch(self._job, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Leave the files: a commit that failed may have landed; vacuum removes the others."""


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes one micro-batch. Spark creates one writer to plan and another one to commit."""

    def __init__(self, job: WriteJob) -> None:
        self._job = job

    @strip_traceback
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task."""
        return self._job.run(iterator).message()

    @strip_traceback
    def commit(
        self,
        messages: Sequence[WriterCommitMessage | None],
        batchId: int,  # noqa: N803 - Spark's name
    ) -> None:
        """Make the rows of the micro-batch visible at once, unless they are already."""
        commit_microbatch(self._job, messages, batchId)

    def abort(
        self,
        messages: Sequence[WriterCommitMessage | None],
        batchId: int,  # noqa: N803 - Spark's name
    ) -> None:
        """Leave the files: a commit that failed may have landed; vacuum removes the others."""
