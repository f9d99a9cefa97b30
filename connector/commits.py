"""What the log of a store says of its epochs.

Promises: the newest epoch first, read as it is asked for: the first few cost the same however
long the log is. Names of tables that are gone are looked up in the epochs that had them.
Does not know: how it is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from relstate.storage import Entry, Store, errors


@dataclass(frozen=True, slots=True)
class Commit:
    """One epoch.

    ``time`` is in microseconds since 1970. Without ``data_change`` it is upkeep: no reader sees
    other rows. ``tables`` are the names of those that it touched, sorted; ``rows`` the entries
    in the segments it added, of which ``deletes`` are deletes.
    """

    epoch: int
    time: int
    operation: str
    data_change: bool
    tables: tuple[str, ...]
    segments_added: int
    segments_removed: int
    rows: int
    deletes: int


def commits(store: Store) -> Iterator[Commit]:
    """Yield the store's epochs, the newest first. CorruptionError for a damaged log."""
    names = _Names(store)
    for entry in store.history():
        held = [table for record in entry.added for table in record.tables]
        yield Commit(
            entry.epoch,
            entry.time,
            entry.operation,
            entry.data_change,
            tuple(sorted(names.of(table_id, entry) for table_id in _touched(entry))),
            len(entry.added),
            len(entry.removed),
            sum(table.rows for table in held),
            sum(table.deletes for table in held),
        )


def _touched(entry: Entry) -> set[int]:
    """Return the ids of the tables that a commit says anything of."""
    defined = (*entry.created_tables, *entry.altered_tables)
    return {
        *(table.table_id for record in entry.added for table in record.tables),
        *(definition.table_id for definition in defined),
        *entry.dropped_tables,
        *entry.based_tables,
    }


class _Names:
    """The names of tables by their ids, as of a commit."""

    def __init__(self, store: Store) -> None:
        self._store = store
        tables = store.state.tables
        self._known = {table_id: table.definition.name for table_id, table in tables.items()}

    def of(self, table_id: int, entry: Entry) -> str:
        """Return the name of a table; its id where neither commit nor kept epoch tells its name."""
        for definition in (*entry.created_tables, *entry.altered_tables):
            self._known[definition.table_id] = definition.name
        if table_id not in self._known:
            self._known[table_id] = self._look_up(table_id, entry)
        return self._known[table_id]

    def _look_up(self, table_id: int, entry: Entry) -> str:
        # Asked for from the newest on, a table that is gone is first met where it was dropped.
        had_it = entry.epoch - 1 if table_id in entry.dropped_tables else entry.epoch
        try:
            return self._store.state_at(had_it).tables[table_id].definition.name
        except errors.EpochExpiredError:
            return f"table {table_id}"
