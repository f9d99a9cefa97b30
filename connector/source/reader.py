"""The batch reader: a table at one epoch, or its changes, in partitions.

Promises: all tasks of a read see the epochs of its plan, however long they wait, and none reads the
log. Batches have exactly the Arrow schema that Spark expects.
Does not know: how the plan was made, or how rows are stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from relstate.connector.failure import strip_tracebacks
from relstate.storage import FeedPlan, FeedSnapshot, ReadPlan, cast, errors

# Stored bytes per partition by default: a task of Spark costs as much as reading 1 MiB.
PARTITION_BYTES = 32 << 20


@dataclass(frozen=True)
class VnodePartition(InputPartition):
    """What one task reads: the vnodes of one parallel unit."""

    vnodes: tuple[range, ...]


class TableReader(DataSourceReader):
    """Reads one plan, in ``partitions``, as batches of ``schema``. Pickled to the tasks."""

    def __init__(self, plan: ReadPlan | FeedPlan, partitions: int, schema: pa.Schema) -> None:
        self._plan = plan
        self._partitions = partitions
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Return a partition for each parallel unit of the vnode mapping."""
        return [VnodePartition(vnodes) for vnodes in self._plan.partitions(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the visible rows of a partition."""
        assert isinstance(partition, VnodePartition)
        return batches_of(self._plan, partition.vnodes, self._schema)


def batches_of(
    plan: ReadPlan | FeedPlan | FeedSnapshot, vnodes: tuple[range, ...], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a plan in some vnodes to Spark, as batches of ``schema``."""
    return strip_tracebacks(_in_schema(batch, schema) for batch in plan.read(vnodes))


def check_columns(names: Sequence[str] | None, schema_names: Sequence[str]) -> None:
    """OptionError if the option 'columns' and the schema that was given name other columns."""
    if names is not None and [n.lower() for n in names] != [n.lower() for n in schema_names]:
        raise errors.OptionError(
            f"option 'columns' names {', '.join(names)}, and the schema given names "
            f"{', '.join(schema_names)}; give one of them"
        )


def _in_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch under Spark's schema, which may spell names and NULLs differently."""
    if batch.schema.equals(schema):
        return batch
    columns = [
        cast.exact_cast(column.type, field.type)(column)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
