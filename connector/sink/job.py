"""A write: planned on the driver, done by tasks, committed on the driver.

Promises: what does not fit the table fails when the write is planned, before a task runs, or, where
it takes a look at the rows, in the task, before anything is committed. A task that is tried again
leaves a file behind and never a row.
Does not know: whether it is a batch, or a micro-batch of a stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import StructType

from relstate.connector.options import WriteOptions
from relstate.connector.types import arrow_schema_of
from relstate.storage.entry import SegmentRecord
from relstate.storage.environment import LocalEnvironment
from relstate.storage.plan import WriteTarget
from relstate.storage.schema import TableSchema
from relstate.storage.store import Store
from relstate.storage.writer import TableWriter

from .message import TaskIdentity, TaskMessage
from .operation import OperationColumn


@dataclass(frozen=True, slots=True)
class WriteJob:
    """What is written where. ``overwrite``: the rows replace all others. Travels to the tasks."""

    target: WriteTarget
    operations: OperationColumn | None
    overwrite: bool
    application: str | None
    version: int | None

    def run(self, batches: Iterator[pa.RecordBatch]) -> TaskMessage:
        """Write the rows of one task, and return what the driver needs to commit them."""
        started = LocalEnvironment(self.target.path).now()
        return TaskMessage(TaskIdentity.current(), started, self._written(batches))

    def _written(self, batches: Iterator[pa.RecordBatch]) -> tuple[SegmentRecord, ...]:
        writer: TableWriter | None = None
        try:
            for batch in batches:
                if batch.num_rows:
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


def plan_write(options: WriteOptions, schema: StructType, *, overwrite: bool) -> WriteJob:
    """Return the job that writes rows of ``schema``.

    SchemaMismatchError if they cannot be rows of the table.
    """
    with Store.open(options.path) as store:
        target = store.write_target(options.table)
    found = arrow_schema_of(schema)
    operations = _operations(options.operation_column, target.definition.schema)
    target.definition.schema.check_schema(
        found if operations is None else operations.check_schema(found)
    )
    return WriteJob(target, operations, overwrite, options.application, options.version)


def _operations(name: str | None, schema: TableSchema) -> OperationColumn | None:
    if name is None:
        return None
    stored = any(column.name.lower() == name.lower() for column in schema.columns)
    return OperationColumn(name, stored)
