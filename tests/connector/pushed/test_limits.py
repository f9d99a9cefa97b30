"""The law of limits near the data: a query has the rows that Spark gives it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from relstate.storage import Store
from support.examples import Seeds
from support.pushed import CONDITIONS, POOLS, TABLES, pushed_texts
from support.spark import interpreted
from support.stores import upsert

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from relstate.connector.sql import Database


def limited_query(chance: random.Random) -> tuple[str, bool]:
    """Return a query with a LIMIT, and whether it has an order."""
    name = chance.choice(["", "o."])
    items = chance.choice(["*", "k, t, d", f"{name}k AS key, abs({name}r) AS r2, {name}t"])
    where = chance.choice(["", *(f"WHERE {condition} " for condition in CONDITIONS)])
    direction = chance.choice(["", " DESC", " NULLS LAST", " DESC NULLS FIRST"])
    order = f"ORDER BY {name}{chance.choice(list(POOLS))}{direction}, {name}k"
    is_ordered = chance.random() < 0.7
    limit = chance.choice(["LIMIT 3", "LIMIT 40", "LIMIT 0", "LIMIT 5 OFFSET 4", "LIMIT 1000"])
    table = chance.choice(TABLES[:3])
    text = f"SELECT {items} FROM {table} o {where}{order if is_ordered else ''} {limit}"
    return text, is_ordered


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("in_tasks")
def test_a_limit_gives_the_first_rows(spark: SparkSession, filled: Database, seeds: Seeds) -> None:
    """The same rows in the same order; without an order as many, of those that match."""
    with interpreted(spark):
        for seed in seeds(40):
            query, is_ordered = limited_query(random.Random(seed))
            rows, expected = filled.sql(query).collect(), spark.sql(query).collect()

            assert len(rows) == len(expected), query
            if is_ordered:
                assert list(map(str, rows)) == list(map(str, expected)), query
            else:
                matching = spark.sql(query[: query.index("LIMIT")]).collect()
                assert set(map(str, rows)) <= set(map(str, matching)), query


@pytest.mark.usefixtures("in_tasks")
@pytest.mark.parametrize(
    ("query", "pushed", "partitions"),
    [
        ("SELECT * FROM plain LIMIT 7", "LIMIT 7", 0),
        ("SELECT k FROM plain WHERE r = 1 LIMIT 7 OFFSET 2", "LIMIT 9", 1),
        ("SELECT k FROM plain ORDER BY t DESC, d LIMIT 7", "ORDER BY t DESC, d LIMIT 7", 1),
        ("SELECT k FROM plain ORDER BY t NULLS LAST LIMIT 7", "ORDER BY t NULLS LAST LIMIT 7", 1),
        ("SELECT k, t FROM plain ORDER BY k DESC LIMIT 7", "ORDER BY k DESC LIMIT 7", 0),
        ("SELECT k FROM plain WHERE k > 9 ORDER BY k LIMIT 7", "ORDER BY k LIMIT 7", 0),
        ("SELECT k FROM plain WHERE r = 77 ORDER BY k LIMIT 7", "ORDER BY k LIMIT 7", 0),
        ("SELECT k, r + 1 AS t FROM plain ORDER BY t LIMIT 7", None, 1),
        ("SELECT k FROM plain ORDER BY r + 1 LIMIT 7", None, 1),
        ("SELECT explode(array(k, k)) FROM plain LIMIT 7", None, 1),
        ("SELECT row_number() OVER (ORDER BY k) FROM plain LIMIT 7", None, 1),
        ("SELECT k FROM plain WHERE upper(t) = 'A' LIMIT 7", None, 1),
        ("SELECT k FROM plain ORDER BY t LIMIT 100000", None, 1),
        ("SELECT * FROM plain TABLESAMPLE (10 ROWS) s LIMIT 7", None, 1),
        ("SELECT k FROM plain UNION ALL SELECT k FROM plain LIMIT 7", None, 1),
    ],
)
def test_explain_says_how_many_rows_are_read(
    filled: Database, query: str, pushed: str | None, partitions: int
) -> None:
    """Only where each row of the table is a row of the result."""
    row = filled.sql(f"EXPLAIN {query}").first()

    assert row is not None
    assert (row.pushed, row.partitions) == (pushed, partitions)


@pytest.mark.usefixtures("in_tasks")
def test_an_order_by_a_field_of_a_struct_is_spark_s(
    spark: SparkSession, db: Database, store: Store
) -> None:
    """A field in the star of a struct is an item, which ORDER BY sees before the table's column."""
    columns = "k INT, s STRUCT<k: INT, q: INT>"
    store.create_table("nested", columns, primary_key=["k"])
    rows = [(key, {"k": -key, "q": key}) for key in range(20)]
    upsert(store, "nested", rows)
    values = spark.createDataFrame(rows, columns)
    for items, order in (("s.*", "k"), ("nested.s.*", "k"), ("s AS nested", "nested.k")):
        query = f"SELECT {items} FROM {{}} ORDER BY {order} LIMIT 3"
        expected = spark.sql(query.format("{nested} AS nested"), nested=values).collect()

        assert pushed_texts(db, query.format("nested")) == [None]
        assert db.sql(query.format("nested")).collect() == expected
