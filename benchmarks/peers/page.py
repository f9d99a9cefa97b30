"""A result as text: a table for the terminal, and tables in Markdown for a page."""

from __future__ import annotations

from collections.abc import Sequence

from ..figure import Spread
from .results import Results

_OURS = "relstate"
_NAMES = {
    "relstate": "relstate",
    "parquet": "Parquet",
    "delta": "Delta",
    "iceberg": "Iceberg",
    "hudi": "Hudi",
    "paimon": "Paimon",
    "postgresql": "PostgreSQL",
    "duckdb": "DuckDB",
    "sqlite": "SQLite",
    "rocksdb": "RocksDB",
}
_BEGIN, _END = "<!-- figures -->", "<!-- end of figures -->"


def display_name(peer: str) -> str:
    """Return the name of a system as its project writes it."""
    return _NAMES.get(peer, peer)


def table_text(results: Results) -> str:
    """Return medians as a table of plain text."""
    peers = _measured(results)
    lines = [["", *map(display_name, peers)]]
    for workload, (title, unit) in results.titles.items():
        spreads = results.spreads(workload)
        cells = [number(spreads[peer].middle) if peer in spreads else "" for peer in peers]
        if any(cells):
            lines.append([f"{title} ({unit})", *cells])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def page_text(page: str, results: Results) -> str:
    """Return a page with what is between its two marks replaced by the tables of a result.

    ValueError if it has no marks.
    """
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"the page needs the lines {_BEGIN} and {_END}")
    parts = [_about(results), _table(results), _systems(results), _absences(results)]
    return f"{before}{_BEGIN}\n\n" + "\n\n".join(parts) + f"\n\n{_END}{after}"


def number(value: float) -> str:
    """Return a measurement with three digits at most, more only where it is large."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2g}" if value < 10 else f"{value:.3g}"


def ahead(spreads: dict[str, Spread]) -> str | None:
    """Return the peer with the least median."""
    return min(spreads, key=lambda peer: spreads[peer].middle, default=None)


def _measured(results: Results) -> list[str]:
    """Return the peers with any measurement."""
    return [peer for peer in _NAMES if any(peer in runs for runs in results.runs.values())]


def _about(results: Results) -> str:
    about, machine = results.about, results.about["machine"]
    differing = len(list(results.disagreements()))
    equal = f"{results.compared - differing} of {results.compared} answers"
    return (
        f"{about['rows']:,} rows; {machine['cores']} cores ({machine['processor']}), "
        f"{machine['memory']} of memory, Linux {machine['kernel']}, Python {machine['python']}; "
        f"load {machine['load']:.1f} at the start, {about['started'].replace('T', ' ')}. "
        f"The run took {about.get('minutes', 0):.0f} minutes. "
        f"In {equal} that at least two systems gave, all systems agreed."
    )


def _table(results: Results) -> str:
    peers = _measured(results)
    head = ["work", *map(display_name, peers), "ahead"]
    lines = [_row(head), _row(["---"] * len(head))]
    for workload, (title, unit) in results.titles.items():
        spreads = results.spreads(workload)
        if not spreads:
            continue
        best = ahead(spreads)
        cells = [_cell(spreads.get(peer), peer == best) for peer in peers]
        text = title if unit == "s" else f"{title}, {unit.replace('us', 'µs')}"
        lines.append(_row([text, *cells, _ahead_text(spreads)]))
    return "\n".join(lines)


def _cell(spread: Spread | None, best: bool) -> str:
    if spread is None:
        return "\N{EN DASH}"
    middle = number(spread.middle)
    text = f"**{middle}**" if best else middle
    if spread.least == spread.most:
        return text
    return f"{text}<br>{number(spread.least)}\N{EN DASH}{number(spread.most)}"


def _ahead_text(spreads: dict[str, Spread]) -> str:
    """Return who is ahead, and of relstate by how much."""
    best = ahead(spreads)
    if best is None:
        return ""
    if _OURS not in spreads:
        return display_name(best)
    ours = spreads[_OURS].middle
    if best == _OURS:
        others = [spread.middle for peer, spread in spreads.items() if peer != _OURS]
        return f"relstate, {number(min(others) / ours)} times" if others else "relstate"
    return f"{display_name(best)}, {number(ours / spreads[best].middle)} times"


def _systems(results: Results) -> str:
    lines = [_row(["system", "versions", "settings"]), _row(["---"] * 3)]
    for peer, about in results.about["peers"].items():
        versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
        settings = "; ".join(about["settings"]) or "defaults"
        lines.append(_row([display_name(peer), versions, settings]))
    return "\n".join(lines)


def _absences(results: Results) -> str:
    """Return a list of what has no figure, and why."""
    lines = ["What has no figure:", ""]
    for peer, reasons in results.left_out.items():
        by_reason: dict[str, list[str]] = {}
        for workload, reason in reasons.items():
            by_reason.setdefault(reason, []).append(workload)
        told = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in by_reason.items())
        lines.append(f"- {display_name(peer)}: {told}.")
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', ' ') for cell in cells)} |"
