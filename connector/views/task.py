"""What a task of a refresh does: it runs the executors of a fragment in one unit, for one epoch.

Before a shuffle a task may also run stateless steps over the rows that it has.

Promises: what a task writes is durable before it reports to the driver; a task that fails or runs
again may leave files, never rows.
Does not know: Spark's frames, or who commits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from relstate.connector.failure import strip_tracebacks
from relstate.connector.spark.received import received
from relstate.connector.task_report import TaskReport
from relstate.storage import (
    Environment,
    ReadPlan,
    SegmentRecord,
    SegmentWriter,
    StateTable,
    environment_of,
    errors,
    types,
)
from relstate.vnode import VnodeMapping

from .bounds import BoundedState, RowBudget, StateBoundError
from .exchange import TaskOutput
from .executor.changes import Step, run_steps
from .executor.executor import Executor
from .executor.state import State
from .viewplan import Operator
from .wire import Received, control_rows


@dataclass(frozen=True, slots=True)
class Target:
    """Where a task writes: a store, and how its rows are distributed."""

    path: str
    vnode_count: int
    shards: int

    def writer(self, environment: Environment) -> SegmentWriter:
        """Return a writer of segments."""
        return SegmentWriter(environment, self.vnode_count, self.shards)


class Writers:
    """The segment writers of one task: one for the view's rows, one for all state."""

    def __init__(
        self,
        target: Target,
        vnodes: Sequence[range] | None,
        environment: Environment | None = None,
        most_state_rows: int | None = None,
    ) -> None:
        """``vnodes``: those whose rows this task may write; None for all.

        ``environment``: of the store; by default a new one of its path. ``most_state_rows``: how
        many rows of all state tables may be read; None for any number.
        """
        self.vnodes = vnodes
        self.environment = environment or environment_of(target.path)
        self._target = target
        self._budget = None if most_state_rows is None else RowBudget(most_state_rows)
        self.moments: list[tuple[int, tuple[int | None, ...]]] = []
        """The next moments of temporal filters, by the numbers of their executors."""
        self._writers: dict[bool, SegmentWriter] = {}
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._opened.__exit__(kind, error, traceback)

    def writer(self, *, is_root: bool) -> SegmentWriter:
        """Return the writer of the view's own rows, or that of its state."""
        if is_root not in self._writers:
            self._writers[is_root] = self._opened.enter_context(
                self._target.writer(self.environment)
            )
        return self._writers[is_root]

    def state(self, plan: ReadPlan, *, is_root: bool) -> State:
        """Return a state table, whose changes go to `writer`."""
        writer = self.writer(is_root=is_root)
        table = StateTable.streaming(plan.open(self.environment), writer, vnodes=self.vnodes)
        return table if self._budget is None else BoundedState(table, self._budget)

    def finish(self) -> tuple[SegmentRecord, ...]:
        """Return what all of them wrote, durable."""
        writers = self._writers.values()
        return tuple(segment for writer in writers for segment in writer.finish())

    def finish_unsynced(self) -> tuple[SegmentRecord, ...]:
        """Return what all of them wrote, which the commit makes durable."""
        writers = self._writers.values()
        return tuple(segment for writer in writers for segment in writer.finish_unsynced())


@dataclass(frozen=True, slots=True)
class ExecutorStep:
    """An executor, and its state tables as they are read."""

    operator: Operator
    states: tuple[ReadPlan, ...]
    is_ansi: bool

    def batches(self, chunk: pa.RecordBatch, writers: Writers) -> Iterator[pa.RecordBatch]:
        """Yield the executor's output; its state is written when the last batch has come."""
        executor = self._opened(writers)
        yield from executor.batches(chunk)
        self._collect_moments(executor, writers)

    def run(self, chunk: pa.RecordBatch, writers: Writers) -> pa.RecordBatch:
        """Return the executor's output, after writing the changes of its state."""
        executor = self._opened(writers)
        output = executor.run(chunk)
        self._collect_moments(executor, writers)
        return output

    def _collect_moments(self, executor: Executor[Any], writers: Writers) -> None:
        if executor.next_moments is not None:
            moments = tuple(executor.next_moments.to_json())
            writers.moments.append((self.operator.number, moments))

    def _opened(self, writers: Writers) -> Executor[Any]:
        states = [writers.state(plan, is_root=self.operator.is_root) for plan in self.states]
        return self.operator.executor(self.operator.node, states, is_ansi=self.is_ansi)

    def count_rows(self, chunk: pa.RecordBatch, unit: int) -> int:
        """Return how many changed rows an input chunk represents, in all units once."""
        return self.operator.executor.count_rows(self.operator.node, chunk, unit)


