"""The law of a real driver process that is killed while it commits, and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from relstate.storage import Store
from support.stores import rows_of

TESTS = Path(__file__).resolve().parents[1]


FILES = 3


@pytest.mark.timeout(900)  # four sessions of Spark, each in a process of its own
@pytest.mark.parametrize("key", [["id"], None], ids=["keyed", "keyless"])
def test_a_driver_killed_in_commit_loses_and_doubles_nothing(
    key: list[str] | None, store: Store, tmp_path: Path
) -> None:
    """Each file is one epoch of each table, however often its micro-batch was tried.

    The driver is killed before its commit, after its commit and before Spark's, in the sink and in
    foreachBatch; and a task fails after it has written everything.
    """
    source, accidents = tmp_path / "source", tmp_path / "accidents"
    source.mkdir()
    accidents.mkdir()
    for table in ("sunk", "written"):
        store.create_table(table, "id BIGINT, customer STRING", primary_key=key)
    for number in range(FILES):
        rows = [{"id": 10 * number + row, "customer": f"of {number}"} for row in range(7)]
        rows.append({"id": -1, "customer": f"last of {number}"})
        lines = "\n".join(map(json.dumps, rows))
        (source / f"{number}.json").write_text(lines)
        os.utime(source / f"{number}.json", (number, number))
    created = store.epoch
    for accident in ("before-1", "after-1", "task-2-0", "task-2-1", "foreach-after-1"):
        (accidents / accident).touch()

    ends = [run_driver(store, source, tmp_path) for _ in range(4)]

    assert ends == [-signal.SIGKILL] * 3 + [0]
    assert not list(accidents.iterdir())
    assert store.epoch == created + 2 * FILES
    expected = [(10 * file + row, f"of {file}") for file in range(FILES) for row in range(7)]
    lasts = [(-1, f"last of {file}") for file in range(FILES)]
    for table in ("sunk", "written"):
        stored = rows_of(store.table(table).to_arrow())
        assert sorted(stored) == sorted(expected + (lasts if key is None else lasts[-1:]))


def run_driver(store: Store, source: Path, folder: Path) -> int:
    """Run the driver program to its end and return how it ended."""
    command = [sys.executable, "-m", "support.unlucky", store.path, str(source), str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    run = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    if run.returncode not in (0, -signal.SIGKILL):
        pytest.fail(run.stderr[-4000:])
    return run.returncode
