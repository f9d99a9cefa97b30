"""What a machine lacks is said plainly, before anything else fails."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.sources import ROOT

JAVA_17 = 'openjdk version "17.0.15" 2025-04-15'
TOOLS = ("sed", "head")


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder for PATH that holds this Python and what the script itself needs, no Java."""
    folder = tmp_path / "programs of a fresh machine"
    folder.mkdir()
    for tool in TOOLS:
        path = shutil.which(tool)
        assert path is not None
        (folder / tool).symlink_to(path)
    (folder / "python3").symlink_to(sys.executable)
    return folder


@pytest.mark.parametrize("first_line", [JAVA_17, 'openjdk version "25" 2025-09-16'])
def test_a_machine_that_has_all_passes_silently(programs: Path, first_line: str) -> None:
    """With Python and Java new enough there is nothing to say."""
    fake_java(programs, first_line)

    assert preflight(programs) == (0, "")


@pytest.mark.parametrize(
    ("first_line", "expected"),
    [
        ('java version "1.8.0_202"', "is Java 8"),
        ('openjdk version "11.0.2" 2019-01-15', "is Java 11"),
        ("Unable to locate a Java Runtime.", "does not tell its version"),
    ],
)
def test_an_old_java_is_told(programs: Path, first_line: str, expected: str) -> None:
    """The message has the version that was found and the one that is needed."""
    fake_java(programs, first_line)
    status, message = preflight(programs)

    assert status == 1
    assert expected in message
    assert "Java 17 or newer" in message


def test_a_missing_java_is_told(programs: Path) -> None:
    """The message says where it was looked for and how to get it."""
    status, message = preflight(programs)

    assert status == 1
    assert "there is no 'java'" in message
    assert "PATH" in message
    assert "openjdk-17" in message


def test_java_home_goes_before_path(programs: Path, tmp_path: Path) -> None:
    """Spark takes JAVA_HOME's Java; a wrong one there is told though PATH has a right one."""
    home = tmp_path / "java home"
    (home / "bin").mkdir(parents=True)
    fake_java(programs, JAVA_17)
    status, message = preflight(programs, java_home=home)
    assert status == 1
    assert f"JAVA_HOME is '{home}'" in message

    fake_java(home / "bin", 'openjdk version "11.0.2" 2019-01-15')
    assert "is Java 11" in preflight(programs, java_home=home)[1]

    fake_java(home / "bin", JAVA_17)
    assert preflight(programs, java_home=home) == (0, "")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("case $2 in *print*) echo 3.10.13;; *) exit 1;; esac", "is Python 3.10.13"),
        ("exit 1", "does not run as Python"),
        ("case $2 in *print*) echo 3.12.1;; *ensurepip*) exit 1;; esac", "python3-venv"),
    ],
)
def test_a_wrong_python_is_told(programs: Path, body: str, expected: str) -> None:
    """Too old, none at all, or one without venv: each has its own remedy."""
    fake_java(programs, JAVA_17)
    script(programs / "python3.x", body)
    status, message = preflight(programs, python="python3.x")

    assert status == 1
    assert expected in message


def test_a_missing_python_is_told_with_all_else(programs: Path) -> None:
    """One run names everything that is missing."""
    status, message = preflight(programs, python="python9")

    assert status == 1
    assert "'python9' is not a program here" in message
    assert "there is no 'java'" in message


def fake_java(folder: Path, first_line: str) -> None:
    """Put a java into the folder that prints this about its version."""
    script(folder / "java", f"echo '{first_line}' >&2")


def script(path: Path, body: str) -> None:
    """Write an executable shell script."""
    path.write_text(f"#!{shutil.which('sh')}\n{body}\n")
    path.chmod(0o755)


def preflight(
    programs: Path, *, python: str = "python3", java_home: Path | None = None
) -> tuple[int, str]:
    """Run the script on a machine of these programs; return its status and what it said."""
    run = subprocess.run(
        [shutil.which("sh") or "sh", str(ROOT / "scripts" / "preflight.sh"), python],
        env={"PATH": str(programs), "JAVA_HOME": str(java_home or "")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout == ""
    return run.returncode, run.stderr
