"""The laws of the Pythons that Spark starts, what they need, and what breaks discovery."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from relstate.connector.cli import pythons
from relstate.connector.cli.pythons import (
    LEAST_PYTHON,
    REQUIREMENTS,
    Finding,
    assign_roles,
    judge_discovery,
    judge_roles,
)
from relstate.connector.cli.surroundings import Surroundings
from relstate.connector.spark.version import version_numbers
from support.machines import fake_python, machine, role, script
from support.sources import ROOT

_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_doctor_asks_for_what_pip_installs() -> None:
    """The requirements equal those of the distribution."""
    assert sorted(map(str, REQUIREMENTS)) == sorted(_PROJECT["dependencies"])
    assert version_numbers(_PROJECT["requires-python"].removeprefix(">=")) == LEAST_PYTHON


@pytest.mark.parametrize(
    ("version", "admitted"),
    [("4.0.9", False), ("4.1.0", True), ("4.3.1.dev0", True), ("4.4.0", False), ("", False)],
)
def test_a_version_is_admitted_between_the_bounds(version: str, admitted: bool) -> None:
    """A version is admitted from the lowest on, and below the first that is too new."""
    (pyspark,) = [requirement for requirement in REQUIREMENTS if requirement.module == "pyspark"]

    assert pyspark.admits(version) == admitted


def judged(surroundings: Surroundings) -> tuple[Finding, ...]:
    """Return the findings on the driver's, the data sources' and the functions' Python."""
    return tuple(judge_roles(*assign_roles(surroundings, ())))


@pytest.fixture
def driver(tmp_path: Path) -> str:
    """A Python that has everything that is needed."""
    return fake_python(tmp_path / "driver" / "python")


def test_one_python_for_all_is_well(tmp_path: Path, driver: str) -> None:
    """If Spark starts the Python that runs the driver, every finding is ok."""
    findings = judged(machine(executable=driver, PYSPARK_PYTHON=driver))

    assert [(finding.status, finding.advice) for finding in findings] == [("ok", "")] * 3
    assert all("Python 3.11.7" in finding.found for finding in findings)


def test_this_python_is_asked_as_it_is() -> None:
    """A real Python reports its version, its environment, and that it has what is needed."""
    driver, source, worker = assign_roles(
        machine(PYSPARK_PYTHON=sys.executable, PYTHONPATH=":".join(sys.path)), ()
    )

    assert driver.interpreter is not None
    assert driver.interpreter.version == tuple(sys.version_info[:3])
    assert driver.interpreter.prefix == sys.prefix
    assert driver.interpreter.troubles == {}
    assert "pyspark_relstate" in driver.interpreter.listed
    assert source.interpreter == worker.interpreter == driver.interpreter


def test_without_variables_it_is_python3_on_path(tmp_path: Path, driver: str) -> None:
    """Without an activated virtual environment Spark starts another Python."""
    script(tmp_path / "bin" / "python3", f'exec "{sys.executable}" -I -S "$@"')

    findings = judged(machine(tmp_path / "bin", executable=driver))

    assert [finding.status for finding in findings] == ["ok", "problem", "problem"]
    assert "it lacks relstate, pyspark, pyarrow, numpy" in findings[1].found
    assert "the python3 on PATH, as PYSPARK_PYTHON is not set" in findings[1].found
    assert "export PYSPARK_PYTHON" in findings[1].advice


def test_data_sources_take_the_driver_s_variable_first(tmp_path: Path, driver: str) -> None:
    """PYSPARK_DRIVER_PYTHON goes before PYSPARK_PYTHON for data sources, not for functions."""
    notebook = script(tmp_path / "jupyter", "echo 'jupyter: no such command' >&2; exit 1")

    findings = judged(
        machine(executable=driver, PYSPARK_PYTHON=driver, PYSPARK_DRIVER_PYTHON=notebook)
    )

    assert [finding.status for finding in findings] == ["ok", "problem", "ok"]
    assert "named by PYSPARK_DRIVER_PYTHON" in findings[1].found
    assert "does not run as Python: jupyter: no such command" in findings[1].found


