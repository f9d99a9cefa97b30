"""A whole table as a feed: every row at one epoch as an insert of that epoch.

What follows a table from some epoch on begins with it.
Does not know: what comes after.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ..environment import Environment
from ..read_plan import ReadPlan
from .columns import INSERT, feed_batch, feed_fields, feed_schema, stored_columns
from .reader import expiring


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
        """Return the vnodes of each of ``count`` parallel units (at most one a vnode)."""
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


def snapshot_of(plan: ReadPlan, time: int, columns: Sequence[str] | None = None) -> FeedSnapshot:
    """Return the rows of a plan as a feed; ``columns`` of the feed, by default all.

    OptionError for a table with a TTL, the errors of `feed_fields`.
    """
    if plan.definition.properties.ttl is not None:
        raise expiring(plan.definition.name)
    schema = plan.definition.schema
    names = tuple(field.name for field in feed_fields(schema, columns))
    stored = tuple(column.name for column in stored_columns(schema, names))
    return FeedSnapshot(replace(plan, columns=stored), time, names)
