"""The present time in a zone with daylight saving time, and at the limits of types."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from relstate.connector.sql import Database
from relstate.storage import Store
from support.clock import ManualClock
from support.clock_law import HOUR, Law, create, micros
from support.commits import quick_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
