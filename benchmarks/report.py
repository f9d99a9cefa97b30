"""The result of a run: a table for the terminal, and JSON.

Promises: the table needs nothing that is not installed; rich only makes it prettier.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .figure import Comparison, Figure

_WIDTH = 160
_HEADERS = ("workload", "case", "ours", "baseline", "compared", "spread", "asked", "met")
_ANSWERS = {True: "yes", False: "NO", None: ""}


def print_table(figures: Sequence[Figure]) -> None:
    """Print the figures as a table, and below it what the baselines were and what is missed."""
    lines = [_cells(figure) for figure in figures]
    try:
        _print_rich(lines)
    except ImportError:
        _print_plain(lines)
    against = {figure.workload: figure.against for figure in figures if figure.baseline}
    if against:
        print("\nMedians are compared; the spread is that of the single turns. The baselines:")
    for workload, what in against.items():
        print(f"  {workload}: {what}")
    asked = [figure for figure in figures if figure.met is not None]
    missed = [f"{figure.workload} ({figure.case})" for figure in asked if not figure.met]
    missed_text = f"; missed: {', '.join(missed)}" if missed else ""
    print(f"\n{len(asked) - len(missed)} of {len(asked)} figures are as asked{missed_text}")


def write_json(path: Path, about: dict[str, Any], figures: Sequence[Figure]) -> None:
    """Write what is known of the run and all of its figures."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = about | {"figures": [figure.to_json() for figure in figures]}
    path.write_text(json.dumps(content, indent=2) + "\n")


def _cells(figure: Figure) -> tuple[str, ...]:
    alone = figure.comparison.is_alone
    spread = figure.spread
    return (
        figure.workload,
        figure.case,
        f"{_number(figure.ours.middle)} {figure.unit}",
        f"{_number(figure.baseline.middle)} {figure.unit}" if figure.baseline else "",
        "" if alone else _compared(figure, figure.compared),
        "" if alone else f"{_number(spread.least)} - {_number(spread.most)}",
        "" if figure.asked is None else _bound(figure, figure.asked),
        _ANSWERS[figure.met],
    )


def _compared(figure: Figure, value: float) -> str:
    match figure.comparison:
        case Comparison.EXTRA:
            return f"{value:+.0f} {figure.unit}"
        case Comparison.ALONE | Comparison.RATE_ALONE:
            return f"{_number(value)} {figure.unit}"
    return f"{_number(value)}x"


def _bound(figure: Figure, asked: float) -> str:
    sign = ">=" if figure.comparison.is_of_rates else "<="
    return f"{sign} {_compared(figure, asked)}"


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"


def _print_rich(lines: Sequence[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*_HEADERS, box=None, pad_edge=False)
    for cells in lines:
        style = "red" if cells[-1] == _ANSWERS[False] else None
        table.add_row(*cells, style=style)
    # Only a terminal has a width.
    Console(width=None if sys.stdout.isatty() else _WIDTH).print(table)


def _print_plain(lines: Sequence[tuple[str, ...]]) -> None:
    rows = [_HEADERS, *lines]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADERS))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())
