"""A join of a large table with small relations reads what these leave of it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from relstate.connector.sql import Database, join_reduction, query_reader
from relstate.connector.sql.planned_query import is_read_on_driver
from relstate.storage import ReadPlan, Store
from support.spark import interpreted
from support.stores import upsert

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from support.examples import Seeds

_LARGE = ("large", "wide")


@pytest.fixture
def tables(store: Store, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Two tables that count as large, one with an index, a small one, and a view of few rows."""
    numbers: list[Any] = [
        (a, b, None if a == 3 else a * b, f"r{a}") for a in range(9) for b in range(3)
    ]
    store.create_table("large", "a INT, b BIGINT, n INT, v STRING", primary_key=["a", "b"])
    store.create_index("large", "by_n", ["n"])
    upsert(store, "large", numbers)
    store.create_table("wide", "k STRING, d DECIMAL(6,2), f DOUBLE", primary_key=["k"])
    upsert(store, "wide", [(f"r{i}", i, float(i)) for i in range(6)])
    store.create_table("small", "i BIGINT, b BIGINT, x INT, s STRING, f DOUBLE", primary_key=["i"])
    rows: list[Any] = [
        (1, 2, 4, "r1", 0.0),
        (2, 0, None, "r2", -0.0),
        (1 << 40, 1, 2, "none", 1.0),
        (-1, 1, 2, None, None),
    ]
    upsert(store, "small", rows)
    few = pa.table({"i": pa.array([4, 5], pa.int32()), "s": ["r4", None]})
    spark.createDataFrame(few).createOrReplaceTempView("few")

    def is_small(read: ReadPlan) -> bool:
        return read.definition.name not in _LARGE and is_read_on_driver(read)

    for module in (query_reader, join_reduction):
        monkeypatch.setattr(module, "is_read_on_driver", is_small)
    monkeypatch.setattr(join_reduction, "_saves", lambda *_: True)
    return store


def _rows(db: Database, text: str) -> list[str]:
    return sorted(map(repr, db.sql(text).collect()))


