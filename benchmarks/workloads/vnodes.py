"""Reads and writes of a store with the most vnodes, beside one with as many as by default."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count

import numpy as np
import pyarrow as pa

from relstate import connect
from relstate.connector.sql.database import Database
from relstate.storage import Store

from .. import rows
from ..figure import Comparison, Figure
from ..turns import in_turns, seconds
from ..workbench import Workbench, new_table, write

_MOST, _DEFAULT = 32_768, 256
_GETS, _COMMITS, _CHANGED = 2000, 10, 1000
_IN_RANGE = 6
# The columns of a view, and how many groups it has.
_GROUPS = 1000
_VIEW = f"SELECT a % {_GROUPS} AS g, count(*) AS n, sum(d) AS d FROM t GROUP BY a % {_GROUPS}"

Action = Callable[[], object]


def vnodes(bench: Workbench) -> Iterator[Figure]:
    """Measure gets, ranges, scans, commits and refreshes, in milliseconds each."""
    size = bench.size.rows // 10
    with ExitStack() as stack:
        most, default = (
            _Filled(stack.enter_context(bench.store(vnode_count=vnodes)), size)
            for vnodes in (_MOST, _DEFAULT)
        )
        for name, case, times, asked in (
            ("get", "a key", _GETS, 1.5),
            ("few_rows", f"{_IN_RANGE} rows of a range", 1, 10),
            ("scan", "all rows", 1, 1.5),
            ("ordered_scan", "all rows by key", 1, 4),
            ("commit", "a row", _COMMITS, 1.5),
        ):
            actions = [getattr(store, name) for store in (most, default)]
            yield _figure(bench, f"{case} of {size:,}", actions, times, asked)
        for store in (most, default):
            store.follow(connect(bench.spark, store.store.path))
        case = f"refresh after {_CHANGED:,} of {size:,} rows"
        yield _figure(bench, case, [most.refresh, default.refresh], 1, 2)


def _figure(bench: Workbench, case: str, actions: list[Action], times: int, asked: float) -> Figure:
    """Return how long an action takes in both stores; ``times``: how many are done in one."""
    ours, default = map(seconds, actions)
    return Figure(
        workload="vnodes",
        case=case,
        unit="ms",
        samples=in_turns(ours, default, bench.size.turns).scaled(1e3 / times),
        comparison=Comparison.TIME,
        against=f"the same in a store of {_DEFAULT} vnodes, not {_MOST:,}",
        asked=asked,
    )


class _Filled:
    """A store with the table ``t`` of some rows, and what is measured of it."""

    def __init__(self, store: Store, size: int) -> None:
        self.store = store
        self._size = size
        self._table = new_table(store, "t")
        write(store, "t", rows.batches(range(size)))
        keys = np.sort(self._table.to_arrow(["k"])["k"].to_numpy())
        self._keys = np.random.default_rng(0).choice(keys, _GETS).tolist()
        first = size // 2
        low, high = keys[first], keys[min(first + _IN_RANGE, size) - 1]
        self._where = f"k BETWEEN {low} AND {high}"
        self._numbers = count(size)
        self._database: Database | None = None

    def get(self) -> None:
        """Get random rows one by one."""
        for key in self._keys:
            self._table.get(key)

    def few_rows(self) -> int:
        """Read a few rows of neighbouring keys, which are far apart."""
        return sum(batch.num_rows for batch in self._table.scan(where=self._where))

    def scan(self) -> int:
        """Read all rows."""
        return sum(batch.num_rows for batch in self._table.scan())

    def ordered_scan(self) -> int:
        """Read all rows in the order of the key."""
        return sum(batch.num_rows for batch in self._table.scan(ordered=True))

    def commit(self) -> None:
        """Commit single rows."""
        for _ in range(_COMMITS):
            write(self.store, "t", self._new_rows(1))

    def _new_rows(self, number: int) -> Iterator[pa.RecordBatch]:
        first = next(self._numbers)
        return rows.batches(range(first, first + number))

    def follow(self, database: Database) -> None:
        """Create a view of the table."""
        self._database = database
        database.sql(f"CREATE MATERIALIZED VIEW v AS {_VIEW}")

    def refresh(self) -> None:
        """Refresh the view after a commit of some rows."""
        assert self._database is not None
        write(self.store, "t", self._new_rows(_CHANGED))
        self._database.refresh("v")
