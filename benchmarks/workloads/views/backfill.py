"""Views created over tables that are full, beside the batch query written to Parquet."""

from __future__ import annotations

from collections.abc import Iterator

import relstate
from relstate.connector.sql.database import Database

from ... import flights
from ...figure import Comparison, Figure, Samples
from ...turns import in_turns, seconds
from ...views import VIEWS, create
from ...workbench import Workbench

# A turn takes long, and so it is little that disturbs it.
_TURNS = 2


def backfill(bench: Workbench) -> Iterator[Figure]:
    """Measure how many rows a second a view takes in until it is whole."""
    with bench.store() as store:
        flights.fill(store, bench.size.rows)
        database = relstate.connect(bench.spark, store.path)
        for name in VIEWS:
            yield Figure(
                workload="view-backfill",
                case=f"{name}: {bench.size.rows:,} rows",
                unit="M rows/s",
                samples=_filled(bench, database, name).rates(bench.size.rows / 1e6),
                comparison=Comparison.RATE,
                against="the view's SELECT over the store's tables, written to Parquet",
                asked=0.3,
            )


def _filled(bench: Workbench, database: Database, name: str) -> Samples:
    folder = bench.folder()

    def ours() -> float:
        database.sql(f"DROP MATERIALIZED VIEW IF EXISTS {name}")
        return seconds(lambda: create(database, name))()

    def batch() -> None:
        database.sql(VIEWS[name]).write.mode("overwrite").parquet(folder)

    samples = in_turns(ours, seconds(batch), min(bench.size.turns, _TURNS))
    database.sql(f"DROP MATERIALIZED VIEW {name}")
    return samples
