"""Which columns of a target are known to equal values of a source."""

from __future__ import annotations

import pytest

from relstate.connector.sql.key_equality import Scope, condition_count, named_rows, source_values

_TARGET = Scope.of("t", ["id", "g", "V"])
_SOURCE = Scope.of("s", ["ID", "x", "y"])


@pytest.mark.parametrize(
    ("condition", "values"),
    [
        ("t.id = s.id", {"id": "s.id"}),
        ("s.id == T.ID AND t.g = s.x + 1 AND t.v > s.y", {"id": "s.id", "g": "s.x + 1"}),
        ("(t.id = s.id AND (`t`.`g` = 5))", {"id": "s.id", "g": "5"}),
        ("g = x AND t.id = (s.id)", {"g": "x", "id": "(s.id)"}),
        ("t.id BETWEEN 1 AND 2 AND t.g = CAST(s.x AS INT)", {"g": "CAST(s.x AS INT)"}),
        ("t.id = CASE WHEN s.x AND s.y THEN 1 END AND t.g = s.y", {"g": "s.y"}),
        ("t.id = s.id AND t.id = s.x", {"id": "s.id"}),
        ("t.id = s.id AND (t.g = s.x OR t.v = s.y)", {"id": "s.id"}),
        ("t.id = s.id OR t.g = s.x", {}),
        ("id = s.id", {}),
        ("t.id = s.id IS NULL", {}),
        ("t.id = s.id = t.g", {}),
        ("NOT t.id = s.id", {}),
        ("t.id <=> s.id", {}),
        ("t.id = abs(s.id)", {}),
        ("t.id = (SELECT max(k) FROM u)", {}),
        ("t.id = t.g", {}),
        ("t.id = s.z", {}),
        ("t.id = s.id AND rand() < 1", {}),
    ],
)
def test_columns_equal_values_of_the_source(condition: str, values: dict[str, str]) -> None:
    """Only where the whole condition can be true for no other value."""
    assert source_values(condition, _TARGET, _SOURCE) == values


def test_one_alias_for_both_sides_says_nothing() -> None:
    """Spark, and not we, says that the names are ambiguous."""
    assert source_values("t.id = t.x", _TARGET, Scope.of("T", ["x"])) == {}


def test_conditions_are_counted() -> None:
    """BETWEEN and CASE have an AND of their own."""
    assert condition_count("a = 1") == 1
    assert condition_count("a = 1 AND (b BETWEEN 1 AND 2 AND CASE WHEN c AND d THEN e END)") == 3
    assert condition_count("a = 1 AND b = 2 OR c = 3") == 1


@pytest.mark.parametrize(
    ("condition", "columns", "query", "rest"),
    [
        ("id IN (SELECT k FROM u)", ("id",), "SELECT k FROM u", None),
        ("v > 5 AND t.id IN (VALUES 1, 2)", ("id",), "VALUES 1, 2", "(v > 5)"),
        (
            "(id, G) IN (SELECT a, b FROM u LIMIT 3) AND (id = 1 OR v = 2)",
            ("id", "g"),
            "SELECT a, b FROM u LIMIT 3",
            "(id = 1 OR v = 2)",
        ),
        (
            "EXISTS (SELECT 1 FROM u WHERE u.k = t.id AND u.x > 5 AND y IN (1, 2)) AND v = 1",
            ("id",),
            "SELECT (u.k) AS c0 FROM u WHERE (u.x > 5) AND (y IN (1, 2))",
            "(v = 1)",
        ),
        (
            "EXISTS (SELECT * FROM u JOIN w ON u.a = w.a WHERE T.g = w.z AND u.k + 1 = t.id)",
            ("g", "id"),
            "SELECT (w.z) AS c0, (u.k + 1) AS c1 FROM u JOIN w ON u.a = w.a",
            None,
        ),
    ],
)
def test_a_subquery_names_rows(
    condition: str, columns: tuple[str, ...], query: str, rest: str | None
) -> None:
    """The query gives the values of the columns; what else must be true stays."""
    (named,) = named_rows(condition, _TARGET)

    assert (named.columns, named.query, named.rest) == (columns, query, rest)


@pytest.mark.parametrize(
    "condition",
    [
        "id NOT IN (SELECT k FROM u)",
        "NOT id IN (SELECT k FROM u)",
        "id IN (SELECT k FROM u) OR v = 1",
        "id IN (1, 2)",
        "id + 1 IN (SELECT k FROM u)",
        "(id, id) IN (SELECT k, l FROM u)",
        "id IN (SELECT k FROM u WHERE u.x = t.v)",
        "id IN (SELECT k FROM u) IS NULL",
        "NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.id)",
        "EXISTS (SELECT max(k) FROM u WHERE u.k = t.id)",
        "EXISTS (SELECT 1 FROM u WHERE u.k = t.id GROUP BY u.k)",
        "EXISTS (SELECT 1 FROM u WHERE u.k = t.id LIMIT 0)",
        "EXISTS (SELECT 1 FROM u WHERE u.k = t.id UNION SELECT 2)",
        "EXISTS (SELECT 1 FROM u WHERE u.k = t.id AND u.x < t.v)",
        "EXISTS (SELECT 1 FROM u WHERE u.k = t.id OR u.x = 1)",
        "EXISTS (SELECT 1 FROM u AS t WHERE t.k = t.id)",
        "EXISTS (SELECT 1 FROM u WHERE u.k = id)",
        "EXISTS (SELECT 1 FROM u)",
    ],
)
def test_other_conditions_name_no_rows(condition: str) -> None:
    """They are left to a join of Spark's."""
    assert list(named_rows(condition, _TARGET)) == []
