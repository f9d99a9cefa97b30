"""Batch reads: of a table at one epoch, or of what changed in a range of epochs.

Promises: the epochs are chosen once, when the read is planned; all tasks of it see these, however
long they wait, and none reads the log. What cannot be read fails on the driver, before a task runs.
Batches have exactly the Arrow schema that Spark expects. A bound of a change feed that is a version
must be an epoch that can be read; one that is a time means the first commit at or after it, or the
last at or before it, and there may be none. All changes come under the table's schema at the end of
the range.
Does not know: Spark's session, which the processes that plan do not have; how rows are stored, or
how changes are found.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias, Union

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from relstate.connector import catalog_table
from relstate.connector.failure import strip_traceback, strip_tracebacks
from relstate.connector.options import (
    Bound,
    FeedOptions,
    ReadOptions,
    any_feed_options,
    feed_options,
    is_feed,
    read_options,
)
from relstate.connector.types import (
    arrow_schema_of,
    check_feed_readable,
    check_readable,
    named_columns,
    passes_as_is,
    struct_of,
    struct_type,
)
from relstate.storage import (
    ReadPlan,
    Store,
    TableSchema,
    arrow,
    cast,
    errors,
    feed_fields,
)

from .change_events import EventPlan, check_event_schema, event_columns, feed_schema_of

if TYPE_CHECKING:
    from relstate.storage import AggregatePlan, FeedPlan, FeedSnapshot, LimitedPlan

# What the driver reads by itself at most, in stored bytes: a task costs more than reading them.
DRIVER_BYTES = 8 << 20
# Bytes to examine per partition by default, until there are so many partitions; and of a larger
# read, as Spark divides files: a task in which Spark groups rows costs up to 0.25 s of processor
# time.
_PARTITION_BYTES, _SMALL_PARTITIONS, _LARGE_PARTITION_BYTES = 32 << 20, 8, 128 << 20
# So many keys, looked up singly, make a partition.
PARTITION_POINTS = 4096

ChangePlan: TypeAlias = Union["FeedPlan", "FeedSnapshot", EventPlan]
Plan: TypeAlias = Union[ReadPlan, "AggregatePlan", "LimitedPlan", ChangePlan]

_MICROSECOND = timedelta(microseconds=1)


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
def plan_reader(texts: Mapping[str, str], schema: StructType) -> TableReader:
    """Return the reader of the columns of ``schema`` at the epoch, or of the epochs, chosen now.

    Errors as for `plan_schema`; SchemaMismatchError also where a column has another type.
    """
    texts = catalog_table.stored_options(schema, texts)
    if is_feed(texts):
        return _plan_feed_reader(feed_options(texts), schema)
    options = read_options(texts)
    plan = _plan(options)
    if options.partial_aggregate is not None:
        return _plan_aggregate_reader(options, plan, schema)
    columns = check_readable(plan.definition.schema, schema)
    names = tuple(column.name for column in columns)
    _check_columns(options.columns, names)
    plan = replace(plan, columns=names)
    partitions = options.partitions or default_read_partitions(plan)
    if options.row_limit is not None:
        from relstate.storage import LimitedPlan, RowLimit

        limit = RowLimit.from_json(options.row_limit, plan.definition.schema)
        return TableReader(LimitedPlan(plan, limit), partitions, arrow_schema_of(schema))
    return TableReader(plan, partitions, arrow_schema_of(schema))


def _plan_aggregate_reader(options: ReadOptions, plan: ReadPlan, schema: StructType) -> TableReader:
    """Return the reader of what tasks add up of a plan's rows, whose fields ``schema`` must be."""
    from relstate.storage import AggregatePlan, PartialAggregate

    text = options.partial_aggregate or ""
    aggregate = PartialAggregate.from_json(text, plan.definition.schema)
    fields = arrow_schema_of(schema)
    if [field.type for field in fields] != [
        arrow.arrow_type(field.type) for field in aggregate.fields
    ]:
        raise errors.OptionError("the schema given is not that of the partial aggregate")
    added_up = AggregatePlan.of(plan, aggregate)
    partitions = options.partitions or default_read_partitions(added_up.plan)
    return TableReader(added_up, partitions, fields)


def _schema_of(texts: Mapping[str, str]) -> StructType:
    if is_feed(texts):
        return _feed_schema(any_feed_options(texts))
    options = read_options(texts)
    return struct_type(named_columns(_plan(options).definition.schema, options.columns))


def _plan(options: ReadOptions) -> ReadPlan:
    with Store.open(options.path) as store:
        epoch = options.version if options.time is None else store.epoch_at(options.time)
        plan = store.read_plan(options.table, epoch=epoch, time=options.expires_by)
        store.state_at(plan.epoch).check_populated(plan.definition.table_id)
    if options.expiry_paths is not None:
        plan = plan.showing_expiries(tuple(map(tuple, json.loads(options.expiry_paths))))
    if options.where is not None:
        plan = plan.filtered(options.where, options.time_zone)
    if options.bound_condition is not None:
        from relstate.storage import Predicate

        bound = Predicate.from_json(options.bound_condition, plan.definition.schema)
        where = bound if plan.where is None else Predicate.all_of([plan.where, bound])
        plan = replace(plan, where=where)
    return plan


