"""A store: one directory with a commit log and segments, and the tables in it.

Promises: opening it costs the same however many epochs it has; every change is one epoch, all or
nothing; two stores, or one store twice, can be open in one process.
Does not know: Spark. It only composes what the other files do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa

from relstate.vnode import DEFAULT_SHARDS, DEFAULT_VNODE_COUNT, MAX_VNODE_COUNT

from .check import Report, check
from .codec.ragged import Bytes
from .environment import Environment, LocalEnvironment
from .errors import (
    ClosedError,
    OptionError,
    StoreExistsError,
    TableExistsError,
    TableNotFoundError,
)
from .log.entry import Entry, SegmentRecord, Settings, TableDefinition, check_table_name
from .log.log import Log
from .log.state import PlacedSegment, StoreState
from .log.time import micros_of
from .log.transaction import Committed, NewTable, Proposal, Reads, Skipped, commit
from .paths import SEGMENTS
from .plan import ReadPlan, WriteTarget
from .schema.arrow import fields_of
from .schema.ddl import parse_columns
from .schema.schema import TableSchema
from .segment.registry import registry
from .segment.writer import SegmentWriter
from .table.encoding import RowEncoding
from .table.statetable import StateTable
from .table.storagetable import StorageTable
from .table.table import Table

DEFAULT_RETENTION = 24 * 3600


class Store:
    """An open store. Safe between threads; each process opens its own."""

    def __init__(self, environment: Environment, log: Log, state: StoreState) -> None:
        """Wrap an opened log; use `create` or `open`."""
        self.environment = environment
        self._log = log
        self._state = state
        self._closed = False

    @classmethod
    def create(
        cls,
        path: str,
        *,
        vnode_count: int = DEFAULT_VNODE_COUNT,
        shards: int | None = None,
        retention: int = DEFAULT_RETENTION,
        exist_ok: bool = False,
        environment: Environment | None = None,
    ) -> Store:
        """Make an empty store at ``path`` and open it.

        ``vnode_count``: 1 to 32768, fixed for ever. ``shards``: ranges of vnodes, 16 by default.
        ``retention``: seconds for which older epochs stay readable. ``exist_ok``: open a store
        that is there already, whatever its settings. OptionError, StoreExistsError, NotAStoreError.
        """
        shards = min(DEFAULT_SHARDS, vnode_count) if shards is None else shards
        _check_settings(vnode_count, shards, retention)
        environment = environment or LocalEnvironment(path)
        log = Log(environment)
        settings = Settings(environment.random_id(), vnode_count, shards, retention)
        try:
            return cls(environment, log, log.create(settings))
        except StoreExistsError:
            if not exist_ok:
                raise
            return cls(environment, log, log.load())

    @classmethod
    def open(cls, path: str, *, environment: Environment | None = None) -> Store:
        """Open the store at ``path``. StoreNotFoundError, NotAStoreError, CorruptionError."""
        environment = environment or LocalEnvironment(path)
        log = Log(environment)
        return cls(environment, log, log.load())

    def close(self) -> None:
        """Let go of the files; what is read or committed later raises ClosedError.

        A state table or a scan that is under way still reads what it has open.
        """
        self._closed = True
        registry.close(self.environment.local_path(SEGMENTS))

    def check_open(self) -> None:
        """Raise ClosedError if the store was closed."""
        if self._closed:
            raise ClosedError(f"{self.path}: this store was closed; open it again")

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Store({self.path!r})"

    # What it is

    @property
    def path(self) -> str:
        """The store's folder."""
        return self.environment.location("")

    @property
    def settings(self) -> Settings:
        """What was fixed when the store was created."""
        return self._state.settings

    @property
    def state(self) -> StoreState:
        """The store at its latest epoch, looked up now."""
        self.check_open()
        state = self._state
        newest = self._log.refresh(state)
        if newest is not state:
            self._state = newest
        return newest

    @property
    def epoch(self) -> int:
        """The latest committed epoch."""
        return self.state.epoch

    def tables(self) -> tuple[str, ...]:
        """Return the names of the tables, sorted."""
        return self.state.table_names()

    # Tables

    def create_table(
        self,
        name: str,
        columns: str | pa.Schema,
        *,
        primary_key: Sequence[str],
        distribution_key: Sequence[str] | None = None,
        if_not_exists: bool = False,
    ) -> Table:
        """Create a table and return it.

        ``columns``: Spark DDL (``"id BIGINT, amount DECIMAL(12,2)"``) or an Arrow schema.
        ``primary_key``: names, each with an order where wanted (``"amount desc"``).
        ``distribution_key``: those of its columns that are hashed to the vnode, by default all.
        TableNameError, SchemaError, UnsupportedTypeError, TableExistsError.
        """
        check_table_name(name)
        fields = parse_columns(columns) if isinstance(columns, str) else fields_of(columns)
        schema = TableSchema.build(fields, primary_key, distribution_key)
        # Finds a type that cannot be stored before there is a table with it.
        RowEncoding(TableDefinition(0, name, schema, 0), vnode_count=1)
        try:
            self._propose("create table", created_tables=(NewTable(name, schema),))
        except TableExistsError:
            if not if_not_exists:
                raise
        return self.table(name)

    def drop_table(self, name: str, *, if_exists: bool = False) -> None:
        """Drop a table; older epochs still have it. TableNotFoundError unless ``if_exists``."""
        try:
            dropped = self.state.table(name).definition.table_id
            self._propose("drop table", dropped_tables=(dropped,))
        except TableNotFoundError:
            if not if_exists:
                raise

    def truncate(self, name: str) -> int:
        """Remove all rows of a table as one epoch and return it; later upserts land after it."""
        based = self.state.table(name).definition.table_id
        return self._propose("truncate", based_tables=(based,)).epoch

    def table(self, name: str) -> Table:
        """Return a table that follows the latest epoch. TableNotFoundError."""
        reader = _LatestReader(self, name)
        reader()
        return Table(name, reader)

    # The past

    def at(self, epoch: int) -> Snapshot:
        """Return the store as of an epoch. EpochNotFoundError, EpochExpiredError."""
        return Snapshot(self, self.state_at(epoch))

    def state_at(self, epoch: int) -> StoreState:
        """Return the store's state as of an epoch. EpochNotFoundError, EpochExpiredError."""
        return self._log.state_at(self.state, epoch)

    def epoch_at(self, time: datetime) -> int:
        """Return the newest epoch committed at or before a time, which has a time zone.

        EpochNotFoundError if the store is younger, EpochExpiredError if the epoch is not kept,
        OptionError for a time without a zone.
        """
        if time.tzinfo is None:
            raise OptionError(f"{time.isoformat()} has no time zone, so it is no moment; add one")
        return self._log.epoch_at(self.state, micros_of(time))

    def history(self) -> Iterator[Entry]:
        """Yield what every commit said, the newest first."""
        return self._log.history(self.state)

    def state_table(
        self, name: str, *, strict: bool = False, vnodes: Sequence[range] | None = None
    ) -> StateTable:
        """Return a table as a streaming executor uses it: see `StateTable`."""
        definition = self.state.table(name).definition
        encoding = RowEncoding(definition, self.settings.vnode_count)
        reader = _LatestReader(self, name)

        def commit_changes(
            flush: Callable[[], tuple[SegmentRecord, ...]], relied_on: Bytes | None
        ) -> int:
            started = self.environment.now()
            reads = None
            if relied_on is not None:
                reads = Reads(reader.epoch, partial(_changes_any, self, encoding, relied_on))
            proposal = Proposal(operation="write", started=started, segments=flush(), reads=reads)
            return self.commit(proposal).epoch

        return StateTable(
            encoding,
            reader,
            commit_changes,
            self.segment_writer,
            vnodes=vnodes,
            strict=strict,
        )

    # Reading and writing elsewhere

    def read_plan(
        self, name: str, *, epoch: int | None = None, columns: Sequence[str] | None = None
    ) -> ReadPlan:
        """Return what other processes need to read a table at an epoch, by default the latest.

        TableNotFoundError, SchemaError for an unknown column, the errors of `at`.
        """
        state = self.state if epoch is None else self.state_at(epoch)
        time = self._now(state) if epoch is None or epoch == self._state.epoch else state.time
        return _plan(self, state, time, name, columns)

    def _now(self, state: StoreState) -> int:
        """Return the time by which a read of the latest epoch judges what has expired."""
        return max(self.environment.now(), state.time)

    def write_target(self, name: str) -> WriteTarget:
        """Return what other processes need to write rows of a table."""
        state = self.state
        settings = state.settings
        definition = state.table(name).definition
        return WriteTarget(self.path, definition, settings.vnode_count, settings.shards)

    def segment_writer(self) -> SegmentWriter:
        """Return a writer of segments for this store."""
        return SegmentWriter(self.environment, self.settings.vnode_count, self.settings.shards)

    def commit(self, proposal: Proposal) -> Committed | Skipped:
        """Commit a proposal: see `transaction.commit`."""
        done = commit(self._log, self.state, proposal)
        self._state = done.state
        return done

    def check(self, progress: Callable[[int, int], None] | None = None) -> Report:
        """Verify everything: see `check`; ``progress`` takes the segments done, and how many."""
        return check(self.environment, self._log, self.state, progress)

    def _propose(self, operation: str, **parts: Any) -> Committed | Skipped:
        started = self.environment.now()
        return self.commit(Proposal(operation=operation, started=started, **parts))


