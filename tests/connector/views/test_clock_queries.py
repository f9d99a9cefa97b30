"""Views that compare rows with the present time equal their SELECTs at the time of a refresh."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from relstate.connector.sql import Database
from relstate.connector.views import backfill, runner
from relstate.storage import Store
from support.clock import ManualClock
from support.clock_law import EVENING, HOUR, Law, create, micros
from support.commits import quick_environment
from support.moving import Moving

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


VIEWS = {
    "recent": "SELECT k, g, ts FROM t WHERE ts > now() - INTERVAL 1 HOUR",
    "due": "SELECT k, v FROM t WHERE ts <= current_timestamp()",
    "since": "SELECT k FROM t WHERE ts BETWEEN TIMESTAMP'2024-02-28 23:00:00' AND now()",
    "within": "SELECT * FROM t WHERE ts BETWEEN now() - INTERVAL 2 HOUR AND now() AND n > 0",
    "today": "SELECT k, d FROM t WHERE d = current_date()",
    "days": "SELECT k, d, x FROM t WHERE current_date - 2 <= d",
    "dates": "SELECT k FROM t WHERE d > now() - INTERVAL 36 HOUR",
    "hour": "SELECT k, ts FROM t WHERE ts >= date_trunc('HOUR', now())",
    "constants": "SELECT k FROM t WHERE ts > now() - 3 * INTERVAL 1 HOUR AND ts < now() + "
    "INTERVAL 1 DAY * (1 + 1) / 2 AND d > date_sub(current_date(), abs(-2) * 7)",
    "century": "SELECT k FROM t WHERE ts > date_trunc('century', now()) OR n = 1",
    "local": "SELECT k FROM t WHERE CAST(ts AS TIMESTAMP_NTZ) < localtimestamp()",
    "sums": "SELECT g, count(*) AS c, sum(v) AS s FROM t WHERE ts > now() - INTERVAL 1 HOUR "
    "GROUP BY g",
    "groups": "SELECT g, max(ts) AS last FROM t GROUP BY g "
    "HAVING max(ts) > now() - INTERVAL 1 HOUR",
    "whole": "SELECT count(*) AS c, max(v) AS m FROM t WHERE ts <= now()",
    "joined": "SELECT t.k, u.s FROM t JOIN u ON t.g = u.g AND t.ts > now() - INTERVAL 90 MINUTES",
    "left": "SELECT u.i, u.s, t.k FROM u LEFT JOIN t ON u.g = t.g AND t.ts <= now()",
    "waiting": "SELECT i, s FROM u WHERE EXISTS (SELECT 1 FROM t WHERE t.g = u.g AND t.ts > now())",
    "latest": "SELECT i, s FROM u "
    "WHERE (SELECT max(ts) FROM t WHERE t.n = u.n) > now() - INTERVAL 1 HOUR",
    "both": "SELECT k, 1 AS p FROM t WHERE ts > now() UNION ALL "
    "SELECT k, 2 FROM t WHERE ts <= now() - INTERVAL 1 HOUR",
    "top": "SELECT k, ts FROM t WHERE ts <= now() ORDER BY ts DESC, k LIMIT 3",
    "ranked": "SELECT k, g, sum(v) OVER (PARTITION BY g) AS s FROM t WHERE ts <= now()",
    "two": "SELECT t.k, w.name FROM t JOIN w ON t.g = w.g "
    "WHERE t.ts <= now() AND w.d + INTERVAL 1 DAY > now()",
    "month": "SELECT k FROM t WHERE ts > add_months(current_date(), -1)",
    "over": "SELECT g, count(*) AS c FROM {v}recent GROUP BY g",
    "overtime": "SELECT g, c FROM {v}groups JOIN {v}sums USING (g) WHERE last <= now()",
}
COMBINED = {
    "pinned": "SELECT k, g FROM t WHERE ts > now() - INTERVAL 1 HOUR OR n > 1",
    "tiers": "SELECT k, ts, x FROM t "
    "WHERE ts > now() - INTERVAL 1 HOUR OR n > 0 AND ts > now() - INTERVAL 1 DAY",
    "open": "SELECT k FROM t WHERE d IS NULL OR d > current_date()",
    "outside": "SELECT k FROM t WHERE ts NOT BETWEEN now() - INTERVAL 1 HOUR AND now() AND n < 3",
    "either": "SELECT k, ts FROM t WHERE ts <= now() - INTERVAL 2 HOUR OR d > current_date()",
    "not": "SELECT k FROM t WHERE NOT (ts > now() OR g = 'a')",
    "other": "SELECT k FROM t WHERE d <> current_date() OR v = 1 AND NOT ts > now()",
    "counts": "SELECT g, count(*) AS c, sum(v) AS s FROM t "
    "WHERE NOT (ts > now() - INTERVAL 1 HOUR AND n > 0) GROUP BY g",
    "having": "SELECT g, max(ts) AS last, count(*) AS c FROM t GROUP BY g "
    "HAVING max(ts) > now() - INTERVAL 1 HOUR OR count(*) > 5",
    "known": "SELECT k FROM t WHERE ts > now() OR EXISTS (SELECT 1 FROM u WHERE u.g = t.g)",
    "joined": "SELECT t.k, u.i FROM t JOIN u ON t.g = u.g "
    "WHERE t.ts > now() - INTERVAL 1 HOUR OR u.n = t.n",
    "first": "SELECT k, ts FROM t WHERE (ts <= now() OR n = 1) AND (d = current_date() OR n = 2) "
    "ORDER BY ts, k LIMIT 4",
    "over": "SELECT count(*) AS c FROM {v}pinned",
}
COMPARED = {
    "ages": "SELECT k, now() - ts < INTERVAL '1:30' HOUR TO MINUTE AS a, "
    "ts - now() BETWEEN INTERVAL -2 HOURS AND INTERVAL 1 HOUR AS b, "
    "ts > now() - n * INTERVAL 1 HOUR AS c, unix_timestamp() - unix_timestamp(ts) < 3601 AS d, "
    "unix_millis(now()) - 7200000 <= unix_millis(ts) AS e FROM t",
    "units": "SELECT k, timestampdiff(MINUTE, ts, now()) <= 45 AS a, "
    "timestampdiff(HOUR, ts, now()) = 0 AS b, timestampdiff(HOUR, now(), ts) <> -1 AS c FROM t "
    "WHERE timestampdiff(DAY, ts, now()) < 1 OR n > 0",
    "days": "SELECT k, datediff(current_date(), d) < 2 AS a, datediff(ts, now()) >= n - 2 AS b, "
    "date_sub(current_date(), n) <= d AS c, current_date() - d < INTERVAL 36 HOURS AS e, "
    "year(d) = year(current_date() + 307) AS f FROM t",
    "in": "SELECT k, d NOT IN (current_date(), DATE'2024-03-01') AS a FROM t "
    "WHERE d IN (current_date(), current_date() - 1, DATE'2024-02-20') OR d <=> current_date()",
    "made": "SELECT k FROM t WHERE ts <= last_day(current_date()) AND "
    "CAST(ts AS TIMESTAMP_NTZ) > localtimestamp() - make_interval(0, 0, 0, 0, 1)"
    " OR n = 1 AND from_utc_timestamp(now(), 'Europe/Berlin') < ts",
    "case": "SELECT k FROM t WHERE CASE WHEN n = 1 THEN ts > now() ELSE ts < now() END",
    "coalesced": "SELECT k FROM t WHERE coalesce(ts > now(), d < current_date(), true)",
    "flags": "SELECT k FROM t WHERE coalesce(ts > now(), false) = false AND n > 1 "
    "OR NOT (ts > now()) = (d > current_date())",
    "between": "SELECT t.k, w.name FROM t LEFT JOIN w "
    "ON t.g = w.g AND current_date() BETWEEN t.d AND w.d",
    "unknown": "SELECT k FROM t WHERE ts > now() IS NULL OR NOT (d <=> current_date()) "
    "OR (ts > now()) IS NOT TRUE AND n = 1",
    "state": "SELECT k, g, CASE WHEN ts > now() THEN 'future' WHEN ts > now() - INTERVAL 1 HOUR "
    "THEN 'new' WHEN ts IS NULL THEN 'none' ELSE 'old' END AS state FROM t",
    "counts": "SELECT g, count(*) FILTER (WHERE ts > now() - INTERVAL 1 HOUR) AS c, "
    "count_if(d >= current_date()) AS e, sum(if(ts <= now(), n, 0)) AS s FROM t GROUP BY g",
    "grouped": "SELECT ts > now() AS future, count(*) AS c, collect_set(n) AS l FROM t "
    "GROUP BY ts > now() HAVING coalesce(min(ts) < now(), true)",
    "kept": "SELECT t.k, u.i FROM t LEFT JOIN u ON t.g = u.g AND t.ts > now() - INTERVAL 1 HOUR",
    "full": "SELECT t.k, u.i FROM t FULL JOIN u ON t.g = u.g AND t.ts > now() AND u.n > 1",
    "apart": "SELECT t.k, u.i FROM t LEFT JOIN u ON t.g = u.g "
    "AND t.ts + make_dt_interval(0, u.n) > now()",
    "both": "SELECT t.k, u.i FROM t FULL JOIN u ON t.g = u.g "
    "AND timestampadd(HOUR, u.n, t.ts) BETWEEN now() - INTERVAL 5 HOURS AND now()",
    "anti": "SELECT k FROM t LEFT ANTI JOIN u ON t.n < u.n AND (t.ts > now() OR u.n = 1)",
    "window": "SELECT k, sum(if(ts > now(), 1, 0)) OVER (PARTITION BY g ORDER BY k) AS c FROM t",
    "ordered": "SELECT k, ts > now() AS future FROM t ORDER BY ts > now() DESC, k LIMIT 5",
    "cases": "SELECT k FROM t WHERE (ts > now() OR n = 1) AND (d < current_date() OR n = 2) AND "
    "(ts < now() - INTERVAL 1 HOUR OR n = 3) AND (ts < now() - INTERVAL 2 HOURS OR n = 4) AND "
    "(ts < now() - INTERVAL 3 HOURS OR n = 0) OR d > current_date() AND g = 'b'",
    "over": "SELECT state, count(*) AS c FROM {v}state GROUP BY state",
}


@pytest.fixture
def clock() -> ManualClock:
    """A clock that shows an evening in February."""
    return ManualClock(micros(EVENING))


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    """A store with that clock."""
    environment = quick_environment(tmp_path / "store", clock)
    with Store.create(environment.root, vnode_count=8, shards=1, environment=environment) as store:
        yield store
        assert store.check().problems == ()


@pytest.mark.parametrize("seed", range(3))
def test_a_combination_of_conditions_equals_its_select_at_the_time_of_its_refresh(
    seed: int,
    spark: SparkSession,
    store: Store,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Comparisons with the present time below OR and NOT, also with conditions of other kinds."""
    check_law(seed, COMBINED, spark, store, clock, monkeypatch)


