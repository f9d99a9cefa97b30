"""The commands ``tables`` and ``describe``: what tables there are, and what one is."""

from __future__ import annotations

from dataclasses import asdict

import click

from relstate.storage import Store

from .arguments import json_option, store_argument, table_argument
from .catalog import TableDescription, TableSummary, describe_table, summarize_tables
from .screen import Heading, count, progress, show_document, show_table, show_text, size, tell


@click.command(short_help="List the tables.")
@store_argument
@click.option("--count", "counted", is_flag=True, help="Count the rows, which reads all keys.")
@json_option
def tables(path: str, counted: bool, as_json: bool) -> None:
    """List the tables of STORE: rows, stored bytes, live segments, epoch of the last change.

    Rows are estimated from statistics, and shown with a ~, unless --count is given.
    """
    with Store.open(path) as store, progress("Reading tables") as report:
        found = summarize_tables(store, report, counted=counted)
    if as_json:
        show_document(found)
    else:
        _show_summaries(found)


def _show_summaries(found: tuple[TableSummary, ...]) -> None:
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
                one.name,
                ("~" if one.rows_estimated else "") + count(one.rows),
                size(one.stored_bytes),
                count(one.segments),
                count(one.data_epoch),
            )
            for one in found
        ],
    )
    if any(one.rows_estimated for one in found):
        tell("~ rows are estimated from statistics; --count counts them")


@click.command(short_help="Describe a table.")
@store_argument
@table_argument
@json_option
def describe(path: str, table: str, as_json: bool) -> None:
    """Describe a TABLE of STORE: columns, keys, properties, and files per shard."""
    with Store.open(path) as store:
        found = describe_table(store, table)
    if as_json:
        show_document(found)
    else:
        _show_description(found)


def _show_description(found: TableDescription) -> None:
    show_text(
        f"{found.name}: table {found.table_id}, created in epoch {found.created_epoch}, "
        f"last changed in epoch {found.data_epoch}, schema version {found.schema_version}"
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
            for column in found.columns
        ],
    )
    show_text("")
    show_table([Heading("property"), Heading("value")], asdict(found.properties).items())
    show_text("")
    _show_shards(found)


def _show_shards(found: TableDescription) -> None:
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
            for shard in found.shards
        ],
    )
