"""The benchmarks run, on little data: what they measure is not looked at here."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from support.sources import ROOT


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """Return modules of the benchmarks, which are a program and not installed."""
    monkeypatch.syspath_prepend(str(ROOT))
    names = ("figure", "report", "turns")
    return {name: importlib.import_module(f"benchmarks.{name}") for name in names}


def run(folder: Path, *arguments: str) -> dict[str, Any]:
    """Run workloads on little data and return what they wrote; nothing of theirs may be left."""
    result, temporary = folder / "result.json", folder / "temporary"
    temporary.mkdir()
    least = (
        "--rows",
        "2000",
        "--turns",
        "1",
        "--batches",
        "1",
        "--scale",
        "0.001",
        "--json",
        str(result),
    )
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments, *least],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=600,
    )

    assert done.returncode == 0, done.stderr
    assert "figures are as asked" in done.stdout
    assert [path for path in temporary.iterdir() if path.name.startswith("relstate")] == []
    written: dict[str, Any] = json.loads(result.read_text())
    return written


def workloads_of(written: dict[str, Any]) -> list[str]:
    """Return the workloads that have figures, in their order."""
    return list(dict.fromkeys(figure["workload"] for figure in written["figures"]))


def test_workloads_of_the_storage_run(tmp_path: Path) -> None:
    """Each gives figures with a baseline that was measured too, and tells of the machine."""
    names = [
        *("table-scan", "get", "get-rows", "index-lookup", "index-write", "document-scan"),
        *("document-patch", "document-cells", "change-feed", "commit", "open"),
    ]

    written = run(tmp_path, *names)

    assert workloads_of(written) == names
    assert written["rows"] == 2000
    assert written["machine"]["cores"] > 0
    assert all(figure["ours"]["median"] > 0 for figure in written["figures"])
    assert all(figure["baseline"]["median"] > 0 for figure in written["figures"])


def test_workloads_of_upkeep_run(tmp_path: Path) -> None:
    """Small epochs leave few files, however many; what a compaction costs is told by itself."""
    written = run(tmp_path, "epochs", "compaction")

    figures = {figure["workload"]: figure for figure in written["figures"]}
    names = [f"epochs: {what}" for what in ("files", "open", "scan", "size")]
    assert list(figures) == [*names, "compaction"]
    assert all(figure["ours"]["median"] > 0 for figure in written["figures"])
    # Those that no busy machine changes. The same thousand keys fill a dozen pages, fewer than the
    # headers of forty epochs' files: their size is a statement about the full number of epochs.
    growing = next(figure for figure in written["figures"] if figure["workload"] == "epochs: size")
    assert figures["epochs: files"]["met"]
    assert growing["case"].endswith("growing by 100 rows")
    assert growing["met"]


@pytest.mark.timeout(660)
def test_workloads_of_spark_run(tmp_path: Path) -> None:
    """Each gives figures; the session they share has ended when they are told."""
    names = ["spark-scan", "spark-write", "micro-batch", "memory", "growth", "vnodes"]

    written = run(tmp_path, *names)

    assert workloads_of(written) == names
    assert all(figure["ours"]["median"] > 0 for figure in written["figures"])


@pytest.mark.slow
@pytest.mark.timeout(660)
def test_the_workload_of_first_operations_runs(tmp_path: Path) -> None:
    """A process gets a row; sessions by both daemons write and read, and tell of their workers."""
    written = run(tmp_path, "cold")

    figures = written["figures"]
    assert workloads_of(written) == ["cold: get", "cold", "cold: memory"]
    assert len(figures) == 1 + 2 * 3
    assert all(figure["ours"]["median"] > 0 for figure in figures)


@pytest.mark.timeout(660)
def test_workloads_of_views_run(tmp_path: Path) -> None:
    """Each gives figures; what has a second part tells of it under a name of its own."""
    names = [
        "view-refresh", "view-latency", "view-freshness", "view-redis", "view-backfill",
        "view-append-only", "view-range-join", "view-epochs", "view-windows", "view-bad-rows",
        "view-memory",
    ]  # fmt: skip

    written = run(tmp_path, *names)

    assert [name for name in workloads_of(written) if ":" not in name] == names
    assert all(figure["ours"]["median"] > 0 for figure in written["figures"])


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_workload_of_sizes_runs(tmp_path: Path) -> None:
    """Each view has figures of its creation and of every share, with the memory beside each."""
    written = run(tmp_path, "view-sizes")

    figures = written["figures"]
    assert workloads_of(written) == ["view-sizes", "view-sizes: memory"]
    assert len(figures) == 2 * 13 * 7
    assert all(figure["ours"]["median"] > 0 for figure in figures)


@pytest.mark.timeout(660)
def test_a_public_workload_runs(tmp_path: Path) -> None:
    """It gives a figure for every view, and how many views are so many times faster."""
    written = run(tmp_path, "view-nexmark")

    figures = written["figures"]
    cases = [figure["case"] for figure in figures if figure["workload"] == "view-nexmark"]
    assert len(cases) == 28
    assert workloads_of(written) == ["view-nexmark", "view-nexmark: faster"]


@pytest.mark.skipif(
    not all(map(shutil.which, ("redis-server", "redis-benchmark"))),
    reason="redis-server or redis-benchmark is not on PATH",
)
def test_the_workload_of_redis_runs(tmp_path: Path) -> None:
    """Every kind of request has a figure beside redis-server's."""
    written = run(tmp_path, "redis")

    figures = [figure for figure in written["figures"] if figure["baseline"] is not None]
    assert len(figures) == 9
    assert all(figure["ours"]["median"] > 0 for figure in written["figures"])
    assert all(figure["baseline"]["median"] > 0 for figure in figures)


def test_an_unknown_workload_is_told_with_the_known_ones() -> None:
    """Nothing is measured then."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "nothing"], cwd=ROOT, capture_output=True, text=True
    )

    assert done.returncode == 2
    assert "table-scan" in done.stderr


@pytest.mark.parametrize(
    ("comparison", "ours", "baseline", "asked", "compared", "met"),
    [
        ("RATE", (4.0, 6.0, 5.0), (10.0, 10.0, 1.0), 0.5, 0.5, True),
        ("RATE", (4.0,), (10.0,), 0.5, 0.4, False),
        ("TIME", (30.0,), (10.0,), 2.0, 3.0, False),
        ("TIME", (20.0,), (10.0,), 2.0, 2.0, True),
        ("EXTRA", (150.0,), (100.0,), 60.0, 50.0, True),
        ("EXTRA", (170.0,), (100.0,), 60.0, 70.0, False),
        ("ALONE", (600.0,), (), 512.0, 600.0, False),
        ("ALONE", (600.0,), (), None, 600.0, None),
        ("RATE_ALONE", (600.0,), (), 512.0, 600.0, True),
        ("RATE_ALONE", (600.0,), (), 700.0, 600.0, False),
    ],
)
def test_a_figure_compares_medians(
    benchmarks: dict[str, ModuleType],
    comparison: str,
    ours: tuple[float, ...],
    baseline: tuple[float, ...],
    asked: float | None,
    compared: float,
    met: bool | None,
) -> None:
    """Rates are to be at least, times and sizes at most, what is asked."""
    made = benchmarks["figure"]
    figure = made.Figure(
        "w", "c", "u", made.Samples(ours, baseline), made.Comparison[comparison], "b", asked
    )

    assert figure.compared == compared
    assert figure.met is met


def test_turns_measure_both_sides_side_by_side(benchmarks: dict[str, ModuleType]) -> None:
    """The first of each is not counted, and who goes first changes."""
    calls: list[str] = []

    def side(name: str) -> float:
        calls.append(name)
        return float(len(calls))

    samples = benchmarks["turns"].in_turns(lambda: side("ours"), lambda: side("baseline"), 2)

    assert calls == ["baseline", "ours", "baseline", "ours", "ours", "baseline"]
    assert samples.ours == (4.0, 5.0)
    assert samples.baseline == (3.0, 6.0)


def test_the_table_needs_no_rich(
    benchmarks: dict[str, ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without it the same cells are printed in columns, and what is missed is named."""
    made = benchmarks["figure"]
    figure = made.Figure(
        "scan",
        "8 segments",
        "M rows/s",
        made.Samples((1.0,), (4.0,)),
        made.Comparison.RATE,
        "b",
        0.5,
    )
    monkeypatch.setitem(sys.modules, "rich.console", None)

    benchmarks["report"].print_table([figure])

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["workload", "case", "ours"]
    assert "0.25x" in lines[1]
    assert lines[-1] == "0 of 1 figures are as asked; missed: scan (8 segments)"
