"""What a task needs to read a feed: values that travel, and how they are found in the log.

Promises: a plan names the state before its range and the segments its commits added, so that all
tasks see the same changes, whatever is committed meanwhile, and none reads the log.
Does not know: who sends it where.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import pyarrow as pa

from ..environment import Environment, environment_of
from ..errors import EpochExpiredError, EpochNotFoundError, OptionError, TableNotFoundError
from ..log.entry import Entry, TableDefinition
from ..log.log import Log
from ..log.state import StoreState
from ..read_plan import ReadPlan
from .columns import feed_fields, feed_schema
from .reader import FeedReader, FeedShape, expiring
from .step import FeedStep, steps_of

Deduplication = Literal["dropCarryovers", "netChanges"]
"""Spark's names: every change of every commit, or of every key what all of them came to."""

DEDUPLICATIONS = ("dropCarryovers", "netChanges")

# About so many stored bytes are held at once.
_CHUNK_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class FeedPlan:
    """The changes of one table in the epochs ``first_epoch`` to ``last_epoch``. Picklable.

    ``before``: the table as it was before the first step, under its definition at the last epoch,
    so that all rows come under one schema. ``steps``: the commits that changed it, ascending.
    """

    before: ReadPlan
    first_epoch: int
    last_epoch: int
    steps: tuple[FeedStep, ...]
    shape: FeedShape

    @property
    def definition(self) -> TableDefinition:
        """The table's definition at the last epoch."""
        return self.before.definition

    @property
    def stored_bytes(self) -> int:
        """The stored bytes of the entries that are to be looked through."""
        return self._looked_through.stored_bytes

    @property
    def stored_rows(self) -> int:
        """How many entries are to be looked through."""
        return self._looked_through.stored_rows

    @property
    def _looked_through(self) -> ReadPlan:
        """The table, of only the segments whose entries are to be looked through."""
        segments = [placed for step in self.steps for placed in step.segments]
        if any(step.is_based for step in self.steps):
            segments += self.before.segments
        return replace(self.before, segments=tuple(segments))

    def partitions(self, count: int) -> tuple[tuple[range, ...], ...]:
        """Return the vnodes of each of ``count`` parallel units (at most one a vnode)."""
        return self.before.partitions(count)

    def arrow_schema(self) -> pa.Schema:
        """Return the Arrow schema of the batches that `read` yields."""
        return feed_schema(self.definition.schema, self.shape.columns)

    def read(
        self, vnodes: Sequence[range] | None = None, environment: Environment | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the changes of the rows in some vnodes, by default all, as batches.

        Changes of one key come in the order of their epochs, an update's images one behind the
        other; beyond that there is no order. OptionError if rows turn out to expire.
        """
        if not self.steps:
            return
        environment = environment or environment_of(self.before.path)
        reader = FeedReader(environment, self.before, self.steps, self.shape)
        for chunk in self._chunks(vnodes or [range(self.before.vnode_count)]):
            yield from reader.batches(chunk)

    def _chunks(self, groups: Sequence[range]) -> Iterator[range]:
        """Yield groups of vnodes, each with about as much as may be held at once."""
        size = max(_CHUNK_BYTES * self.before.vnode_count // max(self.stored_bytes, 1), 1)
        for group in groups:
            for start in range(group.start, group.stop, size):
                yield range(start, min(start + size, group.stop))


@dataclass(frozen=True, slots=True)
class FeedRequest:
    """What is asked for; ``last`` is None for the latest epoch, ``columns`` for all.

    ``pending``: a commit that is about to follow the latest epoch, and whose changes belong to the
    feed, which then ends at the latest epoch.
    """

    table: str
    first: int
    last: int | None = None
    deduplication: str = "dropCarryovers"
    update_images: bool = True
    columns: Sequence[str] | None = None
    pending: Entry | None = None


def plan_feed(log: Log, newest: StoreState, request: FeedRequest) -> FeedPlan:
    """Return the plan of a feed; ``newest`` tells what can be read.

    A range that ends right before it begins has no changes. EpochExpiredError,
    EpochNotFoundError, TableNotFoundError also if the table was dropped and made anew within the
    range, OptionError for a table with a TTL or a range that ends before it begins, the errors of
    `feed_fields`.
    """
    last = newest.epoch if request.last is None else request.last
    _check_range(newest, request.first, last)
    definition = log.state_at(newest, min(last, newest.epoch)).table(request.table).definition
    return _planned(log, newest, definition, request, last)


def _planned(
    log: Log, newest: StoreState, definition: TableDefinition, request: FeedRequest, last: int
) -> FeedPlan:
    fields = feed_fields(definition.schema, request.columns)
    _check_same_table(log, newest, definition, request.first)
    entries = list(log.entries(newest, request.first, last))
    if request.pending is not None:
        entries.append(request.pending)
    _check_expiry(definition, entries)
    steps = tuple(steps_of(entries, definition.table_id))
    if _may_forget(log, newest, definition, steps):
        steps = tuple(_with_bases(log, newest, definition.table_id, entries, steps))
    before = _before(log, newest, definition, steps)
    is_net = _is_net(request.deduplication)
    shape = FeedShape(is_net, request.update_images, tuple(field.name for field in fields))
    return FeedPlan(before, request.first, last, steps, shape)


def _before(
    log: Log, newest: StoreState, definition: TableDefinition, steps: Sequence[FeedStep]
) -> ReadPlan:
    """Return the table as it was before the first of some steps; empty if it was not there."""
    path, vnode_count = log.environment.location(""), newest.settings.vnode_count
    if not steps or steps[0].epoch <= definition.created_epoch:
        return ReadPlan(path, definition, vnode_count, definition.created_epoch, (), 0)
    state = log.state_at(newest, steps[0].epoch - 1)
    _check_expiry(state.tables[definition.table_id].definition)
    segments = state.segments_of(definition.table_id)
    return ReadPlan(path, definition, vnode_count, state.epoch, segments, state.time)


def _may_forget(
    log: Log, newest: StoreState, definition: TableDefinition, steps: Sequence[FeedStep]
) -> bool:
    """Tell whether upkeep may have dropped a delete by which later rows would not be applied."""
    properties = definition.properties
    if properties.version_column is None or not steps:
        return False
    (created,) = log.entries(newest, definition.created_epoch, definition.created_epoch)
    return steps[-1].time - created.time >= properties.tombstone_retention * 1_000_000


def _with_bases(
    log: Log,
    newest: StoreState,
    table_id: int,
    entries: Sequence[Entry],
    steps: Sequence[FeedStep],
) -> Iterator[FeedStep]:
    """Yield steps, those right behind upkeep with their basis."""
    upkeep = [entry.epoch for entry in entries if entry.removed]
    yield steps[0]
    for before, step in pairwise(steps):
        if step.is_based or not any(before.epoch < epoch < step.epoch for epoch in upkeep):
            yield step
        else:
            state = log.state_at(newest, step.epoch - 1)
            yield replace(step, basis=state.segments_of(table_id))


def _check_expiry(definition: TableDefinition, entries: Sequence[Entry] = ()) -> None:
    """OptionError if a table has a TTL, or had one after one of some commits."""
    altered = (one for entry in entries for one in entry.altered_tables)
    same = (one for one in altered if one.table_id == definition.table_id)
    if any(one.properties.ttl is not None for one in (definition, *same)):
        raise expiring(definition.name)


def data_epochs(
    log: Log, newest: StoreState, table_id: int, after: int, last: int
) -> Iterator[int]:
    """Yield the epochs behind ``after``, up to ``last``, that may have changed a table's rows."""
    table = newest.tables.get(table_id)
    if table is not None:
        last = min(last, table.data_epoch)
    return (step.epoch for step in steps_of(log.entries(newest, after + 1, last), table_id))


def _check_range(newest: StoreState, first: int, last: int) -> None:
    if first == last + 1:
        newest.check_epoch(last)
        return
    if first > newest.epoch or first < 1:
        raise EpochNotFoundError(
            f"there are no changes of an epoch {first}: the store is at epoch {newest.epoch}"
        )
    if last < first:
        raise OptionError(f"a change feed cannot end at epoch {last} when it begins at {first}")
    newest.check_epoch(last)
    # The rows as they were before are needed too.
    if newest.oldest_epoch > max(first - 1, 1):
        raise EpochExpiredError(
            f"the changes of epoch {first} are no longer kept: epoch {newest.oldest_epoch} is the "
            f"oldest that can be read, so changes begin at {newest.oldest_epoch + 1} (retention is "
            f"{newest.settings.retention} s): begin there, and read the table as of epoch "
            f"{newest.oldest_epoch} for what was before"
        )


def _check_same_table(
    log: Log, newest: StoreState, definition: TableDefinition, first: int
) -> None:
    """TableNotFoundError if an earlier table of the name was there in the range, too."""
    created, name = definition.created_epoch, definition.name.lower()
    if first >= created:
        return
    earlier = first > 1 and name in log.state_at(newest, first - 1).table_ids
    made = (
        table.name.lower() == name
        for entry in log.entries(newest, first, created - 1)
        for table in entry.created_tables
    )
    if earlier or any(made):
        raise TableNotFoundError(
            f"the table {definition.name!r} was dropped and created anew at epoch {created}, so it "
            f"has no changes since epoch {first}: begin at {created}, or end before"
        )


def _is_net(deduplication: str) -> bool:
    if deduplication not in DEDUPLICATIONS:
        raise OptionError(
            f"deduplication is {deduplication!r}; it must be one of {', '.join(DEDUPLICATIONS)}"
        )
    return deduplication == "netChanges"
