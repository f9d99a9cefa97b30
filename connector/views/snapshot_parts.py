"""The rows of a view's inputs as of some epochs, part by part.

The smallest input comes first, and the rows of each in the order of vnodes.

Promises: each row is in exactly one part; a part has about as many rows as are asked for, at least
those of a vnode. Does not know: what becomes of the rows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from relstate.storage import ReadPlan, Store, ViewProgress

from .plan.generate import OneRow, Source
from .position import Position
from .scans import OneRowPlan, SourceRead
from .viewplan import ViewPlan


@dataclass(frozen=True, slots=True)
class SnapshotStart:
    """The first epoch that a view reflects, and the epoch as of which each input is read.

    ``time``: the present time for the view, in microseconds since 1970, if it depends on that.
    """

    reflects: int
    epochs: Mapping[int, int]
    time: int

    @classmethod
    def of(cls, progress: ViewProgress) -> SnapshotStart:
        """Return the start of a view whose backfill has begun."""
        time = 0 if progress.clock is None else progress.clock.time
        return cls(progress.reflects, dict(progress.inputs), time)


def snapshot_parts(
    store: Store, plan: ViewPlan, start: SnapshotStart, rows: int
) -> Iterator[tuple[SourceRead, ...]]:
    """Yield what the sources of a plan give in each part of about ``rows`` rows."""
    position = first_position(store, plan, start)
    while not position.is_end:
        part = next_part(store, plan, start, position, rows)
        position = part.after
        yield part.reads


def first_position(store: Store, plan: ViewPlan, start: SnapshotStart) -> Position:
    """Return the position before the first part; its total is the stored rows of all sources."""
    sizes = stored_rows(store, plan, start)
    order = sorted(range(len(sizes)), key=lambda number: (sizes[number], number))
    return Position(tuple(order), total=sum(sizes))


def stored_rows(store: Store, plan: ViewPlan, start: SnapshotStart) -> list[int]:
    """Return about how many rows each source of a plan has, with older versions of them."""
    return [_plan_source(store, source, start).stored_rows for source in plan.sources]


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """The reads of the next part, and the position after it."""

    reads: tuple[SourceRead, ...]
    after: Position


def next_part(
    store: Store, plan: ViewPlan, start: SnapshotStart, position: Position, rows: int
) -> SnapshotPart:
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
    return SnapshotPart(tuple(reads), position)


def all_rows(store: Store, plan: ViewPlan, start: SnapshotStart) -> tuple[SourceRead, ...]:
    """Return what the sources of a plan give in one part with all rows."""
    return next_part(store, plan, start, first_position(store, plan, start), sys.maxsize).reads


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


def _plan_source(store: Store, source: Source, start: SnapshotStart) -> ReadPlan | OneRowPlan:
    if isinstance(source, OneRow):
        return OneRowPlan(store.settings.vnode_count)
    epoch = start.epochs[source.table_id]
    # The table may have had another name then.
    name = store.state_at(epoch).name_of(source.table_id)
    plan = store.read_plan(name, epoch=epoch, columns=source.column_names)
    if source.by_parts:
        return replace(plan, time=start.time)
    return replace(plan, shows_expiry=source.expiry is not None)
