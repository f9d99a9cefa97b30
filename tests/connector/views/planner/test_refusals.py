"""Queries that cannot be views, and the reasons in the errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from relstate.connector.spark.capabilities import ASOF_JOIN
from relstate.storage import errors
from support.versions import needs, skip_if_lacking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from relstate.connector.views.plan.materialize import Materialize
    from support.plans import FakeTables

_MOMENT = "read as the present moment"
_EXPRESSION = "by = with an expression"
REFUSED = {
    "SELECT rand() FROM t": "hash the key, as in pmod(xxhash64(id), 1000) / 1000",
    "SELECT uuid() FROM t": "sha2(CAST(id AS STRING), 256)",
    "SELECT id, shuffle(arr) AS a FROM t": "write array_sort",
    "SELECT monotonically_increasing_id() AS n FROM t": "row_number() OVER",
    "SELECT input_file_name() AS f FROM t": "write the name of the file into a column",
    "SELECT id, current_user() AS c FROM t": "call it in the query over the view, or write its",
    "SELECT version() AS c FROM t": "call it in the query over the view",
    "SELECT id, unix_timestamp() AS c FROM t": "compare an expression of the row with it",
    "SELECT id, current_date FROM t": "depends on when it runs",
    "SELECT id, now() AS v FROM t": "compare an expression of the row with it",
    "SELECT id FROM t WHERE ts - now() < now() - ts": "as in ts > now() - INTERVAL 1 HOUR",
    "SELECT id FROM t WHERE isnotnull(now() - ts)": "the present time here at 'NOW()'",
    "SELECT id FROM t WHERE timestampdiff(MONTH, ts, now()) < 2": "now() - INTERVAL 1 MONTH",
    "SELECT id FROM t WHERE timestampdiff(DAY, ts, now()) < x": "and an interval",
    "SELECT id FROM t WHERE unix_timestamp() - 1.5 > x": "whole numbers with a DECIMAL(2,1): CAST",
    "SELECT id FROM t WHERE hour(ts) = hour(now())": "or write the condition in the query over",
    "SELECT id FROM t WHERE date(ts) IN (SELECT current_date())": "as in d = current_date()",
    "SELECT id FROM t WHERE now() IN (SELECT ts FROM t)": "in place of IN",
    "SELECT id FROM t WHERE g > now()": "compares a STRING with a TIMESTAMP: CAST both",
    "SELECT id AS current_date FROM t WHERE d > current_date": "give the column another name",
    "SELECT id FROM t WHERE ts > timestamp'now'": "at \"CAST('now' AS TIMESTAMP)\": what it gives",
    "SELECT id FROM t WHERE ts > timestamp_ntz' Now '": _MOMENT,
    "SELECT id FROM t WHERE cast(ts AS DATE) = date'today'": _MOMENT,
    "SELECT id, CAST('tomorrow' AS DATE) AS d FROM t": _MOMENT,
    "SELECT id, 'yesterday'::timestamp_ntz AS d FROM t": _MOMENT,
    "SELECT id, try_cast(lower('NOW') AS TIMESTAMP) AS d FROM t": _MOMENT,
    "SELECT id, timestamp('now') AS d FROM t": _MOMENT,
    "SELECT id, date('today') AS d FROM t": _MOMENT,
    "SELECT id, to_timestamp('now') AS d FROM t": _MOMENT,
    "SELECT id, year('today') AS d, g = 'now' AS h FROM t": "year('today')",
    "SELECT id FROM t WHERE g = 'a' AND ts > 'now'": "ts > 'now'",
    "SELECT id FROM t WHERE ts BETWEEN 'yesterday' AND 'today'": _MOMENT,
    "SELECT id FROM t WHERE ts IN ('2020-01-01', 'today')": _MOMENT,
    "SELECT id FROM t WHERE ts > concat('no', 'w')": _MOMENT,
    "SELECT id, ts > word AS v FROM (SELECT id, ts, 'now' AS word FROM t)": _MOMENT,
    "SELECT max(ts) AS m FROM t GROUP BY g HAVING max(ts) < 'today'": _MOMENT,
    "SELECT t.id FROM t LEFT JOIN w ON t.id = w.id AND t.ts > 'now'": _MOMENT,
    "SELECT ts FROM t UNION ALL SELECT 'now' FROM w": _MOMENT,
    "SELECT g, kll_sketch_agg_bigint(x) FROM t GROUP BY g": "draws random numbers",
    "SELECT id, kll_sketch_merge_bigint(X'00', X'00') AS s FROM t": "draws random numbers",
    "SELECT id, (SELECT hll_sketch_agg(k) FROM u WHERE u.x = t.x) AS h FROM t": "join with ON",
    "SELECT id FROM range(0, 2000000)": "write the numbers into a table",
    "SELECT g, regr_avgx(DISTINCT x, id) FROM t GROUP BY g": "of several values",
    "SELECT id FROM t TABLESAMPLE (10 PERCENT)": "TABLESAMPLE",
    "SELECT id FROM t VERSION AS OF 3": "VERSION AS OF",
    "SELECT m, count(*) FROM t GROUP BY ROLLUP (m)": "write array_sort(map_entries(m))",
    "SELECT id FROM t WHERE window(ts, '1 hour').start > ts": "in the SELECT of a subquery in FROM",
    "FROM t JOIN u ON t.id = u.k |> LIMIT 2 |> WHERE t.x > 1": "write a SELECT without |>",
    "SELECT (*) FROM t": "a star here",
    "SELECT id FROM t LEFT JOIN LATERAL explode(arr) AS l(q)": "write ON TRUE or its name",
    "SELECT count(*) FROM t GROUP BY array(g COLLATE UTF8_LCASE)": "compared by their bytes",
    "SELECT DISTINCT g COLLATE UNICODE_CI FROM t": "write name COLLATE UTF8_LCASE",
    "SELECT sum(x) OVER (PARTITION BY g COLLATE UNICODE) FROM t": "name COLLATE UTF8_BINARY",
    "SELECT id, id FROM t": "two columns named 'id'",
    "SELECT id, struct(id, id) s FROM t": "a struct with two parts named 'id'",
    "SELECT count(*) FROM t GROUP BY CUBE (id, g, x, y, d), CUBE (ts, arr, st, -x, -y)": "list",
    "SELECT count(*) FROM t GROUP BY CUBE (id, g, x, y), CUBE (d, ts, arr), GROUPING SETS (CUBE "
    "(st, -x), (-y))": "640 grouping sets",
    f"SELECT count(*) FROM t GROUP BY CUBE ({', '.join(f'x + {n}' for n in range(40))})": (
        f"{2**40} grouping sets"
    ),
    "SELECT c.name FROM t, LATERAL collations() AS c": "depends on the release of Spark",
    "SELECT g, measure(x) FROM t GROUP BY g": "metric views",
    "SELECT id, (SELECT k FROM u WHERE u.x = t.x ORDER BY k LIMIT 1) AS v FROM t": "different",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.x = t.x LIMIT 1)": "different types",
    "SELECT id FROM t, LATERAL (SELECT k FROM u WHERE u.x = t.x ORDER BY k LIMIT 1)": "of one type",
    "SELECT id FROM t, LATERAL (SELECT k FROM u WHERE u.g <=> t.g ORDER BY k LIMIT 1)": "by <=>",
    "SELECT id, (SELECT k FROM u WHERE u.k = t.x + 1 ORDER BY k LIMIT 1) AS v FROM t": _EXPRESSION,
    "SELECT id, (SELECT k FROM u WHERE u.g = t.g AND name = upper(t.g) ORDER BY k LIMIT 1) AS v "
    "FROM t": _EXPRESSION,
    "SELECT id FROM t, LATERAL (SELECT k FROM u WHERE k = coalesce(t.x, 0) ORDER BY k "
    "LIMIT 1)": _EXPRESSION,
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.x + 1 LIMIT 1)": _EXPRESSION,
    "SELECT id, (SELECT k FROM (u JOIN w ON u.x = w.id AND w.v <=> t.g) ORDER BY k LIMIT 1) AS v "
    "FROM t": "by <=>",
    "SELECT id, (SELECT k FROM u WHERE u.g = t.g AND u.name = t.g ORDER BY k LIMIT 1) AS v "
    "FROM t": "as in b.x = a.x AND b.y = b.x",
    "SELECT id FROM t, LATERAL (SELECT k FROM u WHERE u.g = t.g AND u.name = t.g ORDER BY k "
    "LIMIT 1)": "as in b.x = a.x AND b.y = b.x",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.g = t.g AND u.name = t.g "
    "LIMIT 1)": "as in b.x = a.x AND b.y = b.x",
    "SELECT id, (SELECT k FROM (SELECT * FROM u WHERE u.g = t.g) q WHERE q.name = t.g ORDER BY k "
    "LIMIT 1) AS v FROM t": "as in b.x = a.x AND b.y = b.x",
    "SELECT id, (SELECT count(*) FROM u RIGHT JOIN w ON u.x = w.id AND u.g = t.g) AS n "
    "FROM t": "write a LEFT JOIN",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM (SELECT * FROM u WHERE map_concat(t.m)['a'] = x) "
    "GROUP BY name)": "as in m[k] AS v",
    "SELECT id, NULL IN (SELECT x FROM u WHERE u.g = t.g) AS v FROM t": "write NOT EXISTS",
    "SELECT id, NULL IN (SELECT x FROM (SELECT * FROM u WHERE u.g = t.g)) FROM t": "NOT EXISTS",
    "SELECT id FROM t WHERE x NOT IN ((SELECT max(x) FROM u))": "two pairs of parentheses",
    "SELECT t.id FROM t LEFT JOIN u ON t.id = u.k AND t.x NOT IN (SELECT id FROM w)": "NOT EXISTS",
    "SELECT t.id FROM t LEFT JOIN u ON t.id = u.k "
    "AND NOT (t.x IN (SELECT id FROM w) OR t.x > 9)": "how Spark plans the join",
    "SELECT t.id FROM t LEFT JOIN u ON t.id = u.k "
    "AND (t.x IN (SELECT id FROM w)) = FALSE": "how Spark plans the join",
    "SELECT t.id FROM t JOIN u ON t.g = u.g "
    "AND (t.x NOT IN (SELECT id FROM w) OR u.k = 1)": "for an inner join write it in WHERE",
    "SELECT t.id FROM t LEFT JOIN u ON t.g = u.g "
    "AND t.id NOT IN (SELECT max(id) FROM w WHERE w.id = t.x)": "how Spark plans the join",
    "SELECT NULL AS v, id FROM t INTERSECT SELECT NULL, k FROM u": "CAST(NULL AS STRING)",
    "SELECT count(*) FROM t GROUP BY ROLLUP (g, session_window(ts, '1 hour'))": "CUBE (…)",
    "SELECT id FROM t WHERE session_window(ts, '1 hour').start > ts": "session_window() here",
    "SELECT * FROM (SELECT x, g, array(m) AS l FROM t) PIVOT (sum(x) FOR g IN ('a'))": "in GROUP",
    "SELECT * FROM (SELECT x, g FROM t) PIVOT (sum(x) FOR g IN ('a', 'a' AS b))": "value twice",
    "SELECT * FROM t JOIN w USING (id) PIVOT (sum(x) FOR g IN ('a', 'b'))": "in a subquery in FROM",
    "SELECT IDENTIFIER('i' || 'd') FROM t": "write the name itself",
    "SELECT java_method('java.lang.Math', 'abs', x) AS v FROM t": "code of others",
    "SELECT TRANSFORM(id) USING 'cat' AS (a) FROM t": "write Spark's own functions",
    "SELECT id FROM t NATURAL LEFT ANTI JOIN w": "NATURAL ANTI JOIN",
    "SELECT id FROM t NATURAL SEMI JOIN w": "NATURAL SEMI JOIN",
    "SELECT u.* FROM t JOIN u USING (x)": "one side of a join with USING",
    "SELECT u.* FROM t JOIN u USING (g, x)": "one side of a join with USING",
    "SELECT t.id, struct(u.*) AS q FROM t JOIN u USING (g)": "one side of a join with USING",
    "SELECT st.* EXCEPT (A, b) FROM t": "a struct without parts",
    "SELECT * EXCEPT (st.a, t.st.b) FROM t": "a struct without parts",
    "SELECT id FROM t WHERE": "incomplete expression at line 1, column 18, near 'WHERE'",
    "SELECT id FROM t JOIN": "Expected table name at line 1, column 18",
    "SELECT id\nFROM t WHERE (x > 1": "Expecting ) at line 2, column 19, near '1'",
    "WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM r) SELECT * FROM r "
    "LIMIT 3": "end it by a condition",
    "WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM r) (SELECT id FROM t) "
    "UNION ALL (SELECT a + 1 FROM r) LIMIT 3": "end it by a condition",
    "WITH RECURSIVE r(n) AS ((SELECT k FROM u LIMIT 1) UNION ALL SELECT n + 1 FROM r "
    "WHERE n < 5) SELECT n FROM r": "a common table before the recursive one",
    "WITH RECURSIVE r(n) AS (SELECT row_number() OVER (ORDER BY x) FROM u UNION ALL "
    "SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r": "row_number() in WITH RECURSIVE",
    "WITH RECURSIVE r(n) AS (SELECT size(collect_list(x)) FROM u UNION ALL SELECT n + 1 FROM r "
    "WHERE n < 5) SELECT n FROM r": "collect_list() in WITH RECURSIVE",
    "WITH RECURSIVE r(n) AS (SELECT id FROM t WHERE ts < now() UNION ALL SELECT n + 1 FROM r "
    "WHERE n < 5) SELECT n FROM r": "the present time in WITH RECURSIVE",
    "WITH RECURSIVE r(n) AS (SELECT id FROM t WHERE ts < 'now' UNION ALL SELECT n + 1 FROM r "
    "WHERE n < 5) SELECT n FROM r": "the present moment",
    "WITH RECURSIVE r(n, m) AS (SELECT id, m FROM t UNION ALL SELECT n + 1, m FROM r "
    "WHERE n < 5) SELECT n FROM r": "map_entries",
    "WITH RECURSIVE r(n) AS (SELECT id FROM t TIMESTAMP AS OF '2020-01-01' UNION ALL SELECT n + 1 "
    "FROM r WHERE n < 5) SELECT n FROM r": "a view reads whole tables",
    "SELECT -x AS x, count(*) n FROM t GROUP BY x HAVING sum(y) > 1 "
    "QUALIFY row_number() OVER (ORDER BY x) <= 2": "give the alias another name",
    "SELECT k, struct(k AS g) AS a FROM u AS a ORDER BY a.k LIMIT 2": "give the alias another name",
    "DELETE FROM t": "not a query",
}


@pytest.mark.parametrize("query", list(REFUSED))
def test_a_query_that_cannot_be_maintained_is_refused_with_the_reason(
    query: str, planned: Callable[[str], Materialize]
) -> None:
    """A view that could differ from its query is not created; the error names the part."""
    skip_if_lacking(query)
    with pytest.raises(errors.UnsupportedStatementError) as caught:
        planned(query)
    assert REFUSED[query].lower() in str(caught.value).lower()


@pytest.mark.parametrize(
    "expression",
    ["g = 'now'", "'today'", "ts > 'epoch'", "date'epoch'", "CAST(g AS DATE)", "ts > '2020-01-01'"],
)
def test_texts_that_are_no_moments_are_allowed(
    expression: str, planned: Callable[[str], Materialize]
) -> None:
    """'now' as a text, 'epoch', which never changes, and columns, which are not constant."""
    assert len(planned(f"SELECT id, {expression} AS v FROM t").visible) == 2


def test_over_spark_connect_a_word_that_may_be_a_moment_is_refused(
    monkeypatch: pytest.MonkeyPatch, planned: Callable[[str], Materialize]
) -> None:
    """Where Spark's plans are not visible, whatever might depend on time is refused."""
    from relstate.connector.views.planner.analysis import Analysis

    monkeypatch.setattr(Analysis, "reads_present_time", lambda *_: None)
    with pytest.raises(errors.UnsupportedStatementError, match=_MOMENT):
        planned("SELECT id, g = 'now' AS v FROM t")
    assert len(planned("SELECT id, g = 'nowhere' AS v FROM t").visible) == 2


