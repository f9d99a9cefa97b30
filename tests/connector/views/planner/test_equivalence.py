"""Whether two queries mean the same to Spark, whatever ids Spark gives to their parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from relstate.connector.views.planner.equivalence import has_same_meaning
from support.versions import EQUAL_RECURSIONS, skip_without

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

# Spark's optimizer orders the DISTINCT arguments, and the OR, by hashes of ids.
_HASHED = """WITH p AS (SELECT * FROM t), q AS (SELECT g FROM p WHERE x IN (SELECT id FROM p))
    SELECT g, count(DISTINCT x) AS a, count(DISTINCT y) AS b FROM p
    WHERE EXISTS (SELECT 1 FROM q WHERE q.g = p.g) OR g = 'a' GROUP BY g"""
_RECURSIVE = """WITH RECURSIVE r(n) AS (SELECT id FROM w UNION ALL
    SELECT n + (SELECT min(id) + 1 FROM w) FROM r WHERE n < 4)
    SELECT id FROM t WHERE EXISTS (SELECT 1 FROM r WHERE r.n = t.x)"""
# Spark gives an id to the operand of BETWEEN, and keeps the name by which a function is called.
_BETWEEN = """WITH p AS (SELECT substr(g, 1, 1) AS c, x FROM t WHERE x + id BETWEEN 1 AND y)
    SELECT c, count(*) AS n FROM p WHERE x BETWEEN 0 AND 5 GROUP BY c"""
_OTHER = {
    _HASHED: [
        _HASHED.replace("DISTINCT x", "DISTINCT y").replace("y) AS b", "x) AS b"),
        _HASHED.replace("DISTINCT x", "DISTINCT id"),
        _HASHED.replace("FROM q WHERE", "FROM p AS q WHERE"),
        _HASHED.replace("OR g = 'a'", "OR q.g = 'a'").replace("q.g = 'a'", "g = 'A'"),
        _HASHED.replace("SELECT id FROM p", "SELECT x FROM p"),
    ],
    _RECURSIVE: [
        _RECURSIVE.replace("min(id)", "max(id)"),
        _RECURSIVE.replace("r.n = t.x", "n = 1"),
    ],
    _BETWEEN: [
        _BETWEEN.replace("x + id BETWEEN", "x + x BETWEEN"),
        _BETWEEN.replace("substr(g, 1, 1)", "substr(g, 1, 2)"),
    ],
}


@pytest.mark.parametrize("query", _OTHER)
def test_two_readings_of_a_query_mean_the_same(
    query: str, spark: SparkSession, rows: Mapping[str, DataFrame]
) -> None:
    """Each reading has ids of its own, and no pair of readings differs by them."""
    if query == _RECURSIVE:
        skip_without(EQUAL_RECURSIONS)
    readings = [spark.sql(query) for _ in range(12)]

    assert all(has_same_meaning(readings[0], reading) for reading in readings[1:])


@pytest.mark.parametrize("query", _OTHER)
def test_another_query_means_something_else(
    query: str, spark: SparkSession, rows: Mapping[str, DataFrame]
) -> None:
    """Plans that differ in one column, table or constant alone are not the same."""
    original = spark.sql(query)

    assert [other for other in _OTHER[query] if has_same_meaning(original, spark.sql(other))] == []


def test_what_changes_no_row_does_not_count(
    spark: SparkSession, rows: Mapping[str, DataFrame]
) -> None:
    """Pipes are the subqueries that they stand for."""
    piped = spark.sql("TABLE u |> ORDER BY g, k |> WHERE k > 1 |> LIMIT 2 |> SELECT k")
    text = "SELECT k FROM (SELECT * FROM (SELECT * FROM u ORDER BY g, k) AS u WHERE k > {} LIMIT 2)"

    assert has_same_meaning(piped, spark.sql(text.format(1)))
    assert not has_same_meaning(piped, spark.sql(text.format(2)))


def test_another_name_of_a_function_means_the_same(
    spark: SparkSession, rows: Mapping[str, DataFrame]
) -> None:
    """Also within a common table, where Spark's plan has the name as it was written."""
    other = _BETWEEN.replace("substr(", "substring(")

    assert has_same_meaning(spark.sql(_BETWEEN), spark.sql(other))