def partitions_of(size: int) -> int:
    """Return how many tasks read so many bytes by default."""
    small = min(-(-size // _PARTITION_BYTES), _SMALL_PARTITIONS)
    return max(1, small, -(-size // _LARGE_PARTITION_BYTES))


def default_read_partitions(plan: ReadPlan) -> int:
    """Return how many tasks a read has by default."""
    most = partitions_of(plan.examined_bytes())
    pruning = plan.pruning()
    if pruning.ranges != 0:
        return most
    return max(1, min(most, -(-pruning.points // PARTITION_POINTS)))


# --- The reader ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class VnodePartition(InputPartition):
    """What one task reads: the vnodes of one parallel unit."""

    vnodes: tuple[range, ...]


class TableReader(DataSourceReader):
    """Reads one plan, in ``partitions``, as batches of ``schema``. Pickled to the tasks."""

    def __init__(self, plan: Plan, partitions: int, schema: pa.Schema) -> None:
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
    plan: Plan,
    vnodes: tuple[range, ...],
    schema: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a plan in some vnodes to Spark, as batches of ``schema``."""
    return strip_tracebacks(_in_schema(batch, schema) for batch in plan.read(vnodes))


def _check_columns(names: Sequence[str] | None, schema_names: Sequence[str]) -> None:
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


# --- Change feeds --------------------------------------------------------------------------------


def _feed_schema(options: FeedOptions) -> StructType:
    """Return the schema of a feed with these options."""
    with Store.open(options.path) as store:
        schema = _schema_at(store, options.table, _last_epoch(store, options.end))
    messages = feed_schema_of(options, schema)
    return struct_of(feed_fields(schema, options.columns)) if messages is None else messages


def _plan_feed_reader(options: FeedOptions, schema: StructType) -> TableReader:
    """Return the reader of the columns of ``schema`` over the range of epochs chosen now.

    The errors of `Jobs.feed_plan`; SchemaMismatchError for columns that the feed does not have.
    """
    with Store.open(options.path) as store:
        last = _last_epoch(store, options.end)
        first = min(first_epoch(store, options.start), last + 1)
        names = checked_names(_schema_at(store, options.table, last), options, schema)
        plan = feed_plan(store, options, first, last, names)
    partitions = options.partitions or default_partitions(plan)
    return TableReader(in_format(plan, options), partitions, arrow_schema_of(schema))


def read_small_feed(store: Store, options: FeedOptions) -> tuple[StructType, pa.Table] | None:
    """Return the schema and the rows of a feed, read in this process; None if it is not small.

    None also if Spark would not take the values of a column as they are. Errors as of a reader.
    """
    last = _last_epoch(store, options.end)
    first = min(first_epoch(store, options.start), last + 1)
    fields = feed_fields(_schema_at(store, options.table, last), options.columns)
    plan = feed_plan(store, options, first, last, [field.name for field in fields])
    if plan.stored_bytes > DRIVER_BYTES or not all(passes_as_is(field.type) for field in fields):
        return None
    struct = struct_of(fields)
    schema = arrow_schema_of(struct)
    batches = batches_of(plan, (range(plan.before.vnode_count),), schema)
    return struct, pa.Table.from_batches(batches, schema)


def in_format(plan: FeedPlan | FeedSnapshot, options: FeedOptions) -> ChangePlan:
    """Return a feed as rows, or as the messages that options ask for."""
    return plan if options.change_format is None else EventPlan.of(plan, options)


def feed_plan(
    store: Store, options: FeedOptions, first: int, last: int, names: Sequence[str]
) -> FeedPlan:
    """Return the plan of the changes from one epoch to another, in the form the options name."""
    return store.jobs.feed_plan(
        options.table,
        first,
        last,
        deduplication=options.deduplication,
        update_images=options.update_images,
        columns=names,
    )


def checked_names(table: TableSchema, options: FeedOptions, schema: StructType) -> tuple[str, ...]:
    """Return the names of the feed's columns that a read of ``schema`` needs.

    SchemaMismatchError if a feed of the table lacks one.
    """
    if options.change_format is not None:
        check_event_schema(schema)
        return event_columns(options, table)
    names = tuple(field.name for field in check_feed_readable(table, schema))
    _check_columns(options.columns, names)
    return names


def default_partitions(plan: ChangePlan) -> int:
    """Return how many tasks read a plan by default."""
    return partitions_of(plan.stored_bytes)


def _schema_at(store: Store, table: str, epoch: int) -> TableSchema:
    return store.read_plan(table, epoch=epoch).definition.schema


def first_epoch(store: Store, start: Bound) -> int:
    """Return the first epoch within a start; the one after the latest if there is none yet.

    EpochNotFoundError for a version in the future, EpochExpiredError for the time of a
    commit that has expired.
    """
    if start.version is not None:
        store.state.check_epoch(start.version)
        return start.version if start.inclusive else start.version + 1
    assert start.time is not None
    try:
        return store.epoch_at(start.time - _MICROSECOND if start.inclusive else start.time) + 1
    except errors.EpochNotFoundError:
        return 1


def _last_epoch(store: Store, end: Bound) -> int:
    """Return the last epoch within an end, the latest if there is no end.

    EpochNotFoundError for a version in the future or a time before the first commit,
    EpochExpiredError for one that has expired.
    """
    if end.version is not None:
        store.state.check_epoch(end.version)
        return end.version if end.inclusive else end.version - 1
    if end.time is None:
        return store.epoch
    return store.epoch_at(end.time if end.inclusive else end.time - _MICROSECOND)
