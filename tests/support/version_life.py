"""A store that processes with different versions of Spark use in turn.

    python -m support.version_life STORE SUFFIX STEP

Writes the rows of a step, refreshes the views of all versions and checks them; the first step of
each of the two versions creates views that end with ``SUFFIX``. It fails where a view is not its
SELECT.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from relstate.connector.sql import Database

# One for each family of executors.
VIEWS = {
    "sums": "SELECT g, count(*) AS c, sum(v) AS s, min(v) AS low, avg(v) AS mean FROM t GROUP BY g",
    "pairs": "SELECT a.k, b.k AS other FROM t a JOIN t b ON a.v = b.v AND a.k < b.k",
    "tops": "SELECT g, k FROM (SELECT g, k, row_number() OVER (PARTITION BY g ORDER BY v, k) AS n "
    "FROM t) WHERE n <= 2",
    "kinds": "SELECT DISTINCT g, v % 3 AS m FROM t",
    "texts": "SELECT k, upper(g) || '-' || date_format(timestamp_seconds(v * 1000), 'dd HH') "
    "AS t, array(v, k) AS l FROM t WHERE v > 1",
    "listed": "SELECT g, collect_list(v) AS l FROM t GROUP BY g",
}
TABLE = "k BIGINT, g STRING, v BIGINT"


def live(spark: SparkSession, path: str, suffix: str, step: int) -> None:
    """Do a step with one version."""
    import relstate

    db = relstate.connect(spark, path)
    rows = ", ".join(f"({k}, 'g{(k + step) % 3}', {k * step % 7})" for k in range(step, step + 6))
    db.sql(f"INSERT INTO t VALUES {rows}")
    db.sql(f"DELETE FROM t WHERE k = {step}")
    db.refresh()
    if step <= 2:
        for name, query in VIEWS.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name}_{suffix} AS {query}")
    check(db)


def check(db: Database) -> None:
    """Fail unless every view is its SELECT, by its rows and by `check_views`."""
    reports = db.check_views()
    assert len(reports) >= len(VIEWS)
    assert all(report.ok for report in reports), reports
    assert db.store.check().problems == ()


def main(path: str, suffix: str, step: int) -> None:
    """Do a step in a Spark of this process."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.session.timeZone", "UTC")
    spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    live(spark, path, suffix, step)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
