"""Planning a write: from its options and the schema of its rows to a writer.

Promises: rows that cannot be the table's, by their columns and types, fail here, on the driver,
before a task runs: Spark itself does not compare the two.
Does not know: Spark's session. There is none in the processes that plan.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import StructType

from relstate.connector import catalog
from relstate.connector.failure import reported
from relstate.connector.options import WriteOptions, stream_options, write_options
from relstate.connector.types import arrow_schema_of
from relstate.storage import Store, TableSchema, WriteTarget

from .batch import BatchWriter
from .job import WriteJob
from .operation import OperationColumn
from .stream import StreamWriter


@reported
def plan_batch(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> BatchWriter:
    """Return the writer of a batch.

    OptionError, MissingError where there is nothing to write to, SchemaMismatchError.
    """
    catalog.check_destination(given)
    return BatchWriter(_job(write_options(given), schema, overwrite))


@reported
def plan_stream(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> StreamWriter:
    """Return the writer of a micro-batch; errors as for `plan_batch`."""
    catalog.check_destination(given)
    return StreamWriter(_job(stream_options(given), schema, overwrite))


def _job(options: WriteOptions, schema: StructType, overwrite: bool) -> WriteJob:
    with Store.open(options.path) as store:
        target = store.write_target(options.table)
        is_done = _is_done(store, target, options)
    found = arrow_schema_of(schema)
    operations = _operations(options.operation_column, target.definition.schema)
    target.definition.schema.check_schema(
        found if operations is None else operations.check_schema(found)
    )
    return WriteJob(target, operations, overwrite, options.application, options.version, is_done)


def _is_done(store: Store, target: WriteTarget, options: WriteOptions) -> bool:
    """Tell whether a write is known to be committed; what runs told apart is for the commit."""
    if options.application is None or options.version is None:
        return False
    last = store.state.transactions.get((options.application, target.definition.table_id))
    return last is not None and last.run is None and options.version <= last.batch


def _operations(name: str | None, schema: TableSchema) -> OperationColumn | None:
    if name is None:
        return None
    stored = any(column.name.lower() == name.lower() for column in schema.columns)
    return OperationColumn(name, stored)
