"""Statements over few rows: the driver computes and writes them, as a job of Spark would."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from relstate.connector import local_rows
from relstate.connector.local_rows import known_rows
from relstate.connector.sql import Database, dml_run, lookup
from relstate.storage import Store
from support.spark import interpreted, sorted_rows
from support.stores import upsert

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MERGE = (
    "MERGE INTO items t USING (VALUES (1L, 'x'), (9L, 'y')) s(id, name) ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET name = s.name "
    "WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)"
)


@pytest.mark.parametrize(
    ("statement", "counts"),
    [
        (_MERGE, (2, 1, 1, 0)),
        (_MERGE.replace("name = s.name", "id = s.id, name = s.name"), (2, 1, 1, 0)),
        (_MERGE.replace("UPDATE SET name = s.name", "DELETE"), (2, 1, 0, 1)),
        ("DELETE FROM items WHERE id IN (SELECT * FROM VALUES (1), (2), (7))", (2, 0, 0, 2)),
        ("UPDATE items SET n = 7 WHERE id IN (SELECT 1 WHERE 1 = 0)", (0, 0, 0, 0)),
        ("UPDATE items SET n = n + 1 WHERE id = 1", (1, 0, 1, 0)),
        ("DELETE FROM items WHERE n > 10", (1, 0, 0, 1)),
        ("INSERT INTO items VALUES (3, 'z', 1), (4, 'w', 2)", (2, 1, 1, 0)),
    ],
)
def test_few_rows_are_changed_without_a_job(
    db: Database,
    items: str,
    store: Store,
    spark: SparkSession,
    statement: str,
    counts: tuple[int, ...],
) -> None:
    """Of a source that the driver has, and a table of any size where its keys are named."""
    context = spark.sparkContext
    context.setJobGroup(statement, "statement")
    try:
        row = db.sql(statement).first()
        jobs = context.statusTracker().getJobIdsForGroup(statement)
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]

    assert row is not None
    assert row[1:] == counts
    assert list(jobs) == []


def test_a_merge_that_gives_rows_other_keys_moves_them(
    db: Database, items: str, store: Store, spark: SparkSession
) -> None:
    """A key that is set is not the one by which the row was found."""
    with interpreted(spark):
        db.sql(_MERGE.replace("SET name = s.name", "SET id = s.id + 10, name = s.name"))

    assert set(sorted_rows(store, items)) == {
        (2, "b", 20),
        (3, "c", None),
        (9, "y", None),
        (11, "x", 10),
    }


def test_explain_says_that_the_driver_looks_rows_up(db: Database, items: str) -> None:
    """By how many keys it does; NULL and a repeated key are none."""
    text = "EXPLAIN DELETE FROM items WHERE id IN (SELECT * FROM VALUES (1), (1), (NULL), (5))"
    (row,) = db.sql(text).where("relation = 'items'").collect()

    assert (row.partitions, row.points, row.ranges) == (0, 2, 0)


@pytest.mark.parametrize(
    ("stored", "source", "values"),
    [
        ("INT", "BIGINT", ["1", "NULL", "9999999999", "-2147483648"]),
        ("TINYINT", "INT", ["1", "-128", "128", "-129"]),
        ("DECIMAL(5,2)", "DECIMAL(9,4)", ["1.0000", "1.2500", "1.2501", "99999.0000"]),
        ("DECIMAL(20,0)", "BIGINT", ["1", "0", "-5"]),
        ("BIGINT", "DECIMAL(10,1)", ["1.0", "1.5", "-128.0"]),
        ("DOUBLE", "DOUBLE", ["-0.0", "double('NaN')", "1.5"]),
        ("STRING", "STRING", ["''", "'a'", "'A'", "NULL", "'é'"]),
        ("STRING", "INT", ["1", "2"]),
        ("DATE", "DATE", ["'2024-02-29'", "'0001-01-01'"]),
        ("DATE", "TIMESTAMP", ["'2024-02-29 00:00:00'", "'2024-02-29 01:00:00'"]),
        ("TIMESTAMP", "TIMESTAMP", ["'2024-10-27 00:30:00'", "'2024-10-27 01:30:00'"]),
        ("BINARY", "BINARY", ["X''", "X'00FF'"]),
        ("BOOLEAN", "BOOLEAN", ["true", "NULL"]),
    ],
)
def test_keys_are_those_that_a_join_finds(
    db: Database,
    store: Store,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    stored: str,
    source: str,
    values: list[str],
) -> None:
    """Whatever the types of the key and of the source are; values that do not fit match nothing."""
    rows = ", ".join(f"(CAST({value} AS {source}))" for value in values)
    merge = (
        f"MERGE INTO TABLE t USING (SELECT c FROM VALUES {rows} r(c)) s ON t.k = s.c "
        "WHEN MATCHED THEN UPDATE SET v = t.v || '+'"
    )
    outcomes = []
    with interpreted(spark):
        for name in ("joined", "looked_up"):
            store.create_table(name, f"k {stored}, v STRING", primary_key=["k"])
            casts = ", ".join(
                f"(try_cast(CAST({value} AS {source}) AS {stored}))" for value in values
            )
            db.sql(
                f"INSERT INTO {name} SELECT DISTINCT k, 'v' FROM VALUES {casts} r(k) "
                "WHERE k IS NOT NULL"
            )
            with monkeypatch.context() as patch:
                if name == "joined":
                    patch.setattr(lookup, "known_rows", lambda _: None)
                    patch.setattr(dml_run, "known_rows", lambda _: None)
                row: Any = db.sql(merge.replace("TABLE", name)).first()
            rows_after = sorted(map(repr, store.table(name).to_arrow().to_pylist()))
            outcomes.append((row[1:], rows_after))

    assert outcomes[0] == outcomes[1]


def test_a_table_with_a_version_column_is_merged_alike(
    db: Database, store: Store, spark: SparkSession
) -> None:
    """A row that is deleted keeps its version: an older row does not bring it back."""
    store.create_table("t", "k INT, at INT, v STRING", primary_key=["k"], version_column="at")
    upsert(store, "t", [(1, 5, "a"), (2, 5, "b")])
    with interpreted(spark):
        db.sql(
            "MERGE INTO t USING (VALUES (1, 6), (2, 7)) s(k, at) ON t.k = s.k "
            "WHEN MATCHED AND s.k = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET at = s.at, v = 'new'"
        )
    upsert(store, "t", [(1, 4, "late"), (2, 6, "late")])

    assert sorted_rows(store, "t") == [(2, 7, "new")]


def test_rows_of_the_driver_are_those_of_a_job(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of an aggregate over them; more than a bound, and what is read elsewhere, are not."""
    rows = (
        "VALUES (1, 'a', 1.50, TIMESTAMP'2024-10-27 00:30:00'), (2, NULL, NULL, NULL) t(i, s, d, m)"
    )
    queries = {
        f"SELECT s, d, m, i + 1, array(i), d FROM {rows}": True,
        f"SELECT s, count(*) FROM {rows} GROUP BY s ORDER BY 1": True,
        "SELECT 'x', 1L": True,
        "SELECT 1 WHERE 1 = 0": True,
        "SELECT * FROM range(3)": True,
        "SELECT * FROM range(5)": False,
        "SELECT explode(sequence(1, 9))": False,
    }
    monkeypatch.setattr(local_rows, "LOCAL_ROWS", 4)
    with interpreted(spark):
        for text, is_known in queries.items():
            frame = spark.sql(text)
            batches = known_rows(frame)

            assert (batches is not None) == is_known, text
            if batches is not None:
                rows_of_batches = [
                    tuple(row.values()) for batch in batches for row in batch.to_pylist()
                ]
                names = [f"c{index}" for index in range(len(frame.columns))]
                table = frame.toDF(*names).toArrow()
                assert rows_of_batches == [tuple(row.values()) for row in table.to_pylist()]
