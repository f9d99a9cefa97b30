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
from itertools import chain
from threading import Event, Lock
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from .aggregate.adding import MANY_GROUPS, merged_partials, partial_rows, partials_of_all
from .aggregate.measure import Function
from .aggregate.partial import PartialAggregate, measure_name
from .aggregate_plan import AggregatePlan
from .environment import Environment
from .schema import types as t

_T = TypeVar("_T")

# Partial rows of all threads, and their bytes: a million groups in each of two threads.
_MOST_ROWS = 2 << 20
_MOST_BYTES = 128 << 20
# With more groups, each thread would have most of them, and adding up what these found would take
# as long as adding up the rows.
_MOST_GROUPS_OF_THREADS = 32_768


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
    has_many_groups = plan.estimated_groups > _MOST_GROUPS_OF_THREADS
    run = _Run(plan, environment, len(units) if has_many_groups else None)
    with ThreadPoolExecutor(max(len(units) - 1, 1), "relstate-aggregate") as pool:
        others = [pool.submit(run.partials, unit) for unit in units[1:]]
        try:
            run.partials(units[0])
            for other in others:
                other.result()
        finally:
            run.stop()
    is_merged = run.add_up_rows()
    if run.is_full:
        return None
    partials = pa.Table.from_batches(run.batches, plan.arrow_schema())
    if not partials.num_rows:
        return AddedUp(partials, is_final=bool(plan.aggregate.group))
    if not is_merged:
        unmerged, partials = partials, merged_partials(plan.aggregate, partials)
        # Where a sum might not fit, they are as they were.
        is_merged = partials is not unmerged
    is_final = is_merged and _has_equal_bytes(plan.aggregate)
    return AddedUp(partials, is_final and not _has_failures(plan.aggregate, partials))


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

    def __init__(
        self,
        plan: AggregatePlan,
        environment: Environment | None,
        gathering_threads: int | None,
    ) -> None:
        """``gathering_threads``: how many gather rows to be added up together; None: none does."""
        self._plan, self._environment = plan, environment
        self._gathering_threads = gathering_threads
        self._stopped = Event()
        self._lock = Lock()
        self._rows: list[pa.RecordBatch] = []
        self.batches: list[pa.RecordBatch] = []
        """The partial rows."""
        self._row_count = self._byte_count = 0

    @property
    def is_full(self) -> bool:
        """Whether there are more partial rows than are held."""
        return self._row_count > _MOST_ROWS or self._byte_count > _MOST_BYTES

    def stop(self) -> None:
        """Let all threads end after the batch that they have at hand."""
        self._stopped.set()

    def partials(self, vnodes: tuple[range, ...]) -> None:
        """Add up the rows of some vnodes, or some of them if the run was stopped."""
        try:
            if self._gathering_threads is None:
                self._keep(
                    self._plan.read(vnodes, self._environment, self._until_stopped, MANY_GROUPS)
                )
            else:
                rows = self._until_stopped(self._plan.plan.read(vnodes, self._environment))
                self._gather(rows, self._gathering_threads)
        except BaseException:
            self.stop()
            raise

    def _gather(self, batches: Iterator[pa.RecordBatch], threads: int) -> None:
        """Keep the rows of one thread of some, or add them up if they are too many to be kept."""
        most_rows, most_bytes = (most // threads for most in MANY_GROUPS.at_once)
        gathered: list[pa.RecordBatch] = []
        row_count = byte_count = 0
        for batch in batches:
            gathered.append(batch)
            row_count += batch.num_rows
            byte_count += batch.nbytes
            if row_count > most_rows or byte_count > most_bytes:
                rows = chain(gathered, batches)
                self._keep(partial_rows(self._plan.aggregate, rows, MANY_GROUPS))
                return
        with self._lock:
            self._rows += gathered

    def add_up_rows(self) -> bool:
        """Add up the rows that threads have gathered, at once; return whether that is all of them.

        Then each group has one partial row.
        """
        if not self._rows or self.is_full:
            return False
        is_all = not self.batches
        partials, is_merged = partials_of_all(self._plan.aggregate, self._rows)
        self._keep(partials)
        return is_all and is_merged

    def _keep(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            with self._lock:
                self.batches.append(batch)
                self._row_count += batch.num_rows
                self._byte_count += batch.nbytes
                if self.is_full:
                    self.stop()
                    return

    def _until_stopped(self, batches: Iterable[_T]) -> Iterator[_T]:
        for batch in batches:
            if self._stopped.is_set():
                return
            yield batch
