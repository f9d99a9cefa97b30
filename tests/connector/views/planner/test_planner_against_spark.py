"""The planner against Spark: a plan, run as a batch, gives the rows of its query."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from relstate.connector.views.operators import plan_from_json
from support.plans import evaluated
from support.spark import interpreted
from support.versions import skip_if_lacking

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from relstate.connector.views.plan.materialize import Materialize

QUERIES = """
SELECT * FROM t
SELECT id, x+1 AS b, b*2 AS c FROM t WHERE x > 1 AND g = 'a'
SELECT x AS id, id AS x FROM t ORDER BY id, x LIMIT 4
SELECT -x AS x, id FROM t WHERE x > 2 ORDER BY x, id
SELECT t.id, u.k, w.v FROM t, u RIGHT JOIN w ON t.id = w.id
SELECT t.id, u.k, w.v FROM t, u FULL JOIN w ON t.id = w.id AND u.k > 7 WHERE t.x = 1 OR t.x IS NULL
SELECT id, k, v, x FROM t, (SELECT k FROM u WHERE k < 4) JOIN w USING (id)
SELECT id, k, v FROM (SELECT id FROM t), (SELECT k FROM u WHERE k < 4) NATURAL RIGHT JOIN w
SELECT t.id, e, w.v FROM t, LATERAL explode(arr) AS x(e) RIGHT JOIN w ON t.id = w.id, u WHERE k = 1
SELECT count(*) AS c FROM t GROUP BY (g, x)
SELECT (g, x) AS p, (g, x + 1).col2 AS q, struct(g, x).g AS h, count(*) AS c FROM t GROUP BY ((g, x)), (g, x + 1)
SELECT (g, x) AS p, g, count(*) AS c FROM t GROUP BY ROLLUP (g), (g, x)
SELECT id, (g, x) IN (('a', 1), ('b', 2)) AS i FROM t WHERE (g, x) IN (SELECT g, x FROM u) OR id < 9
SELECT id, arrays_zip(arr, b) z, arrays_zip(b).b c, transform(array(arr), y -> arrays_zip(y, b, array(1))) n FROM (SELECT id, arr, arr AS b FROM t)
SELECT g, inline(arrays_zip(array_sort(collect_list(id)), array_sort(collect_list(x)))) FROM t GROUP BY g
SELECT g, sum(x) RESPECT NULLS s, array_size(collect_list(x) FILTER (WHERE id > 3) RESPECT NULLS) l, array_size(array_agg(x) IGNORE NULLS) i, array_size(collect_set(x) RESPECT NULLS) c, array_size(collect_list(DISTINCT x) RESPECT NULLS) d FROM t GROUP BY g
SELECT x, id FROM t ORDER BY (2) DESC LIMIT 3
SELECT id, count(*) OVER (PARTITION BY NULL) AS c, lag(id) OVER (PARTITION BY NULL, g ORDER BY NULL, id) AS l, ntile(2) OVER (PARTITION BY NULL ORDER BY id) AS n FROM t
SELECT count(*) AS c, max(id) AS m, NULL AS n FROM t GROUP BY NULL
SELECT n, g, count(*) AS c, median(x) AS m FROM (SELECT NULL AS n, g, x FROM t) GROUP BY n, g
SELECT g, count(*) FROM t GROUP BY (1)
SELECT st.a, st.b bb, t.st.b, arr[0] a0, m['a'], struct(x, g, st.a), struct(t.*) FROM t
SELECT t.id, struct(u.*) q, named_struct('s', struct(t.*)) r FROM (SELECT id, x FROM t) t LEFT JOIN u ON t.x = u.x
SELECT w.*, t.* EXCEPT (id, m) FROM t JOIN w USING (id)
SELECT * EXCEPT (w.id, arr, m) FROM t JOIN w ON t.id = w.id
SELECT g, count_min_sketch(seed => 1, epsilon => 0.5D, confidence => 0.5D, column => x) AS c FROM t GROUP BY g
SELECT transform(arr, e -> e + x) tr, aggregate(arr, 0, (q, e) -> q + e) FROM t
SELECT id, transform(arr, x -> x + t.x + size(filter(arr, id -> id > t.id OR x > 3))) AS a, transform(array(st), st -> st.a + t.st.a) AS b FROM t
SELECT date'2020-01-02' dd, interval 1 day + ts, 1L + x, 1.5D FROM t WHERE ts > timestamp'2020-01-02'
SELECT id, timestampadd(DAY, 1, ts) a, datediff(DAY, ts, ts) b, date_add(ts, 3) c FROM t
SELECT * EXCEPT (arr, m, st) FROM t x WHERE X.ID > 3 AND x.St.A > 4
SELECT id, g = 'a' AND x > 1 OR NOT (x IS NULL) AS f FROM t WHERE (g = 'a' OR g = 'b') AND x <= 4
SELECT id FROM t WHERE '{x}' = g OR x = 3
SELECT id, y > 1D a, x IN (SELECT k FROM u) b FROM t WHERE y > 20D OR EXISTS (SELECT 1 FROM u WHERE u.k = t.id)
SELECT id, q, v FROM t LEFT JOIN LATERAL explode_outer(m) AS l(q, v)
WITH RECURSIVE r(n, g, d) AS (SELECT id, g, d FROM t UNION ALL SELECT n + 20, g, d FROM r JOIN w ON w.id = n) SELECT * FROM r
WITH RECURSIVE r MAX RECURSION LEVEL 9 AS (VALUES (1), (1) UNION ALL SELECT col1 + 1 FROM r WHERE col1 < 7) SELECT a.col1 AS n, t.id FROM r a LEFT JOIN t ON t.x = a.col1 LIMIT ALL
WITH RECURSIVE f AS (SELECT id FROM t ORDER BY id LIMIT 2), r(n) AS (SELECT id FROM f UNION ALL (WITH input_1 AS (SELECT 1 AS z), recursion AS (SELECT id FROM w) SELECT n + z FROM r, input_1 JOIN recursion ON id = n)) SELECT n, count(*) AS c FROM r GROUP BY n
WITH u AS (SELECT id FROM w), c AS (SELECT id + 1 AS id FROM u) SELECT n FROM (WITH u AS (SELECT id * 10 AS id FROM c) SELECT * FROM (WITH RECURSIVE r(n) AS (SELECT u.id FROM u UNION ALL SELECT n + 10 FROM r WHERE n < 50) SELECT n FROM r))
WITH RECURSIVE q(n) AS (SELECT id FROM w UNION ALL SELECT n + 1 FROM q WHERE n < 3), r(n) AS (SELECT n FROM q UNION ALL SELECT n + (SELECT min(id) + 1 FROM w) FROM r WHERE n < 4) SELECT id FROM t WHERE EXISTS (SELECT 1 FROM r WHERE r.n = t.x)
SELECT g, count(*) AS n, sum(x) AS s, avg(y) FROM t GROUP BY g
SELECT count(*), sum(x), max(g) FROM t
SELECT count(*) c, max(x) FROM t WHERE x > 100
SELECT upper(g) u, count(DISTINCT x) n, count(DISTINCT x, g), count(x, y), min(y), max(ts), stddev(x), var_pop(d), mean(x), std(y) FROM t GROUP BY 1 HAVING sum(x) > 3 ORDER BY n DESC
SELECT g, sum(DISTINCT x), avg(DISTINCT x), count(DISTINCT 1), count(1), count('a') FROM t GROUP BY g
SELECT sum(2), count(NULL), max(1) FROM t
SELECT g, count(*) FILTER (WHERE x > 2) c, sum(x) FILTER (WHERE y > 20) FROM t GROUP BY ALL
SELECT x AS a, count(*) FROM t GROUP BY a HAVING a > 1 ORDER BY a
SELECT g, -sum(x) AS x FROM t GROUP BY g HAVING sum(x) > 2 ORDER BY x
SELECT g, sum(x) / count(*) r, CASE WHEN max(x) > 2 THEN 'big' ELSE g END FROM t GROUP BY g ORDER BY sum(x) / count(*) LIMIT 2
SELECT 'a' AS k, count(*) FROM t GROUP BY k
SELECT count(*) + 1 AS c FROM t HAVING count(*) > 3
SELECT st.a, count(st.b), max(st) FROM t GROUP BY st.a
SELECT s.g, max(s.total) FROM (SELECT g, x, sum(y) AS total FROM t GROUP BY g, x) s GROUP BY s.g
SELECT DISTINCT g, x FROM t ORDER BY x, g
WITH a AS (SELECT g, x, sum(y) AS s, count(*) AS c FROM t GROUP BY g, x) SELECT a.g, a.s, b.c FROM a JOIN a b ON a.x = b.x AND a.c < b.c
WITH a AS (SELECT g, sum(x) AS s FROM t GROUP BY g), b AS (SELECT w.v, a.s FROM w JOIN a ON w.id = a.s) SELECT s, v FROM b WHERE v > 'v0' UNION ALL SELECT s, v FROM b UNION ALL SELECT max(s), g FROM a GROUP BY g
SELECT g, sum(x) FROM t GROUP BY g HAVING sum(x) = (SELECT max(s) FROM (SELECT sum(x) AS s FROM t GROUP BY g))
SELECT DISTINCT x FROM t ORDER BY x LIMIT 3
SELECT lower(c) COLLATE UTF8_BINARY AS h, count(*) AS n FROM (SELECT (CASE WHEN x > 2 THEN upper(g) ELSE g END) COLLATE UTF8_LCASE AS c FROM t) GROUP BY ALL ORDER BY h LIMIT 2
SELECT t.id, q.`(k + 1)` AS m FROM t, LATERAL (SELECT k + 1 FROM u WHERE u.g = t.g) q
SELECT id, l.`max(k)` FROM t LEFT JOIN LATERAL (SELECT max(k) FROM u WHERE u.g = t.g) l ON l.`max(k)` > 3 JOIN w USING (id)
WITH c AS (SELECT k, g FROM u) SELECT id, m.`(outer(l.max(k)) + 1)` AS v, `max(k)` FROM t, LATERAL (SELECT max(k) FROM c WHERE c.g = t.g) l, LATERAL (SELECT l.`max(k)` + 1) m
SELECT id, (SELECT k FROM VALUES (2) AS v(k) WHERE k = t.x LIMIT 1) AS a, (SELECT max(k) FROM u WHERE u.g = t.g LIMIT 1) AS b, (SELECT t.x + m FROM (SELECT max(k) AS m FROM u) LIMIT 1) AS c, (SELECT w.* FROM VALUES (2) LIMIT 1) AS d FROM t LEFT JOIN (SELECT id FROM w) w USING (id)
SELECT id, v.* FROM t JOIN VALUES (2, 'a', NULL, INTERVAL '1' DAY, X'00', map('a', 1), named_struct('a', 1), 1.5D, DATE'2020-01-01', 'it''s') AS v(k, b, c, d, e, f, g, h, i, j) ON t.x = v.k
TABLE t | SELECT id, x | 2 AS y |> WHERE id | 1 > 2 | EXTEND y | 1 AS z | JOIN w USING (id) | ORDER BY id | LIMIT 3
SELECT coalesce(*) AS c, concat_ws('-', *) AS s, named_struct('a', struct(*)) AS n FROM w
SELECT id, st.*, st.a + 1 AS n FROM t
SELECT t.ST.* FROM t
SELECT id, l.* FROM t LEFT JOIN LATERAL (SELECT t.st.*, k FROM u AS st WHERE st.x = t.x) AS l
SELECT id, l.* FROM t, LATERAL (SELECT DISTINCT st.* EXCEPT (b), k % 2 AS r, struct(st.*) AS s FROM u WHERE u.k > t.x AND k < 6) AS l
SELECT id, l.*, (SELECT q.s.* FROM w WHERE w.id = q.id) AS c FROM (SELECT id, x, struct(x AS a) AS s FROM t) q, LATERAL (SELECT p.s.*, q.x AS y FROM (SELECT k, x, struct(g) AS s FROM u) AS p WHERE p.x = q.x) AS l
SELECT q.*, s.* FROM (SELECT id, struct(x AS `x y`, g) AS s FROM t) q
SELECT g, bool_and(x > 1) AS a, every(x IS NULL) FILTER (WHERE id > 3) AS e, bool_or(DISTINCT x > 4) AS o, any(x = 1) AS y, some(x IS NULL) AS z, count_if(x > 1) AS c, count_if(x > 1 OR g = 'a') FILTER (WHERE id > 2 OR id < 1) AS f, regr_count(x, id) AS r, regr_count(y, x) FILTER (WHERE g > 'a') AS q, count(*) AS n FROM t GROUP BY g
SELECT g, corr(x, d) AS a, covar_pop(d, x) AS b, covar_samp(DISTINCT x, y) AS c, regr_avgx(x, y) AS e, regr_avgy(x, d) AS f, regr_sxx(x, d) AS h, regr_syy(x, d) AS i, regr_sxy(x, d) AS j, regr_slope(x, d) AS k, regr_intercept(x, d) AS l, regr_r2(x, d) FILTER (WHERE id > 3 OR g = 'a') AS m, count(*) AS n FROM t GROUP BY g
SELECT x, corr(id, x) AS a, regr_slope(id, x) AS b, regr_r2(x, id) AS c, regr_intercept(x, id) AS d, covar_samp(id, d) AS e FROM t WHERE id < 9 GROUP BY x
SELECT g, bit_and(x) AS a, bit_or(id) AS b, bit_xor(x) FILTER (WHERE id > 2) AS c, bit_xor(DISTINCT x) AS d, bit_or(CAST(x - 3 AS TINYINT)) AS e, -bit_and(x) + count(*) AS f FROM t GROUP BY g
SELECT g, min_by(x, id) AS a, max_by(struct(st, y), id) AS b, max_by(y, id) FILTER (WHERE x > 2) AS c, max_by(x2, id).a AS d FROM (SELECT *, struct(id AS a) AS x2 FROM t) GROUP BY g HAVING min_by(x, id) IS NOT NULL OR count(*) > 1
SELECT g, first(x) FILTER (WHERE id = 3) AS a, any_value(g) AS b, last(upper(g), true) AS c, first_value(g) IGNORE NULLS AS d FROM t GROUP BY g
SELECT g, mode(x, true) AS a, mode() WITHIN GROUP (ORDER BY x) AS b, mode(x, true) FILTER (WHERE id > 4) AS c, count(DISTINCT x) AS d FROM t GROUP BY g
SELECT g, approx_count_distinct(x) AS a, approx_count_distinct(st, 0.2) FILTER (WHERE x > 1 OR id < 9) AS b, count(*) AS c, max_by(x, id) AS d FROM t GROUP BY g
SELECT k % 3 AS g, approx_count_distinct(k * 7) AS a, approx_count_distinct(CAST(k AS STRING) || 'x', 0.02) AS b, approx_count_distinct(k / 3, 0.39) AS c FROM (SELECT t.id * 997 + u.k * 31 + v.id AS k FROM t, u, t v) GROUP BY k % 3
SELECT approx_count_distinct(x) AS a FROM t WHERE id > 1000
SELECT approx_count_distinct(x) + 1 AS a, sum(x) AS b FROM t
SELECT t.id, (SELECT approx_count_distinct(u.x) + count(*) FROM u WHERE u.g = t.g) AS a FROM t
SELECT g, x, approx_count_distinct(id) AS a, count(*) AS c FROM t GROUP BY ROLLUP (g, x)
SELECT corr(x, y) AS a, bit_or(x) AS b, max_by(x, id) AS c, mode(x, true) AS d, any_value(x) AS e, regr_sxx(x, y) AS f FROM t WHERE id > 1000
SELECT t.id, (SELECT max_by(u.x, u.k) FROM u WHERE u.g = t.g) AS a, (SELECT bit_or(u.x) FROM u WHERE u.k > t.id) AS b, (SELECT regr_count(u.x, u.k) FROM u WHERE u.g = t.g) AS c FROM t
SELECT bool_and(x > 1) AS b, count_if(x > 100) AS c, regr_count(x, y) AS r FROM t WHERE id > 1000
SELECT t.id, (SELECT count_if(u.x > 1) FROM u WHERE u.g = t.g) AS c, (SELECT bool_or(u.x > 1) FROM u WHERE u.k > t.id) AS b FROM t
SELECT x, g, id FROM t ORDER BY ALL LIMIT 4
SELECT g, x, count(*) AS c FROM t GROUP BY g, x ORDER BY ALL DESC NULLS LAST LIMIT 3
SELECT id, x FROM t ORDER BY x, id OFFSET 3
SELECT count(*) AS c, min(k) AS k FROM (SELECT k FROM u ORDER BY k DESC OFFSET 2)
(SELECT id FROM t ORDER BY id OFFSET 4) UNION ALL SELECT k FROM u
SELECT t.id, q.z FROM t NATURAL JOIN (SELECT k AS z FROM u WHERE k < 3) q
SELECT * FROM (SELECT id FROM t WHERE id > 99) NATURAL FULL JOIN (SELECT k AS z FROM u)
SELECT id FROM t WHERE EXISTS (SELECT explode(map(u.k, u.x)) AS (a, b) FROM u WHERE u.g = t.g)
SELECT max(n) FROM (SELECT g, count(*) n FROM t GROUP BY g ORDER BY n DESC, g LIMIT 2)
SELECT t.id, u.name FROM t JOIN u ON t.g = u.g AND t.x < u.x
SELECT t.id, u.name, u.`order` FROM t LEFT JOIN u ON t.g = u.g AND t.x = u.x AND u.name > 'n3' AND t.id > 3 WHERE t.id < 20 AND u.k IS NULL
SELECT t.id, u.name FROM t RIGHT JOIN u ON t.g = u.g AND t.x = u.x AND u.name > 'n3' AND t.id > 3 WHERE u.k < 9
SELECT t.id, u.name FROM t RIGHT JOIN u ON t.g = u.g AND t.x = u.x JOIN w ON w.id = u.k WHERE t.id IS NULL AND w.v > 'v0'
SELECT * FROM t FULL JOIN w USING (id) WHERE id > 3
SELECT id, t.id ti, w.id wi, v, name FROM t FULL JOIN w USING (id) LEFT JOIN u ON u.k = id AND u.x > id
SELECT t.id, w.v, u.name FROM t FULL JOIN w ON t.id = w.id AND t.x > 1 LEFT JOIN u ON u.g = t.g AND u.x = t.x WHERE w.v = 'v1' OR u.name IS NULL
SELECT id, v FROM t RIGHT JOIN w USING (id) WHERE id > 4
SELECT * FROM t NATURAL JOIN w
SELECT t.id, w.id AS other FROM t LEFT OUTER JOIN w WHERE t.id < 4
SELECT t.id, w.id AS other FROM t FULL JOIN (SELECT id FROM w WHERE id > 1000) w
SELECT id FROM t LEFT SEMI JOIN u ON t.x = u.x AND u.k > t.id AND t.id > 1
SELECT id, x FROM t LEFT ANTI JOIN u ON t.x <=> u.x AND u.k > t.id AND u.k > 2 AND t.id > 5 WHERE id > 2
SELECT a.id, b.id bid FROM t a, t b WHERE a.x = b.id AND a.g = 'a' AND b.id > 3 AND a.x + b.x > 2
SELECT t.id, u.k FROM t JOIN u ON t.y = u.x OR false WHERE t.y = u.x
SELECT a.id FROM (t a JOIN w ON a.id = w.id) JOIN u ON u.k = a.id
SELECT upper(t.g) ug, count(*) n FROM t JOIN u ON upper(t.g) = upper(u.g) AND t.x + 1 = u.x GROUP BY upper(t.g)
SELECT w.id, t.x FROM w LEFT JOIN (SELECT id, coalesce(x, 9) AS x FROM t) t ON w.id = t.id AND t.x > 2
WITH a AS (SELECT g, sum(x) s FROM t GROUP BY g), b(h, c) AS (SELECT g, count(*) FROM u GROUP BY g) SELECT a.g, s, c FROM a LEFT JOIN b ON a.g = b.h
WITH c AS (SELECT id, x FROM t WHERE x > 1) SELECT l.id, r.id rid FROM c l JOIN c r ON l.x = r.x AND l.id < r.id
WITH a AS (SELECT 1 AS z, id FROM t), b AS (WITH a AS (SELECT 2 AS z, id FROM w) SELECT * FROM a) SELECT a.z, b.z bz, a.id FROM a JOIN b ON a.id = b.id
WITH t AS (SELECT id, x + 1 AS x FROM t) SELECT q.a, q.b FROM (SELECT * FROM t) AS q(a, b)
SELECT id, x FROM t ORDER BY x DESC, id LIMIT 5 OFFSET 2
SELECT id, g, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY x DESC, id) AS rn FROM t) WHERE rn <= 3 AND x > 1
SELECT id, g FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g, x % 2 ORDER BY y DESC, id) AS rn FROM t WHERE x > 0) s WHERE 2 <= s.rn AND s.rn < 4
SELECT g, s, rn FROM (SELECT g, sum(x) s, row_number() OVER (ORDER BY sum(x) DESC, g) rn FROM t GROUP BY g) WHERE rn BETWEEN 2 AND 3
SELECT id, rn FROM (SELECT id, row_number() OVER (ORDER BY id) AS rn FROM t) WHERE rn <= 4 AND 9 > rn AND rn > 1 AND rn >= 1
SELECT id, g FROM t QUALIFY row_number() over (partition by g order by id) = 1
SELECT id, g AS name FROM t UNION ALL SELECT k, name FROM u UNION ALL SELECT y, v FROM w JOIN t USING (id) ORDER BY id, name LIMIT 7
(SELECT id, g FROM t ORDER BY id LIMIT 2) UNION ALL (SELECT k, g FROM u ORDER BY k DESC, g LIMIT 2)
SELECT g FROM t UNION SELECT g FROM u
SELECT g FROM (SELECT DISTINCT g, x FROM t) UNION ALL SELECT g FROM u UNION SELECT v FROM w
SELECT id, name FROM t LEFT JOIN w USING (id) FULL JOIN (SELECT k AS id, name FROM u) q USING (id)
SELECT t.id, a.k FROM t LEFT JOIN u a ON t.x = a.x RIGHT JOIN w ON w.id = t.id WHERE w.v = 'v1'
SELECT t.id, w.id wi, u.k FROM t FULL JOIN w ON t.id = w.id INNER JOIN u ON u.k = w.id AND t.x IS NULL
SELECT t.id, q.c FROM t LEFT JOIN (SELECT x, count(*) c FROM t GROUP BY x) q ON t.x = q.x WHERE q.c IS NULL OR q.c > 2
SELECT t.id FROM t LEFT ANTI JOIN (SELECT * FROM u WHERE k > 4) q ON t.x = q.x AND (q.name > 'n5' OR t.id > 7)
SELECT t.id FROM t LEFT ANTI JOIN u ON t.x = u.x AND 1 = 0
SELECT t.id, u.k FROM t LEFT JOIN u ON t.x = u.x AND 1 = 0
SELECT lower(upper(g)) l, length(g) + x z, z * 2 zz FROM (SELECT g || g AS g, x FROM t) WHERE length(g) = 2
SELECT id, rn FROM (SELECT id, rn, x FROM (SELECT id, x, row_number() OVER (PARTITION BY g ORDER BY id) AS rn FROM t) WHERE x > 0) WHERE rn < 3 AND rn <> 1
SELECT * FROM (SELECT id, g FROM t ORDER BY id LIMIT 10) WHERE g = 'a'
SELECT count(DISTINCT st), count(DISTINCT arr, x), max(arr), min(st) FROM t
SELECT `my col` || 'x' AS `select`, `a.b` + 1 AS n FROM (SELECT g AS `my col`, id AS `a.b` FROM t) WHERE `my col` > 'a'
SELECT (x + 1) * 2 AS p, x + 1 + count(*) AS q FROM t GROUP BY x + 1
SELECT IF(x > 2, 'big', 'small') s, count(*) FROM t GROUP BY if(x > 2, 'big', 'small')
SELECT named_struct('a', x, 'b', g).a v, array(x, id)[0] w, map('k', x)['k'] z, x::DOUBLE dd FROM t
SELECT g, count(*) c FROM (SELECT g FROM t UNION ALL SELECT g FROM u) GROUP BY g
SELECT id, z * 2 AS p FROM (SELECT id, x + 1 AS z FROM t)
SELECT 'x' AS k FROM (SELECT count(*) AS c, max(x) AS m FROM t)
SELECT a.x, b.x bx FROM (SELECT DISTINCT x FROM t) a FULL JOIN (SELECT DISTINCT x FROM t WHERE id < 25) b ON a.x = b.x
SELECT x FROM (SELECT DISTINCT x FROM t) UNION ALL SELECT x FROM (SELECT DISTINCT x FROM t WHERE id < 25)
SELECT x, x * 2 AS twice, count(*) AS n FROM t GROUP BY x HAVING CASE WHEN x > 2 THEN true END
SELECT x, x * 2 AS twice, count(*) AS n FROM t GROUP BY x HAVING exists(array(1, 2, 4), y -> y > x)
SELECT x, x * 2 AS x2, count(*) AS n FROM t GROUP BY x HAVING aggregate(array(1, x), 0, (y, z) -> y + z) > 3
SELECT x AS g2, count(*) AS x FROM t GROUP BY g2 HAVING x > 2
SELECT x AS g2, count(*) AS x FROM t GROUP BY t.x HAVING x > 2
SELECT x + 1 AS x, count(*) AS n FROM t GROUP BY x HAVING x > 3
SELECT x + 1 AS x, count(*) AS n FROM t GROUP BY 1 HAVING x > 3
SELECT x + 1 AS x, count(*) AS n FROM t GROUP BY ALL HAVING x + 1 > 3 AND 1 + x < 6
SELECT count(*) AS x, x AS c FROM t GROUP BY 2 HAVING x > 2
SELECT count(*) AS x, x AS c FROM t GROUP BY ALL HAVING X > 2
SELECT -x AS x, count(*) AS n FROM t GROUP BY x HAVING x IS NULL OR -x < -3
SELECT -count(*) AS x, x + id % 2 AS s FROM t GROUP BY x + id % 2 HAVING x < -2
SELECT -count(*) AS x, x + id % 2 AS s FROM t GROUP BY x + id % 2 HAVING id % 2 + x > 3
SELECT g, -sum(x) AS x FROM t GROUP BY g HAVING x < -20 AND max(x) > 4 AND count(*) FILTER (WHERE x > 2) > 1
SELECT g, -sum(x) AS x FROM t GROUP BY g HAVING sum(x) FILTER (WHERE x > 2) > 3
SELECT upper(g) AS g, count(*) AS c FROM t GROUP BY upper(g) HAVING g > 'A' AND length(upper(g)) = 1
SELECT -max(x) AS x FROM t HAVING x < -4 AND max(x) > 1
SELECT s.x FROM (SELECT x + 1 AS x, count(*) AS n FROM t GROUP BY x HAVING x > 3) s WHERE x > 1
WITH c AS (SELECT x AS id, count(*) AS x FROM t GROUP BY id, x HAVING x > 2) SELECT * FROM c
SELECT id, -x AS x FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY x, id) <= 2
SELECT id, -x AS x FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY id) <= 9 AND x > 2
SELECT id, row_number() OVER (PARTITION BY g ORDER BY id) AS x FROM t QUALIFY x <= 2
SELECT id, row_number() OVER (PARTITION BY g ORDER BY id) AS n, -x AS x FROM t QUALIFY n <= 9 AND x < -2
SELECT -x AS x, count(*) AS n FROM t GROUP BY x QUALIFY row_number() OVER (ORDER BY x DESC) <= 2
SELECT * FROM (SELECT id, -x AS x FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY x, id) = 1) WHERE x < 0
SELECT -x AS x, max(id) AS id FROM t GROUP BY x ORDER BY x + 1, id LIMIT 3
SELECT g, sort_array(collect_list(x)) l, max_by(id, id) m, listagg(CAST(id AS STRING), ',') WITHIN GROUP (ORDER BY id DESC) a FROM t GROUP BY g
SELECT g, percentile(x, 0.5, 2), approx_count_distinct(x), bit_and(x) FILTER (WHERE x > 1), percentile_cont(0.5) WITHIN GROUP (ORDER BY y) FROM t GROUP BY g
SELECT count(DISTINCT x, g), median(x), any(x > 2), some(x > 4), max_by(id, id) FILTER (WHERE g LIKE ANY ('a', 'b')) FROM t
SELECT sum(ts - timestamp'2020-01-01') AS s, avg(x) FROM t
SELECT sort_array(collect_set(x)) AS s FROM t WHERE id > 1000
SELECT size(collect_list(x)) + 1 AS n, upper(g) u FROM t GROUP BY upper(g) HAVING max_by(x, id) > 1 OR count(*) > 4 ORDER BY n DESC
SELECT id, rank() OVER (PARTITION BY g ORDER BY x) AS r, sum(x) OVER w AS s, lag(id, 1, -1) OVER w AS l FROM t WINDOW w AS (PARTITION BY x ORDER BY id)
SELECT id, count(*) OVER (w) AS c, lead(x) IGNORE NULLS OVER (PARTITION BY g ORDER BY id) AS v FROM (SELECT id, g, x, sum(x) OVER w AS s FROM t WINDOW w AS (ORDER BY id)) WINDOW w AS (PARTITION BY s)
SELECT id, row_number() OVER (ORDER BY id) AS n FROM t
SELECT id, rn FROM (SELECT id, row_number() OVER (ORDER BY id) AS rn FROM t) WHERE rn > 20
SELECT g, sum(x) AS s, sum(sum(x)) OVER (ORDER BY g) AS t, count(*) OVER () AS c, percent_rank() OVER (ORDER BY max(y), g) AS p FROM t GROUP BY g
SELECT id FROM t QUALIFY count(*) OVER (PARTITION BY g) > 5 AND row_number() OVER (PARTITION BY x ORDER BY id) = 1
SELECT id, avg(x) OVER (ORDER BY ts RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND INTERVAL 1 DAY FOLLOWING) AS a FROM t
SELECT id, sum(x) OVER (PARTITION BY g ORDER BY x DESC RANGE BETWEEN 1 PRECEDING AND 2 FOLLOWING) AS s, min(y) OVER (PARTITION BY g ORDER BY x DESC RANGE 1 PRECEDING) AS m FROM t
SELECT id, nth_value(x, 2) IGNORE NULLS OVER w AS n, lag(x, 2, -1) IGNORE NULLS OVER w AS l, last(x, true) OVER w AS v FROM t WINDOW w AS (ORDER BY id)
SELECT DISTINCT count(*) OVER (PARTITION BY g, x + 1) AS c FROM t
SELECT id, count(*) FILTER (WHERE x > 1) OVER (PARTITION BY g) AS c, sum(x) FILTER (WHERE x + id > 2 AND g IS NOT NULL) OVER (PARTITION BY g ORDER BY id ROWS 2 PRECEDING) AS s FROM t
SELECT g FROM (SELECT g, collect_list(x) AS l FROM t GROUP BY g)
SELECT id FROM t WHERE x > (SELECT median(x) FROM u)
SELECT id, (SELECT sort_array(collect_list(k)) FROM u WHERE u.g = t.g) AS l, (SELECT count_if(k > 3) + count(DISTINCT x) FROM u WHERE u.x = t.x) AS c, (SELECT max_by(k, k) FROM u WHERE u.g = t.g) AS m FROM t
SELECT g, x, count(*) AS c, sum(x) AS s, grouping(g) AS p, grouping_id() AS i FROM t GROUP BY ROLLUP (g, x)
SELECT g, x, count(*) AS c, grouping_id(x, g) AS i FROM t GROUP BY x, g WITH CUBE HAVING grouping(x) = 0 OR c > 4 ORDER BY c, g, x LIMIT 8
SELECT upper(g) AS u, x, median(id) AS m, max(g) AS h, grouping_id() AS i FROM t GROUP BY GROUPING SETS ((x), (upper(g), x), (), x)
SELECT g, x % 2 AS p, length(g) AS q, count(DISTINCT id) AS c, grouping_id() AS i FROM t GROUP BY g, CUBE (x % 2, length(g))
SELECT g, NULL AS e, count(*) AS c, grouping_id() AS i, grouping(NULL) AS n FROM t GROUP BY CUBE (g, NULL)
SELECT g, sum(x) AS s FROM t GROUP BY g, GROUPING SETS ((NULL, x > 1), (NULL), ())
SELECT count(*) AS c, grouping_id() AS i FROM t GROUP BY ROLLUP (NULL, 1 + 1, (NULL))
SELECT g, x, count(*) AS c FROM t GROUP BY g, x GROUPING SETS ((x, g), (g))
SELECT id + x AS a, (x + id) * 2 AS b, x, count(*) AS c, grouping_id() AS i, grouping(x + id) AS j FROM t GROUP BY GROUPING SETS ((id + x), (x + id), (x), (x, id), (x + id, id))
SELECT g, x, y, count(*) AS c, grouping_id() AS i FROM t GROUP BY ROLLUP ((g, x), y), GROUPING SETS (g, (x, y), ROLLUP (x))
SELECT coalesce(g, 'all') AS h, sum(x) + 1 AS s, rank() OVER (PARTITION BY grouping(g) ORDER BY sum(x)) AS r FROM t GROUP BY CUBE (g) QUALIFY r < 3
SELECT count(*) AS c, max(x) AS m FROM t WHERE id > 1000 GROUP BY ROLLUP (g)
SELECT count(*) AS c FROM t WHERE id > 1000 GROUP BY GROUPING SETS (())
SELECT count(*) + grouping_id() AS i FROM t GROUP BY GROUPING SETS (()) HAVING grouping_id() = 0
SELECT id, -row_number() OVER (PARTITION BY g ORDER BY id) AS n, ntile(3) OVER (ORDER BY id) * 2 AS q FROM t ORDER BY n, id LIMIT 9
SELECT t.id, u.k, w.v FROM t, u, w WHERE t.id = w.id AND u.x = t.x
SELECT t.id, u.k FROM t, u WHERE (t.x = u.x AND t.id > 3) OR (u.x = t.x AND u.k < 4)
SELECT t.id, u.k FROM t, u WHERE (t.x = u.x AND t.id > 3) OR (u.x = t.x)
SELECT t.id, w.id AS wid FROM t RIGHT JOIN w ON t.id * 4 < w.id
SELECT t.id, w.id AS wid FROM t FULL JOIN w ON t.id * 3 < w.id AND t.x > 1
SELECT g, x FROM t EXCEPT SELECT g, x FROM u
SELECT g FROM t UNION SELECT g FROM u INTERSECT SELECT v FROM w
SELECT g FROM t INTERSECT SELECT g FROM u ORDER BY g LIMIT 2
SELECT 1 AS a WHERE false
SELECT * FROM VALUES (1, 'a'), (2.5, NULL) AS v(x, y)
SELECT t.id, v.name FROM t JOIN (VALUES (1, 'one'), (2, 'two')) AS v(x, name) ON t.x = v.x
SELECT t.id, v.name, u.k FROM t LEFT JOIN (VALUES (1, 'one'), (2, 'two') AS v(x, name) RIGHT JOIN u ON v.x = u.k) ON t.x = u.k
SELECT r.id FROM range(10, 1, -3) AS r
SELECT n FROM range(3, 3) AS r(n)
SELECT count(*) AS c, max(id) AS m FROM range(100)
SELECT id, posexplode(arr) FROM t
SELECT id, posexplode_outer(m) AS (p, k, v) FROM t
SELECT id, e FROM t LATERAL VIEW explode(arr) q AS e WHERE e > 3 AND x > 2
SELECT id, q.e, p, c FROM t LATERAL VIEW OUTER explode(arr) q AS e LATERAL VIEW posexplode(array(e, x)) AS p, c WHERE q.e > 3
SELECT id, q.col FROM t LATERAL VIEW explode(arr) q
SELECT id, inline(array(st, named_struct('a', 5, 'b', 'z'))) FROM t
SELECT id, stack(2, x, g, 5, NULL) AS (a, b) FROM t
SELECT id, stack(2, x, g, 5) FROM t
SELECT DISTINCT explode(arr) AS e FROM t
SELECT * FROM explode(array(1, 2)) AS q(x)
SELECT t.id, u.k, w.v FROM t, u JOIN w ON u.k = w.id WHERE t.id = w.id
SELECT a.id, b.id AS bid, w.v FROM t a, t b, w WHERE a.x > 4 AND b.id = w.id AND b.x > 3
SELECT t.id, e FROM t JOIN w ON t.id = w.id LEFT JOIN LATERAL explode(filter(arr, z -> z > 8)) AS q(e) ON true
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE name = 'n3')
SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE name = 'n77')
SELECT id FROM t WHERE id > 20 OR EXISTS (SELECT 1 FROM u WHERE u.x = t.x AND k < 5)
SELECT id FROM t WHERE x NOT IN (SELECT x FROM u WHERE x IS NOT NULL AND k > 9)
SELECT id FROM t WHERE x NOT IN (SELECT k FROM u WHERE k < 0)
SELECT t.id, u.k FROM t LEFT JOIN u ON t.g = u.g AND coalesce(t.x, 7) NOT IN (SELECT id FROM w WHERE id > 2)
SELECT t.id, u.k FROM t FULL JOIN u ON t.x = u.x AND (u.k NOT IN (SELECT coalesce(x, 0) FROM t WHERE id > 9) OR t.id = 2)
SELECT t.id, u.k FROM t LEFT JOIN u ON upper(t.g) COLLATE UTF8_LCASE = u.g AND t.x = u.x
SELECT g, id, k FROM (SELECT id, upper(g) COLLATE UNICODE_CI AS g FROM t WHERE id < 9) FULL JOIN (SELECT k, g COLLATE UNICODE_CI AS g FROM u WHERE k > 4) USING (g)
SELECT q.* FROM w, LATERAL (SELECT w.*, w.id + 1 AS n) q
SELECT lower(c) AS l, x, count(DISTINCT c) AS n FROM (SELECT id, x, (CASE WHEN id % 2 = 0 THEN upper(g) ELSE g END) COLLATE UTF8_LCASE AS c FROM t) GROUP BY CUBE (c, x) HAVING count(*) > 1
SELECT lower(c) AS l, x, lower(max(c)) AS m, lower(min(c)) AS s FROM (SELECT id, x, (CASE WHEN id % 2 = 0 THEN upper(g) ELSE g END) COLLATE UTF8_LCASE AS c FROM t) GROUP BY CUBE (c, x)
SELECT lower(c) AS l, median(id) AS m FROM (SELECT id, x, (CASE WHEN id % 2 = 0 THEN upper(g) ELSE g END) COLLATE UTF8_LCASE AS c FROM t) GROUP BY c
SELECT x, median(id) AS m, array_size(collect_list(DISTINCT c)) AS d FROM (SELECT id, x, (CASE WHEN id % 2 = 0 THEN upper(g) ELSE g END) COLLATE UTF8_LCASE AS c FROM t) GROUP BY x
SELECT DISTINCT upper(c) AS u, n FROM (SELECT DISTINCT c, x AS n FROM (SELECT id, x, (CASE WHEN id % 2 = 0 THEN upper(g) ELSE g END) COLLATE UTF8_LCASE AS c FROM t) ORDER BY c DESC, n LIMIT 5)
SELECT lower(c) AS l FROM (SELECT c FROM (SELECT id, x, (CASE WHEN id % 2 = 0 THEN upper(g) ELSE g END) COLLATE UTF8_LCASE AS c FROM t) EXCEPT ALL SELECT concat(g, '') COLLATE UTF8_LCASE FROM u) UNION ALL SELECT lower(c) FROM (SELECT c FROM (SELECT id, x, (CASE WHEN id % 2 = 0 THEN upper(g) ELSE g END) COLLATE UTF8_LCASE AS c FROM t) INTERSECT SELECT g COLLATE UTF8_LCASE FROM u WHERE k > 4)
SELECT id, rank() OVER (PARTITION BY c ORDER BY x, id) AS r, count(*) OVER (PARTITION BY c) AS n, lag(id) OVER (ORDER BY c, id) AS p FROM (SELECT id, x, (CASE WHEN id % 2 = 0 THEN upper(g) ELSE g END) COLLATE UTF8_LCASE AS c FROM t)
SELECT id FROM (SELECT id, x, (CASE WHEN id % 2 = 0 THEN upper(g) ELSE g END) COLLATE UTF8_LCASE AS c FROM t) WHERE c IN (SELECT g COLLATE UTF8_LCASE FROM u WHERE k > 7) OR c NOT IN (SELECT g COLLATE UTF8_LCASE FROM u WHERE k < 12)
SELECT id, (SELECT max(k) FROM u WHERE g COLLATE UTF8_LCASE = c) AS m, (SELECT max(v) FROM (SELECT k + ascii(lower(c)) AS v FROM u WHERE u.x = q.x) z) AS a FROM (SELECT id, x, (CASE WHEN id % 2 = 0 THEN upper(g) ELSE g END) COLLATE UTF8_LCASE AS c FROM t) q
SELECT lower(c) AS l, id, k FROM (SELECT id, x, (CASE WHEN id % 2 = 0 THEN upper(g) ELSE g END) COLLATE UTF8_LCASE AS c FROM t) FULL JOIN (SELECT k, g COLLATE UTF8_LCASE AS c FROM u WHERE k > 6) USING (c)
SELECT id, lower(c) AS l FROM (SELECT id, x, (CASE WHEN id % 2 = 0 THEN upper(g) ELSE concat(g, ' ') END) COLLATE UNICODE_CI_RTRIM AS c FROM t) ORDER BY c DESC, id LIMIT 4 OFFSET 2
SELECT x, dense_rank() OVER (ORDER BY c) AS r, lower(trim(max(c) OVER (PARTITION BY x))) AS m FROM (SELECT id, x, (CASE WHEN id % 2 = 0 THEN upper(g) ELSE concat(g, ' ') END) COLLATE UNICODE_CI_RTRIM AS c FROM t) QUALIFY rank() OVER (PARTITION BY x ORDER BY c) <= 2 ORDER BY c
SELECT x, lower(trim(max(c))) AS m FROM (SELECT id, x, (CASE WHEN id % 2 = 0 THEN upper(g) ELSE concat(g, ' ') END) COLLATE UNICODE_CI_RTRIM AS c FROM t) GROUP BY x
SELECT t.id, q.* FROM (SELECT id, named_struct('s', st, 'n', x) AS o FROM t) t, LATERAL (SELECT t.o.s.*, k FROM u WHERE u.x = t.o.n) q
SELECT id, o.s.* EXCEPT (b), struct(o.s.*) AS r FROM (SELECT id, named_struct('s', st, 'n', x) AS o FROM t)
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM (SELECT * FROM u WHERE t.m['a'] = u.x) GROUP BY name)
SELECT IDENTIFIER('id'), IDENTIFIER('abs')(IDENTIFIER('t.x')) AS z FROM IDENTIFIER('t') ORDER BY IDENTIFIER('id') LIMIT 1 + length('ab') OFFSET 2 * 2
(SELECT id FROM t LIMIT 0) UNION ALL (SELECT id FROM w ORDER BY id LIMIT 2)
SELECT id, l.`max(k)` AS n FROM t, LATERAL (SELECT max(k) FROM u WHERE u.g = t.g UNION ALL SELECT min(k) FROM u WHERE u.g = t.g) l
SELECT id, l.`(k + 1)` AS n, (SELECT `max(k)` + 1 FROM (SELECT max(k) FROM u WHERE u.g = t.g)) AS m FROM t, LATERAL (SELECT `(k + 1)` FROM (SELECT k + 1 FROM u WHERE u.g = t.g)) l
WITH a AS (SELECT g, x + 1, count(1) FROM t GROUP BY g, x + 1), b AS (SELECT g, max(`count(1)`) FROM a GROUP BY g) SELECT b.`max(count(1))` AS c, a.`(x + 1)` AS d FROM a JOIN b USING (g)
SELECT `count(1)` AS c FROM (SELECT count(1) FROM t UNION ALL SELECT k FROM u)
SELECT q.*, (SELECT struct(w.*)) AS s FROM w, LATERAL (SELECT k, w.* EXCEPT (v) FROM u WHERE u.k > w.id ORDER BY k, g LIMIT 1) q
SELECT q.* FROM w, LATERAL (SELECT w.* UNION ALL SELECT u.k, u.name FROM u WHERE u.x = w.id) q
SELECT t.id, u.k FROM t JOIN u ON t.g = u.g AND (t.id NOT IN (SELECT id FROM w) OR u.k = 3) AND t.x NOT IN (SELECT x FROM u WHERE k > 12)
SELECT id FROM t WHERE id NOT IN (SELECT k FROM u WHERE k > 2)
SELECT id FROM t WHERE x NOT IN (SELECT u.x FROM u WHERE u.g = t.g)
SELECT id FROM t WHERE (x, g) NOT IN (SELECT x, g FROM u WHERE k > 6)
SELECT id FROM t WHERE x NOT IN (SELECT x FROM u WHERE k > 12) OR g = 'a'
SELECT id FROM t WHERE NOT (x IN (SELECT x FROM u WHERE k < 6) OR g = 'a')
SELECT id, x NOT IN (SELECT k FROM u WHERE k < 4) AS v FROM t
SELECT id FROM t WHERE (x, y) NOT IN (SELECT x, k FROM u WHERE k > 3) OR g = 'a'
SELECT id, (x, g) NOT IN (SELECT x, g FROM u WHERE k > 6 AND u.k <> t.id) AS v FROM t
SELECT id, (SELECT p FROM (SELECT x, name FROM u WHERE u.k = t.id) PIVOT (sum(x) FOR name IN ('a' AS p))) AS v FROM t
SELECT t.id, n, p FROM t, LATERAL (SELECT * FROM (SELECT x AS n, k, g FROM u WHERE u.x = t.x) PIVOT (sum(k) FOR g IN ('a' AS p, 'b' AS q)))
SELECT id, EXISTS (SELECT 1 FROM u WHERE u.x = t.x) AS v, NOT EXISTS (SELECT 1 FROM u WHERE k = 99) AS w FROM t
SELECT id, NOT (x IN (SELECT x FROM u WHERE k < 4) AND g = 'a') AS v FROM t
SELECT id, CASE WHEN x NOT IN (SELECT x FROM u WHERE k < 4) THEN 1 ELSE 2 END AS v FROM t
SELECT id, x > (SELECT avg(x) FROM u WHERE k < 9) AS m FROM t WHERE id < (SELECT count(*) FROM w)
SELECT id, (SELECT name FROM u WHERE k = 3) AS m FROM t
SELECT id, (SELECT max(u.k) + count(u.name) FROM u WHERE u.x = t.x AND u.g > 'a') AS c FROM t
SELECT id FROM t WHERE x = (SELECT min(u.x) FROM u WHERE u.g = t.g)
SELECT id, (SELECT v FROM w WHERE w.id = t.id) AS v FROM t
SELECT id, (SELECT max(u.k) FROM u WHERE u.x = t.x HAVING count(*) > 2) AS c FROM t
SELECT g, sum(x) AS s FROM t GROUP BY g HAVING g IN (SELECT g FROM u WHERE k > 5) OR count(*) > 5
SELECT t.id, w.id AS wid FROM t LEFT JOIN w ON t.id = w.id AND t.x > (SELECT min(x) FROM u)
SELECT t.id, u.k FROM t JOIN u ON t.x = u.x AND u.k IN (SELECT id FROM w)
SELECT t.id FROM t WHERE t.id IN (SELECT id FROM w UNION SELECT k FROM u)
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.x = t.x AND u.k IN (SELECT id FROM w))
SELECT id FROM t WHERE x < (SELECT x FROM u ORDER BY k LIMIT 1)
SELECT (SELECT max(k) FROM u) AS a, (SELECT min(k) FROM u) AS b
SELECT id, (SELECT max(k) FROM u) AS m, (SELECT max(k) FROM u) + 1 AS n FROM t ORDER BY m, id LIMIT 3
SELECT sum(x) AS s FROM t WHERE x > (SELECT 0.2 * avg(u.x) FROM u WHERE u.g = t.g)
SELECT count((SELECT max(k) FROM u WHERE u.x = t.x)) AS c FROM t
SELECT window(ts, '2 days') AS w, count(*) AS c FROM t GROUP BY window(ts, '2 days')
SELECT id, window(ts, '3 days', '36 hours', '7 hours') FROM t
SELECT window.start, window.end, g, sum(x) AS s FROM t GROUP BY window(ts, '2 days', '1 day'), g HAVING count(*) > 1
SELECT id, window(CAST(ts AS TIMESTAMP_NTZ), '3 days', '1 day').start AS s FROM t ORDER BY s, id LIMIT 4
SELECT id, (SELECT sort_array(collect_list(k)) FROM (SELECT k, x FROM u ORDER BY k LIMIT 99) q WHERE q.x = t.x) AS l FROM t
SELECT id, json_tuple(to_json(named_struct('p', g)), 'p', 'q') AS (p, q) FROM t
SELECT q.k, q.g, q.x FROM (SELECT k AS x, g, x AS k FROM u WHERE EXISTS (SELECT 1 FROM w WHERE id = x)) q WHERE EXISTS (SELECT 1 FROM w WHERE id = x)
WITH c AS (SELECT 1 AS n) SELECT (SELECT max(n) FROM c) AS a UNION ALL SELECT * FROM (WITH c AS (SELECT 2 AS n) SELECT (SELECT max(n) FROM c) AS a)
VALUES (3, 'a'), (1, 'b'), (2, 'c') ORDER BY col1 LIMIT 2
SELECT id, x IN (SELECT x FROM u WHERE x IS NOT NULL) AS v FROM t WHERE x IS NOT NULL OR g IS NOT NULL
SELECT id, (x IN (SELECT x FROM u)) = false AS v, true <> (x IN (SELECT x FROM u)) AS w, NOT ((x IN (SELECT x FROM u WHERE k < 3)) = false) AS y FROM t
SELECT id FROM t WHERE (x IN (SELECT x FROM u WHERE k < 9)) = false
SELECT id, x IN (SELECT x FROM u WHERE u.g = t.g) AS v, x NOT IN (SELECT x FROM u WHERE u.g = t.g) AS w FROM t
SELECT id, sum(x) OVER w2 AS s, count(*) OVER (w) AS c FROM t WINDOW w AS (PARTITION BY g ORDER BY id), w2 AS w
SELECT id, sum(x) OVER w AS s, EXISTS (SELECT sum(k) OVER v FROM u WINDOW v AS (ORDER BY k)) AS e FROM t WINDOW w AS (PARTITION BY g)
SELECT * FROM (SELECT g, x, id % 2 AS p FROM t) PIVOT (sum(x) FOR p IN (0, 1))
SELECT * FROM (SELECT g, x, id % 3 AS p FROM t) AS q PIVOT (sum(q.x) AS s, count(*), count(x) c FOR p IN (0, 1 AS one, 7)) WHERE q.g > 'a'
SELECT p.*, u.name FROM (SELECT id % 4 AS n, x, id % 2 AS p, length(g) AS l FROM t) PIVOT (count(*) + 1 AS c, avg(x) AS a FOR (p, l) IN ((0, 1) AS u, (1, 1) AS v)) JOIN u ON n = u.k CROSS JOIN (SELECT 1 AS o) p
SELECT * FROM (SELECT x, g, id % 3 AS p FROM t) PIVOT (max(g) AS m, count(*) AS c, collect_list(g) FILTER (WHERE g = 'a') AS l FOR p IN (0, 5))
SELECT * FROM (SELECT x FROM t) PIVOT (count(*) FOR x IN (1, 2, NULL AS none))
SELECT * FROM (SELECT x, CAST(ts AS DATE) AS d FROM t) PIVOT (max(x) AS m FOR d IN ('2020-01-01', DATE'2020-01-02' AS second))
SELECT * FROM (SELECT id, x, id * 2 AS y2 FROM t) UNPIVOT (v FOR n IN (x, y2))
SELECT * FROM (SELECT k, x FROM u) UNPIVOT INCLUDE NULLS (v FOR n IN (X, k AS `Key`))
SELECT p.k, p.n, v1, v2 FROM u UNPIVOT ((v1, v2) FOR n IN ((g, x), (name, `order`) AS second)) AS p
SELECT n, count(*) AS c, sum(v) AS s FROM (SELECT x, y FROM t) UNPIVOT (v FOR n IN (x, y)) GROUP BY n
SELECT g, session_window.start AS s, session_window.end AS e, count(*) AS c FROM t GROUP BY g, session_window(ts, '1 day')
SELECT session_window(ts, CASE WHEN x > 2 THEN '30 hours' WHEN x = 1 THEN '-1 hour' WHEN x = 0 THEN '10 minutes' END) AS w, sum(x) AS s FROM t GROUP BY session_window(ts, CASE WHEN x > 2 THEN '30 hours' WHEN x = 1 THEN '-1 hour' WHEN x = 0 THEN '10 minutes' END)
SELECT session_window, count(*) AS c FROM t GROUP BY session_window(ts, '2 hours') HAVING count(*) > 2 ORDER BY session_window.start LIMIT 1
SELECT id, session_window(ts, '5 minutes') FROM t
SELECT session_window.start AS s, g, x, count(*) AS c, grouping_id() AS i FROM t GROUP BY CUBE (g, x), session_window(ts, '1 day')
SELECT session_window(ts, '1 day').end AS e, g, count(session_window.start) AS c FROM t GROUP BY GROUPING SETS ((session_window(ts, '1 day'), g), (session_window(ts, '1 day'))) HAVING count(*) > 1
SELECT session_window(CAST(ts AS DATE), '36 hours').end AS e, g, count(DISTINCT x) AS c FROM t GROUP BY 2, session_window(CAST(ts AS DATE), '36 hours')
SELECT t.id, q.k FROM t, LATERAL (SELECT k FROM u WHERE u.x = t.x) q WHERE q.k > 2
SELECT t.id, a, b FROM t, LATERAL (SELECT t.x + 1 AS a), LATERAL (SELECT a * 2 AS b WHERE a > 2)
SELECT t.id, q.c, q.m FROM t JOIN LATERAL (SELECT count(*) AS c, max(k) AS m FROM u WHERE u.g = t.g AND u.x > 1) q ON q.c < 4
SELECT t.id, c, most, l FROM t LEFT JOIN LATERAL (SELECT count(*) AS c, max(k) AS most, sort_array(collect_set(x)) AS l FROM u WHERE t.g = u.g) ON TRUE
SELECT t.id, name, z FROM t LEFT JOIN LATERAL (SELECT name, u.k + t.id AS z FROM u WHERE u.x = t.x AND u.k > t.id) ON TRUE
SELECT t.id, q.g, q.n FROM t, LATERAL (SELECT g, count(*) AS n FROM u WHERE u.x = t.x GROUP BY g HAVING max(k) > 2) q
SELECT t.id, q.g FROM t, LATERAL (SELECT DISTINCT g FROM u WHERE u.x <=> t.x) q
SELECT t.id, q.k FROM t LEFT JOIN LATERAL (SELECT k FROM u WHERE u.g = t.g ORDER BY k DESC LIMIT 2) q ON TRUE
SELECT t.id, q.k FROM t, LATERAL (SELECT k FROM (SELECT k, CAST(x AS INT) AS x FROM u) u WHERE t.x = u.x ORDER BY k LIMIT 1 OFFSET 1) q
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.g = t.g ORDER BY k LIMIT 1) OR NOT EXISTS (SELECT 1 FROM w LIMIT 3)
SELECT t.id, q.a, q.b FROM t, LATERAL (SELECT k, name FROM u WHERE k < 3) AS q(a, b)
SELECT t.id, k FROM t LEFT JOIN LATERAL (SELECT k, g FROM u WHERE u.x = t.x) q ON q.g = t.g AND k > 2
SELECT a.id, q.k, w.v FROM t a, w, LATERAL (SELECT k FROM u WHERE u.x = a.x AND u.k > w.id) q WHERE a.id = w.id
SELECT id FROM t WHERE x IS NOT NULL AND NOT y IS NULL AND id IN (SELECT k FROM u)
SELECT id FROM t WHERE (x > 1) IS NOT TRUE OR NOT (x IS NOT NULL) OR x !> 0 AND id !<20
SELECT id, ts - INTERVAL 1 DAY 2 HOURS AS v, ts + INTERVAL '1' YEAR '2' MONTH AS w, ts - interval -1 day -2 hours z FROM t WHERE ts > timestamp'2020-01-03' - INTERVAL 1 DAY 30 MINUTES
SELECT g, sum(make_dt_interval(0, x)) AS s, CAST(avg(INTERVAL '1' MONTH * x) AS STRING) AS m, CAST(sum(INTERVAL '2' YEAR * id) AS STRING) AS y FROM t GROUP BY g
SELECT id, parse_json('{"a": {"b c": [1, 2]}, "n": 3}'):a['b c'][1]::int + x AS v FROM t
SELECT id, v:a.b::string AS s, (v:a):b::bigint + 1 AS n FROM (SELECT id, parse_json(concat('{"a": {"b": ', id, '}}')) AS v FROM t) WHERE v:a.b::int > 3
SELECT g, hll_sketch_estimate(hll_sketch_agg(x)) AS h, hex(count_min_sketch(x, 0.5d, 0.5d, 1)) AS c, theta_sketch_estimate(theta_sketch_agg(x)) AS e, size(approx_top_k(x, 3)) AS k FROM t GROUP BY g
SELECT g, count(*) AS c, sum(x) FILTER (WHERE g = 'a') AS s, rank() OVER (PARTITION BY grouping_id() ORDER BY count(*), g) AS r, sum(sum(x)) OVER (PARTITION BY length(g)) AS o FROM t GROUP BY GROUPING SETS ((g, length(g)), (length(g)), (length(g)))
SELECT g, x, count(*) AS c, grouping__id FROM t GROUP BY CUBE (g, x) HAVING grouping__id > 0 AND count(*) > 1 ORDER BY grouping__id, g, x LIMIT 9
SELECT g, x, count(id) AS c FROM t GROUP BY g, x GROUPING SETS (())
SELECT x > 1 AS b, count(*) AS c FROM t GROUP BY CUBE (x > 1)
SELECT x > 1 OR g = 'a' AS b, g IS NULL AS n, count(*) AS c FROM t GROUP BY GROUPING SETS (x > 1 OR g = 'a', ROLLUP (g IS NULL), (x > 1 OR g = 'a', g IS NULL))
SELECT g, count(*) AS c FROM t WHERE id > 1000 GROUP BY g GROUPING SETS (())
SELECT id FROM t WHERE EXISTS (SELECT count(*) FROM u WHERE u.g = t.g)
SELECT id FROM t WHERE EXISTS (SELECT max(k) FROM u WHERE u.g = t.g HAVING count(*) = 0)
SELECT id FROM t WHERE NOT EXISTS (SELECT max(k) FROM u WHERE u.g = t.g HAVING max(k) > 6)
SELECT id, EXISTS (SELECT 1 FROM u WHERE u.g = t.g GROUP BY x HAVING count(*) > 1) AS e FROM t WHERE NOT EXISTS (SELECT x FROM u WHERE u.x = t.x GROUP BY x, g HAVING max(k) > 9)
SELECT id FROM t WHERE x IN (SELECT count(*) FROM u WHERE u.g = t.g)
SELECT id FROM t WHERE x NOT IN (SELECT count(*) FROM u WHERE u.g = t.g)
SELECT id FROM t WHERE x NOT IN (SELECT min(x) FROM u WHERE u.g <=> t.g HAVING count(*) > 2)
SELECT id FROM t WHERE (x, id) NOT IN (SELECT min(x), max(k) FROM u WHERE u.g = t.g)
SELECT id FROM t WHERE x IN (SELECT max(x) FROM u WHERE u.g = t.g GROUP BY k % 2 HAVING count(*) > 1)
SELECT id FROM t WHERE x NOT IN (SELECT max(x) FROM u WHERE u.g = t.g GROUP BY k % 2)
SELECT id, x IN (SELECT count(*) FROM u WHERE u.g = t.g) AS a, x NOT IN (SELECT min(x) FROM u WHERE u.g = t.g) AS b, x IN (SELECT max(x) FROM u WHERE u.g = t.g GROUP BY k % 2) AS c, x NOT IN (SELECT max(x) FROM u WHERE u.g = t.g GROUP BY k % 2) AS d FROM t
SELECT id, (SELECT max(k) FROM u WHERE u.x < t.x) AS m, (SELECT count(*) FROM u WHERE u.x < t.x OR t.x IS NULL) AS c FROM t
SELECT id, (SELECT sum(k) FROM u WHERE u.g = t.g AND u.k <> t.id) AS s, (SELECT max(k) FROM u WHERE t.x > 1) AS n FROM t
SELECT id FROM t WHERE g = 'a' OR EXISTS (SELECT 1 FROM u WHERE u.x < t.x)
SELECT id FROM t WHERE x IN (SELECT max(u.x) FROM u WHERE u.g < t.g)
SELECT id, x IN (SELECT x FROM u WHERE u.k > t.id) AS a, x NOT IN (SELECT x FROM u WHERE u.k > t.id) AS b, x IN (SELECT count(*) FROM u WHERE u.k < t.id) AS c FROM t
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k > t.id HAVING count(*) > 2) AND x NOT IN (SELECT max(x) FROM u WHERE u.k >= t.id GROUP BY g)
SELECT t.id, q.m, q.c FROM t, LATERAL (SELECT max(k) AS m, count(*) AS c FROM u WHERE u.k > t.id AND u.g <> t.g) q
SELECT t.id, q.g, q.c FROM t LEFT JOIN LATERAL (SELECT g, count(*) AS c FROM u WHERE u.x < t.x GROUP BY g) q ON TRUE
SELECT t.id, q.g FROM t, LATERAL (SELECT DISTINCT g FROM u WHERE u.x <= t.x) q
SELECT t.id, q.n FROM t, LATERAL (SELECT k AS n, name AS k FROM u WHERE u.g = t.g ORDER BY n DESC LIMIT 2) q
SELECT t.id, q.n FROM t, LATERAL (SELECT count(*) AS n FROM u WHERE u.g = t.g HAVING n > 1) q
SELECT t.id, q.m FROM t, LATERAL (SELECT g, max(k) AS m FROM u WHERE u.g = t.g GROUP BY g HAVING m > 2) q
SELECT id, (SELECT max(k) AS m FROM u WHERE u.g = t.g HAVING m > 2) AS m FROM t WHERE EXISTS (SELECT count(*) AS c FROM u WHERE u.g = t.g HAVING c > 1)
SELECT id FROM t WHERE x IN (SELECT x FROM u WHERE u.g = t.g UNION ALL SELECT id FROM w)
SELECT id FROM t WHERE x NOT IN (SELECT x FROM u WHERE u.g = t.g AND x > 1 UNION SELECT id FROM w WHERE w.id < t.id)
SELECT id FROM t WHERE EXISTS (SELECT x FROM u WHERE u.x = t.x AND k > 9 UNION (SELECT id FROM w WHERE w.id = t.id) UNION ALL SELECT id FROM w WHERE v = 'none')
SELECT id, EXISTS (SELECT x FROM u WHERE u.x = t.x AND k > 9 UNION SELECT id FROM w WHERE w.id = t.id) AS e FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.x < t.x AND k > 11 UNION ALL SELECT 1 FROM w WHERE w.id = t.id)
SELECT g, count(*) AS c FROM t GROUP BY g HAVING EXISTS (SELECT 1 FROM u WHERE u.k > min(t.x) AND u.x = max(t.x) AND u.g = t.g)
SELECT g, sum(x) AS s FROM t GROUP BY g HAVING count(*) IN (SELECT k FROM u WHERE u.x <= max(t.x))
SELECT id, avg(x) OVER (ORDER BY ts RANGE BETWEEN CURRENT ROW AND interval 1 days 4 hours FOLLOWING) AS a FROM t
SELECT g, corr(DISTINCT x, id % 4) AS c, regr_slope(DISTINCT x, id % 4) AS r, covar_pop(DISTINCT y, x) FILTER (WHERE x > 1) AS v FROM t GROUP BY g
SELECT t.id, u.k FROM t LEFT JOIN u ON t.id = u.k OR EXISTS (SELECT 1 FROM w WHERE w.id = u.x)
SELECT t.id, u.k FROM t LEFT JOIN u ON t.g = u.g AND (t.id = u.k OR t.x IN (SELECT id FROM w))
SELECT id, NULL IN (SELECT x FROM u) AS a, CAST(NULL AS INT) NOT IN (SELECT x FROM u) AS b, NULL IN (SELECT x FROM u WHERE k > 99) AS c FROM t WHERE NULL NOT IN (SELECT x FROM u WHERE k > 99)
SELECT id FROM t WHERE NULL NOT IN (SELECT x FROM u) OR x > 3
SELECT g, CAST(sum(make_ym_interval(x, id)) AS STRING) AS s, CAST(avg(DISTINCT INTERVAL '7' MONTH * x) AS STRING) AS a, CAST(min(INTERVAL '1' YEAR * x) AS STRING) AS m, count(make_ym_interval(x, 1)) AS c, max(ts) + sum(INTERVAL '1' MONTH * x) FILTER (WHERE x < 3) AS n FROM t GROUP BY g HAVING sum(INTERVAL '1' MONTH * x) > INTERVAL '1' MONTH
SELECT t.id, u.k, u.name FROM t LEFT ASOF JOIN u MATCH_CONDITION (t.id >= u.k) ON t.g = u.g WHERE t.id > 2
SELECT t.id, w.id AS wid FROM t ASOF JOIN w MATCH_CONDITION (w.id > t.id) WHERE w.v > 'v0'
SELECT t.id, g, u.k FROM t INNER ASOF JOIN u MATCH_CONDITION (t.id <= u.k) USING (g)
SELECT t.id, u.k FROM t LEFT OUTER ASOF JOIN u MATCH_CONDITION (t.id + 1 > u.k) ON t.x < u.x AND u.name > 'n2' AND t.y > 3
SELECT t.id, a.k, w.v FROM t LEFT ASOF JOIN (SELECT * FROM u WHERE k > 3) a MATCH_CONDITION ((t.x, CAST(t.id AS INT)) >= (CAST(a.x AS INT), a.k)) JOIN w ON w.id = t.id
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u LIMIT 1 OFFSET 2) AND NOT EXISTS (SELECT max(k) FROM u GROUP BY g OFFSET 99)
SELECT count(*) AS n, (SELECT count(*) FROM (SELECT g FROM u OFFSET 1)) AS m FROM (SELECT id FROM t LIMIT 7 OFFSET 2)
SELECT g, count(*) AS c FROM t GROUP BY g LIMIT 99
SELECT id, (SELECT t.x FROM VALUES (1), (2) LIMIT 1) AS v, (SELECT t.x FROM (SELECT 1 AS a) FULL JOIN (SELECT 2 AS b) ON a = b LIMIT 1) AS w FROM t
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.g = t.g OFFSET 1) OR x IN (SELECT CAST(x AS INT) FROM (SELECT x FROM u WHERE u.name <> t.g) LIMIT 99)
SELECT t.id, q.n FROM t, LATERAL (SELECT max(k) AS n FROM u WHERE u.g = t.g GROUP BY g LIMIT 1) q
SELECT id, x FROM (SELECT id, x FROM t ORDER BY x DESC, id) WHERE id > 2 LIMIT 3
(SELECT id, x FROM t ORDER BY x, id) LIMIT 4
SELECT id FROM (SELECT id + 1 AS id FROM (SELECT * FROM t ORDER BY x DESC, id DESC) s) q LIMIT 3 OFFSET 1
WITH s AS (SELECT k, g FROM u ORDER BY g DESC, k) SELECT k FROM s LIMIT 2
TABLE u |> ORDER BY g DESC, k |> WHERE k > 1 |> LIMIT 2 |> SELECT k
SELECT id, g FROM t DISTRIBUTE BY x SORT BY g DESC, id
SELECT * FROM (SELECT id, x FROM t SORT BY x) UNION ALL SELECT k, x FROM u CLUSTER BY id
SELECT t.id, k, gg FROM t JOIN w ON t.id = w.id JOIN (SELECT k AS id, k, g AS gg FROM u) u USING (id)
SELECT w.v, k, u.id FROM t RIGHT JOIN w ON t.id = w.id + 3 NATURAL JOIN (SELECT k AS id, k FROM u) u
SELECT * FROM (SELECT a.k AS a, b.k AS b, n, x.id, y.id AS z FROM u a JOIN u b ON a.g = b.g NATURAL JOIN (SELECT name AS n, k, k FROM u) c LEFT JOIN w x ON x.id = b.k LEFT JOIN w y ON y.id = a.k)
"""  # noqa: E501


def _bag(frame: DataFrame) -> Counter[str]:
    """Return the rows; floats are rounded, as their sums differ in the last digits."""
    return Counter(
        repr([round(value, 9) if isinstance(value, float) else value for value in row])
        for row in frame.collect()
    )


@pytest.fixture(scope="module", autouse=True)
def _interpreted(spark: SparkSession) -> Iterator[None]:
    """Spark computes both sides of every comparison, from a few rows."""
    with interpreted(spark):
        yield


@pytest.mark.parametrize("query", QUERIES.strip().splitlines())
def test_a_plan_run_as_a_batch_gives_the_rows_of_its_query(
    query: str,
    spark: SparkSession,
    rows: Mapping[str, DataFrame],
    planned: Callable[[str], Materialize],
) -> None:
    """A plan gives Spark's rows of its query, its key is unique, and it round-trips as JSON."""
    skip_if_lacking(query)
    plan = planned(query)
    expected = spark.sql(query)
    actual = evaluated(plan, rows)
    assert actual.columns == expected.columns
    assert _bag(actual) == _bag(expected)
    text: Any = json.dumps(plan.to_json())
    assert plan_from_json(json.loads(text)) == plan