@dataclass(frozen=True, slots=True)
class StatelessTask:
    """Stateless steps over the rows of a task. Travels to the tasks.

    ``fields``: those of the input. Control rows pass unchanged.
    """

    fields: tuple[types.Field, ...]
    steps: tuple[Step, ...]
    output: TaskOutput

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the steps over all rows at once, and yield what they give."""
        return strip_tracebacks(self._rows(received(batches)))

    def _rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        received = Received.of(batches, self.fields)
        yield from self.output.batches([run_steps(self.steps, received.chunk)])
        for target, message in received.control:
            yield control_rows([target], message, self.output.schema)


@dataclass(frozen=True, slots=True)
class FragmentTask:
    """The steps of a fragment. Travels to the tasks, where it is called with their rows.

    ``fields``: those of the input; ``output``: how it hands rows over. ``units``: in how many units
    it runs; ``mapping``: which unit owns which vnode if there are several, and how many units the
    next fragment may have, each of which gets a control row. ``most_state_rows``: how many rows of
    their state the executors of a unit may read; None for any number.
    """

    view_id: int
    target: Target
    mapping: VnodeMapping
    fields: tuple[types.Field, ...]
    steps: tuple[ExecutorStep | Step, ...]
    output: TaskOutput
    units: int
    most_state_rows: int | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the steps in the unit of this task, and yield changes and control rows."""
        return strip_tracebacks(self._rows(received(batches)))

    def _rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        started = environment_of(self.target.path).now()
        received = Received.of(batches, self.fields)
        # A report of a task that has given up goes to all units, without a shuffle to this one.
        unit = self._unit({target for target, message in received.control if not message})
        first, chunk = self.steps[0], received.chunk
        assert isinstance(first, ExecutorStep)
        rows = first.count_rows(chunk, unit)
        segments: tuple[SegmentRecord, ...] = ()
        given_up = self._is_given_up(received)
        vnodes, most_rows = self._vnodes(unit), self.most_state_rows
        with Writers(self.target, vnodes, most_state_rows=most_rows) as writers:
            try:
                if not given_up:
                    yield from self.output.batches(self._result(chunk, writers))
                    segments = writers.finish()
            except StateBoundError:
                given_up = True
        own = TaskReport(
            started,
            segments,
            parts=self._executors,
            view_id=self.view_id,
            unit=unit,
            rows=rows,
            moments=tuple(writers.moments),
            given_up=given_up,
        )
        for message in received.messages:
            yield control_rows([unit], message, self.output.schema)
        # What others would make of a part of the rows must not count, nor fail.
        readers = range(self.mapping.units) if given_up else [unit]
        yield control_rows(readers, own.to_json().encode(), self.output.schema)
        targets = range(unit, self.mapping.units, self.units)
        yield control_rows(targets, b"", self.output.schema)

    def _is_given_up(self, received: Received) -> bool:
        """Return whether a task before this one has read too much state."""
        return self.most_state_rows is not None and any(
            TaskReport.from_json(message).given_up for message in received.messages
        )

    def _result(self, chunk: pa.RecordBatch, writers: Writers) -> Iterator[pa.RecordBatch]:
        """Yield what the steps make of a chunk; the last executor's output passes in parts."""
        last = max(n for n, step in enumerate(self.steps) if isinstance(step, ExecutorStep))
        for step in self.steps[:last]:
            chunk = step.run(chunk, writers) if isinstance(step, ExecutorStep) else step.run(chunk)
        executor = self.steps[last]
        assert isinstance(executor, ExecutorStep)
        stateless = [step for step in self.steps[last:] if not isinstance(step, ExecutorStep)]
        for batch in executor.batches(chunk, writers):
            yield run_steps(stateless, batch)

    @property
    def _executors(self) -> tuple[int, ...]:
        return tuple(step.operator.number for step in self.steps if isinstance(step, ExecutorStep))

    def _vnodes(self, unit: int) -> Sequence[range] | None:
        """Return the vnodes that a unit owns; None for all."""
        return None if self.units == 1 else self.mapping.ranges_of(unit)

    def _unit(self, targets: set[int]) -> int:
        """Return the unit of this task, from its control rows. LostMessageError if they differ."""
        if self.units == 1:
            return 0
        if len(targets) != 1:
            raise errors.LostMessageError(
                f"a task of the view with the id {self.view_id} got control rows for the units "
                f"{sorted(targets)} instead of one: Spark lost or misplaced rows; "
                "nothing was committed: refresh again"
            )
        return targets.pop()
