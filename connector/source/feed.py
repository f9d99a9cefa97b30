"""Planning a batch read of a change feed: from its options to its schema and its reader.

Promises: the range of epochs is chosen once, here, and all rows come under the table's schema at
its end. A bound that is a version must be an epoch that can be read; one that is a time means the
first commit at or after it, or the last at or before it, and there may be none.
Does not know: Spark's session, or how changes are found.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from pyspark.sql.types import StructType

from relstate.connector.options import Bound, FeedOptions
from relstate.connector.types import arrow_schema_of, check_feed_readable, struct_of
from relstate.storage import FeedPlan, FeedSnapshot, Store, TableSchema, errors, feed_fields

from .reader import PARTITION_BYTES, TableReader, check_columns

_MICROSECOND = timedelta(microseconds=1)


def feed_schema(options: FeedOptions) -> StructType:
    """Return the schema of a feed with these options."""
    with Store.open(options.path) as store:
        schema = _schema_at(store, options.table, last_epoch(store, options.end))
    return struct_of(feed_fields(schema, options.columns))


def plan_feed_reader(options: FeedOptions, schema: StructType) -> TableReader:
    """Return the reader of the columns of ``schema`` over the range of epochs chosen now.

    The errors of `Store.feed_plan`; SchemaMismatchError for columns that the feed does not have.
    """
    with Store.open(options.path) as store:
        last = last_epoch(store, options.end)
        first = min(first_epoch(store, options.start), last + 1)
        names = checked_names(_schema_at(store, options.table, last), options, schema)
        plan = feed_plan(store, options, first, last, names)
    partitions = options.partitions or default_partitions(plan)
    return TableReader(plan, partitions, arrow_schema_of(schema))


def feed_plan(
    store: Store, options: FeedOptions, first: int, last: int, names: Sequence[str]
) -> FeedPlan:
    """Return the plan of the changes from one epoch to another, in the form the options name."""
    return store.feed_plan(
        options.table,
        first,
        last,
        deduplication=options.deduplication,
        update_images=options.update_images,
        columns=names,
    )


def checked_names(table: TableSchema, options: FeedOptions, schema: StructType) -> tuple[str, ...]:
    """Return the names of the columns of ``schema``. Errors if a feed of the table lacks one."""
    names = tuple(field.name for field in check_feed_readable(table, schema))
    check_columns(options.columns, names)
    return names


def default_partitions(plan: FeedPlan | FeedSnapshot) -> int:
    """Return how many tasks read a plan by default."""
    return max(1, -(-plan.stored_bytes // PARTITION_BYTES))


def _schema_at(store: Store, table: str, epoch: int) -> TableSchema:
    return store.read_plan(table, epoch=epoch).definition.schema


# --- The epochs that options name ----------------------------------------------------------------


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


def last_epoch(store: Store, end: Bound) -> int:
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
