"""Constants, subqueries and joins without an equality in views, through the public face."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from relstate.connector.spark.capabilities import QUALIFY
from relstate.connector.sql import Database
from relstate.connector.views import backfill, runner
from relstate.storage import Store, errors
from support.multisets import difference, rows_of_table
from support.spark import only_row
from support.versions import COUNTER_FUNCTIONS, NAMED_PIVOT, needs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from support.stores import StoreMaker


@pytest.fixture
def db(spark: SparkSession, make_store: StoreMaker) -> Database:
    """A store of two tables, t and u."""
    store = make_store(vnode_count=16, shards=1)
    store.create_table("t", "k BIGINT, g STRING, v BIGINT", primary_key=["k"])
    store.create_table("u", "i BIGINT, g STRING, n BIGINT", primary_key=["i"])
    return Database(spark, store)


def put(store: Store, table: str, *rows: tuple[object, ...]) -> None:
    """Upsert rows of a table."""
    schema = store.table(table).schema.arrow_schema
    columns = [[row[n] for row in rows] for n in range(len(schema))]
    store.write(table, pa.table(columns, schema=schema))


def assert_view_is(db: Database, view: str, query: str) -> None:
    """The rows of a view are those that Spark gives for its SELECT."""
    rows = rows_of_table(db.sql(f"SELECT * FROM {view}").toArrow())
    assert difference(rows, rows_of_table(db.sql(query).toArrow())) == ([], [])


def test_a_view_of_constants_has_its_rows_at_once_and_never_changes(db: Database) -> None:
    """A view that reads no table is populated by CREATE; no refresh touches it."""
    db.sql("CREATE MATERIALIZED VIEW c AS VALUES (1, '{a}'), (2, NULL)")
    assert_view_is(db, "c", "VALUES (1, '{a}'), (2, NULL)")
    put(db.store, "t", (1, "a", 2))
    assert db.refresh().views == ()
    (row,) = db.sql("SHOW MATERIALIZED VIEWS").collect()
    assert (row.is_behind, row.backfill, row.inputs) == (False, None, [])
    (report,) = db.check_views()
    assert report.problems == ()
    db.sql("CREATE MATERIALIZED VIEW over_c AS SELECT count(*) AS n FROM c JOIN t ON t.k = c.col1")
    assert db.sql("SELECT n FROM over_c").first() == (1,)


@needs(COUNTER_FUNCTIONS)
def test_vectors_unions_of_arrays_and_variants_follow_their_rows(db: Database) -> None:
    """What Spark evaluates again, and the rows of variants, are those of their SELECTs."""
    views = {
        "vectors": "SELECT g, vector_sum(array(float(v), 1F)) AS s, "
        "vector_avg(array(float(v))) AS a FROM t GROUP BY g",
        "united": "SELECT sort_array(collect_union(array(v, k % 2))) AS l FROM t",
        "grown": "SELECT k, counter_diff(v) OVER (PARTITION BY g ORDER BY k) AS d FROM t",
        "nothing": "SELECT k, lag() OVER (PARTITION BY g ORDER BY k) IS NULL AS n FROM t",
        "elements": """SELECT k, e.pos, e.key, e.value::STRING AS v FROM t,
            LATERAL variant_explode(parse_json(if(g = 'a', concat('[', v, ', null, {"x": 1}]'),
            if(g = 'b', '{"v": [1], "g": null}', g)))) AS e""",
        "optional": """SELECT k, p, name, part::STRING AS v FROM t,
            LATERAL variant_explode_outer(parse_json(concat('{"v": ', v, '}'))) q(p, name, part)""",
        "whole": "SELECT * FROM t",
    }
    put(db.store, "t", (1, "a", 4), (2, "a", 7), (3, "b", 5), (4, "null", 1), (5, "3", None))
    for name, query in views.items():
        text = query.replace("SELECT * FROM t", "TABLE t")
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")
        assert_view_is(db, name, query)
    put(db.store, "t", (1, "b", 4), (2, "a", 3), (6, "a", 9), (7, None, 2))
    db.sql("DELETE FROM t WHERE k = 3")
    db.refresh()
    for name, query in views.items():
        assert_view_is(db, name, query)
    db.sql("DELETE FROM t")
    db.refresh()
    for name, query in views.items():
        assert_view_is(db, name, query)
    assert all(report.ok for report in db.check_views())


def test_stars_without_parts_of_structs_follow_their_rows(db: Database) -> None:
    """EXCEPT takes parts out of structs at any depth; a NULL struct becomes one of NULLs."""
    db.sql(
        "CREATE TABLE nested (k BIGINT NOT NULL, "
        "s STRUCT<a: INT, b: STRUCT<c: INT, d: STRING>>, PRIMARY KEY (k))"
    )
    views = {
        "shallow": "SELECT * EXCEPT (S.a) FROM nested",
        "deep": "SELECT * EXCEPT (nested.s.b.d, k) FROM nested",
        "parts": "SELECT nested.s.* EXCEPT (a), k FROM nested",
        "parts_of_parts": "SELECT k, s.* EXCEPT (b.c) FROM nested",
        "joined": "SELECT * EXCEPT (s.b, i, t.k) FROM nested "
        "JOIN u ON i = nested.k JOIN t USING (g)",
        "of_groups": "SELECT * EXCEPT (s.a) FROM (SELECT s, count(*) AS n FROM nested GROUP BY s)",
    }
    row = "named_struct('a', {}, 'b', named_struct('c', {}, 'd', '{}'))"
    db.sql(f"INSERT INTO nested VALUES (1, {row.format(1, 2, 'x')}), (2, NULL)")
    put(db.store, "t", (1, "a", 4))
    put(db.store, "u", (1, "a", 4), (2, "a", 9))
    for name, query in views.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        assert_view_is(db, name, query)
    db.sql(f"INSERT INTO nested VALUES (2, {row.format(5, 6, 'y')}), (3, {row.format(5, 6, 'y')})")
    db.sql("UPDATE nested SET s = NULL WHERE k = 1")
    db.refresh()
    for name, query in views.items():
        assert_view_is(db, name, query)
    assert all(report.ok for report in db.check_views())


def test_joins_after_commas_rows_as_groups_and_mixed_windows_follow_their_rows(
    db: Database,
) -> None:
    """What comes before a comma is joined first, a list in GROUP BY is one value, as in Spark."""
    views = {
        "after_comma": "SELECT t.k, u.i, o.k AS o FROM t, u RIGHT JOIN t AS o "
        "ON t.g = o.g AND u.n > t.v",
        "elements": "SELECT k, e FROM t JOIN LATERAL explode(array(v, k)) AS q(e)",
        "by_rows": "SELECT (g, v) AS p, count(*) AS c FROM t GROUP BY (g, v)",
        "with_nulls": "SELECT g, array_size(collect_list(v) RESPECT NULLS) AS c FROM t GROUP BY g",
        "mixed": "SELECT k, rank() OVER (PARTITION BY g ORDER BY v) AS r, ntile(2) OVER "
        "(PARTITION BY g ORDER BY k) AS h, max(v) OVER (PARTITION BY g) AS m FROM t",
    }
    put(db.store, "t", (1, "a", 4), (2, "a", None), (3, "b", 5), (4, None, 4))
    put(db.store, "u", (1, "a", 4), (2, "b", 9))
    for name, query in views.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        assert_view_is(db, name, query)
    put(db.store, "t", (1, "b", 4), (5, "a", 8), (6, "a", None), (4, None, None))
    put(db.store, "u", (1, "a", 6), (3, "b", None))
    db.sql("DELETE FROM t WHERE k = 3")
    db.sql("DELETE FROM u WHERE i = 2")
    db.refresh()
    for name, query in views.items():
        assert_view_is(db, name, query)
    assert all(report.ok for report in db.check_views())


@needs(QUALIFY)
def test_numbers_with_a_suffix_are_constants(db: Database) -> None:
    """``1L`` and ``0.1D`` do where Spark asks for a literal, and for executors that read one."""
    views = {
        "counted": "SELECT count(1L) AS c, approx_count_distinct(v, 0.1D) AS a FROM t",
        "ranked": "SELECT k FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY k) <= 1L",
        "near": "SELECT k, sum(v) OVER (PARTITION BY g ORDER BY v RANGE 2L PRECEDING) s FROM t",
        "part": "SELECT percentile(v, 0.5D) FILTER (WHERE v NOT IN (4L)) AS p FROM t",
    }
    put(db.store, "t", (1, "a", 4), (2, "a", 5), (3, "b", 5))
    for name, query in views.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    (plan,) = only_row(db.sql("EXPLAIN MATERIALIZED VIEW near"))
    assert "recompute" not in plan
    put(db.store, "t", (1, "b", 4), (4, "a", 8))
    db.refresh()
    for name, query in views.items():
        assert_view_is(db, name, query)


def test_maps_and_expressions_in_other_words_are_groups(db: Database) -> None:
    """A map is a group whatever the order of its entries; 1 + v is the group v + 1."""
    entries = "map(g, v, 'z', k % 2)"
    views = {
        "maps": f"SELECT {entries} AS m, count(*) AS c FROM t GROUP BY m",
        "keys": "SELECT map_keys(m) AS l, m['z'] AS z, sum(k) AS s FROM (SELECT k, "
        f"if(v > 4, map('z', 1, g, v), {entries}) AS m FROM t) GROUP BY m",
        "over_groups": "SELECT g, count(*) OVER (PARTITION BY v % 2) AS c, "
        "sum(v) OVER (ORDER BY g) AS s FROM t GROUP BY g, v HAVING count(*) + sum(v) < 99",
        "swapped": "SELECT (1 + v) * 2 AS a, count(*) AS c FROM t GROUP BY v + 1",
        "parts": "SELECT named_struct('g', g, 'v', v) AS p, count(*) AS c FROM t GROUP BY (g, v)",
    }
    put(db.store, "t", (1, "a", 4), (3, "a", 4), (5, "a", 5), (2, "b", None))
    for name, query in views.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        assert_view_is(db, name, query)
    put(db.store, "t", (3, "a", 5), (4, "b", None), (5, "b", 4))
    db.sql("DELETE FROM t WHERE k = 1")
    db.refresh()
    for name, query in views.items():
        assert_view_is(db, name, query)


@needs(NAMED_PIVOT)
def test_sessions_of_local_times_parts_of_structs_and_pipes_follow_their_rows(db: Database) -> None:
    """Values have Spark's types and names: of a session, after a +, of stars, of a PIVOT."""
    local = "timestampadd(MINUTE, v, TIMESTAMP_NTZ'2026-03-29 00:30:00')"
    views = {
        "visits": "SELECT g, session_window.start AS s, session_window.end AS e, count(*) AS c "
        f"FROM t GROUP BY g, session_window({local}, '2 minutes')",
        "parts": "SELECT k, array(struct(v AS b))[0].b AS b, + '1' AS p, +v AS q FROM t",
        "cube": "SELECT 1 + v AS a, g, sum(1 + v) AS s, grouping(v + 1) AS n FROM t "
        "GROUP BY CUBE (v + 1, g) HAVING a > 0 OR g IS NOT NULL",
        "unnamed (a, b)": "SELECT struct(v AS a, g).a, k FROM t",
        "piped": "FROM t |> SET v = v + 1, k = v |> DROP g |> UNION ALL SELECT 7, v FROM t "
        "|> AS a |> WHERE a.v > 5",
        "stars": "SELECT g, count(DISTINCT *) AS a, count(*, k) AS b, count(t.*, t.*) AS c "
        "FROM t GROUP BY g",
        "titles (g, n)": "SELECT g, count(*) FROM t GROUP BY g ORDER BY `count(1)` DESC, g LIMIT 2",
        "shifts": "SELECT k, -k >>> 1 AS s, array(q.*) AS l, 5 IN (q.*) AS i FROM (SELECT k, v "
        "FROM t) q",
        "pivoted": "SELECT p.v, p.a FROM (SELECT v, g FROM t) PIVOT (count(*) FOR g IN ('a', 'b')) "
        "AS p",
        "later": "SELECT k, (SELECT max(v) FROM (SELECT v FROM t AS x WHERE x.g = t.g ORDER BY v "
        "OFFSET 1)) AS m FROM t",
        "structs": "SELECT /*+ REPARTITION(2), BROADCAST(q) */ k, to_json(struct(s.*, 1 AS x)) "
        "AS s, coalesce(q.s.*) AS c, to_json(struct(* EXCEPT (s.a))) AS e, "
        "explode(array(DATE'2026-01-01')) AS d FROM (SELECT k, struct(v AS a, k AS b) AS s "
        "FROM t) q",
        "steps": "FROM t |> AGGREGATE sum(k) AS s GROUP BY v + 1 AS w |> AS x |> WHERE x.w > 5",
    }
    put(db.store, "t", (1, "a", 4), (2, "a", 5), (3, "a", 60), (4, "b", None), (5, None, 7))
    for name, query in views.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    views = {name.split()[0]: query for name, query in views.items()}
    for name, query in views.items():
        fields = [field.dataType for field in db.sql(f"SELECT * FROM {name}").schema]
        assert fields == [field.dataType for field in db.sql(query).schema]
        assert_view_is(db, name, query)
    put(db.store, "t", (2, "a", 59), (4, "b", 5), (6, "b", 6))
    db.sql("DELETE FROM t WHERE k = 1")
    db.refresh()
    for name, query in views.items():
        assert_view_is(db, name, query)


