"""Populating a new view from the rows that its inputs already have, part by part.

The rows of every input, as of the epochs chosen when the view was created, are read as inserts:
the smallest input first, in the order of vnodes. Each part is one commit of state, rows and
position; after an interruption the next refresh continues from there. When all parts are committed,
the view follows its inputs.

Promises: every row is inserted exactly once, however often the backfill is interrupted; memory
is bounded by the size of a part.
Does not know: how a part is computed (runner).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from dataclasses import replace

from relstate.connector.failure import describe_error
from relstate.storage import (
    CatalogView,
    NewProgress,
    StoreState,
    errors,
)

from .checked_epochs import checked_epochs
from .clock import ClockReading, time_now
from .job import JobOutput
from .lineage import upstream
from .position import Position
from .quarantine import without_quarantined
from .refresh import Round
from .runner import PART_ROWS, VIEW_CHANGED, JobRunner, may_be_of_part
from .scans import SourceRead
from .snapshot_parts import SnapshotPart, SnapshotStart, first_position, next_part, snapshot_parts
from .view_failure import KEPT_ERRORS, view_failure
from .viewplan import ViewPlan

_ATTEMPTS = 20

_logger = logging.getLogger(__name__)


def populate(runner: JobRunner, view_id: int) -> None:
    """Run a view's backfill to its end, after those of the views that it reads.

    Does nothing if the view is populated. Errors: ConflictError if other processes keep altering
    the view; those of a refresh.
    """
    attempts, last_progress = 0, None
    while attempts < _ATTEMPTS:
        try:
            while _populate_part(runner, view_id):
                pass
            return
        except VIEW_CHANGED:
            # Do not give up while another process makes progress.
            with runner.store.one_look(again=True):
                view = runner.store.state.views.get(view_id)
            progress = None if view is None else view.progress
            attempts = attempts + 1 if progress == last_progress else 0
            last_progress = progress
        except Exception as error:
            state = runner.store.state
            if view_id not in state.views:
                raise
            raise view_failure(state.title_of(state.views[view_id]), error) from None
    raise errors.ConflictError(
        f"{runner.store.path}: other processes altered the same view {_ATTEMPTS} times; let one "
        "process refresh it at a time"
    )


def _populate_part(runner: JobRunner, view_id: int) -> bool:
    """Run and commit the next part; return whether another one follows."""
    state = runner.store.state
    view = state.views.get(view_id)
    if view is None or view.progress.is_populated:
        return False
    plan = runner.plan_of(state, view_id)
    if view.progress.reflects:
        start = SnapshotStart.of(view.progress)
        position = Position.from_json(view.progress.backfill)
        _check_position(position, plan, state)
    else:
        start = _choose_start(runner, view)
        position = first_position(runner.store, plan, start)
        state = runner.store.state  # views that it reads may have been refreshed
        if view_id not in state.views:
            return False
    reading = runner.reading(state, view_id, start.time, view.progress.clock)
    part, output = _run_part(runner, state, view_id, start, position, reading)
    backfill = None if part.after.is_end else part.after.to_json()
    clock = None
    if reading is not None:
        expiries = runner.next_expiries(state, view_id, start.epochs, start.time)
        clock = reading.clock(output.moments, expiries)
    progress = NewProgress(
        view,
        start.reflects,
        tuple(start.epochs.items()),
        backfill,
        clock,
        quarantined=output.quarantined or 0,
    )
    runner.commit([output], [progress])
    return backfill is not None


def _run_part(
    runner: JobRunner,
    state: StoreState,
    view_id: int,
    start: SnapshotStart,
    position: Position,
    reading: ClockReading | None,
) -> tuple[SnapshotPart, JobOutput]:
    """Run the next part, or all that remains if that part alone fails."""
    plan = runner.plan_of(state, view_id)
    rows = plan.rows_of_part(PART_ROWS)
    if state.views[view_id].definition.quarantine is not None and plan.reads_repeatedly:
        # A row that fails may have been read in another part, through another scan of its table.
        rows = sys.maxsize
    part = next_part(runner.store, plan, start, position, rows)
    job = runner.job(state, view_id, part.reads, reading)
    try:
        return part, runner.run(job)
    except KEPT_ERRORS:
        raise
    except Exception as error:
        # A part of the rows can give values that all rows together do not, and on which the view's
        # expressions fail. Then the rest must be processed at once.
        rest = next_part(runner.store, plan, start, position, sys.maxsize)
        if rest == part or not may_be_of_part(error):
            raise runner.failure_of(job, error) from None
        _logger.warning(
            "a part of a backfill failed and is tried with the rest: %s", describe_error(error)
        )
    job = runner.job(state, view_id, rest.reads, reading)
    try:
        return rest, runner.run(job)
    except Exception as error:
        raise runner.failure_of(job, error) from None


def _check_position(position: Position, plan: ViewPlan, state: StoreState) -> None:
    """CorruptionError if a stored position does not fit the plan."""
    is_inside = position.vnode < state.settings.vnode_count
    if len(position.order) != len(plan.sources) or not is_inside:
        raise errors.CorruptionError(
            "the position of a view's backfill in the log is not one in its plan; drop the view "
            "and create it again"
        )


def backfill_parts(
    runner: JobRunner, state: StoreState, view_id: int, *, at_once: bool = False
) -> Iterator[tuple[SourceRead, ...]]:
    """Yield the parts that would populate a view again, as of the epochs of its progress.

    Without the rows in its quarantine.
    """
    view = state.views[view_id]
    plan, start = runner.plan_of(state, view_id), SnapshotStart.of(view.progress)
    start = replace(start, epochs=checked_epochs(state, view))
    rows = sys.maxsize if at_once else plan.rows_of_part(PART_ROWS)
    quarantine = runner.quarantine_of(state, view_id)
    keys = {} if quarantine is None else quarantine.keys
    for reads in snapshot_parts(runner.store, plan, start, rows):
        yield tuple(
            replace(read, selection=without_quarantined(read.source, keys)) for read in reads
        )


def _choose_start(runner: JobRunner, view: CatalogView) -> SnapshotStart:
    """Return the start of a view: tables at one epoch, and views that reflect that epoch."""
    inputs = [view_input.table_id for view_input in view.definition.inputs]
    for _ in range(_ATTEMPTS):
        state = runner.store.state
        views = upstream(state, [table_id for table_id in inputs if table_id in state.views])
        if not views:
            time = time_now(runner.store.environment, state, ())
            return SnapshotStart(state.epoch, dict.fromkeys(inputs, state.epoch), time)
        for view_id in sorted(views):
            populate(runner, view_id)
        refresh = Round(runner, runner.store.state, views)
        refreshed = refresh.run()
        state = runner.store.state_at(refreshed.epoch)
        # Another refresh may have moved a view past that epoch before this one was committed.
        if all(state.views[view_id].progress.reflects <= refreshed.reflects for view_id in views):
            epochs = {i: refreshed.epoch if i in views else refreshed.reflects for i in inputs}
            return SnapshotStart(refreshed.reflects, epochs, refresh.time)
    raise errors.ConflictError(
        f"{runner.store.path}: others refreshed the views that a new one reads {_ATTEMPTS} times "
        "before it could begin: refresh again"
    )
