"""The commands ``get``, ``scan`` and ``changes``: rows of a table, and what changed in them.

Does not know: how rows are found (figures).
"""

from __future__ import annotations

import click

from relstate.connector.figures.rows import Rows, changed_rows, find_row, scan_rows
from relstate.connector.row_json import json_rows
from relstate.storage import Store, types

from .terminal import (
    Heading,
    chosen_epoch,
    columns_option,
    epoch_options,
    json_option,
    limit_option,
    show_line,
    show_message,
    show_table,
    store_argument,
    table_argument,
)

_PAGE = 1000
# So that a negative number is a value of the key, not an option.
_NEGATIVE = {"ignore_unknown_options": True}


@click.command(short_help="Show one row.", context_settings=_NEGATIVE)
@store_argument
@table_argument
@click.argument("key", metavar="KEY...", nargs=-1, required=True, type=click.UNPROCESSED)
@epoch_options
@json_option
@click.pass_context
def get(
    context: click.Context,
    path: str,
    table: str,
    key: tuple[str, ...],
    epoch: int | None,
    moment: str | None,
    as_json: bool,
) -> None:
    """Show the row of TABLE in STORE whose primary key is KEY; end with 1 if there is none.

    Give the key's values in its order, each as --json shows it.
    """
    with Store.open(path) as store:
        rows = find_row(store, table, key, chosen_epoch(store, epoch, moment))
        objects = (row for batch in rows.batches for row in json_rows(batch, rows.types))
        row = next(objects, None)
    if row is None:
        show_message(f"{table} has no row with the key {', '.join(key)}")
    if as_json:
        show_line(row)
    elif row is not None:
        show_table([Heading("column"), Heading("value")], row.items())
    context.exit(int(row is None))


@click.command(short_help="Show rows.")
@store_argument
@table_argument
@click.option("--where", metavar="EXPR", help="A SQL expression in Spark's dialect.")
@columns_option
@limit_option("rows")
@epoch_options
@json_option
def scan(
    path: str,
    table: str,
    where: str | None,
    columns: tuple[str, ...] | None,
    limit: int | None,
    epoch: int | None,
    moment: str | None,
    as_json: bool,
) -> None:
    """Show the rows of TABLE in STORE, in the order of the primary key.

    JSON is one object per line. Conditions of --where on the key are looked up, not scanned for;
    timestamps in it are in UTC unless they name a zone.
    """
    with Store.open(path) as store:
        epoch = chosen_epoch(store, epoch, moment)
        rows = scan_rows(store, table, columns=columns, where=where, limit=limit, epoch=epoch)
        show_rows(rows, as_json=as_json)


@click.command(short_help="Show what changed.")
@store_argument
@table_argument
@click.option("--from", "first", metavar="EPOCH", type=int, required=True, help="The first epoch.")
@click.option("--to", "last", metavar="EPOCH", type=int, help="The last; the latest by default.")
@click.option("--where", metavar="EXPR", help="A SQL expression over all columns that are shown.")
@columns_option
@limit_option("changes")
@json_option
def changes(
    path: str,
    table: str,
    first: int,
    last: int | None,
    where: str | None,
    columns: tuple[str, ...] | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """Show what changed in TABLE of STORE from one epoch to another, both included.

    After the table's columns come _change_type, _commit_version (the epoch) and
    _commit_timestamp. The changes of one key are in the order of the epochs. JSON is one object
    per line.
    """
    with Store.open(path) as store:
        rows = changed_rows(store, table, first, last, columns=columns, where=where, limit=limit)
        show_rows(rows, as_json=as_json)


def show_rows(rows: Rows, *, as_json: bool) -> None:
    """Show rows as they come: one line of JSON for each, or tables of a thousand."""
    if as_json:
        for batch in rows.batches:
            for row in json_rows(batch, rows.types):
                show_line(row)
        return
    headings = [
        Heading(name, counted=isinstance(data_type, types.NUMBERS))
        for name, data_type in zip(rows.names, rows.types, strict=True)
    ]
    shown = 0
    for batch in rows.batches:
        for start in range(0, batch.num_rows, _PAGE):
            page = json_rows(batch.slice(start, _PAGE), rows.types)
            show_table(headings, (row.values() for row in page))
        shown += batch.num_rows
    if not shown:
        show_table(headings, [])
