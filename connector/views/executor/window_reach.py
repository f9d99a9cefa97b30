"""Functions whose values decide how far they read: frames of RANGE with an offset, IGNORE NULLS.

Promises: where no rows are lacking, all rows whose values may change are known, and so are the rows
that they read.
Does not know: how more rows are read, or what the functions return.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from relstate.storage import ragged, types

from ..plan.frame import ValueFrame
from ..plan.node import Order
from ..plan.window import OrderedCall, OrderedWindow, WindowFunction
from .rowkeys import Codes, RowKeys, Rows, number_keys
from .window_frames import Frames, Mask
from .window_picks import CountedRows
from .window_sequence import ChangedSpans, RowSequence


@dataclass(frozen=True, slots=True)
class Reach:
    """The frames of the rows whose value may change.

    ``lacks_before``, ``lacks_after``: for each island whether rows that may matter are not known.
    """

    frames: Frames
    lacks_before: Mask
    lacks_after: Mask


class ValueReach:
    """Finds the frames of a call over a frame of values."""

    def __init__(self, node: OrderedWindow, frame: ValueFrame) -> None:
        self._group, (self._order,) = node.group, node.order
        fields = node.child.fields
        self._keys = self._row_keys(fields, self._order.name)
        self._lower, self._upper = (
            self._row_keys(fields, self._order.name if bound is None else bound.field)
            for bound in (frame.lower, frame.upper)
        )

    def _row_keys(self, fields: Sequence[types.Field], name: str) -> RowKeys:
        """Return the partition and a field that sorts as the order does."""
        return RowKeys(fields, (*map(Order, self._group), replace(self._order, name=name)))

    def find(self, sequence: RowSequence) -> Reach:
        """Return the frames of the inserted rows, and of those in whose frames a change is."""
        codes = self._codes(sequence)
        first_changes = np.searchsorted(codes.changed, codes.lowers, "left")
        has_change = np.searchsorted(codes.changed, codes.uppers, "right") > first_changes
        is_new = sequence.is_inserted & sequence.is_changed
        rows = np.flatnonzero((sequence.row_islands >= 0) & (has_change | is_new))
        starts = np.searchsorted(codes.values, codes.lowers[rows], "left")
        stops = np.searchsorted(codes.values, codes.uppers[rows], "right")
        frames = sequence.clipped(rows, starts, stops)
        lacks_before, lacks_after = _find_lacking(sequence, rows, codes)
        return Reach(frames, lacks_before, lacks_after)

    def _codes(self, sequence: RowSequence) -> _Codes:
        rows = sequence.rows
        parts = (
            (self._keys, rows),
            (self._lower, rows),
            (self._upper, rows),
            (self._keys, sequence.positions),
            (self._keys, sequence.bounds.rows),
        )
        codes, _ = number_keys([keys.encode(part) for keys, part in parts])
        return _Codes(*codes)


@dataclass(frozen=True, slots=True)
class _Codes:
    """Numbers of values of the order, ascending with them within and across partitions.

    ``values``, ``lowers``, ``uppers``: of each row and of its bounds. ``changed``: where changes
    are; ``read``: around which of them rows are read.
    """

    values: Codes
    lowers: Codes
    uppers: Codes
    changed: Codes
    read: Codes


def _find_lacking(sequence: RowSequence, rows: Rows, codes: _Codes) -> tuple[Mask, Mask]:
    """Return which islands lack rows before them, and after them; ``rows``: those computed."""
    islands = sequence.islands
    starts, stops = sequence.extents
    is_filled = stops > starts
    lacks_before, lacks_after = ~is_filled, ~is_filled
    filled = np.flatnonzero(is_filled)
    firsts, lasts = starts[filled], stops[filled] - 1
    own_islands = sequence.row_islands[rows]
    least = np.full(len(islands), np.iinfo(np.int64).max)
    least[own_islands[::-1]] = codes.lowers[rows[::-1]]
    greatest = np.full(len(islands), -1)
    greatest[own_islands] = codes.uppers[rows]
    # A row before the first has no greater bounds, and one after the last no lesser ones.
    first_changes = codes.read[islands.first_bounds[filled]]
    last_changes = codes.read[islands.last_bounds[filled]]
    lacks_before[filled] = codes.uppers[firsts] >= first_changes
    lacks_before[filled] |= least[filled] <= codes.values[firsts]
    lacks_after[filled] = codes.lowers[lasts] <= last_changes
    lacks_after[filled] |= greatest[filled] >= codes.values[lasts]
    return lacks_before & ~islands.is_at_start, lacks_after & ~islands.is_at_end


def find_shift_reach(call: OrderedCall, sequence: RowSequence, spans: ChangedSpans) -> Reach:
    """Return the frames of the rows for which lag and lead with IGNORE NULLS may change.

    They are those up to the n-th value before and after the changes.
    """
    counted = CountedRows.of(call, sequence.rows.column(call.argument or ""))
    firsts, ends = sequence.extents
    is_empty = ends == firsts
    before = counted.before[spans.starts] - counted.before[firsts]
    # Where a partition is read to its end there may be more changes up to there.
    islands = sequence.islands
    changed_stops = np.where(islands.is_at_end, ends, spans.changed_stops)
    after = counted.before[ends] - counted.before[changed_stops]
    is_lag = call.function is WindowFunction.LAG
    starts, stops = (spans.starts, ends) if is_lag else (firsts, changed_stops)
    rows = ragged.expand(starts, np.where(is_empty, 0, np.maximum(stops - starts, 0)))
    return Reach(
        sequence.whole_frames(rows),
        (is_empty | (before < call.offset)) & ~islands.is_at_start,
        (is_empty | (after < call.offset)) & ~islands.is_at_end,
    )
