"""Windows over large partitions beside the same over small ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa

import relstate
from relstate.connector.sql.database import Database

from ...figure import Comparison, Figure
from ...turns import in_turns, seconds
from ...workbench import Workbench

_MOST_ROWS = 1_000_000
_SMALL = 1000
_CHANGES = 100
_COLUMNS = "sensor INT, at BIGINT, value BIGINT"
_WINDOW = "OVER (PARTITION BY sensor ORDER BY at"
_VIEWS = {
    "lag": f"SELECT sensor, at, value - lag(value) {_WINDOW}) AS step FROM {{table}}",
    "sum": f"SELECT sensor, at, sum(value) {_WINDOW}) AS total FROM {{table}}",
    "rank": f"SELECT sensor, at, rank() {_WINDOW}) AS place FROM {{table}}",
}


def windows(bench: Workbench) -> Iterator[Figure]:
    """Measure refreshes after changes of a table with one partition, and of one with many.

    For `lag` the changes are updates of any rows. A running sum and a rank change for all rows
    after a changed one, however many these are: for them the changes are rows that come in order.
    """
    rows = min(bench.size.rows, _MOST_ROWS)
    with bench.store() as store:
        database = relstate.connect(bench.spark, store.path)
        large, small = (_Readings(database, rows, size) for size in (rows, min(_SMALL, rows)))
        for name in _VIEWS:
            change = _Readings.update if name == "lag" else _Readings.append
            kind = "updates" if name == "lag" else "rows in order"
            yield Figure(
                workload="view-windows",
                case=f"{name}: {_CHANGES} {kind}, one partition of {rows:,} rows",
                unit="ms",
                samples=in_turns(
                    large.refreshed(name, change), small.refreshed(name, change), bench.size.turns
                ).scaled(1e3),
                comparison=Comparison.TIME,
                against=f"as many changes of partitions of {small.size:,} rows",
                asked=2.0,
            )


class _Readings:
    """A table of sensors, each of which is a partition of ``size`` rows, and its views."""

    def __init__(self, database: Database, rows: int, size: int) -> None:
        self.size = size
        self._database, self._rows = database, rows
        self._table = f"readings_{size}"
        self._random = np.random.default_rng(1)
        self._ends = np.full(-(-rows // size), size)
        store = database.store
        store.create_table(self._table, _COLUMNS, primary_key=["sensor", "at"])
        self._write(np.arange(rows) // size, np.arange(rows) % size)
        for name, query in _VIEWS.items():
            select = query.format(table=self._table)
            database.sql(f"CREATE MATERIALIZED VIEW {name}_{size} AS {select}")
        store.compact()

    def refreshed(self, name: str, change: Callable[[_Readings], None]) -> Callable[[], float]:
        """Return a run that commits changes and measures how long the refresh after them takes."""

        def run() -> float:
            change(self)
            return seconds(partial(self._database.refresh, f"{name}_{self.size}"))()

        return run

    def update(self) -> None:
        """Change the values of some rows."""
        chosen = self._random.choice(self._rows, min(_CHANGES, self._rows), replace=False)
        self._write(chosen // self.size, chosen % self.size)

    def append(self) -> None:
        """Append rows to some partitions, in their order."""
        sensors = self._random.permutation(_CHANGES) % len(self._ends)
        counts = np.bincount(sensors, minlength=len(self._ends))
        sensors = np.sort(sensors)
        offsets = np.arange(len(sensors)) - (np.cumsum(counts) - counts)[sensors]
        self._write(sensors, self._ends[sensors] + offsets)
        self._ends = self._ends + counts

    def _write(self, sensors: np.ndarray, times: np.ndarray) -> None:
        values = self._random.integers(1000, size=len(times))
        self._database.store.write(
            self._table,
            pa.table({"sensor": sensors.astype(np.int32), "at": times, "value": values}),
        )
