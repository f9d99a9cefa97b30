"""The state table: a table as a streaming executor uses it.

Promises: what was written in this epoch is seen at once, over what is committed; nothing of it
exists for others before the commit; a commit is one epoch, all or nothing.
Does not know: Spark. Rows come one by one or as chunks.

The operations are RisingWave's (`get_row`, `scan`, `insert`, `delete`, `update`, `commit`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..codec.ragged import Bytes, Positions, constant
from ..errors import ConsistencyError
from ..log.entry import SegmentRecord
from ..schema.schema import KeyRange
from ..segment.block import Block
from ..segment.key import vnode_of, vnodes_in
from ..segment.kind import Kind
from ..segment.writer import SegmentWriter
from .chunk import split
from .encoding import Encoding
from .memtable import BlindRule, MemTable, MergeRule, StrictRule, Transition, Transitions
from .record import Row
from .storagetable import StorageTable, check_vnodes


class StateTable:
    """One table, its committed rows and the changes of the running epoch. For one thread."""

    def __init__(
        self,
        encoding: Encoding,
        committed: Callable[[], StorageTable],
        commit: Callable[[Callable[[], tuple[SegmentRecord, ...]], Bytes | None], int],
        writer: Callable[[], SegmentWriter],
        *,
        vnodes: Sequence[range] | None = None,
        strict: bool = False,
    ) -> None:
        """``committed`` gives the table as it is now committed, ``writer`` a writer of segments;
        ``commit`` calls what it is given to have the epoch's segments written, commits them and
        returns the epoch; it refuses to if one of the full keys it is given has been changed since
        ``committed`` was called last.

        ``vnodes``: those this table may touch, all by default. ``strict``: an insert over a live
        row and a delete or update of a missing one are errors (executors); else the last
        operation wins (users).
        """
        if vnodes is not None:
            check_vnodes(vnodes, encoding.vnode_count)
        self._encoding = encoding
        self._committed_now = committed
        self._committed = committed()
        self._commit = commit
        self._writer = writer
        self._vnodes = vnodes
        self._strict = strict
        rule: MergeRule = StrictRule(self._describe) if strict else BlindRule()
        self._changes = MemTable(rule)

    # Reads

    def get_row(self, *key: Any) -> Row | None:
        """Return the row with this primary key, uncommitted changes included; None if none."""
        full_key = self._encoding.encode_key(key)
        change = self._changes.get(full_key)
        if change is None:
            return self._committed.get(key)
        return None if change.after is None else self._encoding.decode_row(key, change.after)

    def get_rows(
        self, keys: pa.RecordBatch, columns: Sequence[str] | None = None
    ) -> tuple[Positions, pa.RecordBatch]:
        """Return (indices, rows): the rows of those of ``keys`` that exist, in the order asked."""
        full_keys = self._encoding.encode_keys(self._encoding.conform_keys(keys))
        return self._committed.find(full_keys, columns, newest=self._newest())

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
        """Yield committed and uncommitted rows, the uncommitted winning, as batches.

        ``prefix``: the first values of the primary key; ``start`` and ``stop``: its first
        values, included and excluded. ``ordered``: in primary key order across vnodes
        (``descending`` turns it around), else vnode by vnode.
        """
        keys = KeyRange(tuple(prefix), tuple(start), tuple(stop))
        newest = self._newest()
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
        """Delete a row, given whole: strict, it must be what is there."""
        self._apply(row, before=self._encoding.encode_row(row), after=None)

    def delete_key(self, *key: Any) -> None:
        """Delete the row with this primary key, if any. ConsistencyError on a strict table."""
        if self._strict:
            raise ConsistencyError(
                f"{self._encoding.name}: a strict delete needs the whole old row; use delete(row)"
            )
        full_key = self._owned(self._encoding.encode_key(key))
        self._changes.apply_one(full_key, Transition(None, None))

    def update(self, old: Sequence[Any], new: Sequence[Any]) -> None:
        """Replace a row by another of the same key. ConsistencyError if the keys differ."""
        before, after = self._encoding.encode_row(old), self._encoding.encode_row(new)
        old_key, new_key = self._encoding.key_of(old), self._encoding.key_of(new)
        if self._encoding.encode_key(old_key) != self._encoding.encode_key(new_key):
            raise ConsistencyError(
                f"{self._encoding.name}: an update may not change the primary key "
                f"({old_key} to {new_key}); delete and insert"
            )
        self._apply(new, before, after)

    def write_chunk(self, chunk: pa.RecordBatch) -> None:
        """Apply the changes of a chunk (see `chunk`) in their order.

        ConsistencyError (strict) or DataError, and nothing applied, if one does not fit.
        """
        rows, kinds = split(chunk)
        conformed = self._encoding.schema.conform(rows)
        keys, values = self._encoding.encode(conformed)
        self._check_owned(keys)
        puts = kinds == Kind.PUT
        self._changes.apply(Transitions(keys, values, ~puts, values, puts))

    # The end of an epoch

    def flush(self) -> tuple[SegmentRecord, ...]:
        """Write the changes to durable segments and return them, for another to commit.

        The changes stay in the mem table until `commit` or `clear`. ConsistencyError (strict) if
        what a change says was committed is not.
        """
        changes = self._changes.changes()
        if not len(changes):
            return ()
        if self._strict:
            self._verify(changes)
        with self._writer() as writer:
            writer.add(*self._entries(changes))
            return writer.finish()

    def commit(self) -> int:
        """Commit the changes as one epoch and return it; the latest epoch if there are none.

        The errors of `flush` and `transaction.commit`. ConflictError on a strict table if another
        has committed a change of the same rows meanwhile. After an error the changes are still
        here: commit again, or `clear` to begin anew from what is committed.
        """
        keys = self._changes.changes().keys if self._strict else None
        epoch = self._commit(self.flush, keys)
        self.clear()
        return epoch

    def clear(self) -> None:
        """Drop the uncommitted changes and read what is now committed."""
        self._changes.clear()
        self._committed = self._committed_now()

    def _apply(self, row: Sequence[Any], before: bytes | None, after: bytes | None) -> None:
        key = self._encoding.key_of(row)
        full_key = self._owned(self._encoding.encode_key(key))
        self._changes.apply_one(full_key, Transition(before, after))

    def _newest(self) -> Block | None:
        changes = self._changes.changes()
        return Block.over(*self._entries(changes)) if len(changes) else None

    def _entries(self, changes: Transitions) -> tuple[Bytes, Bytes]:
        """Return the (full keys, values) that record some changes: puts and deletes."""
        gone = constant(self._encoding.encode_delete(), len(changes))
        rows = np.arange(len(changes))
        either = pa.array(np.where(changes.has, rows, rows + len(changes)))
        return changes.keys, pa.concat_arrays([changes.after, gone]).take(either)

    def _verify(self, changes: Transitions) -> None:
        """ConsistencyError if the rows that changes say were committed are not those that are."""
        stored = self._committed.get_values(changes.keys)
        places = np.asarray(
            pc.fill_null(pc.index_in(changes.keys, value_set=stored.key_bytes()), -1)
        )
        live = places >= 0
        live[live] = stored.values[stored.value_starts[places[live]]] == Kind.PUT
        wrong = live != changes.had
        both = np.flatnonzero(live & changes.had)
        found = stored.value_bytes().take(pa.array(places[both]))
        differ = np.asarray(pc.not_equal(found, changes.before.take(pa.array(both))))
        wrong[both[differ]] = True
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            expected = "the old row it names" if changes.had[row] else "no row"
            found = (
                "another row" if changes.had[row] and live[row] else "one" if live[row] else "none"
            )
            raise ConsistencyError(
                f"{self._describe(changes.keys[row].as_py())}: the change expects {expected} to be "
                f"committed, but there is {found}; writer and table have lost step"
            )

    def _owned(self, full_key: bytes) -> bytes:
        if self._vnodes is not None:
            vnode = vnode_of(full_key)
            if not any(vnode in group for group in self._vnodes):
                self._fail_owned(vnode)
        return full_key

    def _check_owned(self, full_keys: Bytes) -> None:
        if self._vnodes is None:
            return
        owned = np.zeros(self._encoding.vnode_count, bool)
        for group in self._vnodes:
            owned[group.start : group.stop] = True
        vnodes = vnodes_in(full_keys)
        if not owned[vnodes].all():
            self._fail_owned(int(vnodes[~owned[vnodes]][0]))

    def _fail_owned(self, vnode: int) -> NoReturn:
        raise ConsistencyError(
            f"{self._encoding.name}: vnode {vnode} is not among those this state table owns; "
            "rows must be shuffled by the vnode mapping before they are written"
        )

    def _describe(self, full_key: bytes) -> str:
        return self._encoding.describe(full_key)
