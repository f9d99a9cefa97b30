"""What a store says of its tables: how large they are, how they are defined, where they lie.

Promises: everything is of one epoch. Rows are counted only where that is asked for; else they are
estimated from the statistics that the log has of each segment.
Does not know: how it is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from relstate.storage import KeyColumn, ReadPlan, Store, TableDefinition
from relstate.vnode import shard_ranges


@dataclass(frozen=True, slots=True)
class TableSummary:
    """One table among others.

    ``rows`` is the number of rows, or, where ``rows_estimated``, what the segments' statistics
    let expect: every upsert is taken for a new row, every delete for the end of one.
    ``stored_bytes`` are those of keys and values, ``segments`` the files that are read for it;
    ``data_epoch`` is that of its last change.
    """

    name: str
    rows: int
    rows_estimated: bool
    stored_bytes: int
    segments: int
    data_epoch: int


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    """A column; ``type`` in Spark's DDL. Places in the keys count from 1, None is outside."""

    name: str
    type: str
    nullable: bool
    primary_key_place: int | None
    primary_key_order: str | None
    distribution_key_place: int | None


@dataclass(frozen=True, slots=True)
class Properties:
    """What a table does with its rows; ``ttl`` and ``tombstone_retention`` are in seconds."""

    merge: str
    version_column: str | None
    ttl: int | None
    append_only: bool
    tombstone_retention: int


@dataclass(frozen=True, slots=True)
class ShardDescription:
    """What a shard, the vnodes from ``first_vnode`` to ``last_vnode``, holds of a table."""

    shard: int
    first_vnode: int
    last_vnode: int
    segments: int
    stored_bytes: int


@dataclass(frozen=True, slots=True)
class TableDescription:
    """All that a store knows of one table without reading its rows."""

    name: str
    table_id: int
    created_epoch: int
    data_epoch: int
    schema_version: int
    columns: tuple[ColumnDescription, ...]
    properties: Properties
    shards: tuple[ShardDescription, ...]


def summarize_tables(
    store: Store, progress: Callable[[int, int], None], *, counted: bool
) -> tuple[TableSummary, ...]:
    """Return a summary of every table at the latest epoch; ``counted`` reads their keys.

    ``progress`` takes how many tables are done, and of how many.
    """
    state = store.state
    names = state.table_names()
    found = []
    for done, name in enumerate(names):
        progress(done, len(names))
        plan = store.read_plan(name, epoch=state.epoch)
        found.append(_summary(store, plan, state.table(name).data_epoch, counted))
    return tuple(found)


def _summary(store: Store, plan: ReadPlan, data_epoch: int, counted: bool) -> TableSummary:
    rows = _count(store, plan) if counted else _estimated_rows(plan)
    return TableSummary(
        plan.definition.name, rows, not counted, plan.stored_bytes, len(plan.segments), data_epoch
    )


def _count(store: Store, plan: ReadPlan) -> int:
    return store.at(plan.epoch).table(plan.definition.name).count()


def _estimated_rows(plan: ReadPlan) -> int:
    statistics = [
        table
        for placed in plan.segments
        for table in placed.record.tables
        if table.table_id == plan.definition.table_id
    ]
    # Of its entries those that are no deletes add a row, and a delete takes one away.
    return max(0, sum(table.rows - 2 * table.deletes for table in statistics))


def describe_table(store: Store, name: str) -> TableDescription:
    """Return the description of a table at the latest epoch. TableNotFoundError."""
    state = store.state
    found = state.table(name)
    definition = found.definition
    plan = store.read_plan(name, epoch=state.epoch)
    ranges = shard_ranges(state.settings.vnode_count, state.settings.shards)
    return TableDescription(
        definition.name,
        definition.table_id,
        definition.created_epoch,
        found.data_epoch,
        definition.schema.version,
        tuple(_columns(definition)),
        _properties(definition),
        tuple(_shards(plan, ranges)),
    )


def _columns(definition: TableDefinition) -> Iterator[ColumnDescription]:
    schema = definition.schema
    keys = {key.column_id: (place, key) for place, key in enumerate(schema.primary_key, 1)}
    places = {column_id: place for place, column_id in enumerate(schema.distribution_key, 1)}
    for column in schema.columns:
        place, key = keys.get(column.id, (None, None))
        order = None if key is None else _order(key)
        yield ColumnDescription(
            column.name, str(column.type), column.nullable, place, order, places.get(column.id)
        )


def _order(key: KeyColumn) -> str:
    direction = "DESC" if key.descending else "ASC"
    return f"{direction} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


def _properties(definition: TableDefinition) -> Properties:
    found = definition.properties
    names = {column.id: column.name for column in definition.schema.columns}
    version_column = None if found.version_column is None else names[found.version_column]
    return Properties(
        found.merge, version_column, found.ttl, found.append_only, found.tombstone_retention
    )


def _shards(plan: ReadPlan, ranges: Sequence[range]) -> Iterator[ShardDescription]:
    """Yield the shards in which the table has anything."""
    table_id = plan.definition.table_id
    sizes = [
        table.shard_bytes
        for placed in plan.segments
        for table in placed.record.tables
        if table.table_id == table_id
    ]
    for shard, vnodes in enumerate(ranges):
        held = [shard_bytes[shard] for shard_bytes in sizes if shard_bytes[shard]]
        if held:
            yield ShardDescription(shard, vnodes.start, vnodes.stop - 1, len(held), sum(held))
