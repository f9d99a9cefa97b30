"""The commands ``ui``, ``report`` and ``metrics``: a store to look at, and its figures.

They need the extra ``relstate[ui]``, except ``metrics`` without ``--listen``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from relstate.connector.figures.metrics import metric_text, metric_values, store_metrics
from relstate.storage import Store, errors, install_command

from .surroundings import write_file
from .terminal import json_option, progress, show_line, show_message, show_plain, store_argument

_NEEDED = ("jinja2", "markupsafe", "starlette", "uvicorn", "anyio", "h11")


@contextmanager
def _extra() -> Iterator[None]:
    """Raise an error that says what to install, where a library of the extra is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").split(".", 1)[0]
        if missing not in _NEEDED:
            raise
        raise errors.OptionError(f"{missing} is missing: {install_command('ui')}") from None


@click.command(short_help="Show the store in a browser.")
@store_argument
@click.option("--port", metavar="N", type=click.IntRange(0, 65_535), default=8787)
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", help="Where to listen.")
def ui(path: str, port: int, host: str) -> None:
    """Serve pages about STORE that follow it, until Ctrl-C: tables, views, lag, files.

    They change nothing. Only this machine is answered unless --host is another address: then
    everybody who reaches it can read the rows of all tables. --port is 8787 by default, 0 any free
    one.
    """
    with _extra():
        from relstate.connector.ui.server import serve
    with Store.open(path) as store:
        serve(store, host, port, lambda address: show_message(f"{path}: {address} (Ctrl-C ends)"))


@click.command(short_help="Write a page about the store.")
@store_argument
@click.option(
    "-o", "--output", metavar="FILE", required=True, help="Where to write it; - for stdout."
)
def report(path: str, output: str) -> None:
    """Write what `relstate ui` shows of STORE as one HTML file, which loads nothing.

    It has the sizes and some rows of the largest tables, and all about the views.
    """
    with _extra():
        from relstate.connector.ui.report import report as render
    with Store.open(path) as store, progress("Reading the store"):
        text = render(store)
    if output == "-":
        show_plain(text)
    else:
        write_file(output, text)
        show_message(f"{output} is written")


@click.command(short_help="Show metrics for Prometheus.")
@store_argument
@click.option("--listen", metavar="[ADDRESS:]PORT", help="Serve them at /metrics until Ctrl-C.")
@json_option
def metrics(path: str, listen: str | None, as_json: bool) -> None:
    """Show the metrics of STORE in the text format of Prometheus: sizes, lag, last refreshes.

    With --listen they are served, as the pages of `relstate ui` are, at 127.0.0.1 unless an address
    is given.
    """
    with Store.open(path) as store:
        if listen is not None:
            with _extra():
                from relstate.connector.ui.server import serve
            host, port = _address(listen)
            serve(store, host, port, lambda address: show_message(f"{path}: {address}metrics"))
        elif as_json:
            show_line(metric_values(store_metrics(store)))
        else:
            show_plain(metric_text(store_metrics(store)))


def _address(text: str) -> tuple[str, int]:
    """Return the address and the port that a text names. UsageError if it names none."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise click.UsageError(f"--listen is {text!r}; it must be a port, or ADDRESS:PORT.")
    return host.strip("[]") or "127.0.0.1", int(port)
