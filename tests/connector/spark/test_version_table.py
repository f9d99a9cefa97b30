"""The table of versions in docs/reference/limits.md is what the Spark of the tests does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from relstate.connector.sql.database import Database
from relstate.storage.errors import RelstateError
from support.sources import ROOT
from support.versions import SPARK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROWS = ["reads", "`QUALIFY`", "`ASOF JOIN`", "views", "`maxEpochsPerTrigger`", "`availableNow`"]
_RECURSION = """WITH RECURSIVE r(n) AS (SELECT k FROM t UNION ALL SELECT n + 1 FROM r WHERE n < 3)
SELECT n, count(*) AS times FROM r GROUP BY n"""


@pytest.fixture
def changed(db: Database) -> Database:
    """A table t, which three epochs have written."""
    db.sql("CREATE TABLE t (k INT, v INT, PRIMARY KEY (k))")
    for key in range(3):
        db.sql(f"INSERT INTO t VALUES ({key}, 1)")
    return db


@pytest.mark.parametrize("begin", _ROWS)
def test_what_a_version_can_do_is_what_the_docs_say(
    spark: SparkSession, changed: Database, tmp_path: Path, begin: str
) -> None:
    """In the column of the version that runs; the cell of a version that cannot has no tick."""
    said = _said(begin) == "✓"

    match begin:
        case "reads":
            works = _reads_and_writes(spark, changed, tmp_path)
        case "`QUALIFY`":
            ranked = "SELECT k FROM t QUALIFY row_number() OVER (ORDER BY k) = 1"
            works = _runs(changed, ranked)
            assert _runs(changed, "FROM t | WHERE k = 1", "cannot read") == works
        case "`ASOF JOIN`":
            nearest = "SELECT a.v FROM t a ASOF JOIN t b MATCH_CONDITION (a.k >= b.k)"
            spark.conf.set("spark.sql.join.asofJoin.enabled", True)
            works = _runs(changed, nearest)
            spark.conf.unset("spark.sql.join.asofJoin.enabled")
        case "views":
            works = _runs(changed, f"CREATE MATERIALIZED VIEW recursive AS {_RECURSION}")
            assert _runs(changed, _RECURSION)
        case "`maxEpochsPerTrigger`":
            works = _batches(spark, changed, tmp_path, maxEpochsPerTrigger=2) == [2, 1]
        case _:
            works = _batches(spark, changed, tmp_path, **_one_epoch()) == [1, 1, 1]

    assert works == said


def test_the_table_has_no_other_rows() -> None:
    """Each is tried."""
    assert sorted(_table()) == sorted(row for row in _table() if row.startswith(tuple(_ROWS)))
    assert len(_table()) == len(_ROWS)


def _said(begin: str) -> str:
    ((cells),) = (cells for row, cells in _table().items() if row.startswith(begin))
    return cells[".".join(SPARK.split(".")[:2])]


def _table() -> dict[str, dict[str, str]]:
    """Return the cells of each row by the version at the head of their column."""
    text = (ROOT / "docs" / "reference" / "limits.md").read_text("utf-8")
    section = text.split("## Versions of Spark")[1].split("\n## ")[0]
    head, _, *rows = (
        [cell.strip().replace("\0", "|") for cell in line.replace("\\|", "\0").split("|")[1:-1]]
        for line in section.splitlines()
        if line.startswith("|")
    )
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows}


def _runs(db: Database, query: str, refusal: str = r"needs Spark 4\.\d or newer") -> bool:
    """Return whether a query runs; False only if it is refused, by default with the version."""
    try:
        db.sql(query).collect()
    except RelstateError as error:
        if re.search(refusal, str(error)) is None:
            raise
        return False
    return True


def _one_epoch() -> dict[str, int]:
    """Return the option of a micro-batch for each epoch, where there is one."""
    return {"maxEpochsPerTrigger": 1} if _said("`maxEpochsPerTrigger`") == "✓" else {}


def _batches(spark: SparkSession, db: Database, folder: Path, **options: Any) -> list[int]:
    """Follow the changes of the table until now; return how many epochs each micro-batch has."""
    epochs: list[int] = []
    reader = spark.readStream.format("relstate").options(table="t", readChangeFeed=True, **options)
    changes = reader.option("startingVersion", 3).load(db.store.path)

    def count(batch: Any, _number: int) -> None:
        epochs.append(batch.select("_commit_version").distinct().count())

    writer = changes.writeStream.foreachBatch(count).trigger(availableNow=True)
    try:
        writer.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()
    except Exception as error:
        if "maxEpochsPerTrigger" not in str(error):
            raise
        return []
    return epochs


def _reads_and_writes(spark: SparkSession, db: Database, folder: Path) -> bool:
    """Write, read, stream, change and follow a table."""
    db.sql("CREATE TABLE copy (k INT, v INT, PRIMARY KEY (k))")
    db.sql("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM copy")
    reader = spark.readStream.format("relstate").options(table="t", readChangeFeed="true")
    source = reader.load(db.store.path).select("k", "v")
    sink = source.writeStream.format("relstate").option("table", "copy").trigger(availableNow=True)
    query = sink.option("checkpointLocation", str(folder / "copies")).start(db.store.path)
    query.awaitTermination()
    frame = spark.sql("SELECT 3 AS k, 1 AS v")
    frame.write.format("relstate").option("table", "copy").mode("append").save(db.store.path)
    db.sql("DELETE FROM copy WHERE k = 0")
    db.refresh()
    rows = spark.read.format("relstate").option("table", "copy").load(db.store.path).collect()
    return sorted(row.k for row in rows) == [1, 2, 3] and db.sql("SELECT n FROM n").first() == (3,)
