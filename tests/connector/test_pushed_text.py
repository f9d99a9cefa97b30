"""The laws of rewriting a query for aggregates and limits near the data, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from relstate.connector.sql.pushed_aggregate import PushRules, pushed_aggregate
from relstate.connector.sql.pushed_limit import pushed_limit
from relstate.connector.sql.session_settings import SessionSettings
from relstate.connector.syntax.parsed_query import Edit, ParsedQuery
from relstate.storage import Store
from support.stores import unsynced

COLUMNS = "k INT, g INT, r INT, t STRING, bo BOOLEAN, s STRUCT<k: INT, q: INT>"
M = "__relstate_measure_"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store with an empty table."""
    path = str(tmp_path_factory.mktemp("pushed") / "store")
    with Store.create(path, environment=unsynced(path)) as store:
        store.create_table("t", COLUMNS, primary_key=["k"])
        yield store


def rewritten(store: Store, text: str, *, is_final: bool = False) -> str | None:
    """Return a query over t whose tasks add up rows; None if they send the rows of a reference.

    ``is_final``: the query over rows that are its groups; None if Spark has to group them.
    """
    query = ParsedQuery.parse(text)
    references = query.table_references(lambda name, _: name == "t")
    plan, rules = store.read_plan("t"), PushRules("UTC", divides_decimals=True)
    edits: list[Edit] = []
    for reference in references:
        pushed = pushed_aggregate(query, reference, plan, rules)
        changes = None if pushed is None else pushed.final_edits if is_final else pushed.edits
        if changes is None:
            return None
        edits += changes
    names = ["t"] * len(references)
    return query.replaced(references, names, edits).format(t="p").replace(" AS `t`", "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT count(*) FROM t", f"SELECT coalesce(sum({M}0), 0L) FROM p"),
        (
            "SELECT g, max(r) AS m FROM t WHERE r > 1 GROUP BY g",
            f"SELECT g, max({M}0) AS m FROM p  GROUP BY g",
        ),
        ("SELECT DISTINCT g, 1 FROM t", "SELECT DISTINCT g, 1 FROM p"),
        (
            "SELECT 1 FROM t HAVING count(*) > 0",
            f"SELECT 1 FROM p HAVING coalesce(sum({M}0), 0L) > 0",
        ),
    ],
)
def test_calls_add_up_partial_rows(store: Store, text: str, expected: str) -> None:
    """The rest of the text stays as it is, but for the WHERE."""
    assert rewritten(store, text) == expected


G = "coalesce(__relstate_group_0)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "SELECT g, count(*) AS n, sum(r) FROM t WHERE r > (1) GROUP BY g ORDER BY n, 1",
            f"SELECT g, coalesce(coalesce({M}1), 0L) AS n, coalesce({M}0) FROM p   ORDER BY n, 1",
        ),
        (
            "SELECT * FROM (SELECT g % 2 AS a, max(t) AS m FROM t GROUP BY 1 /* c */) q",
            f"SELECT * FROM (SELECT {G} AS a, coalesce({M}0) AS m FROM p  /* c */) q",
        ),
        (
            "SELECT min(r) FROM t x GROUP BY (g % 2) HAVING (max(r) > 1 OR x.g % 2 = 0) LIMIT 3",
            f"SELECT coalesce({M}0) FROM p x  WHERE (coalesce({M}1) > 1 OR {G} = 0) LIMIT 3",
        ),
        (
            "SELECT avg(r) FROM t GROUP BY g, r",
            f"SELECT (coalesce({M}0) / nullif(coalesce({M}1), 0L)) FROM p ",
        ),
        (
            "SELECT g, count(*) FROM t GROUP BY ALL",
            f"SELECT g, coalesce(coalesce({M}0), 0L) FROM p ",
        ),
        ("SELECT DISTINCT g AS x, r FROM t ORDER BY 1", "SELECT  g AS x, r FROM p ORDER BY 1"),
        (
            "SELECT max(r) FROM t GROUP BY g UNION SELECT DISTINCT r FROM t",
            f"SELECT coalesce({M}0) FROM p  UNION SELECT  r FROM p",
        ),
        (
            "SELECT count(*) AS n FROM t WHERE r > 1 HAVING max(r) > 0 LIMIT 1",
            f"SELECT coalesce(coalesce({M}0), 0L) AS n FROM p  WHERE coalesce({M}1) > 0 LIMIT 1",
        ),
    ],
)
def test_rows_that_are_groups_are_not_grouped(store: Store, text: str, expected: str) -> None:
    """Calls are fields, HAVING is a WHERE, and there is no GROUP BY or DISTINCT."""
    assert rewritten(store, text, is_final=True) == expected


