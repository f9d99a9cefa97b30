"""Expectations in SQL, and whichever way Spark writes rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from relstate.storage import Store
from relstate.storage.errors import CheckViolationError, UnsupportedStatementError
from support.spark import save, sorted_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from relstate.connector.sql import Database

COLUMNS = "k INT, v INT"
CREATE = """
    CREATE TABLE t (
        k INT PRIMARY KEY,
        v INT CONSTRAINT given EXPECT (v IS NOT NULL),
        CONSTRAINT positive EXPECT (v > 0) ON VIOLATION DROP ROW,
        CHECK (k > 0),
        CONSTRAINT small EXPECT (v < 1000) ON VIOLATION FAIL UPDATE
    )
"""


def _last(db: Database) -> list[tuple[str, str, str, int]]:
    """Return the violations of the last commit of the table."""
    (row,) = db.history("t", limit=1).collect()
    return [tuple(item) for item in row.violations]


def test_expectations_are_declared_and_shown(db: Database, store: Store) -> None:
    """CREATE TABLE, SHOW CREATE TABLE, DESCRIBE EXTENDED, LIKE and ALTER TABLE have them."""
    db.sql(CREATE)
    clauses = {
        "given": "EXPECT (v IS NOT NULL)",
        "positive": "EXPECT (v > 0) ON VIOLATION DROP ROW",
        "check_3": "CHECK (k > 0)",
        "small": "EXPECT (v < 1000) ON VIOLATION FAIL UPDATE",
    }
    text = db.sql("SHOW CREATE TABLE t").collect()[0][0]
    for name, clause in clauses.items():
        assert f"CONSTRAINT `{name}` {clause}" in text
    described = {row.col_name: row.data_type for row in db.sql("DESCRIBE EXTENDED t").collect()}
    assert {name: described[name] for name in clauses} == clauses
    db.sql(text.replace("TABLE `t`", "TABLE u"))
    db.sql("CREATE TABLE w LIKE t")
    constraints = store.state.table("t").definition.constraints
    for copy in ("u", "w"):
        assert set(store.state.table(copy).definition.constraints) == set(constraints)

    db.sql("ALTER TABLE t DROP CONSTRAINT positive")
    db.sql("ALTER TABLE t ADD CONSTRAINT positive EXPECT (v > 1)")
    db.sql("ALTER TABLE t ADD CONSTRAINT large EXPECT (v > 2) ON VIOLATION DROP ROW")
    altered = {item.name: item.clause for item in store.state.table("t").definition.constraints}
    assert altered["positive"] == "EXPECT (v > 1)"
    assert altered["large"] == "EXPECT (v > 2) ON VIOLATION DROP ROW"


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE u (k INT PRIMARY KEY, EXPECT (k > 0))",
        "CREATE TABLE u (k INT PRIMARY KEY, CONSTRAINT c EXPECT (k > 0) ON VIOLATION IGNORE)",
        "CREATE TABLE u (k INT PRIMARY KEY, CONSTRAINT c EXPECT (k > 0) DROP ROW)",
        "ALTER TABLE t ADD CONSTRAINT c EXPECT (v > 0) ON VIOLATION QUARANTINE",
        "ALTER TABLE t ADD CONSTRAINT c EXPECT v > 0",
    ],
)
def test_other_clauses_are_refused(db: Database, statement: str) -> None:
    """An expectation has a name, parentheses, and one of two actions, or none."""
    db.sql("CREATE TABLE t (k INT PRIMARY KEY, v INT)")
    with pytest.raises(UnsupportedStatementError):
        db.sql(statement)


def test_every_statement_counts_and_drops(db: Database, store: Store) -> None:
    """What a statement dropped it has not inserted or updated, and the history has it."""
    db.sql(CREATE)
    (inserted,) = db.sql("INSERT INTO t VALUES (1, 1), (2, -2), (3, NULL)").collect()
    assert inserted.num_inserted_rows == 2
    assert _last(db) == [("t", "given", "count", 1), ("t", "positive", "drop", 1)]
    db.sql("INSERT INTO t SELECT 3 + id, id - 5 FROM range(1, 8)")
    assert _last(db) == [("t", "positive", "drop", 5)]

    (updated,) = db.sql("UPDATE t SET v = v - 1 WHERE v IS NOT NULL").collect()
    assert updated.num_updated_rows == 1
    assert _last(db) == [("t", "positive", "drop", 2)]
    assert sorted_rows(store, "t") == [(1, 1), (10, 1), (3, None), (9, 1)]
    db.sql(
        "MERGE INTO t USING (VALUES (1, -1), (9, 9), (11, -1)) AS s(k, v) ON t.k = s.k "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
    )
    assert _last(db) == [("t", "positive", "drop", 2)]
    db.sql("INSERT OVERWRITE t VALUES (1, -1), (2, 2)")
    assert _last(db) == [("t", "positive", "drop", 1)]
    assert sorted_rows(store, "t") == [(2, 2)]
    for statement in ("INSERT INTO t VALUES (3, 1000)", "UPDATE t SET v = 1000"):
        with pytest.raises(CheckViolationError, match="'small'"):
            db.sql(statement)
    with pytest.raises(CheckViolationError, match="it would be lost"):
        db.sql("UPDATE t SET k = 5, v = -1")
    assert sorted_rows(store, "t") == [(2, 2)]


def test_sinks_count_and_drop(
    spark: SparkSession, db: Database, store: Store, tmp_path: Path
) -> None:
    """Batches, db.write and micro-batches; a micro-batch of which all rows are dropped is done."""
    db.sql(CREATE)
    rows = spark.createDataFrame([(1, 1), (2, -2), (3, None)], COLUMNS).repartition(2)
    save(rows, store, "t")
    assert _last(db) == [("t", "given", "count", 1), ("t", "positive", "drop", 1)]
    db.write(rows, "t")
    assert _last(db) == [("t", "given", "count", 1), ("t", "positive", "drop", 1)]

    rows.where("v = -2").write.json(str(tmp_path / "rows"))
    stream = spark.readStream.schema(COLUMNS).json(str(tmp_path / "rows"))
    for _ in range(2):
        writer = stream.writeStream.format("relstate").option("table", "t")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start(store.path).awaitTermination()
        epoch = store.epoch
        assert _last(db) == [("t", "positive", "drop", 1)]
        for name in ("0", ".0.crc"):
            (tmp_path / "checkpoint" / "commits" / name).unlink(missing_ok=True)
    assert store.epoch == epoch
    assert sorted_rows(store, "t") == [(1, 1), (3, None)]
    assert dict(store.state.table("t").violations) == {"given": 2, "positive": 3}
    metrics = db.metrics()
    assert metrics['relstate_expectation_violations{table="t",expectation="positive"}'] == 3


def test_a_row_that_fails_a_write_is_set_aside_instead(
    spark: SparkSession, db: Database, store: Store
) -> None:
    """With badRows, FAIL UPDATE is a rule as others are; dropped rows are only counted."""
    db.sql(CREATE)
    rows = spark.createDataFrame([(1, 1), (2, -2), (3, 1000), (-4, 4)], COLUMNS).coalesce(1)
    save(rows, store, "t", badRows="quarantine")

    assert sorted_rows(store, "t") == [(1, 1)]
    assert _last(db) == [("t", "positive", "drop", 1)]
    rules = [row["rule"] for row in store.table("t__quarantine").to_dicts()]
    assert rules == ["small", "check_3"]
