"""The laws of ``doctor``, on whole machines."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from relstate.connector.cli import doctor
from relstate.connector.cli.surroundings import Surroundings, surroundings
from relstate.storage import Store
from support.commands import run
from support.machines import fake_java, machine, script

_SITE = ":".join(sys.path)


def looked_at(monkeypatch: pytest.MonkeyPatch, found: Surroundings) -> None:
    """Have doctor look at these surroundings."""
    monkeypatch.setattr(doctor, "surroundings", lambda: found)


def test_a_machine_that_has_all_is_well(
    tmp_path: Path, shop: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing to do: exit code 0, every finding is ok."""
    fake_java(tmp_path / "java", 'openjdk version "17.0.15"')
    looked_at(monkeypatch, machine(tmp_path, PYSPARK_PYTHON=sys.executable, PYTHONPATH=_SITE))

    found = run("doctor", shop.path, "--json")

    assert found.document["ok"], found.document
    assert found.code == 0
    assert {one["subject"] for one in found.document["findings"]} == {
        "driver's Python",
        "data sources' Python",
        "functions' Python",
        "data source discovery",
        "SPARK_HOME",
        "Java",
        "store",
        "hard links",
        "open files",
    }


def test_every_problem_of_a_machine_is_found_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong Python on PATH, a broken module, another Spark, an old Java, no store."""
    script(tmp_path / "python3", f'exec "{sys.executable}" -S "$@"')
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "pyspark_broken.py").write_text("import no_such_module")
    fake_java(tmp_path / "java", 'openjdk version "11.0.2"')
    looked_at(
        monkeypatch,
        machine(
            tmp_path,
            PYSPARK_DRIVER_PYTHON=sys.executable,
            PYTHONPATH=f"{tmp_path}/site:{_SITE}",
            SPARK_HOME=str(tmp_path),
        ),
    )

    found = run("doctor", str(tmp_path / "nowhere"), "--json")

    problems = {
        one["subject"]: one["found"]
        for one in found.document["findings"]
        if one["status"] == "problem"
    }
    assert found.code == 1
    assert not found.document["ok"]
    assert "pyspark_broken" in problems["data source discovery"]
    assert "no_such_module" in problems["data source discovery"]
    assert "holds no Spark" in problems["SPARK_HOME"]
    assert "Java 11" in problems["Java"]
    assert "StoreNotFoundError" in problems["store"]
    assert all(one["advice"] for one in found.document["findings"] if one["status"] != "ok")


def test_what_to_do_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table has every finding, and below it stands what to do about those that are not ok."""
    looked_at(monkeypatch, machine(PYSPARK_PYTHON=sys.executable, PYTHONPATH=_SITE, PATH=""))

    found = run("doctor")

    assert found.code == 1
    assert "there is no 'java'" in found.output
    assert "problem, Java: set JAVA_HOME" in found.output


def test_it_looks_at_its_own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a test's help, the surroundings are the process's own."""
    monkeypatch.setenv("PYSPARK_PYTHON", "python9")

    found = surroundings()

    assert found.variables["PYSPARK_PYTHON"] == "python9"
    assert found.executable == sys.executable
    assert found.path_of("no such program") is None
