"""Subqueries that read columns of the query around them in any clause and at any depth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.case_run import run_case
from support.random_tables import Commit, Row, TableSpec
from support.view_cases import Case, Step, View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_A = TableSpec("a", (("id", "INT"), ("x", "INT"), ("y", "INT")), ("id",), ("id",))
_B = TableSpec("b", (("id", "INT"), ("x", "INT"), ("y", "INT")), ("id",), ("id",))
_C = TableSpec("c", (("x", "INT"), ("y", "INT")))
# Of the outer table a row with NULLs, two equal ones, and one that no other table compares with.
_ROWS: dict[str, tuple[Row, ...]] = {
    "a": ((1, 1, 1), (2, 1, 2), (3, 2, 1), (4, 2, 1), (5, None, 1), (6, None, None), (7, 9, 3)),
    "b": ((1, 1, 1), (2, 1, 3), (3, 2, 1), (4, None, 1), (5, 2, None), (6, 1, 1)),
    "c": ((1, 1), (1, 1), (2, 2), (None, 1), (3, None)),
}
_QUERIES = """
SELECT id, (SELECT x WHERE x = 1) AS own FROM a;
SELECT id, (SELECT sum(b.y) FROM b JOIN (SELECT a.x AS v) ON b.x = v) AS total FROM a;
SELECT id, (WITH w AS (SELECT * FROM b WHERE b.x = a.x) SELECT count(*) FROM w) AS n FROM a;
SELECT id, (SELECT id FROM b WHERE b.x > a.x ORDER BY y DESC, id LIMIT 1) AS top FROM a;
SELECT id, (SELECT count(*) FROM (SELECT y FROM b WHERE b.x = a.x UNION SELECT y FROM c WHERE c.x
    = a.y)) AS n FROM a;
SELECT id FROM a WHERE x IN (SELECT row_number() OVER (ORDER BY b.id) FROM b WHERE b.y = a.y);
SELECT id FROM a WHERE x NOT IN (SELECT x FROM b WHERE b.y = a.y EXCEPT SELECT x FROM c WHERE c.y
    = a.y);
SELECT id, y IN (SELECT x FROM b WHERE b.y = a.y ORDER BY id LIMIT 1) OR x = 9 AS v FROM a;
SELECT id FROM a WHERE EXISTS (SELECT 1 FROM (SELECT x FROM b WHERE b.x = a.x AND b.y < a.id)
    LIMIT 1);
SELECT x FROM a GROUP BY x HAVING count(*) > (SELECT sum(v) FROM (SELECT b.y AS v FROM b WHERE b.x
    = a.x));
SELECT id, v FROM a LEFT JOIN LATERAL (SELECT a.x + y AS v FROM c) s ON v > a.y;
SELECT a.id, v, b.id AS other FROM a LEFT JOIN LATERAL (SELECT y AS v FROM c WHERE a.x = c.x) s
    LEFT JOIN b ON v = b.y;
SELECT id, v FROM a, LATERAL (SELECT y AS v FROM b WHERE b.x = a.x EXCEPT ALL SELECT y FROM c
    WHERE c.x >= a.x);
SELECT a.id, v FROM a, LATERAL (SELECT sum(b.y) OVER (ORDER BY b.id) AS v FROM b WHERE b.x >= a.x);
SELECT a.id, s.* FROM a LEFT JOIN LATERAL (SELECT max(y) AS v FROM b WHERE b.x = a.x HAVING
    count(*) > 1) s ON v >= a.y;
SELECT a.id, v FROM a, LATERAL (SELECT y AS v FROM b WHERE b.x = a.x UNION ALL SELECT y FROM c
    ORDER BY v LIMIT 2);
SELECT a.id, b.id AS i FROM a, LATERAL (SELECT b.id FROM b FULL JOIN c ON b.x = c.x WHERE c.y =
    a.y) b;
SELECT id, p, v FROM a LEFT JOIN LATERAL posexplode(array(x, y)) AS t(p, v) ON id = v;
SELECT id, v FROM a, LATERAL (SELECT a.x + v AS v FROM explode(array(a.x, a.y)) AS t(v) WHERE v >
    0);
SELECT id, v FROM a, LATERAL range(3) AS t(v) WHERE v < x;
SELECT NULL AS v, x FROM b EXCEPT ALL SELECT NULL, y FROM c;
SELECT NULL AS v, x FROM b UNION SELECT NULL, y FROM c;
SELECT id, (SELECT id FROM b WHERE b.x = a.x AND b.y = b.x ORDER BY id DESC LIMIT 1) AS top FROM a;
SELECT id, (SELECT v FROM (SELECT y AS v FROM b WHERE b.x = a.x UNION ALL SELECT y FROM c WHERE c.x
    = a.x) ORDER BY v DESC LIMIT 1) AS top FROM a;
SELECT id, (SELECT count(*) FROM (SELECT b.id FROM b JOIN a AS z ON z.id = b.y WHERE b.x = a.x)
    ) AS n FROM a;
SELECT a.id FROM (a JOIN b ON 1 = 0)
"""


def _commit(table: TableSpec, first: int, last: int, *deleted: int) -> Commit:
    """Return a commit of some rows, and of the deletion of others, by their positions."""
    rows = list(enumerate(_ROWS[table.name], start=1))
    keyed = [(table.key_of(row) if table.key else number, row) for number, row in rows]
    return Commit(
        table.name, tuple(keyed[first:last]), tuple(keyed[position] for position in deleted)
    )


@pytest.mark.timeout(600)
def test_a_subquery_that_reads_outer_columns_anywhere_is_maintained(spark: SparkSession) -> None:
    """Before rows and after them, when outer and inner rows come and go, down to empty tables."""
    views = [
        View(f"v{number}", query, number % 2, (1 + number % 3, 3))
        for number, query in enumerate(_QUERIES.strip().split(";\n"))
    ]
    moved = Commit("a", (((1,), (1, 2, 1)), ((7,), (7, 1, None))))
    steps = (
        Step(),
        Step((_commit(_A, 0, 5), _commit(_B, 0, 4), _commit(_C, 0, 3))),
        Step((_commit(_A, 5, 7, 1), _commit(_B, 4, 6, 0), _commit(_C, 3, 5, 1))),
        Step((moved, _commit(_B, 0, 0, 1, 2, 3, 4, 5), _commit(_C, 0, 1))),
    )
    outcome = run_case(spark, Case((_A, _B, _C), steps, tuple(views), vnode_count=7))
    assert (outcome.failures, outcome.refused, outcome.invalid) == ({}, {}, {})
