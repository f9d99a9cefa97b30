"""One row of a large table through SQL."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import relstate

from .. import rows
from ..figure import Comparison, Figure
from ..replay import record
from ..turns import in_turns, seconds
from ..workbench import Workbench

_QUERIES = 5


def sql_lookup(bench: Workbench) -> Iterator[Figure]:
    """Measure ``db.sql`` of the row with a given key, in milliseconds per query."""
    store, spark, empty = bench.filled, bench.spark, bench.folder()
    db = relstate.connect(spark, store.path)
    record(empty, store.read_plan("eight").arrow_schema(), [iter(())])
    asked = rows.keys_of(np.arange(bench.size.rows))[:: max(1, bench.size.rows // 1000)]
    keys = iter(np.resize(asked, 10 * bench.size.turns * _QUERIES).tolist())
    theirs = spark.read.format("replay").schema(rows.COLUMNS)

    def look_up() -> None:
        for _ in range(_QUERIES):
            (row,) = db.sql(f"SELECT * FROM eight WHERE k = {next(keys)}").collect()
            assert row.s is not None

    def read_nothing() -> None:
        for _ in range(_QUERIES):
            assert theirs.load(empty).collect() == []

    look_up()
    samples = in_turns(seconds(look_up), seconds(read_nothing), bench.size.turns)
    yield Figure(
        workload="sql-lookup",
        case=f"full-key equality, {bench.size.rows:,} rows in 8 segments",
        unit="ms",
        samples=samples.scaled(1e3 / _QUERIES),
        comparison=Comparison.TIME,
        against="a read through a Python source that has no rows",
        asked=1.5,
    )
