"""Rows in quarantine: those that writes have set aside, and those that views leave out.

How many there are, by table and rule or by view and table, and the rows.

Promises: everything is of one epoch.
Does not know: how a row is set aside, or how figures are shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from relstate.storage import Store, StoreState, errors, figures, quarantine_name

from .row_counts import MOST_ENTRIES
from .rows import Rows, scan_rows

_COLUMNS = ("rule", "reason", "row_json", "written_at", "id")
_VIEW_COLUMNS = ("table", "key", "error", "epoch")


@dataclass(frozen=True, slots=True)
class QuarantineFigures:
    """The rows of a table that break one rule; ``oldest``, ``newest``: when they were written."""

    table: str
    rule: str
    rows: int
    oldest: str
    newest: str


def quarantine_figures(
    store: Store, state: StoreState, table: str | None = None
) -> tuple[QuarantineFigures, ...]:
    """Return what is in quarantine, by table and rule; of one table, or of all.

    TableNotFoundError.
    """
    names = state.table_names() if table is None else (state.table(table).definition.name,)
    return tuple(figures for name in names for figures in _figures(store, state, name))


@dataclass(frozen=True, slots=True)
class ViewQuarantineFigures:
    """The rows of a table that a view leaves out; the epochs: of the tables when it did so."""

    view: str
    table: str
    rows: int
    oldest_epoch: int
    newest_epoch: int


def view_quarantine_figures(store: Store, state: StoreState) -> tuple[ViewQuarantineFigures, ...]:
    """Return what is in the quarantines of views, by view and table."""
    names = state.view_names()
    return tuple(figures for name in names for figures in _view_figures(store, state, name))


@dataclass(frozen=True, slots=True)
class TableQuarantine:
    """The quarantine of a table: its name, and what is in it, by rule.

    ``rules`` is None if it has more than `MOST_ENTRIES` stored entries, or cannot be read.
    """

    name: str
    rules: tuple[QuarantineFigures, ...] | None


def table_quarantine(store: Store, state: StoreState, table: str) -> TableQuarantine | None:
    """Return the quarantine of a table; None if it has none, or is a view. TableNotFoundError."""
    table_id = state.table(table).definition.table_id
    quarantine = None if table_id in state.views else state.quarantine_of(table_id)
    if quarantine is None:
        return None
    if figures.table_size(state, quarantine.name).entries > MOST_ENTRIES:
        return TableQuarantine(quarantine.name, None)
    try:
        return TableQuarantine(quarantine.name, quarantine_figures(store, state, table))
    except (errors.RelstateError, OSError):
        return TableQuarantine(quarantine.name, None)


def quarantined_rows(store: Store, state: StoreState, table: str, limit: int | None) -> Rows:
    """Return rows in the quarantine of a table, by their ids, or of a view.

    TableNotFoundError if there is no table, or it has no quarantine.
    """
    definition = state.table(table).definition
    is_view = definition.table_id in state.views
    quarantine = state.quarantine_of(definition.table_id)
    if quarantine is None and is_view:
        raise errors.TableNotFoundError(
            f"the view {definition.name!r} has no quarantine: create it with "
            "TBLPROPERTIES ('on_error' = 'quarantine')"
        )
    if quarantine is None:
        raise errors.TableNotFoundError(
            f"the table {definition.name!r} has no quarantine: write with option badRows = "
            f"quarantine, and it is created as {quarantine_name(definition.name)!r}"
        )
    columns = _VIEW_COLUMNS if is_view else _COLUMNS
    return scan_rows(store, quarantine.name, columns=columns, epoch=state.epoch, limit=limit)


def _view_figures(store: Store, state: StoreState, view: str) -> Iterator[ViewQuarantineFigures]:
    quarantine = state.quarantine_of(state.view(view).view_id)
    if quarantine is None:
        return
    rows = store.at(state.epoch).table(quarantine.name).scan(["table", "epoch"]).read_all()
    epochs = ("epoch", "min"), ("epoch", "max")
    tables = rows.group_by("table").aggregate([([], "count_all"), *epochs]).sort_by("table")
    names = ("table", "count_all", "epoch_min", "epoch_max")
    for row in zip(*(tables.column(name).to_pylist() for name in names), strict=True):
        yield ViewQuarantineFigures(view, *row)


def _figures(store: Store, state: StoreState, table: str) -> Iterator[QuarantineFigures]:
    quarantine = state.quarantine_of(state.table(table).definition.table_id)
    if quarantine is None:
        return
    rows = store.at(state.epoch).table(quarantine.name).scan(["rule", "written_at"]).read_all()
    times = ("written_at", "min"), ("written_at", "max")
    rules = rows.group_by("rule").aggregate([([], "count_all"), *times]).sort_by("rule")
    columns = [
        rules.column(name).to_pylist()
        for name in ("rule", "count_all", "written_at_min", "written_at_max")
    ]
    for rule, count, oldest, newest in zip(*columns, strict=True):
        yield QuarantineFigures(table, rule, count, oldest.isoformat(), newest.isoformat())
