"""Small stores for tests of the log: tables, published segments, proposals."""

from __future__ import annotations

from pathlib import Path

import xxhash

from relstate.storage.entry import SegmentRecord, Settings, TableStatistics, Transaction
from relstate.storage.environment import Environment
from relstate.storage.log import Log
from relstate.storage.paths import segment_path
from relstate.storage.schema import TableSchema
from relstate.storage.state import StoreState
from relstate.storage.transaction import Committed, NewTable, Proposal, commit
from relstate.storage.types import BigInt, Field, String

SETTINGS = Settings(store_id="5e" * 16, vnode_count=256, shards=16, retention=86_400)
SCHEMA = TableSchema.build(
    [Field("id", BigInt(), nullable=False), Field("name", String())], ["id"], None
)
TABLE = 1


def new_store(environment: Environment, *tables: str) -> tuple[Log, StoreState]:
    """Create a store with tables, ids from 1, each in an epoch of its own from 2."""
    log = Log(environment)
    state = log.create(SETTINGS)
    for name in tables:
        state = committed(log, state, creation(environment, name))
    return log, state


def committed(log: Log, state: StoreState, proposal: Proposal) -> StoreState:
    """Commit a proposal, which must not be skipped, and return the state after it."""
    outcome = commit(log, state, proposal)
    assert isinstance(outcome, Committed)
    return outcome.state


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


def published(environment: Environment, *table_ids: int) -> SegmentRecord:
    """Write a file under a random segment name, make its content durable, return its record."""
    name = f"{environment.random_id()}-0"
    content = f"a segment of tables {table_ids}, named {name}".encode()
    Path(environment.local_path(segment_path(name))).write_bytes(content)
    environment.publish(segment_path(name))
    return record(name, *table_ids, content=content)


def record(name: str, *table_ids: int, content: bytes = b"") -> SegmentRecord:
    """Return the record of a segment that holds a row of each table."""
    return SegmentRecord(
        name,
        len(content),
        xxhash.xxh3_64_hexdigest(content),
        "placeholder",
        tuple(TableStatistics(one, 1, 0, b"\x00a", b"\xffz", (0, 9)) for one in table_ids),
    )