def test_inputs_of_a_union_are_cast_step_by_step(
    spark: SparkSession,
    rows: Mapping[str, DataFrame],
    planned: Callable[[str], Materialize],
) -> None:
    """An INT that meets a DOUBLE before a STRING is written as a DOUBLE."""
    query = "SELECT x FROM t UNION ALL SELECT d FROM t UNION ALL SELECT g FROM t"
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        assert _bag(evaluated(planned(query), rows)) == _bag(spark.sql(query))
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


def test_limit_without_order_by_takes_the_first_rows_by_key(
    spark: SparkSession,
    rows: Mapping[str, DataFrame],
    planned: Callable[[str], Materialize],
) -> None:
    """Any rows are right; a LIMIT over ordered rows of a subquery takes the first of these."""
    for query, order in {
        "SELECT id, g FROM t LIMIT 3 OFFSET 1": "ORDER BY id",
        "SELECT DISTINCT x FROM t LIMIT 2": "ORDER BY x",
        "SELECT g, sum(x) AS s FROM (SELECT * FROM t ORDER BY x) GROUP BY g LIMIT 1": "ORDER BY g",
        "SELECT id, q.k FROM t, LATERAL (SELECT k FROM u WHERE u.g = t.g LIMIT 1) q": "ORDER BY k",
    }.items():
        plan = planned(query)
        ordered = query.replace("LIMIT", f"{order} LIMIT")
        assert _bag(evaluated(plan, rows)) == _bag(spark.sql(ordered)), query


def test_the_first_row_of_each_group_is_more_than_one_row_to_a_scalar_subquery(
    rows: Mapping[str, DataFrame], planned: Callable[[str], Materialize]
) -> None:
    """A limit of one row for each group is not one of one row in all."""
    first = "(SELECT k, g, row_number() OVER (PARTITION BY g ORDER BY k) AS n FROM u)"
    plan = planned(f"SELECT id, (SELECT k FROM {first} WHERE n = 1) AS k FROM t")
    with pytest.raises(Exception, match="SCALAR_SUBQUERY_TOO_MANY_ROWS"):
        evaluated(plan, rows).collect()
