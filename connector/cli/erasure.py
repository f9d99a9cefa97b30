"""The command ``erase``: rows leave every file of a store.

Does not know: how.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

from relstate.connector.key_words import parse_key
from relstate.connector.quantities import count, size
from relstate.storage import ErasureReport, Store, errors, no_key_error, types

from .maintenance import local_spark
from .terminal import (
    Heading,
    json_option,
    progress,
    show_document,
    show_prose_table,
    show_table,
    store_argument,
    table_argument,
)


@click.command(short_help="Remove rows from every file.")
@store_argument
@table_argument
@click.option(
    "--key",
    "keys",
    metavar="KEY",
    multiple=True,
    help="A primary key: column=value,…, a JSON object, or the value of a single column.",
)
@click.option("--dry-run", is_flag=True, help="Only report what may hold the rows.")
@json_option
def erase(path: str, table: str, keys: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Delete rows of TABLE in STORE, and remove their bytes from every file of the store.

    Earlier epochs can no longer be read. Without --key, what was deleted before is removed. Views
    are refreshed, by a local Spark. If it is interrupted, run it again.
    """
    with Store.open(path) as store:
        rows = _rows(store, table, keys)
        if dry_run or not store.state.views:
            with progress("Erasing"):
                report = store.erase(table, rows, dry_run=dry_run)
        else:
            report = _erase_with_views(path, table, rows)
    if as_json:
        show_document(report)
    else:
        _show(report, dry_run=dry_run)


def _erase_with_views(path: str, table: str, rows: Sequence[Mapping[str, Any]]) -> ErasureReport:
    from relstate.connector.sql.database import connect

    with local_spark() as spark, progress("Erasing"):
        return connect(spark, path).erase(table, rows)


def _rows(store: Store, table: str, keys: Sequence[str]) -> list[dict[str, Any]]:
    if not keys:
        return []
    # InternalTableError for a view.
    schema = store.jobs.write_target(table).definition.schema
    if schema.row_id is not None:
        raise no_key_error(table, "delete its rows by SQL, then erase without --key")
    columns = [column.field for column in schema.key_columns]
    return [_row(key, columns) for key in keys]


def _row(key: str, columns: Sequence[types.Field]) -> dict[str, Any]:
    """Return a key that a user wrote, with a value of each column of the primary key."""
    words = _words(key, columns)
    names = {column.name.lower() for column in columns}
    if {name.lower() for name in words} != names or len(words) != len(names):
        described = ", ".join(map(str, columns))
        raise errors.SchemaMismatchError(
            f"--key {key!r} does not name the columns of the primary key ({described}): write "
            f"{','.join(f'{column.name}=VALUE' for column in columns)}, or a JSON object"
        )
    by_name = {name.lower(): word for name, word in words.items()}
    row: dict[str, Any] = {}
    for column in columns:
        word = by_name[column.name.lower()]
        row[column.name] = None if word is None else parse_key([word], [column])[0]
    return row


def _words(key: str, columns: Sequence[types.Field]) -> dict[str, str | None]:
    """Return the words of a key by the names of columns; None for a JSON null."""
    if key.startswith("{"):
        try:
            values = json.loads(key)
        except ValueError as error:
            raise errors.ValueRangeError(f"--key {key!r} is not a JSON object: {error}") from None
        return {name: _word(value) for name, value in values.items()}
    first = columns[0].name.lower()
    if len(columns) == 1:
        name, equals, word = key.partition("=")
        is_named = bool(equals) and name.strip().lower() == first
        return {columns[0].name: word if is_named else key}
    pairs = (part.partition("=") for part in key.split(","))
    return {name.strip(): word for name, _, word in pairs}


def _word(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _show(report: ErasureReport, *, dry_run: bool) -> None:
    rewritten = f"{count(report.files_rewritten)} ({size(report.bytes_rewritten)})"
    facts = [("epoch", count(report.epoch)), ("tables", ", ".join(report.tables))]
    if dry_run:
        facts.append(("files that may hold the rows", rewritten))
    else:
        removed = f"{count(report.files_removed)} ({size(report.bytes_removed)})"
        facts += [
            ("files rewritten", rewritten),
            ("files removed", removed),
            ("files of the log redacted", count(report.log_files)),
        ]
    show_table([Heading("what"), Heading("found", counted=True)], facts)
    show_prose_table([Heading("rows may remain in")], [(where,) for where in report.remaining])
