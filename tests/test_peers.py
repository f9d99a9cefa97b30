"""The harness that compares relstate with other systems: its plan, its sums, its pages."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet as pq
import pytest

from support.sources import ROOT

_MODULES = ("inputs", "page", "peer", "plot", "results", "rows", "run", "workloads")


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """Return modules of the harness, which is a program and not installed."""
    monkeypatch.syspath_prepend(str(ROOT))
    return {name: importlib.import_module(f"benchmarks.peers.{name}") for name in _MODULES}


class FakePeer:
    """Answers every operation with the same row, but fails or lacks some."""

    def __init__(self, log: list[tuple[str, str]], name: str, **answers: dict[str, Any]) -> None:
        """``answers``: by operation, instead of the usual answer."""
        self._log, self._name, self._answers = log, name, answers

    def perform(self, operation: str, arguments: Sequence[Any], limit: float) -> dict[str, Any]:
        """Note the operation and return its answer."""
        self._log.append((self._name, operation))
        usual = {"seconds": 0.5, "answer": [1]}
        if operation == "stored":
            usual = {"megabytes": 2.0}
        return self._answers.get(operation, usual)


def empty_results(peers: dict[str, ModuleType]) -> Any:
    """Return results of a run that has not begun."""
    machine = {
        "cores": 2,
        "processor": "p",
        "memory": "m",
        "kernel": "6",
        "python": "3.11",
        "load": 1,
    }
    about = {"started": "2026-01-01T00:00:00", "rows": 1000, "machine": machine, "peers": {}}
    return peers["results"].Results(about)


def run_program(
    peers: dict[str, ModuleType],
    folder: Path,
    fakes: dict[str, FakePeer],
    silent: dict[str, dict[str, str]] | None = None,
) -> Any:
    """Return the results of the whole program with fake peers."""
    results = empty_results(peers)
    inputs = peers["inputs"].Inputs(folder, peers["inputs"].Size(1000))
    run = peers["run"].Run(fakes, inputs, results, turns=3, limit=1, silent=silent or {})
    run.measure(lambda: None)
    return results


def test_each_turn_begins_with_another_peer(peers: dict[str, ModuleType]) -> None:
    """No peer is always the first after a pause, and none is left out of a turn."""
    turns = [peers["workloads"].in_order(["a", "b", "c"], turn) for turn in range(3)]

    assert turns == [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"]]


def test_long_workloads_have_half_of_the_turns(peers: dict[str, ModuleType]) -> None:
    """An uncounted turn comes before the counted ones of a workload that warms up."""
    workload, step = peers["workloads"].Workload, peers["workloads"].Step("sums")

    assert list(workload("w", "w", step).turns(2)) == [(0, False), (1, True), (2, True)]
    assert list(workload("w", "w", step, few=True, warm=False).turns(3)) == [(0, True), (1, True)]


def test_peers_take_turns(peers: dict[str, ModuleType], tmp_path: Path) -> None:
    """All peers perform an operation once before any performs it again."""
    log: list[tuple[str, str]] = []
    fakes = {name: FakePeer(log, name) for name in ("a", "b")}

    results = run_program(peers, tmp_path, fakes)

    loads = [name for name, operation in log if operation == "load"]
    assert loads == ["a", "b", "b", "a", "a", "b"]
    assert results.runs["sum-fresh"] == {"a": [0.5] * 3, "b": [0.5] * 3}
    assert results.runs["stored-fresh"]["a"] == [2.0, 2.0]
    assert results.runs["get-fresh"]["a"] == [0.5e6] * 3


def test_a_peer_that_misses_a_change_takes_no_part_in_what_follows(
    peers: dict[str, ModuleType], tmp_path: Path
) -> None:
    """Its rows differ from then on; a read that it lacks costs it that figure alone."""
    log: list[tuple[str, str]] = []
    fakes = {
        "a": FakePeer(log, "a"),
        "b": FakePeer(log, "b", merge={"error": "full disk"}, lookup={"missing": "no SQL"}),
    }

    results = run_program(peers, tmp_path, fakes)

    assert "b" in results.runs["upsert"]
    assert "b" not in results.runs["delete"]
    assert "b" not in results.runs["lookup-fresh"]
    assert results.left_out["b"]["merge"] == "failed: full disk"
    assert results.left_out["b"]["lookup-fresh"] == "no SQL"
    assert "delete" not in {operation for name, operation in log if name == "b"}


def test_changes_by_other_means_are_made_but_not_measured(
    peers: dict[str, ModuleType], tmp_path: Path
) -> None:
    """The peer still has the rows of the others afterwards."""
    log: list[tuple[str, str]] = []
    silent = {"a": {"merge": "it has no MERGE"}}

    results = run_program(peers, tmp_path, {"a": FakePeer(log, "a")}, silent)

    assert ("a", "merge") in log
    assert results.runs["merge"] == {}
    assert results.left_out["a"]["merge"] == "it has no MERGE"
    assert results.runs["delete"]["a"]


def test_different_answers_are_named(peers: dict[str, ModuleType]) -> None:
    """Every turn in which two systems say different things is a line."""
    results = empty_results(peers)
    results.answered("sum", 0, "a", [1])
    results.answered("sum", 0, "b", [1])
    results.answered("sum", 1, "a", [1])
    results.answered("sum", 1, "b", [2])

    assert results.compared == 2
    assert list(results.disagreements()) == ["sum, turn 1: a [1], b [2]"]


def test_results_survive_json(peers: dict[str, ModuleType], tmp_path: Path) -> None:
    """A page can be drawn from the file of an earlier run."""
    results = run_program(peers, tmp_path, {"relstate": FakePeer([], "relstate")})

    copy = peers["results"].Results.from_json(json.loads(json.dumps(results.to_json())))

    assert copy == results


def test_a_page_has_medians_spreads_and_who_is_ahead(peers: dict[str, ModuleType]) -> None:
    """The median of the fastest is bold, whoever it is; what is outside of the marks stays."""
    results = empty_results(peers)
    results.begin("load", "bulk load", "s")
    for value in (3.0, 1.0, 2.0):
        results.measured("load", "relstate", value)
    results.measured("load", "delta", 0.5)
    results.leave_out("load", "sqlite", "no disk")

    page = "# Head\n<!-- figures -->\nold\n<!-- end of figures -->\ntail\n"
    text = peers["page"].page_text(page, results)

    assert "| work | relstate | Delta | ahead |" in text
    assert "| bulk load | 2<br>1\N{EN DASH}3 | **0.5** | Delta, 4 times |" in text
    assert "SQLite: load: no disk." in text
    assert text.startswith("# Head\n")
    assert text.endswith("\ntail\n")
    assert "old" not in text
    with pytest.raises(ValueError, match="the page needs the lines"):
        peers["page"].page_text("# Head\n", results)


def test_the_plot_shows_each_system_beside_relstate(peers: dict[str, ModuleType]) -> None:
    """Signs that would cover each other are in lanes of their own."""
    results = empty_results(peers)
    results.begin("load", "bulk load", "s")
    for peer, value in (("relstate", 2.0), ("delta", 1.0), ("hudi", 1.01), ("sqlite", 20.0)):
        results.measured("load", peer, value)

    plot = peers["plot"]
    assert plot.ratios(results, "load") == {"delta": 0.5, "hudi": 0.505, "sqlite": 10.0}
    assert plot.lanes([0, 5, 30], 16) == [0, 1, 0]
    drawn = plot.ratio_plot(results)
    assert "<title>SQLite: 10 times</title>" in drawn
    assert drawn.count("<circle") == 2 * 3


def test_a_checksum_depends_on_which_group_has_what(peers: dict[str, ModuleType]) -> None:
    """Decimals and their texts are the same; groups that swap their sums are not."""
    checksum = peers["peer"].checksum

    assert checksum([(1, 2, "3.50"), (2, 1, "1.00")]) == ["2", "17.00"]
    assert checksum([(1, 2, "3.50"), (2, 1, "1.00")]) != checksum([(2, 2, "3.50"), (1, 1, "1.00")])


def test_deleted_keys_are_never_asked_for(peers: dict[str, ModuleType], tmp_path: Path) -> None:
    """So a get finds its row in every state of the table."""
    inputs = peers["inputs"].Inputs(tmp_path, peers["inputs"].Size(1000))

    kept = pq.read_table(inputs.kept_keys("kept", 0, 500))["k"].to_pylist()
    deleted = pq.read_table(inputs.deleted_keys("deleted", 0, 500))["k"].to_pylist()

    loaded = pq.read_table(inputs.load())["k"].to_pylist()
    assert len(loaded) == 1000
    assert loaded == sorted(loaded)
    assert sorted(kept + deleted) == loaded


def test_changes_update_rows_and_bring_new_ones(
    peers: dict[str, ModuleType], tmp_path: Path
) -> None:
    """One row in ten is new, and each key occurs once."""
    inputs = peers["inputs"].Inputs(tmp_path, peers["inputs"].Size(1000))

    changed = pq.read_table(inputs.changes("changed", 1, 100))

    loaded = set(pq.read_table(inputs.load())["k"].to_pylist())
    keys = changed["k"].to_pylist()
    assert len(set(keys)) == 100
    assert sum(key in loaded for key in keys) == 90
    assert changed.schema == peers["rows"].SCHEMA


def test_relstate_and_sqlite_agree(tmp_path: Path) -> None:
    """They answer equally after every kind of change, each in a process of its own."""
    result, temporary = tmp_path / "result.json", tmp_path / "temporary"
    temporary.mkdir()
    names = ["upsert", "merge", "delete", "sum-compacted", "get-compacted", "refresh"]
    least = ["--rows", "1000", "--turns", "1", "--json", str(result), "--folder", str(temporary)]
    command = [sys.executable, "-m", "benchmarks.peers", "relstate", "sqlite", "--here", *least]
    done = subprocess.run(
        [*command, "--only", *names],
        cwd=ROOT,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=280,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert list(temporary.iterdir()) == []
    written = json.loads(result.read_text())
    assert set(written["runs"]) == {"load", *names}
    assert all(set(runs) <= {"relstate", "sqlite"} for runs in written["runs"].values())
    assert set(written["answers"]["sum-compacted"]["1"]) == {"relstate", "sqlite"}
    reasons = [reason for reasons in written["left_out"].values() for reason in reasons.values()]
    assert reasons == ["SQLite has no MERGE: the rows are written by INSERT OR REPLACE"]
