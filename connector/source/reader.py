"""The batch reader: one table at one epoch, in parts.

Promises: all tasks of a read see the epoch of its plan, however long they wait, and none looks at
the log. Batches have exactly the Arrow schema that Spark expects.
Does not know: how the plan was made, or how rows are stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from relstate.connector.failure import reported_items
from relstate.storage import ReadPlan, cast


@dataclass(frozen=True)
class VnodePartition(InputPartition):
    """What one task reads: the vnodes of one parallel unit."""

    vnodes: tuple[range, ...]


class TableReader(DataSourceReader):
    """Reads one plan, in so many partitions, as batches of ``schema``. Travels to the tasks."""

    def __init__(self, plan: ReadPlan, partitions: int, schema: pa.Schema) -> None:
        self._plan = plan
        self._partitions = partitions
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Return a partition for each parallel unit of the vnode mapping."""
        return [VnodePartition(vnodes) for vnodes in self._plan.partitions(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the visible rows of a partition."""
        assert isinstance(partition, VnodePartition)
        return reported_items(self._batches(partition.vnodes))

    def _batches(self, vnodes: tuple[range, ...]) -> Iterator[pa.RecordBatch]:
        for batch in self._plan.read(vnodes):
            yield _in_schema(batch, self._schema)


def _in_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch under Spark's schema, which may spell names and NULLs differently."""
    if batch.schema.equals(schema):
        return batch
    columns = [
        cast.exact_cast(column.type, field.type)(column)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
