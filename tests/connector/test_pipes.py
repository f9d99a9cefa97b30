"""Pipe syntax as SELECTs."""

from __future__ import annotations

import pytest

from relstate.connector.syntax.parsed_query import ParsedQuery
from relstate.connector.syntax.tree import text_of
from relstate.storage import errors

_SELECTS = {
    "FROM t |> WHERE a > 1": "SELECT * FROM t WHERE a > 1",
    "SELECT * FROM t |> SELECT x": "SELECT x FROM t",
    "SELECT x FROM t |> WHERE x > 1": "SELECT * FROM (SELECT x FROM t) WHERE x > 1",
    "FROM t |> WHERE a |> WHERE b": "SELECT * FROM t WHERE (a) AND (b)",
    "FROM t AS u |> EXTEND a + 1 AS b |> WHERE u.b > 1": "SELECT * FROM (SELECT *, a + 1 AS b "
    "FROM t AS u) AS u WHERE u.b > 1",
    "FROM (SELECT a FROM t) AS u |> EXTEND a + 1 AS b |> WHERE u.b > 1": "SELECT * FROM (SELECT *, "
    "a + 1 AS b FROM (SELECT a FROM t) AS u) AS u WHERE u.b > 1",
    "FROM t |> SET a = a + 1, b = a |> SELECT a": "SELECT a FROM (SELECT * FROM (SELECT * FROM t "
    "|> SET a = a + 1) AS t |> SET b = a) AS t",
    "FROM t |> DROP a, b": "SELECT * EXCEPT (a, b) FROM t",
    "FROM t |> AS u |> JOIN v ON u.a = v.a |> SELECT u.a": "SELECT u.a FROM (SELECT * FROM t) AS u "
    "JOIN v ON u.a = v.a",
    "FROM t |> AGGREGATE sum(a) AS s, count(*) GROUP BY b, c + 1 AS d": "SELECT b, c + 1 AS d, "
    "SUM(a) AS s, COUNT(*) FROM t GROUP BY 1, 2",
    "FROM t |> AGGREGATE max(a)": "SELECT MAX(a) FROM t",
    "FROM t |> AGGREGATE mode() WITHIN GROUP (ORDER BY a) AS m GROUP BY b": "SELECT b, MODE() "
    "WITHIN GROUP (ORDER BY a) AS m FROM t GROUP BY 1",
    "FROM t |> SELECT b, median(a) OVER w, listagg(a) WITHIN GROUP (ORDER BY a) OVER w WINDOW w AS "
    "(PARTITION BY b)": "SELECT b, MEDIAN(a) OVER w, LISTAGG(a) WITHIN GROUP (ORDER BY a) OVER w "
    "FROM t WINDOW w AS (PARTITION BY b)",
    "FROM t |> ORDER BY a |> OFFSET 1 |> LIMIT 2": "SELECT * FROM t ORDER BY a LIMIT 2 OFFSET 1",
    "FROM t |> ORDER BY a LIMIT 2 |> OFFSET 1": "SELECT * FROM (SELECT * FROM t ORDER BY a "
    "LIMIT 2) AS t OFFSET 1",
    "FROM t |> LIMIT 2 |> LIMIT 1": "SELECT * FROM (SELECT * FROM t LIMIT 2) AS t LIMIT 1",
    "FROM t |> LIMIT 2 OFFSET 1": "SELECT * FROM t LIMIT 2 OFFSET 1",
    "FROM t |> AGGREGATE GROUP BY a": "SELECT a FROM t GROUP BY 1",
    "TABLE t |> UNION ALL TABLE u |> WHERE a": "SELECT * FROM ((SELECT * FROM t) UNION ALL "
    "(SELECT * FROM u)) WHERE a",
    "FROM t |> WHERE a EXCEPT SELECT * FROM u": "SELECT * FROM ((SELECT * FROM t WHERE a) EXCEPT "
    "(SELECT * FROM u))",
    "WITH w (a) AS (FROM t |> WHERE a) FROM w |> SELECT a": "WITH w(a) AS (SELECT * FROM t "
    "WHERE a) SELECT a FROM w",
    "SELECT a FROM t WHERE a IN (FROM u |> SELECT b)": "SELECT a FROM t WHERE a IN (SELECT b "
    "FROM u)",
    "FROM t |> SELECT DISTINCT sum(a) OVER w WINDOW w AS (ORDER BY b)": "SELECT DISTINCT SUM(a) "
    "OVER w FROM t WINDOW w AS (ORDER BY b)",
    "FROM t |> PIVOT (sum(a) FOR b IN (1))": "SELECT * FROM (SELECT * FROM t) PIVOT(SUM(a) FOR b "
    "IN (1))",
    "FROM t |> SELECT window(x, '1 day').start AS s, t.offset, limit |> SELECT * EXCEPT (limit)": (
        "SELECT * EXCEPT (limit) FROM (SELECT WINDOW(x, '1 day').start AS s, t.offset, limit "
        "FROM t)"
    ),
    "FROM t JOIN u USING (a) |> EXTEND t.b + 1 AS c |> WHERE u.b < c": "SELECT * FROM t JOIN u "
    "USING (a), LATERAL (SELECT t.b + 1 AS c) WHERE u.b < c",
    "FROM t |> SELECT * UNION ALL SELECT * FROM u": "SELECT * FROM ((SELECT * FROM t) UNION ALL "
    "(SELECT * FROM u))",
    "FROM t |> SELECT * EXCEPT (SELECT a FROM u)": "SELECT * FROM ((SELECT * FROM t) EXCEPT "
    "(SELECT a FROM u))",
    "SELECT '|>' AS a FROM t": "SELECT '|>' AS a FROM t",
    "TABLE t | WHERE a | SELECT DISTINCT a |> ORDER BY a | LIMIT 1": "SELECT * FROM (SELECT "
    "DISTINCT a FROM t WHERE a) ORDER BY a LIMIT 1",
    "FROM t | EXTEND 1 AS c -- Comment\n | LEFT JOIN u USING (a) | AS v": "SELECT * FROM (SELECT * "
    "FROM (SELECT *, 1 AS c FROM t) AS t LEFT JOIN u USING (a)) AS v",
    "SELECT a | b | `select` | t.limit, a || limit FROM t": "SELECT a | b | `select` | t.limit, "
    "a || limit FROM t",
    "SELECT a | set AS b, (a | extend) + (a | window) AS c FROM t WHERE b | bin > 1": "SELECT a | "
    "set AS b, (a | extend) + (a | window) AS c FROM t WHERE b | bin > 1",
    "VALUES (1), (2) AS v(a) |> WHERE a > 1": "SELECT * FROM VALUES (1), (2) AS v(a) WHERE a > 1",
}


