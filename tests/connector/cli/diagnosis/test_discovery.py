"""The laws of discovery: the module that hides all data sources is found, whatever it does."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from relstate.connector.cli.diagnosis import discovery
from relstate.connector.cli.diagnosis.discovery import judge_discovery
from relstate.connector.cli.diagnosis.finding import Finding
from support.machines import machine, role

_SOURCE = """
print("noise")
from pyspark.sql.datasource import DataSource
class DefaultSource(DataSource):
    @classmethod
    def name(cls):
        return {name}
"""


def judged(site: Path, *listed: str) -> list[Finding]:
    """Return the findings where these modules are listed, and those in a folder importable."""
    surroundings = machine(PYTHONPATH=":".join([str(site), *sys.path]))
    return list(judge_discovery(surroundings, role(sys.executable, listed=listed), ()))


def test_modules_that_work_are_well(tmp_path: Path) -> None:
    """A source that prints, and a module without a source, break nothing."""
    (tmp_path / "pyspark_noisy.py").write_text(_SOURCE.format(name="'noisy'"))
    (tmp_path / "pyspark_plain.py").write_text("DefaultSource = object\n")

    (found,) = judged(tmp_path, "pyspark_noisy", "pyspark_plain", "pyspark_relstate")

    assert found.status == "ok"
    assert "pyspark_relstate" in found.found


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("def broken(:", "SyntaxError"),
        (_SOURCE.format(name="1 / 0"), "ZeroDivisionError"),
        ("DefaultSource = 5", "TypeError"),
        ("import sys; sys.exit()", "it ended the process with exit code 0"),
        ("import os; os._exit(3)", "it ended the process with exit code 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "by signal 9"),
    ],
)
def test_a_module_that_breaks_is_named(tmp_path: Path, body: str, expected: str) -> None:
    """One finding names the culprit, says what it did, and that it hides all sources."""
    (tmp_path / "pyspark_foo.py").write_text(body)

    (found,) = judged(tmp_path, "pyspark_foo", "pyspark_relstate")

    assert found.status == "problem"
    assert found.found.startswith("pyspark_foo cannot be imported: ")
    assert expected in found.found
    assert "pip uninstall pyspark-foo" in found.advice


def test_a_module_that_hangs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking takes no longer than its time limit."""
    monkeypatch.setattr(discovery, "SECONDS", 1.0)
    (tmp_path / "pyspark_slow.py").write_text("import time; time.sleep(600)")

    found = judged(tmp_path, "pyspark_slow")

    assert "pyspark_slow cannot be imported: it did not end within 1 s" in found[0].found


def test_an_editable_install_is_told(tmp_path: Path) -> None:
    """What can be imported but is not listed was installed so that Spark cannot see it."""
    (found,) = judged(tmp_path)

    assert found.status == "problem"
    assert "is not listed, as in an editable install" in found.found
    assert "without -e" in found.advice


def test_a_missing_module_is_told(tmp_path: Path) -> None:
    """Relstate without its hook for Spark is not installed as it should be."""
    (tmp_path / "pyspark_relstate.py").write_text("raise ModuleNotFoundError")

    (found,) = judged(tmp_path)

    assert found.status == "problem"
    assert "is not installed for" in found.found


def test_what_the_interpreter_lacks_is_not_told_twice(tmp_path: Path) -> None:
    """Without pyspark, or without relstate, that is what is to be said, elsewhere."""
    surroundings = machine()
    without_pyspark = role(sys.executable, troubles={"pyspark": "gone"}, listed=())
    without_relstate = role(sys.executable, troubles={"relstate": "gone"}, listed=())

    assert list(judge_discovery(surroundings, without_pyspark, ())) == []
    assert list(judge_discovery(surroundings, without_relstate, ())) == []
