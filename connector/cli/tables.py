"""The commands ``create``, ``tables`` and ``describe``: a store, its tables, one of them.

Promises: everything is of one epoch. Rows are counted only with ``--count``; otherwise they are
estimated from the statistics that the log has of each segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import click

from relstate.connector.figures.tables import Properties, TableDescription, describe_table
from relstate.connector.quantities import count, size
from relstate.storage import DEFAULT_RETENTION, Store, duration_text, figures

from .terminal import (
    Heading,
    duration_option,
    json_option,
    progress,
    show_document,
    show_message,
    show_table,
    show_text,
    store_argument,
    table_argument,
)


@click.command(short_help="Create an empty store.")
@store_argument
@duration_option(
    "--retention", "How long older epochs stay readable: seconds, or '7 days'; 1 day by default."
)
@click.option("--exist-ok", is_flag=True, help="Leave a store that is there already as it is.")
@json_option
def create(path: str, retention: int | None, exist_ok: bool, as_json: bool) -> None:
    """Create an empty store in the folder STORE.

    Fill it with `relstate load STORE TABLE FILE --create`, by SQL, or through Spark.
    """
    seconds = DEFAULT_RETENTION if retention is None else retention
    with Store.create(path, retention=seconds, exist_ok=exist_ok) as store:
        created = CreatedStore(store.path, store.known_epoch, store.settings.retention)
    if retention is not None and created.retention != retention:
        show_message(
            f"{created.path} was there already: its epochs stay readable for "
            f"{duration_text(created.retention)}, which is set when a store is created, not for "
            f"{duration_text(retention)}"
        )
    if as_json:
        show_document(created)
    else:
        retention_text = duration_text(created.retention)
        show_text(
            f"{created.path}: epoch {created.epoch}; epochs stay readable for {retention_text}"
        )


@dataclass(frozen=True, slots=True)
class CreatedStore:
    """A store that is there now: its epoch, and its retention in seconds."""

    path: str
    epoch: int
    retention: int


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
        description = describe_table(store.state, table)
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
    headings = ["column", "type", "nullable", "primary key", "order", "distribution key", "value"]
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
                column.value_clause,
            )
            for column in description.columns
        ],
    )
    show_text("")
    show_table([Heading("property"), Heading("value")], _shown_properties(description.properties))
    show_text("")
    _show_shards(description)


_DURATIONS = ("ttl", "tombstone_retention", "transaction_retention")


def _shown_properties(properties: Properties) -> Iterator[tuple[str, object]]:
    """Yield names and values, durations as text."""
    for name, value in asdict(properties).items():
        is_duration = name in _DURATIONS and value is not None
        yield name, duration_text(value) if is_duration else value


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


def summarize_tables(
    store: Store, progress: Callable[[int, int], None], *, counted: bool
) -> tuple[TableSummary, ...]:
    """Return a summary of every table at the latest epoch; ``counted`` reads their keys.

    ``progress`` takes how many tables are done, and of how many.
    """
    state = store.state
    tables = [table for table in figures.table_sizes(state) if table.kind == "table"]
    summaries = []
    for table_count, table in enumerate(tables):
        progress(table_count, len(tables))
        rows = store.at(state.epoch).table(table.name).count() if counted else table.rows
        summaries.append(
            TableSummary(
                table.name, rows, not counted, table.stored_bytes, table.files, table.data_epoch
            )
        )
    return tuple(summaries)
