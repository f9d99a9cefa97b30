"""What a task needs to read a feed: values that travel to it.

Promises: a plan names the state before its range and the segments that its commits added, so that
all tasks see the same changes, whatever is committed meanwhile, and none reads the log.
Does not know: how the commits are found (planning.py), or who sends a plan where.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ..environment import Environment
from ..environment_choice import environment_of
from ..log.sequenced_segment import SequencedSegment
from ..log.table_definition import TableDefinition
from ..read_plan import ReadPlan
from ..schema.arrow import arrow_field
from ..table.header import EXPIRY
from .columns import INSERT, feed_batch, feed_schema
from .feed_reader import FeedReader, FeedShape
from .source import FeedStep

# About so many stored bytes are in memory at once.
_CHUNK_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class FeedPlan:
    """The changes of one table in the epochs ``first_epoch`` to ``last_epoch``. Picklable.

    ``before``: the table as it was before the first step, under its definition at the last epoch,
    so that all rows have one schema. ``steps``: the commits that changed it, ascending.
    ``expiring``: the segments before the steps in which something may expire by the last of them.
    """

    before: ReadPlan
    first_epoch: int
    last_epoch: int
    steps: tuple[FeedStep, ...]
    shape: FeedShape
    expiring: tuple[SequencedSegment, ...] = ()

    @property
    def definition(self) -> TableDefinition:
        """The table's definition at the last epoch."""
        return self.before.definition

    @property
    def stored_bytes(self) -> int:
        """The stored bytes of the entries that a read examines."""
        return sum(plan.stored_bytes for plan in self._examined())

    @property
    def stored_rows(self) -> int:
        """How many entries a read examines."""
        return sum(plan.stored_rows for plan in self._examined())

    def _examined(self) -> Iterator[ReadPlan]:
        """Yield the table over only the segments whose entries a read examines, in parts."""
        written = tuple(segment for step in self.steps for segment in step.segments)
        yield replace(self.before, segments=written)
        if any(step.is_based for step in self.steps):
            yield self.before
        elif self.shape.follows_expiry:
            yield replace(self.before, segments=self.expiring)

    def partitions(self, count: int) -> tuple[tuple[range, ...], ...]:
        """Return the vnodes of each of ``count`` parallel units (at most one per vnode)."""
        return self.before.partitions(count)

    def arrow_schema(self) -> pa.Schema:
        """Return the Arrow schema of the batches that `read` yields."""
        schema = feed_schema(self.definition.schema, self.shape.columns)
        return schema.append(arrow_field(EXPIRY.field)) if self.shape.shows_expiry else schema

    def read(
        self, vnodes: Sequence[range] | None = None, environment: Environment | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the changes of the rows in some vnodes, by default all, as batches.

        Changes of one key come in the order of their epochs, the images of an update one after the
        other; there is no other order.
        """
        if not self.steps:
            return
        environment = environment or environment_of(self.before.path)
        reader = FeedReader(environment, self.before, self.steps, self.shape, self.expiring)
        if vnodes is None:
            vnodes = [range(self.before.vnode_count)]
        for chunk in self._chunks(vnodes):
            yield from reader.batches(chunk)

    def _chunks(self, groups: Sequence[range]) -> Iterator[range]:
        """Yield ranges of vnodes, each with about as many bytes as may be in memory at once."""
        size = max(_CHUNK_BYTES * self.before.vnode_count // max(self.stored_bytes, 1), 1)
        for group in groups:
            for start in range(group.start, group.stop, size):
                yield range(start, min(start + size, group.stop))


@dataclass(frozen=True, slots=True)
class FeedSnapshot:
    """The rows of ``plan`` as inserts at its epoch, committed at ``time``. Picklable.

    ``time``: microseconds since 1970. ``columns``: of the feed, in order.
    """

    plan: ReadPlan
    time: int
    columns: tuple[str, ...]

    @property
    def stored_bytes(self) -> int:
        """The stored bytes of the table's rows, of older versions too."""
        return self.plan.stored_bytes

    def partitions(self, count: int) -> tuple[tuple[range, ...], ...]:
        """Return the vnodes of each of ``count`` parallel units (at most one per vnode)."""
        return self.plan.partitions(count)

    def arrow_schema(self) -> pa.Schema:
        """Return the Arrow schema of the batches that `read` yields."""
        return feed_schema(self.plan.definition.schema, self.columns)

    def read(
        self, vnodes: Sequence[range] | None = None, environment: Environment | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in some vnodes, by default all, as batches."""
        schema = self.arrow_schema()
        for rows in self.plan.open(environment).scan(self.plan.columns, vnodes=vnodes):
            count = rows.num_rows
            types = np.full(count, INSERT, np.int8)
            epochs = np.full(count, self.plan.epoch, np.int64)
            yield feed_batch(schema, rows, types, epochs, np.full(count, self.time, np.int64))
