"""The simulation of large stores, `scripts/simulate_scale.py`, on little."""

from __future__ import annotations

import sys
from importlib import util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "simulate_scale.py"


@pytest.fixture
def simulation(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the script as a module."""
    spec = util.spec_from_file_location("simulate_scale", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "simulate_scale", module)
    spec.loader.exec_module(module)
    return module


def rows(text: str) -> list[list[str]]:
    """Return the cells of a printed table, without its head."""
    return [line.strip("| ").split(" | ") for line in text.splitlines()[2:]]


def test_the_simulation_prints_its_tables(
    simulation: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of them, by the store's own code; one writer takes three requests for a commit."""
    simulation.sizes([0.01])
    (size,) = rows(capsys.readouterr().out)
    assert size[:2] == ["0.01 TB", "160"]

    simulation.reads([0.6])
    reads = {row[1]: row for row in rows(capsys.readouterr().out)}
    assert [reads[name][2] for name in ("plan all", "get", "prefix in a vnode")] == ["0", "1", "1"]
    assert reads["plan all"][6] == "9,552"

    simulation.checkpoints([0.6], commits=64)
    (checkpoint,) = rows(capsys.readouterr().out)
    assert float(checkpoint[3]) < 4

    simulation.writers(seconds=2.0)
    writers = rows(capsys.readouterr().out)
    assert [row[0] for row in writers] == ["1", "4", "16"]
    assert float(writers[0][4]) < 5

    simulation.year(epochs=70)
    assert [row[1] for row in rows(capsys.readouterr().out)] == ["70", "70"]
