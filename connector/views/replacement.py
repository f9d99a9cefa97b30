"""A replacement takes the place of its view, once it is populated.

It is refreshed to the latest epoch. If the view keeps its id, the rows of the replacement are
written again under that id, and then what has changed in them meanwhile; one commit exchanges both.
Readers of the view see its old rows until that commit, and its new ones after it; views that read
it take in the difference.

Promises: the view exists at every epoch, with its old SELECT or its new one. The commit conflicts
if either was refreshed or altered since it was prepared; what was written is then used again.
Does not know: how a replacement is planned or populated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from relstate.connector.failure import strip_tracebacks, unwrap_errors
from relstate.connector.task_report import TaskReport
from relstate.storage import (
    CHANGE_TYPE,
    Kind,
    ReadPlan,
    Replacement,
    SegmentRecord,
    Store,
    StoreState,
    WriteTarget,
    adds_row,
    errors,
)

from .lineage import upstream
from .refresh import Round
from .runner import VIEW_CHANGED, JobRunner
from .sessions import keep_active_session

_ATTEMPTS = 100
# Fewer stored bytes are copied by the driver: a Spark job would take longer.
_LOCAL_BYTES = 8 << 20
# About so many stored bytes are copied by one task.
_TASK_BYTES = 64 << 20
_REPORT = "report BINARY"


def finish_replacement(runner: JobRunner, view_id: int) -> None:
    """Let a populated replacement take the place of its view; do nothing if it was dropped.

    ConflictError if others keep changing the views; DependentViewsError if a view was created
    meanwhile that reads what the replacement does not have; the errors of a refresh.
    """
    exchange = _Exchange(runner, view_id)
    try:
        for _ in range(_ATTEMPTS):
            try:
                with runner.store.one_look(again=True):
                    if exchange.attempt():
                        return
            except VIEW_CHANGED:
                continue
        raise errors.ConflictError(
            f"{runner.store.path}: others changed the view, or what is to replace it, {_ATTEMPTS} "
            "times; it was not replaced: refresh again"
        )
    except errors.UnknownOutcomeError:
        raise
    except Exception:
        exchange.discard()
        raise


class _Exchange:
    """The attempts to let a replacement take the place of its view. Used once."""

    def __init__(self, runner: JobRunner, view_id: int) -> None:
        self._runner = runner
        self._store = runner.store
        self._view_id = view_id
        self._copy: _Copy | None = None

    def attempt(self) -> bool:
        """Return whether there is nothing left to do. ConflictError, TableNotFoundError."""
        state = self._store.state
        if not _is_replacement(state, self._view_id):
            self.discard()
            return True
        refreshed = Round(self._runner, state, upstream(state, [self._view_id])).run()
        state = self._store.state_at(refreshed.epoch)
        planned = Replacement.of(state, state.views[self._view_id])
        started = self._store.environment.now()
        segments: tuple[SegmentRecord, ...] = ()
        if planned.table is not None:
            self._copy = _Copy.of(self._runner, state, planned, self._copy)
            started, segments = self._copy.started, self._copy.segments
        if planned.view.progress.reflects > refreshed.reflects:
            return False
        self._store.jobs.commit(planned.proposal(state, started, refreshed.reflects, segments))
        return True

    def discard(self) -> None:
        """Remove what was written: no commit names it."""
        if self._copy is not None:
            self._store.jobs.discard(self._copy.segments)


def _is_replacement(state: StoreState, view_id: int) -> bool:
    view = state.views.get(view_id)
    return view is not None and view.definition.replaces is not None


@dataclass(frozen=True, slots=True)
class _Copy:
    """The rows of a replacement at ``epoch``, written under the id of the view that it replaces.

    ``target``: the table as which they were written; ``started``: when that began.
    """

    target: WriteTarget
    epoch: int
    started: int
    segments: tuple[SegmentRecord, ...]

    @classmethod
    def of(
        cls, runner: JobRunner, state: StoreState, planned: Replacement, earlier: _Copy | None
    ) -> _Copy:
        """Return the copy as of a state: the earlier one with what has changed since, if any."""
        assert planned.table is not None
        store, settings = runner.store, state.settings
        target = WriteTarget(store.path, planned.table, settings.vnode_count, settings.shards)
        rows = _rows_of(store, state, planned)
        if earlier is not None and earlier.target == target:
            return earlier.advanced(store, rows, state.epoch)
        if earlier is not None:
            store.jobs.discard(earlier.segments)
        started = store.environment.now()
        return cls(target, state.epoch, started, _copied(runner, rows, target))

    def advanced(self, store: Store, rows: ReadPlan, epoch: int) -> _Copy:
        """Return the copy with the changes of the replacement up to an epoch."""
        assert rows.columns is not None
        feed = store.jobs.feed_plan(
            rows.definition.name,
            self.epoch + 1,
            epoch,
            deduplication="netChanges",
            update_images=False,
            columns=[*rows.columns, CHANGE_TYPE],
        )
        with self.target.open(store.environment) as writer:
            for batch in feed.read(environment=store.environment):
                *columns, change_types = batch.columns
                changed = pa.RecordBatch.from_arrays(columns, list(rows.columns))
                kinds = np.where(adds_row(change_types), Kind.PUT, Kind.DELETE).astype(np.uint8)
                writer.write(changed, kinds)
            segments = writer.finish()
        return replace(self, epoch=epoch, segments=self.segments + segments)


def _rows_of(store: Store, state: StoreState, planned: Replacement) -> ReadPlan:
    """Return the plan of reading all columns of a replacement, hidden ones too."""
    name = state.name_of(planned.replacement.view_id)
    columns = [column.name for column in state.table(name).definition.schema.columns]
    return ReadPlan.of(store.path, state, name, columns)


def _copied(runner: JobRunner, rows: ReadPlan, target: WriteTarget) -> tuple[SegmentRecord, ...]:
    """Write the rows of a plan to a table and return the segments."""
    if rows.stored_bytes <= _LOCAL_BYTES:
        every_vnode = (range(rows.vnode_count),)
        return CopyTask(rows, target, (every_vnode,)).run(0)
    parts = rows.partitions(-(-rows.stored_bytes // _TASK_BYTES))
    task, count = CopyTask(rows, target, parts), len(parts)
    with unwrap_errors(), keep_active_session(runner.spark):
        reports = runner.spark.range(0, count, 1, count).mapInArrow(task, _REPORT).collect()
    received = [TaskReport.from_json(bytes(row[0])) for row in reports]
    done = sorted(part for report in received for part in report.parts)
    if done != list(range(count)):
        raise errors.LostMessageError(
            f"the parts {done} of {count} of a view were copied; nothing was committed: refresh "
            "again"
        )
    return tuple(segment for report in received for segment in report.segments)


@dataclass(frozen=True, slots=True)
class CopyTask:
    """Writes the rows of a plan to a table. Travels to the tasks, which get the parts' numbers.

    ``parts``: the vnodes of each part.
    """

    rows: ReadPlan
    target: WriteTarget
    parts: Sequence[tuple[range, ...]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a report of every part whose number comes."""
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        return strip_tracebacks(self._report(number) for number in numbers)

    def _report(self, number: int) -> pa.RecordBatch:
        report = TaskReport(0, self.run(number), parts=(number,))
        return pa.RecordBatch.from_pydict({"report": [report.to_json().encode()]})

    def run(self, number: int) -> tuple[SegmentRecord, ...]:
        """Write the rows of one part and return the segments."""
        with self.target.open() as writer:
            for batch in self.rows.read(self.parts[number]):
                writer.write(batch)
            return writer.finish()
