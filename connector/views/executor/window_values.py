"""The values of window functions over sorted rows, as in Spark.

A function over a bounded frame is computed from the rows of each frame (`values`), one that
runs from the row before on (`running_values`).

Promises: whole numbers are exact; floats are added from the first row to the last, as Spark does.
Does not know: which rows are computed, or state tables.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from relstate.storage import KeyCodec, arrow, errors, types

from ..plan.node import Order
from ..plan.window import PICKS, SHIFTS, OrderedCall, WindowFunction
from . import exact
from .rowkeys import Rows, number_keys, number_runs, offsets_in_runs
from .window_frames import Columns, Frames, Mask, RowRuns
from .window_picks import (
    pick_from_frames,
    pick_nth_running,
    pick_running,
    shift,
    take_or_null,
)

Doubles = NDArray[np.float64]

# Up to this size the sums of runs and frames are added row by row of all of them at once.
_SHORT_RUN = 256


def carried_types(
    call: OrderedCall, argument: types.DataType | None
) -> tuple[tuple[str, types.DataType], ...]:
    """Return what is stored with a row besides the output so that the next one follows from it.

    Of each column an ending of its name, and its type. ``argument``: the type of the argument.
    """
    if call.function is WindowFunction.RANK:
        return (("position", types.BigInt()),)
    if call.function is WindowFunction.NTH_VALUE and call.is_running:
        return (("count", types.BigInt()),)
    if call.function is WindowFunction.AVG and call.is_running:
        return ("sum", _sum_type(argument)), ("count", types.BigInt())
    return ()


def _sum_type(argument: types.DataType | None) -> types.DataType:
    """Return the type in which Spark adds the values of an average."""
    if isinstance(argument, types.Decimal):
        return types.Decimal(min(argument.precision + 10, exact.DIGITS), argument.scale)
    return types.Double()


@dataclass(frozen=True, slots=True)
class WindowValues:
    """Computes one function; ``argument``: the type of its argument.

    ``carried``: the names of the columns from which the value of the next row follows.
    ``is_ansi``: a sum that does not fit its type is an error, else as in Spark.
    """

    call: OrderedCall
    argument: types.DataType | None
    carried: tuple[str, ...]
    is_ansi: bool

    def values(self, columns: Columns, frames: Frames) -> pa.Array:
        """Return the value for each frame. ValueRangeError if a sum does not fit its type.

        For lag and lead the frames are the known rows of each row's partition.
        """
        function = self.call.function
        if function in SHIFTS:
            return shift(self.call, columns, frames)
        if function is WindowFunction.COUNT:
            return pa.array(self._counts(columns, frames))
        values = columns[self.call.argument or ""]
        if function in PICKS:
            return pick_from_frames(self.call, values, frames)
        if function in (WindowFunction.MIN, WindowFunction.MAX):
            return self._extremes(values, frames)
        counts = self._counts(columns, frames)
        if self._is_floating:
            doubles = _to_doubles(values)
            return self._from_doubles(_sums_of_frames(doubles, frames), counts)
        totals = _running_totals(exact.from_arrow(values))
        return self._from_whole(totals[frames.stops] - totals[frames.starts], counts)

    def running_values(self, columns: Columns, runs: RowRuns) -> dict[str, pa.Array]:
        """Return the output and the carried columns for the rows of some runs."""
        call, name = self.call, self.call.output.name
        # The value up to the last row that ties; without ties up to the row itself.
        lasts = runs.place_stops - 1 if call.is_by_place else np.arange(len(runs.runs))
        match call.function:
            case WindowFunction.ROW_NUMBER:
                return {name: self._numbers(self._positions(runs, runs.carry[name]))}
            case WindowFunction.DENSE_RANK:
                numbers = number_runs(runs.places)
                places = numbers - numbers[runs.starts] + 1
                return {name: self._numbers(places + _counts_of(runs.carry[name])[runs.runs])}
            case WindowFunction.RANK:
                (column,) = self.carried
                positions = self._positions(runs, runs.carry[column])
                ranks = self._numbers(positions[runs.place_starts])
                return {name: ranks, column: pa.array(positions)}
            case WindowFunction.COUNT:
                counts = self._running_counts(columns, runs, runs.carry[name])
                return {name: pa.array(counts[lasts])}
            case WindowFunction.FIRST_VALUE | WindowFunction.LAST_VALUE:
                return pick_running(call, columns[call.argument or ""], runs, lasts)
            case WindowFunction.NTH_VALUE:
                values = columns[call.argument or ""]
                return pick_nth_running(call, self.carried[0], values, runs, lasts)
            case WindowFunction.MIN | WindowFunction.MAX:
                return {name: self._running_extremes(columns, runs, lasts)}
            case WindowFunction.AVG:
                return self._running_averages(columns, runs, lasts)
        return {name: self._running_sums(columns, runs, lasts)}

    # Numbers

    def _positions(self, runs: RowRuns, carry: pa.Array) -> Rows:
        return offsets_in_runs(runs.runs) + 1 + _counts_of(carry)[runs.runs]

    def _numbers(self, numbers: Rows) -> pa.Array:
        return pa.array(numbers).cast(arrow.arrow_type(self.call.output.type))

    def _is_counted(self, columns: Columns, rows: int) -> Mask:
        if self.call.argument is None:
            return np.ones(rows, np.bool_)
        return np.asarray(columns[self.call.argument].is_valid())

    def _counts(self, columns: Columns, frames: Frames) -> Rows:
        if self.call.argument is None:
            return frames.sizes
        is_counted = np.asarray(columns[self.call.argument].is_valid())
        before = np.append(0, np.cumsum(is_counted))
        counts: Rows = before[frames.stops] - before[frames.starts]
        return counts

    def _running_counts(self, columns: Columns, runs: RowRuns, carry: pa.Array) -> Rows:
        is_counted = self._is_counted(columns, len(runs.runs))
        before = np.append(0, np.cumsum(is_counted))
        counts: Rows = before[1:] - before[runs.starts] + _counts_of(carry)[runs.runs]
        return counts

    # Sums and averages

    @property
    def _is_floating(self) -> bool:
        """Whether Spark adds doubles: of floats, and for an average of whole numbers, too."""
        if isinstance(self.argument, types.Float | types.Double):
            return True
        is_average = self.call.function is WindowFunction.AVG
        return is_average and not isinstance(self.argument, types.Decimal)

    def _running_sums(self, columns: Columns, runs: RowRuns, lasts: Rows) -> pa.Array:
        name, values = self.call.output.name, columns[self.call.argument or ""]
        # A sum is NULL until the first value.
        is_known = values.is_valid()
        carry = runs.carry[name]
        valid_counts = np.append(0, np.cumsum(np.asarray(is_known)))
        counts = (
            valid_counts[1:] - valid_counts[runs.starts] + np.asarray(carry.is_valid())[runs.runs]
        )
        if self._is_floating:
            sums = _sums_of_runs(_to_doubles(values), runs, _to_doubles(carry))
            return self._from_doubles(sums[lasts], counts[lasts])
        totals = self._running_totals(values, runs, carry)
        return self._from_whole(totals[lasts], counts[lasts])

    def _running_averages(
        self, columns: Columns, runs: RowRuns, lasts: Rows
    ) -> dict[str, pa.Array]:
        name, values = self.call.output.name, columns[self.call.argument or ""]
        sum_name, count_name = self.carried
        counts = self._running_counts(columns, runs, runs.carry[count_name])[lasts]
        carry = runs.carry[sum_name]
        carried = {count_name: pa.array(counts)}
        if self._is_floating:
            sums = _sums_of_runs(_to_doubles(values), runs, _to_doubles(carry))[lasts]
            carried[sum_name] = pa.array(sums)
            return {name: self._from_doubles(sums, counts), **carried}
        totals = self._running_totals(values, runs, carry)[lasts]
        average = self._from_whole(totals, counts)
        nothing = np.zeros(len(totals), np.bool_)
        carried[sum_name] = exact.to_arrow(totals, carry.type, nothing)
        return {name: average, **carried}

    def _running_totals(self, values: pa.Array, runs: RowRuns, carry: pa.Array) -> exact.Exact:
        totals = _running_totals(exact.from_arrow(values))
        return exact.add(totals[1:] - totals[runs.starts], exact.from_arrow(carry)[runs.runs])

    def _from_doubles(self, sums: Doubles, counts: Rows) -> pa.Array:
        if self.call.function is WindowFunction.AVG:
            sums = sums / np.maximum(counts, 1)
        return pa.array(sums, pa.float64(), mask=counts == 0)

    def _from_whole(self, totals: exact.Exact, counts: Rows) -> pa.Array:
        """Return the sums or averages of whole numbers in the type of the output."""
        output, is_null = self.call.output.type, counts == 0
        if self.call.function is WindowFunction.AVG:
            assert isinstance(self.argument, types.Decimal)
            assert isinstance(output, types.Decimal)
            self._check_fits(totals, _sum_type(self.argument))
            scaled = totals.astype(object) * 10 ** (output.scale - self.argument.scale)
            totals = exact.divide_half_up(scaled, np.maximum(counts, 1).astype(object))
        if isinstance(output, types.Decimal) or self.is_ansi:
            self._check_fits(totals, output)
        elif totals.dtype == object:
            totals = ((totals + 2**63) % 2**64 - 2**63).astype(np.int64)
        return exact.to_arrow(exact.narrow(totals), arrow.arrow_type(output), is_null)

    def _check_fits(self, totals: exact.Exact, data_type: types.DataType) -> None:
        is_decimal = isinstance(data_type, types.Decimal)
        limit = 10**data_type.precision if is_decimal else 2**63  # type: ignore[attr-defined]
        if not len(totals):
            return
        least, greatest = int(totals.min()), int(totals.max())
        if greatest >= limit or least < (1 - limit if is_decimal else -limit):
            raise errors.ValueRangeError(
                f"{self.call.function}({self.call.argument}) over a window overflows {data_type}; "
                "correct the rows, or create the view again with its argument cast to a wider type"
            )

    # The least and the greatest

    def _scores(self, values: pa.Array) -> tuple[Rows, Rows]:
        """Return (scores, rows): a number of each row, greater for a better value, 0 for NULL.

        Of equal values, as -0 and 0, the first is the best, as in Spark. ``rows``: by the score the
        row; -1 for NULL.
        """
        assert self.argument is not None
        keys = KeyCodec([self.argument], [Order("")]).encode([values])
        (codes,), _ = number_keys([keys])
        goodness = codes if self.call.function is WindowFunction.MAX else -codes
        order = np.lexsort((-np.arange(len(values)), goodness))
        scores = np.empty(len(values), np.int64)
        scores[order] = 1 + np.arange(len(values))
        scores = np.where(np.asarray(values.is_valid()), scores, 0)
        return scores, np.append(-1, order)

    def _extremes(self, values: pa.Array, frames: Frames) -> pa.Array:
        scores, rows = self._scores(values)
        best = _greatest_of_frames(scores, frames)
        return take_or_null(values, rows[best], best == 0)

    def _running_extremes(self, columns: Columns, runs: RowRuns, lasts: Rows) -> pa.Array:
        carry = runs.carry[self.call.output.name]
        values = pa.concat_arrays([carry, columns[self.call.argument or ""]])
        scores, rows = self._scores(values)
        before, own = np.split(scores, [len(carry)])
        own = own.copy()
        is_start = offsets_in_runs(runs.runs) == 0
        own[is_start] = np.maximum(own[is_start], before)
        # Runs come one after another, each above all before it.
        floors = runs.runs * np.int64(len(rows))
        best = (np.maximum.accumulate(own + floors) - floors)[lasts]
        return take_or_null(values, rows[best], best == 0)


def _counts_of(column: pa.Array) -> Rows:
    """Return numbers, 0 for NULL."""
    return np.asarray(pc.fill_null(column, 0)).astype(np.int64)


def _to_doubles(column: pa.Array) -> Doubles:
    """Return numbers as doubles, 0 for NULL."""
    return np.asarray(pc.fill_null(column.cast(pa.float64(), safe=False), 0.0))


def _running_totals(numbers: exact.Exact) -> exact.Exact:
    """Return 0 and the sums of the first 1, 2, … numbers, exactly."""
    if numbers.dtype == np.int64 and len(numbers):
        largest = max(int(numbers.max()), -int(numbers.min()))
        if largest * len(numbers) >= 1 << 62:
            numbers = numbers.astype(object)
    return np.append(np.zeros(1, numbers.dtype), np.cumsum(numbers, dtype=numbers.dtype))


def _sums_of_runs(numbers: Doubles, runs: RowRuns, carry: Doubles) -> Doubles:
    """Return the sums from each run's carry on, added row by row."""
    sums = np.empty(len(numbers))
    sizes = np.bincount(runs.runs, minlength=len(carry))
    starts = np.cumsum(sizes) - sizes
    with np.errstate(invalid="ignore", over="ignore"):
        for run in np.flatnonzero(sizes > _SHORT_RUN):
            rows = slice(starts[run], starts[run] + sizes[run])
            sums[rows] = np.cumsum(np.append(carry[run], numbers[rows]))[1:]
        short = np.flatnonzero((sizes > 0) & (sizes <= _SHORT_RUN))
        totals = carry.copy()
        for offset in range(int(sizes[short].max(initial=0))):
            short = short[sizes[short] > offset]
            rows_now = starts[short] + offset
            totals[short] += numbers[rows_now]
            sums[rows_now] = totals[short]
    return sums


