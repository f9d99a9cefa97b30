"""Views that compare rows with the present time: rows come and go as the clock passes them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from relstate.connector.sql import Database
from relstate.connector.syntax.parsed_query import ParsedQuery
from relstate.connector.syntax.present_time import query_at
from relstate.connector.views import backfill, runner
from relstate.connector.views.runner import JobRunner
from relstate.storage import Store
from relstate.storage.errors import UnsupportedStatementError, ViewFailedError
from support.clock import ManualClock
from support.commits import quick_environment
from support.moving import Moving
from support.multisets import difference, rows_of_table
from support.spark import INTERPRETED
from support.stores import rows_of, upsert
from support.views import count_refreshes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR = 3600
VIEWS = {
    "recent": "SELECT k, g, ts FROM t WHERE ts > now() - INTERVAL 1 HOUR",
    "due": "SELECT k, v FROM t WHERE ts <= current_timestamp()",
    "since": "SELECT k FROM t WHERE ts BETWEEN TIMESTAMP'2024-02-28 23:00:00' AND now()",
    "within": "SELECT * FROM t WHERE ts BETWEEN now() - INTERVAL 2 HOUR AND now() AND n > 0",
    "today": "SELECT k, d FROM t WHERE d = current_date()",
    "days": "SELECT k, d, x FROM t WHERE current_date - 2 <= d",
    "dates": "SELECT k FROM t WHERE d > now() - INTERVAL 36 HOUR",
    "hour": "SELECT k, ts FROM t WHERE ts >= date_trunc('HOUR', now())",
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
EVENING = datetime(2024, 2, 28, 21, tzinfo=UTC)


def micros(moment: datetime) -> int:
    """Return a moment in microseconds since 1970."""
    return int(moment.timestamp()) * 1_000_000


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


def create(db: Database, views: Mapping[str, str], units: int = 2, prefix: str = "v_") -> None:
    """Create views."""
    for name, query in views.items():
        db.sql(
            f"CREATE MATERIALIZED VIEW {prefix}{name} TBLPROPERTIES ('parallelism' = '{units}') "
            f"AS {query.format(v=prefix)}"
        )


class Law:
    """Views over changing tables, compared with their SELECTs at the time of the clock."""

    def __init__(
        self, spark: SparkSession, store: Store, clock: ManualClock, views: Mapping[str, str]
    ) -> None:
        self._store, self._clock, self._views = store, clock, views
        self._batch = spark.newSession()
        for name, value in INTERPRETED.items():
            self._batch.conf.set(name, value)
        zone = spark.conf.get("spark.sql.session.timeZone")
        assert zone is not None
        self._batch.conf.set("spark.sql.session.timeZone", zone)

    @property
    def session(self) -> SparkSession:
        """The session that says what is right."""
        return self._batch

    def check(self, where: str, *prefixes: str) -> None:
        """Compare all views with what Spark makes of the tables that the session shows."""
        for name, query in self._views.items():
            text = query_at(ParsedQuery.parse(query.format(v="")), self._clock.now()).text
            expected = self._batch.sql(text).toArrow()
            self._batch.sql(text).createOrReplaceTempView(name)
            for prefix in prefixes or ("v_",):
                rows = self._store.table(prefix + name).to_arrow().select(expected.column_names)
                surplus, missing = difference(rows_of_table(rows), rows_of_table(expected))
                assert (surplus[:3], missing[:3]) == ([], []), f"{where}: {prefix}{name}: {text}"


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


ZONED = {
    "day": "SELECT k FROM m WHERE ts > now() - INTERVAL 1 DAY",
    "month": "SELECT k FROM m WHERE ts > now() - INTERVAL 1 MONTH",
    "until": "SELECT k FROM m WHERE ts <= now() - INTERVAL 1 MONTH",
    "local": "SELECT k FROM m "
    "WHERE CAST(ts AS TIMESTAMP_NTZ) >= localtimestamp() - INTERVAL 3 HOURS",
    "dates": "SELECT k FROM m WHERE CAST(ts AS DATE) = current_date()",
    "year": "SELECT k FROM m WHERE ts >= date_trunc('MONTH', now() - INTERVAL '1' MONTH)",
    "ages": "SELECT k, now() - ts < INTERVAL 26 HOURS AS a, timestampdiff(HOUR, ts, now()) < 3 AS b"
    " FROM m WHERE datediff(now(), ts) <= 1",
}
CHANGES_OF_OFFSETS = {
    "spring": (
        datetime(2024, 3, 30, 22, tzinfo=UTC),
        [HOUR // 4] * 12 + [20 * HOUR] + [HOUR // 3] * 12,
    ),
    "autumn": (
        datetime(2023, 10, 28, 22, tzinfo=UTC),
        [HOUR // 2] * 10 + [22 * HOUR] + [HOUR // 2] * 6,
    ),
    "month": (datetime(2023, 3, 28, 10, tzinfo=UTC), [9 * HOUR] * 13),
}


@pytest.mark.parametrize("case", CHANGES_OF_OFFSETS)
def test_a_clock_that_is_set_back_lets_rows_come_back(
    case: str, spark: SparkSession, tmp_path: Path
) -> None:
    """At changes to daylight saving time, and at ends of months, bounds go back, and so do views.

    A view that is not due does not differ from its SELECT.
    """
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    start, steps = CHANGES_OF_OFFSETS[case]
    clock = ManualClock(micros(start))
    environment = quick_environment(tmp_path / "zoned", clock)
    store = Store.create(environment.root, vnode_count=8, shards=1, environment=environment)
    store.create_table("m", "k BIGINT, ts TIMESTAMP", primary_key=["k"])
    first = micros(start) - 35 * 24 * HOUR * 1_000_000
    rows = pa.table(
        {
            "k": list(range(4000)),
            "ts": pa.array(
                [first + n * 17 * 60_000_000 for n in range(4000)], pa.timestamp("us", "UTC")
            ),
        }
    )
    store.write("m", rows)
    db, law = Database(session, store), Law(session, store, clock, ZONED)
    law.session.createDataFrame(rows).createOrReplaceTempView("m")
    create(db, ZONED)
    for number, seconds in enumerate(steps):
        law.check(f"{case}, step {number}")
        clock.advance(seconds)
        db.refresh()
    law.check(f"{case}, at the end")
    assert [report for report in db.check_views() if not report.ok] == []


MARKS = {
    "distant": "SELECT k, now() - ts < step AS a, ts - now() > step AS b FROM (SELECT k, ts, "
    "CASE k WHEN 1 THEN INTERVAL 106751991 DAYS WHEN 2 THEN INTERVAL -106751991 DAYS "
    "ELSE INTERVAL 10 MINUTES END AS step FROM m)",
    "guarded": "SELECT k, CASE WHEN n IS NULL THEN d > current_date() WHEN k > 0 THEN "
    "ts + make_dt_interval(0, 0, 6 div k) > now() END AS a, "
    "if(k = 0, NULL, make_date(2024, 3, 24 + 6 div k) < current_date()) AS b FROM m WHERE k <> 2",
    "never": "SELECT k, x > unix_timestamp() AS a, unix_timestamp() - x < 60 AS b, "
    "year(current_date()) < n AS c, datediff(current_date(), d) < n AS e FROM m",
    "steps": "SELECT k, date_sub(current_date(), n) <= d AS a FROM m",
    "lost": "SELECT k, now() - ts < INTERVAL 1 HOUR AS a, "
    "timestampdiff(MINUTE, ts, now()) < 60 AS b FROM m",
    "found": "SELECT k FROM m WHERE datediff(current_date(), d) < (SELECT min(n) FROM m)",
}


def test_marks_and_the_hour_that_spring_lacks_compare_as_in_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The greatest numbers of a type, NULLs, and local times that no clock showed."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    clock = ManualClock(micros(datetime(2024, 3, 31, 0, 45, tzinfo=UTC)))
    environment = quick_environment(tmp_path / "marks", clock)
    store = Store.create(environment.root, vnode_count=8, shards=1, environment=environment)
    store.create_table("m", "k INT, n INT, x BIGINT, d DATE, ts TIMESTAMP", primary_key=["k"])
    begin, day = datetime(2024, 3, 31, tzinfo=UTC), date(2024, 3, 30)
    rows = pa.table(
        {
            "k": pa.array(range(5), pa.int32()),
            "n": pa.array([2024, 2**31 - 1, None, 1, 2], pa.int32()),
            "x": [0, 2**63 - 1, -(2**62), None, int(begin.timestamp())],
            "d": pa.array([day, day, None, day, day], pa.date32()),
            "ts": pa.array(
                [begin + timedelta(minutes=30 * n) for n in range(4)] + [None],
                pa.timestamp("us", "UTC"),
            ),
        }
    )
    store.write("m", rows)
    db, law = Database(session, store), Law(session, store, clock, MARKS)
    law.session.createDataFrame(rows).createOrReplaceTempView("m")
    create(db, MARKS)
    for number in range(5):
        law.check(f"step {number}")
        clock.advance(HOUR // 2)
        db.refresh()
    law.check("at the end")


@pytest.mark.parametrize(
    ("condition", "advice"),
    [
        ("now() - ts <=> INTERVAL 1 HOUR", "write = instead of <=>"),
        ("datediff(current_date(), d) <=> n", "write = instead of <=>"),
        ("unix_seconds(localtimestamp()) > n", "use now()"),
        ("timestampdiff(WEEK, ts, now()) < 9000000000000", "compare the time of the row"),
        ("ts > date_trunc('bogus', now())", "check the units"),
    ],
)
def test_comparisons_that_cannot_be_written_otherwise_are_refused(
    condition: str, advice: str, spark: SparkSession, store: Store
) -> None:
    """With what to write instead, and without a view that nobody can refresh."""
    store.create_table("t", "k INT, n INT, d DATE, ts TIMESTAMP", primary_key=["k"])

    with pytest.raises((UnsupportedStatementError, ViewFailedError), match=advice):
        Database(spark, store).sql(
            f"CREATE MATERIALIZED VIEW v AS SELECT k, {condition} AS c FROM t"
        )

    assert store.views() == ()


@pytest.fixture
def db(spark: SparkSession, store: Store) -> Database:
    """The store with a table of events, one every minute of an hour, and a view of the next."""
    store.create_table("e", "k BIGINT, ts TIMESTAMP", primary_key=["k"])
    put(store, range(60))
    db = Database(spark, store)
    db.sql("CREATE MATERIALIZED VIEW begun AS SELECT k, ts FROM e WHERE ts <= now()")
    return db


def put(store: Store, keys: range) -> None:
    """Write events, each at the minute that is its key."""
    moments = [datetime.fromtimestamp(EVENING.timestamp() + 60 * key, UTC) for key in keys]
    upsert(store, "e", list(zip(keys, moments, strict=True)))


def begun(store: Store) -> list[int]:
    """Return the keys of the events that have begun for the view."""
    return sorted(key for key, _ in rows_of(store.table("begun").to_arrow()))


def test_a_refresh_before_a_view_is_due_starts_no_job(
    db: Database, store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is committed until the very moment at which the next row comes."""
    assert begun(store) == [0]
    jobs: list[str] = []
    run = JobRunner.run
    monkeypatch.setattr(JobRunner, "run", lambda s, job: jobs.append(job.name) or run(s, job))

    clock.advance(59.999_999)
    done = db.refresh()
    assert (done.views, jobs, begun(store)) == ((), [], [0])
    assert not db.sql("SHOW MATERIALIZED VIEWS").first().is_behind
    clock.advance(0.000_001)
    assert db.sql("SHOW MATERIALIZED VIEWS").first().is_behind
    done = db.refresh()
    assert (done.views, jobs, begun(store)) == (("begun",), ["begun"], [0, 1])
    clock.advance(24 * HOUR)
    db.refresh()
    assert begun(store) == list(range(60))
    # No row is left that could come: time alone never changes the view again.
    clock.advance(1000 * 24 * HOUR)
    assert db.refresh().views == ()
    assert len(jobs) == 2


