"""A table as a streaming executor of a store uses it.

Promises: what it commits is one epoch; a strict table's commit is refused if another has changed
the same rows since it was opened.
Does not know: what a state table does with its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from .codec.ragged import Bytes
from .errors import UsageError
from .log.entry import Entry, SegmentRecord, TableDefinition
from .log.proposal import Proposal, Reads
from .log.state import placed_in
from .snapshot import LatestReader
from .table.encoding import RowEncoding
from .table.statetable import StateTable
from .table.storagetable import StorageTable

if TYPE_CHECKING:
    from .store import Store


def open_state_table(
    store: Store, name: str, vnodes: Sequence[range] | None, strict: bool
) -> StateTable:
    """Return a table of a store, or those of its rows in ``vnodes``, as a state table.

    TableNotFoundError; InternalTableError; UsageError for a table whose rows are merged or expire.
    """
    definition = store.free_table(name, "written")
    _check_state_table(definition, strict)
    encoding = RowEncoding(definition, store.settings.vnode_count)
    reader = LatestReader(store, name)

    def commit_changes(
        flush: Callable[[], tuple[SegmentRecord, ...]], relied_on: Bytes | None
    ) -> int:
        started = store.environment.now()
        reads = None
        if relied_on is not None:
            reads = Reads(reader.epoch, partial(_changes_any, store, encoding, relied_on))
        proposal = Proposal(operation="write", started=started, segments=flush(), reads=reads)
        return store.commit(proposal).epoch

    writer = store.segment_writer
    return StateTable(encoding, reader, commit_changes, writer, vnodes=vnodes, strict=strict)


def _changes_any(store: Store, encoding: RowEncoding, full_keys: Bytes, entry: Entry) -> bool:
    """Return whether a commit changed a table's row under one of some keys, or all its rows."""
    table_id = encoding.table_id
    if table_id in entry.based_tables:
        return True
    placed = placed_in(entry.added, entry.epoch, table_id)
    changed = StorageTable(store.environment, encoding, placed, lambda: 0)
    return len(changed.get_values(full_keys)) > 0


def _check_state_table(definition: TableDefinition, strict: bool) -> None:
    properties = definition.properties
    if not properties.is_plain or properties.ttl is not None:
        raise UsageError(
            f"table {definition.name!r} merges its rows or lets them expire, which a state table "
            "does not; write it with store.write or through Spark"
        )
    if strict and definition.older_schemas:
        raise UsageError(
            f"table {definition.name!r} was altered, so that old rows cannot be told by their "
            "bytes, as a strict state table does; open it without strict"
        )
