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
    arrow,
    environment_of,
    errors,
)

from .metadata_columns import OperationColumn, RowExpiry, check_order
from .quarantine import Quarantine, write_options_json
from .schema_mismatch import mismatch_error
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
        rows = _rows_schema(target, options, arrow_schema_of(schema))
        merged = tuple(arrow.fields_of(rows)) if options.merge_schema else None
        present = target.definition
        if merged is not None:
            target = store.jobs.merged_target(target, merged)
        if options.patch:
            target.check_patch(rows)
        else:
            _check_fits(store, target, present, rows, is_merged=merged is not None)
        is_done = _is_done(store, target, options)
        quarantine = _quarantine(store, options) if options.quarantine else None
    return WriteJob(
        target,
        operation_column(options.operation_column, target.definition),
        overwrite,
        options.application,
        options.version,
        is_done,
        row_expiry(options.ttl, options.ttl_column, target.definition.schema),
        options.patch,
        merged,
        quarantine,
    )


def _quarantine(store: Store, options: WriteOptions) -> Quarantine:
    """Return where the rows go that the table does not take."""
    return Quarantine(
        store.jobs.quarantine_target(options.table),
        environment_of(options.path).random_id(),
        options.application,
        options.version,
        write_options_json(options.operation_column, options.ttl, options.ttl_column),
    )


def _rows_schema(target: WriteTarget, options: WriteOptions, schema: pa.Schema) -> pa.Schema:
    """Return the schema of rows without the columns that options name. SchemaMismatchError."""
    operations = operation_column(options.operation_column, target.definition)
    expiry = row_expiry(options.ttl, options.ttl_column, target.definition.schema)
    rows = schema if expiry is None else expiry.check_schema(schema)
    rows = rows if operations is None else operations.check_schema(rows)
    target.definition.check_versions(rows.names)
    return rows


def _check_fits(
    store: Store,
    target: WriteTarget,
    present: TableDefinition,
    rows: pa.Schema,
    *,
    is_merged: bool,
) -> None:
    """SchemaMismatchError unless rows of a schema fit a target; ``present``: its definition now."""
    try:
        target.definition.schema.check_schema(rows)
    except errors.SchemaMismatchError as error:
        raise mismatch_error(store, present, error, rows, is_merged=is_merged) from None


def _is_done(store: Store, target: WriteTarget, options: WriteOptions) -> bool:
    """Tell whether a write was committed before; a repetition by a run is the commit's matter."""
    if options.application is None or options.version is None:
        return False
    last = store.state.transactions.get((options.application, target.definition.table_id))
    return last is not None and last.run is None and options.version <= last.batch


def operation_column(name: str | None, definition: TableDefinition) -> OperationColumn | None:
    """Return the operation column of a write, as its option names it; None if there is none."""
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


def row_expiry(ttl: int | None, column: str | None, schema: TableSchema) -> RowExpiry | None:
    """Return when the rows of a write expire, as its options say; None if the table says it."""
    if ttl is None and column is None:
        return None
    return RowExpiry(ttl, column, column is not None and _has(schema, column))


def _has(schema: TableSchema, name: str) -> bool:
    return any(column.name.lower() == name.lower() for column in schema.columns)
