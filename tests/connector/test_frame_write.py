"""The laws of `db.write`, `db.table` with a condition, and statements with arguments."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest

from relstate.connector.sql import debezium
from relstate.connector.sql.frame_write import write_frame
from relstate.storage import Store
from relstate.storage.errors import (
    AppendOnlyError,
    OptionError,
    RelstateError,
    SchemaMismatchError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedExpressionError,
    UsageError,
)
from support.spark import save
from support.stores import contents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from relstate.connector.sql import Database


@pytest.mark.parametrize(
    ("rows", "name"),
    [
        (None, "NoneType"), (5, "int"), ([{"k": 1}], "list"),
        (pa.table({"k": [1]}), "pyarrow.Table"), (pd.DataFrame({"k": [1]}), "pandas.DataFrame"),
    ],
)  # fmt: skip
def test_what_is_not_a_frame_is_refused(store: Store, rows: Any, name: str) -> None:
    """The error says what to make of other rows, before anything is asked of Spark."""
    with pytest.raises(UsageError, match=f"^db.write takes .* not {name}: .* by store.write"):
        write_frame(store, rows, "t", "append", None)
    with pytest.raises(UsageError, match=f"^debezium takes .* not {name}: .*createDataFrame"):
        debezium(rows, "id INT")


def test_a_frame_is_written_by_the_modes(spark: SparkSession, db: Database, store: Store) -> None:
    """Each write is one epoch, which it returns; the columns are found by name."""
    first = spark.sql("SELECT 'a' AS v, 1L AS k UNION ALL SELECT 'b', 2L")
    assert db.write(first, "t", "errorifexists", primary_key=["k desc"]) == 2
    assert contents(store, "t") == [("b", 2), ("a", 1)]
    assert db.write(first, "t", "ignore") == 2
    with pytest.raises(TableExistsError, match="'append' upserts"):
        db.write(first, "T", mode="errorifexists")

    assert db.write(spark.sql("SELECT 2L AS k, 'c' AS v"), "t") == 3
    assert contents(store, "t") == [("c", 2), ("a", 1)]
    assert db.write(spark.sql("SELECT 7L AS k"), "t", "overwrite") == 4
    assert contents(store, "t") == [(None, 7)]
    assert db.write(spark.sql("SELECT 7L AS k LIMIT 0"), "t") == 4
    assert db.write(first, "log", "ignore") == 5
    assert db.write(first, "log") == 6
    assert store.table("log").count() == 4


def test_a_frame_that_does_not_fit_is_refused(
    spark: SparkSession, db: Database, store: Store
) -> None:
    """The errors are relstate's, and say what there is; nothing is committed."""
    db.sql("CREATE TABLE t (k INT PRIMARY KEY) TBLPROPERTIES ('append_only' = 'true')")
    frame, epoch = spark.sql("SELECT 1 AS k"), store.epoch
    with pytest.raises(TableNotFoundError, match="there are: t"):
        db.write(frame, "u")
    with pytest.raises(SchemaMismatchError, match="x"):
        db.write(spark.sql("SELECT 1 AS k, 2 AS x"), "t")
    with pytest.raises(AppendOnlyError, match="'overwrite'"):
        db.write(frame, "t", "overwrite")
    with pytest.raises(OptionError, match="one of append, overwrite, ignore"):
        db.write(frame, "t", "upsert")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="leave out primary_key"):
        db.write(frame, "t", primary_key=["k"])
    assert store.epoch == epoch


def test_a_table_is_read_by_a_condition(db: Database, store: Store) -> None:
    """Only the rows and columns that are asked for; unknown columns are named with all others."""
    db.sql("CREATE TABLE t (k INT, v STRING, w INT, PRIMARY KEY (k))")
    db.sql("INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', 30)")
    frame = db.table("t", where="k IN (1, 3) AND w > 10", columns=["v", "k"])

    assert [tuple(row) for row in frame.collect()] == [("c", 3)]
    assert db.table("t", columns=["w"]).columns == ["w"]
    assert db.table("t", where="k = 1", version=store.epoch - 1).count() == 0
    with pytest.raises(RelstateError, match="the columns are k, v, w"):
        db.table("t", columns=["x"])
    with pytest.raises(SchemaMismatchError, match="the columns are k, v, w"):
        db.table("t", where="x = 1")
    with pytest.raises(UnsupportedExpressionError):
        db.table("t", where="k + 1 = 2")


def test_statements_take_arguments(db: Database, store: Store) -> None:
    """Named and positional ones, in every statement; a key that is one is looked up."""
    columns = "k INT PRIMARY KEY, v STRING, d DATE, n DECIMAL(8,2), at TIMESTAMP"
    db.sql(f"CREATE TABLE t ({columns})")
    row = (1, "it's \\ 'here'", date(2026, 11, 22), Decimal("-1.50"), datetime(2026, 11, 22, 1, 2))
    db.sql("INSERT INTO t VALUES (?, ?, ?, ?, ?)", list(row))
    matches = db.sql(
        "SELECT * FROM t WHERE k = :k AND v = :v AND d = :d AND n = :n AND at = :at",
        args=dict(zip(("k", "v", "d", "n", "at"), row, strict=True)),
    )

    assert [tuple(match) for match in matches.collect()] == [row]
    plan = db.sql("EXPLAIN SELECT v FROM t WHERE k = :k", {"k": 1}).collect()[0]
    assert plan.points == 1
    db.sql("DELETE FROM t WHERE k = ?", (1,))
    assert store.table("t").count() == 0
    with pytest.raises(OptionError, match="the parameter :k has no value"):
        db.sql("DELETE FROM t WHERE k = :k", {})


def test_a_thread_writes_frames(spark: SparkSession, db: Database, store: Store) -> None:
    """By db.write, and by Spark's writer once its session is active there, as is documented."""
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")

    def write() -> None:
        db.write(spark.range(1), "t")
        spark.createDataFrame([], "x INT")
        save(spark.range(1, 2), store, "t")

    with ThreadPoolExecutor(1) as threads:
        threads.submit(write).result()
    assert store.table("t").count() == 2
