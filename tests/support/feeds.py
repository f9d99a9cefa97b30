"""What a change feed says, read back and applied: it must fit what was there, row by row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from relstate.storage import Store

from .model import Table
from .shapes import Shape
from .stores import rows_of

FEED_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")


@dataclass(frozen=True)
class Change:
    """One row of a feed: what happened, at which epoch, and the table's columns."""

    type: str
    epoch: int
    row: tuple[Any, ...]


def changes_of(batches: Iterable[pa.RecordBatch]) -> list[Change]:
    """Return the rows of a feed of all columns, in their order."""
    found = rows_of(batches)
    return [Change(row[-3], row[-2], row[:-3]) for row in found]


def read_feed(
    store: Store, table: str, first: int, last: int | None = None, **options: Any
) -> list[Change]:
    """Return the feed of some epochs of a table, by epoch; of one row in the feed's order."""
    found = changes_of(store.changes(table, first, last, **options))
    return sorted(found, key=lambda change: (change.epoch, repr(change.row[:1])))


def applied(shape: Shape, rows: Mapping[Any, Any], changes: Sequence[Change]) -> Table:
    """Return rows after changes, each of which must fit what is there.

    An insert meets nothing, a delete and a preimage the row that is there, a postimage stands right
    behind its preimage and differs from it.
    """
    now = dict(rows)
    image: tuple[Any, ...] | None = None
    for change in changes:
        key = shape.key_of(change.row)
        if image is not None:
            assert change.type == "update_postimage"
            assert shape.key_of(image) == key
            assert image != change.row
            now[key], image = change.row, None
        elif change.type == "insert":
            assert key not in now
            now[key] = change.row
        elif change.type == "delete":
            assert now.pop(key) == change.row
        else:
            assert change.type == "update_preimage"
            assert now[key] == change.row
            image = change.row
    assert image is None
    return now