def test_a_table_outside_of_the_store_is_not_found(
    spark: SparkSession, planned: Callable[[str], Materialize]
) -> None:
    """A name that only Spark knows is not an input of a view."""
    spark.range(3).createOrReplaceTempView("elsewhere")
    with pytest.raises(errors.TableNotFoundError, match="elsewhere"):
        planned("SELECT id FROM elsewhere")
    with pytest.raises(errors.TableNotFoundError, match="nowhere"):
        planned("SELECT id FROM nowhere")


def test_a_function_of_a_user_is_refused(
    spark: SparkSession, planned: Callable[[str], Materialize]
) -> None:
    """A registered function may return something else tomorrow."""
    spark.sql("CREATE TEMPORARY FUNCTION doubled(x INT) RETURNS INT RETURN x * 2")
    try:
        with pytest.raises(errors.UnsupportedStatementError, match="Spark's own functions"):
            planned("SELECT doubled(x) FROM t")
    finally:
        spark.sql("DROP TEMPORARY FUNCTION doubled")


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("SELECT nosuch FROM t", "UNRESOLVED_COLUMN"),
        # A column that is there, but not for the clause: what it may read is Spark's to say.
        ("SELECT count(*) FROM t GROUP BY g HAVING abs(x) > 1", "UNRESOLVED_COLUMN.*with name"),
        ("SELECT id FROM t LATERAL VIEW variant_explode(parse_json(g)) e", "FROM t, LATERAL v"),
        # Only without ON does the optimizer see that this is a generator over its own row.
        (
            "SELECT id, q FROM t LEFT JOIN LATERAL explode(m) AS l(q, v) ON TRUE WHERE y > 0D",
            "'t.m' cannot be",
        ),
        ("SELECT id, (SELECT max(k) FROM u WHERE u.k > size(m)) AS v FROM t", "'t.m' cannot be"),
        (
            "SELECT (SELECT p FROM (SELECT size(m) + k AS p FROM u ORDER BY k LIMIT 1)) v FROM t",
            "'t.m' cannot be",
        ),
    ],
)
def test_what_spark_refuses_is_its_own_error(
    query: str, error: str, planned: Callable[[str], Materialize]
) -> None:
    """What its analysis refuses, such as an unknown column, or its optimizer."""
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match=error):
        planned(query)


