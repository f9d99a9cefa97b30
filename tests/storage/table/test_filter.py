"""Filtering keeps order and hands out no crumbs."""

from __future__ import annotations

import pyarrow as pa

from relstate.storage import TableSchema
from relstate.storage.predicate.predicate import Predicate
from relstate.storage.schema.ddl import parse_columns
from relstate.storage.table.filter import filtered

SCHEMA = TableSchema.build(parse_columns("k INT, v INT"), ["k"])


def batches(rows: int, size: int) -> list[pa.RecordBatch]:
    """Batches of so many rows each."""
    whole = pa.record_batch({"k": pa.array(range(rows), pa.int32()), "v": [1] * rows})
    return [whole.slice(start, size) for start in range(0, rows, size)]


def test_small_batches_come_together() -> None:
    """In their order, with the columns asked for only."""
    where = Predicate.parse("k >= 100", SCHEMA)

    (found,) = filtered(batches(300, 7), where, ["v", "k"])
    assert found.schema.names == ["v", "k"]
    assert found["k"].to_pylist() == list(range(100, 300))


def test_what_is_not_wanted_leaves_no_batch() -> None:
    """Not even an empty one."""
    assert list(filtered(batches(300, 7), Predicate.parse("k < 0", SCHEMA), ["k"])) == []
    assert list(filtered([], Predicate.parse("k < 0", SCHEMA), ["k"])) == []


def test_large_batches_are_not_held_back() -> None:
    """Memory does not grow with what is kept."""
    found = list(filtered(batches(50_000, 10_000), Predicate.parse("TRUE", SCHEMA), ["k"]))

    assert [batch.num_rows for batch in found] == [10_000] * 5
