"""Small stores for tests of the log: tables, published segments, proposals."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
import xxhash

from relstate.storage.clock import Clock
from relstate.storage.disk import Content, Disk
from relstate.storage.environment import Environment
from relstate.storage.errors import RelstateError
from relstate.storage.local_environment import LocalEnvironment
from relstate.storage.log.entry import Entry, Settings, Transaction
from relstate.storage.log.history import EntryCache
from relstate.storage.log.log import Log
from relstate.storage.log.proposal import NewTable, Proposal
from relstate.storage.log.segment_record import SegmentRecord, TableStatistics
from relstate.storage.log.state import StoreState
from relstate.storage.log.store_creation import create_store
from relstate.storage.log.transaction import commit
from relstate.storage.paths import segment_path
from relstate.storage.schema.schema import TableSchema
from relstate.storage.schema.types import BigInt, Field, String
from relstate.storage.store import Store

SETTINGS = Settings(store_id="5e" * 16, vnode_count=256, shards=16, retention=86_400)
SCHEMA = TableSchema.build(
    [Field("id", BigInt(), nullable=False), Field("name", String())], ["id"], None
)
TABLE = 1


class UnsyncedDisk(Disk):
    """A disk that no test waits for: it syncs nothing."""

    def __init__(self, clock: Clock | None = None) -> None:
        """``clock``: that of the file system, by default the system's own."""
        self._clock = clock

    def write(self, path: str, parts: Iterable[Content]) -> int:
        """Create a file, at the clock's time."""
        time = super().write(path, parts)
        return time if self._clock is None else self._clock.now()

    def sync(self, path: str) -> None:
        """Do nothing but find the path, as a sync would."""
        os.stat(path)

    def sync_all(self, paths: Sequence[str]) -> None:
        """Do nothing but find the paths, in no thread."""
        for path in paths:
            self.sync(path)


def quick_environment(root: str | os.PathLike[str], clock: Clock | None = None) -> LocalEnvironment:
    """Return an environment for stores that need not survive this machine."""
    return LocalEnvironment(os.fspath(root), UnsyncedDisk(clock), clock)


def new_store(environment: Environment, *tables: str) -> tuple[Log, StoreState]:
    """Create a store with tables, ids from 1, each in an epoch of its own from 2."""
    log = Log(environment)
    state = create_store(log, SETTINGS)
    for name in tables:
        state = committed(log, state, creation(environment, name))
    return log, state


def committed(log: Log, state: StoreState, proposal: Proposal) -> StoreState:
    """Commit a proposal, which must not be skipped, and return the state after it."""
    outcome = commit(log, state, proposal)
    assert outcome.committed
    return outcome.state


def commit_when_asked(root: str, pipe: Connection) -> None:
    """Commit an epoch for each true value that a pipe gives, and answer with its number."""
    store = Store.open(root)
    while pipe.recv():
        table = store.create_table("t", "id BIGINT NOT NULL", primary_key=["id"], or_replace=True)
        assert table.get(1) is None
        pipe.send(store.epoch)


def entries_on_disk(environment: Environment, first: int, last: int) -> list[Entry]:
    """Return the entries of some epochs, read from the files whatever this process has read."""
    log = Log(environment, EntryCache())
    return list(log.history.entries(log.load(), first, last))


def advanced(log: Log, state: StoreState, epoch: int) -> StoreState:
    """Commit truncations of table 1 until the store is at an epoch."""
    while state.epoch < epoch:
        state = committed(log, state, truncation(log.environment))
    return state


def creation(environment: Environment, name: str) -> Proposal:
    """Propose a table."""
    return Proposal(
        operation="create table",
        started=environment.now(),
        data_change=False,
        created_tables=(NewTable(name, SCHEMA),),
    )


def truncation(environment: Environment, table_id: int = TABLE) -> Proposal:
    """Propose to empty a table: the smallest commit there is."""
    return Proposal(operation="truncate", started=environment.now(), based_tables=(table_id,))


def upsert(
    environment: Environment, *table_ids: int, transaction: Transaction | None = None
) -> Proposal:
    """Propose one new, published segment that holds a row of each table (default: table 1)."""
    return Proposal(
        operation="write",
        started=environment.now(),
        segments=(published(environment, *(table_ids or (TABLE,))),),
        transactions=() if transaction is None else (transaction,),
    )


def refused(
    log: Log, state: StoreState, proposal: Proposal, error: type[RelstateError], words: str
) -> None:
    """Check that a proposal is refused with these words, and that nothing was committed."""
    newest = log.refresh(state)
    with pytest.raises(error, match=words):
        commit(log, state, proposal)
    assert Log(log.environment).load() == newest


def published(environment: Environment, *table_ids: int) -> SegmentRecord:
    """Write a file under a random segment name, make its content durable, return its record."""
    name = f"{environment.random_id()}-0"
    content = f"a segment of tables {table_ids}, named {name}".encode()
    Path(environment.local_path(segment_path(name))).write_bytes(content)
    environment.publish(segment_path(name))
    return record(name, *table_ids, content=content)


def record(name: str, *table_ids: int, content: bytes = b"") -> SegmentRecord:
    """Return the record of a segment that holds a row of each table, in the second shard."""
    shard_bytes = (0, 9, *[0] * (SETTINGS.shards - 2))
    return SegmentRecord(
        name,
        len(content),
        xxhash.xxh3_64_hexdigest(content),
        tuple(
            TableStatistics(table_id, 1, 0, b"\x00a", b"\xffz", shard_bytes, b"", b"\xff")
            for table_id in table_ids
        ),
    )


def commit_many(root: str, writer: str, count: int, start: Barrier) -> None:
    """Commit batches 0 to ``count - 1`` of a writer to table 1: the work of one process."""
    environment = quick_environment(root)
    log = Log(environment)
    state = log.load()
    start.wait()
    for batch in range(count):
        transaction = Transaction(writer, TABLE, batch, "run")
        state = committed(log, state, upsert(environment, transaction=transaction))