def test_constants_are_inserted_once_however_many_parts_a_backfill_has(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of VALUES come with the first part, and with no refresh after it."""
    for module in (backfill, runner):
        monkeypatch.setattr(module, "PART_ROWS", 8)
    query = (
        "SELECT g, count(*) AS c FROM (SELECT g FROM t UNION ALL VALUES ('a'), ('z')) GROUP BY g"
    )
    put(db.store, "t", *((n, "abc"[n % 3], n) for n in range(40)))
    db.sql(f"CREATE MATERIALIZED VIEW c AS {query}")
    assert sum(entry.operation == "refresh" for entry in db.store.history()) > 2
    assert_view_is(db, "c", query)
    put(db.store, "t", *((n, "z", n) for n in range(20)))
    db.refresh()
    assert_view_is(db, "c", query)
    assert db.check_views()[0].problems == ()


def test_a_scalar_subquery_of_two_rows_fails_until_it_has_one(db: Database) -> None:
    """Spark's error stops the view where it is; the refresh after the correction goes on."""
    query = "SELECT k, v + (SELECT n FROM u WHERE g = 'x') AS s FROM t"
    put(db.store, "t", (1, "a", 10))
    db.sql(f"CREATE MATERIALIZED VIEW s AS {query}")
    assert db.sql("SELECT s FROM s").first() == (None,)
    put(db.store, "u", (1, "x", 5), (2, "x", 7))
    with pytest.raises(errors.ViewFailedError, match="SCALAR_SUBQUERY_TOO_MANY_ROWS"):
        db.refresh()
    put(db.store, "u", (2, "y", 7))
    db.refresh()
    assert_view_is(db, "s", query)
    assert db.sql("SELECT s FROM s").first() == (15,)


def test_a_correlated_scalar_subquery_of_two_rows_fails_only_where_it_is_read(
    db: Database,
) -> None:
    """Rows with which no row of the outer query is compared are not an error."""
    query = "SELECT k, (SELECT n FROM u WHERE u.g = t.g) AS n FROM t"
    put(db.store, "t", (1, "a", 10))
    put(db.store, "u", (1, "a", 5), (2, "b", 7), (3, "b", 8))
    db.sql(f"CREATE MATERIALIZED VIEW s AS {query}")
    assert_view_is(db, "s", query)
    put(db.store, "t", (2, "b", 1))
    with pytest.raises(errors.ViewFailedError, match="SCALAR_SUBQUERY_TOO_MANY_ROWS"):
        db.refresh()


def test_a_scalar_subquery_is_computed_only_where_a_row_asks_for_it(db: Database) -> None:
    """It fails over an empty table, and its view is empty as the SELECT is until a row reads it."""
    views = {
        "counted": "SELECT t.k FROM t JOIN u ON t.k = u.i GROUP BY t.k "
        "HAVING count(u.n) >= (SELECT count(*) / count(DISTINCT n) FROM u)",
        "condition": "SELECT k FROM t WHERE (SELECT 10 / count(*) FROM u) > 1",
        "value": "SELECT k, v + (SELECT 10 / c FROM (SELECT count(*) AS c, sum(n) AS s FROM u) "
        "WHERE 20 / c > 1) AS x FROM t",
    }
    for name, query in views.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        assert_view_is(db, name, query)
    put(db.store, "u", (1, "x", 5), (2, "x", 7))
    put(db.store, "t", (1, "a", 10), (2, "b", 11))
    db.refresh()
    for name, query in views.items():
        assert_view_is(db, name, query)
    db.sql("DELETE FROM u")
    for name in ("condition", "value"):
        with pytest.raises(errors.ViewFailedError, match="DIVIDE_BY_ZERO"):
            db.refresh(name)
    db.refresh("counted")
    assert db.sql("SELECT count(*) AS c FROM counted").first() == (0,)
    db.sql("DELETE FROM t")
    db.refresh()
    for name, query in views.items():
        assert_view_is(db, name, query)


def test_a_view_has_the_columns_that_its_statement_names(db: Database) -> None:
    """A column list renames the columns of the SELECT, which may have two of one name."""
    put(db.store, "t", (1, "a", 10))
    db.sql("CREATE MATERIALIZED VIEW c (a, `b c`) AS SELECT k, k FROM t")
    assert db.sql("SELECT * FROM c").columns == ["a", "b c"]
    assert db.sql("SELECT `b c` FROM c").first() == (1,)
    assert db.check_views()[0].problems == ()
    with pytest.raises(errors.UnsupportedStatementError, match="1 names for 2 columns"):
        db.sql("CREATE MATERIALIZED VIEW d (a) AS SELECT k, v FROM t")
    with pytest.raises(errors.UnsupportedStatementError, match="two columns named 'a'"):
        db.sql("CREATE MATERIALIZED VIEW d (a, A) AS SELECT k, v FROM t")


def test_a_view_is_distributed_by_the_columns_that_it_is_clustered_by(db: Database) -> None:
    """Rows that move between clusters, and a replacement, leave the view equal to its SELECT."""
    query = "SELECT t.k, t.v, upper(u.g) AS g FROM t LEFT JOIN u ON t.v = u.n"
    put(db.store, "t", *((k, "a", k % 5) for k in range(20)))
    put(db.store, "u", *((i, "xyz"[i % 3], i % 5) for i in range(8)))
    properties = "TBLPROPERTIES ('parallelism' = '2')"
    db.sql(f"CREATE MATERIALIZED VIEW c CLUSTER BY (G, v) {properties} AS {query} ORDER BY v DESC")
    put(db.store, "u", (1, "z", 1), (2, None, 4), (9, "w", 0))
    db.refresh()

    assert_view_is(db, "c", query)
    schema = db.store.table("c").schema
    assert [column.name for column in schema.distribution_columns] == ["g", "v"]
    assert [column.name for column in schema.key_columns][:3] == ["g", "v", "k"]
    assert db.check_views()[0].problems == ()
    text = only_row(db.sql("SHOW CREATE TABLE c")).createtab_stmt
    assert "CLUSTER BY (`g`, `v`)" in text

    db.sql("ALTER MATERIALIZED VIEW c AS SELECT k, g, v FROM t")
    assert_view_is(db, "c", "SELECT k, g, v FROM t")
    distribution = db.store.table("c").schema.distribution_columns
    assert [column.name for column in distribution] == ["g", "v"]
    db.create_view("c", db.table("t"), or_replace=True, cluster_by=["v"])
    assert_view_is(db, "c", "SELECT * FROM t")
    assert [column.name for column in db.store.table("c").schema.distribution_columns] == ["v"]
    renamed = db.table("t").selectExpr("k", "v AS amount")
    db.create_view("c", renamed, or_replace=True, cluster_by="amount")
    assert [column.name for column in db.store.table("c").schema.distribution_columns] == ["amount"]
    with pytest.raises(errors.UnsupportedStatementError, match=r"CLUSTER BY \(x\).* k, v"):
        db.sql("CREATE MATERIALIZED VIEW d CLUSTER BY (x) AS SELECT k, v FROM t")


def test_limit_without_order_by_keeps_the_first_rows_by_key(db: Database) -> None:
    """As rows come and go; how many rows there are is right in any case."""
    views = {
        "a": ("SELECT k, v FROM t {} LIMIT 3 OFFSET 1", "ORDER BY k"),
        "b": ("SELECT g, sum(v) AS s FROM t GROUP BY g {} LIMIT 2", "ORDER BY g"),
        "c": ("SELECT i FROM u WHERE i IN (SELECT k FROM t {} OFFSET 2)", "ORDER BY k"),
    }
    put(db.store, "t", *((k, "abc"[k % 3], k) for k in range(2, 8)))
    for name, (query, _) in views.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query.format('')}")
    put(db.store, "u", *((i, "x", i) for i in range(8)))
    put(db.store, "t", (0, "b", 1), (3, None, 9))
    db.refresh()
    for name, (query, order) in views.items():
        assert_view_is(db, name, query.format(order))
    db.sql("DELETE FROM t WHERE k IN (0, 2, 4)")
    db.refresh()
    for name, (query, order) in views.items():
        assert_view_is(db, name, query.format(order))
    assert all(report.problems == () for report in db.check_views())
    explained = db.sql(f"EXPLAIN CREATE MATERIALIZED VIEW d AS {views['a'][0].format('')}")
    assert "TopN 3 after 1 by key" in only_row(explained).plan


