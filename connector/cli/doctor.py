"""The command ``doctor``: why Spark may fail to see relstate."""

from __future__ import annotations

import click

from .arguments import json_option
from .diagnosis.diagnosis import Diagnosis, diagnose
from .screen import Heading, progress, show_document, show_table, show_text
from .surroundings import surroundings


@click.command(short_help="Find what keeps Spark from seeing relstate.")
@click.argument("path", metavar="[STORE]", required=False)
@json_option
@click.pass_context
def doctor(context: click.Context, path: str | None, as_json: bool) -> None:
    """Look at what Spark will find: Pythons, versions, data sources, Java, and the STORE.

    Run it where the driver runs, with its Python and its variables. Ends with 1 if there is a
    problem.
    """
    with progress("Looking around"):
        found = diagnose(surroundings(), path)
    if as_json:
        show_document(found)
    else:
        _show(found)
    context.exit(int(not found.ok))


def _show(diagnosis: Diagnosis) -> None:
    headings = [Heading("status"), Heading("subject"), Heading("found")]
    show_table(headings, [(one.status, one.subject, one.found) for one in diagnosis.findings])
    for one in diagnosis.findings:
        if one.advice:
            show_text("")
            show_text(f"{one.status}, {one.subject}: {one.advice}")
