"""The laws of ``doctor``: Spark, Java, stores, and whole machines."""

from __future__ import annotations

import errno
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest

from relstate.connector.cli import doctor
from relstate.connector.cli.doctor import (
    judge_java,
    judge_spark_home,
    judge_store,
    spark_home,
    spark_libraries,
)
from relstate.connector.cli.surroundings import Surroundings, surroundings
from relstate.storage import Store
from relstate.storage.disk import Disk
from support.commands import run
from support.machines import fake_java, machine, role, script

JAVA_17 = 'openjdk version "17.0.15" 2025-04-15'


def other_spark(folder: Path, version: str) -> str:
    """Make a folder look like a Spark and return it."""
    (folder / "jars").mkdir(parents=True)
    (folder / "jars" / f"spark-core_2.13-{version}.jar").touch()
    (folder / "jars" / f"spark-sql_2.13-{version}.jar").touch()
    return str(folder)


def test_without_spark_home_it_is_pyspark_s() -> None:
    """Without SPARK_HOME, Spark and the libraries it gives to its Pythons are those in pyspark."""
    assert judge_spark_home(machine(), role("python")).status == "ok"
    assert spark_home(machine()) == str(Path(pyspark.__file__).parent)
    names = [Path(library).name for library in spark_libraries(machine())]
    assert "pyspark.zip" in names


def test_another_spark_is_a_problem(tmp_path: Path) -> None:
    """A SPARK_HOME of another version starts a JVM that does not fit pyspark."""
    home = other_spark(tmp_path, "3.5.1")

    finding = judge_spark_home(machine(SPARK_HOME=home), role("python"))

    assert finding.status == "problem"
    assert finding.found == f"{home} is Spark 3.5.1, pyspark is 4.3.0"
    assert "unset SPARK_HOME" in finding.advice


def test_the_same_spark_elsewhere_is_well(tmp_path: Path) -> None:
    """SPARK_HOME may name another folder with a Spark of pyspark's version."""
    home = other_spark(tmp_path, "4.3.0")

    assert judge_spark_home(machine(SPARK_HOME=home), role("python")).status == "ok"


def test_a_spark_home_without_spark_is_a_problem(tmp_path: Path) -> None:
    """A SPARK_HOME that is missing, or holds something else, is a problem."""
    for home in (tmp_path, tmp_path / "nowhere"):
        finding = judge_spark_home(machine(SPARK_HOME=str(home)), role("python"))
        assert (finding.status, finding.found) == ("problem", f"{str(home)!r} holds no Spark")


@pytest.mark.parametrize(
    ("first_line", "status", "expected"),
    [
        (JAVA_17, "ok", "Java 17"),
        ('openjdk version "25" 2025-09-16', "ok", "Java 25"),
        ('java version "1.8.0_202"', "problem", "Java 8"),
        ('openjdk version "11.0.2" 2019-01-15', "problem", "Java 11"),
        ("Unable to locate a Java Runtime.", "problem", "Unable to locate a Java Runtime."),
    ],
)
def test_java_is_17_or_newer(tmp_path: Path, first_line: str, status: str, expected: str) -> None:
    """The finding has the version of the Java on PATH; an old version is a problem."""
    fake_java(tmp_path / "java", first_line)

    finding = judge_java(machine(tmp_path))

    assert finding.status == status
    assert expected in finding.found


def test_java_home_goes_before_path(tmp_path: Path) -> None:
    """Spark takes the Java of JAVA_HOME, even if there is none in it."""
    fake_java(tmp_path / "java", JAVA_17)
    missing = judge_java(machine(tmp_path, JAVA_HOME=str(tmp_path / "home")))
    fake_java(tmp_path / "home" / "bin" / "java", 'openjdk version "11.0.2"')
    old = judge_java(machine(tmp_path, JAVA_HOME=str(tmp_path / "home")))

    assert missing.status == old.status == "problem"
    assert f"there is no '{tmp_path}/home/bin/java'" in missing.found
    assert "Java 11" in old.found
    assert "unset it" in old.advice


def test_a_store_that_works_is_well(shop: Store) -> None:
    """The store opens, its file system has hard links, and no file is left in it."""
    before = sorted(os.listdir(shop.path))

    findings = list(judge_store(machine(), shop.path))

    assert [(finding.subject, finding.status) for finding in findings[:2]] == [
        ("store", "ok"),
        ("hard links", "ok"),
    ]
    assert "1 table at epoch 6" in findings[0].found
    assert sorted(os.listdir(shop.path)) == before


