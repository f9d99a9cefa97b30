"""The examples run as a user runs them: as processes of their own, from the command line."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import relstate

EXAMPLES = Path(__file__).parents[1] / "examples"
FLIGHTS = EXAMPLES / "flights.py"
SINCE, DAYS = "2013-01-05", 6


@pytest.mark.timeout(600)  # three times a Spark of its own
def test_the_demo_survives_a_kill_and_can_be_repeated(tmp_path: Path) -> None:
    """Killed while views follow it goes on, and nothing is lost or doubled; and so again."""
    store = tmp_path / "flights"
    killed = _started(store)
    _wait_for_days(killed, tmp_path / "flights.replay" / "checkpoint" / "commits")
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    reached = _epoch(store)

    continued = _run(store)
    assert "nothing new" not in continued
    assert "in the views after" in continued
    assert "in 3 parallel units" in continued
    assert "the primary key column 'carrier' is NULL" in continued
    assert _epoch(store) > reached

    complete = _epoch(store)
    assert "nothing new" in _run(store)
    assert _epoch(store) == complete
    report = relstate.open(str(store)).check()
    assert not report.problems, report


@pytest.mark.timeout(600)  # a cluster of its own
def test_the_demo_runs_on_a_cluster_with_an_object_server() -> None:
    """Tasks read by caches of the workers' own, and everything is equal in the end."""
    command = [
        sys.executable,
        str(EXAMPLES / "flights_cluster.py"),
        "--since",
        SINCE,
        "--days",
        "3",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=560)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "All equal, on two workers" in done.stdout
    assert "DIFFERENT" not in done.stdout
    copies = re.findall(r"worker\d: (\d+) segments in its cache", done.stdout)
    assert len(copies) == 2
    assert sum(map(int, copies)) > 0


def test_a_folder_that_is_no_store_is_refused(tmp_path: Path) -> None:
    """A folder of other things is named, left alone, and no traceback is shown."""
    (tmp_path / "photograph").write_bytes(b"precious")
    refused = _started(tmp_path, "--reset")
    _, error = refused.communicate(timeout=120)

    assert refused.returncode == 2
    assert "NotAStoreError" in error
    assert "Traceback" not in error
    assert [path.name for path in tmp_path.iterdir()] == ["photograph"]


@pytest.mark.timeout(300)  # a Spark of its own
def test_the_leaderboard_follows_its_clients() -> None:
    """The view has the scores that Redis clients set, and loses the member that they remove."""
    command = [sys.executable, str(EXAMPLES / "leaderboard.py")]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert output.splitlines() == ["Ann (AT) 30  Bob (DE) 20", "Bob (DE) 35  Eve (FR) 32"]


def _started(store: Path, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, FLIGHTS, "--store", store, "--since", SINCE, "--days", str(DAYS), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _run(store: Path) -> str:
    """Run the demo to its end and return what it printed."""
    process = _started(store)
    output, error = process.communicate(timeout=240)
    assert process.returncode == 0, output + error
    assert "All equal" in output
    assert "DIFFERENT" not in output
    assert "Traceback" not in error
    return output


def _wait_for_days(process: subprocess.Popen[str], commits: Path) -> None:
    """Wait until two micro-batches have been committed."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        if (commits / "1").exists():
            return
        time.sleep(0.05)
    raise AssertionError("no day passed")


def _epoch(store: Path) -> int:
    return relstate.open(str(store)).epoch
