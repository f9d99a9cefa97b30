"""Aggregates of a large table through SQL, beside the same with all rows sent to Spark."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

import relstate

from .. import rows
from ..figure import Comparison, Figure
from ..turns import in_turns, seconds
from ..workbench import Workbench, write

_COLUMNS = "k BIGINT, i INT, d DOUBLE, ts TIMESTAMP, s STRING, n DECIMAL(12,2), m INT"
_CALLS = "count(*), sum(i), min(d), max(ts), avg(n)"
# How many groups, and by what.
_GROUPS = {"1": "", "10": "i", "1,000": "s", "1 million": "m"}
_UPSERTS, _UPSERTED = 10, 50
_BATCH_ROWS = 65_536
# A call that costs nothing, and that tasks do not add up.
_UNKNOWN = "bit_and(1)"


def sql_aggregate(bench: Workbench) -> Iterator[Figure]:
    """Measure queries by few and many groups, fresh and after upserts, in milliseconds."""
    count = bench.size.rows
    with bench.store() as store:
        store.create_table("facts", _COLUMNS, primary_key=["k"])
        write(store, "facts", _batches(np.arange(count)))
        db = relstate.connect(bench.spark, store.path)
        for state in ("fresh", f"after {_UPSERTS} upserts of {100 // _UPSERTED}%"):
            if state != "fresh":
                for turn in range(_UPSERTS):
                    write(store, "facts", _batches(np.arange(turn, count, _UPSERTED)))
            for groups, column in _GROUPS.items():
                for where in ("", "WHERE d >= 0.5 "):
                    items = f"{column}, {_CALLS}" if column else _CALLS
                    rest = f"FROM facts {where}" + (f"GROUP BY {column}" if column else "")
                    samples = in_turns(
                        seconds(partial(_drain, db, f"SELECT {items} {rest}")),
                        seconds(partial(_drain, db, f"SELECT {items}, {_UNKNOWN} {rest}")),
                        bench.size.turns,
                    )
                    yield Figure(
                        workload="sql-aggregate",
                        case=f"{groups} groups{', filtered' if where else ''}, {count:,} rows "
                        f"{state}",
                        unit="ms",
                        samples=samples.scaled(1e3),
                        comparison=Comparison.TIME,
                        against="the same with all rows sent to Spark",
                        asked=1.1,
                    )


def _batches(indices: NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
    """Yield the rows with these indices."""
    for start in range(0, len(indices), _BATCH_ROWS):
        yield _batch(indices[start : start + _BATCH_ROWS])


def _batch(indices: NDArray[np.int64]) -> pa.RecordBatch:
    keys = rows.keys_of(indices)
    plain = rows.batch(indices)
    cents = pa.array(keys % 10**9)
    return pa.record_batch(
        {
            "k": keys,
            "i": pa.array(keys % 10, pa.int32()),
            "d": pa.array(keys % 1000 / 1000),
            "ts": plain.column("ts"),
            "s": pc.utf8_lpad(pa.array(keys % 1000).cast(pa.string()), rows.TEXT_BYTES, "0"),
            "n": pc.multiply(cents, pa.scalar(1, pa.decimal128(3, 2))).cast(pa.decimal128(12, 2)),
            "m": pa.array(keys % 1_000_000, pa.int32()),
        }
    )


def _drain(db: relstate.Database, query: str) -> None:
    db.sql(query).write.format("noop").mode("append").save()
