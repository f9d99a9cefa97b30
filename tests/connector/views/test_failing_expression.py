"""The expression that fails is shown as the user wrote it."""

from __future__ import annotations

import pytest

from relstate.connector.views.failing_expression import failing_expression, in_words_of_query

QUERY = "SELECT t.g, sum(1 div (`V`-3)) AS s,\n  CAST(t.a.b AS INT) FROM t WHERE ( v + 1 ) / w > 2"


def raised(line: str, part: str) -> str:
    """Return the text of an error of Spark that marks a part of a line."""
    marks = " " * line.index(part) + "^" * len(part)
    return (
        f"[X] no. SQLSTATE: 22012\n== SQL (line 1, position 9) ==\n{line}\n{marks}\n\n\tat a.b(C)"
    )


@pytest.mark.parametrize(
    ("line", "part", "expected"),
    [
        ("1 DIV (v - 3) AS c0", "1 DIV (v - 3)", "1 div (`V`-3)"),
        ("CAST(a.b AS INT) AS c1", "CAST(a.b AS INT)", "CAST(t.a.b AS INT)"),
        ("(v + 1) / w_2 > 2", "(v + 1) / w_2", "( v + 1 ) / w"),
        ("NOT (v + 1) / w > 2", "v + 1", "v + 1"),
        ("x_1 % 0 AS c", "x_1 % 0", "x_1 % 0"),
    ],
)
def test_the_words_of_the_query_are_shown(line: str, part: str, expected: str) -> None:
    """Whatever names, case, spaces and qualifiers the plan has; other words as they were run."""
    assert failing_expression(raised(line, part), QUERY) == expected


@pytest.mark.parametrize(
    ("line", "query", "expected"),
    [
        ("sum_x / sum_v AS c0", "SELECT SUM(x)/sum(1 div v) FROM t", "SUM(x)/sum(1 div v)"),
        ("sum_x / `sum_v` AS c0", "SELECT 1", "sum(x) / sum((1 DIV v))"),
        ("a.sum_x / 'sum_x' AS c0", "SELECT 1", "a.sum_x / 'sum_x'"),
    ],
)
def test_fields_of_the_plan_are_shown_as_what_they_are_computed_from(
    line: str, query: str, expected: str
) -> None:
    """In the words of the query, if it has them; a part of a struct and a text are no fields."""
    part = line.removesuffix(" AS c0")
    expressions = {"sum_x": "sum(x)", "sum_v": "sum(v_2)", "v_2": "1 DIV v"}

    assert failing_expression(raised(line, part), query, expressions) == expected


@pytest.mark.parametrize("text", ["[X] no", "== SQL (line 1, position 1) ==\n1 / 0", ""])
def test_an_error_without_an_expression_names_none(text: str) -> None:
    """As where Spark's context is cut."""
    assert failing_expression(text, QUERY) is None


def test_calls_have_the_words_of_the_query() -> None:
    """For a field that the plan computes; a column of a table has its name."""
    expressions = {"v_2": "1 DIV (v - 3)", "w": "x + 1"}
    text = "sum(DISTINCT v_2) and sum(g) overflow, avg(w)"
    shown = "sum(DISTINCT 1 div (`V`-3)) and sum(g) overflow, avg(x + 1)"
    assert in_words_of_query(text, expressions, QUERY) == shown


def test_a_query_that_cannot_be_read_is_no_error() -> None:
    """The expression is shown as it was run, a long one shortened."""
    assert failing_expression(raised("a / 0", "a / 0"), "'") == "a / 0"
    long = " + ".join(["abc"] * 100)
    assert len(failing_expression(raised(long, long), "SELECT 1") or "") == 201
