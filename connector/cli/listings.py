"""The commands ``views`` and ``history``: what each view reflects, and what was committed when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import click

from relstate.connector.commits import Commit, commits
from relstate.connector.figures.views import view_figures
from relstate.connector.quantities import count, size
from relstate.storage import Store

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
    )


def _iso(time: int) -> str:
    moment = _EPOCH + timedelta(microseconds=time)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
