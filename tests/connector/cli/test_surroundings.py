"""The laws of the door to the process's surroundings: what goes wrong is an answer."""

from __future__ import annotations

import sys
from pathlib import Path

from support.machines import machine, script


def test_a_program_says_how_it_ended(tmp_path: Path) -> None:
    """Exit code, output and errors, with the variables and folders it was given."""
    show = "import os, sys; print(os.environ['A'], os.environ['PYTHONPATH']); sys.exit('bad')"
    found = machine(A="x", PYTHONPATH="/inherited").run(
        sys.executable, "-c", show, seconds=60, python_path=("/first",)
    )

    assert (found.code, found.output, found.errors) == (1, "x /first:/inherited\n", "bad\n")
    assert found.last_words == "bad"


def test_a_program_that_does_not_end_is_stopped(tmp_path: Path) -> None:
    """It is stopped when its time is over, and that is an answer."""
    sleeper = script(tmp_path / "sleeper", "exec sleep 600")
    found = machine().run(sleeper, seconds=0.2)

    assert (found.code, found.last_words) == (None, "it did not end within 0.2 s")


def test_what_is_not_there_is_an_answer(tmp_path: Path) -> None:
    """A folder that is not there has no names; a file that is no program does not run."""
    (tmp_path / "text").write_text("")

    assert machine().names_in(str(tmp_path / "nowhere")) == ()
    assert machine().names_in(str(tmp_path)) == ("text",)
    assert "it cannot be run" in machine().run(str(tmp_path / "text"), seconds=1).errors
