"""Windows: the values of functions over sorted partitions, from the first changed row on.

The state holds every row with its values. A changed row changes the values of the rows near it: as
far as bounded frames reach, and for functions that run, up to the row whose value is what it was.
If that is not among the rows that are read at first, the partition is read to its end.

Promises: only rows whose values change are written and emitted.
Does not know: how a function is computed (window_values), or which rows are read (islands).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from relstate.storage import ragged

from ..plan.window import SHIFTS, OrderedWindow
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
from .islands import Bounds, read_islands
from .rowkeys import (
    RowKeys,
    first_positions,
    mark_codes,
    number_keys,
    number_sorted_keys,
)
from .state import State
from .window_layout import WindowLayout
from .window_sequence import ChangedSpans, Effects, RowSequence
from .window_values import Frames, RowRuns, WindowValues

# Rows that are read at least before and after a changed row, if a function runs: often what it
# carries on is what it was after a few rows.
_LEAST_ROWS = 64


@dataclass(frozen=True, slots=True)
class _Values:
    """Columns of values for all rows of a sequence, and which rows were computed again."""

    columns: dict[str, pa.Array]
    is_computed: Mask


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
        self._width = max(high - low + 1, _LEAST_ROWS if node.is_running else 1)
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
        """Return the changes of the rows with their values.

        ConsistencyError if a deleted row does not exist, or an inserted one already exists;
        ValueRangeError if a sum does not fit its type.
        """
        rows = chunk.select(list(self.node.child.names))
        changes = Changes.of(rows, insert_mask(chunk), self._keys, self.label)
        if not len(changes):
            return empty_chunk(self._schema)
        effects = self._effects(changes)
        while True:
            sequence = self._read(effects)
            spans = ChangedSpans.of(sequence, self._positions)
            values = self._compute(sequence, spans)
            is_open = self._find_open(sequence, spans, values)
            if not is_open.any():
                return self._finish(sequence, values)
            open_bounds = sequence.islands.first_bounds[is_open]
            groups = effects.bounds.groups[open_bounds]
            effects = effects.to_end(open_bounds[first_positions(groups)])

    # What is read

    def _effects(self, changes: Changes) -> Effects:
        """Return which changes can change values, and their positions."""
        is_effective = self._find_effective(changes)
        effective = changes.filtered(is_effective)
        numbers = number_sorted_keys(self._positions.encode(effective.rows))
        firsts = pa.array(first_positions(numbers))
        rows = effective.rows.take(firsts).select(list(self._positions.names))
        counts = np.full(rows.num_rows, self._width + 1)
        (state,) = self.states
        if self.node.is_by_place and rows.num_rows and not state.is_empty:
            owners, _ = state.prefix_scan(rows, self._groups.names[:1])
            counts += np.bincount(owners, minlength=rows.num_rows)
        groups = number_sorted_keys(self._groups.encode(rows))
        bound_of_changes = np.zeros(len(changes), np.int64)
        bound_of_changes[is_effective] = numbers
        return Effects(changes, is_effective, Bounds(rows, groups, counts), bound_of_changes)

    def _find_effective(self, changes: Changes) -> Mask:
        """Return which changes can change values: updates that keep key and arguments do not."""
        is_effective = np.ones(len(changes), np.bool_)
        updates = np.flatnonzero(ragged.equal_neighbours(changes.keys))
        rows = changes.rows
        is_same = equal_rows(self._layout.inputs, rows, updates, rows, updates + 1)
        is_effective[updates[is_same]] = is_effective[updates[is_same] + 1] = False
        return is_effective

    def _read(self, effects: Effects) -> RowSequence:
        """Return the rows around the changes, as they are after them."""
        (state,) = self.states
        changes, schema = effects.changes, self._layout.schema
        group = len(self.node.group)
        islands = read_islands(state, effects.bounds, self._width, self._keys, schema, group)
        updated = changes.filtered(~effects.is_effective & ~changes.inserts)
        if len(updated) and not state.is_empty:
            _, rows = state.get_rows(updated.rows.select(list(self._keys.names)), schema.names)
            islands = islands.with_rows(with_schema(rows, schema), self._keys)
        (stored_codes, codes), count = number_keys([islands.keys, changes.keys])
        check_fits_state(self.label, changes, self._keys, codes, mark_codes(stored_codes, count))
        return RowSequence.of(effects, islands, stored_codes, codes, count)

    # What is computed

    def _compute(self, sequence: RowSequence, spans: ChangedSpans) -> _Values:
        """Return the values of all rows."""
        columns = dict(zip(self.node.child.names, sequence.rows.columns, strict=True))
        near = sequence.rows_near_changes(*self.node.reach)
        span_rows = spans.rows
        inside = {name: column.take(pa.array(span_rows)) for name, column in columns.items()}
        runs = self._runs(sequence, spans)
        values: dict[str, pa.Array] = {}
        for function in self._functions:
            call, name = function.call, function.call.output.name
            rows = span_rows if call.is_running or call.is_by_place else near
            if call.is_running:
                computed = function.running_values(inside, runs)
            elif call.is_by_place:
                frames = Frames(np.arange(len(rows)), runs.place_starts, runs.place_stops)
                computed = {name: function.frame_values(inside, frames)}
            elif call.function in SHIFTS:
                computed = {name: function.shifted_values(columns, sequence.whole_frames(rows))}
            else:
                assert call.frame is not None
                assert call.frame.start is not None
                frames = sequence.frames(rows, call.frame.start, call.frame.end + 1)
                computed = {name: function.frame_values(columns, frames)}
            values |= {
                field: sequence.with_stored(field, rows, column)
                for field, column in computed.items()
            }
        is_computed = sequence.is_inserted.copy()
        is_computed[near] = is_computed[span_rows] = True
        return _Values(values, is_computed)

    def _runs(self, sequence: RowSequence, spans: ChangedSpans) -> RowRuns:
        rows = sequence.rows.take(pa.array(spans.rows))
        places = number_sorted_keys(self._places.encode(rows))
        before = spans.before[spans.filled]
        carry = {
            field.name: sequence.stored_values(field.name, before) for field in self._layout.carried
        }
        return RowRuns(spans.runs, places, carry, before < 0)

    def _find_open(self, sequence: RowSequence, spans: ChangedSpans, values: _Values) -> Mask:
        """Return after which islands the next row follows from another value than before."""
        carried = self._layout.carried
        if not carried:
            return np.zeros(len(spans.starts), np.bool_)
        stored = sequence.islands.rows
        # The row before the next one: now (in the sequence or before the span), and before.
        now = np.where(spans.stops > spans.starts, stored.num_rows + spans.stops - 1, spans.before)
        is_open: Mask = (now != spans.old_ends) & ~spans.is_to_end
        both = np.flatnonzero(is_open & (now >= 0) & (spans.old_ends >= 0))
        rows = pa.RecordBatch.from_arrays(
            [
                pa.concat_arrays([stored.column(field.name), values.columns[field.name]])
                for field in carried
            ],
            names=[field.name for field in carried],
        )
        is_open[both] = ~equal_rows(carried, rows, spans.old_ends[both], rows, now[both])
        return is_open

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