@pytest.mark.parametrize(
    "text",
    [
        "SELECT DISTINCT count(*) FROM t",
        "SELECT 1 / count(*) FROM t",
        "SELECT g, r, count(*) FROM t GROUP BY ROLLUP(g, r)",
        "SELECT g, count(*) FROM t GROUP BY g, ROLLUP(g)",
        "SELECT g, r, count(*) FROM t GROUP BY g, r GROUPING SETS ((g), (r))",
        "SELECT g, count(*) FROM t GROUP BY g WITH CUBE",
        "SELECT g, count(DISTINCT r) FROM t GROUP BY g",
        "SELECT g, count(DISTINCT g) FROM t GROUP BY g",
        "SELECT count(*) FROM t GROUP BY upper(t)",
        "SELECT count(*) FROM t GROUP BY g, upper(t)",
        "SELECT count(*) FROM t GROUP BY 'a'",
        "SELECT g, 1 / (count(*) - 1) AS c FROM t GROUP BY g",
        "SELECT g, sum(r) FROM t GROUP BY g ORDER BY 1 / sum(r)",
        "SELECT g, sum(r) AS total FROM t GROUP BY g HAVING total > 1",
        "SELECT g, sum(r) FROM t GROUP BY g HAVING 1 / sum(r) > 1",
    ],
)
def test_other_rows_are_grouped_by_spark(store: Store, text: str) -> None:
    """Where the groups are not those of the rows, or Spark may fail for a group."""
    assert rewritten(store, text) is not None
    assert rewritten(store, text, is_final=True) is None


@pytest.mark.parametrize(
    "text",
    [
        "SELECT DISTINCT 1 AS one FROM t WHERE g = 1",
        "SELECT 1 FROM t GROUP BY 1",
        "SELECT 1 AS one FROM t GROUP BY ALL",
        "SELECT DISTINCT NULL AS a, 1 AS b FROM t",
    ],
)
def test_constants_of_each_group_need_rows(store: Store, text: str) -> None:
    """Partial rows without a group and a measure would have no columns."""
    assert rewritten(store, text) is None


@pytest.mark.parametrize("argument", ["* EXCEPT (k)", "t.*", "t.* EXCEPT (k)", "*, g", "g, *"])
def test_a_star_that_stands_for_columns_counts_no_rows(store: Store, argument: str) -> None:
    """Only rows in which all of the columns are not NULL are counted."""
    assert rewritten(store, f"SELECT count({argument}) FROM t") is None


@pytest.mark.parametrize(
    "text",
    [
        "SELECT to_json(struct(*)) FROM (SELECT g, count(*) FROM t GROUP BY g)",
        "WITH q AS (SELECT g, count(*) + 1 FROM t GROUP BY g) SELECT * FROM q",
        "SELECT * FROM u NATURAL JOIN (SELECT g, sum(r) FROM t GROUP BY g)",
        "SELECT * FROM u, LATERAL (SELECT max(r) FROM t)",
        "SELECT * FROM (SELECT 1 AS a UNION ALL SELECT max(r) FROM t)",
        "SELECT max(r) FROM t UNION ALL BY NAME SELECT 1 AS m",
        "SELECT * FROM f(TABLE(SELECT max(r) FROM t))",
    ],
)
def test_no_name_changes_that_the_query_sees(store: Store, text: str) -> None:
    """Spark names a call without an alias by its text."""
    assert rewritten(store, text) is None
    assert rewritten(store, text.replace(" FROM t", " AS n FROM t")) is not None


