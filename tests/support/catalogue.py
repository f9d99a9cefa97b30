"""SELECTs over the tables of `moving`, one for every operator and its forms, that a view can keep.

Where a SELECT takes some of its rows, its order tells all of them apart. Those of ``OVER_VIEWS``
read views of the catalogue; ``{v}`` stands for what their names begin with. Those of ``RECOMPUTED``
are maintained by keyed recompute.
"""

from __future__ import annotations

SHAPES: dict[str, str] = {
    # Joins without an equality, and those whose equalities are not where the inputs are
    "commas": "SELECT t.k, u.i, u.s, w.name FROM t, w, u WHERE t.n = u.n AND w.g = u.g",
    "orequal": """SELECT t.k, u.i, u.s FROM t, u WHERE (t.n = u.n AND t.v > 0)
        OR (u.n = t.n AND u.x > 0)""",
    "cross": "SELECT t.k, w.g, w.name FROM t CROSS JOIN w WHERE t.v > 0",
    "range": "SELECT t.k, u.i, u.s FROM t JOIN u ON t.v < u.n AND t.n >= u.i",
    "rangeleft": "SELECT t.k, w.g, w.r FROM t LEFT JOIN w ON t.m > w.r AND t.n > 0",
    "rangefull": "SELECT t.k, w.g FROM t FULL JOIN w ON t.m < w.r",
    "rangesemi": "SELECT k, m FROM t LEFT SEMI JOIN w ON t.m > w.r",
    "rangeanti": "SELECT k, m FROM t LEFT ANTI JOIN w ON t.m > w.r",
    # Set operations
    "intersect": "SELECT g, n FROM t INTERSECT SELECT g, n FROM u",
    "except": "SELECT g, n FROM t EXCEPT SELECT g, n FROM u",
    "intersectall": "SELECT g FROM t INTERSECT ALL SELECT g FROM u",
    "exceptall": "SELECT x FROM t EXCEPT ALL SELECT x FROM u",
    # Common tables, and equal subqueries, that are read several times
    "shared": """WITH a AS (SELECT g, n, count(*) AS c, sum(v) AS s FROM t GROUP BY g, n)
        SELECT x.g, x.n, x.s, y.c FROM a AS x JOIN a AS y ON x.g = y.g AND x.c <= y.n""",
    "sharednested": """WITH a AS (SELECT g, sum(n) AS s FROM u GROUP BY g), b AS (SELECT t.k, a.s
        FROM t JOIN a ON t.g = a.g) SELECT k, s FROM b WHERE s = (SELECT max(s) FROM a)
        UNION ALL SELECT count(*), max(s) FROM b WHERE k > 3""",
    # Constants
    "constant": "SELECT 1 AS a, 'x' AS b",
    "constants": """SELECT t.k, c.name FROM t JOIN VALUES (0, 'zero'), (1, 'one'), (NULL, 'none')
        AS c(n, name) ON t.n <=> c.n""",
    "constantunion": "SELECT g, n FROM u UNION ALL VALUES ('x', 1), (NULL, 2)",
    "numbers": """SELECT r.id, count(t.k) AS c FROM range(-2, 4) AS r LEFT JOIN t ON t.n = r.id
        GROUP BY r.id""",
    # Subqueries in expressions
    "exists": "SELECT k, g FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.g = t.g AND u.n > t.n)",
    "existsor": """SELECT k, EXISTS (SELECT 1 FROM w WHERE w.g = t.g) AS e FROM t
        WHERE v > 0 OR NOT EXISTS (SELECT 1 FROM u WHERE u.n = t.n)""",
    "existsany": "SELECT k FROM t WHERE NOT EXISTS (SELECT 1 FROM w WHERE w.r > 6)",
    "in": "SELECT k, n FROM t WHERE (g, n) IN (SELECT g, n FROM u)",
    "notin": "SELECT k, n FROM t WHERE n NOT IN (SELECT n FROM u WHERE i > 3)",
    "notinkey": "SELECT k FROM t WHERE k NOT IN (SELECT i FROM u)",
    "notincorrelated": "SELECT k FROM t WHERE n NOT IN (SELECT u.n FROM u WHERE u.g = t.g)",
    "inselect": """SELECT k, g IN (SELECT g FROM u WHERE i < 2) AS a,
        g NOT IN (SELECT name FROM w WHERE ok) AS b FROM t""",
    "scalar": "SELECT k, v FROM t WHERE v > (SELECT avg(n) FROM u)",
    "scalarempty": "SELECT k, (SELECT name FROM w WHERE g = 'a') AS name FROM t",
    "scalars": """SELECT k, (SELECT count(*) FROM u WHERE u.n = t.n) AS c,
        (SELECT max(u.x) FROM u WHERE u.g = t.g) AS x, (SELECT w.r FROM w WHERE w.g = t.g) AS r
        FROM t""",
    "scalarhaving": """SELECT g, sum(v) AS s FROM t GROUP BY g
        HAVING sum(v) > (SELECT min(n) FROM u) OR g IN (SELECT g FROM w)""",
    "existsgroups": """SELECT k, EXISTS (SELECT count(*) FROM u WHERE u.n = t.n HAVING count(*) = 0)
        AS e FROM t WHERE v IS NULL OR EXISTS (SELECT 1 FROM u WHERE u.g = t.g GROUP BY u.i
        HAVING max(u.n) > 1)""",
    "ingroups": """SELECT k, n FROM t
        WHERE v IN (SELECT max(u.n) FROM u WHERE u.g = t.g GROUP BY u.i
        HAVING count(*) > 1) OR n NOT IN (SELECT max(u.n) FROM u WHERE u.g = t.g GROUP BY u.s)""",
    "notincount": """SELECT k FROM t WHERE n NOT IN
        (SELECT count(u.n) FROM u WHERE u.g = t.g HAVING max(u.i) > 0)""",
    "inunion": """SELECT k FROM t WHERE v IN (SELECT u.n FROM u WHERE u.g = t.g UNION ALL
        SELECT r.k FROM t AS r WHERE r.n = t.n AND r.v > 0) OR n IS NULL""",
    "notinunion": """SELECT k FROM t WHERE NOT v IN (SELECT u.n FROM u WHERE u.g = t.g UNION
        SELECT max(u.n) FROM u WHERE u.i = t.n)""",
    "havingouter": """SELECT g, count(*) AS c FROM t GROUP BY g
        HAVING EXISTS (SELECT 1 FROM u WHERE u.n <= max(t.n) AND u.g = t.g)""",
    "onor": """SELECT t.k, u.i, u.s FROM t LEFT JOIN u ON t.n = u.n AND (t.v > 0
        OR EXISTS (SELECT 1 FROM w WHERE w.g = u.g))""",
    "nullin": "SELECT k, NULL IN (SELECT g FROM w WHERE r > 6) AS e FROM t",
    # Functions that return rows
    "exploded": """SELECT k, p, e FROM t
        LATERAL VIEW OUTER posexplode(filter(array(v, n, k), y -> y > 1)) q AS p, e""",
    "explodegroup": """SELECT e, count(*) AS c FROM t LATERAL VIEW explode(array(n, v)) AS e
        GROUP BY e""",
    "explodemap": "SELECT k, explode(map('v', v, 'n', n)) AS (name, value) FROM t",
    "tumbling": """SELECT window.start AS s, count(*) AS c, max(v) AS v FROM t
        GROUP BY window(ts, '1 hour')""",
    "hopping": """SELECT window(ts, '2 hours', '45 minutes', '5 minutes') AS w, g, count(*) AS c
        FROM t GROUP BY window(ts, '2 hours', '45 minutes', '5 minutes'), g""",
    "inlined": "SELECT k, inline(array(struct(g, n), struct('x' AS g, 7 AS n))) FROM t",
    "stacked": "SELECT k, stack(2, 'v', v, 'n', CAST(n AS BIGINT)) AS (name, value) FROM t",
    # Windows from the first changed row on, and ranks with ties
    "around": """SELECT k, lag(v) OVER w AS a, lead(m, 2, 0) OVER w AS b,
        lag(g, 1, 'none') OVER w AS c,
        sum(v) OVER (PARTITION BY g ORDER BY k ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s,
        avg(m) OVER (PARTITION BY g ORDER BY k ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS e,
        min(x) OVER (PARTITION BY g ORDER BY x, k ROWS 2 PRECEDING) AS l,
        last_value(ts) OVER (PARTITION BY g ORDER BY k ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING)
        AS o FROM t WINDOW w AS (PARTITION BY g ORDER BY d DESC, k)""",
    "running": """SELECT k, sum(v) OVER w AS s, count(n) OVER w AS c, avg(n) OVER w AS a,
        avg(m) OVER w AS am, max(g) OVER w AS h, first_value(ts) OVER w AS f,
        sum(m) OVER (PARTITION BY n ORDER BY v) AS p, rank() OVER (PARTITION BY n ORDER BY v) AS r,
        dense_rank() OVER (PARTITION BY n ORDER BY v DESC NULLS FIRST) AS e
        FROM t WINDOW w AS (PARTITION BY n ORDER BY k ROWS UNBOUNDED PRECEDING)""",
    "runningall": """SELECT k, row_number() OVER (ORDER BY x DESC, k) AS p,
        max(m) OVER (ORDER BY d) AS h,
        count(*) OVER (ORDER BY d RANGE BETWEEN CURRENT ROW AND CURRENT ROW) AS c FROM t""",
    "ranges": """SELECT k,
        sum(v) OVER (PARTITION BY g ORDER BY n RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS i,
        max(m) OVER (PARTITION BY g ORDER BY d DESC
            RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND INTERVAL 2 DAYS FOLLOWING) AS h,
        count(*) OVER (PARTITION BY g ORDER BY d
            RANGE BETWEEN INTERVAL 1 MONTH PRECEDING AND CURRENT ROW) AS c,
        avg(n) OVER (PARTITION BY g ORDER BY ts
            RANGE BETWEEN INTERVAL 1 HOUR PRECEDING AND INTERVAL 23 HOURS FOLLOWING) AS a,
        sum(m) OVER (PARTITION BY g ORDER BY x DESC NULLS FIRST
            RANGE BETWEEN 0.5 PRECEDING AND 1 FOLLOWING) AS s,
        min(v) OVER (PARTITION BY g ORDER BY m NULLS LAST
            RANGE BETWEEN 1 FOLLOWING AND 2.5 FOLLOWING) AS l FROM t""",
    "rangesall": """SELECT k, count(v) OVER (ORDER BY CAST(v AS TINYINT)
        RANGE BETWEEN 70 PRECEDING AND 1 PRECEDING) AS c,
        sum(n) OVER (ORDER BY v DESC RANGE BETWEEN CURRENT ROW AND 20 FOLLOWING) AS s FROM t""",
    "nearest": """SELECT k, lag(n) IGNORE NULLS OVER w AS a, lead(m, 2, 0) IGNORE NULLS OVER w AS b,
        last_value(x) IGNORE NULLS OVER w AS c, first_value(n) IGNORE NULLS OVER w AS e,
        nth_value(v, 2) OVER w AS f, nth_value(n, 2) IGNORE NULLS OVER w AS h,
        first(n, true) OVER (PARTITION BY g ORDER BY d DESC, k ROWS 2 PRECEDING) AS i,
        nth_value(n, 2) IGNORE NULLS OVER (PARTITION BY g ORDER BY k ROWS 3 PRECEDING) AS j,
        nth_value(n, 3) IGNORE NULLS OVER (PARTITION BY g ORDER BY k ROWS UNBOUNDED PRECEDING) AS o
        FROM t WINDOW w AS (PARTITION BY g ORDER BY d DESC, k)""",
    "toend": """SELECT k, sum(v) OVER w AS s, count(n) OVER w AS c, avg(n) OVER w AS a,
        min(g) OVER w AS h, last_value(ts) OVER w AS f, first_value(n) IGNORE NULLS OVER w AS i,
        sum(m) OVER (PARTITION BY n ORDER BY v RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
        AS p, max(v) OVER (PARTITION BY n ORDER BY k DESC
            ROWS BETWEEN 2 FOLLOWING AND UNBOUNDED FOLLOWING) AS q,
        count(*) OVER (PARTITION BY n ORDER BY k
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS r,
        sum(v) OVER (PARTITION BY n ORDER BY d
            RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND UNBOUNDED FOLLOWING) AS t
        FROM t WINDOW w AS (PARTITION BY n ORDER BY k
            ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)""",
    "wholes": """SELECT k, sum(v) OVER w AS s, count(*) FILTER (WHERE v > 0) OVER w AS c,
        max(m) OVER w AS h, max_by(k, v) OVER w AS b, lag(k) OVER (PARTITION BY n ORDER BY k) AS l,
        last_value(v) OVER (PARTITION BY n ORDER BY k ROWS BETWEEN UNBOUNDED PRECEDING AND
            UNBOUNDED FOLLOWING) AS e, min(v) OVER () AS m
        FROM t WINDOW w AS (PARTITION BY n)""",
    "rankedtop": """SELECT k, g, v, r FROM
        (SELECT *, rank() OVER (PARTITION BY g ORDER BY v DESC) AS r FROM t) WHERE r <= 2""",
    "rankedall": "SELECT k, n FROM t QUALIFY dense_rank() OVER (ORDER BY n DESC NULLS LAST) < 3",
    # Columns for rows, and rows for columns
    "pivot": """SELECT * FROM (SELECT g, v, n FROM t)
        PIVOT (sum(v) AS s, count(*) AS c FOR n IN (0, 1, NULL AS none))""",
    "pivottext": """SELECT * FROM (SELECT g, d, n FROM t)
        PIVOT (max(g) AS m, count(n) FOR n IN (1, 2))""",
    "unpivot": """SELECT p.k, p.name, p.value FROM (SELECT k, v, CAST(n AS BIGINT) AS n FROM t)
        UNPIVOT (value FOR name IN (v, n AS `the n`)) AS p""",
    # Sessions
    "session": """SELECT g, session_window.start AS s, session_window.end AS e, count(*) AS c,
        max(v) AS v FROM t GROUP BY g, session_window(ts, '45 minutes')""",
    "sessions": """SELECT session_window(ts, gap) AS w, count(DISTINCT g) AS c
        FROM (SELECT *, CASE WHEN n > 1 THEN '2 hours' WHEN n = 0 THEN '1 minute' END AS gap FROM t)
        GROUP BY session_window(ts, gap)""",
    # LATERAL subqueries
    "lateral": """SELECT t.k, q.i, q.s, q.y FROM t LEFT JOIN LATERAL (SELECT i, s, u.n + t.v AS y
        FROM u WHERE u.g = t.g AND u.n < t.v) q ON TRUE""",
    "lateralcount": """SELECT t.k, q.c, q.x FROM t, LATERAL (SELECT count(*) AS c, max(u.i) AS x
        FROM u WHERE u.n = t.n) q""",
    "lateralgroups": """SELECT t.k, q.g, q.c FROM t, LATERAL (SELECT u.g, count(*) AS c FROM u
        WHERE u.n = t.n GROUP BY u.g) q WHERE q.c > 1""",
    "lateraltop": """SELECT w.g, q.k, q.v FROM w LEFT JOIN LATERAL (SELECT k, v FROM t
        WHERE t.g = w.g ORDER BY v DESC, k LIMIT 2) q ON TRUE""",
    # The nearest row
    "asof": """SELECT t.k, u.i, u.s FROM t LEFT ASOF JOIN u
        MATCH_CONDITION ((t.v, 9, 'z') >= (u.n, u.i, u.s)) ON t.g = u.g""",
    "asofafter": """SELECT a.k, b.k AS next FROM t a ASOF JOIN t b
        MATCH_CONDITION (b.k > a.k) ON b.v < a.v WHERE b.d IS NOT NULL""",
    "asofkey": "SELECT a.k, b.k AS next FROM t a LEFT ASOF JOIN t b MATCH_CONDITION (a.v < b.k)",
    "asofless": "SELECT t.k, u.n FROM t ASOF JOIN u MATCH_CONDITION (t.v < u.n) ON u.g <=> t.g",
    # Expressions of Spark's own
    "intervals": """SELECT g, sum(ts - TIMESTAMP'2024-02-28 22:00:00') AS s,
        min(ts - INTERVAL 1 DAY 2 HOURS) AS m FROM t GROUP BY g""",
    "months": """SELECT g, CAST(sum(INTERVAL '1' MONTH * n) AS STRING) AS s,
        d + min(make_ym_interval(1, n)) AS m, CAST(avg(DISTINCT INTERVAL '7' MONTH * n) AS STRING)
        AS a FROM t GROUP BY g, d HAVING sum(INTERVAL '1' MONTH * n) IS NOT NULL""",
    "variant": """SELECT k, parse_json(to_json(named_struct('a', array(n, v)))):a[1]::bigint AS v
        FROM t""",
    "sketches": """SELECT g, hll_sketch_estimate(hll_sketch_agg(n)) AS h,
        hex(count_min_sketch(v, 0.5d, 0.5d, 1)) AS c, size(approx_top_k(n, 8)) AS k
        FROM t WHERE n IS NOT NULL GROUP BY g""",
}
"""Shapes of queries beyond the plain ones; a part of the catalogue."""

