"""The plots of the documents: what they show is what the pages say."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

from support.sources import ROOT


@pytest.fixture
def plots(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the script, which is not installed."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("plots")


def test_rates_of_a_page_are_drawn(plots: ModuleType) -> None:
    """Rows of the first table with one rate on each side, in one unit; others are left out."""
    page = """
| workload | relstate | baseline | ratio |
|---|---|---|---|
| write (quick) | 1.3 M rows/s | a `sink`: 700 K rows/s | 1.9 |
| get | 6 µs | a get: 1 µs | 6 times |
| sums | 3.4, 3.0 s | the same: 5 s | 0.6 |

| scan | 2 M rows/s | a table: 1 M rows/s | 2 |
"""
    rates = list(plots.throughputs(page))

    assert rates == [plots.Throughput("write", 1_300_000.0, 700_000.0, "a sink")]
    assert ">1.3 M</text>" in plots.throughput_plot(rates)


def test_the_plot_of_throughput_shows_the_page(plots: ModuleType) -> None:
    """Run scripts/plots.py docs/benchmarks.md docs/pictures after a rate has changed."""
    rates = list(plots.throughputs((ROOT / "docs" / "benchmarks.md").read_text("utf-8")))
    drawn = (ROOT / "docs" / "pictures" / "bench-throughput.svg").read_text("utf-8")

    assert len(rates) > 5
    assert drawn == plots.throughput_plot(rates)
