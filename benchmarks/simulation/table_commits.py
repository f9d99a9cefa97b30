"""Commits to a store with one table, and the merges that follow them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from relstate.storage.errors import ConflictError
from relstate.storage.log.entry import Settings
from relstate.storage.log.history import EntryCache
from relstate.storage.log.live_segments import LiveSegments
from relstate.storage.log.log import Log
from relstate.storage.log.proposal import NewTable, Proposal
from relstate.storage.log.sequenced_segment import SequencedSegment
from relstate.storage.log.state import StoreState
from relstate.storage.log.store_creation import create_store
from relstate.storage.log.transaction import commit
from relstate.storage.maintenance.components import output_sequence_number, recent_components
from relstate.storage.maintenance.policy import FEW, automatic
from relstate.storage.schema.schema import TableSchema
from relstate.storage.schema.types import BigInt, Field, String
from relstate.storage.segment.writer import SEGMENT_BYTES

from .bucket import SimulatedBucket
from .segments import KEYS, SHARDS, TABLE, VNODES, cut, record, spread, unsorted

_SCHEMA = TableSchema.build(
    [Field("id", BigInt(), nullable=False), Field("name", String())], ["id"], None
)


def new_store(environment: SimulatedBucket) -> tuple[Log, StoreState]:
    """Create a store with one table."""
    log = Log(environment, EntryCache())
    state = create_store(log, Settings("5e" * 16, VNODES, SHARDS, 86_400))
    table = NewTable("t", _SCHEMA)
    creation = Proposal(
        operation="create table",
        started=environment.now(),
        data_change=False,
        created_tables=(table,),
    )
    return log, commit(log, state, creation).state


def with_data(environment: SimulatedBucket, state: StoreState, size: int) -> StoreState:
    """Return a state whose table is compacted and has so many bytes."""
    segments = []
    count, vnodes = -(-size // SHARDS // SEGMENT_BYTES), VNODES // SHARDS
    for shard, job in enumerate([environment.random_id() for _ in range(SHARDS)]):
        sizes = [0] * SHARDS
        sizes[shard] = size // SHARDS // count
        # Sorted by vnode and key, as a compaction writes them.
        ends = [divmod(number * vnodes * KEYS // count, KEYS) for number in range(count + 1)]
        for number, (first, last) in enumerate(pairwise(ends)):
            start = shard * vnodes
            made = record(
                f"{job}-{number:06d}",
                sizes,
                (start + first[0], first[1]),
                (start + last[0], last[1] - 1) if last[1] else (start + last[0] - 1, KEYS - 1),
            )
            segments.append(SequencedSegment(made, state.epoch, 0))
    return replace(state, segments=LiveSegments.of(segments))


def write(environment: SimulatedBucket, log: Log, state: StoreState, size: int) -> StoreState:
    """Put a segment, and commit it."""
    started = environment.now()
    made = unsorted(environment, spread(size))
    environment.put_segment(made.name, made.size)
    proposal = Proposal(operation="write", started=started, segments=(made,))
    return commit(log, state, proposal).state


def merge(environment: SimulatedBucket, log: Log, state: StoreState) -> tuple[StoreState, int]:
    """Do what a commit does after it: merge few files if that is due; return the bytes written.

    All rows are new, so that what a merge writes is as large as what it reads.
    """
    if state.segments.count_of(TABLE) <= FEW:
        return state, 0
    (component,) = recent_components(state, {TABLE})
    written, removed = [], []
    for chosen in automatic(component):
        sizes = [0] * SHARDS
        inputs = [state.segments.find(file.name, file.shards) for file in chosen.inputs]
        for segment in inputs:
            for shard, size in enumerate(segment.record.tables[0].shard_bytes):
                sizes[shard] += size
        parts = list(cut(sizes)) if chosen.by_shard else [sizes]
        number = output_sequence_number(chosen.inputs)
        written += [replace(unsorted(environment, part), sequence_number=number) for part in parts]
        removed += inputs
    if not removed:
        return state, 0
    for made in written:
        environment.put_segment(made.name, made.size)
    proposal = Proposal(
        operation="compact",
        started=environment.now(),
        data_change=False,
        segments=tuple(written),
        removed=tuple(removed),
    )
    try:
        return commit(log, state, proposal).state, sum(made.size for made in written)
    except ConflictError:
        return state, 0


@dataclass
class Writer:
    """Commits again and again, and notes how long each commit took."""

    environment: SimulatedBucket
    log: Log
    state: StoreState
    until: float
    waits: list[float]

    def __call__(self) -> None:
        """Work until the time is over."""
        while self.environment.clock.seconds < self.until:
            started = self.environment.clock.seconds
            self.state = write(self.environment, self.log, self.state, 100_000)
            self.waits.append(self.environment.clock.seconds - started)
            self.state, _ = merge(self.environment, self.log, self.state)
