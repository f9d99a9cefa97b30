"""The present time of views: what passes their temporal filters, and when that changes next.

A view over a document table depends on the present time, too: parts of rows expire.

Spark evaluates the bounds of filters at the time of a refresh and at times in the day after it, on
the driver and without a job. Bounds jump only where a time zone changes its offset or a day or a
month begins. All of that happens at quarters of an hour; between two of these a bound increases
with the time or is constant.

Promises: the readings of one time are the same wherever they are made. A view does not change by
time alone before the time at which it is due.
Does not know: rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from relstate.connector.types import struct_of
from relstate.storage import Environment, MomentRange, StoreState, ViewClock, errors, types

from .executor.next_moments import NextMoments
from .plan.temporal import CLOCK, DAY, ClockBound, ClockStep, TemporalFilter

_QUARTER = DAY // 96
_QUARTERS = 96
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_MICROS = types.Field("micros", types.BigInt())


def time_now(environment: Environment, state: StoreState, views: Iterable[int]) -> int:
    """Return the time of a refresh of views, in microseconds since 1970.

    It is not before the last commit, nor before an earlier refresh of one of the views.
    """
    clocks = (state.views[view_id].progress.clock for view_id in views)
    earlier_times = (clock.time for clock in clocks if clock is not None)
    return max(environment.now(), state.time, *earlier_times)


@dataclass(frozen=True, slots=True)
class ClockReading:
    """What passes the temporal filters of a view at a time, and the course of their bounds.

    ``before``: what passed before; for a view without rows, what passes now. ``day``: for each
    filter the course of its bounds in the day after ``time``.
    """

    time: int
    before: tuple[MomentRange, ...]
    ranges: tuple[MomentRange, ...]
    day: tuple[_Course, ...] = field(repr=False)

    @classmethod
    def at(
        cls,
        session: SparkSession,
        filters: Sequence[TemporalFilter],
        time: int,
        before: ViewClock | None,
    ) -> ClockReading:
        """Return the reading at a time, of a view that has been at ``before`` if it has rows."""
        if not filters:
            return cls(time, (), (), ())
        evaluated = _Evaluated.at(session, filters, time)
        if before is not None and before.time == time:
            ranges = before.ranges
        else:
            starts = [_LEAST] * len(filters)
            if before is not None:
                starts = [moments.kept_from for moments in before.ranges]
            ranges = tuple(map(evaluated.range_of, filters, starts))
        day = tuple(map(evaluated.course_of, filters))
        return cls(time, ranges if before is None else before.ranges, ranges, day)

    @property
    def steps(self) -> tuple[ClockStep, ...]:
        """What passes each filter before a refresh and after it."""
        return tuple(map(ClockStep, self.before, self.ranges))

    def clock(
        self, moments: Sequence[NextMoments], expiries: Iterable[int | None] = ()
    ) -> ViewClock:
        """Return the clock of the view after the refresh.

        ``moments``: for each filter the next moments of its rows. ``expiries``: the next times at
        which something in a table that it reads expires.
        """
        times = [*map(_Course.due, self.day, self.ranges, moments), *expiries]
        due = min((time for time in times if time is not None), default=None)
        return ViewClock(self.time, due, self.ranges)


def steps_of(clock: ViewClock | None) -> tuple[ClockStep, ...]:
    """Return the steps of the filters of a view in which no time passes."""
    return () if clock is None else tuple(ClockStep(r, r) for r in clock.ranges)


@dataclass(frozen=True, slots=True)
class _Course:
    """The bounds of a filter in the quarters of an hour from a time on.

    ``starts``: when the quarters begin, the first at the time itself. ``low`` and ``high``: the
    values of each bound where the quarters begin and where they end; None if there is no bound.
    """

    filter: TemporalFilter
    starts: NDArray[np.int64]
    low: tuple[NDArray[np.int64], NDArray[np.int64]] | None
    high: tuple[NDArray[np.int64], NDArray[np.int64]] | None

    def due(self, passing: MomentRange, moments: NextMoments) -> int | None:
        """Return the first time at which a row may come or go, or the day of the course is over.

        None if no row ever can.
        """
        times: list[int] = []
        may_change = False
        for bound, values, next_moment in (
            (self.filter.low, self.low, moments.low),
            (self.filter.high, self.high, moments.high),
        ):
            if bound is None or values is None:
                continue
            if next_moment is not None:
                may_change = True
                times += self._rises_above(values, next_moment)
            if bound.margin and moments.stored is not None:
                may_change = True
                times += self._falls(values[0])
        if not may_change:
            return None
        return min([*times, int(self.starts[0]) + DAY])

    def _rises_above(
        self, values: tuple[NDArray[np.int64], NDArray[np.int64]], moment: int
    ) -> list[int]:
        """Return the first time at which a bound may be above a moment; empty if not that day."""
        begins, ends = values
        above = np.flatnonzero(ends > moment)
        if not len(above):
            return []
        quarter = int(above[0])
        distance = max(moment + 1 - int(begins[quarter]), 0)
        return [int(self.starts[quarter]) + distance * self.filter.unit]

    def _falls(self, begins: NDArray[np.int64]) -> list[int]:
        """Return the first time at which a bound is below what it was; empty if not that day."""
        below = np.flatnonzero(begins < begins[0])
        return [int(self.starts[below[0]])] if len(below) else []


@dataclass(frozen=True, slots=True)
class _Evaluated:
    """The values of bounds around the time of a refresh.

    ``values``: for the text of each bound, its value at each of ``times``; None where it is NULL.
    """

    time: int
    times: NDArray[np.int64]
    values: dict[str, list[int | None]]

    @classmethod
    def at(cls, session: SparkSession, filters: Sequence[TemporalFilter], time: int) -> _Evaluated:
        """Return the bounds of filters at a time, their margins before it, and in the next day."""
        bounds = [bound for node in filters for bound in node.bounds]
        begins, ends = _quarters(time)
        earlier = sorted({time - bound.margin * DAY for bound in bounds})
        times = np.concatenate([np.array(earlier, np.int64), begins, ends])
        texts = list(dict.fromkeys(bound.text for bound in bounds))
        rows = pa.table({_MICROS.name: pa.array(times)})
        frame = session.createDataFrame(rows, struct_of([_MICROS]))
        clock = frame.selectExpr(f"timestamp_micros({_MICROS.name}) AS {CLOCK.name}")
        names = [f"b{number}" for number in range(len(texts))]
        values = clock.selectExpr(
            *(f"{text} AS {name}" for text, name in zip(texts, names, strict=True))
        ).collect()
        columns = {text: [row[n] for row in values] for n, text in enumerate(texts)}
        return cls(time, times, columns)

    def range_of(self, node: TemporalFilter, kept_from: int) -> MomentRange:
        """Return what passes a filter at the time; ``kept_from``: of the one before."""
        low = None if node.low is None else self._value(node.low, self.time)
        high = None if node.high is None else self._value(node.high, self.time)
        first = node.low or node.high
        assert first is not None
        settled = self._value(first, self.time - first.margin * DAY)
        return MomentRange(low, high, max(kept_from, settled))

    def course_of(self, node: TemporalFilter) -> _Course:
        """Return the course of a filter's bounds in the day after the time."""
        begins, _ = _quarters(self.time)
        return _Course(node, begins, self._course(node.low, _MOST), self._course(node.high, _LEAST))

    def _course(
        self, bound: ClockBound | None, default: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        if bound is None:
            return None
        values = self.values[bound.text][-2 * _QUARTERS :]
        numbers = np.array([default if value is None else value for value in values], np.int64)
        return numbers[:_QUARTERS], numbers[_QUARTERS:]

    def _value(self, bound: ClockBound, time: int) -> int:
        value = self.values[bound.text][int(np.flatnonzero(self.times == time)[0])]
        if value is None:
            raise errors.UnsupportedStatementError(
                f"{bound.text} is NULL, so no row can be compared with it: check the units and "
                "formats in it"
            )
        return value


def _quarters(time: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return when the quarters of an hour of the day after a time begin, and when they end."""
    begins = (time // _QUARTER + np.arange(_QUARTERS + 1)) * _QUARTER
    begins[0] = time
    return begins[:-1], begins[1:] - 1
