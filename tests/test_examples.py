"""The examples run as a user runs them: as processes of their own, from the command line."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import relstate

FLIGHTS = Path(__file__).parents[1] / "examples" / "flights.py"
DAYS = 18


@pytest.mark.timeout(600)  # three times a Spark of its own
def test_the_demo_survives_a_kill_and_can_be_repeated(tmp_path: Path) -> None:
    """Killed in the midst of a replay it goes on, loses and doubles nothing; and so again."""
    store = tmp_path / "flights"
    killed = _started(store)
    _wait_for_changes(killed, store)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    reached = _epoch(store)

    continued = _run(store)
    assert "nothing new" not in continued
    assert _epoch(store) > reached

    complete = _epoch(store)
    assert "nothing new" in _run(store)
    assert _epoch(store) == complete
    report = relstate.open(str(store)).check()
    assert not report.problems, report


def test_a_folder_that_is_no_store_is_refused(tmp_path: Path) -> None:
    """A folder of other things is named, left alone, and no traceback is shown."""
    (tmp_path / "photograph").write_bytes(b"precious")
    refused = _started(tmp_path, "--reset")
    _, error = refused.communicate(timeout=120)

    assert refused.returncode == 2
    assert "NotAStoreError" in error
    assert "Traceback" not in error
    assert [path.name for path in tmp_path.iterdir()] == ["photograph"]


@pytest.mark.parametrize("days", ["0", "-3", "few"])
def test_a_wrong_number_of_days_is_refused(tmp_path: Path, days: str) -> None:
    """``--days`` must be a whole number of at least one."""
    refused = subprocess.run(
        [sys.executable, FLIGHTS, "--store", tmp_path / "flights", "--days", days],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert refused.returncode == 2
    assert "--days" in refused.stderr
    assert not list(tmp_path.iterdir())


def _started(store: Path, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, FLIGHTS, "--store", store, "--days", str(DAYS), *more],
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


def _wait_for_changes(process: subprocess.Popen[str], store: Path) -> None:
    """Wait until a micro-batch or two have been committed."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        if _flights(store) > 0:
            return
        time.sleep(0.05)
    raise AssertionError("no change was committed")


def _flights(store: Path) -> int:
    try:
        return relstate.open(str(store)).table("flights").count()
    except relstate.MissingError:
        return 0


def _epoch(store: Path) -> int:
    return relstate.open(str(store)).epoch
