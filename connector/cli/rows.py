"""The commands ``get``, ``scan`` and ``changes``: rows of a table, and what changed in them.

Promises: a read is of one epoch; at most the rest of a batch is read beyond the limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import click
import pyarrow as pa

from relstate.storage import Store, Table, arrow, no_key_error, types
from relstate.storage import types as t

from .key import parse_key
from .terminal import (
    Heading,
    at_option,
    columns_option,
    json_option,
    limit_option,
    show_line,
    show_message,
    show_table,
    store_argument,
    table_argument,
)
from .value import json_rows

_PAGE = 1000
_NUMBERS = t.TinyInt | t.SmallInt | t.Int | t.BigInt | t.Float | t.Double | t.Decimal

# So that a negative number is a value of the key, not an option.
_NEGATIVE = {"ignore_unknown_options": True}


@click.command(short_help="Show one row.", context_settings=_NEGATIVE)
@store_argument
@table_argument
@click.argument("key", metavar="KEY...", nargs=-1, required=True, type=click.UNPROCESSED)
@at_option
@json_option
@click.pass_context
def get(
    context: click.Context,
    path: str,
    table: str,
    key: tuple[str, ...],
    epoch: int | None,
    as_json: bool,
) -> None:
    """Show the row of TABLE in STORE whose primary key is KEY; end with 1 if there is none.

    Give the key's values in its order, each as --json shows it.
    """
    with Store.open(path) as store:
        rows = find_row(store, table, key, epoch)
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
@at_option
@json_option
def scan(
    path: str,
    table: str,
    where: str | None,
    columns: tuple[str, ...] | None,
    limit: int | None,
    epoch: int | None,
    as_json: bool,
) -> None:
    """Show the rows of TABLE in STORE, in the order of the primary key.

    JSON is one object per line. Conditions of --where on the key are looked up, not scanned for;
    timestamps in it are in UTC unless they name a zone.
    """
    with Store.open(path) as store:
        rows = scan_rows(store, table, columns=columns, where=where, limit=limit, epoch=epoch)
        show_rows(rows, as_json=as_json)


@click.command(short_help="Show what changed.")
@store_argument
@table_argument
@click.option("--from", "first", metavar="EPOCH", type=int, required=True, help="The first epoch.")
@click.option("--to", "last", metavar="EPOCH", type=int, help="The last; the latest by default.")
@json_option
def changes(path: str, table: str, first: int, last: int | None, as_json: bool) -> None:
    """Show what changed in TABLE of STORE from one epoch to another, both included.

    After the table's columns come _change_type, _commit_version (the epoch) and
    _commit_timestamp. The changes of one key are in the order of the epochs. JSON is one object
    per line.
    """
    with Store.open(path) as store:
        show_rows(changed_rows(store, table, first, last), as_json=as_json)


def show_rows(rows: Rows, *, as_json: bool) -> None:
    """Show rows as they come: one line of JSON for each, or tables of a thousand."""
    if as_json:
        for batch in rows.batches:
            for row in json_rows(batch, rows.types):
                show_line(row)
        return
    headings = [
        Heading(name, counted=isinstance(data_type, _NUMBERS))
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


@dataclass(frozen=True, slots=True)
class Rows:
    """Batches of rows, read lazily, and the names and types of their columns."""

    names: tuple[str, ...]
    types: tuple[types.DataType, ...]
    batches: Iterator[pa.RecordBatch]


def find_row(store: Store, name: str, words: Sequence[str], epoch: int | None) -> Rows:
    """Return the row with the key that the words are, or no row.

    TableNotFoundError, EpochNotFoundError, EpochExpiredError; the errors of `parse_key`,
    ValueRangeError for a value that does not fit the key's column, UsageError for a table without
    a primary key.
    """
    table = _table(store, name, epoch)
    if table.schema.row_id is not None:
        raise no_key_error(name, "no row can be looked up by key: use the command scan")
    key = parse_key(words, [column.field for column in table.schema.key_columns])
    return _rows(table, None, iter([table.get_rows([key])]))


def scan_rows(
    store: Store,
    name: str,
    *,
    columns: Sequence[str] | None,
    where: str | None,
    limit: int | None,
    epoch: int | None,
) -> Rows:
    """Return the first rows for which an expression is true, in the order of the primary key.

    Without a limit, or an expression, all of them. TableNotFoundError, EpochNotFoundError,
    EpochExpiredError; UnsupportedExpressionError and SchemaMismatchError for the expression,
    SchemaError for an unknown column.
    """
    table = _table(store, name, epoch)
    rows = _rows(table, columns, table.scan(columns, where=where, ordered=True))
    return rows if limit is None else Rows(rows.names, rows.types, first(rows.batches, limit))


def changed_rows(store: Store, name: str, first_epoch: int, last_epoch: int | None) -> Rows:
    """Return what the commits of some epochs, both ends included, changed in a table's rows.

    Without ``last_epoch`` to the latest. The columns are those of `Store.changes`, and so are the
    errors.
    """
    plan = store.jobs.feed_plan(name, first_epoch, last_epoch)
    own = {column.name: column.type for column in plan.definition.schema.columns}
    fields = arrow.fields_of(plan.arrow_schema())
    return Rows(
        tuple(field.name for field in fields),
        # Arrow does not know all that a column's type says.
        tuple(own.get(field.name, field.type) for field in fields),
        plan.read(environment=store.environment),
    )


def first(batches: Iterable[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    """Yield the first rows of some batches, ``limit`` at most."""
    left = limit
    if not left:
        return
    for batch in batches:
        yield batch.slice(0, left)
        left -= batch.num_rows
        if left <= 0:
            return


def _table(store: Store, name: str, epoch: int | None) -> Table:
    return store.at(store.epoch if epoch is None else epoch).table(name)


def _rows(table: Table, names: Sequence[str] | None, batches: Iterator[pa.RecordBatch]) -> Rows:
    schema = table.schema
    columns = schema.visible_columns if names is None else [schema.column(name) for name in names]
    return Rows(
        tuple(column.name for column in columns), tuple(column.type for column in columns), batches
    )
