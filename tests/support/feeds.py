"""Change feeds, read and applied to the rows before: each change must fit them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from relstate.storage import Store

from .model import Table
from .shapes import Shape
from .stores import rows_of


@dataclass(frozen=True)
class Change:
    """One row of a feed: what happened, at which epoch, and the table's columns."""

    type: str
    epoch: int
    row: tuple[Any, ...]


def changes_of(batches: Iterable[pa.RecordBatch]) -> list[Change]:
    """Return the rows of a feed of all columns, in their order."""
    return [Change(row[-3], row[-2], row[:-3]) for row in rows_of(batches)]


def read_feed(
    store: Store, table: str, first: int, last: int | None = None, **options: Any
) -> list[Change]:
    """Return the feed of a table's epochs, by epoch; changes of one row in the feed's order."""
    changes = changes_of(store.changes(table, first, last, **options))
    return sorted(changes, key=lambda change: (change.epoch, repr(change.row[:1])))


def applied(shape: Shape, rows: Mapping[Any, Any], changes: Sequence[Change]) -> Table:
    """Return rows after changes, each of which must fit the rows before it.

    The key of an insert is new; a delete and a preimage equal the present row; a postimage directly
    follows its preimage and differs from it.
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
