"""The memory of one task of a view: it must follow from the size of a part, not of the table.

Parts are smaller than in production, so that few rows make several of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import relstate
from relstate.connector.views import backfill, runner

from ... import rows
from ...figure import Comparison, Figure, Samples
from ...resident import WorkerMemory
from ...workbench import Workbench, new_table, write

_ASKED = 512
_PART_ROWS = 1 << 17
# Of five million rows a view is created over 100,000, in one part, and over 500,000, in four.
_FEW, _MANY = 50, 10
# One view for each family of executors, over rows of a long, a double, a time and a text.
_VIEWS = {
    "aggregate": "SELECT k % 20000 AS g, count(*) AS n, sum(d) AS d FROM r GROUP BY 1",
    "extremes": "SELECT k % 20000 AS g, min(d) AS low, max(d) AS high FROM r GROUP BY 1",
    "top n": "SELECT k, d, s FROM r "
    "QUALIFY row_number() OVER (PARTITION BY k % 1000 ORDER BY d, k) <= 3",
    "hash join": "SELECT x.k, x.s, y.d FROM r x LEFT JOIN r y ON x.k = y.k AND y.a > 0",
    "broadcast join": "SELECT x.k, y.k AS band, y.d FROM r x "
    "JOIN (SELECT k, d FROM r WHERE a % 1000 = 0) y "
    "ON x.k BETWEEN y.k AND y.k + 1000000",
    "asof join": "SELECT x.k, y.d FROM r x LEFT ASOF JOIN r y MATCH_CONDITION (x.ts > y.ts) "
    "ON x.k % 1000 = y.k % 1000",
    "window": "SELECT k, lag(d) OVER w AS l, sum(a) OVER w AS t FROM r "
    "WINDOW w AS (PARTITION BY k % 1000 ORDER BY ts, k)",
    "whole partitions": "SELECT k, d, max(d) OVER (PARTITION BY k % 20000) AS m FROM r",
    "present time": "SELECT k, d, s FROM r WHERE ts <= now() AND ts > now() - INTERVAL 200 YEARS",
    "explode": "SELECT k, e FROM r LATERAL VIEW explode(array(a, k, k + a)) AS e",
    "keyed recompute": "SELECT k % 20000 AS g, median(d) AS d FROM r GROUP BY 1",
}


def memory(bench: Workbench) -> Iterator[Figure]:
    """Measure the most memory of its own that a worker of Spark has while a view is created.

    Each view over few rows and over five times as many, in MiB. Workers are used again, and keep
    some of what they had, so the few rows come first.
    """
    with _small_parts():
        for count in (bench.size.rows // _FEW, bench.size.rows // _MANY):
            with bench.store() as store:
                new_table(store, "r")
                write(store, "r", rows.batches(range(count)))
                database = relstate.connect(bench.spark, store.path)
                for name, query in _VIEWS.items():
                    with WorkerMemory() as workers:
                        database.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
                    database.sql("DROP MATERIALIZED VIEW v")
                    yield Figure(
                        workload="view-memory",
                        case=f"{name}: {count:,} rows",
                        unit="MiB",
                        samples=Samples((workers.peak / (1 << 20),)),
                        comparison=Comparison.ALONE,
                        against="",
                        asked=_ASKED,
                    )


@contextmanager
def _small_parts() -> Iterator[None]:
    """Let backfills have parts of `_PART_ROWS`."""
    with (
        mock.patch.object(backfill, "PART_ROWS", _PART_ROWS),
        mock.patch.object(runner, "PART_ROWS", _PART_ROWS),
    ):
        yield
