"""What a task needs to add up the rows of a table: a read plan, and an aggregate.

Promises: the partial rows of all partitions, added up, are the aggregate over the rows of the plan.
Does not know: who adds up partial rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from relstate.vnode import cached_property

from .aggregate.adding import GroupingLimits, partial_rows
from .aggregate.measure import Function
from .aggregate.partial import PartialAggregate
from .environment import Environment
from .read_plan import ReadPlan
from .schema.arrow import arrow_schema

# About how many rows are sampled, of one vnode in so many at most.
_SAMPLED_ROWS, _SAMPLED_PART = 32_768, 32


@dataclass(frozen=True)
class AggregatePlan:
    """An aggregate over the rows of a plan. Picklable."""

    plan: ReadPlan
    aggregate: PartialAggregate

    @classmethod
    def of(cls, plan: ReadPlan, aggregate: PartialAggregate) -> AggregatePlan:
        """Return the plan of an aggregate over the rows of ``plan``, whatever its columns."""
        columns = aggregate.columns or (aggregate.schema.columns[0].name,)
        return cls(replace(plan, columns=columns), aggregate)

    def partitions(self, count: int) -> tuple[tuple[range, ...], ...]:
        """Return the vnodes of each of ``count`` parallel units; see `ReadPlan.partitions`."""
        return self.plan.partitions(count)

    def read(
        self,
        vnodes: tuple[range, ...],
        environment: Environment | None = None,
        through: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]] = iter,
        limits: GroupingLimits | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the partial rows of some vnodes; the rows come ``through`` a function.

        ``limits``: what is held meanwhile, see `partial_rows`.
        """
        if self._counts_only:
            yield from self._count(self.plan.open(environment).count(vnodes))
        else:
            rows = through(self.plan.read(vnodes, environment))
            yield from partial_rows(self.aggregate, rows, limits)

    @cached_property
    def estimated_groups(self) -> int:
        """About how many groups there are, or half of some rows that are sampled if fewer.

        It is estimated by the rows of some vnodes, of all keys: how many of them are of equal
        groups. Rows of neighbouring keys would not do, as groups may follow from keys.
        """
        if not self.aggregate.group:
            return 1
        plan = self.plan
        vnode_count = _SAMPLED_ROWS * plan.vnode_count // max(plan.stored_rows, 1)
        vnodes = range(max(min(vnode_count, plan.vnode_count // _SAMPLED_PART), 1))
        # Files are checked only for their sizes, as in other estimates.
        group = self.aggregate.group
        names = dict.fromkeys(name for value in group for name in value.columns())
        columns = tuple(names) or self.plan.columns
        sample = replace(plan, where=None, columns=columns, verify="size").read((vnodes,))
        keys = [str(index) for index in range(len(group))]
        batches, count = [], 0
        for batch in sample:
            values = [value.of(batch) for value in group]
            batches.append(pa.Table.from_arrays(values, names=keys))
            count += batch.num_rows
            if count >= 2 * _SAMPLED_ROWS:
                break
        if not count:
            return 0
        groups = pa.concat_tables(batches).group_by(keys, use_threads=False).aggregate([])
        repeats: int = max(count - groups.num_rows, 1)
        # Of n sampled rows, of N in groups of s each, n * n / 2 * (s - 1) / N repeat one before.
        pairs, stored_rows = count * count // 2, max(plan.stored_rows, count)
        return stored_rows * pairs // (pairs + repeats * stored_rows)

    def known(self) -> pa.Table | None:
        """Return the partial rows if the log alone knows them, as for a count of all rows."""
        rows = self.plan.rows_by_log() if self._counts_only else None
        if rows is None:
            return None
        return pa.Table.from_batches(self._count(rows), self.arrow_schema())

    def arrow_schema(self) -> pa.Schema:
        """Return the Arrow schema of the batches that `read` yields."""
        return arrow_schema(self.aggregate.fields)

    @property
    def _counts_only(self) -> bool:
        """Whether it counts rows without a condition, for which no value is decoded."""
        measures = self.aggregate.measures
        counts = all(
            measure.function is Function.ROWS and measure.where is None for measure in measures
        )
        return counts and bool(measures) and not self.aggregate.group and self.plan.where is None

    def _count(self, rows: int) -> Iterator[pa.RecordBatch]:
        if rows:
            columns = [pa.array([rows], pa.int64()) for _ in self.aggregate.measures]
            yield pa.RecordBatch.from_arrays(columns, schema=self.arrow_schema())
