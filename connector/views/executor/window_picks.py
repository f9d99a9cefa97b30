"""Window functions that return the value of one row: the first, the last, the n-th, one nearby.

Does not know: which rows are computed, or state tables.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..plan.window import OrderedCall, WindowFunction
from .rowkeys import Rows
from .window_frames import Columns, Frames, Mask, RowRuns


def take_or_null(values: pa.Array, rows: Rows, is_null: Mask) -> pa.Array:
    """Return the values at some rows, NULL where ``is_null`` says."""
    return values.take(pa.array(np.where(is_null, 0, rows), mask=is_null))


@dataclass(frozen=True, slots=True)
class CountedRows:
    """The rows that a function counts: all of them, or those whose argument is not NULL.

    ``rows``: their positions, and one more. ``before``: for each position, and the one after the
    last, how many of them are before it.
    """

    rows: Rows
    before: Rows

    @classmethod
    def of(cls, call: OrderedCall, values: pa.Array) -> CountedRows:
        """Return the rows that a function counts; ``values``: of its argument."""
        is_counted = np.ones(len(values), np.bool_)
        if call.ignores_nulls:
            is_counted = np.asarray(values.is_valid())
        rows = np.append(np.flatnonzero(is_counted), 0)
        return cls(rows, np.append(0, np.cumsum(is_counted)))

    def numbered(self, numbers: Rows, is_missing: Mask) -> Rows:
        """Return the positions of the counted rows with some numbers, from 0; 0 if missing."""
        return self.rows[np.where(is_missing, 0, numbers)]


def pick_from_frames(call: OrderedCall, values: pa.Array, frames: Frames) -> pa.Array:
    """Return the first, last or n-th value of each frame."""
    counted = CountedRows.of(call, values)
    first, stop = counted.before[frames.starts], counted.before[frames.stops]
    match call.function:
        case WindowFunction.FIRST_VALUE:
            numbers = first
        case WindowFunction.NTH_VALUE:
            numbers = first + call.offset - 1
        case _:
            numbers = stop - 1
    is_missing = (numbers < first) | (numbers >= stop)
    return take_or_null(values, counted.numbered(numbers, is_missing), is_missing)


def shift(call: OrderedCall, columns: Columns, frames: Frames) -> pa.Array:
    """Return the values of lag and lead; ``frames``: the known rows of each row's partition."""
    values = columns[call.argument or ""]
    counted = CountedRows.of(call, values)
    if call.function is WindowFunction.LAG:
        numbers = counted.before[frames.rows] - call.offset
    else:
        numbers = counted.before[frames.rows + 1] + call.offset - 1
    is_outside = numbers < counted.before[frames.starts]
    is_outside |= numbers >= counted.before[frames.stops]
    shifted = take_or_null(values, counted.numbered(numbers, is_outside), is_outside)
    if call.default is None or not is_outside.any():
        return shifted
    default = columns[call.default].take(pa.array(frames.rows))
    return pc.if_else(pa.array(is_outside), default, shifted)


def pick_running(
    call: OrderedCall, values: pa.Array, runs: RowRuns, lasts: Rows
) -> dict[str, pa.Array]:
    """Return the first or last value up to some rows; ``lasts``: for each row the last it reads."""
    carry = runs.carry.get(call.output.name)
    if call.function is WindowFunction.LAST_VALUE and not call.ignores_nulls:
        return {call.output.name: values.take(pa.array(lasts))}
    assert carry is not None, "the value of the row before is stored"
    counted = CountedRows.of(call, values)
    first, stop = counted.before[runs.starts], counted.before[lasts + 1]
    is_carried = stop == first
    if call.function is WindowFunction.FIRST_VALUE:
        has_value = np.asarray(carry.is_valid()) if call.ignores_nulls else ~runs.is_first
        is_carried |= has_value[runs.runs]
        numbers = first
    else:
        numbers = stop - 1
    rows = np.where(is_carried, len(values) + runs.runs, counted.numbered(numbers, is_carried))
    return {call.output.name: pa.concat_arrays([values, carry]).take(pa.array(rows))}


def pick_nth_running(
    call: OrderedCall, count_name: str, values: pa.Array, runs: RowRuns, lasts: Rows
) -> dict[str, pa.Array]:
    """Return the n-th value up to some rows, and how many rows are counted, n at most."""
    name, nth = call.output.name, call.offset
    counted = CountedRows.of(call, values)
    first, stop = counted.before[runs.starts], counted.before[lasts + 1]
    carried_counts = np.asarray(pc.fill_null(runs.carry[count_name], 0))[runs.runs]
    counts = np.minimum(carried_counts + stop - first, nth)
    is_carried = carried_counts == nth
    is_missing = counts < nth
    numbers = first + nth - carried_counts - 1
    own_rows = counted.numbered(numbers, is_missing | is_carried)
    rows = np.where(is_carried, len(values) + runs.runs, own_rows)
    all_values = pa.concat_arrays([values, runs.carry[name]])
    return {name: take_or_null(all_values, rows, is_missing), count_name: pa.array(counts)}
