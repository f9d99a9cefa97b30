"""The arguments that commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])


def store_argument(command: _Command) -> _Command:
    """Give a command the path of a store as ``path``."""
    return click.argument("path", metavar="STORE")(command)


def table_argument(command: _Command) -> _Command:
    """Give a command the name of a table as ``table``."""
    return click.argument("table", metavar="TABLE")(command)


def json_option(command: _Command) -> _Command:
    """Give a command ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help="Write JSON to stdout.")(command)


def columns_option(command: _Command) -> _Command:
    """Give a command ``columns``: names, or None for all."""

    def split(_: click.Context, __: click.Parameter, text: str | None) -> tuple[str, ...] | None:
        return None if text is None else tuple(name.strip() for name in text.split(","))

    return click.option(
        "--columns", metavar="A,B", callback=split, help="The columns to show; all by default."
    )(command)


def limit_option(what: str) -> Callable[[_Command], _Command]:
    """Give a command ``limit``: the most rows to show of ``what``, None for all."""
    help_text = f"Show at most so many {what}."
    return click.option("--limit", metavar="N", type=click.IntRange(min=0), help=help_text)


def at_option(command: _Command) -> _Command:
    """Give a command ``epoch``: the one to read at, None for the latest."""
    return click.option(
        "--at",
        "epoch",
        metavar="EPOCH",
        type=int,
        help="Read at this epoch; the latest by default.",
    )(command)
