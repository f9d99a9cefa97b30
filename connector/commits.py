"""The commits of a store, from its log, and as rows of a DataFrame.

Promises: the newest epoch first, read lazily: the first few cost the same however long the log is.
Names of dropped tables are looked up in the epochs that had them.
Does not know: how commits are displayed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from relstate.storage import Entry, Store, errors, moment_of

# Names and meaning of the columns are those of Delta Lake's DESCRIBE HISTORY where it has them.
COMMIT_SCHEMA = (
    "version BIGINT NOT NULL, timestamp TIMESTAMP NOT NULL, operation STRING NOT NULL, "
    "data_change BOOLEAN NOT NULL, tables ARRAY<STRING> NOT NULL, segments_added INT NOT NULL, "
    "segments_removed INT NOT NULL, rows BIGINT NOT NULL, deletes BIGINT NOT NULL, "
    "violations ARRAY<STRUCT<table: STRING, expectation: STRING, on_violation: STRING, "
    "rows: BIGINT>> NOT NULL"
)


@dataclass(frozen=True, slots=True)
class ViolationCount:
    """The rows of a commit that violated an expectation; ``on_violation``: what became of them.

    They were written (``count``), or not (``drop``).
    """

    table: str
    expectation: str
    on_violation: str
    rows: int


@dataclass(frozen=True, slots=True)
class Commit:
    """One epoch.

    ``time``: microseconds since 1970. Without ``data_change`` it is maintenance: no reader sees
    other rows. ``tables``: the names of the tables it touched, sorted. ``rows``: the entries in the
    segments it added, of which ``deletes`` are deletes. ``violations``: of expectations.
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
    violations: tuple[ViolationCount, ...] = ()


def commits(store: Store) -> Iterator[Commit]:
    """Yield the store's epochs, the newest first. CorruptionError for a damaged log."""
    names = _Names(store)
    for entry in store.history():
        statistics = [table for record in entry.added for table in record.tables]
        yield Commit(
            entry.epoch,
            entry.time,
            entry.operation,
            entry.data_change,
            tuple(sorted(names.of(table_id, entry) for table_id in _touched(entry))),
            len(entry.added),
            len(entry.removed),
            sum(table.rows for table in statistics),
            sum(table.deletes for table in statistics),
            tuple(
                ViolationCount(
                    names.of(item.table_id, entry), item.expectation, item.on_violation, item.rows
                )
                for item in entry.violations
            ),
        )


def commit_rows(
    store: Store, table: str | None = None, limit: int | None = None
) -> list[tuple[Any, ...]]:
    """Return commits as rows of `COMMIT_SCHEMA`, at most ``limit``; of one table only its own."""
    chosen = (
        commit
        for commit in commits(store)
        if table is None or table.lower() in map(str.lower, commit.tables)
    )
    return [
        (
            commit.epoch,
            moment_of(commit.time),
            commit.operation,
            commit.data_change,
            list(commit.tables),
            commit.segments_added,
            commit.segments_removed,
            commit.rows,
            commit.deletes,
            [asdict(item) for item in commit.violations],
        )
        for commit in islice(chosen, limit)
    ]


def _touched(entry: Entry) -> set[int]:
    """Return the ids of the tables that a commit touched."""
    defined = (*entry.created_tables, *entry.altered_tables)
    return {
        *(table.table_id for record in entry.added for table in record.tables),
        *(definition.table_id for definition in defined),
        *entry.dropped_tables,
        *entry.based_tables,
        *(item.table_id for item in entry.violations),
    }


class _Names:
    """The names of tables by their ids, as of a commit."""

    def __init__(self, store: Store) -> None:
        self._store = store
        tables = store.state.tables
        self._known = {table_id: table.definition.name for table_id, table in tables.items()}

    def of(self, table_id: int, entry: Entry) -> str:
        """Return the name of a table; its id if no commit and no readable epoch has the name."""
        for definition in (*entry.created_tables, *entry.altered_tables):
            self._known[definition.table_id] = definition.name
        if table_id not in self._known:
            self._known[table_id] = self._look_up(table_id, entry)
        return self._known[table_id]

    def _look_up(self, table_id: int, entry: Entry) -> str:
        # Commits come newest first: the first one with a dropped table is the one that dropped it.
        epoch = entry.epoch - 1 if table_id in entry.dropped_tables else entry.epoch
        try:
            return self._store.state_at(epoch).tables[table_id].definition.name
        except errors.EpochExpiredError:
            return f"table {table_id}"