def test_explain_says_what_a_broadcast_join_costs(db: Database) -> None:
    """A join without an equality is shown with its units, the order of its state and its cost."""
    query = "SELECT t.k, u.i FROM t LEFT JOIN u ON t.v < u.n AND t.g <> u.g"
    text = only_row(db.sql(f"EXPLAIN CREATE MATERIALIZED VIEW p AS {query}")).plan
    assert "Join left ON v < n AND (g <> g_2) by broadcast, a change costs the other" in text
    assert "Fragment 1: from scan of t, scan of u; all rows in every unit; units" in text
    assert "Executor 1: broadcast_join" in text
    assert "key (n, i)" in text
    assert "Fragment 2: from fragment 1; distributed by k" in text


def test_a_moving_row_costs_the_rows_between_its_values(db: Database) -> None:
    """Filters by one row that moves follow it, in several units, and read only what moves."""
    queries = {
        "above": "SELECT k, v FROM t WHERE v > (SELECT max(n) FROM u)",
        "least": "SELECT k, v FROM t WHERE v = (SELECT min(v) FROM t)",
        "ranged": """SELECT k FROM t
            WHERE v BETWEEN (SELECT min(n) FROM u) AND (SELECT 2 * avg(n) FROM u)""",
        "kept": "SELECT k, g FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.n < t.v AND u.g = 'x')",
    }
    put(db.store, "t", *((n, "ab"[n % 2], n) for n in range(200)))
    for name, query in queries.items():
        properties = "TBLPROPERTIES ('parallelism' = '3')"
        db.sql(f"CREATE MATERIALIZED VIEW {name} {properties} AS {query}")
    text = only_row(db.sql("EXPLAIN MATERIALIZED VIEW above")).plan
    assert "a change of the one row costs the rows that its range of v gains or loses" in text
    steps: list[list[tuple[object, ...]]] = [
        [(1, "x", 50)],
        [(1, "x", 55), (2, "x", 3)],
        [(1, "x", None), (2, None, None)],
        [(1, "x", -5)],
    ]
    for number, rows in enumerate(steps):
        put(db.store, "u", *rows)
        if number == 2:
            db.sql("ALTER MATERIALIZED VIEW ranged SET PARALLELISM 5")
            put(db.store, "t", (0, "a", None), (500, "b", -7))
        db.refresh()
        for name, query in queries.items():
            assert_view_is(db, name, query)
    assert [report.problems for report in db.check_views()] == [()] * len(queries)


