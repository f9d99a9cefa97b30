"""The tables ``redis_0`` to ``redis_15``: one row for each key, whatever its type.

    key     BINARY, the primary key
    type    STRING: string, hash, set, zset, list or timeseries
    expiry  TIMESTAMP: when the key expires; NULL: never; for a time series, when its next entry
            expires
    value   BINARY: a string
    fields  MAP<BINARY, BINARY>: of a hash
    members MAP<BINARY, BOOLEAN>: of a set, each with true
    scores  MAP<BINARY, DOUBLE>: of a sorted set, by its members
    items   MAP<BIGINT, BINARY>: of a list, by ascending positions
    series  MAP<BIGINT, STRUCT<value BINARY, expiry TIMESTAMP>>: of a time series, by timestamps

The table of a database is created by its first commit. The expiry is a column, and not the row's
time to live: a view follows only what is committed, so the server deletes what has expired.

Promises: the changes of all databases become visible as one epoch or not at all; a commit is
refused if another writer changed one of the tables since they were read.
Does not know: commands, memory.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from relstate.storage import (
    Entry,
    Environment,
    Proposal,
    ReadPlan,
    Reads,
    SegmentRecord,
    Store,
    Table,
    encoding_of,
    errors,
)

from .batches import Batch, write_changes
from .columns import MILLISECOND, TYPES, value_of
from .values import StringValue, Value

_logger = logging.getLogger(__name__)

DATABASES = 16
MOST_NAME_BYTES = 60_000
"""A field or member is part of the key of an entry, whose length has two bytes."""
_COLUMNS = (
    "key BINARY NOT NULL, type STRING, expiry TIMESTAMP, value BINARY, "
    "fields MAP<BINARY, BINARY>, members MAP<BINARY, BOOLEAN>, scores MAP<BINARY, DOUBLE>, "
    "items MAP<BIGINT, BINARY>"
)
_SERIES = "series MAP<BIGINT, STRUCT<value: BINARY, expiry: TIMESTAMP>>"
# After so many bytes of segments memory is released, which takes less than a millisecond.
_RELEASED_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class StoredKeys:
    """The keys of a table at one epoch, which any thread may read."""

    plan: ReadPlan
    environment: Environment

    def read(self, vnode: int | None = None) -> Iterator[tuple[bytes, int | None]]:
        """Yield the keys, or those of one vnode, with their expiries."""
        vnodes = range(self.plan.vnode_count) if vnode is None else range(vnode, vnode + 1)
        for batch in self.plan.read((vnodes,), self.environment):
            expiries = batch.column("expiry").cast(pa.int64()).to_pylist()
            for key, expiry in zip(batch.column("key").to_pylist(), expiries, strict=True):
                yield key, None if expiry is None else expiry // MILLISECOND


class StoredTables:
    """The tables of a store.

    `commit` is called in one thread, `compact` in another, and all else in a third one.
    """

    def __init__(self, store: Store) -> None:
        """SchemaError if a table of such a name has other columns."""
        self._store = store
        self._tables: dict[int, Table] = {}
        self._seen = [0] * DATABASES
        """By database the epoch up to which other writers' changes of its table are known."""
        self._grown: frozenset[int] = frozenset()
        """The ids of the tables whose files may have to be merged."""
        self._looked_at = 0
        self._written_bytes = 0
        self.refresh()

    def _open(self, number: int) -> None:
        name = table_name(number)
        create_table(self._store, number)
        table = self._store.table(name)
        names = [column.name for column in table.schema.visible_columns]
        if names != ["key", "type", "expiry", *TYPES]:
            raise errors.SchemaError(
                f"table {name!r} has the columns {', '.join(names)}; `relstate redis` keeps "
                f"database {number} in a table of this name: rename it"
            )
        self._tables[number] = table

    def refresh(self, excluded: Collection[int] = ()) -> set[int]:
        """Return the databases whose tables another writer changed since this was last asked.

        Those excluded are not looked at. All that is being committed must be excluded while
        `commit` runs.
        """
        changed: set[int] = set()
        state = self._store.state
        if state.epoch == self._looked_at:
            return changed
        names = set(state.table_names())
        numbers = [number for number in range(DATABASES) if number not in excluded]
        for number in numbers:
            name = table_name(number)
            if number in self._tables:
                if state.table(name).data_epoch > self._seen[number]:
                    changed.add(number)
            elif name in names:
                self._open(number)
                changed.add(number)
        for number in numbers:
            self._seen[number] = state.epoch
        self._looked_at = min(self._seen)
        return changed

    def read(self, number: int, key: bytes) -> Value | None:
        """Return what is at a key of a database; None if nothing is."""
        table = self._tables.get(number)
        row = None if table is None else table.get(key)
        value = None if row is None else value_of(row)
        # Another writer may leave a collection without parts.
        return value if value is None or isinstance(value, StringValue) or len(value) else None

    def keys(self, number: int) -> StoredKeys | None:
        """Return the keys that a database has now; None if it has no table."""
        if number not in self._tables:
            return None
        plan = self._store.read_plan(table_name(number), columns=["key", "expiry"])
        return StoredKeys(plan, self._store.environment)

    def expiring_keys(self, number: int) -> StoredKeys | None:
        """Return the keys of a database that expire; None if it has no table."""
        stored = self.keys(number)
        if stored is None:
            return None
        return StoredKeys(stored.plan.filtered("expiry IS NOT NULL"), stored.environment)

    @property
    def vnode_count(self) -> int:
        """The number of vnodes, into which keys are divided."""
        return self._store.settings.vnode_count

    def vnode_function(self, number: int) -> Callable[[bytes], int]:
        """Return what returns the vnode of a key, in any thread: 0 if there is no table yet."""
        if number not in self._tables:
            return lambda _: 0
        definition = self._store.state.table(table_name(number)).definition
        encoding = encoding_of(definition, self.vnode_count)
        return lambda key: encoding.prefix.vnode_of(encoding.encode_key([key]))

    def has_table(self, number: int) -> bool:
        """Return whether a database has a table yet."""
        return number in self._tables

    def commit(self, batch: Batch) -> None:
        """Commit a batch as one epoch, after creating the tables of databases that have none.

        ConflictError if another writer changed a table since it was read; the errors of
        `Jobs.commit`.
        """
        store = self._store
        if not batch.databases:
            return
        for number in batch.databases:
            if number not in self._tables:
                self._open(number)
        started = store.environment.now()
        targets = {
            number: store.jobs.write_target(table_name(number)) for number in batch.databases
        }
        segments: list[SegmentRecord] = []
        try:
            for number, changes in batch.databases.items():
                with targets[number].open(store.environment) as writer:
                    write_changes(writer, changes)
                    segments += writer.finish_unsynced()
        except BaseException:
            store.jobs.discard(segments)
            raise
        ids = {number: target.definition.table_id for number, target in targets.items()}
        flushed = [ids[number] for number, changes in batch.databases.items() if changes.is_flushed]

        seen_epochs = {ids[number]: self._seen[number] for number in batch.databases}

        def conflicts(entry: Entry) -> bool:
            written = {table.table_id for record in entry.added for table in record.tables}
            changed = written | set(entry.based_tables)
            return entry.data_change and any(
                entry.epoch > epoch and table_id in changed
                for table_id, epoch in seen_epochs.items()
            )

        proposal = Proposal(
            operation="redis",
            started=started,
            segments=tuple(segments),
            syncs_segments=True,
            based_tables=tuple(flushed),
            reads=Reads(min(seen_epochs.values()), conflicts),
        )
        try:
            result, grown = store.jobs.commit_uncompacted(proposal)
        except errors.ConflictError:
            store.jobs.discard(segments)
            raise
        self._grown |= grown
        self._release_memory(segments)
        for number in batch.databases:
            self._seen[number] = result.epoch
        for number, changes in batch.databases.items():
            if changes.is_deleted:
                self._drop(number)

    def _release_memory(self, segments: Sequence[SegmentRecord]) -> None:
        """Return memory to the system after large commits: Arrow would keep what they needed."""
        self._written_bytes += sum(segment.size for segment in segments)
        if self._written_bytes > _RELEASED_BYTES:
            self._written_bytes = 0
            pa.default_memory_pool().release_unused()

    def compact(self) -> None:
        """Merge files of the tables where that is due. Errors of the store are logged."""
        # What a commit adds at the same time may be lost: the next one adds it again.
        grown, self._grown = self._grown, frozenset()
        self._store.jobs.auto_compact(grown)

    def _drop(self, number: int) -> None:
        """Drop the table of a database. It stays, empty, if that is not possible."""
        try:
            self._store.drop_table(table_name(number), if_exists=True)
        except Exception as error:  # the batch is committed: an error would repeat it
            _logger.warning("the table of database %d cannot be dropped: %s", number, error)
        else:
            del self._tables[number]

    def readers(self, number: int) -> list[str]:
        """Return the names of the views that read the table of a database."""
        state = self._store.state
        if table_name(number) not in state.table_names():
            return []
        table_id = state.table(table_name(number)).definition.table_id
        return [state.title_of(view) for view in state.views_reading(table_id)]


def table_name(number: int) -> str:
    """Return the name of the table of a database."""
    return f"redis_{number}"


def create_table(store: Store, number: int) -> None:
    """Create the table of a database, unless it is there; one without time series gets them."""
    store.create_table(
        table_name(number),
        f"{_COLUMNS}, {_SERIES}",
        primary_key=["key"],
        encoding="document",
        if_not_exists=True,
    )
    columns = store.table(table_name(number)).schema.visible_columns
    if [column.name for column in columns] == ["key", "type", "expiry", *list(TYPES)[:-1]]:
        store.add_columns(table_name(number), _SERIES)