class Snapshot:
    """A store as of one epoch. Safe between threads."""

    def __init__(self, store: Store, state: StoreState) -> None:
        """``state``: the store's at that epoch."""
        self._store = store
        self.state = state

    @property
    def epoch(self) -> int:
        """The epoch."""
        return self.state.epoch

    def tables(self) -> tuple[str, ...]:
        """Return the names of the tables there were, sorted."""
        return self.state.table_names()

    def table(self, name: str) -> Table:
        """Return a table as it was. TableNotFoundError if there was none of this name."""
        plan = _plan(self._store, self.state, self.state.time, name, None)
        reader = plan.open(self._store.environment)

        def open_reader() -> StorageTable:
            self._store.check_open()
            return reader

        return Table(name, open_reader)


class _LatestReader:
    """Gives the reader of a table at the latest epoch, the same one while that stays so."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._name = name
        self._found: tuple[StoreState, StorageTable] | None = None

    @property
    def epoch(self) -> int:
        """The epoch of the reader that was given last."""
        assert self._found is not None
        return self._found[0].epoch

    def __call__(self) -> StorageTable:
        state = self._store.state
        found = self._found
        if found is not None and found[0] is state:
            return found[1]
        plan = _plan(self._store, state, self._store.environment.now(), self._name, None)
        reader = None if found is None else found[1]
        if reader is None or not reader.reads(plan.definition, plan.segments):
            reader = plan.open(self._store.environment, self._store.environment.now)
        self._found = (state, reader)
        return reader


def _plan(
    store: Store, state: StoreState, time: int, name: str, columns: Sequence[str] | None
) -> ReadPlan:
    definition = state.table(name).definition
    schema = definition.schema
    names = None if columns is None else tuple(schema.column(column).name for column in columns)
    return ReadPlan(
        store.path,
        definition,
        state.settings.vnode_count,
        state.epoch,
        state.segments_of(definition.table_id),
        time,
        names,
    )


def _changes_any(store: Store, encoding: RowEncoding, full_keys: Bytes, entry: Entry) -> bool:
    """Return whether a commit changed a table's row under one of some keys, or all its rows."""
    table_id = encoding.table_id
    placed = [
        PlacedSegment(record, entry.epoch, rank)
        for rank, record in enumerate(entry.added)
        if record.rows(table_id)
    ]
    if table_id in entry.based_tables:
        return True
    changed = StorageTable(store.environment, encoding, placed, lambda: 0)
    return len(changed.get_values(full_keys)) > 0


def _check_settings(vnode_count: int, shards: int, retention: int) -> None:
    if not 1 <= vnode_count <= MAX_VNODE_COUNT:
        raise OptionError(f"vnode_count must be 1 to {MAX_VNODE_COUNT}, not {vnode_count}")
    if not 1 <= shards <= vnode_count:
        raise OptionError(f"shards must be 1 to vnode_count ({vnode_count}), not {shards}")
    if retention < 0:
        raise OptionError(f"retention is in seconds and cannot be negative: {retention}")