def _compare(db: Database, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(query_reader, "key_sources", lambda *_: [])
        expected = _rows(db, text)

    assert _rows(db, text) == expected, text


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("SELECT * FROM large l JOIN small s ON l.a = s.i", "a IN (3 values of s.i)"),
        (
            "SELECT * FROM small s LEFT JOIN large l ON l.a = s.i AND l.b = s.b",
            "a IN (3 values of s.i) AND b IN (3 values of s.b)",
        ),
        ("SELECT * FROM large l LEFT JOIN small s ON l.a = s.i", None),
        ("SELECT * FROM large l JOIN small s ON l.n = s.x", "n IN (2 values of s.x)"),
        ("SELECT * FROM large l LEFT SEMI JOIN small s ON l.a = s.x", "a IN (2 values of s.x)"),
        ("SELECT * FROM large l LEFT ANTI JOIN small s ON l.a = s.i", None),
        (
            "SELECT * FROM large WHERE a IN (SELECT x FROM small WHERE i > 1)",
            "a IN (1 values of small.x)",
        ),
        ("SELECT * FROM large WHERE a NOT IN (SELECT i FROM small)", None),
        (
            "SELECT count(*), max(v) FROM large l, small s WHERE l.a = s.i AND l.b < 2",
            "b < 2 AND a IN (3 values of s.i)",
        ),
        ("SELECT * FROM large l JOIN few f ON l.a = f.i", "a IN (2 values of few.i)"),
        ("SELECT * FROM wide w JOIN small s ON w.k = s.s", "k IN (3 values of s.s)"),
        ("SELECT * FROM wide w JOIN small s ON w.d = s.i", None),
        ("SELECT * FROM wide w JOIN small s ON w.f = s.f", None),
    ],
)
def test_a_join_reads_what_a_small_relation_leaves(
    db: Database,
    tables: Store,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    where: str | None,
) -> None:
    """The rows are those of the query that reads all; EXPLAIN shows what was collected."""
    with interpreted(spark):
        _compare(db, monkeypatch, text)
        explained = db.sql(f"EXPLAIN {text}").collect()
    (large,) = (row for row in explained if row.relation in _LARGE)

    assert large["where"] == where


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM zero RIGHT JOIN small s USING (b) JOIN large l USING (b)",
        "SELECT * FROM zero RIGHT JOIN small s USING (b) LEFT JOIN large l USING (b)",
        "SELECT * FROM large WHERE b IN (SELECT b FROM zero FULL JOIN small USING (b))",
        "SELECT * FROM large WHERE b IN (SELECT b FROM small FULL JOIN zero USING (b))",
    ],
)
def test_a_name_of_using_has_not_only_the_values_of_the_first_relation(
    db: Database, tables: Store, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """After a RIGHT or FULL JOIN it has values that the first relation lacks."""
    tables.create_table("zero", "b BIGINT", primary_key=["b"])
    upsert(tables, "zero", [(0,)])
    with interpreted(spark):
        _compare(db, monkeypatch, text)


def test_random_joins_read_enough(
    db: Database,
    tables: Store,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    seeds: Seeds,
) -> None:
    """Of every kind, between two or three relations, with conditions in ON and WHERE."""
    with interpreted(spark):
        for seed in seeds(4):
            _compare(db, monkeypatch, _random_join(random.Random(seed)))


def _random_join(choose: random.Random) -> str:
    kinds = [
        "JOIN",
        "JOIN",
        "LEFT JOIN",
        "RIGHT JOIN",
        "FULL JOIN",
        "LEFT SEMI JOIN",
        "LEFT ANTI JOIN",
    ]
    equalities = ["l.a = s.i", "l.a = s.x", "l.n = s.x", "l.b = s.b", "l.v = s.s", "l.a = s.b"]
    condition = " AND ".join(choose.sample(equalities, choose.choice([1, 1, 2])))
    first, second = choose.sample(["large l", "small s"], 2)
    kind = choose.choice(kinds)
    text = f"{first} {kind} {second} ON {condition}"
    if choose.random() < 0.5 and kind in kinds[:5]:
        text += f" {choose.choice(kinds[:5])} wide w ON w.k = {choose.choice(['s.s', 'l.v'])}"
    alias = first[-1]
    wheres = [f"{alias}.b > 0", f"{alias}.b IN (SELECT x FROM small)", f"{alias}.b IS NOT NULL"]
    return f"SELECT * FROM {text} WHERE {choose.choice(['1 = 1', *wheres])}"


def test_a_view_that_is_computed_again_reduces_nothing(
    db: Database, tables: Store, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its values may be other ones then."""
    spark.sql("SELECT i, CAST(rand() * 9 AS INT) AS r FROM few").createOrReplaceTempView("drawn")
    row: Any = db.sql("EXPLAIN SELECT * FROM large l JOIN drawn d ON l.a = d.r").first()

    assert (row.relation, row["where"]) == ("large", None)


def test_more_values_than_a_bound_reduce_nothing(
    db: Database, tables: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planning them would take longer than reading the table."""
    monkeypatch.setattr(join_reduction, "MOST_VALUES", 2)
    text = "EXPLAIN SELECT * FROM large l JOIN small s ON l.a = s.i AND l.b = s.x"
    row: Any = db.sql(text).first()

    assert row["where"] == "b IN (2 values of s.x)"


def test_a_statement_whose_read_was_reduced_meets_other_writers(
    db: Database, tables: Store, spark: SparkSession
) -> None:
    """A prefix of the key is looked up in ranges."""
    with interpreted(spark):
        deleted: Any = db.sql("DELETE FROM large WHERE a IN (SELECT x FROM small)").first()

    assert deleted.num_deleted_rows == 6
