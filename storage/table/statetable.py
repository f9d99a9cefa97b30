"""The state table: a table as a streaming executor uses it, row by row or in batches.

It is opened in one of two ways:

- *buffered* (`Store.state_table`): changes are kept in a mem table, where reads see them at once
  and a strict table checks them; `commit` makes them one epoch.
- *streaming* (the executors of views): changes go to a segment writer at once, which several
  tables of a task share and their task finishes. Reads see what was committed before: an executor
  reads a row before it changes it. So memory is bounded, whatever is written.

Promises: nothing of an epoch exists for others before the commit; an epoch is committed whole or
not at all. Does not know: Spark, or what the rows mean.

The operations are RisingWave's (`get_row`, `scan`, `insert`, `delete`, `update`, `commit`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..codec.ragged import Bytes, Positions
from ..errors import ConsistencyError, UsageError
from ..log.segment_record import SegmentRecord
from ..schema.schema import KeyRange
from ..segment.block import Block
from ..segment.key import Kind
from ..segment.writer import SegmentWriter
from .changed_entries import changed_entries
from .encoded_rows import EncodedRows
from .encoding import Encoding
from .generation import generation_of
from .header import Headers
from .memtable import MemTable, StrictMemTable, Transition, Transitions
from .pruning import check_vnodes
from .record import Row
from .storagetable import StorageTable

Flags: TypeAlias = NDArray[np.bool_]
Flush: TypeAlias = Callable[[], tuple[SegmentRecord, ...]]


class EpochCommit(Protocol):
    """How the epochs of a buffered state table begin and end."""

    def open_committed(self) -> StorageTable:
        """Return the table as it is now committed."""

    def commit(self, flush: Flush, relied_on: Bytes | None) -> int:
        """Commit the segments that ``flush`` writes, making them durable; return the epoch.

        ConflictError if a row under one of the full keys ``relied_on`` was changed since
        `open_committed` was called last.
        """

    def segment_writer(self) -> SegmentWriter:
        """Return a writer of segments."""

    def now(self) -> int:
        """Return the time, microseconds since 1970."""


class StateTable:
    """One table, its committed rows and the changes of the running epoch. For one thread.

    Reads of many prefixes or ranges (`prefix_scan` to `range_scan`) are those of `StorageTable`.
    They read committed rows: UsageError while there are uncommitted changes in memory.
    """

    def __init__(
        self,
        committed: StorageTable,
        changes: MemTable | SegmentWriter,
        epoch_commit: EpochCommit | None = None,
        vnodes: Sequence[range] | None = None,
    ) -> None:
        """Use `buffered` or `streaming`."""
        if vnodes is not None:
            check_vnodes(vnodes, committed.encoding.vnode_count)
        self._definition = committed.encoding.definition
        self._generation = generation_of(self._definition)
        # None: the next read or change opens it.
        self._opened: StorageTable | None = committed
        self._mem_table = changes if isinstance(changes, MemTable) else None
        self._stream = changes if isinstance(changes, SegmentWriter) else None
        self._is_strict = isinstance(changes, StrictMemTable)
        self._epoch_commit = epoch_commit
        self._vnodes = vnodes
        self._owned = None if vnodes is None else _flags(vnodes, committed.encoding.vnode_count)

    @classmethod
    def buffered(
        cls,
        epoch_commit: EpochCommit,
        *,
        vnodes: Sequence[range] | None = None,
        strict: bool = False,
    ) -> Self:
        """Return a state table whose changes are kept in memory until `commit`.

        ``vnodes``: those whose rows it may read in scans and write, all by default. ``strict``: an
        insert over a row and a delete or update of a missing one are errors; else the last
        operation of a key wins.
        """
        committed = epoch_commit.open_committed()
        return cls(committed, _no_changes(committed.encoding, strict), epoch_commit, vnodes)

    @classmethod
    def streaming(
        cls,
        committed: StorageTable,
        writer: SegmentWriter,
        *,
        vnodes: Sequence[range] | None = None,
    ) -> Self:
        """Return a state table whose changes go to ``writer``, which the caller finishes."""
        return cls(committed, writer, vnodes=vnodes)

    # Reads

    @property
    def is_empty(self) -> bool:
        """Whether there is no row, so that nothing need be looked up; False may still mean none."""
        return self._committed.is_empty and not self._mem_table

    def get_row(self, *key: Any) -> Row | None:
        """Return the row with this primary key; None if there is none."""
        full_key = self._encoding.encode_key(key)
        change = None if self._mem_table is None else self._mem_table.get(full_key)
        if change is None:
            return self._committed.get(key)
        if change.after is None:
            return None
        return self._encoding.decode_row(self._encoding.stored_key(key)[0], change.after)

    def get_rows(
        self, keys: pa.RecordBatch, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return what `StorageTable.get_rows` does; uncommitted changes win."""
        full_keys = self._encoding.encode_keys(self._encoding.conform_keys(keys))
        return self._committed.find(full_keys, columns, newest=self._uncommitted())

    def prefix_scan(
        self, prefixes: pa.RecordBatch, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return what `StorageTable.prefix_scan` does."""
        self._check_no_changes("prefix_scan")
        return self._committed.prefix_scan(prefixes, columns)

    def first_per_prefix(
        self, prefixes: pa.RecordBatch, counts: Positions, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return what `StorageTable.first_per_prefix` does."""
        self._check_no_changes("first_per_prefix")
        return self._committed.first_per_prefix(prefixes, counts, columns)

    def last_per_prefix(
        self, prefixes: pa.RecordBatch, counts: Positions, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return what `StorageTable.last_per_prefix` does."""
        self._check_no_changes("last_per_prefix")
        return self._committed.last_per_prefix(prefixes, counts, columns)

    def first_encoded_per_prefix(
        self, prefixes: pa.RecordBatch, counts: Positions
    ) -> tuple[Positions, EncodedRows]:
        """Return what `StorageTable.first_encoded_per_prefix` does."""
        self._check_no_changes("first_encoded_per_prefix")
        return self._committed.first_encoded_per_prefix(prefixes, counts)

    def rows_from(
        self,
        starts: pa.RecordBatch,
        group: int,
        counts: Positions,
        columns: Sequence[str] | None = None,
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return what `StorageTable.rows_from` does."""
        self._check_no_changes("rows_from")
        return self._committed.rows_from(starts, group, counts, columns)

    def rows_before(
        self,
        ends: pa.RecordBatch,
        group: int,
        counts: Positions,
        columns: Sequence[str] | None = None,
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return what `StorageTable.rows_before` does."""
        self._check_no_changes("rows_before")
        return self._committed.rows_before(ends, group, counts, columns)

    def range_scan(
        self,
        lows: pa.Array,
        highs: pa.Array,
        columns: Sequence[str] | None = None,
        *,
        most: int | None = None,
        everywhere: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yield what `StorageTable.range_scan` does, of the vnodes that this table owns.

        ``everywhere``: of all vnodes.
        """
        self._check_no_changes("range_scan")
        vnodes = None if everywhere else self._vnodes
        return self._committed.range_scan(lows, highs, columns, vnodes=vnodes, most=most)

    def owns(self, rows: pa.RecordBatch) -> Flags:
        """Return which rows, with the columns of the distribution key, this table may write."""
        if self._owned is None:
            return np.ones(rows.num_rows, np.bool_)
        owned: Flags = self._owned[self._encoding.vnodes(rows)]
        return owned

    def scan(
        self,
        columns: Sequence[str] | None = None,
        *,
        prefix: Sequence[Any] = (),
        start: Sequence[Any] = (),
        stop: Sequence[Any] = (),
        descending: bool = False,
        ordered: bool = True,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows as batches; uncommitted changes win over committed rows.

        ``prefix``: the first values of the primary key; ``start`` and ``stop``: its first
        values, included and excluded. ``ordered``: in primary key order across vnodes
        (``descending`` turns it around), else in no order.
        """
        keys = KeyRange(tuple(prefix), tuple(start), tuple(stop))
        newest = self._uncommitted()
        if not ordered and not descending:
            return self._committed.scan(columns, vnodes=self._vnodes, keys=keys, newest=newest)
        return self._committed.scan_in_order(
            columns, vnodes=self._vnodes, keys=keys, descending=descending, newest=newest
        )

    # Writes

    def insert(self, row: Sequence[Any]) -> None:
        """Write a row; strict: the key must be absent. ``row``: values in the columns' order."""
        self._apply(row, before=None, after=self._encoding.encode_row(row))

    def delete(self, row: Sequence[Any]) -> None:
        """Delete a row, given whole; strict: it must be the present row of its key."""
        self._apply(row, before=self._encoding.encode_row(row), after=None)

    def update(self, old: Sequence[Any], new: Sequence[Any]) -> None:
        """Replace a row by another of the same key. ConsistencyError if the keys differ."""
        before, after = self._encoding.encode_row(old), self._encoding.encode_row(new)
        old_key, new_key = self._encoding.key_of(old), self._encoding.key_of(new)
        if self._encoding.encode_key(old_key) != self._encoding.encode_key(new_key):
            raise ConsistencyError(
                f"table {self._encoding.name}: an update may not change the primary key "
                f"({old_key} to {new_key}); delete and insert"
            )
        self._apply(new, before, after)

    def write(self, rows: pa.RecordBatch, deleted: Flags | None = None) -> None:
        """Put rows, or delete those that ``deleted`` marks; the later change of a key wins.

        Of a deleted row only the key is used; strict: it must be the present row of its key.
        ConsistencyError for a row of a vnode that this table does not own, or (strict) one that
        does not fit; SchemaMismatchError, NullKeyError, NullValueError or ValueRangeError if a row
        does not fit the table: nothing is applied then.
        """
        kinds = None
        if deleted is not None and deleted.any() and not self._is_strict:
            kinds = np.where(deleted, Kind.DELETE, Kind.PUT).astype(np.uint8)
        if self._encoding.schema.clock_columns:
            rows = self._encoding.schema.with_present_time(rows, self._commits().now())
        if self._generation is not None:
            rows = self._generation.completed(rows, kinds)
        keys, values = self._encoding.encode(rows, kinds)
        self._check_owned(keys)
        if self._stream is not None:
            self._stream.add(keys, values)
        elif self._mem_table is not None:
            no_deletes = np.zeros(len(keys), np.bool_)
            self._mem_table.apply(keys, values, no_deletes if deleted is None else deleted)

    def replace_rows(self, rows: pa.RecordBatch) -> None:
        """Make these the rows of all vnodes that a streaming table owns: write what differs.

        Each key is there once. The errors of `write`.
        """
        if self._stream is None:
            raise UsageError(f"table {self._encoding.name}: only a streaming table replaces rows")
        keys, values = self._encoding.encode(rows, None)
        self._check_owned(keys)
        vnodes = self._vnodes or (range(self._encoding.vnode_count),)
        key_vnodes = self._encoding.vnodes(rows)
        for changes in changed_entries(self._committed, keys, values, key_vnodes, vnodes):
            self._stream.add(*changes)

    # The end of an epoch

    def flush(self) -> tuple[SegmentRecord, ...]:
        """Write the changes to durable segments and return them, for another to commit.

        The changes stay in the mem table until `commit` or `clear`. ConsistencyError (strict) if
        a row that a change expects to be committed is not. UsageError if the table is streaming.
        """
        return self._write_changes(SegmentWriter.finish)

    def _flush_unsynced(self) -> tuple[SegmentRecord, ...]:
        """Do as `flush` does, but leave it to the commit to make the segments durable."""
        return self._write_changes(SegmentWriter.finish_unsynced)

    def _write_changes(
        self, finish: Callable[[SegmentWriter], tuple[SegmentRecord, ...]]
    ) -> tuple[SegmentRecord, ...]:
        changes = self._buffer().changes()
        if not len(changes):
            return ()
        if self._is_strict:
            for part in changes.parts():
                self._check_committed(part)
        with self._commits().segment_writer() as writer:
            for part in changes.parts():
                writer.add(*part.entries())
            return finish(writer)

    def commit(self) -> int:
        """Commit the changes as one epoch and return it; the latest epoch if there are none.

        The errors of `flush` and `transaction.commit`. ConflictError on a strict table if another
        has committed a change of the same rows meanwhile. After an error the changes are still
        here: commit again, or `clear` to start from what is committed.
        """
        keys = self._buffer().changes().keys if self._is_strict else None
        epoch = self._commits().commit(self._flush_unsynced, keys)
        self.clear()
        return epoch

    def clear(self) -> None:
        """Drop the uncommitted changes; the next read or change sees what is then committed.

        Changes after it are under the schema that the table has then.
        """
        self._buffer().clear()
        # Not opened here: an error would hide that a commit happened.
        self._opened = None

    @property
    def _committed(self) -> StorageTable:
        return self._open() if self._opened is None else self._opened

    @property
    def _encoding(self) -> Encoding:
        return self._committed.encoding

    def _open(self) -> StorageTable:
        """Return the committed rows, opened anew. The errors of `open_committed`."""
        committed = self._opened = self._commits().open_committed()
        if committed.encoding.definition != self._definition:
            # Changes are encoded under the schema of the table.
            self._definition = committed.encoding.definition
            self._generation = generation_of(self._definition)
            self._mem_table = _no_changes(committed.encoding, self._is_strict)
        return committed

    def _buffer(self) -> MemTable:
        if self._mem_table is None:
            raise self._streaming_error()
        return self._mem_table

    def _commits(self) -> EpochCommit:
        if self._epoch_commit is None:
            raise self._streaming_error()
        return self._epoch_commit

    def _streaming_error(self) -> UsageError:
        return UsageError(
            f"table {self._encoding.name}: a streaming state table has no epoch of its own; finish "
            "and commit the writer that it was opened with"
        )

    def _apply(self, row: Sequence[Any], before: bytes | None, after: bytes | None) -> None:
        key = self._encoding.key_of(row)
        self._apply_change(self._encoding.encode_key(key), Transition(before, after))

    def _apply_change(self, full_key: bytes, change: Transition) -> None:
        if self._owned is not None and not self._owned[self._encoding.prefix.vnode_of(full_key)]:
            raise self._foreign_row_error(full_key)
        if self._mem_table is not None:
            self._mem_table.apply_change(full_key, change)
        elif self._stream is not None:
            value = self._encoding.encode_delete() if change.after is None else change.after
            self._stream.add(*(pa.array([data], pa.large_binary()) for data in (full_key, value)))

    def _uncommitted(self) -> Block | None:
        return self._mem_table.changes().block() if self._mem_table else None

    def _check_no_changes(self, operation: str) -> None:
        if self._mem_table:
            raise UsageError(
                f"table {self._encoding.name}: {operation} reads committed rows only, and there "
                "are uncommitted changes; commit first, or use scan"
            )

    def _check_committed(self, changes: Transitions) -> None:
        """ConsistencyError unless the rows that changes expect to be committed are."""
        stored = self._committed.get_values(changes.keys)
        indices = np.asarray(
            pc.fill_null(pc.index_in(changes.keys, value_set=stored.key_bytes()), -1)
        )
        had_row, has_row = changes.had_row, indices >= 0
        has_row[has_row] = Headers(stored).kinds[indices[has_row]] == Kind.PUT
        wrong = has_row != had_row
        in_both = np.flatnonzero(has_row & had_row)
        values = stored.take(indices[in_both]).value_bytes()
        expected = changes.values.take(changes.before[in_both])
        wrong[in_both[np.asarray(pc.not_equal(values, expected))]] = True
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            expected_row = "the old row it names" if had_row[row] else "no row"
            actual_row = "another row" if had_row[row] else "one"
            committed_row = actual_row if has_row[row] else "none"
            raise ConsistencyError(
                f"{self._encoding.describe(changes.keys[row].as_py())}: the change expects "
                f"{expected_row} to be committed, but there is {committed_row}; clear the state "
                "table and apply changes of the rows that are committed"
            )

    def _check_owned(self, full_keys: Bytes) -> None:
        """ConsistencyError if a full key is in a vnode that this table does not own."""
        if self._owned is None:
            return
        foreign = np.flatnonzero(~self._owned[self._encoding.prefix.vnodes_in(full_keys)])
        if len(foreign):
            raise self._foreign_row_error(full_keys[int(foreign[0])].as_py())

    def _foreign_row_error(self, full_key: bytes) -> ConsistencyError:
        vnode = self._encoding.prefix.vnode_of(full_key)
        return ConsistencyError(
            f"{self._encoding.describe(full_key)}: vnode {vnode} is not among those "
            "that this state table owns; shuffle rows by the vnode mapping before they are "
            "written; nothing was committed"
        )


def _no_changes(encoding: Encoding, strict: bool) -> MemTable:
    """Return a mem table of rows of a table, without any."""
    delete = encoding.encode_delete()
    return StrictMemTable(delete, encoding.describe) if strict else MemTable(delete)


def _flags(vnodes: Sequence[range], vnode_count: int) -> Flags:
    """Return of every vnode whether it is in one of some ranges."""
    flags = np.zeros(vnode_count, np.bool_)
    for group in vnodes:
        flags[group.start : group.stop] = True
    return flags
