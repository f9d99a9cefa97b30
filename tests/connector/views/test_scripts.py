"""Scripts that others wrote to test their systems: their SELECTs as views over their tables.

Spark's own scripts are read from the archive that Spark publishes to Maven's central repository;
some of them are run, and all of them if ``RELSTATE_WORKLOADS=all``. Scripts of sqllogictest are
read from the folder ``RELSTATE_SQLLOGICTEST``, if there is one.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.script_law import ScriptLaw
from support.sources import ROOT
from support.stores import StoreMaker
from workloads.scripts import Script, parse_spark, parse_sqllogictest, spark_archive, spark_scripts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RECORD: dict[str, Any] = json.loads(
    (ROOT / "tests" / "workloads" / "spark_scripts.json").read_text("utf-8")
)
_ALL = os.environ.get("RELSTATE_WORKLOADS") == "all"
# Together a minute.
_SAMPLE = ("having.sql", "qualify.sql", "subquery/in-subquery/not-in-joins.sql")
_LOGIC = Path(os.environ.get("RELSTATE_SQLLOGICTEST", ""))
_LOGIC_FILES = sorted(_LOGIC.rglob("*.test")) if os.environ.get("RELSTATE_SQLLOGICTEST") else []


@pytest.fixture(scope="module")
def scripts() -> dict[str, Script]:
    """Spark's scripts by name."""
    archive = spark_archive(ROOT / "build" / "spark-tests")
    if archive is None:
        pytest.skip("Spark's archive of tests cannot be had")
    return spark_scripts(archive)


def test_the_documentation_says_how_many_selects_of_scripts_are_kept() -> None:
    """docs/views.md has the sums of the record, and each reason with its number."""
    text = " ".join((ROOT / "docs" / "views.md").read_text("utf-8").split())
    kept = sum(entry["kept"] for entry in _RECORD.values())
    reasons = [reason for entry in _RECORD.values() for reason in entry["refused"].values()]
    assert f"{len(_RECORD)} scripts: {kept} of {kept + len(reasons)} can be views" in text
    for reason in set(reasons):
        assert f"{reason} ({reasons.count(reason)})" in text


def test_a_script_has_tables_and_selects() -> None:
    """Views and tables with the rows inserted into them are tables; comments are left out."""
    script = parse_spark(
        "s",
        """-- A comment; with a semicolon
        CREATE TEMPORARY VIEW a AS SELECT * FROM VALUES (1) AS a(x);
        CREATE TABLE b (y INT, z STRING) USING parquet;
        INSERT INTO b (z) VALUES ('p'), ('q');
        SET spark.x=y;
        SELECT x -- as it is
        FROM a;
        SELECT 1;
        """,
    )
    assert list(script.tables) == ["a", "b"]
    assert script.tables["b"].endswith(
        "SELECT CAST(NULL AS INT) AS y, CAST(col1 AS STRING) AS z FROM VALUES ('p'), ('q')"
    )
    assert [number for number, _ in script.readable({"a", "b"})] == [1]


def test_a_script_of_sqllogictest_has_the_statements_of_every_system() -> None:
    """Results, and what is for one other system only, are left out."""
    script = parse_sqllogictest(
        "s",
        "statement ok\nCREATE TABLE t(a INTEGER, b VARCHAR(3))\n\n"
        "statement ok\nINSERT INTO t VALUES(1,'x')\n\n"
        "onlyif mysql\nquery I rowsort label-1\nSELECT a FROM t WHERE mysql\n----\n1\n\n"
        "skipif mysql\nquery I rowsort label-1\nSELECT a\nFROM t\n----\n1\n",
    )
    assert script.queries == ("SELECT a\nFROM t",)
    assert script.tables["t"].endswith("CAST(col2 AS STRING) AS b FROM VALUES (1,'x')")


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", _RECORD if _ALL else _SAMPLE)
def test_selects_of_spark_are_views_or_refused_as_recorded(
    name: str, scripts: dict[str, Script], spark: SparkSession, make_store: StoreMaker
) -> None:
    """What is kept equals its SELECT before and after changes; the others are in the record."""
    law = ScriptLaw(spark, scripts[name])
    plans = law.plan()
    assert plans.errors == {}
    recorded = _RECORD[name]
    assert list(map(str, plans.refused)) == list(recorded["refused"])
    for number, error in plans.refused.items():
        assert recorded["refused"][str(number)] in error
    assert len(plans.kept) == recorded["kept"]
    assert law.follow(make_store(vnode_count=7, shards=1), plans.kept) == {}


@pytest.mark.skipif(not _LOGIC_FILES, reason="runs if RELSTATE_SQLLOGICTEST=FOLDER")
@pytest.mark.timeout(36_000)
@pytest.mark.parametrize("path", _LOGIC_FILES, ids=lambda path: path.name)
def test_selects_of_sqllogictest_are_views(
    path: Path, spark: SparkSession, make_store: StoreMaker
) -> None:
    """Every SELECT that Spark can read is a view that equals it before and after changes."""
    law = ScriptLaw(spark, parse_sqllogictest(path.name, path.read_text("utf-8")))
    plans = law.plan()
    assert (plans.refused, plans.errors) == ({}, {})
    assert plans.kept
    assert law.follow(make_store(vnode_count=7, shards=1), plans.kept) == {}


def test_every_recorded_script_is_one_of_the_selection(scripts: dict[str, Script]) -> None:
    """The record has no script that the archive lacks, and the sample none that it lacks."""
    assert set(_RECORD) <= set(scripts)
    assert set(_SAMPLE) <= set(_RECORD)