@pytest.mark.parametrize("seed", range(3))
def test_a_comparison_with_the_present_time_is_a_value_of_its_select(
    seed: int,
    spark: SparkSession,
    store: Store,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ages, units and sums mixed with the time; in SELECT, CASE, aggregates and outer joins."""
    check_law(seed, COMPARED, spark, store, clock, monkeypatch)


@pytest.mark.parametrize("seed", range(3))
def test_a_view_equals_its_select_at_the_time_of_its_refresh(
    seed: int,
    spark: SparkSession,
    store: Store,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tables change, or time passes, or both; views are made before and after rows, and rescaled.

    One of the cases takes rows in by parts.
    """
    check_law(seed, VIEWS, spark, store, clock, monkeypatch)


def check_law(
    seed: int,
    queries: Mapping[str, str],
    spark: SparkSession,
    store: Store,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Compare some of the views with their SELECTs while tables change and time passes."""
    if seed == 2:
        for module in (runner, backfill):
            monkeypatch.setattr(module, "PART_ROWS", 20)
    random, db = Random(seed), Database(spark, store)
    tables = Moving(store, random)
    views = chosen(queries, seed)
    law = Law(spark, store, clock, views)
    create(db, views)
    for step in range(5):
        if step != 2:
            tables.step(20)
        if step != 1:
            clock.advance(random.choice([20, 47 * 60, 2 * HOUR, 5 * HOUR]))
        if step == 3:
            for name in views:
                db.sql(f"ALTER MATERIALIZED VIEW v_{name} SET PARALLELISM {random.choice([1, 3])}")
        db.refresh()
        tables.show(law.session)
        law.check(f"seed {seed}, step {step}")
        assert not any(row.is_behind for row in db.sql("SHOW MATERIALIZED VIEWS").collect())
    create(db, views, 1, "w_")
    law.check(f"seed {seed}, created late", "w_")
    clock.advance(HOUR)
    db.refresh()
    law.check(f"seed {seed}, at the end", "v_", "w_")
    assert [report for report in db.check_views() if not report.ok] == []


def chosen(queries: Mapping[str, str], seed: int) -> dict[str, str]:
    """Return a third of the views, and those that they read."""
    names = set(list(queries)[seed::3])
    names |= {base for name in names for base in queries if f"{{v}}{base}" in queries[name]}
    return {name: query for name, query in queries.items() if name in names}
