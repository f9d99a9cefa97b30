"""Reduced cases of views that `test_random_queries` found to be wrong once, by their cause."""

from __future__ import annotations

from datetime import time

from support.local import IN_JOB
from support.random_tables import Commit, TableSpec
from support.view_cases import Case, Step, View

_T = TableSpec("t", (("k", "INT"), ("g", "STRING"), ("n", "INT")), ("k",), ("k",))
_U = TableSpec("u", (("g", "STRING"), ("n", "INT")))
_STEPS = (
    Step((Commit("t", (((1,), (1, "a", 2)), ((2,), (2, "b", None)), ((3,), (3, None, 1)))),)),
    Step((Commit("u", ((1, ("a", 2)), (2, ("a", 2)), (3, ("c", None)))),)),
    Step((Commit("u", ((4, ("b", 5)),), ((1, ("a", 2)), (2, ("a", 2)))),)),
)
_LISTS = TableSpec("t", (("k", "INT"), ("list", "ARRAY<BIGINT>")), ("k",), ("k",))
_CLOCKS = TableSpec("t", (("k", "INT"), ("c", "TIME")), ("k",), ("k",))
_SIZES = """SELECT a.k, b.n FROM t a
    JOIN (SELECT k % 3 AS g, sum(size(list)) AS n FROM t GROUP BY k % 3) b ON a.k = b.g"""


def _case(*queries: str) -> Case:
    """Return the case of queries over tables t and u, which change after the views are created."""
    views = tuple(View(f"v{number}", query) for number, query in enumerate(queries))
    return Case((_T, _U), _STEPS, views)


FOUND: dict[str, Case] = {
    "a correlated scalar subquery of an aggregate that Spark evaluates": _case(
        "SELECT k, (SELECT median(u.n) FROM u WHERE u.g = t.g) AS c FROM t",
        """SELECT k, (SELECT sort_array(collect_list(u.n)) FROM u WHERE u.g = t.g) AS c,
            (SELECT count_if(u.n > 1) FROM u WHERE u.g = t.g) AS d,
            (SELECT approx_count_distinct(u.n) FROM u WHERE u.g = t.g) AS e FROM t""",
    ),
    "a subquery as the argument of an aggregate, or of a generator in FROM": _case(
        "SELECT g, sum((SELECT max(u.n) FROM u WHERE u.g = t.g)) AS s FROM t GROUP BY g",
        "SELECT k, e FROM t LATERAL VIEW explode(array(n, (SELECT max(n) FROM u))) l AS e",
    ),
    "a common table that nothing reads, over a table that is no other input": _case(
        "WITH w AS (SELECT g FROM u) SELECT k, n + 1 AS m FROM t",
    ),
    # The first part of the backfill has one vnode of the second input, and is split in two.
    "a backfill in more parts than an input has vnodes, which tasks have to read": Case(
        (_LISTS,),
        (Step((Commit("t", tuple(((k,), (k, [k, None])) for k in range(19))),)),),
        (View("v", _SIZES, units=(2,)),),
        vnode_count=2,
        part_rows=20,
        local_rows=IN_JOB,
    ),
    # Spark evaluates TIME only in a session that is told to.
    "an expression of type TIME in a session that does not have it": Case(
        (_CLOCKS,),
        (
            Step((Commit("t", (((1,), (1, time(9))), ((2,), (2, time(9, 59))))),)),
            Step((Commit("t", (((3,), (3, time(10))),), (((2,), (2, time(9, 59))),)),)),
        ),
        (View("v", "SELECT hour(c) AS h, max(c) AS m FROM t GROUP BY hour(c)"),),
    ),
}
