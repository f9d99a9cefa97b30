"""Looking rows up by their keys in one process: one by one, and many at once."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from tempfile import TemporaryDirectory
from typing import Any

import lmdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from relstate.storage import ReadPlan

from .. import rows
from ..figure import Comparison, Figure
from ..turns import in_turns, seconds
from ..workbench import Workbench, eighths

_SINGLE = 20_000
_MANY = 100_000
_ZIPF = 1.2

Get = Callable[[bytes], object]


def get(bench: Workbench) -> Iterator[Figure]:
    """Measure `Table.get` of random keys that are there, in microseconds a call."""
    yield _get(bench, "one", "1 segment", asked=10)
    yield _get(bench, "eight", "8 segments", asked=25)
    generator = np.random.default_rng(0)
    present = eighths(bench.size.rows)[0].stop
    with _sqlite(bench, "one") as database:
        uniform = generator.integers(0, present, _SINGLE)
        yield _get_beside_sqlite(bench, database, "uniform keys", uniform)
        zipf = generator.zipf(_ZIPF, _SINGLE) % present
        yield _get_beside_sqlite(bench, database, "Zipf keys", zipf)


def get_rows(bench: Workbench) -> Iterator[Figure]:
    """Measure `Table.get_rows` of random keys that are there, in keys a second."""
    yield _get_rows(bench, "one", "1 segment")
    yield _get_rows(bench, "eight", "8 segments")


def _get(bench: Workbench, name: str, case: str, asked: float) -> Figure:
    table, plan = bench.filled.table(name), bench.filled.read_plan(name)
    keys = _random_keys(bench, name, _SINGLE)
    with bench.bare(name) as segments:
        bare = _where_they_are(segments, _full_keys(plan, keys))
        samples = in_turns(
            seconds(lambda: [table.get(key) for key in keys]),
            seconds(lambda: [call(key) for call, key in bare]),
            bench.size.turns,
        )
    return Figure(
        workload="get",
        case=case,
        unit="us",
        samples=samples.scaled(1e6 / len(keys)),
        comparison=Comparison.TIME,
        against="one bare LMDB get of the encoded key, from the segment that holds it",
        asked=asked,
    )


@contextmanager
def _sqlite(bench: Workbench, name: str) -> Iterator[sqlite3.Connection]:
    """Give an SQLite database with a table ``t`` of the rows of one of ours."""
    with TemporaryDirectory(prefix="relstate-") as folder:
        database = sqlite3.connect(f"{folder}/rows.db", isolation_level=None)
        database.execute(f"PRAGMA mmap_size = {1 << 40}")
        database.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, a, d, ts, s)")
        for batch in bench.filled.table(name).scan():
            columns = [
                (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column)
                for column in batch.columns
            ]
            values = zip(*(column.to_pylist() for column in columns), strict=True)
            database.execute("BEGIN")
            database.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", values)
            database.execute("COMMIT")
        with closing(database):
            yield database


def _get_beside_sqlite(
    bench: Workbench, database: sqlite3.Connection, case: str, numbers: NDArray[np.int64]
) -> Figure:
    """Measure `Table.get` beside a SELECT by key; both look for newer commits at each call."""
    table = bench.filled.table("one")
    keys = rows.keys_of(numbers).tolist()
    select = "SELECT * FROM t WHERE k = ?"
    samples = in_turns(
        seconds(lambda: [table.get(key) for key in keys]),
        seconds(lambda: [database.execute(select, (key,)).fetchone() for key in keys]),
        bench.size.turns,
    )
    return Figure(
        workload="get",
        case=f"1 segment, {case}",
        unit="us",
        samples=samples.scaled(1e6 / len(keys)),
        comparison=Comparison.TIME,
        against="SQLite's SELECT of the same row by its key, through Python's sqlite3",
        asked=1.0,
    )


def _get_rows(bench: Workbench, name: str, case: str) -> Figure:
    table, plan = bench.filled.table(name), bench.filled.read_plan(name)
    keys = _random_keys(bench, name, _MANY)
    batch = pa.record_batch([pa.array(keys)], names=list(rows.PRIMARY_KEY))
    full_keys = sorted(_full_keys(plan, keys))
    with bench.bare(name) as segments:
        samples = in_turns(
            seconds(lambda: table.get_rows(batch)),
            seconds(lambda: [_get_many(segment, full_keys) for segment in segments]),
            bench.size.turns,
        )
    return Figure(
        workload="get-rows",
        case=f"{len(keys):,} keys, {case}",
        unit="M keys/s",
        samples=samples.rates(len(keys) / 1e6),
        comparison=Comparison.RATE,
        against="a bare getmulti from every segment of all keys, encoded and sorted beforehand",
        asked=0.3,
    )


def _random_keys(bench: Workbench, name: str, count: int) -> list[int]:
    """Return keys of rows that are in a table, in random order."""
    present = eighths(bench.size.rows)[0].stop if name == "one" else bench.size.rows
    picked = np.random.default_rng(0).integers(0, present, count)
    keys: list[int] = rows.keys_of(picked).tolist()
    return keys


def _full_keys(plan: ReadPlan, keys: Sequence[int]) -> list[bytes]:
    """Return keys as they stand in segments."""
    encoding = plan.open().encoding
    return [encoding.encode_key((key,)) for key in keys]


def _where_they_are(
    segments: Sequence[lmdb.Transaction], keys: Sequence[bytes]
) -> list[tuple[Get, bytes]]:
    """Return for every key the get of the segment that has it, and the key."""
    ascending = sorted(set(keys))
    holders = {key: segment.get for segment in segments for key, _ in _get_many(segment, ascending)}
    return [(holders[key], key) for key in keys]


def _get_many(segment: lmdb.Transaction, keys: Sequence[bytes]) -> list[Any]:
    """Return (key, value) of those keys that a segment has."""
    with segment.cursor() as cursor:
        return cursor.getmulti(keys)
