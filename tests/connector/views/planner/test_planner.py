"""The shapes of plans: what is read, where conditions are applied, which keys there are."""

# ruff: noqa: E501 - plans are wide

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from relstate.connector.views.plan.broadcast_join import BroadcastJoin
from relstate.connector.views.plan.node import Order, plan_lines, walk
from relstate.connector.views.viewplan import ViewPlan
from relstate.storage import Store, types

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from relstate.connector.views.plan.materialize import Materialize

SHAPES = {
    "SELECT id, x+1 AS b, b*2 AS c FROM t WHERE x > 1 AND g = 'a'": """
Materialize [id, b, c] key [id]
  Project [id, x + 1 AS b, (x + 1) * 2 AS c]
    Filter x > 1 AND g = 'a'
      Scan t [id, g, x] key [id]""",
    "SELECT id, z * 2 AS p, z * 3 AS q FROM (SELECT id, x + 1 AS z FROM t)": """
Materialize [id, p, q] key [id]
  Project [id, z * 2 AS p, z * 3 AS q]
    Project [id, x + 1 AS z]
      Scan t [id, x] key [id]""",
    "SELECT g, count(*) AS n FROM t GROUP BY g HAVING max(x) > 1": """
Materialize [g, count AS n] key [g]
  Filter max_x > 1
    Aggregate by [g] [count(*) AS count, max(x) AS max_x]
      Scan t [id, g, x] key [id]""",
    "SELECT count(DISTINCT x) AS c, stddev(x) FILTER (WHERE g = 'a') AS s FROM t": """
Materialize [count_x AS c, stddev_samp_x AS s] key [_all_rows] hidden [_all_rows]
  Aggregate [count(DISTINCT x) AS count_x, stddev_samp(x_2) FILTER g_2 AS stddev_samp_x]
    Project [id, x, CAST(x AS DOUBLE) AS x_2, g = 'a' AS g_2, CAST(0 AS TINYINT) AS all_rows]
      Scan t [id, g, x] key [id]""",
    "SELECT t.id, u.name FROM t LEFT JOIN u ON t.x = u.x AND u.k > 3 AND t.id > 2 WHERE t.g = 'a'": """
Materialize [id, name] key [_x_3, id, _k, _g_2] hidden [_x_3, _k, _g_2]
  Join left ON x_3 = x_2 AND (id > 2)
    Project [id, CAST(x AS BIGINT) AS x_3]
      Filter g = 'a'
        Scan t [id, g, x] key [id]
    Filter k > 3
      Scan u [k, g AS g_2, x AS x_2, name] key [k, g_2]""",
    "SELECT a.id, b.id AS bid FROM t a, t b WHERE a.x = b.x AND a.id < b.id AND b.g = 'a'": """
Materialize [id, id_2 AS bid] key [_x, id, bid] hidden [_x]
  Filter id < id_2
    Join inner ON x = x_2
      Scan t [id, x] key [id]
      Filter g_2 = 'a'
        Scan t [id AS id_2, g AS g_2, x AS x_2] key [id_2]""",
    "SELECT id FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY x DESC) AS rn FROM t) "
    "WHERE rn <= 3 AND y > 2": """
Materialize [id] key [_g, id] hidden [_g]
  Filter y > 2
    TopN 3 of each [g] by [x DESC]
      Scan t [id, g, x, y] key [id]""",
    "SELECT id, x FROM t ORDER BY x DESC NULLS FIRST LIMIT 5 OFFSET 2": """
Materialize [id, x] key [x DESC NULLS FIRST, _all_rows, id] hidden [_all_rows]
  TopN 5 after 2 by [x DESC NULLS FIRST]
    Project [id, x, CAST(0 AS TINYINT) AS all_rows]
      Scan t [id, x] key [id]""",
    "SELECT id FROM t UNION ALL SELECT k FROM u UNION ALL SELECT id FROM w": """
Materialize [id_3 AS id] key [_input, _id_4, _k_2, _g_2, _id_5] hidden [_input, _id_4, _k_2, _g_2, _id_5]
  Union key [input, id_4, k_2, g_2, id_5]
    Project [id AS id_3, 0 AS input, id AS id_4, CAST(NULL AS INT) AS k_2, CAST(NULL AS STRING) AS g_2, CAST(NULL AS BIGINT) AS id_5]
      Scan t [id] key [id]
    Project [CAST(k AS BIGINT) AS id_3, 1 AS input, CAST(NULL AS BIGINT) AS id_4, k AS k_2, g AS g_2, CAST(NULL AS BIGINT) AS id_5]
      Scan u [k, g] key [k, g]
    Project [id_2 AS id_3, 2 AS input, CAST(NULL AS BIGINT) AS id_4, CAST(NULL AS INT) AS k_2, CAST(NULL AS STRING) AS g_2, id_2 AS id_5]
      Scan w [id AS id_2] key [id_2]""",
}


