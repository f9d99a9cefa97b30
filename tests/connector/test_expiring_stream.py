"""Streams of a table whose rows expire, planned as Spark plans them: no delete is lost or late."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from relstate.connector.source.stream import ChangeStreamReader, FeedOffset, PlannedPartition
from relstate.storage import Store
from relstate.storage.clock import CLOCK_TOLERANCE
from relstate.storage.errors import EpochExpiredError
from relstate.storage.local_environment import LocalEnvironment
from support.clock import ManualClock
from support.commits import UnsyncedDisk
from support.feeds import Change, changes_of
from support.planning import plan_stream_read


@pytest.fixture
def clock() -> ManualClock:
    """The clock of the store's writer."""
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    """A store with a table ``t``, whose rows expire after 5 s."""
    root = str(tmp_path / "store")
    environment = LocalEnvironment(root, UnsyncedDisk(clock), clock)
    with Store.create(root, vnode_count=3, shards=1, environment=environment) as store:
        store.create_table("t", "k INT, v INT", primary_key=["k"], ttl=5)
        yield store


@pytest.fixture
def reader(store: Store) -> Iterator[ChangeStreamReader]:
    """A query that is (re)started over the changes of ``t``."""
    reader = plan_stream_read(store, "t", readChangeFeed="true", numPartitions=1)
    assert isinstance(reader, ChangeStreamReader)
    yield reader
    reader.stop()


def put(store: Store, key: int) -> int:
    """Write a row of ``t`` and return the epoch."""
    store.write("t", pa.table({"k": pa.array([key], pa.int32()), "v": pa.array([10], pa.int32())}))
    return store.epoch


def compact_expired_rows(store: Store, clock: ManualClock) -> int:
    """Let the rows expire, remove them from the files, and return the epoch that did."""
    clock.advance(6 + CLOCK_TOLERANCE / 1_000_000)
    store.compact()
    assert store.state.expiring_rows(table_id(store)) == 0
    return store.epoch


def expire_epochs(store: Store, clock: ManualClock) -> None:
    """Let other tables commit for longer than the retention."""
    clock.advance(1)
    store.create_table(f"o{store.epoch}", "k INT", primary_key=["k"])
    clock.advance(1)
    store.vacuum(retention=1)


def table_id(store: Store) -> int:
    """Return the id of ``t``."""
    return store.state.table("t").definition.table_id


def offset_after(store: Store, epoch: int) -> dict[str, Any]:
    """Return the offset of a query that has emitted the changes up to an epoch."""
    return FeedOffset.after(table_id(store), epoch).to_json()


def micro_batch(
    reader: ChangeStreamReader, start: dict[str, Any]
) -> tuple[dict[str, Any], list[Change]]:
    """Return the end and the changes of the next micro-batch; Spark makes none if none is due."""
    end = reader.latestOffset(start, None)
    changes: list[Change] = []
    for partition in reader.partitions(start, end) if start != end else ():
        assert isinstance(partition, PlannedPartition)
        changes += changes_of(reader.read(partition))
    return end, changes


def test_a_run_of_what_is_there_emits_the_deletes_of_a_compaction(
    store: Store, clock: ManualClock, reader: ChangeStreamReader
) -> None:
    """Also if no row that expires is left: it counts which there were at the query's offset."""
    written = put(store, 1)
    compacted = compact_expired_rows(store, clock)

    reader.prepareForTriggerAvailableNow()
    end, changes = micro_batch(reader, offset_after(store, written))

    assert changes == [Change("delete", compacted, (1, 10))]
    assert reader.reportLatestOffset() == {"epoch": compacted}
    assert micro_batch(reader, end) == (end, [])


def test_a_run_of_what_is_there_ends_with_the_epoch_at_which_it_began(
    store: Store, reader: ChangeStreamReader
) -> None:
    """Later commits are for the next run."""
    created = offset_after(store, store.epoch)
    store.create_table("o", "k INT", primary_key=["k"])
    reader.prepareForTriggerAvailableNow()
    written = put(store, 1)
    assert micro_batch(reader, created) == (created, [])

    reader.prepareForTriggerAvailableNow()
    put(store, 2)
    end, changes = micro_batch(reader, created)
    assert changes == [Change("insert", written, (1, 10))]
    assert micro_batch(reader, end) == (end, [])


def test_deletes_that_are_no_longer_kept_are_an_error(
    store: Store, clock: ManualClock, reader: ChangeStreamReader
) -> None:
    """A stream that is behind the retention does not lose them silently."""
    written = put(store, 1)
    compact_expired_rows(store, clock)
    expire_epochs(store, clock)

    with pytest.raises(EpochExpiredError):
        micro_batch(reader, offset_after(store, written))


def test_an_idle_stream_outlives_the_retention(
    store: Store, clock: ManualClock, reader: ChangeStreamReader
) -> None:
    """It missed nothing while no row could expire, and goes on with the first one written."""
    start = offset_after(store, store.epoch)
    expire_epochs(store, clock)
    expire_epochs(store, clock)
    assert micro_batch(reader, start) == (start, [])

    written = put(store, 1)
    end, changes = micro_batch(reader, start)
    assert changes == [Change("insert", written, (1, 10))]
    compacted = compact_expired_rows(store, clock)
    assert micro_batch(reader, end)[1] == [Change("delete", compacted, (1, 10))]
