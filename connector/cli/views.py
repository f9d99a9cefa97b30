"""The command ``views``: what materialized views there are, and how far they have come."""

from __future__ import annotations

from dataclasses import dataclass

import click

from relstate.connector.views.lineage import is_behind
from relstate.storage import Store, StoreState

from .arguments import json_option, store_argument
from .screen import Heading, count, show_document, show_table


@dataclass(frozen=True, slots=True)
class ViewSummary:
    """A view: the epoch of tables that it reflects, and what it reads.

    ``is_populated``: whether it holds all that was there before it. ``is_behind``: whether it, or a
    view that it reads, has that, or what has changed since, to take in.
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
        state = store.state
        found = tuple(_summary(state, name) for name in state.view_names())
    if as_json:
        show_document(found)
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
                one.name,
                count(one.reflects),
                _state(one),
                count(one.parallelism),
                ", ".join(one.inputs),
                count(one.internal_tables),
            )
            for one in found
        ],
    )


def _summary(state: StoreState, name: str) -> ViewSummary:
    view = state.view(name)
    definition, progress = view.definition, view.progress
    return ViewSummary(
        name,
        progress.reflects,
        progress.is_populated,
        is_behind(state, view.view_id),
        definition.mapping.units,
        tuple(state.name_of(one.table_id) for one in definition.inputs),
        len(definition.internal),
        definition.query,
    )


def _state(one: ViewSummary) -> str:
    if not one.is_populated:
        return "being filled"
    return "behind" if one.is_behind else "up to date"
