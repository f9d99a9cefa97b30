"""The law of expressions near the data: values, types and errors are Spark's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import ArithmeticException

from relstate.storage import Store
from support.pushed import assert_near, pushed_texts
from support.spark import interpreted
from support.stores import upsert

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from relstate.connector.sql import Database


EXPRESSIONS = [
    "sum(r * g)", "sum(r + 1)", "sum(n * (1 - n))", "avg(r + 1)", "sum(ti + r)", "sum(-1 * r - g)",
    "sum(CASE WHEN t LIKE 'a%' THEN n ELSE 0 END)", "sum(if(bo, r, g))", "sum(d * 1.5 + r)",
    "count(CASE WHEN d > 0 THEN 1 END)", "sum(CASE WHEN r = 1 THEN 1 WHEN r > 3 THEN l END)",
    "min(l * 2)", "max(n * 2)", "min(x + d)", "max(d - x)", "avg(n * 1.25)", "sum(d * d - 0.5)",
    "stddev_pop(d * 2)", "sum(r * 2) FILTER (WHERE bo)", "sum(CASE WHEN bo THEN 3 END)",
    "sum(1)", "max(CASE WHEN bo THEN ti ELSE r END)", "sum(CASE WHEN bo THEN d ELSE 0.0 END)",
    "sum(CASE WHEN bo THEN n ELSE 10 END)", "sum(n - 100)", "sum((r + 2) * 1.5)", "sum(n + r)",
    "min(CASE WHEN bo THEN 1.5 ELSE ti END)", "sum(n * 3000000000)", "sum(ti + 1)",
]  # fmt: skip


@pytest.mark.usefixtures("in_tasks")
@pytest.mark.parametrize(
    "group", ["", "GROUP BY g", "WHERE r < 3 GROUP BY t HAVING sum(r + 1) > 3"]
)
def test_expressions_are_computed_in_tasks(
    spark: SparkSession, filled: Database, group: str
) -> None:
    """Values and types are Spark's, of every family of numbers."""
    items = ", ".join(f"{call} AS c{i}" for i, call in enumerate(EXPRESSIONS))
    query = f"SELECT {items} FROM plain {group}"
    with interpreted(spark):
        rows, expected = filled.sql(query), spark.sql(query)

        assert pushed_texts(filled, query) != [None]
        assert rows.dtypes == expected.dtypes
        order = "c0, c1, c2"
        assert_near(
            rows.orderBy(*order.split(", ")).collect(),
            expected.orderBy(*order.split(", ")).collect(),
        )


@pytest.mark.usefixtures("in_tasks")
@pytest.mark.parametrize(
    ("call", "is_error"),
    [
        ("sum(i * i)", True),
        ("max(l + 1)", True),
        ("avg(l * l)", True),
        ("sum(s * s)", True),
        ("sum(CASE WHEN k > 2 THEN i * i END)", False),
        ("sum(i * i) FILTER (WHERE k > 2)", False),
        ("sum(z * (i * i))", False),
        ("sum((i * i) * z)", True),
        ("sum(i + z)", False),
    ],
)
def test_an_expression_that_overflows_is_spark_s_error(
    spark: SparkSession, db: Database, store: Store, call: str, is_error: bool
) -> None:
    """Where Spark computes it: not in another branch, nor to the right of NULL; HAVING is later."""
    store.create_table("o", "k INT, i INT, l BIGINT, s TINYINT, z INT", primary_key=["k"])
    values = [(1, 2**20, 2**63 - 1, 100, None), (2, 2**20, 2**62, 100, None), (3, 2, 1, 1, None)]
    upsert(store, "o", values)
    source = spark.createDataFrame(values, "k INT, i INT, l BIGINT, s TINYINT, z INT")
    query = f"SELECT {call} AS c FROM {{}} HAVING count(*) > {'9' if is_error else '1'}"

    assert pushed_texts(db, query.format("o")) != [None]
    for rows in (db.sql(query.format("o")), spark.sql(query.format("{o}"), o=source)):
        if is_error:
            with pytest.raises(ArithmeticException, match="OVERFLOW"):
                rows.collect()
        else:
            assert [row.c for row in rows.collect()] in ([4], [None])