def test_a_path_that_is_no_store_is_a_problem(tmp_path: Path) -> None:
    """The finding names the error, and nothing is written to the path."""
    (tmp_path / "notes.txt").touch()

    findings = list(judge_store(machine(), str(tmp_path)))

    assert findings[0].status == "problem"
    assert "NotAStoreError" in findings[0].found
    assert os.listdir(tmp_path) == ["notes.txt"]


@pytest.mark.parametrize(
    ("method", "number", "status"),
    [
        ("link", errno.ENOTSUP, "problem"),
        ("link", errno.EPERM, "problem"),
        ("write", errno.EACCES, "warning"),
        ("write", errno.EROFS, "warning"),
        ("write", errno.EIO, "problem"),
    ],
)
def test_a_file_system_without_links_is_a_problem(
    shop: Store, monkeypatch: pytest.MonkeyPatch, method: str, number: int, status: str
) -> None:
    """Refused links are a problem; if the user may not write, links cannot be tried: a warning."""

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Disk, method, refuse)

    (finding,) = [
        finding for finding in judge_store(machine(), shop.path) if finding.subject == "hard links"
    ]

    assert finding.status == status
    assert finding.advice


@dataclass(frozen=True, slots=True)
class _Limited(Surroundings):
    limit: int | None = None

    def descriptor_limit(self) -> int | None:
        """Return the limit that the test sets."""
        return self.limit


@pytest.mark.parametrize(("limit", "status"), [(256, "warning"), (1024, "ok"), (None, "ok")])
def test_few_descriptors_are_a_warning(shop: Store, limit: int | None, status: str) -> None:
    """With few descriptors, segments are opened and closed all the time."""
    *_, finding = judge_store(_Limited({}, limit=limit), shop.path)

    assert (finding.subject, finding.status) == ("open files", status)
    assert ("ulimit" in finding.advice) == (status == "warning")


_SITE = ":".join(sys.path)


def looked_at(monkeypatch: pytest.MonkeyPatch, substitute: Surroundings) -> None:
    """Let doctor check these surroundings."""
    monkeypatch.setattr(doctor, "surroundings", lambda: substitute)


def test_a_machine_that_has_all_is_well(
    tmp_path: Path, shop: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If nothing is missing, the exit code is 0 and every finding is ok."""
    fake_java(tmp_path / "java", 'openjdk version "17.0.15"')
    looked_at(monkeypatch, machine(tmp_path, PYSPARK_PYTHON=sys.executable, PYTHONPATH=_SITE))

    result = run("doctor", shop.path, "--json")

    assert result.document["ok"], result.document
    assert result.code == 0
    assert {finding["subject"] for finding in result.document["findings"]} == {
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
    """A wrong Python, a broken module, another Spark, an old Java and no store: five findings."""
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

    result = run("doctor", str(tmp_path / "nowhere"), "--json")

    problems = {
        finding["subject"]: finding["found"]
        for finding in result.document["findings"]
        if finding["status"] == "problem"
    }
    assert result.code == 1
    assert not result.document["ok"]
    assert "pyspark_broken" in problems["data source discovery"]
    assert "no_such_module" in problems["data source discovery"]
    assert "holds no Spark" in problems["SPARK_HOME"]
    assert "Java 11" in problems["Java"]
    assert "StoreNotFoundError" in problems["store"]
    assert all(
        finding["advice"] for finding in result.document["findings"] if finding["status"] != "ok"
    )


def test_what_to_do_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table has every finding; below it is the advice for those that are not ok."""
    looked_at(monkeypatch, machine(PYSPARK_PYTHON=sys.executable, PYTHONPATH=_SITE, PATH=""))

    result = run("doctor")

    assert result.code == 1
    assert "there is no 'java'" in result.output
    assert "problem, Java: set JAVA_HOME" in result.output


def test_lines_are_folded_where_there_is_no_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 80 columns, or COLUMNS: findings are sentences, and a log of CI is read by people."""
    home = other_spark(tmp_path / ("long" * 40), "3.5.1")
    looked_at(monkeypatch, machine(SPARK_HOME=home))
    for width, columns in ((80, None), (120, "120")):
        monkeypatch.delenv("COLUMNS", raising=False)
        if columns is not None:
            monkeypatch.setenv("COLUMNS", columns)
        lines = run("doctor").output.splitlines()
        assert width - 20 < max(map(len, lines)) <= width


def test_it_looks_at_its_own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """By default the surroundings are those of the process."""
    monkeypatch.setenv("PYSPARK_PYTHON", "python9")

    own = surroundings()

    assert own.variables["PYSPARK_PYTHON"] == "python9"
    assert own.executable == sys.executable
    assert own.path_of("no such program") is None
