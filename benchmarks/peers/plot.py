"""A result as a picture: how long each system takes beside relstate, on a logarithmic scale."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from math import ceil, floor, log10

from .page import display_name
from .results import Results

_OURS = "relstate"
# Readable in black and white: every system has a sign of two letters.
_SIGNS = {
    "parquet": "Pq",
    "delta": "De",
    "iceberg": "Ic",
    "hudi": "Hu",
    "paimon": "Pa",
    "postgresql": "Pg",
    "duckdb": "Du",
    "sqlite": "Sq",
    "rocksdb": "Ro",
}
_COLOURS = {
    "parquet": "#6b7280",
    "delta": "#b4530a",
    "iceberg": "#0e7490",
    "hudi": "#7c3aed",
    "paimon": "#be185d",
    "postgresql": "#1d4ed8",
    "duckdb": "#a16207",
    "sqlite": "#15803d",
    "rocksdb": "#b91c1c",
}
_STYLE = """
text { font: 13px system-ui, "DejaVu Sans", sans-serif; fill: #1c2330; }
.soft { fill: #596275; font-size: 12px; }
.grid { stroke: #d5dae3; } .one { stroke: #2a9d78; stroke-width: 2; }
.sign { fill: #ffffff; font-size: 9px; font-weight: 600; }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e8ef; } .soft { fill: #98a2b3; }
  .grid { stroke: #39414f; } .one { stroke: #4cc79d; } .sign { fill: #ffffff; }
}
"""
_WIDTH, _LABELS, _RIGHT, _TOP, _LANE, _RADIUS = 960, 330, 30, 72, 17, 8


def ratios(results: Results, workload: str) -> dict[str, float]:
    """Return how many times relstate's median each other system's is, the least first."""
    spreads = results.spreads(workload)
    if _OURS not in spreads:
        return {}
    ours = spreads[_OURS].middle
    found = {peer: spread.middle / ours for peer, spread in spreads.items() if peer != _OURS}
    return dict(sorted(found.items(), key=lambda item: item[1]))


def lanes(places: list[float], room: float) -> list[int]:
    """Return for ascending places the first lane in which each is ``room`` from the last one."""
    ends: list[float] = []
    chosen = []
    for place in places:
        lane = next((lane for lane, end in enumerate(ends) if place - end >= room), len(ends))
        ends[lane : lane + 1] = [place]
        chosen.append(lane)
    return chosen


def ratio_plot(results: Results) -> str:
    """Return an SVG with a row for each workload: left of the line is less than relstate needs."""
    rows = {
        title: found
        for workload, (title, _) in results.titles.items()
        if (found := ratios(results, workload))
    }
    powers = [log10(value) for found in rows.values() for value in found.values()]
    low, high = floor(min([-1.0, *powers])), ceil(max([1.0, *powers]))
    scale = (_WIDTH - _LABELS - _RIGHT) / (high - low)

    def x(power: float) -> float:
        return round(_LABELS + (power - low) * scale, 1)

    marks, y = [], _TOP
    for title, found in rows.items():
        places = [x(log10(value)) for value in found.values()]
        chosen = lanes(places, 2 * _RADIUS)
        height = _LANE * (max(chosen) + 1) + 8
        marks.append(f'<line class="grid" x1="0" x2="{_WIDTH}" y1="{y}" y2="{y}"/>')
        marks.append(_text(_LABELS - 12, y + height / 2 + 4, title, "end", ""))
        for (peer, value), place, lane in zip(found.items(), places, chosen, strict=True):
            marks += _sign(peer, value, place, y + 4 + _LANE * lane + _RADIUS)
        y += height
    lines = []
    for power in range(low, high + 1):
        kind = "one" if power == 0 else "grid"
        lines.append(
            f'<line class="{kind}" x1="{x(power)}" x2="{x(power)}" y1="{_TOP - 6}" y2="{y}"/>'
        )
        label = _OURS if power == 0 else f"{10.0**power:g} x"
        lines.append(_text(x(power), _TOP - 12, label, "middle"))
    return _svg(y + 8, [*_legend(results), *lines, *marks])


def _legend(results: Results) -> Iterator[str]:
    seen = [
        peer for peer in _SIGNS if any(peer in ratios(results, name) for name in results.titles)
    ]
    for place, peer in enumerate(seen):
        left = 12 + place * (_WIDTH - 24) / max(len(seen), 1)
        yield from _sign(peer, None, left + _RADIUS, 20)
        yield _text(left + 2 * _RADIUS + 5, 24, display_name(peer), "start")


def _sign(peer: str, value: float | None, x: float, y: float) -> Iterator[str]:
    told = "" if value is None else f"<title>{display_name(peer)}: {value:.3g} times</title>"
    yield (
        f'<g>{told}<circle cx="{round(x, 1)}" cy="{round(y, 1)}" r="{_RADIUS}" '
        f'fill="{_COLOURS[peer]}"/>{_text(x, y + 3, _SIGNS[peer], "middle", "sign")}</g>'
    )


def _text(x: float, y: float, text: str, anchor: str, kind: str = "soft") -> str:
    return (
        f'<text class="{kind}" x="{round(x, 1)}" y="{round(y, 1)}" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )


def _svg(height: float, parts: list[str]) -> str:
    title = "Time and size of each system as a multiple of relstate's; left of the line is less"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {round(height)}" '
        f'role="img">\n<title>{title}</title>\n<style>{_STYLE}</style>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )
