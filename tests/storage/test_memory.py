"""Laws of memory: what a task holds of its own does not grow with the data."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# A task's own memory must stay under 512 MiB; the imports take about 100 of them.
_MOST = 400


def peaks_of(program: str, path: Path, rows: int, width: int, batch: int) -> dict[str, float]:
    """Return the peaks of a process, in MiB, as `support.appetite` says them."""
    arguments = [program, str(path), str(rows), str(width), str(batch)]
    done = subprocess.run(
        [sys.executable, "-m", "support.appetite", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parent.parent,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
    )
    shutil.rmtree(path, ignore_errors=True)
    assert done.returncode == 0, done.stderr
    peaks: dict[str, float] = json.loads(done.stdout)
    return peaks


@pytest.mark.parametrize(
    ("rows", "width", "batch"),
    [(110_000, 400, 8192), (3_000, 20_000, 400)],
    ids=["many rows", "wide strings"],
)
def test_memory_does_not_grow_with_the_data(
    tmp_path: Path, rows: int, width: int, batch: int
) -> None:
    """A writer and scans, sorted or not, of ten times the data take hardly more."""
    few = peaks_of("table", tmp_path / "few", rows, width, batch)
    many = peaks_of("table", tmp_path / "many", rows * 10, width, batch)

    assert few.keys() == many.keys() == {"write", "scan", "scan in order"}
    assert max(many.values()) < _MOST, many
    assert all(many[name] < few[name] + 120 for name in few), (few, many)


def test_a_state_table_takes_about_twice_the_bytes_of_its_rows(tmp_path: Path) -> None:
    """Its rows are held once, and a commit writes them in parts; the writer takes a segment's."""
    rows, width = 250_000, 800

    peaks = peaks_of("state table", tmp_path / "state", rows, width, 10_000)

    size = rows * (width + 30) / (1 << 20)
    assert peaks["write"] < 1.8 * size, peaks
    assert peaks["commit"] < 1.6 * size + 180, peaks
