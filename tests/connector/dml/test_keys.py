"""Statements over tables with a nullable key, and with several version columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from relstate.connector.sql import Database
from relstate.storage import Store
from relstate.storage.errors import (
    OptionError,
    SchemaMismatchError,
    UnsupportedStatementError,
    ValueRangeError,
)
from support.multisets import difference, rows_of_table
from support.spark import properties_of, sorted_rows
from support.stores import stored_row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_rows_with_a_null_in_the_key_are_rows_like_others(db: Database, store: Store) -> None:
    """INSERT, UPDATE, DELETE, MERGE and views find them; = is not true of NULL, <=> is."""
    db.sql(
        "CREATE TABLE n (k INT, v INT, w STRING NOT NULL, PRIMARY KEY (k)) "
        "TBLPROPERTIES ('nullable_key' = 'true')"
    )
    query = "SELECT l.k, r.v FROM n l LEFT JOIN n r ON l.k <=> r.k"
    db.sql(f"CREATE MATERIALIZED VIEW pairs AS {query}")
    db.sql("CREATE MATERIALIZED VIEW totals AS SELECT k, sum(v) AS v FROM n GROUP BY k")
    db.sql("INSERT INTO n VALUES (NULL, 1, 'a'), (2, 2, 'b')")
    db.sql("INSERT INTO n VALUES (NULL, 3, 'c')")
    assert store.table("n").get(None) == (None, 3, "c")
    db.sql("UPDATE n SET v = v + 1 WHERE k IS NULL")
    db.sql(
        "MERGE INTO n USING (VALUES (CAST(NULL AS INT), 7), (5, 8)) AS s(k, v) ON n.k <=> s.k "
        "WHEN MATCHED THEN UPDATE SET v = n.v * 10 + s.v "
        "WHEN NOT MATCHED THEN INSERT (k, v, w) VALUES (s.k, s.v, 'new') "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET w = 'old'"
    )
    db.refresh()
    expected = [(2, 2, "old"), (5, 8, "new"), (None, 47, "c")]
    assert sorted(store.table("n").to_arrow().to_pylist(), key=repr) == sorted(
        [dict(zip(("k", "v", "w"), row, strict=True)) for row in expected], key=repr
    )
    assert stored_row(store.table("totals"), None).v == 47
    rows = rows_of_table(db.sql("SELECT * FROM pairs").toArrow())
    assert difference(rows, rows_of_table(db.sql(query).toArrow())) == ([], [])
    db.sql("DELETE FROM n WHERE k IS NULL")
    db.refresh()
    assert store.table("totals").get(None) is None
    assert [report.problems for report in db.check_views()] == [(), ()]


def test_merge_needs_a_column_that_tells_a_row_from_none(db: Database) -> None:
    """Where all columns may be NULL, a row of the target looks like no row."""
    db.sql("CREATE TABLE n (k INT, v INT, PRIMARY KEY (k)) TBLPROPERTIES ('nullable_key' = 'true')")
    with pytest.raises(UnsupportedStatementError, match="declare a column NOT NULL"):
        db.sql(
            "MERGE INTO n USING (VALUES (1, 1)) AS s(k, v) ON n.k = s.k "
            "WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v)"
        )


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("v`.w", ["v`.w"]),
        ("`a,``b` , c", ["a,`b", "c"]),
        ("`a`b", ["`a`b"]),
        ("`", ["`"]),
        ("` a`,```b```", [" a", "`b`"]),
    ],
)
def test_a_version_column_may_have_any_name(db: Database, text: str, names: list[str]) -> None:
    """A name in backticks may have commas; `SHOW TBLPROPERTIES` shows what can be written again."""
    columns = ", ".join(f"`{name.replace('`', '``')}` INT" for name in names)
    for table, property_text in (("v", text), ("again", None)):
        property_text = property_text or properties_of(db, "v")["version_column"]
        db.sql(
            f"CREATE TABLE {table} (k INT PRIMARY KEY, {columns}) "
            f"TBLPROPERTIES ('version_column' = '{property_text}')"
        )
        definition = db.store.state.table(table).definition
        versions = definition.schema.version_columns(definition.properties.version_columns)
        assert [column.name for column in versions] == names


@pytest.mark.parametrize("text", ["", "a,,b", "a,"])
def test_an_empty_name_of_a_version_column_is_refused(db: Database, text: str) -> None:
    """No column has an empty name, so a comma too many is told and not passed over."""
    with pytest.raises(OptionError, match="must be the name of a column"):
        db.sql(
            "CREATE TABLE v (k INT PRIMARY KEY, a INT, b INT) "
            f"TBLPROPERTIES ('version_column' = '{text}')"
        )


def test_version_columns_decide_in_order_which_row_is_later(
    spark: SparkSession, db: Database, store: Store
) -> None:
    """By every way of writing; an update may not set a lower version."""
    db.sql(
        "CREATE TABLE v (k INT, name STRING, file INT, `po s` INT, PRIMARY KEY (k)) "
        "TBLPROPERTIES ('version_column' = 'file, `po s`')"
    )
    (row,) = db.sql("DESCRIBE EXTENDED v").where("col_name = 'version_column'").collect()
    assert row.data_type == "file, po s"
    db.sql("INSERT INTO v VALUES (1, 'a', 1, 9), (2, 'b', 2, 1)")
    db.sql("INSERT INTO v VALUES (1, 'late', 1, 8), (2, 'c', 2, 2)")
    assert sorted_rows(store, "v") == [(1, "a", 1, 9), (2, "c", 2, 2)]
    db.sql("UPDATE v SET file = 2, `po s` = 0 WHERE k = 1")
    with pytest.raises(ValueRangeError, match="'file', 'po s' from 2, 0 to 2, None"):
        db.sql("UPDATE v SET `po s` = NULL WHERE k = 1")
    source = spark.createDataFrame(
        [(1, "d", 2, 1, "U"), (1, "e", 2, 3, "U"), (2, None, 2, 3, "D"), (3, "x", 0, 5, "U")],
        "k INT, name STRING, f INT, p INT, op STRING",
    )
    arguments: dict[str, Any] = {"column_list": ["k", "name"], "apply_as_deletes": "op = 'D'"}
    db.apply_changes("v", source, ["k"], "struct(f, p)", **arguments)
    assert sorted_rows(store, "v") == [(1, "e", 2, 3), (3, "x", 0, 5)]
    db.apply_changes("v", source.where("k = 1 AND p = 1"), ["k"], "struct(f, p)", **arguments)
    assert sorted_rows(store, "v") == [(1, "e", 2, 3), (3, "x", 0, 5)]
    with pytest.raises(OptionError, match="struct"):
        db.apply_changes("v", source, ["k"], "p", **arguments)
    assert db.sql("DELETE FROM v WHERE k = 3").count() == 1
    assert sorted_rows(store, "v") == [(1, "e", 2, 3)]


def test_an_insert_without_a_nullable_key_means_null(db: Database, store: Store) -> None:
    """Of the columns of the key that may be NULL, by a list of columns and by name."""
    db.sql(
        "CREATE TABLE m (k INT, l INT NOT NULL, v INT, PRIMARY KEY (k, l)) "
        "TBLPROPERTIES ('nullable_key' = 'true')"
    )
    db.sql("INSERT INTO m (l, v) VALUES (1, 10), (2, 20)")
    db.sql("INSERT INTO m BY NAME SELECT 1 AS l, 11 AS v")
    rows = sorted(map(tuple, db.sql("SELECT k, l, v FROM m").collect()), key=repr)
    assert rows == [(None, 1, 11), (None, 2, 20)]
    with pytest.raises(SchemaMismatchError, match="'l' is missing"):
        db.sql("INSERT INTO m (k, v) VALUES (1, 10)")
