"""Filling a new view from what was there before it: snapshots of its inputs, part by part.

The rows of every input, as of the epochs chosen when the view was created, come as inserts: those
of the smallest input first, vnodes in their order. Each part is a commit of state, rows and
position; who is interrupted goes on there. When all is in, the view follows its inputs.

Promises: no input is read twice or left out, however often the work is begun anew; memory follows
the size of a part.
Does not know: how a part is computed (refresh).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

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

from .lineage import upstream
from .plan.stateless import Scan
from .refresh import LASTING, MOVED, PART_ROWS, Refresher, failure_of
from .scans import ScanRead
from .viewplan import ViewPlan

_ATTEMPTS = 20

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Position:
    """How far a backfill is: the vnodes from ``vnode`` on of the scan at ``place`` come next.

    ``order``: the scans, by their numbers in the plan, in the order in which they are read.
    ``rows`` have come of ``total``, about.
    """

    order: tuple[int, ...]
    place: int = 0
    vnode: int = 0
    rows: int = 0
    total: int = 0

    @property
    def share(self) -> float:
        """How much has come, from 0 to 1."""
        return min(self.rows / self.total, 1.0) if self.total else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the position as JSON values. On disk, in the log: never change a name."""
        return {
            "order": list(self.order),
            "place": self.place,
            "vnode": self.vnode,
            "rows": self.rows,
            "total": self.total,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Position:
        """Return the position that `to_json` described."""
        return cls(
            tuple(value["order"]), value["place"], value["vnode"], value["rows"], value["total"]
        )


def fill(refresher: Refresher, view_id: int) -> None:
    """Bring a view's backfill to its end, beginning it if it has not begun; those it reads first.

    Nothing if it is filled. ConflictError where others keep altering it, the errors of a refresh.
    """
    attempts, seen = 0, None
    while attempts < _ATTEMPTS:
        try:
            while _fill_part(refresher, view_id):
                pass
            return
        except MOVED:
            # Where others bring it to its end, there is no reason to give up.
            view = refresher.store.state.views.get(view_id)
            progress = None if view is None else view.progress
            attempts = attempts + 1 if progress == seen else 0
            seen = progress
        except Exception as error:
            state = refresher.store.state
            if view_id not in state.views:
                raise
            failure = failure_of(state.name_of(view_id), error)
            raise failure from failure.__cause__
    raise errors.ConflictError(
        f"{refresher.store.path}: others altered the same view {_ATTEMPTS} times; let one "
        "refresh at a time"
    )


def _fill_part(refresher: Refresher, view_id: int) -> bool:
    """Take one part in; return whether there was one."""
    state = refresher.store.state
    view = state.views.get(view_id)
    if view is None or view.progress.is_populated:
        return False
    plan = refresher.plan_of(state, view_id)
    if view.progress.reflects:
        start = _Start.of(view.progress)
        position = Position.from_json(view.progress.backfill)
    else:
        start = _start(refresher, view)
        position = _first_position(refresher.store, plan, start)
        state = refresher.store.state
        if view_id not in state.views:
            return False
    part = _part(refresher.store, plan, start, position, PART_ROWS)
    try:
        outcome = refresher.outcome(refresher.run(state, view_id, part.reads))
    except LASTING:
        raise
    except Exception as error:
        # Of a part of the rows a view may have values that it has of all of them never, and that
        # its expressions do not take: then all that is left has to come at once.
        whole = _part(refresher.store, plan, start, position, sys.maxsize)
        if whole == part:
            raise
        _logger.warning(
            "a part of a backfill failed, and is tried with all the rest: %s", describe_error(error)
        )
        part = whole
        outcome = refresher.outcome(refresher.run(state, view_id, part.reads))
    is_last = part.after.place == len(part.after.order)
    backfill = None if is_last else part.after.to_json()
    progress = NewProgress(view, start.reflects, tuple(start.epochs.items()), backfill)
    refresher.commit_outcomes([outcome], [progress])
    return True


def parts(
    refresher: Refresher, state: StoreState, view_id: int, *, at_once: bool = False
) -> Iterator[tuple[ScanRead, ...]]:
    """Yield what would fill a view that is filled, as of the epochs of its progress."""
    rows = sys.maxsize if at_once else PART_ROWS
    view = state.views[view_id]
    plan, start = refresher.plan_of(state, view_id), _Start.of(view.progress)
    position = _first_position(refresher.store, plan, start)
    while position.place < len(position.order):
        part = _part(refresher.store, plan, start, position, rows)
        position = part.after
        yield part.reads


@dataclass(frozen=True, slots=True)
class _Start:
    """As of when inputs are read: the epoch of tables it amounts to, and that of each input."""

    reflects: int
    epochs: Mapping[int, int]

    @classmethod
    def of(cls, progress: ViewProgress) -> _Start:
        """Return what a view that has begun reads."""
        return cls(progress.reflects, dict(progress.inputs))


def _start(refresher: Refresher, view: CatalogView) -> _Start:
    """Return what a view is to begin with: tables at one epoch, and views as they reflect it."""
    inputs = [one.table_id for one in view.definition.inputs]
    for _ in range(_ATTEMPTS):
        state = refresher.store.state
        read = upstream(state, [one for one in inputs if one in state.views])
        if not read:
            return _Start(state.epoch, dict.fromkeys(inputs, state.epoch))
        for view_id in sorted(read):
            fill(refresher, view_id)
        done = refresher.round(refresher.store.state, read)
        state = refresher.store.state_at(done.epoch)
        # Another refresh may have moved a view beyond that epoch before ours was committed.
        if all(state.views[one].progress.reflects <= done.reflects for one in read):
            epochs = {one: done.epoch if one in read else done.reflects for one in inputs}
            return _Start(done.reflects, epochs)
    raise errors.ConflictError(
        f"{refresher.store.path}: others refreshed the views that a new one reads {_ATTEMPTS} "
        "times meanwhile, so that it could not begin: refresh again"
    )


def _first_position(store: Store, plan: ViewPlan, start: _Start) -> Position:
    plans = [_snapshot(store, scan, start.epochs[scan.table_id]) for scan in plan.scans]
    sizes = [one.stored_rows for one in plans]
    order = sorted(range(len(plans)), key=lambda number: (sizes[number], number))
    return Position(tuple(order), total=sum(sizes))


@dataclass(frozen=True, slots=True)
class _Part:
    """What is read next, and the position behind it."""

    reads: tuple[ScanRead, ...]
    after: Position


def _part(store: Store, plan: ViewPlan, start: _Start, position: Position, room: int) -> _Part:
    """Return the next part, of so many rows: of as many scans as fit, of the last one perhaps not
    all vnodes.
    """
    found = plan.scans
    vnode_count = store.settings.vnode_count
    reads = [ScanRead(scan, None, range(vnode_count)) for scan in found]
    while position.place < len(position.order) and room > 0:
        number = position.order[position.place]
        scan = found[number]
        snapshot = _snapshot(store, scan, start.epochs[scan.table_id])
        vnodes, fitting = _fitting(snapshot, position.vnode, room)
        reads[number] = ScanRead(scan, snapshot, vnodes)
        room -= max(fitting, 1)
        position = _behind(position, vnodes, fitting, vnode_count)
        if position.vnode:
            break
    return _Part(tuple(reads), position)


def _fitting(snapshot: ReadPlan, vnode: int, room: int) -> tuple[range, int]:
    """Return the vnodes from one on whose rows fit in ``room``, at least one, and how many rows."""
    count, rows = snapshot.vnode_count, snapshot.stored_rows
    width = max(count * room // max(rows, 1), 1)
    vnodes = range(vnode, min(vnode + width, count))
    return vnodes, rows * len(vnodes) // count


def _behind(position: Position, vnodes: range, rows: int, vnode_count: int) -> Position:
    rows += position.rows
    if vnodes.stop < vnode_count:
        return replace(position, vnode=vnodes.stop, rows=rows)
    return replace(position, place=position.place + 1, vnode=0, rows=rows)


def _snapshot(store: Store, scan: Scan, epoch: int) -> ReadPlan:
    return store.read_plan(scan.table, epoch=epoch, columns=scan.column_names)
