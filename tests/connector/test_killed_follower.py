"""The law of a real driver process that follows a table, is killed, and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from relstate.storage import Store
from support.stores import upsert

TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.timeout(600)  # three sessions of Spark, each in a process of its own
def test_a_follower_that_is_killed_tells_every_change_once(store: Store, tmp_path: Path) -> None:
    """It is killed in its first micro-batch and in a later one, while others commit."""
    store.create_table("orders", "id INT, customer STRING", primary_key=["id"])
    upsert(store, "orders", [(1, "ann"), (2, "bob")])
    (tmp_path / "batches").mkdir()
    for batch in (0, 1):
        (tmp_path / f"kill-{batch}").touch()

    ends = [run_follower(store, tmp_path)]
    upsert(store, "orders", [(2, "eve")], [(1, "")])
    ends.append(run_follower(store, tmp_path))
    upsert(store, "orders", [(3, "joe")])
    ends.append(run_follower(store, tmp_path))

    assert ends == [-signal.SIGKILL, -signal.SIGKILL, 0]
    assert told(tmp_path) == [
        [["insert", 3, 1, "ann"], ["insert", 3, 2, "bob"]],
        [
            ["delete", 4, 1, "ann"],
            ["update_postimage", 4, 2, "eve"],
            ["update_preimage", 4, 2, "bob"],
        ],
        [["insert", 5, 3, "joe"]],
    ]


def told(folder: Path) -> list[Any]:
    """Return the rows of each micro-batch as they were recorded last."""
    files = sorted((folder / "batches").iterdir(), key=lambda path: int(path.stem))
    return [json.loads(file.read_text()) for file in files]


def run_follower(store: Store, folder: Path) -> int:
    """Run the program to its end and return how it ended."""
    command = [sys.executable, "-m", "support.follower", store.path, str(folder)]
    path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
    run = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": path},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode not in (0, -signal.SIGKILL):
        pytest.fail(run.stderr[-4000:])
    return run.returncode
