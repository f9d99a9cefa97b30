"""Secondary indexes: a lookup through one, and what one costs the writes of its table."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from statistics import median

import numpy as np
import pyarrow as pa

from relstate.storage import Store

from .. import rows
from ..figure import Comparison, Figure
from ..turns import Run, in_turns, seconds
from ..workbench import Workbench, new_table, write

_SINGLE = 20_000
_COMMITS = 20
# How many rows a batch of medium size has, and one of so many rows of the table a large one.
_BATCH = 1000
_PART = 50
_MOST_ROWS = 1_000_000


def index_lookup(bench: Workbench) -> Iterator[Figure]:
    """Measure `Table.get_by` of random values that are there, in microseconds a call.

    Once of whole rows, once of columns that the index holds, so that it alone is read.
    """
    count = min(bench.size.rows, _MOST_ROWS)
    with bench.store() as store:
        table = new_table(store, "looked_up")
        write(store, "looked_up", rows.batches(range(count)))
        store.create_index("looked_up", "by_text", ["s"], include=["a"])
        indices = np.random.default_rng(0).integers(0, count, _SINGLE)
        batch = rows.batch(indices)
        keys, texts = (batch.column(name).to_pylist() for name in ("k", "s"))
        lookups: dict[str, Callable[[], object]] = {
            "of whole rows": lambda: [table.get_by("by_text", text) for text in texts],
            "of two columns in the index": lambda: [
                table.get_by("by_text", text, columns=["k", "a"]) for text in texts
            ],
        }
        for case, lookup in lookups.items():
            samples = in_turns(
                seconds(lookup),
                seconds(lambda: [table.get(key) for key in keys]),
                bench.size.turns,
            )
            yield Figure(
                workload="index-lookup",
                case=f"get_by a 13-byte string {case}, {count:,} rows",
                unit="us",
                samples=samples.scaled(1e6 / _SINGLE),
                comparison=Comparison.TIME,
                against="`get` of the same rows by their primary keys",
                asked=2.0,
            )


def index_write(bench: Workbench) -> Iterator[Figure]:
    """Measure commits to a table with one index, in milliseconds, beside one without."""
    count = min(bench.size.rows, _MOST_ROWS)
    with bench.store() as store:
        for name in ("indexed", "plain"):
            new_table(store, name)
            write(store, name, rows.batches(range(count)))
        store.create_index("indexed", "by_text", ["s"])
        for step, asked in ((count, 1.7), (max(count // _BATCH, 1), 1.7), (_PART, None)):
            runs = {
                name: _typical(_upsert(store, name, count, step)) for name in ("indexed", "plain")
            }
            samples = in_turns(runs["indexed"], runs["plain"], bench.size.turns)
            yield Figure(
                workload="index-write",
                case=f"commit of {count // step:,} of {count:,} rows, the indexed column changed",
                unit="ms",
                samples=samples.scaled(1e3),
                comparison=Comparison.TIME,
                against="the same commit to a table without an index",
                asked=asked,
            )


def _typical(action: Callable[[], object]) -> Run:
    """Return a run that does ``action`` many times and measures the median of its seconds."""
    run = seconds(action)
    return lambda: median(run() for _ in range(_COMMITS))


def _upsert(store: Store, name: str, count: int, step: int) -> Callable[[], int]:
    """Return what gives every ``step``-th row of a table a new text."""
    turns = itertools.count()

    def upsert() -> int:
        turn = next(turns)
        indices = np.arange(turn * 7919 % step, count, step, dtype=np.int64)
        return store.write(name, _changed(indices, f"{step} {turn} "))

    return upsert


def _changed(indices: np.ndarray[tuple[int], np.dtype[np.int64]], text: str) -> pa.RecordBatch:
    """Return the rows with some indices, their texts made anew."""
    batch = rows.batch(indices)
    texts = pa.array([f"{text}{index}" for index in indices.tolist()])
    return batch.set_column(batch.schema.get_field_index("s"), "s", texts)
