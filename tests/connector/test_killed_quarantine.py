"""The law of a driver that is killed at any moment while a stream sets bad rows aside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from relstate.storage import Store

TESTS = Path(__file__).resolve().parents[1]
KILLS = 2
# More than a life reads before it is killed.
FILES = 20
ROWS = 50


@pytest.mark.timeout(900)  # three sessions of Spark, each in a process of its own
@pytest.mark.parametrize("key", [["id"], None], ids=["keyed", "keyless"])
def test_a_killed_stream_has_each_row_once_in_its_table_or_its_quarantine(
    key: list[str] | None, store: Store, tmp_path: Path
) -> None:
    """Bad rows are only in the quarantine, good ones only in the table, and none is there twice."""
    (tmp_path / "in").mkdir()
    store.create_table(
        "t", "id BIGINT NOT NULL, value INT", primary_key=key, constraints={"positive": "value > 0"}
    )
    random = Random(9)
    rows: list[dict[str, Any]] = []
    for life in range(KILLS):
        rows += added_rows(random, tmp_path / "in", len(rows))
        epoch, process = store.epoch, started(store, tmp_path)
        while life and store.epoch == epoch:  # the first life may be killed in its first batch
            time.sleep(0.05)
        time.sleep(random.uniform(0, 3))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    process = started(store, tmp_path, "end")
    _, problems = process.communicate()
    assert process.returncode == 0, problems[-4000:]

    good = sorted((row["id"], row["value"]) for row in rows if not is_bad(row))
    bad = sorted(json.dumps(row) for row in rows if is_bad(row))
    stored = store.table("t").to_arrow().to_pylist()
    assert sorted((row["id"], row["value"]) for row in stored) == good
    listed = store.table("t__quarantine").to_arrow().to_pylist()
    assert sorted(row["row_json"] for row in listed) == bad
    assert store.check().problems == ()


def is_bad(row: dict[str, Any]) -> bool:
    """Return whether the table does not take a row."""
    return row["id"] is None or not 0 < row["value"] < 2**31


def added_rows(random: Random, folder: Path, start: int) -> list[dict[str, Any]]:
    """Write files of rows, of which one in five is bad, and return the rows."""
    added = []
    for number in range(start, start + FILES * ROWS):
        row: dict[str, Any] = {"id": number, "value": number + 1}
        if random.random() < 0.2:
            # The value of a row without an id is still its own.
            row |= random.choice([{"id": None}, {"value": -number}, {"value": 2**40 + number}])
        added.append(row)
    for file in range(0, len(added), ROWS):
        path = folder / f"{start + file:08}.json"
        lines = "\n".join(map(json.dumps, added[file : file + ROWS]))
        # Spark lists the folder while it is written.
        unfinished = path.with_name(f".{path.name}")
        unfinished.write_text(lines)
        unfinished.rename(path)
    return added


def started(store: Store, folder: Path, *words: str) -> subprocess.Popen[str]:
    """Start a driver, in a process group of its own, and wait for its stream."""
    search = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
    process = subprocess.Popen(
        [sys.executable, "-m", "support.bad_rows_stream", store.path, str(folder), *words],
        env={**os.environ, "PYTHONPATH": search},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "alive\n", process.communicate()
    return process
