"""What a commit may do to an append-only table: add rows whose keys are not there yet.

Promises: whatever door a write came by, no row of an append-only table is changed, deleted or
replaced; the check is made against the very state that a commit follows, and a state that follows
a checked one costs only what came since.
Does not know: the race for an epoch, or whether a write is a retry of one that is committed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from .codec.ragged import Bytes
from .environment import Environment
from .log.entry import TableDefinition
from .log.proposal import Proposal
from .log.state import PlacedSegment, StoreState
from .segment import longkey
from .segment.key import vnodes_in
from .table.appendonly import change_refused, key_taken
from .table.encoding import RowEncoding
from .table.storagetable import StorageTable

# Files are only looked into: those with rows of the keys' neighbours, and few of their pages. To
# hash all of each first, in a process that may commit once, would cost more than the commit.
_VERIFY = "size"


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
        encoding = RowEncoding(definition, state.settings.vnode_count)
        for at, placed in enumerate(added):
            older = self._open(encoding, [*reversed(beside[:at]), *committed])
            if older.is_empty:
                continue
            for keys in self._open(encoding, [placed]).full_keys():
                _check_new(older, _doubtful(older, keys))

    def _open(self, encoding: RowEncoding, segments: Sequence[PlacedSegment]) -> StorageTable:
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
