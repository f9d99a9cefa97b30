"""The laws of the surroundings of the process: a failure is an answer, not an error."""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from relstate.connector.cli.surroundings import quiet_programs
from support.machines import machine, script


def test_a_program_says_how_it_ended(tmp_path: Path) -> None:
    """The outcome has the exit code, the output and the errors of a run with given variables."""
    show = "import os, sys; print(os.environ['A'], os.environ['PYTHONPATH']); sys.exit('bad')"
    outcome = machine(A="x", PYTHONPATH="/inherited").run(
        sys.executable, "-c", show, seconds=60, python_path=("/first",)
    )

    assert (outcome.code, outcome.output, outcome.errors) == (1, "x /first:/inherited\n", "bad\n")
    assert outcome.last_words == "bad"


def test_a_program_that_does_not_end_is_stopped(tmp_path: Path) -> None:
    """It is stopped at its time limit, and the outcome says so."""
    sleeper = script(tmp_path / "sleeper", "exec sleep 600")
    outcome = machine().run(sleeper, seconds=0.2)

    assert (outcome.code, outcome.last_words) == (None, "it did not end within 0.2 s")


@pytest.mark.parametrize("fails", [False, True])
def test_programs_of_a_block_are_quiet(capfd: pytest.CaptureFixture[str], fails: bool) -> None:
    """What they write is shown only if the block ends with an error; afterwards stderr is back."""
    error = pytest.raises(ZeroDivisionError) if fails else nullcontext()

    with error, quiet_programs():
        subprocess.run(["sh", "-c", "echo noise >&2"], check=True)
        1 // (not fails)
    subprocess.run(["sh", "-c", "echo after >&2"], check=True)

    assert capfd.readouterr().err == ("noise\nafter\n" if fails else "after\n")


def test_what_is_not_there_is_an_answer(tmp_path: Path) -> None:
    """A missing folder has no names; a file that is not a program has an outcome."""
    (tmp_path / "text").write_text("")

    assert machine().names_in(str(tmp_path / "nowhere")) == ()
    assert machine().names_in(str(tmp_path)) == ("text",)
    assert "it cannot be run" in machine().run(str(tmp_path / "text"), seconds=1).errors