CATALOGUE: dict[str, str] = {
    # Filters and projections
    "plain": "SELECT * FROM t",
    "filtered": "SELECT k, upper(g) AS g, v * 2 + n AS e, -x AS x FROM t WHERE v > 0 OR n IS NULL",
    "shaped": """SELECT k, CASE WHEN x > 0 THEN 'up' WHEN x < 0 THEN 'down' END AS way,
        date_trunc('HOUR', ts) AS hour, m + CAST(n AS DECIMAL(4,0)) AS m, d + 1 AS d,
        struct(g, n) AS both, array(v, n) AS list FROM t WHERE NOT (g <=> 'a')""",
    # Aggregates
    "values": """SELECT g, count(*) AS c, count(v) AS cv, sum(v) AS s, sum(m) AS sm, sum(x) AS sx,
        avg(v) AS a, avg(m) AS am, avg(x) AS ax FROM t GROUP BY g""",
    "extremes": """SELECT n, min(v) AS a, max(v) AS b, min(g) AS c, max(g) AS d, min(x) AS e,
        max(x) AS f, min(m) AS h, max(m) AS i, max(d) AS j, min(ts) AS l FROM t GROUP BY n""",
    "variances": """SELECT d, stddev(x) AS a, stddev_pop(x) AS b, variance(v) AS c, var_pop(m) AS e,
        var_samp(n) AS f, std(n) AS h FROM t WHERE x IS NULL OR abs(x) < 1000 GROUP BY d""",
    "distincts": """SELECT g, count(DISTINCT n) AS a, sum(DISTINCT v) AS b, avg(DISTINCT m) AS c,
        count(DISTINCT x) AS e, max(DISTINCT v) AS f, count(*) AS h FROM t GROUP BY g""",
    "filters": """SELECT n, count(*) FILTER (WHERE v > 0) AS a, sum(v) FILTER (WHERE g = 'a') AS b,
        min(x) FILTER (WHERE m > 0) AS c, max(ts) FILTER (WHERE g IS NOT NULL) AS e,
        count(DISTINCT g) FILTER (WHERE v IS NOT NULL) AS f,
        avg(x) FILTER (WHERE abs(x) < 9) AS h FROM t GROUP BY n""",
    "global": """SELECT count(*) AS c, sum(v) AS s, max(g) AS g, min(ts) AS ts, avg(m) AS m,
        count(DISTINCT n) AS n, stddev(v) AS sd, sum(x) FILTER (WHERE n = 1) AS x FROM t""",
    "globalhaving": "SELECT sum(v) AS s FROM t HAVING count(*) > 8",
    "having": "SELECT g, n, count(*) AS c FROM t GROUP BY g, n HAVING count(*) > 1 AND max(v) > 0",
    "expressions": """SELECT upper(g) AS u, sum(v) + count(*) AS e, max(v) - min(v) AS w
        FROM t GROUP BY upper(g)""",
    "bydouble": "SELECT x, count(*) AS c, sum(n) AS s FROM t GROUP BY x",
    "bytime": "SELECT ts, d, m, count(*) AS c, max(g) AS g FROM t GROUP BY ts, d, m",
    "keyless": "SELECT count(*) AS c FROM t GROUP BY g, n % 2",
    "distinct": "SELECT DISTINCT g, n FROM t",
    "distinctdouble": "SELECT DISTINCT x, m > 0 AS p FROM t",
    "distinctof": "SELECT DISTINCT count(*) AS c, max(n) AS n FROM t GROUP BY g",
    "twice": """SELECT c, count(*) AS groups, sum(s) AS s FROM
        (SELECT g, n, count(*) AS c, sum(v) AS s FROM t GROUP BY g, n) GROUP BY c""",
    "regroup": """SELECT g, max(c) AS c, min(s) AS s FROM
        (SELECT g, n, count(*) AS c, sum(m) AS s FROM t GROUP BY g, n) AS q GROUP BY g""",
    # Joins
    "inner": "SELECT t.k, t.g, w.name, w.r FROM t JOIN w ON t.g = w.g",
    "innerextra": "SELECT t.k, u.i, u.s FROM t JOIN u ON t.g = u.g AND t.v > u.n AND t.k % 2 = 0",
    "innerusing": "SELECT g, k, i, u.n FROM t JOIN u USING (g)",
    "left": "SELECT t.k, t.v, w.name FROM t LEFT JOIN w ON t.g = w.g",
    "leftextra": "SELECT t.k, u.i, u.s FROM t LEFT JOIN u ON t.n = u.n AND u.x > t.x AND u.i < 3",
    "right": "SELECT t.k, w.g, w.ok FROM t RIGHT JOIN w ON t.g = w.g AND t.d = w.d",
    "rightextra": "SELECT t.k, w.g FROM t RIGHT JOIN w ON t.g = w.g AND (t.v > 3 OR w.ok)",
    "full": "SELECT t.k, u.i, u.s, t.n AS tn, u.n AS un FROM t FULL JOIN u ON t.n = u.n",
    "fullextra": """SELECT t.k, u.i, u.s FROM t FULL JOIN u ON t.g = u.g AND t.n = u.n
        AND coalesce(t.m, 0) < coalesce(u.m, 1)""",
    "fullusing": "SELECT g, name, k FROM t FULL JOIN w USING (g)",
    "semi": "SELECT * FROM w LEFT SEMI JOIN t ON t.g = w.g",
    "semiextra": "SELECT k, x FROM t LEFT SEMI JOIN u ON t.n = u.n AND t.m > u.m",
    "anti": "SELECT * FROM w LEFT ANTI JOIN t ON t.g = w.g",
    "antiextra": "SELECT k, g FROM t LEFT ANTI JOIN u ON t.g = u.g AND t.x < u.x",
    "nullsafe": "SELECT t.k, u.i, u.s FROM t LEFT JOIN u ON t.g <=> u.g AND t.n = u.n",
    "nullsafefull": "SELECT t.k, u.i, u.s, u.g FROM t FULL JOIN u ON t.g <=> u.g AND t.n <=> u.n",
    "bydoubles": "SELECT t.k, u.i, u.s FROM t JOIN u ON t.x = u.x",
    "bydecimals": "SELECT t.k, u.i, u.s FROM t FULL JOIN u ON t.m = u.m",
    "self": "SELECT a.k AS ak, b.k AS bk FROM t AS a JOIN t AS b ON a.g = b.g AND a.k < b.k",
    "selfleft": "SELECT a.k, b.k AS next, b.v FROM t AS a LEFT JOIN t AS b ON a.k + 1 = b.k",
    "three": """SELECT t.k, u.i, u.s, w.name FROM t JOIN u ON t.n = u.n JOIN w ON u.g = w.g""",
    "threeouter": """SELECT t.k, u.i, w.name, w.g FROM t LEFT JOIN u ON t.n = u.n AND u.i = 1
        FULL JOIN w ON coalesce(u.g, t.g) = w.g""",
    "threesame": "SELECT t.k, u.i, u.s, w.r FROM t JOIN u ON t.g = u.g LEFT JOIN w ON w.g = t.g",
    "joined": """SELECT w.name, count(*) AS c, sum(t.v) AS s, max(t.x) AS x, count(t.k) AS ck
        FROM w LEFT JOIN t ON t.g = w.g GROUP BY w.name""",
    "ofgroups": """SELECT a.g, a.c, b.s FROM (SELECT g, count(*) AS c FROM t GROUP BY g) AS a
        FULL JOIN (SELECT g, sum(n) AS s FROM u GROUP BY g) AS b ON a.g = b.g""",
    # Top n
    "top": "SELECT k, v FROM t ORDER BY v DESC, k LIMIT 5",
    "topnulls": "SELECT k, x, g FROM t ORDER BY x DESC NULLS FIRST, g ASC NULLS LAST, k LIMIT 6",
    "offset": "SELECT k, m FROM t WHERE n IS NOT NULL ORDER BY m, k DESC LIMIT 4 OFFSET 2",
    "groups": """SELECT g, c FROM (SELECT g, count(*) AS c FROM t GROUP BY g)
        ORDER BY c DESC, g LIMIT 2""",
    "grouptop": """SELECT g, k, v, p FROM (SELECT *, row_number() OVER (PARTITION BY g
        ORDER BY v DESC, k) AS p FROM t) WHERE p <= 2""",
    "grouptopone": """SELECT k, n, x FROM (SELECT *, row_number() OVER (PARTITION BY n, d ORDER BY
        x DESC NULLS LAST, k) AS p FROM t) WHERE p = 1""",
    "qualified": """SELECT k, n, ts FROM t
        QUALIFY row_number() OVER (PARTITION BY n ORDER BY ts, k) <= 3""",
    "topofjoin": """SELECT g, k, name FROM (SELECT t.g, t.k, w.name, row_number() OVER
        (PARTITION BY w.name ORDER BY t.k DESC) AS p FROM t JOIN w ON t.g = w.g) WHERE p < 3""",
    "topthengroup": """SELECT g, count(*) AS c FROM (SELECT g, k FROM t ORDER BY k LIMIT 10)
        GROUP BY g""",
    # Unions, subqueries and common tables
    "union": "SELECT g, n FROM t UNION ALL SELECT g, n FROM u UNION ALL SELECT name, 7 FROM w",
    "unionsame": "SELECT k, v FROM t WHERE v > 0 UNION ALL SELECT k, v FROM t WHERE n = 1",
    "uniongroup": """SELECT g, count(*) AS c, sum(q) AS q FROM
        (SELECT g, m AS q FROM t UNION ALL SELECT g, m FROM u) GROUP BY g""",
    "common": """WITH a AS (SELECT g, sum(v) AS s FROM t GROUP BY g),
        b AS (SELECT w.name, a.s FROM a JOIN w ON a.g = w.g)
        SELECT b.name, max(b.s) AS s, count(*) AS c FROM b GROUP BY b.name""",
    "nested": """SELECT q.g, q.c FROM (SELECT p.g, count(*) AS c FROM (SELECT g, n FROM (SELECT *
        FROM t WHERE v IS NOT NULL) WHERE n >= 0) AS p GROUP BY p.g) AS q WHERE q.c > 1""",
    **SHAPES,
}

