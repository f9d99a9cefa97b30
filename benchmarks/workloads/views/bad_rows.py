"""Ten views with a quarantine over changes of which one row in a thousand is bad."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import relstate
from relstate.connector.sql.database import Database

from ...figure import Comparison, Figure
from ...flights import Changes, fill
from ...turns import Run, in_turns, seconds
from ...workbench import Workbench

_BAD_EVERY = 1_000
# Changes of a refresh: in the driver's process, and as a job of Spark.
_CHANGES = (10_000, 50_000)
_LEAST_PART = 20
_MOST_ROWS = 1_000_000
# The bound of what bad rows may cost.
_ASKED = 1.1

_VIEWS = {
    "shares": "SELECT flight, 1000 / (delay + 31) AS share FROM flights",
    "numbers": "SELECT flight, CAST(substring(carrier, 2) AS INT) AS number FROM flights",
    "smallest": "SELECT flight, CAST(delay AS SMALLINT) AS delay FROM flights",
    "places": "SELECT flight, map(origin, delay) AS place FROM flights",
    "early": "SELECT flight, IF(delay < -30, raise_error('early'), delay) AS delay FROM flights",
    "long": "SELECT flight, delay FROM flights WHERE 1000 / (delay + 31) < 5",
    "sums": "SELECT carrier, sum(1000 / (delay + 31)) AS share, count(*) AS flights "
    "FROM flights GROUP BY carrier",
    "greatest": "SELECT origin, max(CAST(substring(carrier, 2) AS INT)) AS number "
    "FROM flights GROUP BY origin",
    "worst": "SELECT origin, flight, share FROM "
    "(SELECT flight, origin, 1000 / (delay + 31) AS share FROM flights) "
    "QUALIFY row_number() OVER (PARTITION BY origin ORDER BY share, flight) <= 3",
    "cities": "SELECT flight, city, share FROM "
    "(SELECT flight, origin, 1000 / (delay + 31) AS share FROM flights) "
    "LEFT JOIN airports ON origin = airport",
}


def bad_rows(bench: Workbench) -> Iterator[Figure]:
    """Measure refreshes of ten views together, beside those of the same changes without bad rows.

    In turns, over two stores. Each refresh takes in one commit.
    """
    rows = min(bench.size.rows, _MOST_ROWS)
    counts = {min(count, max(rows // _LEAST_PART, 1)) for count in _CHANGES}
    bad_every = min(_BAD_EVERY, min(counts))
    with ExitStack() as stack:
        sides = [_followed(stack, bench, rows, every) for every in (bad_every, 0)]
        for count in sorted(counts):
            ours, baseline = (_refreshed(*side, count) for side in sides)
            yield Figure(
                workload="view-bad-rows",
                case=f"ten views: {count:,} changes of {rows:,} rows, {count // bad_every} bad",
                unit="ms",
                samples=in_turns(ours, baseline, bench.size.turns).scaled(1e3),
                comparison=Comparison.TIME,
                against="the same changes without bad rows",
                asked=_ASKED,
            )


def _followed(
    stack: ExitStack, bench: Workbench, rows: int, bad_every: int
) -> tuple[Database, Changes]:
    """Return a store with the views, and the changes of its flights."""
    store = stack.enter_context(bench.store())
    fill(store, rows)
    database = relstate.connect(bench.spark, store.path)
    for name, query in _VIEWS.items():
        database.sql(
            f"CREATE MATERIALIZED VIEW {name} TBLPROPERTIES ('on_error' = 'quarantine') AS {query}"
        )
    database.store.compact()
    return database, Changes(rows, bad_every)


def _refreshed(database: Database, changes: Changes, count: int) -> Run:
    """Return a run that commits changes, and measures the refresh of all views."""

    def run() -> float:
        changes.commit(database.store, count)
        return seconds(database.refresh)()

    return run
