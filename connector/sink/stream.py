"""The writer of micro-batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from relstate.connector.failure import reported

from .commit import commit_microbatch
from .write_job import WriteJob


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes one micro-batch a job. Spark makes one to plan, and another one to commit."""

    def __init__(self, job: WriteJob) -> None:
        self._job = job

    @reported
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task."""
        return self._job.run(iterator).message()

    @reported
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
        """Leave the files: a commit that failed may have landed, and vacuum owns the others."""
