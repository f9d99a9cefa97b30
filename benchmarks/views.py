"""The views that are measured, and the store that they share in one run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import relstate

from . import flights
from .workbench import Workbench

if TYPE_CHECKING:
    from relstate.connector.sql.database import Database

DELAYS = "delays"
VIEWS = {
    DELAYS: (
        "SELECT carrier, date_trunc('HOUR', departure) AS hour, count(*) AS flights, "
        "sum(delay) AS total, avg(delay) AS mean, max(delay) AS worst "
        "FROM flights GROUP BY carrier, date_trunc('HOUR', departure)"
    ),
    "departures": (
        "SELECT flight, carrier, delay, airport, city, elevation "
        "FROM flights LEFT JOIN airports ON origin = airport"
    ),
    "worst": (
        "SELECT origin, destination, flight, carrier, delay FROM "
        "(SELECT *, row_number() OVER (PARTITION BY origin, destination "
        "ORDER BY delay DESC, flight) AS place FROM flights) WHERE place <= 10"
    ),
}
"""An aggregate over carriers and hours, a join, and a top n of each route."""


def create(database: Database, name: str) -> None:
    """Create and populate one of the views."""
    database.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")


@contextmanager
def followed(bench: Workbench, *names: str) -> Iterator[tuple[Database, flights.Changes]]:
    """Yield a store of flights with views, by default all, and the changes of its flights."""
    count = bench.size.rows
    with bench.store() as store:
        flights.fill(store, count)
        database = relstate.connect(bench.spark, store.path)
        for name in names or VIEWS:
            create(database, name)
        database.store.compact()
        yield database, flights.Changes(count)
