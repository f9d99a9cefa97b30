"""The temporal filter: rows enter and leave as the bounds of their moments move with the clock.

With a flag all rows are in the output, and one whose moment a bound moves over is replaced.

A changed row says itself whether it passed before the epoch and passes after it: its moment is
compared with the bounds then and now. Of the rows that did not change, those that come or go are
the ranges of moments that the bounds have moved over, and the state is in the order of moments. A
row whose moment is `NEVER` passes no upper bound and every lower one: it is not stored.

Promises: the output depends on the chunk, the state and the step alone. What is read of the state
is what comes, goes, or is no longer needed, and one row per vnode and bound to find what is next.
Does not know: what time it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from relstate.storage import NEVER, MomentRange, types

from ..plan.node import Order
from ..plan.temporal import TemporalFilter
from .changes import Changes, Mask, chunk_schema, insert_mask, make_chunk, with_schema
from .executor import Executor, StateTableSpec
from .next_moments import NextMoments
from .rowkeys import RowKeys
from .state import State

Moments = NDArray[np.int64]
_LEAST = -(1 << 63)


class TemporalFilterExecutor(Executor[TemporalFilter]):
    """Its chunks have the fields of the child. The state: rows whose moments may still matter."""

    label = "temporal_filter"

    def __init__(self, node: TemporalFilter, states: Sequence[State], is_ansi: bool = True) -> None:
        super().__init__(node, states, is_ansi)
        self._keys = RowKeys(node.child.fields, _state_order(node))
        self._names = [field.name for field in _state_fields(node)]
        self._schema = chunk_schema(node.fields)
        self._row_schema = chunk_schema(node.child.fields).remove(0)

    @classmethod
    def tables(cls, node: TemporalFilter) -> tuple[StateTableSpec, ...]:
        """The child's rows, in the order of their moments."""
        order = _state_order(node)
        return (StateTableSpec("rows", _state_fields(node), order, node.distribution or ()),)

    def run(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that enter and leave, by their own change or as time passes."""
        assert self.node.step is not None
        before, after = self.node.step.before, self.node.step.after
        changes = self._changes(chunk)
        moments = _moments(changes.rows, self.node.moment)
        stored = self._unchanged(self._stored_rows(before, after), changes)
        stored_moments = _moments(stored, self.node.moment)
        passed, passes = _passing(stored_moments, before), _passing(stored_moments, after)
        is_passing = np.where(changes.inserts, _passing(moments, after), _passing(moments, before))
        self._write(changes, moments, stored.filter(pa.array(stored_moments < after.kept_from)))
        self._find_next(moments[changes.inserts], after)
        if self.node.flag is not None:
            is_flipped = passed != passes
            flipped = stored.filter(pa.array(is_flipped))
            return self._flagged(chunk, changes, is_passing, flipped, passes[is_flipped])
        rows = pa.concat_batches([changes.rows, stored])
        is_emitted = np.append(is_passing, passed != passes)
        inserts = np.append(changes.inserts, passes)[is_emitted]
        return make_chunk(self._schema, rows.filter(pa.array(is_emitted)), inserts)

    def _flagged(
        self,
        chunk: pa.RecordBatch,
        changes: Changes,
        is_passing: Mask,
        flipped: pa.RecordBatch,
        passes: Mask,
    ) -> pa.RecordBatch:
        """Return all changed rows with their flags, and stored rows with their old and new flags.

        ``is_passing``: of the changed rows that have a moment. ``passes``: of the flipped rows.
        """
        without = chunk.filter(pc.is_null(chunk.column(self.node.moment)))
        names = list(self.node.child.names)
        rows = pa.concat_batches([changes.rows, without.select(names), flipped, flipped])
        flags = pa.concat_arrays(
            [
                pa.array(is_passing),
                pa.nulls(without.num_rows, pa.bool_()),
                pa.array(~passes),
                pa.array(passes),
            ]
        )
        inserts = np.concatenate(
            [
                changes.inserts,
                insert_mask(without),
                np.zeros(len(passes), np.bool_),
                np.ones(len(passes), np.bool_),
            ]
        )
        return make_chunk(self._schema, rows.append_column(self.node.flag, flags), inserts)

    def _changes(self, chunk: pa.RecordBatch) -> Changes:
        """Return the changed rows that have a moment."""
        has_moment = chunk.column(self.node.moment).is_valid()
        chunk = chunk.filter(has_moment)
        rows = chunk.select(list(self.node.child.names))
        return Changes.of(rows, insert_mask(chunk), self._keys, self.label)

    def _stored_rows(self, before: MomentRange, after: MomentRange) -> pa.RecordBatch:
        """Return the rows of the state that a bound has moved over, and perhaps others."""
        (state,) = self.states
        schema = self._row_schema
        rows = [pa.RecordBatch.from_pylist([], schema)]
        ranges = [] if state.is_empty else _ranges_between(before, after)
        lows = pa.array([start for start, _ in ranges], pa.int64())
        highs = pa.array([stop - 1 for _, stop in ranges], pa.int64())
        for batch in state.range_scan(lows, highs, schema.names):
            rows.append(with_schema(batch, schema))
        return pa.concat_batches(rows)

    def _unchanged(self, rows: pa.RecordBatch, changes: Changes) -> pa.RecordBatch:
        if not len(changes) or not rows.num_rows:
            return rows
        is_changed = pc.is_in(self._keys.encode(rows), value_set=changes.keys)
        return rows.filter(pc.invert(is_changed))

    def _write(self, changes: Changes, moments: Moments, outdated: pa.RecordBatch) -> None:
        """Write the changes of the rows that the state keeps, and remove those it kept till now."""
        (state,) = self.states
        assert self.node.step is not None
        step = self.node.step
        is_kept = (moments >= step.after.kept_from) & (moments < NEVER)
        changes.filtered(is_kept).write_to(state, self._names)
        was_kept = (moments >= step.before.kept_from) & (moments < step.after.kept_from)
        removed = changes.rows.filter(pa.array(was_kept & ~changes.inserts))
        removed = pa.concat_batches([removed, outdated])
        if removed.num_rows:
            state.write(removed.select(self._names), np.ones(removed.num_rows, np.bool_))

    def _find_next(self, inserted: Moments, after: MomentRange) -> None:
        stored = self._first_from(after.kept_from, inserted)
        low = None if after.low is None else self._first_from(after.low, inserted)
        high = None if after.high is None else self._first_from(after.high, inserted)
        self.next_moments = NextMoments(stored, low, high)

    def _first_from(self, start: int, inserted: Moments) -> int | None:
        """Return the first moment from ``start`` on, of stored rows and of those inserted now."""
        (state,) = self.states
        name = self.node.moment
        moments = [inserted]
        if not state.is_empty:
            low, high = pa.array([start], pa.int64()), pa.nulls(1, pa.int64())
            batches = state.range_scan(low, high, [name], most=1)
            moments += [_moments(batch, name) for batch in batches]
        first = min(int(part[part >= start].min(initial=NEVER)) for part in moments)
        return None if first == NEVER else first


def _state_order(node: TemporalFilter) -> tuple[Order, ...]:
    names = dict.fromkeys((node.moment, *node.child.key))
    return tuple(map(Order, names))


def _state_fields(node: TemporalFilter) -> tuple[types.Field, ...]:
    names = dict.fromkeys((node.moment, *node.child.key, *node.child.names))
    by_name = {field.name: field for field in node.child.fields}
    return tuple(by_name[name] for name in names)


def _moments(rows: pa.RecordBatch, name: str) -> Moments:
    return np.asarray(rows.column(name), np.int64)


def _passing(moments: Moments, range_: MomentRange) -> Mask:
    is_inside: Mask = np.ones(len(moments), np.bool_)
    if range_.low is not None:
        is_inside &= moments >= range_.low
    if range_.high is not None:
        is_inside &= moments < range_.high
    return is_inside


def _ranges_between(before: MomentRange, after: MomentRange) -> list[tuple[int, int]]:
    """Return the ranges of moments that a bound has moved over, ascending, none twice."""
    pairs = [
        (before.kept_from, after.kept_from),
        (_least(before.low), _least(after.low)),
        (_most(before.high), _most(after.high)),
    ]
    ranges: list[tuple[int, int]] = []
    for start, stop in sorted((min(pair), max(pair)) for pair in pairs):
        if ranges and start <= ranges[-1][1]:
            ranges[-1] = ranges[-1][0], max(stop, ranges[-1][1])
        elif start < stop:
            ranges.append((start, stop))
    return ranges


def _least(low: int | None) -> int:
    return _LEAST if low is None else low


def _most(high: int | None) -> int:
    return NEVER if high is None else high
