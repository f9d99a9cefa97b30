"""What the commands share: their arguments, and how they show data, messages and progress.

Promises: stdout carries data only; with ``as_json`` one document, or one object per line for rows;
names in JSON are those of the fields of what is shown. Where stdout is not a terminal no rows
are wrapped or cut; on a terminal long cells are folded. Prose is folded everywhere. Control
characters in values are escaped.
Does not know: what is shown.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from relstate.connector.row_json import text_of
from relstate.storage import Store, parse_instant, whole_seconds

from .completion import complete_columns, complete_folders, complete_tables

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Command = TypeVar("_Command", bound=Callable[..., Any])


def store_argument(command: _Command) -> _Command:
    """Give a command the path of a store as ``path``."""
    return click.argument("path", metavar="STORE", shell_complete=complete_folders)(command)


def table_argument(command: _Command) -> _Command:
    """Give a command the name of a table as ``table``."""
    return click.argument("table", metavar="TABLE", shell_complete=complete_tables)(command)


def json_option(command: _Command) -> _Command:
    """Give a command ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help="Write JSON to stdout.")(command)


def names_of(_: click.Context, __: click.Parameter, text: str | None) -> tuple[str, ...] | None:
    """Return the names in an option, which are separated by commas; None without the option."""
    return None if text is None else tuple(name.strip() for name in text.split(","))


def columns_option(command: _Command) -> _Command:
    """Give a command ``columns``: names, or None for all."""
    return click.option(
        "--columns",
        metavar="A,B",
        callback=names_of,
        shell_complete=complete_columns,
        help="The columns to show; all by default.",
    )(command)


def limit_option(noun: str) -> Callable[[_Command], _Command]:
    """Give a command ``limit``: the most rows to show of ``noun``, None for all."""
    help_text = f"Show at most so many {noun}."
    return click.option("--limit", metavar="N", type=click.IntRange(min=0), help=help_text)


def duration_option(name: str, help_text: str) -> Callable[[_Command], _Command]:
    """Give a command a length of time in seconds; None without the option."""

    def parse(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
        try:
            return None if text is None else whole_seconds(text)
        except ValueError as error:
            raise click.BadParameter(f"{text!r}: {error}.") from None

    return click.option(name, metavar="DURATION", callback=parse, help=help_text)


def epoch_options(command: _Command) -> _Command:
    """Give a command ``epoch`` and ``moment``, which name the epoch to read: see `chosen_epoch`."""
    by_time = click.option(
        "--timestamp",
        "moment",
        metavar="TIME",
        help="Read what was committed then: 2026-03-01 08:30, in UTC unless it has a zone.",
    )
    by_number = click.option(
        "--version",
        "--at",
        "epoch",
        metavar="EPOCH",
        type=int,
        help="Read at this epoch; the latest by default.",
    )
    return by_number(by_time(command))


def chosen_epoch(store: Store, epoch: int | None, moment: str | None) -> int | None:
    """Return the epoch that options name; None for neither.

    UsageError for both, OptionError for a text that is not a time; the errors of `Store.epoch_at`.
    """
    if moment is None:
        return epoch
    if epoch is not None:
        raise click.UsageError("--version and --timestamp both name an epoch; give one.")
    return store.epoch_at(parse_instant(moment))


# Wider than any line, where no terminal sets a width.
_WIDE = 100_000

Report = Callable[[int, int], None]
"""Takes how many pieces of work are done, and of how many."""


@dataclass(frozen=True, slots=True)
class Heading:
    """The heading of a column; the numbers of a ``counted`` column are aligned right."""

    text: str
    counted: bool = False


def show_document(value: DataclassInstance | Sequence[DataclassInstance] | None) -> None:
    """Write one JSON document: a value, or a list of values."""
    plain: Any = value
    if isinstance(value, Sequence):
        plain = [asdict(item) for item in value]
    elif value is not None:
        plain = asdict(value)
    _write(json.dumps(plain, ensure_ascii=False, indent=2))


def show_line(value: Any) -> None:
    """Write one value as one line of JSON."""
    _write(json.dumps(value, ensure_ascii=False))


def show_table(headings: Sequence[Heading], rows: Iterable[Iterable[Any]]) -> None:
    """Write rows, of values as JSON has them, as a table."""
    _console().print(_table(headings, rows))


def show_prose_table(headings: Sequence[Heading], rows: Iterable[Iterable[Any]]) -> None:
    """Write a table whose cells are sentences: see `_prose_console`."""
    _prose_console().print(_table(headings, rows))


def _table(headings: Sequence[Heading], rows: Iterable[Iterable[Any]]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for heading in headings:
        text = Text(text_of(heading.text))
        table.add_column(text, justify="right" if heading.counted else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    return table


def show_text(text: str) -> None:
    """Write one line of text."""
    _console().print(Text(text), soft_wrap=True)


def show_prose(text: str) -> None:
    """Write a paragraph: see `_prose_console`."""
    _prose_console().print(Text(text))


def show_plain(text: str) -> None:
    """Write text as it is; it ends with a line end."""
    sys.stdout.write(text)


def show_message(message: str) -> None:
    """Write a message to stderr."""
    sys.stderr.write(f"{message}\n")


class Unit(Enum):
    """What progress is counted in."""

    PIECES = auto()
    ROWS = auto()
    BYTES = auto()


_COUNTERS: dict[Unit, Callable[[], ProgressColumn]] = {
    Unit.PIECES: MofNCompleteColumn,
    Unit.ROWS: lambda: TextColumn("{task.completed:,.0f} rows"),
    Unit.BYTES: DownloadColumn,
}


@contextmanager
def progress(description: str, unit: Unit = Unit.PIECES) -> Iterator[Report]:
    """Show a bar while the block runs, where stderr is a terminal; yield what moves it."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        _COUNTERS[unit](),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(description, total=None)

        def report(completed: int, total: int) -> None:
            bar.update(task, completed=completed, total=total)

        yield report


def _cell(value: Any) -> Text:
    return Text(text_of(value), style="dim" if value is None else "")


def _console() -> Console:
    # Read at each call: the caller of a command may have replaced stdout.
    terminal = sys.stdout.isatty()
    return Console(file=sys.stdout, width=None if terminal else _WIDE)


def _prose_console() -> Console:
    """Return a console that folds lines: at the width of the terminal, 80 columns without one.

    The variable COLUMNS is another width.
    """
    return Console(file=sys.stdout)


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")
