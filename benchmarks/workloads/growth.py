"""The same work over tables of several sizes: what a row costs in a larger table.

Each table is loaded by Spark from Parquet, with the keys in order or at random, so that its files
have ranges of keys of their own or overlap. The baseline of a figure is the least table in the same
state, in turn, so a ratio of one says that the cost of a row does not grow.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

import relstate
from relstate.storage import Store, Table

from .. import rows
from ..figure import Comparison, Figure, Samples
from ..turns import Run, in_turns, seconds
from ..workbench import Workbench

# The tables have these parts of the rows of a run.
_LEAST, _LARGER = 0.2, (2.0, 10.0)
# A number with which the keys 0, 1, 2, ... are multiplied, modulo a prime, to be in another order.
_FACTOR, _PRIME = 2_654_435_761, 4_294_967_291
_GETS, _UPSERTED = 5_000, 10_000
_COLUMNS = "k BIGINT, g INT, v BIGINT, x DOUBLE, s STRING, ts TIMESTAMP"
_SELECTED = """{key} AS k, CAST(h % 1000 AS INT) AS g, h % 100000 AS v, h / 1e6D AS x,
    concat('name-', h % 10000000) AS s, timestamp_seconds(1e9 + h % 1000000000) AS ts
    FROM (SELECT id, abs(xxhash64(id)) AS h FROM range({rows}))"""
_QUERIES = {
    "three aggregates": "SELECT count(*), sum(v), max(x) FROM t",
    "a thousand groups": "SELECT g, count(*), sum(v) FROM t GROUP BY g",
}
_VIEW = "CREATE MATERIALIZED VIEW totals AS SELECT g, count(*) AS n, sum(v) AS v FROM t GROUP BY g"
_GET = """import sys
from relstate.storage import Store
with Store.open(sys.argv[1]) as store:
    store.table("t").get(int(sys.argv[2]))"""


@dataclass(frozen=True)
class _Loaded:
    """A table that was loaded. ``rows``: how many; ``load_seconds``: how long the load took."""

    db: relstate.Database
    store: Store
    rows: int
    is_ordered: bool
    load_seconds: float

    @property
    def table(self) -> Table:
        return self.store.table("t")

    def keys(self, count: int, seed: int) -> list[int]:
        """Return some keys of the table, chosen at random."""
        numbers = random.Random(seed).choices(range(self.rows), k=count)
        return numbers if self.is_ordered else [n * _FACTOR % _PRIME for n in numbers]


def growth(bench: Workbench) -> Iterator[Figure]:
    """Measure loads, gets, scans, aggregates, upserts and refreshes, per row of the table."""
    for is_ordered in (True, False):
        for part in _LARGER:
            # Both are compacted in the end: each larger table has a least one of its own.
            least, larger = (_loaded(bench, size, is_ordered) for size in (_LEAST, part))
            yield from _figures_of(bench, larger, least)
            for loaded in (larger, least):
                loaded.store.close()
                shutil.rmtree(loaded.store.path)


def _figures_of(bench: Workbench, larger: _Loaded, least: _Loaded) -> Iterator[Figure]:
    order = "in order" if larger.is_ordered else "at random"

    def figure(case: str, unit: str, samples: Samples, asked: float | None = None) -> Figure:
        return Figure(
            workload="growth",
            case=f"{case}, {larger.rows:,} rows, keys {order}",
            unit=unit,
            samples=samples,
            comparison=Comparison.TIME,
            against=f"the same with {least.rows:,} rows",
            asked=asked,
        )

    loads = Samples((larger.load_seconds / larger.rows,), (least.load_seconds / least.rows,))
    yield figure("load", "us a row", loads.scaled(1e6))
    for state in ("as loaded", "after upserts", "compacted"):
        if state == "compacted":
            larger.store.compact("t")
            least.store.compact("t")

        def measured(run: Callable[[_Loaded], Run]) -> Samples:
            return in_turns(run(larger), run(least), bench.size.turns)

        gets = measured(_gets).scaled(1e6 / _GETS)
        yield figure(f"get {state}", "us", gets, 1.3)
        scan = measured(_scan).scaled(1e9)
        yield figure(f"scan of two columns {state}", "ns a row", scan, 1.2)
        if state == "after upserts":
            continue
        for name, query in _QUERIES.items():
            samples = measured(_query(query)).scaled(1e9)
            yield figure(f"{name} {state}", "ns a row", samples, 1.2)
        if state == "as loaded":
            first = measured(_first_get).scaled(1e3)
            yield figure("first get of a process", "ms", first)
            yield figure(f"upsert of {_UPSERTED:,}", "ms", measured(_upsert).scaled(1e3))
            yield figure("refresh after it", "ms", measured(_refresh).scaled(1e3))


def _loaded(bench: Workbench, part: float, is_ordered: bool) -> _Loaded:
    spark, count = bench.spark, max(int(bench.size.rows * part), 1)
    source, folder = f"{bench.folder()}/rows", bench.folder()
    key = "id" if is_ordered else f"id * {_FACTOR} % {_PRIME}"
    spark.sql("SELECT " + _SELECTED.format(key=key, rows=count)).write.parquet(source)
    store = Store.create(folder)
    db = relstate.connect(spark, folder)
    store.create_table("t", _COLUMNS, primary_key=["k"])
    start = time.perf_counter()
    _load(spark, source, folder)
    loaded = time.perf_counter() - start
    shutil.rmtree(source)
    return _Loaded(db, store, count, is_ordered, loaded)


def _load(spark: SparkSession, source: str, folder: str) -> None:
    frame = spark.read.parquet(source)
    frame.write.format("relstate").option("table", "t").mode("append").save(folder)


def _gets(loaded: _Loaded) -> Run:
    table, keys = loaded.table, loaded.keys(_GETS, seed=1)
    return seconds(lambda: [table.get(key) for key in keys])


def _first_get(loaded: _Loaded) -> Run:
    (key,) = loaded.keys(1, seed=2)
    command = [sys.executable, "-c", _GET, loaded.store.path, str(key)]
    return seconds(lambda: subprocess.run(command, check=True))


def _scan(loaded: _Loaded) -> Run:
    run = seconds(lambda: sum(batch.num_rows for batch in loaded.table.scan(["g", "v"])))
    return lambda: run() / loaded.rows


def _query(query: str) -> Callable[[_Loaded], Run]:
    def of(loaded: _Loaded) -> Run:
        run = seconds(lambda: loaded.db.sql(query).collect())
        return lambda: run() / loaded.rows

    return of


def _upsert(loaded: _Loaded) -> Run:
    seeds = iter(range(10, 1_000_000))

    def run() -> float:
        keys = loaded.keys(_UPSERTED, next(seeds))
        written = _upserts(keys)
        return seconds(lambda: loaded.store.write("t", written))()

    return run


def _refresh(loaded: _Loaded) -> Run:
    loaded.db.sql(_VIEW)
    seeds = iter(range(1_000_000, 2_000_000))

    def run() -> float:
        loaded.store.write("t", _upserts(loaded.keys(_UPSERTED, next(seeds))))
        return seconds(loaded.db.refresh)()

    return run


def _upserts(keys: list[int]) -> pa.Table:
    numbers = pa.array(sorted(set(keys)))
    count = len(numbers)
    return pa.table(
        {
            "k": numbers,
            "g": pa.array([number % 1000 for number in range(count)], pa.int32()),
            "v": pa.array(range(count)),
            "x": pa.array([0.5] * count),
            "s": pa.array(["x" * rows.TEXT_BYTES] * count),
            "ts": pa.array([0] * count, pa.timestamp("us", "UTC")),
        }
    )
