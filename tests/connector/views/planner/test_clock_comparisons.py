"""Comparisons with the present time that no view can have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from relstate.connector.sql import Database
from relstate.storage import Store
from relstate.storage.errors import UnsupportedStatementError, ViewFailedError
from support.versions import LOCAL_SECONDS, needs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("condition", "advice"),
    [
        ("now() - ts <=> INTERVAL 1 HOUR", "write = instead of <=>"),
        ("datediff(current_date(), d) <=> n", "write = instead of <=>"),
        pytest.param("unix_seconds(localtimestamp()) > n", "use now()", marks=needs(LOCAL_SECONDS)),
        ("timestampdiff(WEEK, ts, now()) < 9000000000000", "compare the time of the row"),
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
