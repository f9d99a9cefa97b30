"""What a commit changes, and how that is written.

Promises: what is written takes memory for a part of it at a time, however much was changed.
Does not know: commands, epochs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from relstate.storage import Kind, TableWriter

from .columns import COLUMN_OF, content_array, expiry_array
from .values import KINDS, Parts

_Row = TypeVar("_Row")
# About so many bytes are encoded at once, which takes several times as much memory.
_ENCODED_BYTES = 2 << 20
# A segment is in memory twice before it is written.
_SEGMENT_BYTES = 16 << 20
# Of a part of a collection, or of a key, beside its bytes.
_ROW_BYTES = 32


@dataclass(slots=True)
class DatabaseChanges:
    """What a commit changes in one database. Each key is in one of the lists, or in the last two.

    ``is_flushed``: nothing older remains; ``is_deleted``: nor does the table. ``values``: written
    as a whole, with the key, the type, the expiry and the content. ``expiries``: with the key.
    ``parts``: by type, with the key.
    """

    is_flushed: bool = False
    is_deleted: bool = False
    deleted: list[bytes] = field(default_factory=list)
    values: list[tuple[bytes, str, int | None, Any]] = field(default_factory=list)
    expiries: list[tuple[bytes, int | None]] = field(default_factory=list)
    parts: dict[str, list[tuple[bytes, Parts]]] = field(default_factory=dict)


@dataclass(slots=True)
class WholeDatabases:
    """Numbers of databases that were emptied, created, or deleted, which empties them too.

    ``written``: those of which keys were changed.
    """

    written: set[int] = field(default_factory=set)
    flushed: set[int] = field(default_factory=set)
    created: set[int] = field(default_factory=set)
    deleted: set[int] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.flushed or self.created)

    def copy(self) -> WholeDatabases:
        """Return the same numbers, in sets of their own."""
        return WholeDatabases(
            set(self.written), set(self.flushed), set(self.created), set(self.deleted)
        )

    @property
    def numbers(self) -> set[int]:
        """All of them."""
        return self.written | self.flushed | self.created


@dataclass(frozen=True, slots=True)
class Batch:
    """The changes of one commit, by the number of the database."""

    number: int
    databases: dict[int, DatabaseChanges]


def write_changes(writer: TableWriter, changes: DatabaseChanges) -> None:
    """Write the changes of one database."""
    pending_bytes = 0
    for size in _write_parts(writer, changes):
        pending_bytes += size
        if pending_bytes > _SEGMENT_BYTES:
            writer.cut()
            pending_bytes = 0


def _write_parts(writer: TableWriter, changes: DatabaseChanges) -> Iterator[int]:
    """Write the changes part by part, and yield the bytes of each when it is written."""
    for deleted in _divided(changes.deleted, len):
        batch = pa.record_batch({"key": pa.array(deleted, pa.binary())})
        writer.write(batch, np.full(len(deleted), Kind.DELETE, np.uint8))
        yield batch.nbytes
    for kind in KINDS:
        of_kind = [value for value in changes.values if value[1] == kind]
        for values in _divided(of_kind, lambda value: len(value[0]) + _content_bytes(value[3])):
            keys, kinds, expiries, contents = zip(*values, strict=True)
            batch = _batch(keys, expiries, **{COLUMN_OF[kind]: content_array(kind, contents)})
            batch = batch.append_column("type", pa.array(kinds, pa.string()))
            writer.write(batch)
            yield batch.nbytes
    for expiring in _divided(changes.expiries, lambda change: len(change[0])):
        batch = _batch(*zip(*expiring, strict=True))
        writer.patch(batch)
        yield batch.nbytes
    for kind, changed in changes.parts.items():
        for rows in _divided(changed, lambda row: len(row[0]) + _content_bytes(row[1])):
            keys, parts = zip(*rows, strict=True)
            batch = _batch(keys, **{COLUMN_OF[kind]: content_array(kind, parts)})
            writer.patch(batch)
            yield batch.nbytes


def _batch(
    keys: Sequence[bytes], expiries: Sequence[int | None] | None = None, **columns: pa.Array
) -> pa.RecordBatch:
    """Return rows with some keys, expiries and other columns."""
    if expiries is not None:
        columns["expiry"] = expiry_array(expiries)
    return pa.record_batch({"key": pa.array(keys, pa.binary()), **columns})


def _divided(rows: Sequence[_Row], size_of: Callable[[_Row], int]) -> Iterator[Sequence[_Row]]:
    """Yield the rows in parts of about the bytes that are encoded at once."""
    ends = list(accumulate(_ROW_BYTES + size for size in map(size_of, rows)))
    start = written = 0
    while start < len(rows):
        stop = max(bisect_left(ends, written + _ENCODED_BYTES), start + 1)
        yield rows[start:stop]
        start, written = stop, ends[stop - 1]


def _content_bytes(content: bytes | Parts) -> int:
    """Return about how many bytes the content of a value, or some parts of it, has."""
    if isinstance(content, bytes):
        return len(content)
    return sum(_ROW_BYTES + _size_of(name) + _size_of(item) for name, item in content)


def _size_of(item: Any) -> int:
    data = item[0] if isinstance(item, tuple) else item  # an entry of a time series
    return len(data) if isinstance(data, bytes) else 0
