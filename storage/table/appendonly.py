"""Append-only tables: what a task and a commit refuse to write to them.

Promises: whatever door a write came by, no row of an append-only table is changed, deleted or
replaced. The check of a commit is made against the very state that the commit follows; a second
check of the same proposal costs only what was committed since the first.
Does not know: the race for an epoch, or whether a write is a retry of one that is committed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..codec.ragged import Bytes, equal_neighbours, sort_order
from ..environment import Environment
from ..errors import AppendOnlyError
from ..log.proposal import Proposal
from ..log.sequenced_segment import SequencedSegment
from ..log.state import StoreState
from ..log.table_definition import TableDefinition
from ..log.table_segments import added_since, after_newer
from ..segment import longkey
from ..segment.block import Block
from ..segment.key import Kind
from .encoding import Encoding, encoding_of
from .storagetable import StorageTable

# Only a few pages are read, of the files with neighbours of the keys. Hashing these files whole, in
# a process that may commit only once, would cost more than the commit.
_VERIFY = "size"


def check_inserts(definition: TableDefinition, kinds: NDArray[np.uint8] | None) -> None:
    """AppendOnlyError if rows of these kinds delete rows of an append-only table."""
    if definition.properties.append_only and kinds is not None and (kinds == Kind.DELETE).any():
        raise append_only_error(definition, "delete")


def check_distinct(encoding: Encoding, keys: Bytes, values: Bytes) -> tuple[Bytes, Bytes]:
    """Return some entries unchanged. AppendOnlyError if two have one key."""
    order = sort_order(keys)
    repeats = np.flatnonzero(equal_neighbours(keys.take(pa.array(order))))
    if len(repeats):
        twice = order[repeats[:1]]
        block = Block.over(keys, values).take(twice)
        raise taken_key_error(encoding, encoding.decode(block, encoding.schema.key_columns))
    return keys, values


def append_only_error(definition: TableDefinition, operation: str) -> AppendOnlyError:
    """Return the error of a write that would change, delete or replace rows."""
    return AppendOnlyError(
        f"{operation}: the table {definition.name!r} is append-only: its rows cannot be changed, "
        "deleted or replaced; insert rows with new keys, or drop the table"
    )


def taken_key_error(encoding: Encoding, rows: pa.RecordBatch) -> AppendOnlyError:
    """Return the error of a row whose key, that of the first of ``rows``, another row has."""
    key = ", ".join(f"{name} = {rows[name][0].as_py()!r}" for name in encoding.key_names)
    return AppendOnlyError(
        f"the table {encoding.name!r} is append-only, and a row with the key ({key}) exists "
        "already or is written twice; nothing was committed: remove these rows from the write"
    )


class AppendCheck:
    """The check of one proposal, made at every attempt to commit it."""

    def __init__(self, environment: Environment, proposal: Proposal) -> None:
        self._environment = environment
        self._proposal = proposal
        self._checked: StoreState | None = None

    def __call__(self, state: StoreState) -> None:
        """AppendOnlyError if the proposal would change a row of an append-only table in a state.

        The tables it writes are there.
        """
        for table_id in sorted(self._proposal.written):
            definition = state.tables[table_id].definition
            if definition.properties.append_only:
                self._check(state, definition)
        self._checked = state

    def _check(self, state: StoreState, definition: TableDefinition) -> None:
        table_id = definition.table_id
        records = [record for record in self._proposal.segments if record.rows(table_id)]
        if table_id in self._proposal.based_tables or any(
            table.deletes
            for record in records
            for table in record.tables
            if table.table_id == table_id
        ):
            raise append_only_error(definition, self._proposal.operation)
        added = [
            SequencedSegment(record, state.epoch + 1, rank) for rank, record in enumerate(records)
        ]
        committed = state.segments_of(table_id)
        if self._checked is not None:
            committed = added_since(self._checked.segments, committed)
        # What the tasks wrote does not change from one attempt to the next.
        unchecked = added if self._checked is None else []
        encoding = encoding_of(definition, state.settings.vnode_count)
        for rank, segment in enumerate(added):
            older = self._table(encoding, after_newer(unchecked[:rank][::-1], committed))
            if older.is_empty:
                continue
            for keys in self._table(encoding, [segment]).full_keys():
                _check_new(older, possible_duplicates(older, keys))

    def _table(self, encoding: Encoding, segments: Sequence[SequencedSegment]) -> StorageTable:
        now = self._environment.now
        return StorageTable(self._environment, encoding, segments, now, verify=_VERIFY)


def possible_duplicates(older: StorageTable, keys: Bytes) -> Bytes:
    """Return those of some sorted keys that a table may have.

    A vnode's keys are left out if the table has no entry between the first and the last of them: so
    are all keys if they grow with time.
    """
    if not len(keys) or longkey.has_long(keys):
        return keys
    vnodes = older.encoding.prefix.vnodes_in(keys)
    starts = np.flatnonzero(np.append(True, vnodes[1:] != vnodes[:-1]))
    counts = np.diff(np.append(starts, len(keys)))
    lows, highs = (keys.take(pa.array(indices)) for indices in (starts, starts + counts - 1))
    is_met = older.has_entries_between(lows, highs)
    return keys if is_met.all() else keys.filter(pa.array(np.repeat(is_met, counts)))


def _check_new(older: StorageTable, keys: Bytes) -> None:
    """AppendOnlyError if a table has a row with one of some full keys."""
    if not len(keys):
        return
    _, rows = older.find(keys, older.encoding.key_names)
    if rows.num_rows:
        raise taken_key_error(older.encoding, rows)
