"""The option badRows: rows that break a rule of a table are set aside, exactly once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from relstate.storage import Store, errors
from support.spark import load, save, sorted_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from relstate.connector.sql import Database

Q = "t__quarantine"
COLUMNS = "k BIGINT, v INT"


@pytest.fixture
def table(db: Database) -> Database:
    """A table with rules: a key, a narrow column and a constraint."""
    db.sql("CREATE TABLE t (k INT PRIMARY KEY, v INT, CONSTRAINT positive CHECK (v > 0))")
    return db


def _quarantined(store: Store) -> list[tuple[dict[str, Any], str]]:
    """Return the rows in quarantine, in the order of their ids, and the rules."""
    rows = store.table(Q).to_arrow().to_pylist()
    return [(json.loads(row["row_json"]), row["rule"]) for row in rows]


def test_bad_rows_of_a_batch_are_set_aside_in_one_commit(
    spark: SparkSession, table: Database, store: Store
) -> None:
    """Good rows are written; the others are in the quarantine, with their reasons."""
    rows = [(1, 1), (None, 2), (3, -3), (2**40, 4), (5, 5), (-6, -6)]
    frame = spark.createDataFrame(rows, COLUMNS).repartition(2)
    store.jobs.quarantine_target("t")
    epoch = store.epoch
    save(frame, store, "t", badRows="Quarantine")

    assert store.epoch == epoch + 1
    assert sorted_rows(store, "t") == [(1, 1), (5, 5)]
    bad = [
        ({"k": None, "v": 2}, "k"),
        ({"k": 3, "v": -3}, "positive"),
        ({"k": 2**40, "v": 4}, "k"),
        ({"k": -6, "v": -6}, "positive"),
    ]
    assert sorted(map(repr, _quarantined(store))) == sorted(map(repr, bad))
    reasons = {row.reason for row in load(spark, store, Q).collect()}
    assert "it violates the constraint 'positive', CHECK (v > 0)" in reasons
    with pytest.raises(Exception, match="violates the constraint 'positive'"):
        save(frame.where("v = -3"), store, "t", badRows="fail")
    with pytest.raises(Exception, match="option 'badRows' is 'x': it must be 'fail' or"):
        save(frame, store, "t", badRows="x")


@pytest.mark.parametrize("is_local", [True, False], ids=["driver", "job"])
def test_a_short_write_sets_rows_aside(
    spark: SparkSession, table: Database, store: Store, is_local: bool
) -> None:
    """By db.write too, in one commit; mode overwrite replaces the quarantine with the table."""
    rows = [(1, 1), (None, 2), (3, -3), (2**40, 4)]
    frame = spark.createDataFrame(rows, COLUMNS)
    if not is_local:
        frame = spark.createDataFrame(frame.rdd, COLUMNS).repartition(2)
    store.jobs.quarantine_target("t")
    epoch = store.epoch
    assert table.write(frame, "t", bad_rows="quarantine") == epoch + 1
    assert sorted_rows(store, "t") == [(1, 1)]
    bad = [
        ({"k": None, "v": 2}, "k"),
        ({"k": 3, "v": -3}, "positive"),
        ({"k": 2**40, "v": 4}, "k"),
    ]
    assert sorted(map(repr, _quarantined(store))) == sorted(map(repr, bad))
    table.write(frame.where("k = 3"), "t", bad_rows="quarantine")
    assert len(_quarantined(store)) == 4
    table.write(frame.where("k = 3"), "t", "overwrite", bad_rows="quarantine")
    assert sorted_rows(store, "t") == []
    assert _quarantined(store) == [({"k": 3, "v": -3}, "positive")]
    with pytest.raises(errors.CheckViolationError, match="'positive'"):
        table.write(frame.where("k = 3"), "t", bad_rows="fail")
    with pytest.raises(errors.OptionError, match="bad_rows is 'x': it must be 'fail' or"):
        table.write(frame, "t", bad_rows="x")  # type: ignore[arg-type]
    with pytest.raises(errors.OptionError, match="leave out bad_rows"):
        table.write(frame, "new", "ignore", bad_rows="quarantine")


def test_a_repeated_write_sets_nothing_aside_twice(
    spark: SparkSession, table: Database, store: Store
) -> None:
    """A write with txnAppId is skipped; another overwrites the quarantine with its table."""
    frame = spark.createDataFrame([(1, -1), (1, -1)], COLUMNS).coalesce(1)
    transaction: dict[str, Any] = {"badRows": "quarantine", "txnAppId": "job", "txnVersion": 7}
    save(frame, store, "t", **transaction)
    epoch = store.epoch
    save(frame, store, "t", **transaction)

    assert store.epoch == epoch
    ids = [row.id for row in load(spark, store, Q).orderBy("id").collect()]
    assert [text.split("/")[0] for text in ids] == ["job", "job"]
    assert [int(text.split("/")[1]) for text in ids] == [7, 7]
    save(frame.limit(1), store, "t", "overwrite", badRows="quarantine")
    assert _quarantined(store) == [({"k": 1, "v": -1}, "positive")]


def test_changes_that_break_a_rule_keep_their_operation(
    spark: SparkSession, table: Database, store: Store
) -> None:
    """Deletes without a key and unknown operations are set aside; ignored rows are not."""
    store.write("t", [{"k": 1, "v": 1}, {"k": 2, "v": 2}])
    rows = [
        (1, None, "delete", 60),
        (None, None, "d", None),
        (2, -2, "update_preimage", None),
        (2, -2, "update_postimage", 0),
        (3, 3, "upsert?", None),
        (4, 4, None, None),
        (5, 5, "c", None),
    ]
    frame = spark.createDataFrame(rows, "k INT, v INT, op STRING, life INT").coalesce(1)
    options: dict[str, Any] = {"opColumn": "op", "clustered": True, "ttlColumn": "life"}
    save(frame, store, "t", badRows="quarantine", **options)

    assert sorted_rows(store, "t") == [(2, 2), (5, 5)]
    assert [(row["op"], rule) for row, rule in _quarantined(store)] == [
        ("upsert?", "op"),
        (None, "op"),
        ("d", "k"),
        ("update_postimage", "ttl"),
    ]
    written = load(spark, store, Q).select("write_options").distinct().collect()
    assert [json.loads(row.write_options) for row in written] == [
        {"opColumn": "op", "ttlColumn": "life"}
    ]


def test_an_append_only_table_sets_deletes_aside(
    spark: SparkSession, db: Database, store: Store
) -> None:
    """A change that is not an insert breaks a rule of the table."""
    db.sql("CREATE TABLE t (k INT PRIMARY KEY) TBLPROPERTIES ('append_only' = 'true')")
    frame = spark.createDataFrame([(1, "i"), (2, "d")], "k INT, op STRING").coalesce(1)
    save(frame, store, "t", badRows="quarantine", opColumn="op", clustered=True)

    assert sorted_rows(store, "t") == [(1,)]
    assert _quarantined(store) == [({"k": 2, "op": "d"}, "op")]


@pytest.mark.parametrize("door", ["sink", "foreachBatch"])
def test_a_stream_goes_on_and_sets_each_bad_row_aside_once(
    spark: SparkSession, table: Database, store: Store, tmp_path: Path, door: str
) -> None:
    """A batch whose commit landed, but not Spark's, is not set aside again."""
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    folder.mkdir()

    def run() -> None:
        stream = spark.readStream.schema(COLUMNS).json(str(folder))
        writer = stream.writeStream.option("checkpointLocation", str(checkpoint))
        writer = writer.trigger(availableNow=True)
        if door == "sink":
            writer = writer.format("relstate").option("table", "t").option("badRows", "quarantine")
            query = writer.start(store.path)
        else:
            function = table.writer("t", bad_rows="quarantine", partitions=2)
            query = writer.foreachBatch(function).start()
        query.awaitTermination()

    for number in range(2):
        rows = [{"k": number, "v": 1}, {"k": 2**31 + number, "v": 1}, {"v": 1}]
        (folder / f"{number}.json").write_text("\n".join(map(json.dumps, rows)))
        run()
    before = _quarantined(store)
    for name in ("1", ".1.crc"):
        (checkpoint / "commits" / name).unlink()
    run()

    assert _quarantined(store) == before
    assert [rule for _, rule in before] == ["k"] * 4
    assert sorted_rows(store, "t") == [(0, 1), (1, 1)]
    ids = {row.id for row in load(spark, store, Q).collect()}
    assert {int(text.split("/")[1]) for text in ids} == {0, 1}
    assert len({text.split("/")[0] for text in ids}) == 1


