"""The command ``history``: what was committed, and when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import click

from relstate.connector.commits import Commit, commits
from relstate.storage import Store

from .arguments import json_option, limit_option, store_argument
from .screen import Heading, count, show_line, show_table

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PAGE = 1000


@click.command(short_help="List the epochs, newest first.")
@store_argument
@limit_option("epochs")
@json_option
def history(path: str, limit: int | None, as_json: bool) -> None:
    """List the epochs of STORE, the newest first: what was committed, when, and in which tables.

    Rows are the entries written, deletes among them. JSON is one object a line.
    """
    with Store.open(path) as store:
        found = islice(commits(store), limit)
        if as_json:
            for commit in found:
                show_line(asdict(commit) | {"time": _iso(commit.time)})
        else:
            while page := list(islice(found, _PAGE)):
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
        commit.operation + ("" if commit.data_change else " (upkeep)"),
        ", ".join(commit.tables),
        f"+{commit.segments_added} -{commit.segments_removed}",
        count(commit.rows),
        count(commit.deletes),
    )


def _iso(time: int) -> str:
    moment = _EPOCH + timedelta(microseconds=time)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
