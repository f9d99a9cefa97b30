"""Dates and times: their parts, the starts of their hours and months, days between them.

A TIMESTAMP is local time at a fixed offset from UTC; a TIMESTAMP_NTZ is local time already.

Promises: the proleptic Gregorian calendar, for every value of the types.
Does not know: the names of zones; regions, whose rules differ between zone databases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import UnsupportedTypeError
from ..predicate.condition import valid_rows
from ..schema import types as t
from .kinds import WHOLE
from .value import (
    Binary,
    Failure,
    Failures,
    Unary,
    Value,
    array_of,
    computed_in_turn,
    failures_where,
    first_of,
)

_SECOND = 1_000_000
_DAY = 86_400
_FIRST_DAY = -(2**31)
Numbers = NDArray[Any]


def _since_year(days: Numbers) -> Numbers:
    return days.astype("datetime64[D]")


def _months(days: Numbers) -> Numbers:
    months: Numbers = _since_year(days).astype("datetime64[M]").astype(np.int64)
    return months


def _years(days: Numbers) -> Numbers:
    return np.floor_divide(_months(days), 12)


def _days_of(dates: Numbers) -> Numbers:
    days: Numbers = dates.astype("datetime64[D]").astype(np.int64)
    return days


def _weeks(days: Numbers) -> Numbers:
    """Return the Mondays of days; those before the first day wrap around, as in Spark."""
    before = (days - 7).astype(np.int32)
    weekday = np.fmod((np.int32(3) - before).astype(np.int32), 7)
    mondays: Numbers = before + np.int64(1) + (weekday + 7) % 7
    return mondays


# The parts of a day by its number, and of a time by its second of the day.
_OF_DAYS: dict[str, Callable[[Numbers], Numbers]] = {
    "year": lambda days: _years(days) + 1970,
    "quarter": lambda days: _months(days) % 12 // 3 + 1,
    "month": lambda days: _months(days) % 12 + 1,
    "day": lambda days: days - _days_of(_since_year(days).astype("datetime64[M]")) + 1,
    "dayofyear": lambda days: days - _days_of(_since_year(days).astype("datetime64[Y]")) + 1,
    "dayofweek": lambda days: (days + 4) % 7 + 1,
    "weekday": lambda days: (days + 3) % 7,
}
_OF_SECONDS: dict[str, Callable[[Numbers], Numbers]] = {
    "hour": lambda seconds: seconds // 3600,
    "minute": lambda seconds: seconds // 60 % 60,
    "second": lambda seconds: seconds % 60,
}
_STARTS: dict[str, Callable[[Numbers], Numbers]] = {
    "year": lambda days: _days_of(_since_year(days).astype("datetime64[Y]")),
    "quarter": lambda days: _days_of((_months(days) // 3 * 3).astype("datetime64[M]")),
    "month": lambda days: _days_of(_since_year(days).astype("datetime64[M]")),
    "week": _weeks,
}
_SHORT = {"second": _SECOND, "millisecond": 1000, "microsecond": 1}
_MICROSECONDS = {"day": _DAY * _SECOND, "hour": 3600 * _SECOND, "minute": 60 * _SECOND, **_SHORT}
UNITS = (*_STARTS, *_MICROSECONDS)
"""What a time is truncated to; a DATE to those of a week and longer."""

_EPOCH_UNITS = {"unix_micros": 1, "unix_millis": 1000, "unix_seconds": _SECOND}


@dataclass(frozen=True, slots=True)
class DatePart(Unary):
    """A part of a date or a time, as ``year``; `date_part` makes it.

    ``offset``: seconds from UTC to the local time of a TIMESTAMP.
    """

    part: str
    operand: Value
    offset: int

    @property
    def type(self) -> t.DataType:  # type: ignore[override]
        """INT."""
        return t.Int()

    def computed(self, rows: pa.RecordBatch) -> tuple[pa.Array, Failures]:
        """Return the parts."""
        column, failures = self.operand.computed(rows)
        days, seconds = _local(column, self.offset)
        if self.part in _OF_DAYS:
            result = _OF_DAYS[self.part](days)
        else:
            result = _OF_SECONDS[self.part](seconds)
        return array_of(result, valid_rows(column), self.type), failures


@dataclass(frozen=True, slots=True)
class Truncated(Unary):
    """The start of the hour, month or other unit of a time; `truncated` makes it."""

    unit: str
    operand: Value
    offset: int

    @property
    def type(self) -> t.DataType:  # type: ignore[override]
        """That of the time."""
        return self.operand.type

    @property
    def nullable(self) -> bool:
        """It is to Spark: for a unit that there is not."""
        return True

    @property
    def own_failures(self) -> bool:
        """Whether the start may be before the first TIMESTAMP, or Spark minds that of a DATE."""
        is_date = isinstance(self.type, t.Date)
        return self.unit == "quarter" if is_date else self.unit != "microsecond"

    def computed(self, rows: pa.RecordBatch) -> tuple[pa.Array, Failures]:
        """Return the starts."""
        column, failures = self.operand.computed(rows)
        valid = valid_rows(column)
        if isinstance(self.type, t.Date):
            result = _STARTS[self.unit](_integers(column))
            wraps = (result < _FIRST_DAY) & valid & self.own_failures
        else:
            result, wraps = self._started(column)
            wraps = wraps & valid
        lost = failures_where(wraps, Failure.OVERFLOW)
        return array_of(result, valid & ~wraps, self.type), first_of(failures, lost)

    def _started(self, column: pa.Array) -> tuple[Numbers, NDArray[np.bool_]]:
        """Return (microseconds, flags): the starts of times, and which are no TIMESTAMP."""
        if self.unit in _STARTS:
            days, _ = _local(column, self.offset)
            return _micros_of(_STARTS[self.unit](days) * _DAY - self.offset)
        micros, unit = _integers(column), _MICROSECONDS[self.unit]
        since = micros % unit
        if self.offset * _SECOND % unit:
            since = (since + self.offset * _SECOND) % unit
        with np.errstate(all="ignore"):
            result = micros - since
        return result, result > micros


@dataclass(frozen=True, slots=True)
class TimeCast(Unary):
    """A time as a DATE, or a DATE as the time at which it begins; `time_cast` makes it."""

    operand: Value
    type: t.DataType
    offset: int

    @property
    def own_failures(self) -> bool:
        """Whether it makes times of days, of which there are more."""
        return not isinstance(self.type, t.Date)

    def computed(self, rows: pa.RecordBatch) -> tuple[pa.Array, Failures]:
        """Return the dates or times."""
        column, failures = self.operand.computed(rows)
        valid = valid_rows(column)
        days, _ = _local(column, self.offset)
        if isinstance(self.type, t.Date):
            return array_of(days, valid, self.type), failures
        micros, wraps = _micros_of(days * _DAY - self.offset)
        wraps = wraps & valid
        lost = failures_where(wraps, Failure.OVERFLOW)
        return array_of(micros, valid & ~wraps, self.type), first_of(failures, lost)


@dataclass(frozen=True, slots=True)
class EpochNumber(Unary):
    """The microseconds, milliseconds or seconds of a TIMESTAMP since 1970, rounded down."""

    function: str
    operand: Value

    @property
    def type(self) -> t.DataType:  # type: ignore[override]
        """BIGINT."""
        return t.BigInt()

    def computed(self, rows: pa.RecordBatch) -> tuple[pa.Array, Failures]:
        """Return the numbers."""
        column, failures = self.operand.computed(rows)
        result = np.floor_divide(_integers(column), _EPOCH_UNITS[self.function])
        return array_of(result, valid_rows(column), self.type), failures


@dataclass(frozen=True, slots=True)
class DaySum(Binary):
    """A date so many days later (``date_add``), earlier (``date_sub``), or the days between two.

    Sums wrap around at the ends of the type, as in Spark. `day_sum` makes it.
    """

    function: str
    left: Value
    right: Value

    @property
    def type(self) -> t.DataType:  # type: ignore[override]
        """INT of the days between two dates, else DATE."""
        return t.Int() if self.function == "datediff" else t.Date()

    def computed(self, rows: pa.RecordBatch) -> tuple[pa.Array, Failures]:
        """Return the dates or days."""
        left, right, failures = computed_in_turn(self.left, self.right, rows)
        first, second = (_integers(column).astype(np.int32) for column in (left, right))
        result = first + second if self.function == "date_add" else first - second
        return array_of(result, valid_rows(left) & valid_rows(right), self.type), failures


def date_part(part: str, operand: Value, offset: int | None) -> DatePart:
    """Return a part of a date or a time; hours, minutes and seconds only of times.

    ``offset``: seconds from UTC to the local time of the session; None if it changes. It matters
    for a TIMESTAMP. UnsupportedTypeError if it is not known to be computed exactly.
    """
    is_time = isinstance(operand.type, t.Timestamp | t.TimestampNtz)
    if part not in (*_OF_DAYS, *_OF_SECONDS) or not (
        is_time or (isinstance(operand.type, t.Date) and part in _OF_DAYS)
    ):
        raise UnsupportedTypeError(f"{part} of {operand.type} is not supported")
    return DatePart(part, operand, _offset(operand, offset))


def truncated(unit: str, operand: Value, offset: int | None) -> Truncated:
    """Return the start of a unit of a TIMESTAMP or DATE; errors as of `date_part`."""
    is_date = isinstance(operand.type, t.Date) and unit in _STARTS
    if not is_date and not (isinstance(operand.type, t.Timestamp) and unit in UNITS):
        raise UnsupportedTypeError(f"the {unit} of {operand.type} is not supported")
    local = 0 if unit in _SHORT else _offset(operand, offset)
    return Truncated(unit, operand, local)


def time_cast(operand: Value, target: t.DataType, offset: int | None) -> Value:
    """Return a time as a DATE, or a DATE as a time; errors as of `date_part`."""
    if operand.type == target:
        return operand
    times = (t.Timestamp, t.TimestampNtz)
    pair = (operand.type, target)
    if not any(
        isinstance(first, t.Date) and isinstance(second, times)
        for first, second in (pair, pair[::-1])
    ):
        raise UnsupportedTypeError(
            f"a cast of {operand.type} to {target} is not supported: it may differ from Spark's"
        )
    local = offset if any(isinstance(kind, t.Timestamp) for kind in pair) else 0
    if local is None:
        raise UnsupportedTypeError(_NO_OFFSET)
    return TimeCast(operand, target, local)


def epoch_number(function: str, operand: Value) -> EpochNumber:
    """Return ``unix_micros``, ``unix_millis`` or ``unix_seconds``. UnsupportedTypeError."""
    if function not in _EPOCH_UNITS or not isinstance(operand.type, t.Timestamp):
        raise UnsupportedTypeError(f"{function} of {operand.type} is not supported")
    return EpochNumber(function, operand)


def day_sum(function: str, left: Value, right: Value) -> DaySum:
    """Return ``date_add``, ``date_sub`` or ``datediff``. UnsupportedTypeError."""
    is_days = type(right.type) in WHOLE and not isinstance(right.type, t.BigInt)
    is_known = isinstance(left.type, t.Date) and (
        (function in ("date_add", "date_sub") and is_days)
        or (function == "datediff" and isinstance(right.type, t.Date))
    )
    if not is_known:
        raise UnsupportedTypeError(f"{function} of {left.type} and {right.type} is not supported")
    return DaySum(function, left, right)


_NO_OFFSET = "local times of a region differ between zone databases; set a time zone such as UTC"


def _offset(operand: Value, offset: int | None) -> int:
    if not isinstance(operand.type, t.Timestamp):
        return 0
    if offset is None or type(offset) is not int or abs(offset) > _DAY:
        raise UnsupportedTypeError(_NO_OFFSET)
    return offset


def _integers(column: pa.Array) -> Numbers:
    """Return days, microseconds or whole numbers as 64-bit integers; 0 for NULL."""
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    numbers: Numbers = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    return numbers.astype(np.int64, copy=False)


def _local(column: pa.Array, offset: int) -> tuple[Numbers, Numbers]:
    """Return (days, seconds of the day) of local times."""
    numbers = _integers(column)
    if pa.types.is_date32(column.type):
        return numbers, np.zeros_like(numbers)
    days, seconds = np.divmod(np.floor_divide(numbers, _SECOND) + offset, _DAY)
    return days, seconds


def _micros_of(seconds: Numbers) -> tuple[Numbers, NDArray[np.bool_]]:
    """Return (microseconds, flags): seconds as microseconds, and which have none."""
    limit = 2**63 // _SECOND
    wraps = (seconds < -limit) | (seconds > limit)
    return np.where(wraps, 0, seconds) * _SECOND, wraps
