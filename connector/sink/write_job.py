"""A write: what its tasks share, and what each of them does.

Promises: what a task wrote is invisible until the driver commits it; a task that is run again
leaves an unused file and never a row.
Does not know: whether it is a batch, or a micro-batch of a stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from relstate.connector import catalog_table
from relstate.connector.task_report import TaskIdentity, TaskReport
from relstate.storage import SegmentRecord, TableWriter, WriteTarget, environment_of

from .metadata_columns import OperationColumn, RowExpiry


@dataclass(frozen=True, slots=True)
class WriteJob:
    """What is written where. It is sent to the tasks.

    ``overwrite``: the rows replace all others. ``is_done``: the write was committed before, so
    nothing is written.
    """

    target: WriteTarget
    operations: OperationColumn | None
    overwrite: bool
    application: str | None
    version: int | None
    is_done: bool = False
    expiry: RowExpiry | None = None

    def run(self, batches: Iterator[pa.RecordBatch]) -> TaskReport:
        """Write the rows of one task, and return what the driver needs to commit them.

        OptionError where the write is part of a statement that creates a table of Spark's catalog.
        """
        started = environment_of(self.target.path).now()
        identity = TaskIdentity.current()
        if identity.is_nested:
            catalog_table.refuse_creation()
        return TaskReport(started, self._written(batches), identity)

    def _written(self, batches: Iterator[pa.RecordBatch]) -> tuple[SegmentRecord, ...]:
        with self.target.open() as writer:
            for batch in batches:
                if batch.num_rows and not self.is_done:
                    self._write(writer, batch)
            return writer.finish()

    def _write(self, writer: TableWriter, batch: pa.RecordBatch) -> None:
        kinds = ttls = None
        if self.expiry is not None:
            batch, ttls = self.expiry.split(batch)
        if self.operations is not None and ttls is None:
            batch, kinds = self.operations.split(batch)
        elif self.operations is not None:
            # Rows may be removed: the TTLs go through as a column.
            batch, kinds = self.operations.split(batch.append_column(_TTL, ttls))
            ttls = batch.column(_TTL)
            batch = batch.drop_columns([_TTL])
        writer.write(batch, kinds, ttls)


# No column of a table has this name: it is not an identifier of SQL.
_TTL = "\0ttl"
