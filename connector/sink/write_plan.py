"""Planning a write: from its options and the schema of its rows to a writer.

Promises: rows whose columns or types do not fit the table are refused here, on the driver, before a
task runs: Spark itself does not compare the two.
Does not know: Spark's session. The processes that plan have none.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql.types import StructType

from relstate.connector import catalog_table
from relstate.connector.failure import strip_traceback
from relstate.connector.options import WriteOptions, stream_write_options, write_options
from relstate.connector.types import arrow_schema_of
from relstate.storage import (
    UPSERTS,
    Store,
    TableDefinition,
    TableSchema,
    WriteTarget,
    errors,
)

from .merge_schema import merge_schema, mismatch_error
from .metadata_columns import OperationColumn, RowExpiry, check_order
from .write import BatchWriter, StreamWriter, WriteJob


@strip_traceback
def plan_batch(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> BatchWriter:
    """Return the writer of a batch.

    OptionError, MissingError if the store or the table is missing, SchemaMismatchError.
    """
    catalog_table.check_destination(options)
    return BatchWriter(_job(write_options(options), schema, overwrite))


@strip_traceback
def plan_stream(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> StreamWriter:
    """Return the writer of a micro-batch; errors as for `plan_batch`."""
    catalog_table.check_destination(options)
    return StreamWriter(_job(stream_write_options(options), schema, overwrite))


def _job(options: WriteOptions, schema: StructType, overwrite: bool) -> WriteJob:
    with Store.open(options.path) as store:
        expiring = options.ttl is not None or options.ttl_column is not None
        target = store.jobs.write_target(options.table, expiring=expiring)
        if overwrite and target.definition.properties.append_only:
            raise errors.AppendOnlyError(
                f"the table {target.definition.name!r} is append-only: its rows are not replaced, "
                "by mode 'overwrite' or output mode 'complete'; append rows of new keys"
            )
        if overwrite and options.patch:
            raise errors.OptionError(
                "a patch changes parts of rows and cannot replace the table: leave out mode "
                "'overwrite' and output mode 'complete'"
            )
        if options.operation_column is not None:
            promise = "'clustered'='true'"
            check_order(target.definition, options.clustered, "option 'opColumn'", promise)
        target = _fitted(store, target, options, arrow_schema_of(schema))
        is_done = _is_done(store, target, options)
    return WriteJob(
        target,
        _operations(options.operation_column, target.definition),
        overwrite,
        options.application,
        options.version,
        is_done,
        _expiry(options, target.definition.schema),
        options.patch,
    )


def _fitted(
    store: Store, target: WriteTarget, options: WriteOptions, schema: pa.Schema
) -> WriteTarget:
    """Return the target with a schema that rows of a schema fit. SchemaMismatchError."""
    operations = _operations(options.operation_column, target.definition)
    expiry = _expiry(options, target.definition.schema)
    rows = schema if expiry is None else expiry.check_schema(schema)
    rows = rows if operations is None else operations.check_schema(rows)
    if options.merge_schema:
        merge_schema(store, options.table, rows)
        target = store.jobs.write_target(options.table)
    if options.patch:
        target.check_patch(rows)
        return target
    try:
        target.definition.schema.check_schema(rows)
    except errors.SchemaMismatchError as error:
        raise mismatch_error(store, target.definition, error, rows) from None
    return target


def _is_done(store: Store, target: WriteTarget, options: WriteOptions) -> bool:
    """Tell whether a write was committed before; a repetition by a run is the commit's matter."""
    if options.application is None or options.version is None:
        return False
    last = store.state.transactions.get((options.application, target.definition.table_id))
    return last is not None and last.run is None and options.version <= last.batch


def _operations(name: str | None, definition: TableDefinition) -> OperationColumn | None:
    if name is None:
        return None
    properties = definition.properties
    return OperationColumn(
        name,
        _has(definition.schema, name),
        UPSERTS[properties.merge],
        properties.append_only,
        tuple(column.name for column in definition.schema.key_columns),
    )


def _expiry(options: WriteOptions, schema: TableSchema) -> RowExpiry | None:
    name = options.ttl_column
    if options.ttl is None and name is None:
        return None
    return RowExpiry(options.ttl, name, name is not None and _has(schema, name))


def _has(schema: TableSchema, name: str) -> bool:
    return any(column.name.lower() == name.lower() for column in schema.columns)
