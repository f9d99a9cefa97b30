"""The laws of pruning: which conditions of a query its reads may use."""

from __future__ import annotations

import pytest

from relstate.connector.sql.pruning import key_sources, pruning_conjuncts
from relstate.connector.syntax.parsed_query import ParsedQuery
from relstate.connector.syntax.tree import text_of
from relstate.storage import TableSchema
from relstate.storage.schema.ddl import parse_columns

SCHEMAS = {
    "t": TableSchema.build(parse_columns("id BIGINT, n INT, s STRING"), ["id"]),
    "u": TableSchema.build(parse_columns("id BIGINT, m INT, s STRING"), ["id"]),
    "w": TableSchema.build(parse_columns("id INT, z INT"), ["id"]),
}


def pruning(text: str) -> list[tuple[str, ...]]:
    """Return the conditions for each reference, in the order of the text, as SQL."""
    query = ParsedQuery.parse(text)
    references = query.table_references(lambda name, _: name in SCHEMAS)
    trees = pruning_conjuncts(query, references, lambda reference: SCHEMAS[reference.name])
    return [tuple(map(text_of, conjuncts)) for conjuncts in trees]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM t WHERE id = 5 AND n > 1", [("id = 5", "n > 1")]),
        ("SELECT * FROM t x WHERE x.id = 5 AND `x`.`n` IS NULL", [("id = 5", "`n` IS NULL")]),
        ("SELECT * FROM t WHERE id = 1 OR n = 2 AND id = 3", [("id = 1 OR n = 2 AND id = 3",)]),
        ("SELECT * FROM t WHERE id BETWEEN 1 AND 5 AND n = 2", [("id BETWEEN 1 AND 5", "n = 2")]),
        (
            "SELECT * FROM t WHERE CASE WHEN n = 1 AND id = 2 THEN TRUE END AND (n = 2 AND id = 3)",
            [("CASE WHEN n = 1 AND id = 2 THEN TRUE END", "(n = 2 AND id = 3)")],
        ),
        (r"SELECT * FROM t WHERE s = 'a\'AND\\b' AND id = 1", [(r"s = 'a\'AND\\b'", "id = 1")]),
        ("SELECT * FROM t WHERE id = 1 GROUP BY id HAVING n = 2", [("id = 1",)]),
        ("SELECT n, count(*) FROM t WHERE n > 1 GROUP BY n LIMIT 3", [("n > 1",)]),
    ],
)
def test_the_where_of_one_table_is_its_condition(
    text: str, expected: list[tuple[str, ...]]
) -> None:
    """The conjuncts come one by one, without the name of the table."""
    assert pruning(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM t, w WHERE n = 1 AND z = 2", [("n = 1",), ("z = 2",)]),
        ("SELECT * FROM t JOIN w ON n = 1 AND z = 2 AND n < z", [("n = 1",), ("z = 2",)]),
        ("SELECT * FROM t, w WHERE id = 1", [(), ()]),
        ("SELECT * FROM t JOIN (SELECT 1 AS n) q WHERE n = 1 AND t.n = 1", [("n = 1",)]),
        ("SELECT * FROM t a JOIN t b ON a.n = 1 WHERE b.n = 2", [("n = 1",), ("n = 2",)]),
        ("SELECT * FROM t AS x(a, b, c) WHERE a = 1", [()]),
        (
            "SELECT * FROM t LATERAL VIEW explode(array(1)) AS n WHERE n = 1 AND t.n = 2",
            [("n = 2",)],
        ),
        ("SELECT * FROM t TABLESAMPLE (5 ROWS) x WHERE id = 1", [()]),
        ("SELECT id FROM t |> WHERE id = 1", [()]),
        ("SELECT * FROM t WHERE t.s.x = 1", [()]),
    ],
)
def test_a_condition_needs_one_table_for_sure(text: str, expected: list[tuple[str, ...]]) -> None:
    """A name that may belong to another table, or rows that are not the table's: no condition."""
    assert pruning(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "SELECT * FROM t LEFT JOIN w ON n = 1 AND z = 2 WHERE n = 3 AND z = 4",
            [("n = 3",), ("z = 2",)],
        ),
        (
            "SELECT * FROM t RIGHT JOIN w ON n = 1 AND z = 2 WHERE n = 3 AND z = 4",
            [("n = 1",), ("z = 4",)],
        ),
        ("SELECT * FROM t FULL JOIN w ON n = 1 AND z = 2 WHERE n = 3 AND z = 4", [(), ()]),
        ("SELECT * FROM t ASOF JOIN w MATCH_CONDITION (n > z) WHERE n = 3 AND z = 4", [(), ()]),
        (
            "SELECT * FROM t LEFT SEMI JOIN w ON n = 1 AND z = 2 WHERE n = 3",
            [("n = 3", "n = 1"), ("z = 2",)],
        ),
        (
            "SELECT * FROM t LEFT ANTI JOIN w ON n = 1 AND z = 2 WHERE n = 3",
            [("n = 3",), ("z = 2",)],
        ),
        ("SELECT * FROM t LEFT JOIN w ON n = z JOIN u ON z = 4 AND m = 5", [(), (), ("m = 5",)]),
        ("SELECT * FROM t JOIN u ON n = 1 RIGHT JOIN w ON z = n WHERE n = 2", [("n = 1",), (), ()]),
        ("SELECT * FROM t NATURAL JOIN w WHERE n = 1 AND t.n = 2", [("n = 2",), ()]),
    ],
)
def test_an_outer_join_takes_conditions_away(text: str, expected: list[tuple[str, ...]]) -> None:
    """From the side whose rows it may replace with NULLs, and from the side that it keeps."""
    assert pruning(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM t JOIN u ON t.id = u.id WHERE t.id = 5", [("id = 5",), ("id = 5",)]),
        ("SELECT * FROM t JOIN u USING (id) WHERE id = 5", [("id = 5",), ("id = 5",)]),
        (
            "SELECT * FROM t, u WHERE u.m = t.n AND t.n IN (1, 2)",
            [("n IN (1, 2)",), ("m IN (1, 2)",)],
        ),
        ("SELECT * FROM t JOIN w ON t.id = w.id WHERE t.id = 5", [("id = 5",), ()]),
        ("SELECT * FROM t LEFT JOIN u ON t.id = u.id WHERE t.id = 5", [("id = 5",), ()]),
        ("SELECT * FROM t RIGHT JOIN u USING (id) WHERE id = 5", [(), ()]),
        ("SELECT * FROM t JOIN u ON t.id = u.id OR t.n = 1 WHERE t.id = 5", [("id = 5",), ()]),
    ],
)
def test_an_equality_carries_a_condition_over(text: str, expected: list[tuple[str, ...]]) -> None:
    """It does in inner joins, between columns of one type."""
    assert pruning(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM (SELECT * FROM t LIMIT 1) q WHERE id = 1", [()]),
        ("SELECT * FROM (SELECT n, row_number() OVER (ORDER BY id) AS r FROM t) WHERE r = 1", [()]),
        ("WITH q AS (SELECT * FROM t WHERE n = 1) SELECT * FROM q WHERE n = 2", [("n = 1",)]),
        ("SELECT * FROM t WHERE n = 1 UNION SELECT * FROM t WHERE n = 2", [("n = 1",), ("n = 2",)]),
        (
            "SELECT * FROM t WHERE id IN (SELECT id FROM u WHERE m = 1) AND n = 2",
            [("n = 2",), ("m = 1",)],
        ),
        (
            "SELECT id FROM t WHERE EXISTS (SELECT * FROM u WHERE u.s = t.s AND t.n = 1 AND m = 2)",
            [(), ("m = 2",)],
        ),
        (
            "SELECT * FROM t x WHERE EXISTS (SELECT 1 FROM u x WHERE x.m = 1) AND x.n = 2",
            [("n = 2",), ("m = 1",)],
        ),
        (
            "SELECT (SELECT max(m) FROM u WHERE u.s = 'a') FROM t WHERE s = 'b'",
            [("s = 'a'",), ("s = 'b'",)],
        ),
    ],
)
def test_a_select_has_conditions_for_its_own_tables(
    text: str, expected: list[tuple[str, ...]]
) -> None:
    """Its WHERE prunes neither the tables of the SELECT around it nor those of a subquery."""
    assert pruning(text) == expected


