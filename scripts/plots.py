"""Draw figures of the benchmarks as SVG for the documents.

usage: plots.py RESULT.json|PAGE.md... FOLDER

The results are what `make bench ARGS="view-epochs --json FILE"` writes; of several the last counts.
FOLDER gets `bench-epochs.svg`, the time of a refresh over the epochs.

Of a page, docs/benchmarks.md, FOLDER gets `bench-throughput.svg`: the rows of its first table in
which relstate and the baseline each have one rate. So the plot shows what the page says.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from pathlib import Path
from statistics import median
from typing import Any

# In the colours of the pages of `relstate ui`, in a light and in a dark scheme.
_STYLE = """
text { font: 13px system-ui, "DejaVu Sans", sans-serif; fill: #1c2330; }
.soft { fill: #596275; font-size: 12px; }
.grid { stroke: #d5dae3; }
.better { fill: #2a9d78; }
.first { fill: #8b95a7; } .last { fill: #2a9d78; }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e8ef; } .soft { fill: #98a2b3; }
  .grid { stroke: #39414f; }
  .better { fill: #4cc79d; }
  .first { fill: #98a2b3; } .last { fill: #4cc79d; }
}
"""
_WIDTH, _LABELS, _RIGHT = 860, 390, 60
_TOP = 46


@dataclass(frozen=True, slots=True)
class Throughput:
    """Rows a second of relstate and of a baseline, which has a name."""

    label: str
    ours: float
    baseline: float
    name: str


def main(sources: Sequence[Path], folder: Path) -> None:
    """Draw what is in results and pages."""
    results = [source for source in sources if source.suffix != ".md"]
    for page in (source for source in sources if source.suffix == ".md"):
        rates = list(throughputs(page.read_text("utf-8")))
        _write(folder / "bench-throughput.svg", throughput_plot(rates))
    figures = [f for result in results for f in json.loads(result.read_text("utf-8"))["figures"]]
    for figure in figures:
        if figure["workload"] == "view-epochs":
            _write(folder / "bench-epochs.svg", epoch_plot(figure))


def _write(file: Path, text: str) -> None:
    file.write_text(text, "utf-8")
    print(f"{file}: {len(text):,} bytes")


def throughputs(page: str) -> Iterator[Throughput]:
    """Yield the rows of the first table of a page that have one rate on each side."""
    table = page[page.index("\n| ") :].partition("\n\n")[0]
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) != 4:
            continue
        ours, baseline = _RATE.fullmatch(cells[1]), _RATE.fullmatch(cells[2])
        if ours is not None and baseline is not None:
            label, name = (_NOTES.sub("", text) for text in (cells[0], baseline["name"]))
            yield Throughput(label.lstrip("| "), _rate(ours), _rate(baseline), name)


_RATE = re.compile(r"(?:(?P<name>.*): )?(?P<number>[\d.,]+) (?P<unit>[KM]) (?:rows|keys)/s")
_NOTES = re.compile(r" \(.*?\)|`")


def _rate(match: re.Match[str]) -> float:
    return float(match["number"].replace(",", "")) * {"K": 1e3, "M": 1e6}[match["unit"]]


def throughput_plot(listed: Sequence[Throughput]) -> str:
    """Return two bars for each workload, on a scale of powers of ten."""
    rates = [rate for row in listed for rate in (row.ours, row.baseline)]
    low, high = floor(log10(min(rates))), ceil(log10(max(rates)))
    scale = (_WIDTH - _LABELS - _RIGHT) / (high - low)
    pair, height = 46, _TOP + 46 * len(listed) + 10
    parts = [_text(_LABELS - 36, 28, "rows a second:", "end")]
    for power in range(low, high + 1):
        x = round(_LABELS + (power - low) * scale, 1)
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="36" y2="{height - 8}"/>')
        parts.append(_text(x, 28, _rows(10.0**power), "middle"))
    for row, workload in enumerate(listed):
        top = _TOP + row * pair
        for y, kind, label, text, value in (
            (top, "better", workload.label, "", workload.ours),
            (top + 18, "first", workload.name, "soft", workload.baseline),
        ):
            width = max(round((log10(value) - low) * scale, 1), 1.5)
            parts.append(_text(_LABELS - 12, y + 13, _short(label), "end", text))
            parts.append(
                f'<rect class="{kind}" x="{_LABELS}" y="{y}" width="{width}" height="16" rx="2"/>'
            )
            parts.append(_text(_LABELS + width + 6, y + 13, _rows(value), "start"))
    return _svg(height, "Rows a second of relstate and of its baselines, which are grey", parts)


def _rows(value: float) -> str:
    return f"{value / 1e6:.3g} M" if value >= 1e6 else f"{value / 1e3:.3g} K"


def epoch_plot(figure: dict[str, Any]) -> str:
    """Return a point for each of the first and of the last epochs that were measured."""
    first, last = figure["baseline"]["runs"], figure["ours"]["runs"]
    top = 1.15 * max(*first, *last)
    height, left, bottom = 300, 56, 262
    half = (_WIDTH - left - 40) / 2
    parts = []
    for mark in range(5):
        value, y = top * mark / 4, round(bottom - (bottom - 40) * mark / 4, 1)
        parts.append(f'<line class="grid" x1="{left}" x2="{_WIDTH}" y1="{y}" y2="{y}"/>')
        parts.append(_text(left - 8, y + 4, f"{value:.3g}", "end"))
    parts.append(_text(8, 24, "ms", "start"))
    for kind, runs, start in (("first", first, left), ("last", last, left + half + 40)):
        for place, value in enumerate(runs):
            cx = round(start + half * (place + 0.5) / len(runs), 1)
            cy = round(bottom - (bottom - 40) * value / top, 1)
            parts.append(f'<circle class="{kind}" cx="{cx}" cy="{cy}" r="2.5"/>')
        text = f"the {kind} {len(runs)} epochs: median {median(runs):.3g} ms"
        parts.append(_text(start + half / 2, bottom + 24, text, "middle"))
    return _svg(height, f"Time of a refresh: {figure['case']}", parts)


def _short(label: str) -> str:
    return label if len(label) <= 54 else f"{label[:53]}…"


def _text(x: float, y: float, text: str, anchor: str, kind: str = "soft") -> str:
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(height: int, title: str, parts: Iterable[str]) -> str:
    lines = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n{lines}\n</svg>\n"
    )


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    *files, target = map(Path, sys.argv[1:])
    main(files, target)
