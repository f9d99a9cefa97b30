"""The simulation of large stores, `benchmarks/simulation`, on little."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

from support.sources import ROOT


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the module that prints the tables; the benchmarks are a program and not installed."""
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.simulation.tables")


def rows(text: str) -> list[list[str]]:
    """Return the cells of a printed table, without its head."""
    return [line.strip("| ").split(" | ") for line in text.splitlines()[2:]]


def test_the_simulation_prints_its_tables(
    tables: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of them, by the store's own code; one writer takes three requests for a commit."""
    tables.sizes([0.01])
    (size,) = rows(capsys.readouterr().out)
    assert size[:2] == ["0.01 TB", "160"]

    tables.reads([0.6])
    reads = {row[1]: row for row in rows(capsys.readouterr().out)}
    assert [reads[name][2] for name in ("plan all", "get", "prefix in a vnode")] == ["0", "1", "1"]
    assert reads["plan all"][6] == "9,552"

    tables.checkpoints([0.6], commits=64)
    (checkpoint,) = rows(capsys.readouterr().out)
    assert float(checkpoint[3]) < 4

    tables.writers(seconds=2.0)
    writers = rows(capsys.readouterr().out)
    assert [row[0] for row in writers] == ["1", "4", "16"]
    assert float(writers[0][4]) < 5

    tables.year(epochs=70)
    assert [row[1] for row in rows(capsys.readouterr().out)] == ["70", "70"]
