"""The rows of sorted partitions after an epoch, around its changes.

Promises: a row near a change has all rows of its partition around it that the functions of a window
read; what is not computed again is as it is stored.
Does not know: functions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from relstate.storage import ragged

from .changes import Changes, Mask, with_schema
from .islands import Bounds, Islands
from .rowkeys import (
    Codes,
    Rows,
    first_positions,
    first_row_per_code,
    mark_codes,
    number_runs,
)
from .window_frames import Frames


@dataclass(frozen=True, slots=True)
class Effects:
    """The changes of an epoch, and where they are.

    ``is_effective``: for each change whether it can change the values of functions. ``positions``:
    those of all of these. ``bounds``: the positions around which rows are read;
    ``bound_of_changes``: the number of each one's own, 0 for the others.
    """

    changes: Changes
    is_effective: Mask
    positions: pa.RecordBatch
    bounds: Bounds
    bound_of_changes: Rows

    def to_end(self, from_bounds: Rows, most: int) -> Effects:
        """Return the changes of partitions that are read to their end, as `Bounds.to_end`."""
        bounds, numbers = self.bounds.to_end(from_bounds, most)
        own = np.where(self.is_effective, numbers[self.bound_of_changes], 0)
        return replace(self, bounds=bounds, bound_of_changes=own)

    def with_bounds(self, bounds: Bounds) -> Effects:
        """Return the changes with as many bounds, of which more is read."""
        return replace(self, bounds=bounds)


@dataclass(frozen=True, slots=True)
class Places:
    """Numbers of places: ascending, one for all rows that tie.

    ``rows``: of each row of a sequence. ``stored``: of each row of the islands, before the epoch.
    ``bounds``: of each bound.
    """

    rows: Codes
    stored: Codes
    bounds: Codes

    @classmethod
    def of(
        cls,
        effects: Effects,
        row_codes: Codes,
        stored_codes: Codes,
        codes: Codes,
        code_places: Codes,
    ) -> Places:
        """Return the places of numbered keys; a bound is where the first of its changes is."""
        own = effects.bound_of_changes[effects.is_effective]
        effective_codes = codes[effects.is_effective]
        bound_codes = first_row_per_code(own, effective_codes, len(effects.bounds))
        return cls(code_places[row_codes], code_places[stored_codes], code_places[bound_codes])


@dataclass(frozen=True, slots=True)
class RowSequence:
    """Rows in the order of their keys.

    ``sources``: the stored row of each, before the epoch, -1 if there was none. ``row_islands``:
    the island of each, -1 for a row that was read alone. ``is_inserted``: whether a change inserts
    it. ``is_changed``: whether it is where an effective change is. ``gone``: the stored rows that
    exist no more. ``places``: the number of the place of each row, of each stored row and of each
    bound. ``positions``, ``bounds``: as in `Effects`.
    """

    rows: pa.RecordBatch
    sources: Rows
    row_islands: Codes
    is_inserted: Mask
    is_changed: Mask
    gone: Rows
    places: Places
    islands: Islands
    positions: pa.RecordBatch
    bounds: Bounds

    def __len__(self) -> int:
        return len(self.sources)

    @classmethod
    def of(
        cls,
        effects: Effects,
        islands: Islands,
        stored_codes: Codes,
        codes: Codes,
        code_places: Codes,
    ) -> RowSequence:
        """Return the rows after the changes.

        ``stored_codes``, ``codes``: numbers of the keys of the stored rows and of the changes.
        ``code_places``: for each of these numbers that of its place.
        """
        count = len(code_places)
        changes = effects.changes
        is_deleted = mark_codes(codes[~changes.inserts], count)[stored_codes]
        remaining, inserted = np.flatnonzero(~is_deleted), np.flatnonzero(changes.inserts)
        stored_of_code = first_row_per_code(stored_codes, np.arange(len(stored_codes)), count)
        own_islands = _islands_of_changes(effects, islands, stored_of_code[codes])
        row_codes = np.concatenate([stored_codes[remaining], codes[inserted]])
        order = np.argsort(row_codes, kind="stable")
        row_codes = row_codes[order]
        row_islands = np.concatenate([islands.row_islands[remaining], own_islands[inserted]])[order]
        schema = changes.rows.schema
        rows = pa.concat_batches([with_schema(islands.rows, schema), changes.rows])
        positions = np.concatenate([remaining, inserted + len(stored_codes)])[order]
        is_inserted = order >= len(remaining)
        is_changed = is_inserted.copy()
        is_changed[is_inserted] = effects.is_effective[
            inserted[order[is_inserted] - len(remaining)]
        ]
        # A deleted row has an effect on the rows before and after it.
        gone = np.flatnonzero(effects.is_effective & ~changes.inserts)
        after = np.searchsorted(row_codes, codes[gone])
        for near in (after - 1, after):
            is_there = (near >= 0) & (near < len(order))
            near, own = near[is_there], own_islands[gone[is_there]]
            is_changed[near[row_islands[near] == own]] = True
        is_replaced = mark_codes(codes[inserted], count)[stored_codes]
        return cls(
            rows.take(pa.array(positions)),
            stored_of_code[row_codes],
            row_islands,
            is_inserted,
            is_changed,
            np.flatnonzero(is_deleted & ~is_replaced),
            Places.of(effects, row_codes, stored_codes, codes, code_places),
            islands,
            effects.positions,
            effects.bounds,
        )

    # Rows by their island

    @property
    def extents(self) -> tuple[Rows, Rows]:
        """For each island its first row, and the one after its last; 0 and 0 if it has none."""
        count = len(self.islands)
        # Rows without an island are in the spare item.
        sizes = np.bincount(self.row_islands + 1, minlength=count + 1)[1:]
        starts = np.zeros(count + 1, np.int64)
        starts[self.row_islands[::-1]] = np.arange(len(self))[::-1]
        return starts[:-1], starts[:-1] + sizes

    @property
    def island_bounds(self) -> tuple[Rows, Rows]:
        """For each row the first row of its island, and the one after the last."""
        firsts = first_positions(self.row_islands)
        numbers = number_runs(self.row_islands)
        stops = np.append(firsts[1:], len(self))
        return firsts[numbers], stops[numbers] if len(self) else numbers

    def frames(self, rows: Rows, first: int, stop: int) -> Frames:
        """Return the frames of some rows from ``first`` up to ``stop`` rows after each.

        They end where their island does.
        """
        return self.clipped(rows, rows + first, rows + stop)

    def clipped(self, rows: Rows, starts: Rows, stops: Rows) -> Frames:
        """Return the frames of some rows from ``starts`` up to ``stops``, within their islands."""
        low, high = (bounds[rows] for bounds in self.island_bounds)
        starts = np.clip(starts, low, high)
        return Frames(rows, starts, np.maximum(np.clip(stops, low, high), starts))

    def whole_frames(self, rows: Rows) -> Frames:
        """Return for some rows the rows of their islands."""
        low, high = (bounds[rows] for bounds in self.island_bounds)
        return Frames(rows, low, high)

    def rows_near_changes(self, first: int, last: int) -> Rows:
        """Return the rows with a change from ``first`` to ``last`` rows after them."""
        frames = self.frames(np.arange(len(self)), first, last + 1)
        changed = np.append(0, np.cumsum(self.is_changed))
        return np.flatnonzero(changed[frames.stops] > changed[frames.starts])

    # Stored values

    def stored_before(self, starts: Rows) -> Rows:
        """Return for each island the stored row before ``starts[i]``, -1 if it has none."""
        before = starts - 1
        is_own = before >= 0
        islands = np.arange(len(starts))
        is_own[is_own] = self.row_islands[before[is_own]] == islands[is_own]
        result = np.full(len(starts), -1)
        result[is_own] = self.sources[before[is_own]]
        return result

    def stored_values(self, name: str, rows: Rows) -> pa.Array:
        """Return a column of stored rows; NULL where the number of the row is negative."""
        column = self.islands.rows.column(name)
        return column.take(pa.array(np.where(rows < 0, 0, rows), mask=rows < 0))

    def with_stored(self, name: str, rows: Rows, values: pa.Array) -> pa.Array:
        """Return a column with ``values`` in some rows, and as it is stored in the others."""
        stored = self.islands.rows.column(name)
        positions = self.sources.copy()
        positions[rows] = np.arange(len(rows)) + len(stored)
        return pa.concat_arrays([stored, values]).take(pa.array(positions, mask=positions < 0))


def _islands_of_changes(effects: Effects, islands: Islands, stored: Rows) -> Codes:
    """Return the island of each change; ``stored``: the stored row with its key, -1 if none."""
    own = np.full(len(stored), -1)
    if len(effects.bounds):
        own = islands.bound_islands[effects.bound_of_changes]
    is_alone = ~effects.is_effective
    own[is_alone] = islands.row_islands[stored[is_alone]]
    return own


@dataclass(frozen=True, slots=True)
class ChangedSpans:
    """For each island the rows from its first changed place on: what runs is computed for.

    They end with the last changed place, with the partition, or in an island that is read on with
    the last place that is known whole. ``starts``, ``stops``: rows of the sequence;
    ``changed_stops``: the row after the last changed place. ``before``: the stored row before the
    start, -1 if the partition starts there. ``old_ends``: the stored row at the end of the same
    places before the epoch, -1 if there was none.
    """

    starts: Rows
    stops: Rows
    changed_stops: Rows
    before: Rows
    old_ends: Rows

    @classmethod
    def of(cls, sequence: RowSequence) -> ChangedSpans:
        """Return the spans."""
        islands, places = sequence.islands, sequence.places
        lasts = places.bounds[islands.last_bounds]
        starts = np.searchsorted(places.rows, places.bounds[islands.first_bounds], "left")
        changed_stops = np.maximum(np.searchsorted(places.rows, lasts, "right"), starts)
        old_ends = np.searchsorted(places.stored, lasts, "right") - 1
        is_own = old_ends >= 0
        numbers = np.arange(len(islands))
        is_own[is_own] = islands.row_islands[old_ends[is_own]] == numbers[is_own]
        before = sequence.stored_before(starts)
        spans = cls(starts, changed_stops, changed_stops, before, np.where(is_own, old_ends, -1))
        return spans._read_on(sequence)

    def _read_on(self, sequence: RowSequence) -> ChangedSpans:
        """Return the spans up to where the values may change."""
        islands, bounds, places = sequence.islands, sequence.bounds, sequence.places.rows
        _, island_stops = sequence.extents
        is_at_end = islands.is_at_end
        stops = np.where(is_at_end, np.maximum(self.stops, island_stops), self.stops)
        open_islands = np.flatnonzero(
            bounds.is_read_on[islands.last_bounds] & ~is_at_end & (island_stops > self.stops)
        )
        # Further rows of the last place may follow.
        last_places = places[island_stops[open_islands] - 1]
        cuts = np.searchsorted(places, last_places, "left")
        is_longer = cuts > self.stops[open_islands]
        open_islands, cuts = open_islands[is_longer], cuts[is_longer]
        stops[open_islands] = cuts
        old_ends = self.old_ends.copy()
        old_ends[open_islands] = sequence.sources[cuts - 1]
        return replace(self, stops=stops, old_ends=old_ends)

    @property
    def filled(self) -> Rows:
        """The islands that have rows in their span."""
        return np.flatnonzero(self.stops > self.starts)

    @property
    def rows(self) -> Rows:
        """The rows of all spans."""
        return ragged.expand(self.starts, self.stops - self.starts)

    @property
    def runs(self) -> Codes:
        """For each of `rows` the number of its span among those with rows."""
        sizes = (self.stops - self.starts)[self.filled]
        return np.repeat(np.arange(len(sizes)), sizes)
