"""The commands ``views``, ``quarantine`` and ``history``.

What each view reflects, which rows were set aside, and what was committed when.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import click

from relstate.connector.commits import Commit, ViolationCount, commits
from relstate.connector.figures.quarantine import (
    QuarantineFigures,
    ViewQuarantineFigures,
    quarantine_figures,
    quarantined_rows,
    view_quarantine_figures,
)
from relstate.connector.figures.views import view_figures
from relstate.connector.quantities import count, size
from relstate.connector.row_json import json_rows
from relstate.storage import Store

from .completion import complete_tables
from .terminal import (
    Heading,
    json_option,
    limit_option,
    show_document,
    show_line,
    show_table,
    store_argument,
)


@click.command(short_help="List the materialized views.")
@store_argument
@json_option
def views(path: str, as_json: bool) -> None:
    """List the views of STORE: the epoch each reflects, what it lacks, what it reads and keeps.

    Rows behind are the entries that its tables have got since; seconds count from the first.
    """
    with Store.open(path) as store:
        listed = view_figures(store, store.state)
    if as_json:
        show_document(listed)
        return
    headings = [
        Heading("view"),
        Heading("reflects", counted=True),
        Heading("status"),
        Heading("rows behind", counted=True),
        Heading("seconds behind", counted=True),
        Heading("units", counted=True),
        Heading("reads"),
        Heading("state tables", counted=True),
        Heading("state", counted=True),
    ]
    show_table(
        headings,
        [
            (
                view.name,
                count(view.reflects),
                view.status,
                count(view.lag.rows),
                f"{view.lag.seconds:,.0f}",
                count(view.parallelism),
                ", ".join(view.inputs),
                count(view.state_tables),
                size(view.state_bytes),
            )
            for view in listed
        ],
    )


@click.command(short_help="List rows in quarantine, of tables and of views.")
@store_argument
@click.argument("table", metavar="[TABLE]", required=False, shell_complete=complete_tables)
@limit_option("rows")
@json_option
def quarantine(path: str, table: str | None, limit: int | None, as_json: bool) -> None:
    """List the rows of STORE that are in quarantine.

    They are those that writes with option badRows = quarantine have set aside, and those that views
    with on_error = quarantine leave out. Without TABLE: how many there are, by table and rule, then
    by view and table. With TABLE, or the name of a view: its rows, each with the rule and the
    reason, or with its table, key and error. ALTER TABLE … RECOVER QUARANTINE writes the rows of a
    table again; a view tries a row again when it changes.
    """
    with Store.open(path) as store:
        if table is None:
            state = store.state
            of_tables = quarantine_figures(store, state)[:limit]
            rest = None if limit is None else limit - len(of_tables)
            of_views = view_quarantine_figures(store, state)[:rest]
            if as_json:
                show_document([*of_tables, *of_views])
            else:
                _show_quarantines(of_tables, of_views)
            return
        rows = quarantined_rows(store, store.state, table, limit)
        objects = (row for batch in rows.batches for row in json_rows(batch, rows.types))
        if as_json:
            for row in objects:
                show_line(row)
        else:
            while page := list(islice(objects, _PAGE)):
                show_table(list(map(Heading, rows.names)), (row.values() for row in page))


def _show_quarantines(
    of_tables: Sequence[QuarantineFigures], of_views: Sequence[ViewQuarantineFigures]
) -> None:
    """Write a table of the quarantines of tables, and one of those of views, if there are any."""
    if of_tables or not of_views:
        headings = [
            Heading("table"),
            Heading("rule"),
            Heading("rows", counted=True),
            Heading("oldest"),
            Heading("newest"),
        ]
        rows = [
            (item.table, item.rule, count(item.rows), item.oldest, item.newest)
            for item in of_tables
        ]
        show_table(headings, rows)
    if of_views:
        headings = [
            Heading("view"),
            Heading("table"),
            Heading("rows", counted=True),
            Heading("oldest epoch", counted=True),
            Heading("newest epoch", counted=True),
        ]
        show_table(headings, map(_view_cells, of_views))


def _view_cells(item: ViewQuarantineFigures) -> tuple[str, ...]:
    epochs = count(item.oldest_epoch), count(item.newest_epoch)
    return item.view, item.table, count(item.rows), *epochs


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PAGE = 1000


@click.command(short_help="List the epochs, newest first.")
@store_argument
@limit_option("epochs")
@json_option
def history(path: str, limit: int | None, as_json: bool) -> None:
    """List the epochs of STORE, the newest first: what was committed, when, and in which tables.

    Rows are the entries written, deletes among them. JSON is one object per line.
    """
    with Store.open(path) as store:
        listed = islice(commits(store), limit)
        if as_json:
            for commit in listed:
                show_line(asdict(commit) | {"time": _iso(commit.time)})
        else:
            while page := list(islice(listed, _PAGE)):
                _show_page(page)


def _show_page(page: Iterable[Commit]) -> None:
    headings = [
        Heading("epoch", counted=True),
        Heading("time"),
        Heading("operation"),
        Heading("tables"),
        Heading("segments", counted=True),
        Heading("rows", counted=True),
        Heading("deletes", counted=True),
        Heading("violations"),
    ]
    show_table(headings, map(_cells, page))


def _cells(commit: Commit) -> tuple[Any, ...]:
    return (
        count(commit.epoch),
        _iso(commit.time),
        commit.operation + ("" if commit.data_change else " (maintenance)"),
        ", ".join(commit.tables),
        f"+{commit.segments_added} -{commit.segments_removed}",
        count(commit.rows),
        count(commit.deletes),
        ", ".join(map(_violation, commit.violations)),
    )


def _violation(item: ViolationCount) -> str:
    dropped = " dropped" if item.on_violation == "drop" else ""
    return f"{item.table}.{item.expectation}: {count(item.rows)}{dropped}"


def _iso(time: int) -> str:
    moment = _EPOCH + timedelta(microseconds=time)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