@pytest.mark.parametrize("kind", ["", "LEFT"])
def test_a_subquery_in_on_that_reads_both_sides_is_spark_s_error(
    kind: str, planned: Callable[[str], Materialize]
) -> None:
    """Spark's optimizer refuses it, not its analysis: the SELECT of the view would never run."""
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match="both join inputs"):
        planned(
            f"SELECT t.id FROM t {kind} JOIN u ON t.id = u.k "
            "AND EXISTS (SELECT 1 FROM w WHERE w.id = t.x AND w.id = u.x)"
        )


def test_a_query_that_is_read_otherwise_is_refused(
    monkeypatch: pytest.MonkeyPatch, spark: SparkSession, tables: FakeTables
) -> None:
    """If sqlglot does not write what it read, the view is refused, not wrong."""
    from relstate.connector.views.planner import analysis
    from relstate.connector.views.planner.view import plan_view

    def wrong(tree: Any) -> str:
        return "SELECT id + 1 AS id FROM t"

    monkeypatch.setattr(analysis, "text_of", wrong)
    with pytest.raises(errors.UnsupportedStatementError, match="as Spark does"):
        plan_view(spark, tables, "SELECT id FROM t")


def test_a_text_is_not_compared_with_a_number_out_of_ansi_mode(
    spark: SparkSession, planned: Callable[[str], Materialize]
) -> None:
    """Spark's legacy rules for them are those of no single type, so the error asks for a CAST."""
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with pytest.raises(errors.UnsupportedStatementError, match="CAST one side"):
            planned("SELECT t.id FROM t JOIN u ON t.id = u.name")
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


