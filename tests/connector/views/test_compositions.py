"""Views that compose several families, over tables that change, against their SELECTs.

Random queries compose two or three parts of one grammar; these are written as a person would.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from support.case_run import run_case
from support.local import IN_EITHER
from support.random_tables import FIRST_TIME, Commit, TableSpec
from support.view_cases import Case, Step, View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_T = TableSpec(
    "t",
    (
        ("k", "BIGINT"), ("g", "STRING"), ("n", "INT"), ("v", "BIGINT"), ("ts", "TIMESTAMP"),
        ("list", "ARRAY<INT>"), ("st", "STRUCT<a: INT, b: STRUCT<c: STRING>>"), ("j", "STRING"),
    ),
    ("k",),
    ("k",),
)  # fmt: skip
_U = TableSpec("u", (("g", "STRING"), ("n", "INT"), ("ts", "TIMESTAMP")))
# Names that need quotes, differ in case, or are words of SQL.
_QUOTED = TableSpec(
    "Groups",
    (("select", "STRING"), ("a.b", "INT"), ("x`y", "INT")),
    ("select",),
    ("select",),
)
QUERIES = {
    "windows over grouping sets over a lateral view": """
        SELECT g, e, c, rank() OVER (PARTITION BY g ORDER BY c DESC, e) AS r FROM
        (SELECT t.g, q.e, count(*) AS c FROM t LATERAL VIEW OUTER explode(list) q AS e
        GROUP BY CUBE (t.g, q.e))""",
    "windows over an aggregate by grouping sets": """
        SELECT g, n, grouping_id() AS i, sum(count(*)) OVER (PARTITION BY grouping_id()
        ORDER BY g, n ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s
        FROM t GROUP BY ROLLUP (g, n)""",
    "EXISTS in CASE in an aggregate with FILTER": """
        SELECT g, sum(CASE WHEN EXISTS (SELECT 1 FROM u WHERE u.g = t.g AND u.n >= t.n) THEN v
        ELSE 0 END) FILTER (WHERE n IS NOT NULL) AS s,
        count(*) FILTER (WHERE n IN (SELECT n FROM u)) AS c FROM t GROUP BY g""",
    "an ASOF JOIN below HAVING with a subquery": """
        SELECT u.g, count(*) AS c FROM t ASOF JOIN u MATCH_CONDITION (t.ts >= u.ts) ON t.g = u.g
        GROUP BY u.g HAVING max(t.v) > (SELECT min(v) FROM t)""",
    "PIVOT of INTERSECT ALL": """
        SELECT * FROM (SELECT g, n FROM t INTERSECT ALL SELECT g, n FROM u)
        PIVOT (count(*) FOR n IN (1, 2 AS two))""",
    "the present time in a correlated subquery": """
        SELECT k, (SELECT count(*) FROM u WHERE u.g = t.g AND u.ts > now() - INTERVAL 2 HOURS) AS c
        FROM t""",
    "sessions joined with themselves": """
        WITH s AS (SELECT g, session_window(ts, '1 hour').start AS s, count(*) AS c FROM t
        GROUP BY g, session_window(ts, '1 hour'))
        SELECT a.s, a.g, b.g AS h, a.c + b.c AS c FROM s a JOIN s b ON a.s = b.s AND a.g < b.g""",
    "a NATURAL JOIN of three": """
        SELECT g, n, k, z FROM (SELECT g, n, k FROM t) NATURAL LEFT JOIN (SELECT g, n FROM u)
        NATURAL FULL JOIN (SELECT `select` AS g, `a.b` AS z FROM Groups)""",
    "quoted names": """
        SELECT G.`select` AS `FROM`, sum(g.`a.b` + `x``y`) AS `a.b`, count(*) AS `größe`
        FROM `groups` AS G JOIN U ON U.g = G.`SELECT` GROUP BY G.`select`""",
    "LIMIT in the branches of UNION": """
        (SELECT k, v FROM t ORDER BY v DESC NULLS LAST, k LIMIT 2) UNION ALL
        SELECT * FROM (SELECT k, n FROM t WHERE g = 'b' ORDER BY k LIMIT 1 OFFSET 1)
        UNION ALL (SELECT k, n FROM t ORDER BY ALL OFFSET 3)""",
    "a QUALIFY that names aliases": """
        SELECT g, sum(v) AS total, rank() OVER (ORDER BY sum(v) DESC NULLS LAST) AS place FROM t
        GROUP BY g HAVING count(*) > 0 QUALIFY place <= 2 OR total > 15""",
    "percentiles with FILTER over a rollup": """
        SELECT g, percentile_cont(0.5) WITHIN GROUP (ORDER BY v) FILTER (WHERE n > 0) AS p,
        listagg(DISTINCT g, '|') WITHIN GROUP (ORDER BY g) AS l FROM t GROUP BY ROLLUP (g)""",
    "paths of a VARIANT in WHERE and GROUP BY": """
        SELECT parse_json(j):a[0].b::INT AS b, count(*) AS c, max(st.b.c) AS s FROM t
        WHERE parse_json(j):a[0].b::INT > 0 OR j IS NULL GROUP BY ALL""",
    "an aggregate over a LATERAL union": """
        SELECT t.k, q.c, q.m FROM t, LATERAL (SELECT count(*) AS c, max(z.n) AS m FROM
        (SELECT u.n * 2 AS n FROM u WHERE u.g = t.g UNION ALL SELECT `a.b` FROM Groups
        WHERE `select` = t.g) z) q""",
    "a running maximum over a correlated count": """
        SELECT k, max(s) OVER (ORDER BY k ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS p
        FROM (SELECT k, (SELECT count(*) FROM u WHERE u.g = t.g) AS s FROM t)""",
    "OFFSET, parts of a struct and conditions as aggregates": """
        SELECT c, count_if(a > 0) AS p, bool_and(n = 1) AS o, some(k > 3) FILTER (WHERE n > 0) AS s
        FROM (SELECT k, n, q.*, st.b.c FROM (SELECT k, n, struct(v AS a) AS q, st FROM t
        ORDER BY k OFFSET 1)) GROUP BY c""",
    "EXISTS in ON of an outer join": """
        SELECT t.k, q.n FROM t LEFT JOIN u AS q ON t.g = q.g
        AND EXISTS (SELECT 1 FROM Groups WHERE `select` = q.g)""",
}
"""Queries by what they compose."""


def _at(minutes: int) -> datetime:
    return FIRST_TIME + timedelta(minutes=minutes)


def _row(
    k: int, g: str | None, n: int | None, v: int | None, minutes: int, numbers: list[int | None]
) -> tuple[tuple[int], tuple[object, ...]]:
    """Return a row of t by its key."""
    text = json.dumps({"a": [{"b": k}]}) if k % 2 else None
    return (k,), (k, g, n, v, _at(minutes), numbers, {"a": n, "b": {"c": g}}, text)


_STEPS = (
    Step(
        (
            Commit("t", (
                _row(1, "a", 1, 10, 0, [1, 2]), _row(2, "a", 2, 20, 30, []),
                _row(3, "b", None, 5, 100, []), _row(4, "b", 1, None, 20, [2, None]),
                _row(5, None, 2, 7, 130, [3]),
            )),
            Commit("u", ((1, ("a", 1, _at(0))), (2, ("a", 2, _at(10))), (3, ("b", None, _at(90))))),
            Commit("Groups", ((("a",), ("a", 1, 2)), (("b",), ("b", None, 3)))),
        )
    ),
    Step(
        (
            Commit("t", (_row(3, "a", 1, 50, 90, [1]), _row(6, "c", 2, 20, 40, [2]))),
            Commit("u", ((4, ("a", 1, _at(5))), (5, ("c", 2, _at(30)))), ((1, ("a", 1, _at(0))),)),
            Commit("Groups", ((("c",), ("c", 2, 2)),), ((("a",), ("a", 1, 2)),)),
        ),
        seconds=5400,
    ),
    Step((Commit("t", (_row(1, "b", 2, 3, 45, [2]),), (_row(2, "a", 2, 20, 30, []),)),)),
    Step((Commit("u", (), truncates=True), Commit("Groups", (), truncates=True)), seconds=7200),
    Step((Commit("t", (), truncates=True), Commit("u", ((6, ("a", 1, _at(0))),)))),
)  # fmt: skip


# A test with a timeout of its own is slow.
@pytest.mark.timeout(1200)
def test_a_view_of_several_families_equals_its_select(spark: SparkSession) -> None:
    """Whatever is composed: created before the rows and after them, refreshed several times."""
    views = tuple(
        View(f"v{number}", query, number % 2) for number, query in enumerate(QUERIES.values())
    )
    outcome = run_case(spark, Case((_T, _U, _QUOTED), _STEPS, views, 4, local_rows=IN_EITHER))
    assert (outcome.failures, outcome.invalid, outcome.refused) == ({}, {}, {})
    assert len(outcome.correct) == len(QUERIES)
