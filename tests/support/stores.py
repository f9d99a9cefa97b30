"""Stores for tests in which nothing crashes, and short ways to fill and read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from relstate.storage import (
    Kind,
    Proposal,
    Row,
    SegmentRecord,
    Store,
    Table,
    environment_of,
    location_of,
)
from relstate.storage.environment import Environment
from relstate.storage.local_environment import LocalEnvironment

from .commits import UnsyncedDisk

Rows = list[tuple[Any, ...]]


def unsynced(path: str) -> Environment:
    """Return the environment of a store whose commits are quick, and in a folder not durable."""
    if location_of(path).is_object_store:
        return environment_of(path)
    return LocalEnvironment(path, UnsyncedDisk())


class StoreMaker(Protocol):
    """Makes an empty store in a folder of its own, with options of `Store.create`."""

    def __call__(self, **options: Any) -> Store:
        """Return the open store."""


def batch_of(store: Store, table: str, rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    """Return rows, given as tuples in the order of the table's columns, as a batch."""
    schema = store.table(table).schema.arrow_schema
    columns = [
        pa.array([row[index] for row in rows], field.type) for index, field in enumerate(schema)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def written(
    store: Store, table: str, rows: Sequence[Sequence[Any]], deleted: Sequence[Sequence[Any]] = ()
) -> tuple[SegmentRecord, ...]:
    """Write rows, then deletes of rows, as one task does; return the segments for a commit."""
    writer = store.jobs.write_target(table).open(store.environment)
    kinds = [Kind.PUT] * len(rows) + [Kind.DELETE] * len(deleted)
    writer.write(batch_of(store, table, [*rows, *deleted]), np.array(kinds, np.uint8))
    return writer.finish()


def upsert(
    store: Store, table: str, rows: Sequence[Sequence[Any]], deleted: Sequence[Sequence[Any]] = ()
) -> int:
    """Write rows and deletes of rows as one epoch and return it."""
    return committed(store, written(store, table, rows, deleted))


def committed(store: Store, segments: Sequence[SegmentRecord], **parts: Any) -> int:
    """Commit segments, the last of which wins, as one epoch and return it."""
    proposal = Proposal(
        operation="write", started=store.environment.now(), segments=tuple(segments), **parts
    )
    return store.jobs.commit(proposal).epoch


def rows_of(batches: Iterable[pa.RecordBatch] | pa.Table | pa.RecordBatch) -> Rows:
    """Return the rows of batches as tuples, in their order."""
    if isinstance(batches, pa.RecordBatch):
        batches = [batches]
    elif isinstance(batches, pa.Table):
        batches = batches.to_batches()
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def stored_row(table: Table, *key: Any) -> Row:
    """Return the row with a key, which must be there."""
    row = table.get(*key)
    assert row is not None, f"no row has the key {key}"
    return row


def contents(store: Store, table: str, epoch: int | None = None) -> Rows:
    """Return all rows of a table in the order of its primary key."""
    source = store if epoch is None else store.at(epoch)
    return rows_of(source.table(table).to_arrow())
