"""Windows of time in views, in time zones that change their offsets, against Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from relstate.connector.sql import Database
from support.multisets import difference, rows_of_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from support.stores import StoreMaker

# A zone, and times near those at which its clocks change: by an hour, by an hour at midnight (so
# that a day begins at 1 o'clock), and by half an hour.
_CHANGES = {
    "Europe/Dublin": (datetime(2025, 3, 30, 1), datetime(2025, 10, 26, 1)),
    "America/Sao_Paulo": (datetime(2018, 11, 4, 0), datetime(2018, 2, 17, 23)),
    "Australia/Lord_Howe": (datetime(2024, 10, 6, 2), datetime(2024, 4, 7, 1)),
}
# Durations of hours and of days, those longer than from one change to the next, numbers of
# microseconds, several windows per row, and starts of both signs.
_WINDOWS = (
    "'2 hours'",
    "'281 days'",
    "'1 week'",
    "'1 day', '1 day', '-90 minutes'",
    "'100 minutes', '30 minutes'",
    "'3 days', '25 hours', '5 minutes'",
    "'200 days 1 hour', '90 days'",
    "5400000000, 2700000000L, -60000000",
)
_GAPS = ("'50 minutes'", "'1 day'", "'24 hours'", "if(k % 3 = 0, '1 day', '2 hours')")


def _views() -> dict[str, str]:
    """Return views, each of all windows of one column, and each of all its sessions."""
    views = {}
    for time in ("ts", "ntz"):
        windows = (f"SELECT window({time}, {arguments}) AS w, k FROM m" for arguments in _WINDOWS)
        views[time] = " UNION ALL ".join(
            f"SELECT {number} AS n, w.start AS s, w.end AS e, count(*) AS c, min(k) AS k "
            f"FROM ({window}) GROUP BY w.start, w.end"
            for number, window in enumerate(windows)
        )
        views[f"{time}_sessions"] = " UNION ALL ".join(
            f"SELECT {number} AS n, session_window.start AS s, session_window.end AS e, "
            f"count(*) AS c FROM m GROUP BY k % 2, session_window({time}, {gap})"
            for number, gap in enumerate(_GAPS)
        )
    return views


def _rows(times: list[datetime], zone: str, first_key: int) -> pa.Table:
    """Return rows with local times, as they are and as times of the zone."""
    instants = [time.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC) for time in times]
    return pa.table(
        {
            "k": range(first_key, first_key + len(times)),
            "ts": pa.array(instants, pa.timestamp("us", "UTC")),
            "ntz": pa.array(times, pa.timestamp("us")),
        }
    )


@pytest.mark.timeout(900)
@pytest.mark.parametrize("zone", _CHANGES)
def test_windows_are_those_of_spark_where_clocks_change(
    zone: str, spark: SparkSession, make_store: StoreMaker
) -> None:
    """Windows of TIMESTAMP and TIMESTAMP_NTZ begin and end when Spark's do, before 1970, too."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    store = make_store(vnode_count=4, shards=1)
    store.create_table("m", "k BIGINT, ts TIMESTAMP, ntz TIMESTAMP_NTZ", primary_key=["k"])
    steps = [timedelta(minutes=10 * n - 100) for n in range(25)]
    changes = [change + step for change in _CHANGES[zone] for step in steps]
    old = [datetime(1890, 1, 1, 12), datetime(1969, 12, 31, 23, 59, 59, 999999)]
    store.write("m", _rows([*changes[::2], *old], zone, 0))
    db, views = Database(session, store), _views()
    for name, query in views.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    store.write("m", _rows(changes[1::2], zone, 1000))
    db.sql("DELETE FROM m WHERE k = 3")
    db.refresh()

    for name, query in views.items():
        rows = rows_of_table(db.sql(f"SELECT * FROM {name}").toArrow())
        assert difference(rows, rows_of_table(db.sql(query).toArrow())) == ([], []), name