def test_rows_that_cancel_between_copies_keep_the_count(db: Database) -> None:
    """EXCEPT ALL has each row as often as the first input has it more than the second."""
    query = "SELECT g FROM t EXCEPT ALL SELECT g FROM u"
    db.sql(f"CREATE MATERIALIZED VIEW e AS {query}")
    for step in range(4):
        put(db.store, "t", *((n, "ab"[n % 2], n) for n in range(step * 3)))
        put(db.store, "u", *((n, "ab"[n % 2], n) for n in range(step * step // 2)))
        db.refresh()
        assert_view_is(db, "e", query)
    assert db.check_views()[0].problems == ()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) AS c FROM t LIMIT 10",
        """SELECT a.c, b.m FROM (SELECT count(*) AS c FROM t) a,
            (SELECT max(n) AS m FROM u HAVING count(*) > 1) b LIMIT 1""",
    ],
)
def test_a_limit_of_one_row_needs_no_order(db: Database, query: str) -> None:
    """LIMIT takes all of a query that has one row at most."""
    db.sql(f"CREATE MATERIALIZED VIEW o AS {query}")
    assert_view_is(db, "o", query)
    for step in range(1, 3):
        put(db.store, "t", *((n, "a", n) for n in range(step)))
        put(db.store, "u", *((n, "a", n) for n in range(step)))
        db.refresh()
        assert_view_is(db, "o", query)


