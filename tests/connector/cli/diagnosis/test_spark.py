"""The laws of which Spark and which Java are started."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest

from relstate.connector.cli.diagnosis.spark import (
    judge_java,
    judge_spark_home,
    spark_home,
    spark_libraries,
)
from support.machines import fake_java, machine, role

JAVA_17 = 'openjdk version "17.0.15" 2025-04-15'


def other_spark(folder: Path, version: str) -> str:
    """Make a folder look like a Spark and return it."""
    (folder / "jars").mkdir(parents=True)
    (folder / "jars" / f"spark-core_2.13-{version}.jar").touch()
    (folder / "jars" / f"spark-sql_2.13-{version}.jar").touch()
    return str(folder)


def test_without_spark_home_it_is_pyspark_s() -> None:
    """Spark is the one in pyspark, and so are the libraries it gives to its Pythons."""
    assert judge_spark_home(machine(), role("python")).status == "ok"
    assert spark_home(machine()) == str(Path(pyspark.__file__).parent)
    names = [Path(library).name for library in spark_libraries(machine())]
    assert "pyspark.zip" in names


def test_another_spark_is_a_problem(tmp_path: Path) -> None:
    """SPARK_HOME of another version starts a JVM that pyspark does not fit."""
    home = other_spark(tmp_path, "3.5.1")

    found = judge_spark_home(machine(SPARK_HOME=home), role("python"))

    assert found.status == "problem"
    assert found.found == f"{home} is Spark 3.5.1, pyspark is 4.3.0"
    assert "unset SPARK_HOME" in found.advice


def test_the_same_spark_elsewhere_is_well(tmp_path: Path) -> None:
    """SPARK_HOME may name a Spark of pyspark's version."""
    home = other_spark(tmp_path, "4.3.0")

    assert judge_spark_home(machine(SPARK_HOME=home), role("python")).status == "ok"


def test_a_spark_home_without_spark_is_a_problem(tmp_path: Path) -> None:
    """A folder that is not there, or holds something else."""
    for home in (tmp_path, tmp_path / "nowhere"):
        found = judge_spark_home(machine(SPARK_HOME=str(home)), role("python"))
        assert (found.status, found.found) == ("problem", f"{str(home)!r} holds no Spark")


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
    """The Java on PATH tells its version, and an old one is told."""
    fake_java(tmp_path / "java", first_line)

    found = judge_java(machine(tmp_path))

    assert found.status == status
    assert expected in found.found


def test_java_home_goes_before_path(tmp_path: Path) -> None:
    """Spark takes JAVA_HOME's, also where there is none in it."""
    fake_java(tmp_path / "java", JAVA_17)
    missing = judge_java(machine(tmp_path, JAVA_HOME=str(tmp_path / "home")))
    fake_java(tmp_path / "home" / "bin" / "java", 'openjdk version "11.0.2"')
    old = judge_java(machine(tmp_path, JAVA_HOME=str(tmp_path / "home")))

    assert missing.status == old.status == "problem"
    assert f"there is no '{tmp_path}/home/bin/java'" in missing.found
    assert "Java 11" in old.found
    assert "unset it" in old.advice