@needs(ASOF_JOIN)
@pytest.mark.parametrize("on", ["t.g = u.name", "u.x < t.id"])
@pytest.mark.parametrize("match", ["(t.x, t.g) < (u.k, u.g)", "(u.x, 'a') >= (t.id, t.g)"])
def test_an_asof_join_with_the_next_tuple_is_refused(
    match: str, on: str, spark: SparkSession, planned: Callable[[str], Materialize]
) -> None:
    """Spark returns other rows than the nearest for it, so no view could equal its SELECT."""
    spark.conf.set("spark.sql.join.asofJoin.enabled", "true")
    try:
        with pytest.raises(errors.UnsupportedStatementError, match="look for the previous tuple"):
            planned(f"SELECT t.id FROM t ASOF JOIN u MATCH_CONDITION ({match}) ON {on}")
    finally:
        spark.conf.unset("spark.sql.join.asofJoin.enabled")


def test_a_join_after_a_comma_is_refused_where_it_would_come_first(
    spark: SparkSession, tables: FakeTables
) -> None:
    """Under the setting that gives JOIN precedence over the comma a view does not guess."""
    from relstate.connector.views.planner.view import plan_view

    query = "SELECT t.id FROM t, u RIGHT JOIN w ON u.k = w.id"
    spark.conf.set("spark.sql.ansi.relationPrecedence", "true")
    try:
        with pytest.raises(
            errors.UnsupportedStatementError, match="write CROSS JOIN for the comma"
        ):
            plan_view(spark, tables, query)
        plan_view(spark, tables, query.replace(",", " CROSS JOIN"))
    finally:
        spark.conf.unset("spark.sql.ansi.relationPrecedence")
