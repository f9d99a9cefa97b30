"""The laws of streams of changes of a Spark that asks for the end of a micro-batch alone.

They hold for every version, as a checkpoint may be continued by another one. The calls are those of
Spark's worker for a stream (pyspark/sql/streaming/python_streaming_source_runner.py of 4.1).
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from relstate.connector.source.stream import ChangeStreamReader
from relstate.storage import Store, errors
from support.planning import plan_stream_read
from support.stores import upsert

Offset = dict[str, Any]


@pytest.fixture
def changed(store: Store, orders: str) -> str:
    """The table of orders with one row."""
    add(store, 1)
    return orders


def add(store: Store, key: int) -> None:
    """Insert an order."""
    upsert(store, "orders", [(key, f"customer {key}", Decimal("1.00"), None)])


def started(store: Store, **options: str) -> ChangeStreamReader:
    """Return the reader of a new process."""
    reader = plan_stream_read(store, "orders", readChangeFeed="true", **options)
    assert isinstance(reader, ChangeStreamReader)
    return reader


def keys(reader: ChangeStreamReader, start: Offset, end: Offset) -> list[int]:
    """Return the ids of a micro-batch."""
    batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    return sorted(key for batch in batches for key in batch.column("id").to_pylist())


def test_a_new_query_begins_with_the_table(store: Store, changed: str) -> None:
    """Its micro-batches have every change once."""
    reader = started(store)
    end = reader.latestOffset()
    assert keys(reader, reader.initialOffset(), end) == [1]
    assert reader.latestOffset() == end

    add(store, 2)
    add(store, 3)
    next_end = reader.latestOffset()
    assert keys(reader, end, next_end) == [2, 3]
    assert "unplaced" not in next_end


@pytest.mark.parametrize("options", [{}, {"startingVersion": "latest"}])
def test_a_first_micro_batch_is_planned_again_as_it_was(
    store: Store, changed: str, options: dict[str, str]
) -> None:
    """A new process is asked for the first offset, which is another one by then."""
    reader = started(store, **options)
    end = reader.latestOffset()
    rows = keys(reader, reader.initialOffset(), end)
    add(store, 2)

    reader = started(store, **options)
    assert reader.initialOffset()["epoch"] > end["epoch"]
    assert keys(reader, reader.initialOffset(), end) == rows
    assert keys(reader, end, reader.latestOffset()) == [2]


def test_a_query_goes_on_where_it_was(store: Store, changed: str) -> None:
    """A new process has the end of its first micro-batch before it has the start."""
    first = started(store).latestOffset()
    add(store, 2)

    reader = started(store)
    end = reader.latestOffset()
    assert keys(reader, first, end) == [2]
    # The next process continues from an end whose beginning was never that of the query.
    add(store, 3)
    reader = started(store)
    assert keys(reader, end, reader.latestOffset()) == [3]


def test_a_query_that_goes_on_without_changes_has_no_rows(store: Store, changed: str) -> None:
    """Its first micro-batch is empty."""
    first = started(store).latestOffset()

    reader = started(store)
    assert reader.partitions(first, reader.latestOffset()) == []


def test_a_query_goes_on_where_the_start_of_a_new_one_has_expired(
    store: Store, changed: str
) -> None:
    """What a new query would begin with does not matter to it, and fails a new one."""
    first = started(store, startingVersion="3").latestOffset()
    add(store, 2)

    reader = started(store, startingVersion="99")
    assert keys(reader, first, reader.latestOffset()) == [2]
    with pytest.raises(errors.EpochNotFoundError):
        reader.initialOffset()


def test_a_query_does_not_go_on_with_another_table_of_that_name(store: Store, changed: str) -> None:
    """The end is of the new table, the start of the one before."""
    first = started(store).latestOffset()
    store.drop_table("orders")
    store.create_table("orders", "id BIGINT, customer STRING", primary_key=["id"])

    reader = started(store)
    with pytest.raises(errors.TableNotFoundError, match="was dropped and created again"):
        reader.partitions(first, reader.latestOffset())


def test_a_version_that_has_starts_continues(store: Store, changed: str) -> None:
    """And one that has none continues what it has left."""
    first = started(store).latestOffset()
    add(store, 2)
    reader = started(store)
    end = reader.latestOffset(first)
    assert keys(reader, first, end) == [2]

    add(store, 3)
    reader = started(store)
    assert keys(reader, end, reader.latestOffset()) == [3]