OVER_VIEWS: dict[str, str] = {
    "viewtop": "SELECT g, s FROM {v}values ORDER BY s DESC, g LIMIT 3",
    "viewgroup": "SELECT name, count(*) AS c, max(k) AS k FROM {v}left GROUP BY name",
    "viewjoin": "SELECT a.g, a.c, b.a FROM {v}values AS a JOIN {v}distincts AS b ON a.g <=> b.g",
    "viewtable": "SELECT t.k, q.c FROM t LEFT JOIN {v}having AS q ON t.g = q.g AND t.n = q.n",
    "diamond": "SELECT a.g, a.c, b.k FROM {v}values AS a FULL JOIN {v}grouptop AS b ON a.g = b.g",
    "viewunion": "SELECT g, c FROM {v}values UNION ALL SELECT name, c FROM {v}viewgroup",
}

# A plan is frozen with the ids of its tables: what comes after the views above changes none.
RECURSIVE: dict[str, str] = {
    "recursive": """WITH RECURSIVE r(k, s, x, level) AS (SELECT k, g, x, 0 FROM t WHERE n = 1
        UNION ALL SELECT r.k, u.s, u.x, level + 1 FROM r JOIN u ON u.n = level AND level < 2)
        SELECT s, x, level, k % 2 AS p FROM r""",
}

