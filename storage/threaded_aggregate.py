"""The partial rows of a whole table, added up by threads of this process.

numpy, Arrow and LMDB release Python's lock, so that threads on as many cores read and add up at
once. Each thread reads vnodes of its own as a task does, by the same code.

Promises: memory is bounded, also by the number of partial rows: where there are more, the caller
has to read in another way. The partial rows of all threads are added up. An interrupt or an error
ends all threads after the batch of rows that each has at hand, before it is raised.
Does not know: what a table's size is worth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event, Lock
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from .aggregate.adding import MANY_GROUPS, merged_partials
from .aggregate.measure import Function
from .aggregate.partial import PartialAggregate, measure_name
from .aggregate_plan import AggregatePlan
from .environment import Environment
from .schema import types as t

_T = TypeVar("_T")

# Partial rows of all threads, and their bytes: a million groups in each of two threads.
_MOST_ROWS = 2 << 20
_MOST_BYTES = 128 << 20


@dataclass(frozen=True, slots=True)
class AddedUp:
    """The partial rows of a whole table.

    ``is_final``: each group has exactly one row, by Spark's equality of values, and no value has
    failed, so that nothing is left to add up.
    """

    partials: pa.Table
    is_final: bool = False


def add_up_in_threads(
    plan: AggregatePlan, threads: int, environment: Environment | None = None
) -> AddedUp | None:
    """Return the partial rows of all vnodes; None if they are too many to be held here.

    ``threads``: how many run at most, this one included. Errors as of `AggregatePlan.read`.
    """
    units = plan.partitions(threads)
    run = _Run(plan, environment)
    with ThreadPoolExecutor(max(len(units) - 1, 1), "relstate-aggregate") as pool:
        others = [pool.submit(run.partials, unit) for unit in units[1:]]
        try:
            partials = [run.partials(units[0]), *(other.result() for other in others)]
        finally:
            run.stop()
    if run.is_full:
        return None
    batches = [batch for group in partials for batch in group]
    table = pa.Table.from_batches(batches, plan.arrow_schema())
    if not table.num_rows:
        return AddedUp(table, is_final=bool(plan.aggregate.group))
    merged = merged_partials(plan.aggregate, table)
    # Where a sum might not fit, they are as they were.
    is_final = merged is not table and _has_equal_bytes(plan.aggregate)
    return AddedUp(merged, is_final and not _has_failures(plan.aggregate, merged))


def _has_equal_bytes(aggregate: PartialAggregate) -> bool:
    """Return whether equal values of a group have equal bytes: not -0 and 0, or several NaN."""
    return not any(isinstance(value.type, t.Float | t.Double) for value in aggregate.group)


def _has_failures(aggregate: PartialAggregate, partials: pa.Table) -> bool:
    """Return whether a value of some row has failed, which Spark has to raise."""
    columns = (
        partials.column(measure_name(index))
        for index, measure in enumerate(aggregate.measures)
        if measure.function is Function.FAILURE
    )
    return any(pc.any(pc.greater(column, 0)).as_py() for column in columns)


class _Run:
    """One aggregate, while its threads run."""

    def __init__(self, plan: AggregatePlan, environment: Environment | None) -> None:
        self._plan, self._environment = plan, environment
        self._stopped = Event()
        self._lock = Lock()
        self._rows = self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether the threads have more partial rows than are held."""
        return self._rows > _MOST_ROWS or self._bytes > _MOST_BYTES

    def stop(self) -> None:
        """Let all threads end after the batch that they have at hand."""
        self._stopped.set()

    def partials(self, vnodes: tuple[range, ...]) -> list[pa.RecordBatch]:
        """Return the partial rows of some vnodes, or some of them if the run was stopped."""
        partials: list[pa.RecordBatch] = []
        try:
            for batch in self._plan.read(
                vnodes, self._environment, self._until_stopped, MANY_GROUPS
            ):
                partials.append(batch)
                self._count(batch)
        except BaseException:
            self.stop()
            raise
        return partials

    def _count(self, batch: pa.RecordBatch) -> None:
        with self._lock:
            self._rows += batch.num_rows
            self._bytes += batch.nbytes
            if self.is_full:
                self.stop()

    def _until_stopped(self, batches: Iterable[_T]) -> Iterator[_T]:
        for batch in batches:
            if self._stopped.is_set():
                return
            yield batch
