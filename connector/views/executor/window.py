"""Windows: the values of functions over sorted partitions, from the first changed row on.

The state holds every row with its values. A changed row changes the values of the rows near it: as
far as bounded frames reach, and for functions that run, up to the row whose value is what it was.
If that is not among the rows that are read at first, more of them are read: to the end of the
partition where the value will not be what it was, else a multiple of the rows each time. Partitions
are processed some at a time, by how many rows are read (portions).

Promises: only rows whose values change are written and emitted; as many rows are held as a portion
has, or one partition.
Does not know: how a function is computed (window_values), or which rows are read (islands).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from relstate.storage import ragged

from ..plan.frame import Frame, ValueFrame
from ..plan.window import SHIFTS, OrderedCall, OrderedWindow, WindowFunction
from .changes import (
    Changes,
    Mask,
    chunk_schema,
    empty_chunk,
    equal_rows,
    insert_mask,
    make_chunk,
    with_schema,
)
from .executor import Executor, StateTableSpec, check_fits_state
from .islands import EVERYTHING, Bounds, Islands, read_islands
from .portions import HELD_ROWS, Portions
from .rowkeys import (
    Codes,
    RowKeys,
    Rows,
    first_positions,
    first_row_per_code,
    mark_codes,
    number_keys,
    number_sorted_keys,
)
from .state import State
from .window_ends import SpanEnds
from .window_frames import Columns, Frames, RowRuns
from .window_layout import WindowLayout
from .window_reach import Reach, ValueReach, find_shift_reach
from .window_sequence import ChangedSpans, Effects, RowSequence
from .window_values import WindowValues

# Rows that are read at least before and after a changed row, if the values of rows decide how far
# its effect reaches: often that is a few rows.
_LEAST_ROWS = 64
# How many times as many rows are read if they were too few, and how often for a function that runs
# before its partition is read to the end.
_GROWTH = 8
_MOST_ROUNDS = 4
# How many times the rows of a portion are held before it is too large.
_SPARE = 4


@dataclass(frozen=True, slots=True)
class _Values:
    """Columns of values for all rows of a sequence, and which rows were computed again."""

    columns: dict[str, pa.Array]
    is_computed: Mask


@dataclass(frozen=True, slots=True)
class _Output:
    """The changes of the rows of a portion, and how many rows were held for it."""

    chunk: pa.RecordBatch
    rows_held: int


class WindowExecutor(Executor[OrderedWindow]):
    """The rows of a unit's partitions with the values of the functions."""

    label = "window"

    def __init__(self, node: OrderedWindow, states: Sequence[State], is_ansi: bool = True) -> None:
        super().__init__(node, states, is_ansi)
        self._layout = layout = WindowLayout(node)
        fields, order = node.child.fields, layout.order
        self._keys = RowKeys(fields, order)
        self._groups = RowKeys(fields, order[: len(node.group)])
        places = {*node.group, *(column.name for column in node.order)}
        self._places = RowKeys(fields, order[: len(places)])
        self._positions = self._places if node.is_by_place else self._keys
        low, high = node.reach
        near = high - low + 1
        self._before = max(near, _LEAST_ROWS if node.reaches_by_value else 1)
        self._after = max(near, _LEAST_ROWS if node.reaches_by_value or node.is_running else 1)
        # Whether most partitions were read to their end, as then the next ones will be.
        self._expects_ends = False
        self._value_reaches = {
            call.output.name: ValueReach(node, call.frame)
            for call in node.calls
            if isinstance(call.frame, ValueFrame)
        }
        self._functions = [
            WindowValues(
                call,
                layout.argument_type(call),
                tuple(field.name for field in layout.carried_by(call)),
                is_ansi,
            )
            for call in node.calls
        ]
        self._schema = chunk_schema(node.fields)

    @classmethod
    def tables(cls, node: OrderedWindow) -> tuple[StateTableSpec, ...]:
        """The child's rows with the values of the functions, by their partitions and in order."""
        return (WindowLayout(node).table,)

    def run(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batches of `batches` as one."""
        return pa.concat_batches([empty_chunk(self._schema), *self.batches(chunk)])

    def batches(self, chunk: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the changes of the rows with their values, some partitions at a time.

        ConsistencyError if a deleted row does not exist, or an inserted one already exists;
        ValueRangeError if a sum does not fit its type.
        """
        rows = chunk.select(list(self.node.child.names))
        changes = Changes.of(rows, insert_mask(chunk), self._keys, self.label)
        groups = number_sorted_keys(self._groups.encode(changes.rows))
        portions = Portions(first_positions(groups), len(changes))
        while not portions.is_done:
            portion = portions.take()
            most = EVERYTHING if portion.is_one_group else _SPARE * HELD_ROWS
            output = self._run_portion(changes.slice(portion.start, portion.stop), most)
            if output is None:
                portions.too_large()
                continue
            portions.done(output.rows_held)
            yield output.chunk

    def _run_portion(self, changes: Changes, most: int) -> _Output | None:
        """Return what changes of whole partitions make; None if more than ``most`` rows are read.

        Then nothing is written.
        """
        effects = self._effects(changes)
        if self._expects_ends and len(effects.bounds):
            firsts = first_positions(effects.bounds.groups)
            effects = effects.to_end(firsts, most // len(firsts))
        rounds = 0
        while True:
            sequence = self._read(effects, most)
            if sequence is None:
                return None
            spans = ChangedSpans.of(sequence)
            reaches = self._reaches(sequence, spans)
            widened = _widened(sequence, list(reaches.values()))
            if widened is not None:
                effects = effects.with_bounds(widened)
                continue
            values = self._compute(sequence, spans, reaches)
            ends = SpanEnds.of(sequence, spans, values.columns, self._layout.carried)
            is_open = ends.differ(self._layout.carried)
            if not is_open.any():
                return _Output(self._finish(sequence, values), len(sequence))
            rounds += 1
            effects = self._read_on(effects, sequence, ends, is_open, rounds, most)

    # What is read

    def _effects(self, changes: Changes) -> Effects:
        """Return which changes can change values, and their positions."""
        is_effective = self._find_effective(changes)
        effective = changes.filtered(is_effective)
        numbers = number_sorted_keys(self._positions.encode(effective.rows))
        firsts = pa.array(first_positions(numbers))
        rows = effective.rows.take(firsts).select(list(self._positions.names))
        ties = np.zeros(rows.num_rows, np.int64)
        (state,) = self.states
        if self.node.is_by_place and rows.num_rows and not state.is_empty:
            owners, _ = state.prefix_scan(rows, self._groups.names[:1])
            ties = np.bincount(owners, minlength=rows.num_rows)
        groups = number_sorted_keys(self._groups.encode(rows))
        bound_of_changes = np.zeros(len(changes), np.int64)
        bound_of_changes[is_effective] = numbers
        bounds = Bounds.of(rows, groups, self._before, self._after + 1 + ties)
        return Effects(changes, is_effective, rows, bounds, bound_of_changes)

    def _find_effective(self, changes: Changes) -> Mask:
        """Return which changes can change values: updates that keep key and arguments do not."""
        is_effective = np.ones(len(changes), np.bool_)
        updates = np.flatnonzero(ragged.equal_neighbours(changes.keys))
        rows = changes.rows
        is_same = equal_rows(self._layout.inputs, rows, updates, rows, updates + 1)
        is_effective[updates[is_same]] = is_effective[updates[is_same] + 1] = False
        return is_effective

    def _read(self, effects: Effects, most: int) -> RowSequence | None:
        """Return the rows around the changes, as they are after them.

        None if more than ``most`` are read: changed rows of a partition that is cut may be missing.
        """
        (state,) = self.states
        changes, schema = effects.changes, self._layout.schema
        group = len(self.node.group)
        islands = read_islands(state, effects.bounds, self._keys, schema, group)
        if islands.rows.num_rows > most or islands.are_cut(effects.bounds):
            return None
        updated = changes.filtered(~effects.is_effective & ~changes.inserts)
        if len(updated) and not state.is_empty:
            _, rows = state.get_rows(updated.rows.select(list(self._keys.names)), schema.names)
            islands = islands.with_rows(with_schema(rows, schema), self._keys)
        (stored_codes, codes), count = number_keys([islands.keys, changes.keys])
        check_fits_state(self.label, changes, self._keys, codes, mark_codes(stored_codes, count))
        code_places = np.arange(count)
        if self.node.is_by_place:
            code_places = self._number_places(islands, changes, stored_codes, codes, count)
        return RowSequence.of(effects, islands, stored_codes, codes, code_places)

    def _number_places(
        self, islands: Islands, changes: Changes, stored_codes: Codes, codes: Codes, count: int
    ) -> Codes:
        """Return for each number of a key that of the place of its rows."""
        places = [self._places.encode(rows) for rows in (islands.rows, changes.rows)]
        all_codes = np.concatenate([stored_codes, codes])
        first_rows = first_row_per_code(all_codes, np.arange(len(all_codes)), count)
        return number_sorted_keys(pa.concat_arrays(places).take(pa.array(first_rows)))

    def _reaches(self, sequence: RowSequence, spans: ChangedSpans) -> dict[str, Reach]:
        """Return by their outputs how far the calls reach that values decide it of."""
        return {
            call.output.name: self._value_reaches[call.output.name].find(sequence)
            if isinstance(call.frame, ValueFrame)
            else find_shift_reach(call, sequence, spans)
            for call in self.node.calls
            if call.reaches_by_value
        }

    def _read_on(
        self,
        effects: Effects,
        sequence: RowSequence,
        ends: SpanEnds,
        is_open: Mask,
        rounds: int,
        most: int,
    ) -> Effects:
        """Return the changes with more rows after them, in the islands after which values change.

        ``rounds``: how often rows were computed; ``most``: how many rows may be read.
        """
        islands, bounds = sequence.islands, effects.bounds
        groups = bounds.groups[islands.first_bounds]
        is_endless = self._find_endless(ends, groups)
        if rounds > _MOST_ROUNDS:
            is_endless = is_open
        endless_groups = mark_codes(groups[is_endless], int(groups[-1]) + 1)
        is_endless = endless_groups[groups]
        lasts = islands.last_bounds[is_open & ~is_endless]
        bounds = bounds.read_on(lasts, _LEAST_ROWS * _GROWTH**rounds)
        open_bounds = islands.first_bounds[is_open & is_endless]
        from_bounds = open_bounds[first_positions(bounds.groups[open_bounds])]
        self._expects_ends |= 2 * len(from_bounds) > int(bounds.groups[-1]) + 1
        share = most // max(len(from_bounds), 1)
        return effects.with_bounds(bounds).to_end(from_bounds, share)

    def _find_endless(self, ends: SpanEnds, groups: Codes) -> Mask:
        """Return the islands in whose partition a value will not be what it was any more."""
        is_endless = np.zeros(len(groups), np.bool_)
        for call in self.node.calls:
            fields = self._layout.carried_by(call)
            if call.can_settle:
                continue
            if call.function is WindowFunction.FIRST_VALUE:
                is_endless |= ends.differ(fields)
            else:
                for field in fields:
                    is_endless |= ends.remain(field, groups)
        return is_endless

    # What is computed

    def _compute(
        self, sequence: RowSequence, spans: ChangedSpans, reaches: Mapping[str, Reach]
    ) -> _Values:
        """Return the values of all rows."""
        columns = dict(zip(self.node.child.names, sequence.rows.columns, strict=True))
        near = sequence.rows_near_changes(*self.node.reach)
        span_rows = spans.rows
        inside = {name: column.take(pa.array(span_rows)) for name, column in columns.items()}
        runs = self._runs(sequence, spans)
        values: dict[str, pa.Array] = {}
        is_computed = sequence.is_inserted.copy()
        is_computed[near] = is_computed[span_rows] = True
        for function in self._functions:
            call, name = function.call, function.call.output.name
            if call.is_running or call.is_by_place:
                rows = span_rows
                computed = self._span_values(function, inside, runs)
            else:
                frames = self._frames(call, sequence, near, reaches)
                rows = frames.rows
                computed = {name: function.values(columns, frames)}
                is_computed[rows] = True
            values |= {
                field: sequence.with_stored(field, rows, column)
                for field, column in computed.items()
            }
        return _Values(values, is_computed)

    def _span_values(
        self, function: WindowValues, columns: Columns, runs: RowRuns
    ) -> dict[str, pa.Array]:
        """Return the columns of a function that is computed from place to place."""
        if function.call.is_running:
            return function.running_values(columns, runs)
        rows = np.arange(len(runs.runs))
        frames = Frames(rows, runs.place_starts, runs.place_stops)
        return {function.call.output.name: function.values(columns, frames)}

    def _frames(
        self,
        call: OrderedCall,
        sequence: RowSequence,
        near: Rows,
        reaches: Mapping[str, Reach],
    ) -> Frames:
        """Return the rows that a call is computed for; ``near``: those near a change."""
        if call.reaches_by_value:
            return reaches[call.output.name].frames
        if call.function in SHIFTS:
            return sequence.whole_frames(near)
        assert isinstance(call.frame, Frame)
        assert call.frame.start is not None
        return sequence.frames(near, call.frame.start, call.frame.end + 1)

    def _runs(self, sequence: RowSequence, spans: ChangedSpans) -> RowRuns:
        rows = sequence.rows.take(pa.array(spans.rows))
        places = number_sorted_keys(self._places.encode(rows))
        before = spans.before[spans.filled]
        carry = {
            field.name: sequence.stored_values(field.name, before) for field in self._layout.carried
        }
        return RowRuns(spans.runs, places, carry, before < 0)

    # What is written and emitted

    def _finish(self, sequence: RowSequence, values: _Values) -> pa.RecordBatch:
        """Write the rows that changed and return their changes."""
        stored, schema = sequence.islands.rows, self._layout.schema
        touched = np.flatnonzero(values.is_computed)
        columns = dict(zip(self.node.child.names, sequence.rows.columns, strict=True))
        columns |= values.columns
        after = pa.RecordBatch.from_arrays(
            [columns[name].take(pa.array(touched)) for name in schema.names], schema=schema
        )
        sources = sequence.sources[touched]
        existing = np.flatnonzero(sources >= 0)
        before = stored.take(pa.array(sources[existing]))
        pairs = before, np.arange(len(existing)), after, existing
        is_written, is_emitted = np.ones((2, len(touched)), np.bool_)
        is_written[existing] = ~equal_rows(self._layout.values, *pairs)
        is_emitted[existing] = ~equal_rows(self._layout.shown_values, *pairs)
        gone = stored.take(pa.array(sequence.gone))
        self._write(after.filter(pa.array(is_written)), gone)
        deletes = before.filter(pa.array(is_emitted[existing]))
        inserts = after.filter(pa.array(is_emitted))
        names = list(self.node.names)
        rows = pa.concat_batches([batch.select(names) for batch in (gone, deletes, inserts)])
        return make_chunk(
            self._schema, rows, np.arange(rows.num_rows) >= rows.num_rows - inserts.num_rows
        )

    def _write(self, rows: pa.RecordBatch, gone: pa.RecordBatch) -> None:
        written = pa.concat_batches([rows, gone])
        if written.num_rows:
            deleted = np.arange(written.num_rows) >= rows.num_rows
            self.states[0].write(written, deleted if deleted.any() else None)


def _widened(sequence: RowSequence, reaches: Sequence[Reach]) -> Bounds | None:
    """Return bounds around which more rows are read; None if all that matter are known."""
    if not reaches:
        return None
    islands = sequence.islands
    lacks_before = np.logical_or.reduce([reach.lacks_before for reach in reaches])
    lacks_after = np.logical_or.reduce([reach.lacks_after for reach in reaches])
    if not (lacks_before.any() or lacks_after.any()):
        return None
    firsts, lasts = islands.first_bounds[lacks_before], islands.last_bounds[lacks_after]
    return sequence.bounds.widened(firsts, lasts, _GROWTH)