def test_a_program_that_is_not_there_is_told(driver: str) -> None:
    """The finding names a variable that names no program."""
    findings = judged(machine(executable=driver, PYSPARK_PYTHON="python9"))

    assert [finding.status for finding in findings] == ["ok", "problem", "problem"]
    assert findings[1].found == "'python9' (named by PYSPARK_PYTHON): there is no such program"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"version": [3, 12, 1]}, "the driver runs Python 3.11.7"),
        ({"version": [3, 9, 1]}, "relstate needs Python 3.11 or newer"),
        ({"versions": {"relstate": "0.2.0"}}, "it has relstate 0.2.0, the driver 0.1.0"),
        (
            {"versions": {"pyspark": "4.0.0"}},
            "it has pyspark 4.0.0, which is not pyspark>=",
        ),
        ({"versions": {"pyarrow": "18.0.0"}}, "it has pyarrow 18.0.0, which is not pyarrow>=19"),
        ({"versions": {"numpy": "1.26.4"}}, "it has numpy 1.26.4, which is not numpy>=2"),
        ({"versions": {"lmdb": "1.7.5"}}, "it has lmdb 1.7.5, which is not lmdb>=3,<4"),
        (
            {"troubles": {"lmdb": "ModuleNotFoundError: No module named 'lmdb'"}},
            "it lacks lmdb",
        ),
        (
            {"troubles": {"pyarrow": "ImportError: libarrow.so: wrong ELF class"}},
            "it cannot import pyarrow (ImportError: libarrow.so: wrong ELF class)",
        ),
    ],
)
def test_what_a_python_lacks_is_told(
    tmp_path: Path, driver: str, changes: dict[str, Any], expected: str
) -> None:
    """Another minor version, another release, a wrong version, and a missing or broken module."""
    worker = fake_python(tmp_path / "other" / "python3", **changes)

    findings = judged(machine(executable=driver, PYSPARK_PYTHON=worker))

    assert [finding.status for finding in findings] == ["ok", "problem", "problem"]
    assert expected in findings[1].found
    assert findings[1].advice


def test_the_driver_s_own_lack_is_told(tmp_path: Path) -> None:
    """The advice for a module that the driver lacks is to install it there."""
    driver = fake_python(tmp_path / "python", versions={"pyspark": "4.0.0"})

    findings = judged(machine(executable=driver, PYSPARK_PYTHON=driver))

    assert [finding.status for finding in findings] == ["problem"] * 3
    assert "pip install" in findings[0].advice


def test_another_pyarrow_is_a_warning(tmp_path: Path, driver: str) -> None:
    """Two versions of pyarrow work as long as both write the same bytes."""
    worker = fake_python(tmp_path / "other" / "python3", versions={"pyarrow": "25.0.0"})

    findings = judged(machine(executable=driver, PYSPARK_PYTHON=worker))

    assert [finding.status for finding in findings] == ["ok", "warning", "warning"]


_SOURCE = """
print("noise")
from pyspark.sql.datasource import DataSource
class DefaultSource(DataSource):
    @classmethod
    def name(cls):
        return {name}
"""


def discovered(site: Path, *listed: str) -> list[Finding]:
    """Return the findings for listed modules, with those in a folder importable."""
    surroundings = machine(PYTHONPATH=":".join([str(site), *sys.path]))
    return list(judge_discovery(surroundings, role(sys.executable, listed=listed), ()))


def test_modules_that_work_are_well(tmp_path: Path) -> None:
    """A source that prints, and a module without a source, do not break discovery."""
    (tmp_path / "pyspark_noisy.py").write_text(_SOURCE.format(name="'noisy'"))
    (tmp_path / "pyspark_plain.py").write_text("DefaultSource = object\n")

    (finding,) = discovered(tmp_path, "pyspark_noisy", "pyspark_plain", "pyspark_relstate")

    assert finding.status == "ok"
    assert "pyspark_relstate" in finding.found


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
    """One finding names the module, how it failed, and that it hides all sources."""
    (tmp_path / "pyspark_foo.py").write_text(body)

    (finding,) = discovered(tmp_path, "pyspark_foo", "pyspark_relstate")

    assert finding.status == "problem"
    assert finding.found.startswith("pyspark_foo cannot be imported: ")
    assert expected in finding.found
    assert "pip uninstall pyspark-foo" in finding.advice


def test_a_module_that_hangs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check takes no longer than its time limit."""
    monkeypatch.setattr(pythons, "DISCOVERY_SECONDS", 1.0)
    (tmp_path / "pyspark_slow.py").write_text("import time; time.sleep(600)")

    findings = discovered(tmp_path, "pyspark_slow")

    assert "pyspark_slow cannot be imported: it did not end within 1 s" in findings[0].found


def test_a_module_that_is_not_listed_is_reported(tmp_path: Path) -> None:
    """Spark does not see a module that an import hook finds outside the folders of `sys.path`."""
    (finding,) = discovered(tmp_path)

    assert finding.status == "problem"
    assert "but Spark does not list it" in finding.found
    assert "install relstate again" in finding.advice


def test_a_missing_module_is_told(tmp_path: Path) -> None:
    """A relstate without the module that Spark discovers is reported."""
    (tmp_path / "pyspark_relstate.py").write_text("raise ModuleNotFoundError")

    (finding,) = discovered(tmp_path)

    assert finding.status == "problem"
    assert "is not installed for" in finding.found


def test_what_the_interpreter_lacks_is_not_told_twice(tmp_path: Path) -> None:
    """Without pyspark or relstate the finding on the interpreter says so, and no other."""
    surroundings = machine()
    without_pyspark = role(sys.executable, troubles={"pyspark": "gone"}, listed=())
    without_relstate = role(sys.executable, troubles={"relstate": "gone"}, listed=())

    assert list(judge_discovery(surroundings, without_pyspark, ())) == []
    assert list(judge_discovery(surroundings, without_relstate, ())) == []
