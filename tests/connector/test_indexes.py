"""The laws of indexes in SQL: the statements, and the queries and changes that use them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from relstate.connector.sql import Database
from relstate.connector.sql.index_ddl import CreateIndex, DropIndex, ShowIndexes
from relstate.connector.sql.statement import parse_statement
from relstate.storage import Store
from relstate.storage.errors import (
    IndexExistsError,
    IndexNotFoundError,
    UniqueViolationError,
    UnsupportedStatementError,
)
from support.spark import count_changes, only_row, sorted_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("CREATE INDEX i ON t (a)", CreateIndex("i", "t", ("a",))),
        (
            (
                "create unique index if not exists `i` on `t` (a desc nulls last, `b c`) "
                "include (d, e)"
            ),
            CreateIndex("i", "t", ("a desc nulls last", "`b c`"), ("d", "e"), True, True),
        ),
        ("DROP INDEX i ON t", DropIndex("i", "t")),
        ("DROP INDEX IF EXISTS i ON t;", DropIndex("i", "t", True)),
        ("SHOW INDEXES ON t", ShowIndexes("t")),
        ("show indexes from t", ShowIndexes("t")),
    ],
)
def test_a_statement_says_what_it_asks_for(text: str, statement: object) -> None:
    """Words match in any case; columns stay as written."""
    assert parse_statement(text) == statement


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("CREATE INDEX ON t (a)", "found"),
        ("CREATE INDEX i ON t", r"expected \("),
        ("CREATE INDEX i ON t (a) USING btree", "'USING btree'"),
        ("CREATE INDEX i ON shop.t (a)", "one part"),
        ("DROP INDEX i", "expected ON"),
        ("SHOW INDEXES", "expected ON and the table's name"),
    ],
)
def test_a_statement_that_cannot_be_is_refused(text: str, reason: str) -> None:
    """The error says what is missing, or is too much."""
    with pytest.raises(UnsupportedStatementError, match=reason):
        parse_statement(text)


SCHEMA = "id BIGINT NOT NULL, k INT, s STRING, v DOUBLE"


@pytest.fixture
def both(spark: SparkSession, db: Database) -> Iterator[Database]:
    """A table with indexes, and Spark's own view of the same name and rows."""
    chance = random.Random(3)

    def maybe(value: Any) -> Any:
        return None if chance.random() < 0.2 else value

    rows = [
        (key, maybe(chance.randrange(6)), maybe(chance.choice("xyz")), maybe(key / 4))
        for key in range(60)
    ]
    db.sql(f"CREATE TABLE a ({SCHEMA}, PRIMARY KEY (id))")
    db.sql("CREATE INDEX by_k ON a (k DESC, s)")
    frame = spark.createDataFrame(rows, SCHEMA)
    frame.createOrReplaceTempView("a")
    frame.write.format("relstate").option("table", "a").mode("append").save(db.store.path)
    db.sql("CREATE INDEX by_s ON a (s) INCLUDE (v)")
    yield db
    spark.catalog.dropTempView("a")


_QUERIES = [
    "SELECT * FROM a WHERE k = 3",
    "SELECT id, v FROM a WHERE s = 'x'",
    "SELECT * FROM a WHERE k IN (1, 2, NULL) AND s >= 'y'",
    "SELECT x.id, y.id AS o FROM a x JOIN a y ON x.k = y.k AND x.s = 'z' WHERE y.k > 3",
    "SELECT id, (SELECT max(v) FROM a WHERE s = 'y') AS m FROM a WHERE k = 2 AND v < 9",
    "SELECT count(*) AS n FROM a WHERE NOT s > 'x' AND k BETWEEN 0 AND 1",
    "SELECT id FROM a WHERE k = 1 OR s = 'x'",
    "SELECT id FROM a WHERE s <=> NULL",
    "SELECT id, k FROM a WHERE k IS NULL AND (s = 'x' OR s IS NULL)",
    "SELECT id FROM a WHERE s = 'nothing'",
]


