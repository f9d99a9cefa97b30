"""The commands ``views`` and ``history``: what each view reflects, and what was committed when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import click

from relstate.connector.commits import Commit, commits
from relstate.connector.views.lineage import is_behind
from relstate.storage import Store, StoreState

from .terminal import (
    Heading,
    count,
    json_option,
    limit_option,
    show_document,
    show_line,
    show_table,
    store_argument,
)


@dataclass(frozen=True, slots=True)
class ViewSummary:
    """A view: the epoch of tables that it reflects, and the names of its inputs.

    ``is_populated``: whether the rows that were there before it are applied. ``is_behind``: whether
    it, or a view that it reads, has those or later changes to apply.
    """

    name: str
    reflects: int
    is_populated: bool
    is_behind: bool
    parallelism: int
    inputs: tuple[str, ...]
    internal_tables: int
    query: str


@click.command(short_help="List the materialized views.")
@store_argument
@json_option
def views(path: str, as_json: bool) -> None:
    """List the views of STORE: the epoch each reflects, its parallel units, what it reads."""
    with Store.open(path) as store:
        state, time = store.state, store.environment.now()
        summaries = tuple(_summary(state, name, time) for name in state.view_names())
    if as_json:
        show_document(summaries)
        return
    headings = [
        Heading("view"),
        Heading("reflects", counted=True),
        Heading("state"),
        Heading("units", counted=True),
        Heading("reads"),
        Heading("state tables", counted=True),
    ]
    show_table(
        headings,
        [
            (
                view.name,
                count(view.reflects),
                _progress_of(view),
                count(view.parallelism),
                ", ".join(view.inputs),
                count(view.internal_tables),
            )
            for view in summaries
        ],
    )


def _summary(state: StoreState, name: str, time: int) -> ViewSummary:
    view = state.view(name)
    definition, progress = view.definition, view.progress
    return ViewSummary(
        name,
        progress.reflects,
        progress.is_populated,
        is_behind(state, [view.view_id], time),
        definition.mapping.units,
        tuple(state.name_of(table.table_id) for table in definition.inputs),
        len(definition.internal),
        definition.query,
    )


def _progress_of(view: ViewSummary) -> str:
    if not view.is_populated:
        return "being populated"
    return "behind" if view.is_behind else "up to date"


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