def test_a_refresh_that_dies_before_its_commit_changes_nothing(
    db: Database, store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one, at a later time, starts from what was committed."""

    def die(*_: object) -> None:
        raise MemoryError("killed")

    clock.advance(120)
    with monkeypatch.context() as patch:
        patch.setattr(JobRunner, "commit", die)
        with pytest.raises(MemoryError):
            db.refresh()
    assert begun(store) == [0]
    clock.advance(60)
    db.refresh()
    assert begun(store) == [0, 1, 2, 3]
    assert [report for report in db.check_views() if not report.ok] == []


def test_a_clock_that_was_set_back_does_not_move_a_view_back(
    db: Database, store: Store, clock: ManualClock
) -> None:
    """A refresh is never at an earlier time than the one before it."""
    clock.advance(10 * 60)
    db.refresh()
    clock.set_back(30)
    put(store, range(100, 101))
    put(store, range(-5, 0))
    db.refresh()

    assert begun(store) == list(range(-5, 11))
    assert [report for report in db.check_views() if not report.ok] == []


def test_the_plan_shows_the_filter_its_state_and_its_cost(db: Database) -> None:
    """EXPLAIN names the bound, the executor, and the order of its state."""
    plan = db.sql("EXPLAIN MATERIALIZED VIEW begun").first().plan

    assert "TemporalFilter moment < UNIX_MICROS(now) + 1, time costs" in plan
    assert "Executor 1: temporal_filter" in plan
    assert "key (moment, k)" in plan


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait until a condition holds; fail if it never does."""
    started = time.monotonic()
    while not holds():
        assert time.monotonic() - started < 60, "the condition never held"
        time.sleep(0.01)


def test_a_stream_wakes_when_the_next_row_comes(
    db: Database, store: Store, clock: ManualClock
) -> None:
    """It does nothing until then, and commits once."""
    stream = db.stream()
    stream.processAllAvailable()
    refreshes = count_refreshes(store)
    clock.advance(59)
    stream.processAllAvailable()
    assert count_refreshes(store) == refreshes
    clock.advance(1)
    stream.processAllAvailable()
    assert begun(store) == [0, 1]
    assert stream.lastProgress is not None
    assert stream.lastProgress["views"] == ["begun"]
    clock.advance(600)
    wait_until(lambda: begun(store) == list(range(12)))
    stream.stop()
