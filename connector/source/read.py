"""Planning a read: from the options of one to its schema and its reader.

Promises: the epoch is chosen once, here; what cannot be read fails here, on the driver, before a
task runs.
Does not know: Spark's session. There is none in the processes that plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql.types import StructType

from relstate.connector import catalog_table
from relstate.connector.failure import strip_traceback
from relstate.connector.options import (
    ReadOptions,
    any_feed_options,
    feed_options,
    is_feed,
    read_options,
)
from relstate.connector.types import arrow_schema_of, check_readable, named_columns, struct_type
from relstate.storage import Predicate, ReadPlan, Store

from .feed import feed_schema, plan_feed_reader
from .reader import PARTITION_BYTES, TableReader, check_columns

# So many keys, looked up singly, make a partition.
PARTITION_POINTS = 4096


@strip_traceback
def plan_schema(options: Mapping[str, str]) -> StructType:
    """Return the schema of a read with these options, or of a catalog table defined by them.

    OptionError, MissingError where there is nothing to read, SchemaMismatchError for a column
    that is not there, UnsupportedExpressionError for a condition that cannot be evaluated exactly.
    """
    if not catalog_table.is_definition(options):
        return _schema_of(options)
    defined = catalog_table.definition_options(options)
    return catalog_table.with_options(_schema_of(defined), defined)


@strip_traceback
def plan_reader(given_options: Mapping[str, str], schema: StructType) -> TableReader:
    """Return the reader of the columns of ``schema`` at the epoch, or of the epochs, chosen now.

    Errors as for `plan_schema`; SchemaMismatchError also where a column has another type.
    """
    known = catalog_table.stored_options(schema, given_options)
    if is_feed(known):
        return plan_feed_reader(feed_options(known), schema)
    options = read_options(known)
    plan = _plan(options)
    columns = check_readable(plan.definition.schema, schema)
    names = tuple(column.name for column in columns)
    check_columns(options.columns, names)
    plan = replace(plan, columns=names)
    return TableReader(
        plan, options.partitions or default_read_partitions(plan), arrow_schema_of(schema)
    )


def _schema_of(given_options: Mapping[str, str]) -> StructType:
    if is_feed(given_options):
        return feed_schema(any_feed_options(given_options))
    options = read_options(given_options)
    return struct_type(named_columns(_plan(options).definition.schema, options.columns))


def _plan(options: ReadOptions) -> ReadPlan:
    with Store.open(options.path) as store:
        epoch = options.version if options.time is None else store.epoch_at(options.time)
        plan = store.read_plan(options.table, epoch=epoch, time=options.expires_by)
        store.state_at(plan.epoch).check_populated(plan.definition.table_id)
    if options.where is not None:
        plan = plan.filtered(options.where, options.time_zone)
    if options.bound_condition is not None:
        bound = Predicate.from_json(options.bound_condition, plan.definition.schema)
        where = bound if plan.where is None else Predicate.all_of([plan.where, bound])
        plan = replace(plan, where=where)
    return plan


def default_read_partitions(plan: ReadPlan) -> int:
    """Return how many tasks a read has by default."""
    most = max(1, -(-plan.stored_bytes // PARTITION_BYTES))
    pruning = plan.pruning()
    if pruning.ranges != 0:
        return most
    return max(1, min(most, -(-pruning.points // PARTITION_POINTS)))
