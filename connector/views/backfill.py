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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from relstate.connector.failure import describe_error
from relstate.storage import (
    CatalogView,
    NewProgress,
    ReadPlan,
    Store,
    StoreState,
    ViewProgress,
    errors,
)

from .checked_epochs import checked_epochs
from .clock import ClockReading, time_now
from .job import JobOutput
from .lineage import upstream
from .plan.generate import OneRow, Source
from .position import Position
from .quarantine import without_quarantined
from .refresh import Round
from .runner import PART_ROWS, VIEW_CHANGED, JobRunner, may_be_of_part
from .scans import OneRowPlan, SourceRead
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
        start = _Start.of(view.progress)
        position = Position.from_json(view.progress.backfill)
        _check_position(position, plan, state)
    else:
        start = _choose_start(runner, view)
        position = _first_position(runner.store, plan, start)
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
    start: _Start,
    position: Position,
    reading: ClockReading | None,
) -> tuple[_Part, JobOutput]:
    """Run the next part, or all that remains if that part alone fails."""
    plan = runner.plan_of(state, view_id)
    rows = plan.rows_of_part(PART_ROWS)
    if state.views[view_id].definition.quarantine is not None and plan.reads_repeatedly:
        # A row that fails may have been read in another part, through another scan of its table.
        rows = sys.maxsize
    part = _next_part(runner.store, plan, start, position, rows)
    job = runner.job(state, view_id, part.reads, reading)
    try:
        return part, runner.run(job)
    except KEPT_ERRORS:
        raise
    except Exception as error:
        # A part of the rows can give values that all rows together do not, and on which the view's
        # expressions fail. Then the rest must be processed at once.
        rest = _next_part(runner.store, plan, start, position, sys.maxsize)
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
    plan, start = runner.plan_of(state, view_id), _Start.of(view.progress)
    start = replace(start, epochs=checked_epochs(state, view))
    rows = sys.maxsize if at_once else plan.rows_of_part(PART_ROWS)
    position = _first_position(runner.store, plan, start)
    quarantine = runner.quarantine_of(state, view_id)
    keys = {} if quarantine is None else quarantine.keys
    while not position.is_end:
        part = _next_part(runner.store, plan, start, position, rows)
        position = part.after
        yield tuple(
            replace(read, selection=without_quarantined(read.source, keys)) for read in part.reads
        )


@dataclass(frozen=True, slots=True)
class _Start:
    """The first epoch that a view reflects, and the epoch as of which each input is read.

    ``time``: the present time for the view, in microseconds since 1970, if it depends on that.
    """

    reflects: int
    epochs: Mapping[int, int]
    time: int

    @classmethod
    def of(cls, progress: ViewProgress) -> _Start:
        """Return the start of a view whose backfill has begun."""
        time = 0 if progress.clock is None else progress.clock.time
        return cls(progress.reflects, dict(progress.inputs), time)


def _choose_start(runner: JobRunner, view: CatalogView) -> _Start:
    """Return the start of a view: tables at one epoch, and views that reflect that epoch."""
    inputs = [view_input.table_id for view_input in view.definition.inputs]
    for _ in range(_ATTEMPTS):
        state = runner.store.state
        views = upstream(state, [table_id for table_id in inputs if table_id in state.views])
        if not views:
            time = time_now(runner.store.environment, state, ())
            return _Start(state.epoch, dict.fromkeys(inputs, state.epoch), time)
        for view_id in sorted(views):
            populate(runner, view_id)
        refresh = Round(runner, runner.store.state, views)
        refreshed = refresh.run()
        state = runner.store.state_at(refreshed.epoch)
        # Another refresh may have moved a view past that epoch before this one was committed.
        if all(state.views[view_id].progress.reflects <= refreshed.reflects for view_id in views):
            epochs = {i: refreshed.epoch if i in views else refreshed.reflects for i in inputs}
            return _Start(refreshed.reflects, epochs, refresh.time)
    raise errors.ConflictError(
        f"{runner.store.path}: others refreshed the views that a new one reads {_ATTEMPTS} times "
        "before it could begin: refresh again"
    )


def _first_position(store: Store, plan: ViewPlan, start: _Start) -> Position:
    plans = [_plan_source(store, source, start) for source in plan.sources]
    sizes = [plan.stored_rows for plan in plans]
    order = sorted(range(len(plans)), key=lambda number: (sizes[number], number))
    return Position(tuple(order), total=sum(sizes))


@dataclass(frozen=True, slots=True)
class _Part:
    """The reads of the next part, and the position after it."""

    reads: tuple[SourceRead, ...]
    after: Position


def _next_part(store: Store, plan: ViewPlan, start: _Start, position: Position, rows: int) -> _Part:
    """Return the next part, of about ``rows`` rows: whole sources, then some vnodes of one."""
    vnode_count = store.settings.vnode_count
    reads = [SourceRead(source, None, range(vnode_count)) for source in plan.sources]
    while not position.is_end and rows > 0:
        number = position.order[position.index]
        source = plan.sources[number]
        snapshot = _plan_source(store, source, start)
        vnodes, vnode_rows = _vnodes_within(snapshot, position.vnode, rows)
        reads[number] = SourceRead(source, snapshot, vnodes)
        rows -= max(vnode_rows, 1)
        position = _advance(position, vnodes, vnode_rows, vnode_count)
        if position.vnode:
            break
    return _Part(tuple(reads), position)


def _vnodes_within(snapshot: ReadPlan | OneRowPlan, vnode: int, rows: int) -> tuple[range, int]:
    """Return (vnodes from ``vnode`` on, at least one, with about ``rows`` rows; their rows)."""
    count, stored = snapshot.vnode_count, snapshot.stored_rows
    width = max(count * rows // max(stored, 1), 1)
    vnodes = range(vnode, min(vnode + width, count))
    return vnodes, stored * len(vnodes) // count


def _advance(position: Position, vnodes: range, rows: int, vnode_count: int) -> Position:
    rows += position.rows
    if vnodes.stop < vnode_count:
        return replace(position, vnode=vnodes.stop, rows=rows)
    return replace(position, index=position.index + 1, vnode=0, rows=rows)


def _plan_source(store: Store, source: Source, start: _Start) -> ReadPlan | OneRowPlan:
    if isinstance(source, OneRow):
        return OneRowPlan(store.settings.vnode_count)
    epoch = start.epochs[source.table_id]
    # The table may have had another name then.
    name = store.state_at(epoch).name_of(source.table_id)
    plan = store.read_plan(name, epoch=epoch, columns=source.column_names)
    if source.by_parts:
        return replace(plan, time=start.time)
    return replace(plan, shows_expiry=source.expiry is not None)