def test_merged_columns_are_checked_under_the_new_schema(
    spark: SparkSession, db: Database, store: Store
) -> None:
    """With mergeSchema a wider value fits, and only other rules set rows aside."""
    db.sql("CREATE TABLE t (k INT PRIMARY KEY, v INT)")
    frame = spark.sql("SELECT * FROM VALUES (1, 5000000000L, 'x'), (NULL, 2L, 'y') AS t(k, v, w)")
    save(frame, store, "t", badRows="quarantine", mergeSchema=True)

    assert sorted_rows(store, "t") == [(1, 5_000_000_000, "x")]
    assert _quarantined(store) == [({"k": None, "v": 2, "w": "y"}, "k")]


def test_views_of_a_quarantine_follow_its_new_name(table: Database, store: Store) -> None:
    """A table that is renamed renames its quarantine, also in views that read both."""
    store.jobs.quarantine_target("t")
    table.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT rule, count(*) AS n FROM t__quarantine "
        "WHERE id NOT IN (SELECT CAST(k AS STRING) FROM t) GROUP BY rule"
    )
    table.sql("ALTER TABLE t RENAME TO u")
    values = "'x', '{}', 'k', 'because', NULL, timestamp'2026-01-01 00:00:00'"
    table.sql(f"INSERT INTO u__quarantine VALUES ({values})")
    table.refresh()

    assert sorted_rows(store, "v") == [("k", 1)]
    assert [report.problems for report in table.check_views()] == [()]


