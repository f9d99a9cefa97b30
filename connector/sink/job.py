"""A write: what all its tasks share, and what each of them does.

Promises: what a task wrote is seen by nobody until the driver commits it; a task that is tried
again leaves a file behind and never a row.
Does not know: whether it is a batch, or a micro-batch of a stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from relstate.storage import LocalEnvironment, SegmentRecord, TableWriter, WriteTarget

from .message import TaskIdentity, TaskMessage
from .operation import OperationColumn


@dataclass(frozen=True, slots=True)
class WriteJob:
    """What is written where. Travels to the tasks.

    ``overwrite``: the rows replace all others. ``is_done``: the write is known to be committed, so
    that nothing need be written again.
    """

    target: WriteTarget
    operations: OperationColumn | None
    overwrite: bool
    application: str | None
    version: int | None
    is_done: bool = False

    def run(self, batches: Iterator[pa.RecordBatch]) -> TaskMessage:
        """Write the rows of one task, and return what the driver needs to commit them."""
        started = LocalEnvironment(self.target.path).now()
        return TaskMessage(TaskIdentity.current(), started, self._written(batches))

    def _written(self, batches: Iterator[pa.RecordBatch]) -> tuple[SegmentRecord, ...]:
        writer: TableWriter | None = None
        try:
            for batch in batches:
                if batch.num_rows and not self.is_done:
                    writer = writer or self.target.open()
                    self._write(writer, batch)
            return () if writer is None else writer.finish()
        except BaseException:
            if writer is not None:
                writer.abort()
            raise

    def _write(self, writer: TableWriter, batch: pa.RecordBatch) -> None:
        if self.operations is None:
            writer.write(batch)
        else:
            writer.write(*self.operations.split(batch))
