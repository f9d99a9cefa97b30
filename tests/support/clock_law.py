"""The law of views that compare rows with the present time: each equals its SELECT at the time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from relstate.connector.sql import Database
from relstate.connector.syntax.parsed_query import ParsedQuery
from relstate.connector.syntax.present_time import query_at
from relstate.storage import Store
from support.clock import ManualClock
from support.multisets import difference, rows_of_table
from support.spark import INTERPRETED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


HOUR = 3600
EVENING = datetime(2024, 2, 28, 21, tzinfo=UTC)


def micros(moment: datetime) -> int:
    """Return a moment in microseconds since 1970."""
    return int(moment.timestamp()) * 1_000_000


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