RECOMPUTED: dict[str, str] = {
    # Aggregates by keyed recompute
    "lists": """SELECT g, sort_array(collect_list(v)) AS a, sort_array(collect_set(n)) AS b,
        sort_array(array_agg(DISTINCT v) FILTER (WHERE n > 0)) AS c, max_by(k, k) AS e
        FROM t GROUP BY g""",
    "quantiles": """SELECT n, percentile(v, 0.5) AS a, median(v) AS b,
        percentile_cont(0.25) WITHIN GROUP (ORDER BY v DESC) AS c,
        percentile_disc(0.5) WITHIN GROUP (ORDER BY v) FILTER (WHERE v > 0) AS d,
        percentile(v, array(0.1, 0.9)) AS e FROM t GROUP BY n""",
    "several": """SELECT g, count(DISTINCT n) AS a, count(DISTINCT v, m) AS b,
        sum(DISTINCT v) FILTER (WHERE n > 0) AS c, bool_or(v > 3) AS d, bit_xor(v) AS e,
        count_if(v > 0) AS f, every(n IS NULL) AS h, count(*) AS i FROM t GROUP BY g""",
    "moments": """SELECT d, corr(v, n) AS a, covar_samp(v, n) AS b, skewness(v) AS c,
        regr_slope(n, v) AS e, regr_count(n, v) AS f FROM t GROUP BY d""",
    "distinctpairs": "SELECT d, corr(DISTINCT v, n) AS a, count(*) AS c FROM t GROUP BY d",
    "listed": """SELECT n, listagg(g, ', ') WITHIN GROUP (ORDER BY k DESC) AS l,
        min_by(g, k) FILTER (WHERE v > 0) AS m FROM t GROUP BY n""",
    "globallist": """SELECT sort_array(collect_list(v)) AS l, try_sum(v) AS s, any_value(1) AS o,
        approx_count_distinct(v) AS c, count(*) AS n FROM t WHERE v > 40""",
    "listhaving": """SELECT upper(g) AS u, size(collect_list(v)) + count(*) AS e
        FROM t GROUP BY upper(g) HAVING max_by(v, k) > 0 AND median(v) < 30""",
    "listoflists": """SELECT c, sort_array(collect_list(g)) AS l FROM
        (SELECT g, size(collect_set(n)) AS c FROM t GROUP BY g) GROUP BY c""",
    # Grouping sets
    "rollup": """SELECT g, n, count(*) AS c, sum(v) AS s, grouping_id() AS i
        FROM t GROUP BY ROLLUP (g, n)""",
    "cube": """SELECT n % 2 AS p, d, max(g) AS g, sort_array(collect_list(v)) AS l, grouping(d) AS i
        FROM t GROUP BY CUBE (n % 2, d) HAVING count(*) > 1""",
    "sets": "SELECT g, n, min(v) AS v FROM t GROUP BY GROUPING SETS ((g, n), n, ())",
    "noset": """SELECT g, n, count(v) AS c, grouping__id AS i FROM t
        GROUP BY g, n GROUPING SETS (())""",
    # Windows
    "windows": """SELECT k, lag(v) OVER w AS a, lead(v, 2, 0) OVER w AS b,
        sum(v) OVER (PARTITION BY g ORDER BY k ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS c,
        count(*) OVER (PARTITION BY g) AS d, last_value(n) IGNORE NULLS OVER w AS e,
        nth_value(v, 2) OVER (PARTITION BY n, g ORDER BY k) AS f
        FROM t WINDOW w AS (PARTITION BY g ORDER BY k DESC)""",
    "ranked": """SELECT k, n, rank() OVER (PARTITION BY n ORDER BY v) AS a,
        dense_rank() OVER (PARTITION BY n ORDER BY g DESC) AS b,
        cume_dist() OVER (PARTITION BY n ORDER BY v) AS c,
        max(v) OVER (PARTITION BY n ORDER BY d RANGE BETWEEN INTERVAL 1 DAY PRECEDING
        AND CURRENT ROW) AS e FROM t""",
    "numbered": "SELECT k, row_number() OVER (PARTITION BY g ORDER BY v DESC, k) AS p FROM t",
    "numberedall": "SELECT k, row_number() OVER (ORDER BY x, k) AS p, sum(m) OVER () AS s FROM t",
    "numberedafter": """SELECT k, p FROM (SELECT k, row_number() OVER (PARTITION BY n ORDER BY k) AS
        p FROM t) WHERE p > 1""",
    "qualifiedrank": """SELECT k, g FROM t
        QUALIFY dense_rank() OVER (PARTITION BY g ORDER BY n) <= 2 AND count(*) OVER () > 3""",
    "rankedgroups": """SELECT g, sum(v) AS s, rank() OVER (ORDER BY sum(v) DESC) AS r,
        ntile(2) OVER (ORDER BY g) AS h FROM t GROUP BY g""",
    "windowgroup": """SELECT g, max(p) AS p, sum(l) AS l FROM (SELECT g, row_number() OVER
        (PARTITION BY g ORDER BY k) AS p, lag(v) OVER (PARTITION BY g ORDER BY k) AS l FROM t)
        GROUP BY g""",
    "windowtwice": """SELECT g, k, lag(c) OVER (PARTITION BY g ORDER BY k) AS l FROM
        (SELECT g, k, count(*) OVER (PARTITION BY g) + v AS c FROM t)""",
    # Aggregates over pairs, bits, orders and frequencies
    "paired": """SELECT g, corr(v, n) AS a, covar_samp(v, n) AS b, regr_slope(n, v) AS c,
        regr_r2(n, v) FILTER (WHERE k > 2) AS e, bit_xor(v) AS f, bit_and(DISTINCT n) AS h,
        count(*) AS i FROM t GROUP BY g""",
    "picked": """SELECT n, max_by(g, k) AS a, min_by(v, k) FILTER (WHERE v > 3) AS b,
        mode(v, true) AS c, mode() WITHIN GROUP (ORDER BY g) AS e FROM t GROUP BY n""",
    "approximate": """SELECT g, approx_count_distinct(v) AS a, count(*) AS c,
        approx_count_distinct(n, 0.1) FILTER (WHERE v > 2) AS b FROM t GROUP BY g""",
    **RECURSIVE,
}

TIMED: dict[str, str] = {
    "timed": "SELECT k, g FROM t WHERE ts > now() - INTERVAL 1 HOUR AND n > 0",
    "timedbetween": "SELECT k FROM t WHERE ts BETWEEN now() - INTERVAL 1 MONTH AND now()",
    "timeddate": "SELECT g, count(*) AS c FROM t WHERE d = current_date() GROUP BY g",
    "timedhaving": "SELECT g, max(ts) AS m FROM t GROUP BY g "
    "HAVING max(ts) > date_trunc('DAY', now())",
}
"""SELECTs over the present time, which are no case for whoever runs them at another time."""
