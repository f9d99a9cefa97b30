"""The batch reader: one table at one epoch, in parts.

Promises: the epoch is chosen once, when the read is planned, and all tasks read it, however long
they wait; tasks do not look at the log. Batches have exactly the Arrow schema that Spark expects.
Does not know: how rows are stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from relstate.connector.failure import reported_items
from relstate.connector.options import ReadOptions
from relstate.connector.types import arrow_schema_of, check_readable, named_columns, struct_type
from relstate.storage.cast import exact_cast
from relstate.storage.errors import OptionError
from relstate.storage.plan import ReadPlan
from relstate.storage.store import Store

# Stored bytes a partition reads by default: a task of Spark costs as much as reading about 1 MiB.
PARTITION_BYTES = 32 << 20


@dataclass(frozen=True)
class VnodePartition(InputPartition):
    """What one task reads: the vnodes of one parallel unit."""

    vnodes: tuple[range, ...]


class TableReader(DataSourceReader):
    """Reads one plan. Immutable; travels to the tasks."""

    def __init__(self, plan: ReadPlan, partitions: int, schema: pa.Schema) -> None:
        self._plan = plan
        self._partitions = partitions
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Return a partition a parallel unit of the vnode mapping."""
        return [VnodePartition(vnodes) for vnodes in self._plan.partitions(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the visible rows of a partition."""
        assert isinstance(partition, VnodePartition)
        return reported_items(self._batches(partition.vnodes))

    def _batches(self, vnodes: tuple[range, ...]) -> Iterator[pa.RecordBatch]:
        for batch in self._plan.read(vnodes):
            yield _in_schema(batch, self._schema)


def plan_schema(options: ReadOptions) -> StructType:
    """Return the schema that a read with these options has."""
    return struct_type(named_columns(_plan(options).definition.schema, options.columns))


def plan_reader(options: ReadOptions, schema: StructType) -> TableReader:
    """Return the reader of the rows of ``schema`` at the epoch chosen now.

    SchemaMismatchError where the table does not have these columns.
    """
    plan = _plan(options)
    columns = check_readable(plan.definition.schema, schema)
    names = tuple(column.name for column in columns)
    _check_columns(options, names)
    partitions = options.partitions or -(-plan.stored_bytes // PARTITION_BYTES) or 1
    return TableReader(replace(plan, columns=names), partitions, arrow_schema_of(schema))


def _plan(options: ReadOptions) -> ReadPlan:
    with Store.open(options.path) as store:
        return store.read_plan(options.table, epoch=options.version)


def _check_columns(options: ReadOptions, names: tuple[str, ...]) -> None:
    """OptionError where a schema was given beside the option, and says something else."""
    if options.columns is None:
        return
    if [name.lower() for name in options.columns] != [name.lower() for name in names]:
        raise OptionError(
            f"option 'columns' names {', '.join(options.columns)}, and the schema given names "
            f"{', '.join(names)}; give one of them"
        )


def _in_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch under Spark's schema, which may spell names and NULLs differently."""
    if batch.schema.equals(schema):
        return batch
    columns = [
        exact_cast(column.type, field.type)(column)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