def test_the_order_of_a_subquery_without_a_limit_means_nothing(db: Database) -> None:
    """ORDER BY is left out of a subquery that compares rows with those of the query around it."""
    query = "SELECT k FROM t WHERE v IN (SELECT n FROM u WHERE u.g = t.g ORDER BY i DESC, n)"
    db.sql(f"CREATE MATERIALIZED VIEW o AS {query}")
    for step in range(1, 4):
        put(db.store, "t", *((n, "ab"[n % 2], n) for n in range(step * 2)))
        put(db.store, "u", *((n, "ab"[n % 2], n) for n in range(step)))
        db.refresh()
        assert_view_is(db, "o", query)


def test_functions_of_rows_large_cubes_and_sums_of_intervals_follow_their_rows(
    db: Database,
) -> None:
    """Windows are over the rows that a function returns; sums of intervals need no recompute."""
    stamp = "timestamp_seconds(v)"
    cells = "k % 2 AS a, g, v % 2 AS b, v % 3 AS c, k % 3 AS d, k % 5 AS e, v % 5 AS f"
    views = {
        "counted": "SELECT k, explode(array(v, k)) AS e, count(*) OVER (PARTITION BY g) AS c, "
        "sum(v) OVER (PARTITION BY g ORDER BY k) AS s FROM t",
        "ordered": "SELECT k, posexplode(array(v, k)) AS (p, e) FROM t ORDER BY e DESC, k, p "
        "LIMIT 3",
        "last": "SELECT window_time(w) AS m, count(*) AS c "
        f"FROM (SELECT window({stamp}, '2 seconds') AS w FROM t) GROUP BY window_time(w)",
        "cube": "SELECT a, g, b, c, d, e, f, count(*) AS n, grouping_id() AS i "
        f"FROM (SELECT {cells} FROM t) GROUP BY CUBE (a, g, b, c, d, e, f)",
        "numbers": "SELECT id FROM range(1 + 2, 2 * 5L, 7 - (2 + 3))",
        "lengths": "SELECT g, sum(v * INTERVAL '1:30' MINUTE TO SECOND) AS s, "
        "sum(DISTINCT make_dt_interval(0, int(v))) AS d, max(make_dt_interval(int(k))) AS m "
        "FROM t GROUP BY g",
    }
    put(db.store, "t", (1, "a", 2), (2, "b", 3), (3, "a", 5))
    for name, query in views.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    plan = db.sql("EXPLAIN MATERIALIZED VIEW lengths").collect()[0].plan
    assert "recompute" not in plan
    put(db.store, "t", (2, "a", 4), (4, None, 1))
    db.sql("DELETE FROM t WHERE k = 1")
    db.refresh()
    for name, query in views.items():
        assert_view_is(db, name, query)
