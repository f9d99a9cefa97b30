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
from ..log.entry import TableDefinition
from ..log.proposal import Proposal
from ..log.state import PlacedSegment, StoreState
from ..segment import longkey
from ..segment.block import Block
from ..segment.key import vnodes_in
from ..segment.kind import Kind
from .encoding import Encoding, encoding_of
from .storagetable import StorageTable

# Files are only looked into: those with rows of the keys' neighbours, and few of their pages. To
# hash all of each first, in a process that may commit once, would cost more than the commit.
_VERIFY = "size"


def check_inserts(definition: TableDefinition, kinds: NDArray[np.uint8] | None) -> None:
    """AppendOnlyError if rows of these kinds delete rows of an append-only table."""
    if definition.properties.append_only and kinds is not None and (kinds == Kind.DELETE).any():
        raise change_refused(definition, "delete")


def check_distinct(encoding: Encoding, keys: Bytes, values: Bytes) -> tuple[Bytes, Bytes]:
    """Return the entries that they are. AppendOnlyError if two have one key."""
    order = sort_order(keys)
    repeats = np.flatnonzero(equal_neighbours(keys.take(pa.array(order))))
    if len(repeats):
        twice = order[repeats[:1]]
        block = Block.over(keys, values).take(twice)
        raise key_taken(encoding, encoding.decode(block, encoding.schema.key_columns))
    return keys, values


def change_refused(definition: TableDefinition, operation: str) -> AppendOnlyError:
    """Return the error of a write that would change, delete or replace rows."""
    return AppendOnlyError(
        f"{operation}: the table {definition.name!r} is append-only: its rows are not changed, "
        "deleted or replaced; insert rows of new keys, or drop the table"
    )


def key_taken(encoding: Encoding, rows: pa.RecordBatch) -> AppendOnlyError:
    """Return the error of a row whose key, that of the first of ``rows``, another row has."""
    key = ", ".join(f"{name} = {rows[name][0].as_py()!r}" for name in encoding.key_names)
    return AppendOnlyError(
        f"the table {encoding.name!r} is append-only, and a row with the key ({key}) is in it "
        "already, or comes twice in what is written; nothing was committed: leave such rows out"
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
        records = [one for one in self._proposal.segments if one.rows(table_id)]
        if table_id in self._proposal.based_tables or any(
            one.deletes for record in records for one in record.tables if one.table_id == table_id
        ):
            raise change_refused(definition, self._proposal.operation)
        added = [PlacedSegment(one, state.epoch + 1, at) for at, one in enumerate(records)]
        seen = {} if self._checked is None else self._checked.segments
        committed = [one for one in state.segments_of(table_id) if one.name not in seen]
        # What the tasks wrote does not change from one attempt to the next.
        beside = added if self._checked is None else []
        encoding = encoding_of(definition, state.settings.vnode_count)
        for at, placed in enumerate(added):
            older = self._table(encoding, [*reversed(beside[:at]), *committed])
            if older.is_empty:
                continue
            for keys in self._table(encoding, [placed]).full_keys():
                _check_new(older, _doubtful(older, keys))

    def _table(self, encoding: Encoding, segments: Sequence[PlacedSegment]) -> StorageTable:
        now = self._environment.now
        return StorageTable(self._environment, encoding, segments, now, verify=_VERIFY)


def _doubtful(older: StorageTable, keys: Bytes) -> Bytes:
    """Return those of some sorted keys that a table may have.

    Of vnodes in which it has none between the first and the last of the keys no key is looked up:
    where keys grow with time that is all of them.
    """
    if not len(keys) or longkey.has_long(keys):
        return keys
    vnodes = vnodes_in(keys)
    starts = np.flatnonzero(np.append(True, vnodes[1:] != vnodes[:-1]))
    counts = np.diff(np.append(starts, len(keys)))
    lows, highs = (keys.take(pa.array(places)) for places in (starts, starts + counts - 1))
    is_met = older.reaches(lows, highs)
    return keys if is_met.all() else keys.filter(pa.array(np.repeat(is_met, counts)))


def _check_new(older: StorageTable, keys: Bytes) -> None:
    """AppendOnlyError if a table has a row with one of some full keys."""
    if not len(keys):
        return
    _, found = older.find(keys, older.encoding.key_names)
    if found.num_rows:
        raise key_taken(older.encoding, found)
