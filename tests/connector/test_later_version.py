"""A store of a later version of relstate in Spark: refused by the name of what it uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import relstate
from relstate.storage.errors import FormatVersionError
from support.later_version import commit_as_later_version

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

READERS = "uses the feature 'sparse pages', which this version does not know"
WRITERS = "uses the feature 'hints', which this version does not know"


@pytest.fixture
def path(tmp_path: Path) -> str:
    """The path of a store with a row."""
    with relstate.create(str(tmp_path / "shop")) as store:
        store.create_table("t", "k BIGINT, v INT", primary_key=["k"])
        store.write("t", [{"k": 1, "v": 1}])
        return str(store.path)


def test_spark_names_a_feature_that_it_cannot_read(spark: SparkSession, path: str) -> None:
    """Reads, writes, statements and refreshes, also of a database that was open before."""
    db = relstate.connect(spark, path)
    db.sql("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM t")
    commit_as_later_version(db.store.environment, features={"sparse pages": "readers"})
    rows = spark.range(3).selectExpr("id AS k", "1 AS v")

    with pytest.raises(Exception, match=READERS):
        spark.read.format("relstate").option("table", "t").load(path).collect()
    with pytest.raises(Exception, match=READERS):
        rows.write.format("relstate").option("table", "t").mode("append").save(path)
    for statement in ("SELECT * FROM t", "DELETE FROM t WHERE k = 1", "SHOW TABLES"):
        with pytest.raises(FormatVersionError, match=READERS):
            db.sql(statement)
    with pytest.raises(FormatVersionError, match=READERS):
        db.refresh()
    with pytest.raises(FormatVersionError, match=READERS):
        relstate.connect(spark, path)


def test_spark_reads_where_only_writers_need_a_feature(spark: SparkSession, path: str) -> None:
    """A write is refused when it is planned, or when it would commit."""
    db = relstate.connect(spark, path)
    commit_as_later_version(db.store.environment, features={"hints": "writers"})
    rows = spark.range(3).selectExpr("id AS k", "1 AS v")

    read = spark.read.format("relstate").option("table", "t").load(path)
    assert [tuple(row) for row in read.collect()] == [(1, 1)]
    assert db.sql("SELECT count(*) FROM t").head() == (1,)
    with pytest.raises(Exception, match=WRITERS):
        rows.write.format("relstate").option("table", "t").mode("append").save(path)
    for statement in ("DELETE FROM t WHERE k = 1", "CREATE TABLE u (k INT PRIMARY KEY)"):
        with pytest.raises(FormatVersionError, match=WRITERS):
            db.sql(statement)
    assert db.sql("SELECT count(*) FROM t").head() == (1,)