@pytest.mark.parametrize("query", list(SHAPES))
def test_a_query_has_the_expected_plan(query: str, planned: Callable[[str], Materialize]) -> None:
    """Filters are above scans, joins read what they need, and fields have the names of columns."""
    assert "\n" + "\n".join(plan_lines(planned(query))) == SHAPES[query]


def test_parts_have_fewer_rows_if_each_row_is_many(
    planned: Callable[[str], Materialize],
) -> None:
    """With more than 64 grouping sets a part has fewer stored rows, in proportion."""
    few = planned("SELECT count(*) AS c FROM t GROUP BY CUBE (g, x)")
    many = planned("SELECT count(*) AS c FROM t GROUP BY CUBE (id, g, x, y, d, ts, arr)")

    assert (ViewPlan(few).rows_of_part(800), ViewPlan(many).rows_of_part(800)) == (800, 400)


def test_grouping_sets_are_one_aggregate_over_one_input(
    planned: Callable[[str], Materialize],
) -> None:
    """However many sets there are, the input and its joins are maintained once."""
    plan = planned("SELECT g, x, count(*) AS c FROM t JOIN w USING (id) GROUP BY CUBE (g, x)")
    operators = [node.operator for node in walk(plan)]
    assert (operators.count("scan"), operators.count("join")) == (2, 1)
    assert operators.count("aggregate") == 1


def test_the_visible_columns_are_those_of_the_query(planned: Callable[[str], Materialize]) -> None:
    """Names and types are Spark's, whatever the names of the fields."""
    plan = planned("SELECT sum(x), g AS `Total Name` FROM t GROUP BY g ORDER BY 1 DESC")
    assert [(field.name, field.type) for field in plan.fields] == [
        ("sum(x)", types.BigInt()),
        ("Total Name", types.String()),
    ]
    assert plan.table_key == (Order("sum(x)", True, False), Order("Total Name"))


def test_a_column_named_as_a_keyword_has_a_field_that_is_none(
    planned: Callable[[str], Materialize],
) -> None:
    """Expressions name fields without quotes, so no field is named as a keyword of SQL."""
    plan = planned("SELECT k, g, `order` + 1 AS `select`, `order` AS `null` FROM u")
    assert not {"order", "select", "null"} & set(plan.child.names)
    assert [name for name, _ in plan.visible] == ["k", "g", "select", "null"]


def test_a_view_of_views_reads_their_hidden_keys(spark: SparkSession, store: Store) -> None:
    """Table names ignore case; hidden columns are read for the key only."""
    from relstate.connector.views.planner.analysis import StoreTables, Table
    from relstate.connector.views.planner.view import plan_view

    store.create_table("Orders", "id BIGINT, name STRING", primary_key=["id"], append_only=True)
    table = StoreTables(store.state).find("orders")
    assert table is not None
    assert (table.name, table.primary_key, table.is_append_only) == ("Orders", ("id",), True)
    assert StoreTables(store.state).find("missing") is None

    class Views:
        """One view, part of whose key its query does not have."""

        def find(self, name: str) -> Table | None:
            """Return the view."""
            hidden = (types.Field("_id", types.BigInt()),)
            return Table(9, name, (types.Field("v", types.Int()),), ("_id",), False, hidden)

    plan = plan_view(spark, Views(), "SELECT * FROM some")
    assert plan_lines(plan) == (
        "Materialize [v] key [_id] hidden [_id]",
        "  Scan some [v, _id AS id] key [id]",
    )


@pytest.mark.parametrize(
    "source",
    [
        "u JOIN t AS t2 ON t2.id = u.x WHERE u.g = t.g",
        "(SELECT x FROM u WHERE u.g = t.g) JOIN (SELECT g, max(id) AS m FROM t GROUP BY g) ON x = m",
    ],
    ids=["table", "query"],
)
def test_what_reads_no_outer_column_is_not_joined_with_the_outer_values(
    source: str, planned: Callable[[str], Materialize]
) -> None:
    """A table or a nested query with the name of an outer table or column reads no outer value."""
    plan = planned(f"SELECT id, (SELECT count(*) FROM (SELECT 1 FROM {source})) AS n FROM t")
    assert not [node for node in walk(plan) if isinstance(node, BroadcastJoin)]