@pytest.mark.parametrize(
    "text",
    [
        "(SELECT max(r) FROM t) UNION ALL SELECT 1",
        "SELECT (SELECT max(r) FROM t), ((SELECT min(r) FROM t)) + 1 AS n FROM u",
        "SELECT a FROM u WHERE a > (SELECT max(r) FROM t) AND a IN (SELECT min(r) FROM t)",
        "SELECT a FROM u WHERE EXISTS (SELECT max(r) FROM t)",
        "SELECT * FROM (SELECT g FROM t GROUP BY g HAVING count(*) > 1)",
    ],
)
def test_names_that_the_query_does_not_see_may_change(store: Store, text: str) -> None:
    """Those of the result are set again, and a value has none."""
    assert rewritten(store, text) is not None


@pytest.mark.parametrize("function", ["bool_and", "every", "bool_or", "some"])
def test_only_booleans_are_booleans(store: Store, function: str) -> None:
    """Of a text Spark casts each value; the least text need not be the least boolean."""
    assert rewritten(store, f"SELECT {function}(bo) FROM t") is not None
    assert rewritten(store, f"SELECT {function}(t) FROM t") is None


@pytest.mark.parametrize(
    "clause",
    [
        "ORDER BY sum({r})",
        "ORDER BY -sum({r}) + 1 DESC",
        "HAVING max({r}) > 1",
        "ORDER BY count(*) FILTER (WHERE {r} > 1)",
        "ORDER BY count(DISTINCT {r})",
    ],
)
def test_a_name_of_an_item_and_of_a_column_is_left_to_spark(store: Store, clause: str) -> None:
    """In HAVING and ORDER BY either may be meant; with the table's name it is the column."""
    text = f"SELECT {{item}}, count(*) AS n FROM t GROUP BY g {clause}"

    assert rewritten(store, text.format(item="g AS r", r="R")) is None
    assert rewritten(store, text.format(item="g AS q", r="R")) is not None
    assert rewritten(store, text.format(item="r AS R", r="r")) is not None
    assert rewritten(store, text.format(item="g AS r", r="t.r")) is not None
    assert rewritten(store, text.format(item="g AS t", r="t.r")) is None


def limited(store: Store, text: str) -> str | None:
    """Return what limits the read of t in a query over it; None if nothing does."""
    query = ParsedQuery.parse(text)
    (reference,) = query.table_references(lambda name, _: name == "t")
    schema = store.read_plan("t").definition.schema
    pushed = pushed_limit(query, reference, schema, "UTC")
    return None if pushed is None else pushed.description


@pytest.mark.parametrize("items", ["*", "t.*", "T.*, s.q", "k", "t.k", "* EXCEPT (k)", "r AS x"])
def test_an_order_by_a_column_of_the_table_limits_its_read(store: Store, items: str) -> None:
    """Whatever items there are that do not have its name."""
    text = f"SELECT {items} FROM t ORDER BY k LIMIT 3"
    assert limited(store, text) == "ORDER BY k LIMIT 3"


@pytest.mark.parametrize("items", ["s.*", "*, s.*", "t.s.*", "s.k", "t.s.k", "r AS k"])
def test_an_order_by_an_item_does_not(store: Store, items: str) -> None:
    """A field of a struct has its own name, also in a star."""
    assert limited(store, f"SELECT {items} FROM t ORDER BY k LIMIT 3") is None
    assert limited(store, f"SELECT {items} FROM t ORDER BY r LIMIT 3") == (
        None if "*" in items else "ORDER BY r LIMIT 3"
    )


def test_a_qualified_name_in_an_order_may_be_a_field(store: Store) -> None:
    """Of an item with the name of the table, or of a field of a struct."""
    assert limited(store, "SELECT r AS k FROM t ORDER BY t.k LIMIT 3") == "ORDER BY k LIMIT 3"
    for items in ("s AS t", "t.t", "s.*"):
        assert limited(store, f"SELECT {items} FROM t ORDER BY t.k LIMIT 3") is None


@pytest.mark.parametrize(
    ("settings", "reads"),
    [
        ({}, True),
        ({"spark.sql.timestampType": "timestamp_ltz"}, True),
        ({"spark.sql.timestampType": "TIMESTAMP_NTZ"}, False),
        ({"spark.sql.ansi.enabled": "false"}, False),
    ],
)
def test_a_session_reads_conditions_as_by_default(settings: dict[str, str], reads: bool) -> None:
    """With other settings, a text or a literal may be another timestamp than to the read."""
    spark: Any = SimpleNamespace(conf=settings)
    assert SessionSettings(spark).reads_conditions == reads
