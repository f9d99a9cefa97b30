"""One view's job: what Spark runs to bring the view forward, and what its tasks wrote.

Promises: values; a job says all that its tasks need. A job in which an executor of a unit did not
report, or reported twice with different content, is never committed.
Does not know: how Spark runs it (frame), or what is committed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

import pyarrow as pa

from relstate.connector.task_report import TaskReport
from relstate.storage import CatalogView, ReadPlan, SegmentRecord, errors, sequence_segments
from relstate.vnode import VnodeMapping

from .executor.changes import Step
from .executor.materialize import ReplaceExecutor
from .executor.next_moments import NextMoments
from .operators import ExecutorType
from .plan.temporal import ClockStep, TemporalFilter
from .quarantine import Quarantine, QuarantineChanges
from .scans import SourceRead
from .snapshot_parts import SnapshotStart
from .task import ExecutorStep, Target
from .view_settings import ANSI
from .viewplan import Operator, ViewPlan

UNIT_ROWS = 1 << 18
"""Stored rows of inputs for each unit, about: what is made of them is in the memory of a task."""
UNIT_BYTES = 64 << 20
"""Stored bytes of these, about."""


@dataclass(frozen=True, slots=True)
class JobOutput:
    """What the tasks of a job wrote, when the first began, and how many changes they took in.

    ``started``: in microseconds since 1970. ``moments``: the next moments of the temporal filters,
    in the order of the plan. ``is_local``: whether all of it was computed in the driver's process.
    ``seconds``: how long the whole job ran. ``syncs_segments``: see `Proposal`; whether the commit
    has to make some segments durable. ``quarantined``: how many rows are in the quarantine of the
    view after it; None if it has none. ``quarantine``: what is in it then, if that changes.
    ``unwritten``: these changes if the segments do not have them: the commit writes them.
    ``replaced``: the ids of the state tables that have only what the segments have, after a full
    refresh.
    """

    segments: tuple[SegmentRecord, ...]
    started: int
    rows: int
    moments: tuple[NextMoments, ...] = ()
    is_local: bool = False
    seconds: float = 0.0
    syncs_segments: bool = False
    quarantined: int | None = None
    quarantine: Quarantine | None = None
    unwritten: QuarantineChanges | None = None
    replaced: tuple[int, ...] = ()

    @property
    def is_full(self) -> bool:
        """Whether the view was computed from all rows of its inputs."""
        return bool(self.replaced)

    def followed_by(self, later: JobOutput) -> JobOutput:
        """Return what two jobs wrote together."""
        return JobOutput(
            self.segments + later.segments,
            min(self.started, later.started),
            self.rows + later.rows,
            later.moments,
            self.is_local and later.is_local,
            syncs_segments=self.syncs_segments or later.syncs_segments,
        )


@dataclass(frozen=True, slots=True)
class ViewJob:
    """A view, what its plan's sources give, and the state that its executors start from.

    ``reads``: one for each source, in the plan's order. ``states``: how to read the state tables,
    in the plan's order, and last the view's own table. ``clock``: for each temporal filter, in the
    plan's order, what passes it before the job and after it. ``quarantine``: the rows that the
    view leaves out before it; None for a view that fails with them. ``quarantine_changes``: what
    changes in it, if something does. ``operator_rows``: what operators return for these reads, by
    identities, where that has been evaluated before. ``snapshot``: all rows of the sources, if the
    view is to be computed from these in place of ``reads``. ``is_full``: whether ``reads`` are all
    rows, and the view gets what they give in place of the rows that it has. ``restart``: where all
    rows would be read instead, if executors have to read so much state that this takes less time;
    None if that cannot be. ``most_state_rows``: how many rows of it a task may read then.
    """

    view: CatalogView
    name: str
    plan: ViewPlan
    target: Target
    states: tuple[ReadPlan, ...]
    reads: tuple[SourceRead, ...]
    clock: tuple[ClockStep, ...] = ()
    quarantine: Quarantine | None = None
    quarantine_changes: QuarantineChanges | None = None
    operator_rows: Mapping[int, pa.RecordBatch] = field(default_factory=dict)
    snapshot: tuple[SourceRead, ...] = ()
    is_full: bool = False
    restart: SnapshotStart | None = None
    most_state_rows: int | None = None

    @property
    def view_id(self) -> int:
        """The view's id."""
        return self.view.view_id

    @property
    def mapping(self) -> VnodeMapping:
        """Which parallel unit owns which vnode.

        It has more units than that of the view if each of those had too many rows in memory.
        """
        own = self.view.definition.mapping
        by_rows = -(-self.rows // self.plan.rows_of_part(UNIT_ROWS))
        by_bytes = -(-sum(read.stored_bytes for read in self.reads) // UNIT_BYTES)
        units = min(max(by_rows, by_bytes), own.vnode_count)
        return own if units <= own.units else VnodeMapping.balanced(own.vnode_count, units)

    @property
    def is_ansi(self) -> bool:
        """Whether the view is computed in ANSI mode."""
        return self.view.definition.settings[ANSI].lower() == "true"

    @property
    def rows(self) -> int:
        """About how many stored rows the sources give."""
        return sum(read.rows for read in self.reads)

    def part(self, number: int, count: int) -> tuple[SourceRead, ...]:
        """Return what the sources give in one of ``count`` parts, each of some of the vnodes."""
        return tuple(read.part(number, count) for read in self.reads)

    def after(self, output: JobOutput, epoch: int) -> ViewJob:
        """Return the job that reads what was written, too, as if an epoch had committed it."""
        states = tuple(_with_segments(plan, output.segments, epoch) for plan in self.states)
        return replace(self, states=states, clock=tuple(step.done for step in self.clock))

    def in_full(self) -> ViewJob:
        """Return the job over all rows of the sources: of state that is empty."""
        *states, own = self.states
        empty = (replace(plan, segments=()) for plan in states)
        return replace(self, reads=self.snapshot, snapshot=(), states=(*empty, own), is_full=True)

    def step(self, operator: Operator) -> ExecutorStep:
        """Return an executor with its state."""
        states = self.states[-1:] if operator.is_root else [self.states[i] for i in operator.tables]
        if isinstance(operator.node, TemporalFilter):
            number = self.plan.temporal_filters.index(operator.node)
            operator = replace(operator, node=replace(operator.node, step=self.clock[number]))
        if operator.is_root and self.is_full:
            operator = replace(operator, executor=ReplaceExecutor)
        return ExecutorStep(operator, tuple(states), self.is_ansi)

    def combiner(self, operator: Operator) -> tuple[Step, ExecutorType] | None:
        """Return how rows are combined before they are shuffled to an executor; None if not."""
        return operator.executor.combiner(operator.node)

    def collect_output(self, reports: Iterable[TaskReport]) -> JobOutput:
        """Return what tasks wrote, from their reports.

        LostMessageError unless each executor reported exactly once in each of its units.
        """
        own = [report for report in reports if report.view_id == self.view_id]
        complete = complete_reports(self.name, own, self.plan.units(self.mapping))
        readers = self.plan.readers
        return JobOutput(
            tuple(segment for report in complete for segment in report.segments),
            min(report.started for report in complete),
            sum(report.rows for report in complete if readers.intersection(report.parts)),
            tuple(_next_moments(complete).values()),
        )


def complete_reports(
    view: str, reports: Iterable[TaskReport], units: Sequence[tuple[int, int]]
) -> tuple[TaskReport, ...]:
    """Return the reports of a view's tasks, each once, in the order of executors and units.

    ``units``: for each executor its number and in how many units it ran. LostMessageError unless
    every executor of every unit is in exactly one distinct report.
    """
    distinct = tuple(dict.fromkeys(reports))
    counts = Counter((number, report.unit) for report in distinct for number in report.parts)
    expected = {(number, unit) for number, count in units for unit in range(count)}
    wrong = sorted(task for task in counts.keys() | expected if counts[task] != (task in expected))
    if wrong:
        number, unit = wrong[0]
        raise errors.LostMessageError(
            f"view {view!r}: executor {number} in unit {unit} reported {counts[number, unit]} "
            f"times instead of {int((number, unit) in expected)} ({len(wrong)} such cases in all): "
            "Spark lost a task or ran one twice; nothing was committed: refresh again"
        )
    return tuple(sorted(distinct, key=lambda report: (report.parts, report.unit)))


def _next_moments(reports: Iterable[TaskReport]) -> dict[int, NextMoments]:
    """Return the next moments by the numbers of their executors, in the order of these."""
    moments: dict[int, NextMoments] = {}
    for number, values in sorted(
        (own for report in reports for own in report.moments), key=itemgetter(0)
    ):
        parallel = NextMoments.from_json(values)
        moments[number] = parallel.merged_with(moments.get(number, parallel))
    return moments


def _with_segments(plan: ReadPlan, segments: Sequence[SegmentRecord], epoch: int) -> ReadPlan:
    sequenced = sequence_segments(segments, epoch, plan.definition.table_id)
    return plan.after(sequenced)