def test_rules_about_other_rows_fail_the_write(
    spark: SparkSession, db: Database, store: Store
) -> None:
    """A unique index, a repeated key of an append-only table: nothing is written or set aside."""
    db.sql("CREATE TABLE t (k INT PRIMARY KEY, v INT)")
    db.sql("CREATE UNIQUE INDEX by_v ON t (v)")
    db.sql("CREATE TABLE u (k INT PRIMARY KEY, v INT) TBLPROPERTIES ('append_only' = 'true')")
    for table, error in (("t", "UniqueViolationError"), ("u", "AppendOnlyError")):
        store.write(table, [{"k": 1, "v": 1}])
        rows = [(1 if table == "u" else 2, 1), (None, 2), (3, 3)]
        frame = spark.createDataFrame(rows, COLUMNS).coalesce(1)
        with pytest.raises(Exception, match=error):
            save(frame, store, table, badRows="quarantine")
        assert sorted_rows(store, table) == [(1, 1)]
        assert store.table(f"{table}__quarantine").count() == 0


def test_a_check_of_a_length_sets_rows_aside(
    spark: SparkSession, db: Database, store: Store
) -> None:
    """VARCHAR(n) limits nothing; the constraint does."""
    db.sql(
        "CREATE TABLE t (k INT PRIMARY KEY, v VARCHAR(2), CONSTRAINT short CHECK (length(v) <= 3))"
    )
    frame = spark.createDataFrame([(1, "abc"), (2, "abcd")], "k INT, v STRING").coalesce(1)
    save(frame, store, "t", badRows="quarantine")

    assert sorted_rows(store, "t") == [(1, "abc")]
    assert _quarantined(store) == [({"k": 2, "v": "abcd"}, "short")]
