"""Generated columns have the values of their expressions whichever way Spark writes rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from relstate.storage import Store
from relstate.storage.errors import CheckViolationError, UnsupportedStatementError
from support.spark import only_row, save, sorted_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from relstate.connector.sql import Database

CREATE = (
    "CREATE TABLE t (k INT PRIMARY KEY, a INT DEFAULT 5, "
    "twice BIGINT NOT NULL GENERATED ALWAYS AS (a * 2) COMMENT 'two a', name STRING, "
    "size INT GENERATED ALWAYS AS (length(name)) CHECK (size < 9))"
)


@pytest.fixture
def table(db: Database, store: Store) -> Store:
    """The store, with a table of two generated columns and the rows 1 and 2."""
    db.sql(CREATE)
    db.sql(
        "INSERT INTO t VALUES (1, 2, DEFAULT, 'ab', DEFAULT), (2, DEFAULT, DEFAULT, 'c', DEFAULT)"
    )
    return store


def computed(store: Store) -> dict[int, tuple[Any, ...]]:
    """Return the rows by their keys, after a look at the generated columns."""
    rows = {key: rest for key, *rest in sorted_rows(store, "t")}
    for a, twice, name, size in rows.values():
        assert (twice, size) == (2 * a, None if name is None else len(name))
    return {key: (row[0], row[2]) for key, row in rows.items()}


def test_statements_compute_them(db: Database, table: Store) -> None:
    """INSERT and UPDATE that leave them out or write DEFAULT, MERGE clause by clause."""
    db.sql("INSERT INTO t (k, name) VALUES (3, 'xyz')")
    db.sql("INSERT INTO t BY NAME SELECT 4 AS k, 7 AS a, 14 AS twice")
    assert computed(table) == {1: (2, "ab"), 2: (5, "c"), 3: (5, "xyz"), 4: (7, None)}
    db.sql("UPDATE t SET a = a + 1, twice = DEFAULT WHERE k < 3")
    db.sql("UPDATE t SET k = k + 10, name = 'moved' WHERE k = 3")
    db.sql("UPDATE t SET a = s.a FROM (SELECT 4 AS k, 70 AS a) s WHERE t.k = s.k")
    assert computed(table) == {1: (3, "ab"), 2: (6, "c"), 4: (70, None), 13: (5, "moved")}
    source = "(SELECT 1 AS k, 9 AS a, 18 AS twice, 'new' AS name UNION ALL SELECT 5, 1, 2, 'five')"
    db.sql(
        f"MERGE INTO t USING {source} s ON t.k = s.k "
        "WHEN MATCHED THEN UPDATE SET k = s.k + 20, a = s.a WHEN NOT MATCHED THEN INSERT *"
    )
    db.sql("MERGE INTO t USING (SELECT 2 AS k) s ON t.k = s.k WHEN MATCHED THEN DELETE")
    assert computed(table) == {4: (70, None), 5: (1, "five"), 13: (5, "moved"), 21: (9, "ab")}
    db.sql(f"INSERT OVERWRITE t (k, a) SELECT k, a FROM {source}")
    assert computed(table) == {1: (9, None), 5: (1, None)}


def test_tables_without_a_key_compute_them(db: Database, store: Store) -> None:
    """INSERT, UPDATE and the clauses of a MERGE, one of which gives the column."""
    db.sql("CREATE TABLE t (v INT, next BIGINT GENERATED ALWAYS AS (v + 1))")
    db.sql("INSERT INTO t (v) VALUES (1), (2)")
    db.sql("UPDATE t SET v = 10 WHERE v = 1")
    db.sql(
        "MERGE INTO t USING (SELECT 10 AS v UNION ALL SELECT 33) s ON t.v = s.v "
        "WHEN MATCHED THEN UPDATE SET v = s.v + 1 "
        "WHEN NOT MATCHED THEN INSERT (v, next) VALUES (s.v, s.v + 1)"
    )
    assert sorted_rows(store, "t") == [(11, 12), (2, 3), (33, 34)]
    with pytest.raises(CheckViolationError, match="with v = 2 is 3, but 4 was given"):
        db.sql("UPDATE t SET next = 4 WHERE v = 2")


MERGE = "MERGE INTO t USING (SELECT 1 AS k, 9 AS a, 17 AS twice, 'x' AS name, 1 AS size) s"
INSERT = "WHEN NOT MATCHED THEN INSERT (k, a, twice) VALUES (s.a, s.a, s.twice)"


@pytest.mark.parametrize(
    ("statement", "error", "match"),
    [
        ("INSERT INTO t VALUES (1, 2, 5, 'ab', 2)", CheckViolationError, "is 4, but 5 was given"),
        ("INSERT INTO t SELECT k, a, twice, name, NULL FROM t", CheckViolationError, "'size'"),
        ("INSERT INTO t (k, a) VALUES (1, 2147483647)", CheckViolationError, "overflows its type"),
        ("INSERT INTO t VALUES (1, 2, DEFAULT, '', 0), (2, 2, 4, '', 0)",
         UnsupportedStatementError, "'twice' is DEFAULT in some rows and given in others"),
        ("UPDATE t SET twice = 5 WHERE k = 1", CheckViolationError, "is 4, but 5 was given"),
        ("UPDATE t SET name = repeat('x', 9)", CheckViolationError, "constraint 'check_1'"),
        (f"{MERGE} ON t.k = s.k WHEN MATCHED THEN UPDATE SET *", CheckViolationError, "is 18, but"),
        (f"{MERGE} ON t.k = s.a WHEN MATCHED THEN UPDATE SET a = 1 {INSERT}", CheckViolationError,
         "k = 9, a = 9 is 18, but 17 was given"),
    ],
)  # fmt: skip
def test_statements_give_no_other_value(
    db: Database, table: Store, statement: str, error: type[Exception], match: str
) -> None:
    """Nothing of a statement is written whose rows are not what the expressions say."""
    epoch = table.epoch
    with pytest.raises(error, match=match):
        db.sql(statement)
    assert table.epoch == epoch


def test_frames_and_streams_compute_them(
    spark: SparkSession, db: Database, table: Store, tmp_path: Path
) -> None:
    """A column that is missing is computed, one with another value refused."""
    rows = spark.sql("SELECT * FROM VALUES (3, 4, 'xyz') AS s(k, a, name)")
    save(rows, table, "t")
    db.write(rows.selectExpr("k + 1 AS k", "a + 1 AS a"), "t", "append")
    db.writer("t", txn_app_id="app")(rows.selectExpr("k + 3 AS k", "7 AS a"), 0)
    with pytest.raises(Exception, match="a = 4 is 8, but 9 was given"):
        save(rows.selectExpr("*", "9L AS twice"), table, "t")
    rows.selectExpr("k + 2 AS k", "a").write.json(str(tmp_path / "rows"))
    stream = spark.readStream.schema("k INT, a INT").json(str(tmp_path / "rows"))
    writer = stream.writeStream.format("relstate").option("path", table.path).option("table", "t")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()

    assert computed(table) == {
        1: (2, "ab"), 2: (5, "c"), 3: (4, "xyz"), 4: (5, None), 5: (4, None),
        6: (7, None),
    }  # fmt: skip


def test_changes_that_are_applied_compute_them(
    spark: SparkSession, db: Database, store: Store
) -> None:
    """Of a delete nothing is computed."""
    db.sql(
        "CREATE TABLE t (k INT PRIMARY KEY, a INT, twice BIGINT GENERATED ALWAYS AS (a * 2), "
        "at BIGINT) TBLPROPERTIES ('version_column' = 'at')"
    )
    events = "VALUES (1, 3, 1L, 'u'), (2, 2147483647, 2L, 'd'), (1, 4, 2L, 'u') AS e(k, a, at, op)"
    source = spark.sql(f"SELECT * FROM {events}")
    db.apply_changes("t", source, ["k"], "at", "op = 'd'", except_column_list=["op"])
    assert sorted_rows(store, "t") == [(1, 4, 8, 2)]
    wrong = source.selectExpr("*", "9L AS twice")
    with pytest.raises(CheckViolationError, match="is 8, but 9 was given"):
        db.apply_changes("t", wrong, ["k"], "at + 5", "op = 'd'", except_column_list=["op", "at"])


def test_what_is_shown_creates_the_table_again(db: Database, table: Store) -> None:
    """SHOW CREATE TABLE, LIKE and DESCRIBE have the expressions."""
    (text,) = only_row(db.sql("SHOW CREATE TABLE t"))
    assert "`twice` BIGINT NOT NULL GENERATED ALWAYS AS (a * 2) COMMENT 'two a'" in text
    columns = table.state.table("t").definition.schema.columns
    db.sql("CREATE TABLE u LIKE t")
    assert table.state.table("u").definition.schema.columns == columns
    db.sql("DROP TABLE t")
    db.sql(text)
    assert table.state.table("t").definition.schema.columns == columns
    rows = [tuple(row)[:2] for row in db.sql("DESCRIBE EXTENDED t").collect()]
    assert rows[rows.index(("# Generated Columns", "")) + 1] == ("twice", "a * 2")
    assert ("generated", "a * 2") in [tuple(row) for row in db.sql("DESCRIBE t twice").collect()]


def test_rows_are_restored(db: Database, table: Store) -> None:
    """An earlier epoch has the values that are computed now: what they are of does not change."""
    epoch = table.epoch
    db.sql("UPDATE t SET a = 1")
    db.sql(f"RESTORE TABLE t TO VERSION AS OF {epoch}")
    assert computed(table) == {1: (2, "ab"), 2: (5, "c")}
