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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from relstate.storage import (
    Entry,
    Environment,
    Kind,
    Proposal,
    ReadPlan,
    Reads,
    Row,
    SegmentRecord,
    Store,
    Table,
    TableWriter,
    encoding_of,
    errors,
)

from .values import (
    KINDS,
    HashValue,
    ListValue,
    Parts,
    SeriesEntry,
    SeriesValue,
    SetValue,
    SortedSetValue,
    StringValue,
    Value,
)

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
_COLUMN_OF = {
    "string": "value",
    "hash": "fields",
    "set": "members",
    "zset": "scores",
    "list": "items",
    "timeseries": "series",
}
_EXPIRY = pa.timestamp("us", "UTC")
_TYPES = {
    "value": pa.binary(),
    "fields": pa.map_(pa.binary(), pa.binary()),
    "members": pa.map_(pa.binary(), pa.bool_()),
    "scores": pa.map_(pa.binary(), pa.float64()),
    "items": pa.map_(pa.int64(), pa.binary()),
    "series": pa.map_(pa.int64(), pa.struct({"value": pa.binary(), "expiry": _EXPIRY})),
}
_MILLISECOND = 1000
# After so many bytes of segments memory is released, which takes about a millisecond.
_RELEASED_BYTES = 8 << 20


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
                yield key, None if expiry is None else expiry // _MILLISECOND


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
        if names != ["key", "type", "expiry", *_TYPES]:
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
        value = None if row is None else _value_of(row)
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
                    _write(writer, changes)
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
    if [column.name for column in columns] == ["key", "type", "expiry", *list(_TYPES)[:-1]]:
        store.add_columns(table_name(number), _SERIES)


def _value_of(row: Row) -> Value:
    """Return what the row of a key holds. A type that is unknown counts as an empty string."""
    _, kind, expiry, value, fields, members, scores, items, series = row
    result: Value
    match kind:
        case "hash":
            result = HashValue(_parts_of(fields))
        case "set":
            result = SetValue(_parts_of(members))
        case "zset":
            result = SortedSetValue(_parts_of(scores))
        case "list":
            result = ListValue.of_parts(_parts_of(items))
        case "timeseries":
            return SeriesValue(_entries_of(series))
        case _:
            result = StringValue(value or b"")
    if expiry is not None:
        result.expiry = _milliseconds(expiry)
    return result


def _parts_of(pairs: Mapping[Any, Any] | Iterable[tuple[Any, Any]] | None) -> dict[Any, Any]:
    """Return the parts of a collection; NULL, which another writer may leave, is not there."""
    return {name: part for name, part in dict(pairs or ()).items() if part is not None}


def _entries_of(
    pairs: Mapping[int, Any] | Iterable[tuple[int, Any]] | None,
) -> dict[int, SeriesEntry]:
    """Return the entries of a time series; one without a value is not there."""
    return {
        timestamp: (
            entry["value"],
            None if entry["expiry"] is None else _milliseconds(entry["expiry"]),
        )
        for timestamp, entry in _parts_of(pairs).items()
        if entry["value"] is not None
    }


def _milliseconds(moment: Any) -> int:
    """Return a time as milliseconds since 1970."""
    return int(pa.scalar(moment, _EXPIRY).value) // _MILLISECOND


def _write(writer: TableWriter, changes: DatabaseChanges) -> None:
    """Write the changes of one database."""
    if changes.deleted:
        batch = pa.record_batch({"key": pa.array(changes.deleted, pa.binary())})
        writer.write(batch, np.full(len(changes.deleted), Kind.DELETE, np.uint8))
    for kind in KINDS:
        values = [value for value in changes.values if value[1] == kind]
        if values:
            keys, kinds, expiries, contents = zip(*values, strict=True)
            column = _COLUMN_OF[kind]
            batch = pa.record_batch(
                {
                    "key": pa.array(keys, pa.binary()),
                    "type": pa.array(kinds, pa.string()),
                    "expiry": _expiry_array(expiries),
                    column: _content_array(column, contents),
                }
            )
            writer.write(batch)
    if changes.expiries:
        keys, expiries = zip(*changes.expiries, strict=True)
        writer.patch(
            pa.record_batch({"key": pa.array(keys, pa.binary()), "expiry": _expiry_array(expiries)})
        )
    for kind, rows in changes.parts.items():
        keys, parts = zip(*rows, strict=True)
        column = _COLUMN_OF[kind]
        writer.patch(
            pa.record_batch(
                {"key": pa.array(keys, pa.binary()), column: _content_array(column, parts)}
            )
        )


def content_array(kind: str, contents: Sequence[Any]) -> pa.Array:
    """Return contents of values of a type as the table's column of the type has them."""
    return _content_array(_COLUMN_OF[kind], contents)


def content_values(kind: str, column: pa.Array) -> list[Any]:
    """Return what `content_array` made an array of: bytes, or the parts by their names.

    KeyError if there is no such type; TypeError if the array has another one.
    """
    if column.type != _TYPES[_COLUMN_OF[kind]]:
        raise TypeError(f"{column.type} for {kind}")
    values: list[Any] = column.to_pylist()
    if kind == StringValue.kind:
        return values
    parts_of = _entries_of if kind == SeriesValue.kind else _parts_of
    return [parts_of(value) for value in values]


def _content_array(column: str, contents: Sequence[Any]) -> pa.Array:
    """Return what is written to the column of a type."""
    if column == "series":
        contents = [
            [(timestamp, _stored_entry(entry)) for timestamp, entry in parts] for parts in contents
        ]
    return pa.array(contents, _TYPES[column])


def _stored_entry(entry: SeriesEntry | None) -> dict[str, Any] | None:
    if entry is None:
        return None
    data, expiry = entry
    return {"value": data, "expiry": None if expiry is None else expiry * _MILLISECOND}


def _expiry_array(expiries: Sequence[int | None]) -> pa.Array:
    micros = [None if expiry is None else expiry * _MILLISECOND for expiry in expiries]
    return pa.array(micros, pa.int64()).cast(_EXPIRY)