def test_a_query_through_an_index_answers_as_spark_does(
    spark: SparkSession, both: Database
) -> None:
    """It has the rows that Spark has over its own view, and EXPLAIN names the index."""
    used = 0
    for query in _QUERIES:
        expected = sorted(map(str, spark.sql(query).collect()))
        assert sorted(map(str, both.sql(query).collect())) == expected, query
        *relations, _ = both.sql(f"EXPLAIN {query}").collect()
        used += sum(row["index"] is not None for row in relations)
    assert used == 12

    (row, _) = both.sql("EXPLAIN SELECT * FROM a WHERE k = 3 AND s = 'x'").collect()
    count = both.sql("SELECT * FROM a WHERE k = 3 AND s = 'x'").count()
    assert (row["index"], row.points, row.ranges) == ("by_k", count, 0)
    reader = both.spark.read.format("relstate").option("table", "a").option("where", "k = 3")
    assert reader.load(both.store.path).count() == len(both.store.table("a").get_by("by_k", 3))


def test_statements_change_rows_through_an_index(
    spark: SparkSession, both: Database, store: Store
) -> None:
    """UPDATE, DELETE and MERGE with a condition on an indexed column; the index follows."""
    before = sorted_rows(store, "a")
    threes = [row for row in before if row[1] == 3]
    assert count_changes(both, "UPDATE a SET k = 7, s = 'u' WHERE k = 3") == (0, len(threes), 0)
    table = store.table("a")
    assert table.get_by("by_k", 3) == []
    assert sorted(row.id for row in table.get_by("by_k", 7)) == sorted(row[0] for row in threes)
    xs = [row.id for row in table.get_by("by_s", "x")]
    assert count_changes(both, "DELETE FROM a WHERE s = 'x'") == (0, 0, len(xs))
    merge = (
        "MERGE INTO a USING (SELECT 7 AS k, 900L AS id) n ON a.k = n.k AND a.k = 7 "
        "WHEN MATCHED THEN UPDATE SET s = 'm' "
        "WHEN NOT MATCHED THEN INSERT (id, k) VALUES (n.id, n.k)"
    )
    assert count_changes(both, merge) == (0, len(threes), 0)
    assert [row.s for row in table.get_by("by_k", 7)] == ["m"] * len(threes)
    both.sql("INSERT OVERWRITE a SELECT id, k, 'o', v FROM a WHERE k = 7")
    assert len(table.get_by("by_s", "o")) == len(threes) == table.count()


def test_a_unique_index_holds_through_spark(
    spark: SparkSession, db: Database, items: str, store: Store
) -> None:
    """Of a statement, a batch write and a stream's writer; the error is relstate's own."""
    db.sql("CREATE UNIQUE INDEX names ON items (name)")
    with pytest.raises(UniqueViolationError, match="name = 'a'"):
        db.sql("INSERT INTO items VALUES (9, 'a', 1)")
    with pytest.raises(UniqueViolationError, match="name = 'b'"):
        db.sql("UPDATE items SET name = 'b' WHERE id = 1")
    frame = spark.createDataFrame([(8, "c", 1)], "id BIGINT, name STRING, n INT")
    with pytest.raises(Exception, match="two rows would have \\(name = 'c'\\)"):
        frame.write.format("relstate").option("table", items).mode("append").save(store.path)
    assert count_changes(db, "UPDATE items SET name = concat(name, 'x')") == (0, 3, 0)
    (row,) = db.sql("SHOW INDEXES ON items").collect()
    assert (row.index_name, row.columns, row.included, row.is_unique) == (
        "names",
        ["name"],
        [],
        True,
    )
    described = [tuple(row)[:2] for row in db.sql("DESCRIBE EXTENDED items").collect()]
    assert described[-2:] == [("# Indexes", ""), ("names", "UNIQUE (name)")]
    with pytest.raises(IndexExistsError):
        db.sql("CREATE INDEX names ON items (n)")
    db.sql("CREATE INDEX IF NOT EXISTS names ON items (n)")
    db.sql("DROP INDEX names ON items")
    with pytest.raises(IndexNotFoundError):
        db.sql("DROP INDEX names ON items")
    assert only_row(db.sql("DROP INDEX IF EXISTS names ON items")).epoch == store.epoch
    db.sql("INSERT INTO items VALUES (9, 'ax', 1)")


@pytest.fixture
def items(db: Database) -> str:
    """The name of a table with the rows (1, a, 10), (2, b, 20) and (3, c, NULL)."""
    db.sql("CREATE TABLE items (id BIGINT PRIMARY KEY, name STRING NOT NULL, n INT)")
    db.sql("INSERT INTO items VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', NULL)")
    return "items"
