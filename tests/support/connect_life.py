"""What a user does with ``db`` over Spark Connect; the functions are called in a driver."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import relstate
from relstate.connector.sql import Database
from relstate.storage import errors

CHANGES = "id BIGINT, g STRING, seq BIGINT, gone BOOLEAN"
VERSIONED = (
    "(id BIGINT, g STRING, seq BIGINT, PRIMARY KEY (id)) TBLPROPERTIES ('version_column' = 'seq')"
)


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Return the rows of a frame as sorted tuples."""
    return sorted(tuple(row) for row in frame.collect())


def statements(spark: SparkSession, path: str) -> None:
    """Run statements, reads and writes, and compare each with what it must give."""
    relstate.create(path, vnode_count=8, shards=2).close()
    db = relstate.connect(spark, path)
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g STRING, n INT)")
    db.sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'b', 3)")
    db.sql("UPDATE t SET n = n + 1 WHERE id = :id", {"id": 1})
    db.sql("DELETE FROM t WHERE id = ?", [2])
    db.sql(
        "MERGE INTO t USING (SELECT 3 AS id, 'c' AS g, 7 AS n) AS s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert db.write(spark.createDataFrame([(4, "a", 4)], "id BIGINT, g STRING, n INT"), "t")
    assert rows_of(db.table("t")) == [(1, "a", 2), (3, "c", 7), (4, "a", 4)]
    assert rows_of(db.table("t", where="id = 4", columns=["n"]).select("n")) == [(4,)]
    db.sql("CREATE TABLE copy AS SELECT * FROM t WHERE n > 2")
    assert rows_of(db.sql("SELECT id FROM copy")) == [(3,), (4,)]
    assert rows_of(db.sql("SELECT id, _change_type FROM table_changes('copy', 1)")) == [
        (3, "insert"),
        (4, "insert"),
    ]
    assert {row.tableName for row in db.sql("SHOW TABLES").collect()} == {"t", "copy"}
    assert db.sql("EXPLAIN SELECT * FROM t WHERE id = 1").collect()
    db.sql("OPTIMIZE t")
    db.maintain()
    assert db.history(limit=1).collect()


def keep_views(spark: SparkSession, path: str) -> None:
    """Create views from text and from a result of `db.sql`, refresh, follow and check them."""
    db = relstate.connect(spark, path)
    db.sql("CREATE MATERIALIZED VIEW sums AS SELECT g, sum(n) AS s FROM t GROUP BY g")
    db.create_view("big", db.sql("SELECT id, n FROM t WHERE n > 3"))
    db.sql("INSERT INTO t VALUES (9, 'c', 10)")
    assert set(db.refresh().views) == {"sums", "big"}
    assert rows_of(db.sql("SELECT * FROM sums")) == [("a", 6), ("c", 17)]
    db.sql("INSERT INTO t VALUES (10, 'd', 1)")
    assert db.stream(available_now=True).awaitTermination(60)
    assert rows_of(db.sql("SELECT s FROM sums WHERE g = 'd'")) == [(1,)]
    assert rows_of(db.table("big")) == [(3, 7), (4, 4), (9, 10)]
    assert all(report.problems == () for report in db.check_views())


def keep_settings(spark: SparkSession, path: str) -> None:
    """Create a view under settings of the session, and refresh and check it under others."""
    db = relstate.connect(spark, path)
    db.sql("CREATE TABLE d (id BIGINT PRIMARY KEY, Day STRING, n DECIMAL(38, 18))")
    db.sql("INSERT INTO d VALUES (1, '2024-1-2', 1.234567890123456789)")
    settings = {
        "mapKeyDedupPolicy": "LAST_WIN", "legacy.timeParserPolicy": "LEGACY",
        "decimalOperations.allowPrecisionLoss": "false", "caseSensitive": "true",
        "session.timeZone": "Asia/Kolkata",
    }  # fmt: skip
    before = {name: spark.conf.get(f"spark.sql.{name}") for name in settings}
    query = (
        "SELECT id, map('a', id, lower('A'), id + 1) AS m, n * n AS p, "
        "unix_micros(to_timestamp(Day, 'yyyy-MM-dd')) AS at FROM d"
    )
    for name, value in settings.items():
        spark.conf.set(f"spark.sql.{name}", value)
    db.sql(f"CREATE MATERIALIZED VIEW kept AS {query}")
    db.table("d").createOrReplaceTempView("d")
    expected = list(map(str, rows_of(spark.sql(query))))
    for name, other in before.items():
        spark.conf.set(f"spark.sql.{name}", str(other))
    assert [str(row) for row in rows_of(db.table("kept"))] == expected
    db.sql("INSERT INTO d SELECT 2, Day, n FROM d")
    assert db.refresh("kept").views == ("kept",)
    first, second = (list(row) for row in rows_of(db.table("kept")))
    assert str(first[2]) == str(second[2]) == "1.524157875323883675019051998750190521"
    assert (first[3], second[1]) == (second[3], {"a": 3})
    assert [report.problems for report in db.check_views("kept")] == [()]
    described = db.sql("DESCRIBE EXTENDED kept").collect()
    details = {row.col_name: row.data_type for row in described}
    assert all(details[f"spark.sql.{name}"] == value for name, value in settings.items())


def apply_all(spark: SparkSession, path: str, folder: str) -> None:
    """Apply changes and Debezium's events, as a batch, with history, and as streams."""
    db = relstate.connect(spark, path)
    rows = [(1, "a", 1, False), (1, "b", 2, False), (2, "x", 1, False), (2, "x", 3, True)]
    changes = spark.createDataFrame(rows, CHANGES)
    db.sql(f"CREATE TABLE people {VERSIONED}")
    columns: dict[str, Any] = {"apply_as_deletes": "gone", "except_column_list": ["gone"]}
    db.apply_changes("people", changes, ["id"], f.col("seq"), **columns)
    assert rows_of(db.table("people")) == [(1, "b", 2)]
    db.apply_changes("states", changes, ["id"], "seq", stored_as_scd_type=2, **columns)
    assert rows_of(db.sql("SELECT id, __START_AT, __END_AT FROM states")) == [
        (1, 1, 2),
        (1, 2, None),
        (2, 1, 3),
    ]
    event = json.dumps({"op": "u", "after": {"id": 5, "g": "e"}, "source": {"lsn": 4}})
    events = db.debezium(spark.createDataFrame([(event,)], "value STRING"), "id BIGINT, g STRING")
    columns = {"apply_as_deletes": "_op = 'delete'", "except_column_list": ["_op", "_sequence"]}
    db.apply_changes("people", events, ["id"], "_sequence", **columns)
    assert rows_of(db.table("people")) == [(1, "b", 2), (5, "e", 4)]
    db.sql(f"CREATE TABLE followed {VERSIONED}")
    feed = spark.readStream.format("relstate").options(table="people", readChangeFeed="true")
    query = db.apply_changes(
        "followed",
        feed.load(path).select("id", "g", "seq"),
        ["id"],
        "seq",
        checkpoint=f"{folder}/apply",
        trigger={"availableNow": True},
        txn_app_id="apply",
    )
    assert query is not None
    query.awaitTermination()
    assert rows_of(db.table("followed")) == [(1, "b", 2), (5, "e", 4)]


def write_stream(spark: SparkSession, path: str, folder: str) -> None:
    """Copy changes of a table by foreachBatch; a stream that begins again writes nothing twice."""
    db = relstate.connect(spark, path)
    db.sql("CREATE TABLE written (id BIGINT PRIMARY KEY, g STRING, n INT)")
    feed = spark.readStream.format("relstate").options(table="t", readChangeFeed="true")
    rows = feed.load(path).select("id", "g", "n")
    for turn in range(2):
        epoch = db.store.epoch
        stream = rows.writeStream.foreachBatch(db.writer("written", txn_app_id="copy"))
        stream = stream.option("checkpointLocation", f"{folder}/{turn}")
        stream.trigger(availableNow=True).start().awaitTermination()
        assert db.store.epoch == epoch + (turn == 0)
    assert rows_of(db.table("written")) == rows_of(db.table("t"))


def refusals(spark: SparkSession, path: str) -> list[str]:
    """Return the sentences of what cannot be had over Spark Connect, and of mistakes."""
    db = relstate.connect(spark, path)
    feed = spark.readStream.format("relstate").options(table="t", readChangeFeed="true").load(path)
    calls: list[Callable[[Database], object]] = [
        lambda db: db.create_view("v", db.table("t").groupBy("g").count()),
        lambda db: db.writer("t"),
        lambda db: db.apply_changes("people", feed, ["id"], "n", checkpoint="/nowhere"),
        lambda db: db.sql("INSERT INTO t SELECT NULL, 'c', 1 FROM range(10)"),
        lambda db: db.sql("SELECT * FROM nowhere"),
    ]
    return [_sentence(db, call) for call in calls]


def _sentence(db: Database, call: Callable[[Database], object]) -> str:
    try:
        call(db)
    except (errors.RelstateError, PySparkException) as error:
        return str(error)
    raise AssertionError("nothing was refused")
