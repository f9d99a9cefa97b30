"""The commands ``tables`` and ``describe``: the tables of a store, and the description of a table.

Promises: everything is of one epoch. Rows are counted only with ``--count``; otherwise they are
estimated from the statistics that the log has of each segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

import click

from relstate.storage import ReadPlan, Store, TableDefinition
from relstate.vnode import shard_ranges

from .terminal import (
    Heading,
    count,
    json_option,
    progress,
    show_document,
    show_message,
    show_table,
    show_text,
    size,
    store_argument,
    table_argument,
)


@click.command(short_help="List the tables.")
@store_argument
@click.option("--count", "counted", is_flag=True, help="Count the rows, which reads all keys.")
@json_option
def tables(path: str, counted: bool, as_json: bool) -> None:
    """List the tables of STORE: rows, stored bytes, live segments, epoch of the last change.

    Rows are estimated from statistics, and shown with a ~, unless --count is given.
    """
    with Store.open(path) as store, progress("Reading tables") as report:
        summaries = summarize_tables(store, report, counted=counted)
    if as_json:
        show_document(summaries)
    else:
        _show_summaries(summaries)


def _show_summaries(summaries: tuple[TableSummary, ...]) -> None:
    headings = [
        Heading("table"),
        Heading("rows", counted=True),
        Heading("stored", counted=True),
        Heading("segments", counted=True),
        Heading("data epoch", counted=True),
    ]
    show_table(
        headings,
        [
            (
                table.name,
                ("~" if table.rows_estimated else "") + count(table.rows),
                size(table.stored_bytes),
                count(table.segments),
                count(table.data_epoch),
            )
            for table in summaries
        ],
    )
    if any(table.rows_estimated for table in summaries):
        show_message("~ rows are estimated from statistics; --count counts them")


@click.command(short_help="Describe a table.")
@store_argument
@table_argument
@json_option
def describe(path: str, table: str, as_json: bool) -> None:
    """Describe a TABLE of STORE: columns, keys, properties, and files per shard."""
    with Store.open(path) as store:
        description = describe_table(store, table)
    if as_json:
        show_document(description)
    else:
        _show_description(description)


def _show_description(description: TableDescription) -> None:
    show_text(
        f"{description.name}: table {description.table_id}, "
        f"created in epoch {description.created_epoch}, "
        f"last changed in epoch {description.data_epoch}, "
        f"schema version {description.schema_version}"
    )
    show_text("")
    headings = ["column", "type", "nullable", "primary key", "order", "distribution key"]
    show_table(
        [Heading(text) for text in headings],
        [
            (
                column.name,
                column.type,
                "yes" if column.nullable else "no",
                column.primary_key_place or "",
                column.primary_key_order or "",
                column.distribution_key_place or "",
            )
            for column in description.columns
        ],
    )
    show_text("")
    show_table([Heading("property"), Heading("value")], asdict(description.properties).items())
    show_text("")
    _show_shards(description)


def _show_shards(description: TableDescription) -> None:
    headings = [
        Heading("shard", counted=True),
        Heading("vnodes"),
        Heading("segments", counted=True),
        Heading("stored", counted=True),
    ]
    show_table(
        headings,
        [
            (
                shard.shard,
                f"{shard.first_vnode}-{shard.last_vnode}",
                count(shard.segments),
                size(shard.stored_bytes),
            )
            for shard in description.shards
        ],
    )


@dataclass(frozen=True, slots=True)
class TableSummary:
    """A table in a list of tables.

    ``rows`` is the number of rows or, if ``rows_estimated``, an estimate from the segments'
    statistics: every upsert counts as a new row, every delete as one row less.
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
    """A column; ``type`` is Spark's DDL. Positions in keys count from 1; None: not in the key."""

    name: str
    type: str
    nullable: bool
    primary_key_place: int | None
    primary_key_order: str | None
    distribution_key_place: int | None


@dataclass(frozen=True, slots=True)
class Properties:
    """The properties of a table; ``ttl`` and ``tombstone_retention`` are in seconds.

    ``version_column``: the names of all of them, with commas.
    """

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
    """What a store knows about a table without reading its rows."""

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
    summaries = []
    for done, name in enumerate(names):
        progress(done, len(names))
        plan = store.read_plan(name, epoch=state.epoch)
        summaries.append(_summary(store, plan, state.table(name).data_epoch, counted))
    return tuple(summaries)


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
        for segment in plan.segments
        for table in segment.record.tables
        if table.table_id == plan.definition.table_id
    ]
    # An entry that is not a delete adds a row, and a delete removes one.
    return max(0, sum(table.rows - 2 * table.deletes for table in statistics))


def describe_table(store: Store, name: str) -> TableDescription:
    """Return the description of a table at the latest epoch. TableNotFoundError."""
    state = store.state
    table = state.table(name)
    definition = table.definition
    plan = store.read_plan(name, epoch=state.epoch)
    ranges = shard_ranges(state.settings.vnode_count, state.settings.shards)
    return TableDescription(
        definition.name,
        definition.table_id,
        definition.created_epoch,
        table.data_epoch,
        definition.schema.version,
        tuple(_columns(definition)),
        _properties(definition),
        tuple(_shards(plan, ranges)),
    )


def _columns(definition: TableDefinition) -> Iterator[ColumnDescription]:
    schema = definition.schema
    keys = {key.column_id: (position, key) for position, key in enumerate(schema.primary_key, 1)}
    positions = {
        column_id: position for position, column_id in enumerate(schema.distribution_key, 1)
    }
    for column in schema.columns:
        if column == schema.row_id:
            continue
        position, key = keys.get(column.id, (None, None))
        order = None if key is None else key.order
        yield ColumnDescription(
            column.name,
            str(column.type),
            column.nullable,
            position,
            order,
            positions.get(column.id),
        )


def _properties(definition: TableDefinition) -> Properties:
    properties = definition.properties
    names = {column.id: column.name for column in definition.schema.columns}
    version_column = ", ".join(names[i] for i in properties.version_columns) or None
    return Properties(
        properties.merge,
        version_column,
        properties.ttl,
        properties.append_only,
        properties.tombstone_retention,
    )


def _shards(plan: ReadPlan, ranges: Sequence[range]) -> Iterator[ShardDescription]:
    """Yield the shards in which the table has anything."""
    table_id = plan.definition.table_id
    sizes = [
        table.shard_bytes
        for segment in plan.segments
        for table in segment.record.tables
        if table.table_id == table_id
    ]
    for shard, vnodes in enumerate(ranges):
        held = [shard_bytes[shard] for shard_bytes in sizes if shard_bytes[shard]]
        if held:
            yield ShardDescription(shard, vnodes.start, vnodes.stop - 1, len(held), sum(held))
