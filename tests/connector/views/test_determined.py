"""Which columns of a SELECT have one possible value, and which depend on the order of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from relstate.connector.views.determined import determined_fields
from support.plans import FakeTables
from support.versions import skip_if_lacking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = FakeTables(
    t=("id BIGINT NOT NULL, g STRING, x INT, ts TIMESTAMP", "id"),
    u=("k INT NOT NULL, g STRING, x INT, name STRING", "k"),
)
FIRSTS = "(SELECT g, first(x) AS f, count(*) AS c FROM t GROUP BY g) AS s"


@pytest.mark.parametrize(
    ("query", "exact", "unordered"),
    [
        (
            "SELECT g, collect_list(x) AS l, first(x) AS f, count(*) AS c FROM t GROUP BY g",
            "gc",
            "l",
        ),
        (
            """SELECT g, sort_array(collect_list(x)) AS l, size(collect_set(x)) AS s,
                collect_list(x)[0] AS e FROM t GROUP BY g""",
            "gls",
            "",
        ),
        ("SELECT any_value(x) AS a FROM t", "", ""),
        (
            """SELECT listagg(name) WITHIN GROUP (ORDER BY name) AS a,
                listagg(name) WITHIN GROUP (ORDER BY x) AS b, mode(x, true) AS m, mode(x) AS n
                FROM u""",
            "am",
            "",
        ),
        ("SELECT collect_list(x) AS l FROM t UNION ALL SELECT array(1)", "", "l"),
        ("SELECT id, x FROM t ORDER BY x LIMIT 3", "x", ""),
        ("SELECT id, x FROM t LIMIT 3 OFFSET 1", "", ""),
        ("SELECT id, x FROM t OFFSET 1", "", ""),
        ("SELECT id, x FROM t ORDER BY x OFFSET 1", "x", ""),
        ("SELECT id AS i FROM t WHERE NOT EXISTS (SELECT k FROM u OFFSET 2)", "i", ""),
        ("SELECT id AS i FROM t WHERE EXISTS (SELECT k FROM u LIMIT 1 OFFSET 2)", "i", ""),
        ("SELECT count(*) AS c, max(x) AS m FROM (SELECT * FROM t LIMIT 5)", "c", ""),
        ("SELECT id AS i, x, g FROM t ORDER BY x, id LIMIT 3", "ixg", ""),
        (
            """SELECT g, x, id AS i FROM t
                QUALIFY row_number() OVER (PARTITION BY g ORDER BY x) <= 2""",
            "gx",
            "",
        ),
        ("SELECT g, id AS i FROM t QUALIFY rank() OVER (PARTITION BY g ORDER BY x) = 1", "gi", ""),
        (
            """SELECT id AS i, lag(x) OVER w AS p, dense_rank() OVER w AS r, sum(x) OVER w AS s,
                lag(x) OVER (ORDER BY x, id) AS q FROM t WINDOW w AS (PARTITION BY g ORDER BY x)""",
            "irsq",
            "",
        ),
        (
            """SELECT id AS i, collect_list(x) OVER (PARTITION BY g) AS l,
                ntile(2) OVER (PARTITION BY g ORDER BY x) AS n FROM t""",
            "i",
            "l",
        ),
        (f"SELECT id AS i, f, c FROM t JOIN {FIRSTS} USING (g)", "ic", ""),
        (f"SELECT id AS i, f, c FROM t LEFT JOIN {FIRSTS} ON t.x > s.c", "ic", ""),
        ("SELECT DISTINCT count(*) AS c, sum(x) AS s FROM t GROUP BY g", "cs", ""),
    ],
)
def test_what_depends_on_the_order_of_rows_is_not_determined(
    query: str, exact: str, unordered: str, spark: SparkSession
) -> None:
    """All other columns are, and of a collected list the elements."""
    skip_if_lacking(query)
    from relstate.connector.views.planner.view import plan_view

    plan = plan_view(spark, TABLES, query)

    determined = determined_fields(plan)
    assert determined is not None
    assert {name for name, field in plan.visible if field in determined.exact} == set(exact)
    assert {name for name, field in plan.visible if field in determined.unordered} == set(unordered)


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT g FROM {FIRSTS} WHERE f > 1",
        f"SELECT f, count(*) AS n FROM {FIRSTS} GROUP BY f",
        f"SELECT id FROM t JOIN {FIRSTS} ON t.x = s.f",
        f"SELECT id FROM t SEMI JOIN {FIRSTS} ON t.x < s.f",
        "SELECT explode(collect_list(x)) AS e FROM t",
        "SELECT id FROM t WHERE id IN (SELECT k FROM u LIMIT 2)",
        f"SELECT g FROM {FIRSTS} QUALIFY rank() OVER (ORDER BY f) = 1",
    ],
)
def test_rows_that_are_chosen_by_such_a_value_are_not_determined(
    query: str, spark: SparkSession
) -> None:
    """Not even their number is."""
    skip_if_lacking(query)
    from relstate.connector.views.planner.view import plan_view

    assert determined_fields(plan_view(spark, TABLES, query)) is None
