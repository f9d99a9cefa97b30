"""The laws of altering tables, and of writes that alter them, through Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from relstate.connector.sql import Database
from relstate.storage import ReadPlan, Store
from relstate.storage.errors import OptionError, SchemaError
from support.spark import load, orders_of, save

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def described(db: Database, table: str) -> dict[str, str]:
    """Return the output of DESCRIBE EXTENDED by name."""
    rows = db.sql(f"DESCRIBE EXTENDED {table}").collect()
    return {row.col_name: row.data_type for row in rows}


def test_columns_are_altered(spark: SparkSession, db: Database, store: Store, orders: str) -> None:
    """Each statement is an epoch; earlier epochs are read as they were."""
    save(orders_of(spark, (1, "ann")), store, orders)
    before = store.epoch
    db.sql("ALTER TABLE orders ADD COLUMNS (place STRING, n INT)")
    db.sql("ALTER TABLE orders ADD COLUMN `more words` ARRAY<INT>")
    db.sql("ALTER TABLE orders DROP COLUMN note, amount")
    db.sql("ALTER TABLE orders RENAME COLUMN customer TO `who`")
    (row,) = db.sql("ALTER TABLE orders ALTER COLUMN n TYPE BIGINT").collect()
    db.sql("UPDATE orders SET n = 5000000000, place = 'here'")

    assert row.epoch == before + 5
    assert db.sql("SELECT * FROM orders").columns == ["id", "who", "place", "n", "more words"]
    assert db.sql("SELECT n, who FROM orders WHERE n > 4000000000").first() == (
        5_000_000_000,
        "ann",
    )
    old = db.sql(f"SELECT customer, note FROM orders VERSION AS OF {before}")
    assert [tuple(row) for row in old.collect()] == [("ann", None)]


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("ALTER TABLE orders ADD COLUMN note STRING", SchemaError),
        ("ALTER TABLE orders ADD COLUMN n INT NOT NULL", SchemaError),
        ("ALTER TABLE orders DROP COLUMN id", SchemaError),
        ("ALTER TABLE orders ALTER COLUMN amount TYPE INT", SchemaError),
        ("ALTER TABLE orders RENAME COLUMN note TO id", SchemaError),
        ("ALTER TABLE orders SET TBLPROPERTIES ('merge' = 'partial')", OptionError),
        ("ALTER TABLE orders SET TBLPROPERTIES ('ttl' = '0')", OptionError),
        ("CREATE TABLE t (a INT PRIMARY KEY) TBLPROPERTIES ('ttl' = '-1')", OptionError),
        ("CREATE TABLE t (a INT PRIMARY KEY) TBLPROPERTIES ('tll' = '1')", OptionError),
        ("CREATE TABLE t (a INT PRIMARY KEY) TBLPROPERTIES ('merge' = 'sum')", SchemaError),
        ("CREATE TABLE t (a INT PRIMARY KEY) TBLPROPERTIES ('append_only' = 'si')", OptionError),
    ],
)
def test_what_cannot_be_altered_is_refused(
    db: Database, store: Store, orders: str, statement: str, error: type[Exception]
) -> None:
    """The statement fails, and nothing has changed."""
    before = store.epoch

    with pytest.raises(error):
        db.sql(statement)
    assert store.epoch == before


def test_properties_are_set_and_described(db: Database, orders: str) -> None:
    """They are set when the table is created, the TTL also later; DESCRIBE EXTENDED lists them."""
    db.sql(
        "CREATE TABLE t (a INT PRIMARY KEY, at TIMESTAMP) TBLPROPERTIES "
        "('merge' = 'partial', version_column = 'at', 'tombstone_retention' = '2 days')"
    )
    assert described(db, "t").items() >= {
        ("merge", "partial"),
        ("version_column", "at"),
        ("tombstone_retention", "172800 seconds"),
    }

    db.sql("ALTER TABLE orders SET TBLPROPERTIES ('ttl' = '7 days')")
    assert described(db, "orders")["ttl"] == "604800 seconds"
    db.sql("ALTER TABLE orders UNSET TBLPROPERTIES ('ttl')")
    db.sql("ALTER TABLE orders ADD COLUMN n INT")
    details = described(db, "orders")
    assert "ttl" not in details
    assert details["Schema version"] == "2"
    assert details["Schema version 1"].startswith("id BIGINT, customer STRING, amount")


def test_the_encoding_is_set_and_altered(db: Database, store: Store) -> None:
    """Rows of both encodings are read together; what does not fit is refused."""
    db.sql(
        "CREATE TABLE d (k INT PRIMARY KEY, v INT) TBLPROPERTIES "
        "('encoding' = 'document', 'packed' = 'false')"
    )
    assert described(db, "d").items() >= {("encoding", "document"), ("packed", "false")}
    db.sql("INSERT INTO d VALUES (1, 1), (2, 2)")
    db.sql("ALTER TABLE d SET TBLPROPERTIES ('encoding' = 'row')")
    assert described(db, "d").keys().isdisjoint({"encoding", "packed"})
    db.sql("UPDATE d SET v = 3 WHERE k = 2")
    assert sorted(map(tuple, db.sql("SELECT * FROM d").collect())) == [(1, 1), (2, 3)]
    db.sql("ALTER TABLE d SET TBLPROPERTIES ('encoding' = 'document')")
    before = store.epoch
    for properties in (
        "'encoding' = 'cells'",
        "'packed' = 'false'",
        "'encoding' = 'row', 'ttl' = 1",
    ):
        with pytest.raises((OptionError, SchemaError)):
            db.sql(f"ALTER TABLE d SET TBLPROPERTIES ({properties})")
    assert store.epoch == before


def test_a_writer_of_an_older_schema_is_told_what_changed(
    spark: SparkSession, db: Database, store: Store, orders: str
) -> None:
    """The error has the changes, their times, and the option that may help."""
    db.sql("ALTER TABLE orders RENAME COLUMN note TO remark")
    when = store.epoch

    with pytest.raises(Exception, match="SchemaMismatchError") as raised:
        save(orders_of(spark, (1, "ann")), store, orders)

    text = str(raised.value)
    assert f"'note' was renamed to 'remark' (epoch {when}, 20" in text
    assert "mergeSchema" in text


def test_a_write_may_add_and_widen_columns(
    spark: SparkSession, db: Database, store: Store, orders: str
) -> None:
    """The table is altered with the write; existing rows have NULL in a new column."""
    save(orders_of(spark, (1, "ann")), store, orders)
    db.sql("ALTER TABLE orders ADD COLUMN n INT")
    rows = spark.sql(
        "SELECT 2L AS id, 'bob' AS customer, 7000000000L AS n, array('x') AS `the tags`"
    )
    with pytest.raises(Exception, match="mergeSchema"):
        save(rows, store, orders)
    epoch = store.epoch
    save(rows, store, orders, mergeSchema="true")
    assert store.epoch == epoch + 1
    save(rows, store, orders, mergeSchema="true")

    assert store.epoch == epoch + 2
    stored = load(spark, store, orders).select("id", "n", "the tags").orderBy("id").collect()
    assert [tuple(row) for row in stored] == [(1, None, None), (2, 7_000_000_000, ["x"])]


@pytest.mark.parametrize(
    "query",
    [
        # A column that does not fit, beside one that is new and one that is wider.
        "SELECT 1L AS id, 'ann' AS customer, 7L AS n, 'x' AS tag, 'much' AS amount",
        # The table's NOT NULL column is missing.
        "SELECT 1L AS id, 7L AS n, 'x' AS tag",
        # The job fails, in the expression or in the writer.
        "SELECT 1L AS id, 'ann' AS customer, 7L AS n, raise_error('no') AS tag",
        "SELECT 1L AS id, nullif('ann', 'ann') AS customer, 7L AS n, 'x' AS tag",
    ],
)
def test_a_merging_write_that_fails_changes_nothing(
    spark: SparkSession, db: Database, store: Store, orders: str, query: str
) -> None:
    """Neither rows nor columns, whether it is refused or its job fails."""
    db.sql("ALTER TABLE orders ADD COLUMN n INT")
    before, schema = store.epoch, store.table(orders).schema
    with pytest.raises(Exception, match=r"SchemaMismatchError|NullValueError|no") as refusal:
        save(spark.sql(query), store, orders, mergeSchema="true")
    assert "mergeSchema" not in str(refusal.value)
    assert (store.epoch, store.table(orders).schema) == (before, schema)


def test_a_stream_merges_columns(
    spark: SparkSession, db: Database, store: Store, orders: str, tmp_path: Path
) -> None:
    """Each micro-batch that brings columns is one epoch, which a change feed reads, too."""
    source, checkpoint = str(tmp_path / "source"), str(tmp_path / "checkpoint")
    spark.sql("SELECT 1L AS id, 'ann' AS customer, 'x' AS tag").write.parquet(source)
    before = store.epoch
    rows = spark.readStream.schema("id BIGINT, customer STRING, tag STRING").parquet(source)
    writer = rows.writeStream.format("relstate").option("table", orders)
    writer = writer.option("mergeSchema", "true").option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start(store.path).awaitTermination()
    assert store.epoch == before + 1
    (row,) = db.sql(f"SELECT tag FROM table_changes('orders', {store.epoch})").collect()
    assert row.tag == "x"


def test_a_key_is_not_widened_by_a_write(spark: SparkSession, store: Store, db: Database) -> None:
    """The bytes of keys are sorted by their type; a value that does not fit stays an error."""
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")

    with pytest.raises(Exception, match="ValueRangeError"):
        save(spark.sql("SELECT 5000000000L AS id"), store, "t", mergeSchema="true")


def lives(store: Store, table: str) -> dict[int, int | None]:
    """Return the last of some times, in seconds from now, at which each row is visible."""
    plan = store.read_plan(table)
    keys = [key for batch in plan.open().scan(["id"]) for key in batch.column("id").to_pylist()]
    return {key: _life(plan, key) for key in keys}


def _life(plan: ReadPlan, key: int) -> int | None:
    now = plan.time
    seen = None
    for seconds in (30, 90, 500, 10**6, 10**9):
        later = now + seconds * 1_000_000
        if replace(plan, time=later).open().get([key]) is not None:
            seen = seconds
    return None if seen == 10**9 else seen


def test_rows_expire_as_a_write_says(spark: SparkSession, db: Database, store: Store) -> None:
    """A column overrides an option, and an option overrides the table."""
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, keep INT)")
    save(spark.sql("SELECT 1 AS id, 5 AS keep"), store, "t", ttl="2 minutes")
    save(spark.sql("SELECT 2 AS id, 700 AS life"), store, "t", ttlColumn="LIFE")
    rows = spark.sql("SELECT * FROM VALUES (3, 700L), (4, NULL) AS t(id, life)")
    save(rows, store, "t", ttlColumn="life", ttl="60")
    save(spark.sql("SELECT 5 AS id, 60 AS keep"), store, "t", ttlColumn="keep")
    changes = spark.sql(
        "SELECT * FROM VALUES (6, 'u', 700), (1, 'update_preimage', 1) AS t(id, op, life)"
    )
    save(changes.coalesce(1), store, "t", opColumn="op", clustered="true", ttlColumn="life")
    db.sql("INSERT INTO t VALUES (7, 7)")
    db.sql("ALTER TABLE t SET TBLPROPERTIES ('ttl' = '10 minutes')")
    db.writer("t", txn_app_id="w", ttl=120)(spark.sql("SELECT 8 AS id"), 1)
    db.sql("INSERT INTO t VALUES (9, 9)")

    expected = {1: 90, 2: 500, 3: 500, 4: 30, 5: 30, 6: 500, 7: None, 8: 90, 9: 500}
    assert lives(store, "t") == expected
    assert store.table("t").get(5)["keep"] == 60  # type: ignore[index]


@pytest.mark.parametrize(
    ("rows", "options", "error"),
    [
        ("SELECT 1 AS id, 0 AS life", {"ttlColumn": "life"}, "ValueRangeError"),
        ("SELECT 1 AS id, 'x' AS life", {"ttlColumn": "life"}, "SchemaMismatchError"),
        ("SELECT 1 AS id", {"ttlColumn": "life"}, "SchemaMismatchError.*TTL column 'life'"),
        ("SELECT 1 AS id", {"ttl": "0"}, "OptionError"),
    ],
)
def test_a_time_to_live_that_is_none_is_refused(
    spark: SparkSession, db: Database, store: Store, rows: str, options: dict[str, str], error: str
) -> None:
    """Zero, values that are not whole numbers, and a missing column are errors."""
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")

    with pytest.raises(Exception, match=error):
        save(spark.sql(rows), store, "t", **options)


def test_changes_need_no_order_where_a_version_tells_it(
    spark: SparkSession, db: Database, store: Store
) -> None:
    """With a version column the greatest version wins; without one `clustered` is needed."""
    db.sql("CREATE TABLE v (id INT PRIMARY KEY, at INT) TBLPROPERTIES ('version_column' = 'at')")
    db.sql("CREATE TABLE p (id INT PRIMARY KEY, at INT)")
    changes = spark.sql(
        "SELECT * FROM VALUES (1, 9, 'd'), (1, 8, 'u'), (2, 8, 'u'), (2, 3, 'd') AS t(id, at, op)"
    ).repartition(2)
    save(changes, store, "v", opColumn="op")

    assert store.table("v").get(1) is None
    assert store.table("v").get(2)["at"] == 8  # type: ignore[index]
    with pytest.raises(Exception, match="OptionError: option 'opColumn' needs a table with"):
        save(changes, store, "p", opColumn="op")


def test_an_operation_follows_the_table_s_merge_behaviour(
    spark: SparkSession, db: Database, store: Store
) -> None:
    """An insert or update is an upsert of the table; an append-only table takes inserts."""
    changes = spark.sql(
        "SELECT * FROM VALUES (1, 1, NULL, 'u'), (1, NULL, 2, 'u') AS t(id, a, b, op)"
    )
    for merge in ("partial", "ignore"):
        db.sql(
            f"CREATE TABLE {merge} (id INT PRIMARY KEY, a INT, b INT) "
            f"TBLPROPERTIES (merge = '{merge}')"
        )
        save(changes.coalesce(1), store, merge, opColumn="op", clustered="true")
    db.sql(
        "CREATE TABLE log (id INT PRIMARY KEY, a INT, b INT) TBLPROPERTIES (append_only = 'true')"
    )

    assert tuple(store.table("partial").get(1)) == (1, 1, 2)  # type: ignore[arg-type]
    assert tuple(store.table("ignore").get(1)) == (1, 1, None)  # type: ignore[arg-type]
    with pytest.raises(Exception, match=r"AppendOnlyError.*append-only"):
        save(changes.coalesce(1), store, "log", opColumn="op", clustered="true")
