"""The lookups of tasks, without Spark: the rows of many batches at once."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from relstate.connector.sink import lookup_task
from relstate.connector.sink.lookup_task import Lookup, PairLookup, RowLookup
from relstate.storage import StorageTable, Store
from support.stores import rows_of, upsert

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])


@pytest.fixture
def lookup(store: Store) -> Lookup:
    """Return the lookup by key in a table of the keys 0, 2, 4 to 198."""
    store.create_table("t", "k BIGINT, v BIGINT", primary_key=["k"])
    upsert(store, "t", [(key, -key) for key in range(0, 200, 2)])
    return Lookup(store.read_plan("t"), ("k",))


def batches(keys: range, size: int) -> list[pa.RecordBatch]:
    """Return a source of some keys, each beside ten times itself, in batches of a size."""
    table = pa.table({"passed": [key * 10 for key in keys], "key": list(keys)})
    source: list[pa.RecordBatch] = table.to_batches(size)
    return source


@pytest.mark.parametrize(
    ("most_values", "most_bytes", "calls"), [(1000, 1 << 20, 1), (60, 1 << 20, 2), (1000, 1024, 3)]
)
def test_the_rows_of_many_batches_are_looked_up_at_once(
    lookup: Lookup,
    monkeypatch: pytest.MonkeyPatch,
    most_values: int,
    most_bytes: int,
    calls: int,
) -> None:
    """As far as they are not many, nor large; the pairs are those of each row alone."""
    monkeypatch.setattr(lookup_task, "_MOST_VALUES", most_values)
    monkeypatch.setattr(lookup_task, "_FEW_VALUES", 1)
    monkeypatch.setattr(lookup_task, "_BYTES_AT_ONCE", most_bytes)
    monkeypatch.setattr(lookup_task, "_BATCH_ROWS", 7)
    counts: list[int] = []
    get_rows = StorageTable.get_rows

    def counted(self: StorageTable, keys: pa.RecordBatch, *rest: Any) -> Any:
        counts.append(keys.num_rows)
        return get_rows(self, keys, *rest)

    monkeypatch.setattr(StorageTable, "get_rows", counted)
    source = batches(range(100), 10)

    pairs = list(PairLookup(lookup, SCHEMA, keeps_unmatched=True)(iter(source)))

    assert sorted(rows_of(pairs)) == [
        (key * 10, key % 2 == 0, *((None, None) if key % 2 else (key, -key))) for key in range(100)
    ]
    assert max(batch.num_rows for batch in pairs) <= 7
    assert sum(counts) == 100
    assert len(counts) == calls


def test_each_row_is_returned_once(lookup: Lookup, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often its values come, in whatever batches."""
    monkeypatch.setattr(lookup_task, "_MOST_VALUES", 30)
    monkeypatch.setattr(lookup_task, "_BATCH_ROWS", 7)
    values = [batch.select([1]) for batch in batches(range(100), 10)]

    rows = list(RowLookup(lookup, SCHEMA)(iter(values * 2)))

    assert sorted(rows_of(rows)) == [(key, -key) for key in range(0, 100, 2)]
    assert max(batch.num_rows for batch in rows) <= 7


def test_no_values_find_no_rows(lookup: Lookup) -> None:
    """Of a task without rows, and of one with an empty batch."""
    empty = batches(range(1), 1)[0].slice(0, 0)

    assert list(PairLookup(lookup, SCHEMA, keeps_unmatched=True)(iter([]))) == []
    assert list(PairLookup(lookup, SCHEMA, keeps_unmatched=True)(iter([empty]))) == []
    assert list(RowLookup(lookup, SCHEMA)(iter([empty.select([1])]))) == []
