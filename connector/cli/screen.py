"""What a command shows: data on stdout, as tables or as JSON; messages and progress on stderr.

Promises: stdout carries data only; with ``as_json`` one document, or one object a line for rows;
names in JSON are those of the fields of what is shown. Where stdout is no terminal nothing is
wrapped or cut, where it is one, long cells are folded. What a store holds is never taken for a
terminal's commands.
Does not know: what is shown.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from .value import text_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# Wider than any line, where no terminal sets a width.
_WIDE = 100_000

Report = Callable[[int, int], None]
"""Takes how many pieces of work are done, and of how many."""


@dataclass(frozen=True, slots=True)
class Heading:
    """The heading of a column; what is ``counted`` stands to the right."""

    text: str
    counted: bool = False


def show_document(value: DataclassInstance | Sequence[DataclassInstance] | None) -> None:
    """Write one JSON document: a value, or a list of values."""
    plain: Any = value
    if isinstance(value, Sequence):
        plain = [asdict(one) for one in value]
    elif value is not None:
        plain = asdict(value)
    _write(json.dumps(plain, ensure_ascii=False, indent=2))


def show_line(value: Any) -> None:
    """Write one value as one line of JSON."""
    _write(json.dumps(value, ensure_ascii=False))


def show_table(headings: Sequence[Heading], rows: Iterable[Iterable[Any]]) -> None:
    """Write rows, of values as JSON has them, as a table."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for heading in headings:
        text = Text(text_of(heading.text))
        table.add_column(text, justify="right" if heading.counted else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    _console().print(table)


def show_text(text: str) -> None:
    """Write one line of text."""
    _console().print(Text(text), soft_wrap=True)


def tell(message: str) -> None:
    """Write a message to stderr."""
    sys.stderr.write(f"{message}\n")


@contextmanager
def progress(what: str) -> Iterator[Report]:
    """Show a bar while the block runs, where stderr is a terminal; yield what moves it."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(what, total=None)

        def report(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield report


def count(number: int) -> str:
    """Return a number as people read it: 1,234,567."""
    return f"{number:,}"


def size(number: int) -> str:
    """Return a number of bytes as people read it: 1.2 MiB."""
    if number < 1024:
        return f"{number} B"
    value, units = float(number), iter(("KiB", "MiB", "GiB", "TiB", "PiB"))
    unit = "B"
    while value >= 1024 and unit != "PiB":
        value, unit = value / 1024, next(units)
    return f"{value:.1f} {unit}"


def _cell(value: Any) -> Text:
    return Text(text_of(value), style="dim" if value is None else "")


def _console() -> Console:
    # Asked anew each time: who runs a command may have put another stdout in place.
    terminal = sys.stdout.isatty()
    return Console(file=sys.stdout, width=None if terminal else _WIDE)


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")
