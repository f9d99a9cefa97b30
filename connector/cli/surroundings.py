"""The surroundings of a process: its variables, other programs, files outside the store.

The one exception to the rule that files go through the environment of relstate.storage: Spark finds
Python and Java by these variables, so a diagnosis has to read them.

Promises: no variable is changed. A missing program, an unreadable folder and a program that does
not end are results, not errors.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryFile

from relstate.connector.files.row_file import unwritable_error

_NOT_RUN = 126  # as a shell says


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a program ended: its exit code, None if it was stopped, and what it wrote."""

    code: int | None
    output: str
    errors: str

    @property
    def last_words(self) -> str:
        """The last line of its errors, else of its output, that is not empty."""
        lines = [line.strip() for line in f"{self.output}\n{self.errors}".splitlines()]
        return next((line for line in reversed(lines) if line), "it says nothing")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The surroundings of a process that has these variables and runs this Python."""

    variables: Mapping[str, str]
    executable: str = sys.executable

    def path_of(self, program: str) -> str | None:
        """Return the path of a program, found as a shell does; None if there is none."""
        return shutil.which(program, path=self.variables.get("PATH", ""))

    def run(self, *command: str, seconds: float, python_path: tuple[str, ...] = ()) -> Outcome:
        """Run a program for so long at most, with folders put first in its PYTHONPATH."""
        inherited = self.variables.get("PYTHONPATH")
        path = os.pathsep.join([*python_path, *([inherited] if inherited else [])])
        variables = {**self.variables, **({"PYTHONPATH": path} if path else {})}
        try:
            process = subprocess.run(
                command,
                env=variables,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Outcome(None, "", f"it did not end within {seconds:g} s")
        except OSError as error:
            return Outcome(_NOT_RUN, "", f"it cannot be run: {error.strerror}")
        return Outcome(process.returncode, process.stdout, process.stderr)

    def names_in(self, folder: str) -> tuple[str, ...]:
        """Return the names in a folder, sorted; none if there is no such folder."""
        try:
            return tuple(sorted(os.listdir(folder)))
        except OSError:
            return ()

    def descriptor_limit(self) -> int | None:
        """Return how many files this process may have open, None for any number."""
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return None if limit == resource.RLIM_INFINITY else limit


def write_file(path: str, text: str) -> None:
    """Write a file outside any store. FilesystemError."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise unwritable_error(path, error) from error


@contextmanager
def quiet_programs() -> Iterator[None]:
    """Let programs that are started in the block, and live on, write no errors.

    What they wrote in the block is on stderr after all if it ends with an error.
    """
    sys.stderr.flush()
    before = os.dup(2)
    with TemporaryFile() as written:
        os.dup2(written.fileno(), 2)
        try:
            yield
        except BaseException:
            os.dup2(before, 2)
            written.seek(0)
            os.write(2, written.read())
            raise
        finally:
            os.dup2(before, 2)
            os.close(before)


def surroundings() -> Surroundings:
    """Return the surroundings of this process now."""
    return Surroundings(dict(os.environ))