@pytest.mark.parametrize("query", list(_SELECTS))
def test_each_operator_is_a_clause_of_a_select(query: str) -> None:
    """A clause that may come next is one of the same SELECT; a table keeps its alias.

    A sign is a bitwise or where nothing else gives a query.
    """
    assert text_of(ParsedQuery.parse(query).tree) == _SELECTS[query]


def test_a_sign_within_an_expression_is_a_step_of_its_own_query_alone() -> None:
    """What is in parentheses is a query of its own, and each name has its place in the text."""
    query = ParsedQuery.parse("FROM t |> WHERE EXISTS (FROM u |> WHERE u.a = t.a) |> SELECT a")
    names = [reference.name for reference in query.table_references(lambda *_: True)]
    assert names == ["t", "u"]
    references = query.table_references(lambda *_: True)
    assert [query.text[part.start : part.stop] for part in references] == names


@pytest.mark.parametrize("query", ["FROM t |> TWIST a", "FROM t |>", "FROM t |> SET a"])
def test_an_unknown_operator_is_refused(query: str) -> None:
    """The error names the sign, and says what to write."""
    with pytest.raises(errors.UnsupportedStatementError, match=r"\|>"):
        ParsedQuery.parse(query)


def test_a_single_sign_is_none_where_a_session_reads_it_as_a_bitwise_or() -> None:
    """Then only whole signs are of pipe syntax, and a column may have an operator's name."""
    query = ParsedQuery.parse("FROM t |> SELECT a | limit", has_single_pipes=False)
    assert text_of(query.tree) == "SELECT a | limit FROM t"
    with pytest.raises(errors.UnsupportedStatementError):
        ParsedQuery.parse("FROM t | WHERE a", has_single_pipes=False)