def values_of(text: str) -> set[str]:
    """Return which columns of the references have the values of which others, by their aliases."""
    query = ParsedQuery.parse(text)
    references = query.table_references(lambda name, _: name in SCHEMAS)
    tables = query.table_references(lambda _, as_of: True)
    aliases = {id(reference.node): reference.alias for reference in tables}
    sources = key_sources(query, references, lambda reference: SCHEMAS[reference.name])
    return {
        f"{aliases[s.target]}.{s.column} <- {aliases[s.source]}.{s.source_column}" for s in sources
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM t JOIN u ON t.id = u.m", {"t.id <- u.m", "u.m <- t.id"}),
        (
            "SELECT * FROM t, u WHERE t.id = u.m AND n = m",
            {"t.id <- u.m", "u.m <- t.id", "t.n <- u.m", "u.m <- t.n"},
        ),
        ("SELECT * FROM t JOIN u USING (id)", {"t.id <- u.id", "u.id <- t.id"}),
        ("SELECT * FROM t LEFT JOIN u ON t.id = u.id", {"u.id <- t.id"}),
        ("SELECT * FROM t RIGHT JOIN u ON t.id = u.id", {"t.id <- u.id"}),
        ("SELECT * FROM t FULL JOIN u ON t.id = u.id", set()),
        ("SELECT * FROM t LEFT SEMI JOIN u ON t.id = u.id", {"t.id <- u.id", "u.id <- t.id"}),
        ("SELECT * FROM t LEFT ANTI JOIN u ON t.id = u.id", {"u.id <- t.id"}),
        (
            "SELECT * FROM t LEFT JOIN u ON t.id = u.id JOIN w ON u.id = w.id",
            {"u.id <- t.id", "w.id <- u.id"},
        ),
        ("SELECT * FROM t JOIN v ON t.id = v.id", {"t.id <- v.id"}),
        ("SELECT * FROM t JOIN v ON t.id = k", set()),
        ("SELECT * FROM t JOIN v AS x(id) ON t.id = x.id", set()),
        ("SELECT * FROM t JOIN (SELECT * FROM u) x ON t.id = x.id", set()),
        (
            "WITH v AS (SELECT 1 AS id) SELECT * FROM t JOIN u ON t.id <=> u.id OR t.id = u.id",
            set(),
        ),
        ("SELECT * FROM t WHERE id IN (SELECT m FROM u WHERE s = 'a')", {"t.id <- u.m"}),
        (
            "SELECT * FROM t WHERE id IN (SELECT DISTINCT x.m AS k FROM u x LIMIT 3)",
            {"t.id <- x.m"},
        ),
        ("SELECT * FROM t WHERE id NOT IN (SELECT m FROM u)", set()),
        ("SELECT * FROM t WHERE id IN (SELECT m FROM u) OR n = 1", set()),
        ("SELECT * FROM t WHERE id IN (SELECT m + 1 FROM u)", set()),
        ("SELECT * FROM t WHERE id IN (SELECT m FROM u UNION SELECT 1)", set()),
        (
            "SELECT * FROM t LEFT JOIN w ON t.id = z WHERE w.id IN (SELECT id FROM u)",
            {"w.z <- t.id"},
        ),
        ("FROM t |> WHERE id IN (SELECT m FROM u)", set()),
    ],
)
def test_columns_have_values_of_others_where_other_rows_have_no_effect(
    text: str, expected: set[str]
) -> None:
    """By joins and by IN, as conditions would remove rows; not where an outer join keeps them."""
    assert values_of(text) == expected
