"""A full refresh: a view is computed from all rows of its inputs, and what differs is written.

After changes of many rows this takes less than to process the changes one by one. The executors run
over empty state tables, as when the view was created, and what they write of the view's own rows is
compared with the rows that it has. The commit replaces the state, and has of the view's rows only
those that differ: who follows the view gets no more changes than from another refresh.

Promises: what a commit needs; the view's own rows that executors wrote are removed.
Does not know: how executors run (runner), what is committed with it (refresh).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

from relstate.connector.failure import strip_tracebacks
from relstate.connector.task_report import TaskReport
from relstate.storage import (
    ReadPlan,
    SegmentRecord,
    changed_entries,
    environment_of,
)

from .job import ViewJob
from .plan.asof_join import AsofJoin
from .plan.broadcast_join import BroadcastJoin
from .plan.join import Join
from .plan.node import walk
from .plan.window import OrderedWindow
from .task import Target
from .viewplan import ViewPlan

# For how many rows of the inputs a full refresh takes as long as another one for a change. The
# workload view-sizes measures both. A window reads and computes what follows a change in its
# partition; others read and write the state of the rows that change, old and new.
_ROWS_OF_A_WINDOW, _ROWS_OF_OTHERS = 20, 3
# So many stored bytes of the old and the new rows are compared at once.
_COMPARED_BYTES = 64 << 20
_REPORT = "report BINARY NOT NULL"


def pays_off(job: ViewJob, rows: Sequence[int], part_rows: int) -> bool:
    """Return whether a view with so many changes should be computed from all rows of its inputs.

    ``rows``: how many each source has; ``part_rows``: of a part. Each part may read again what
    others have written.
    """
    parts = -(-sum(rows) // part_rows)
    return share_of_changes(job, rows) * rows_of_a_change(job.plan) > parts


def share_of_changes(job: ViewJob, rows: Sequence[int]) -> float:
    """Return which share of what a view is computed from changes; ``rows``: of each source.

    A change of an input of a join changes the pairs of that row: so it counts as what share of that
    input it is.
    """
    if not joins_rows(job.plan):
        return job.rows / max(sum(rows), 1)
    return max(read.rows / max(count, 1) for read, count in zip(job.reads, rows, strict=True))


def rows_of_a_change(plan: ViewPlan) -> int:
    """Return for how many rows a full refresh takes as long as another one for a change."""
    has_window = any(isinstance(node, OrderedWindow) for node in walk(plan.root))
    return _ROWS_OF_A_WINDOW if has_window else _ROWS_OF_OTHERS


def joins_rows(plan: ViewPlan) -> bool:
    """Return whether a plan has a join."""
    return any(isinstance(node, Join | AsofJoin | BroadcastJoin) for node in walk(plan.root))


def can_be_full(plan: ViewPlan, *, has_quarantine: bool) -> bool:
    """Return whether a view can be computed from all rows of its inputs in a refresh.

    Not if it has no state to replace, or its state has more than the rows give: of the present
    time, or of rows that the view leaves out.
    """
    has_state = any(not operator.is_root for operator in plan.operators)
    return has_state and not plan.reads_clock and not has_quarantine


def changed_rows(
    job: ViewJob, stored: ReadPlan, wanted: ReadPlan, session: SparkSession, tasks: int
) -> tuple[SegmentRecord, ...]:
    """Write what makes the stored rows of a view the wanted ones, and return the segments."""
    tasks = min(tasks, stored.vnode_count)
    task = DifferenceTask(job.view_id, job.target, stored, wanted, tasks)
    rows = session.range(0, tasks, 1, tasks).mapInArrow(task, _REPORT).collect()
    reports = [TaskReport.from_json(bytes(row[0])) for row in rows]
    return tuple(segment for report in reports for segment in report.segments)


@dataclass(frozen=True, slots=True)
class DifferenceTask:
    """Writes how two versions of a view's rows differ in a part of the vnodes.

    Travels to the tasks, which call it with the parts' numbers.
    """

    view_id: int
    target: Target
    stored: ReadPlan
    wanted: ReadPlan
    tasks: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a report for each part."""
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        return strip_tracebacks(map(self._part, numbers))

    def _part(self, number: int) -> pa.RecordBatch:
        environment = environment_of(self.target.path)
        started = environment.now()
        stored, wanted = self.stored.open(environment), self.wanted.open(environment)
        with self.target.writer(environment) as writer:
            for vnodes in self._vnodes(number):
                writer.add(*changed_entries(stored, wanted, vnodes))
            segments = writer.finish()
        report = TaskReport(started, segments, view_id=self.view_id, unit=number)
        return pa.record_batch({"report": pa.array([report.to_json().encode()], pa.binary())})

    def _vnodes(self, number: int) -> Iterator[range]:
        """Yield the vnodes of a part, as many at once as may be compared at once."""
        count = self.stored.vnode_count
        stop = count * (number + 1) // self.tasks
        size = max(self.stored.stored_bytes, self.wanted.stored_bytes, 1)
        step = max(count * _COMPARED_BYTES // size, 1)
        for start in range(count * number // self.tasks, stop, step):
            yield range(start, min(start + step, stop))