def _sums_of_frames(numbers: Doubles, frames: Frames) -> Doubles:
    """Return the sum of each frame, added from its first row to its last."""
    sums = np.zeros(len(frames.rows))
    sizes = frames.sizes
    with np.errstate(invalid="ignore", over="ignore"):
        for frame in np.flatnonzero(sizes > _SHORT_RUN):
            rows = slice(frames.starts[frame], frames.stops[frame])
            sums[frame] = np.cumsum(np.append(0.0, numbers[rows]))[-1]
        short = np.flatnonzero(sizes <= _SHORT_RUN)
        for offset in range(int(sizes[short].max(initial=0))):
            short = short[sizes[short] > offset]
            sums[short] += numbers[frames.starts[short] + offset]
    return sums


def _greatest_of_frames(scores: Rows, frames: Frames) -> Rows:
    """Return the greatest score of each frame, 0 for an empty one."""
    best = np.zeros(len(frames.rows), np.int64)
    sizes, width = frames.sizes, 1
    greatest = scores
    while len(scores) and (is_fitting := sizes >= width).any():
        # A frame of ``width`` to twice as many rows is the union of two parts of ``width`` rows.
        starts = frames.starts[is_fitting]
        lasts = frames.stops[is_fitting] - width
        best[is_fitting] = np.maximum(greatest[starts], greatest[lasts])
        shifted = np.append(greatest[width:], np.zeros(min(width, len(greatest)), np.int64))
        greatest = np.maximum(greatest, shifted)
        width *= 2
    return best
