"""The command ``check``: whether a store is whole."""

from __future__ import annotations

import click

from relstate.storage import Report, Store

from .arguments import json_option, store_argument
from .screen import Heading, count, progress, show_document, show_table


@click.command(short_help="Verify every byte.")
@store_argument
@json_option
@click.pass_context
def check(context: click.Context, path: str, as_json: bool) -> None:
    """Read all of STORE and verify it; end with 1 if there is a problem. Changes nothing."""
    with Store.open(path) as store, progress("Checking segments") as report:
        found = store.check(progress=report)
    if as_json:
        show_document(found)
    else:
        _show_report(found)
    context.exit(int(not found.ok))


def _show_report(found: Report) -> None:
    facts = [
        ("epoch", found.epoch),
        ("segments", found.segments),
        ("entries", found.entries),
        ("orphans", found.orphans),
        ("problems", len(found.problems)),
    ]
    show_table(
        [Heading("checked"), Heading("found", counted=True)],
        [(name, count(number)) for name, number in facts],
    )
    if found.problems:
        show_table([Heading("problem")], [(problem,) for problem in found.problems])