GROUPED = [
    "SELECT r % 2, count(*), sum(length(t)) FROM {} GROUP BY r % 2",
    "SELECT year(dt) AS y, max(abs(r)), avg(r + 0D) FROM {} GROUP BY y ORDER BY y DESC",
    "SELECT date_trunc('hour', ts), hour(ts), count(*) FROM {} GROUP BY 1, 2",
    "SELECT g + 1 AS c, count(DISTINCT r % 3, t) FROM {} GROUP BY g + 1",
    "SELECT max(l / r), sum(r div 2), max(x / 2) FROM {} WHERE r <> 0 AND length(t) > 0",
    "SELECT DISTINCT length(t), g FROM {} WHERE length(t) + 0D < 3 OR g % 2 = 1",
    "SELECT substring(t, 1, 1) || '.', count(*) FROM {} GROUP BY ALL HAVING count(*) > 2",
    "SELECT count_if(length(t) = 1), count(*) FILTER (WHERE month(dt) = 2) FROM {}",
    (
        "SELECT q, sum(c) FROM (SELECT year(z) * 1L AS q, count(*) AS c FROM {} "
        "GROUP BY year(z), bo) GROUP BY q"
    ),
    (
        "SELECT CASE WHEN length(t) > 1 THEN 'long' ELSE 'short' END AS kind, min(trim(t)) FROM {} "
        "GROUP BY kind"
    ),
    "SELECT g, year(dt) % 10 AS y, count(*) FROM {} GROUP BY g, y ORDER BY g + year(dt) % 10",
    (
        "SELECT datediff(dt, DATE '1970-01-01') AS d, count(*) FROM {} p GROUP BY "
        "DateDiff(p.dt, DATE '1970-01-01')"
    ),
    "SELECT r % 3, g, count(*), avg(l) FROM {} GROUP BY ROLLUP(r % 3, g) ORDER BY count(*), 1, 2",
    "SELECT r % 3 AS c, max(d) FROM {} GROUP BY ROLLUP(r % 3) HAVING r % 3 > 0 ORDER BY count(*)",
    (
        "SELECT length(t) AS size, bo, sum(r + g) FROM {} GROUP BY size, bo WITH CUBE "
        "HAVING sum(r + g) > 9"
    ),
    "SELECT coalesce(g, 0), if(bo, 1, 2), sum(r * 2) FROM {} GROUP BY 1, 2 ORDER BY 1 DESC LIMIT 9",
    "SELECT k % 7 AS a, k % 7 + 1 AS c, sum(k % 7) FROM {} GROUP BY k % 7 HAVING c > 2",
]


@pytest.mark.usefixtures("on_driver")
@pytest.mark.parametrize("query", GROUPED)
def test_groups_and_conditions_are_computed_by_the_driver(
    spark: SparkSession, filled: Database, query: str
) -> None:
    """Of rows with NULL, NaN, other characters than ASCII and times of every kind."""
    with interpreted(spark):
        text = query.format("merged")
        rows, expected = filled.sql(text), spark.sql(text)

        assert None not in pushed_texts(filled, text)
        assert rows.schema == expected.schema
        assert sorted(map(repr, rows.collect())) == sorted(map(repr, expected.collect()))


@pytest.mark.usefixtures("on_driver")
@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("SELECT sum(r / (g - g)) FROM plain", "DIVIDE_BY_ZERO"),
        ("SELECT sum(r % (g - g)) FROM plain", "REMAINDER_BY_ZERO"),
        ("SELECT max(CAST(l AS INT)) FROM plain", "CAST_OVERFLOW"),
        ("SELECT max(CAST(n AS DECIMAL(4,2))) FROM plain", "NUMERIC_VALUE_OUT_OF_RANGE"),
        ("SELECT -ti AS c, count(*) FROM plain GROUP BY -ti", "ARITHMETIC_OVERFLOW"),
        ("SELECT count(DISTINCT abs(ti)) FROM plain", "ARITHMETIC_OVERFLOW"),
    ],
)
def test_what_fails_is_an_error_of_spark(
    spark: SparkSession, filled: Database, query: str, error: str
) -> None:
    """Of the class that Spark raises itself, also where rows are grouped by it."""
    assert pushed_texts(filled, query) != [None]
    with interpreted(spark):
        for frame in (filled.sql(query), spark.sql(query)):
            with pytest.raises(ArithmeticException, match=error):
                frame.collect()
