"""Conditions that compare rows with the present time: ``ts > now() - INTERVAL 1 HOUR``.

Each is ``<expression of the row> <comparison> <expression of the present time>``. The first becomes
a whole number, the row's moment; the second a bound of moments, which Spark evaluates in every
refresh. So both mean what they mean to Spark, in months of any length and at any change to daylight
saving time.

Promises: everything else that reads the present time is refused, with what to write.
Does not know: how a filter is maintained, AND, OR and NOT (clock_conditions).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TypeAlias

from sqlglot import exp

from relstate.connector.syntax.present_time import time_text
from relstate.connector.syntax.tree import (
    Tree,
    cast_text,
    columns_of,
    parse_expression,
    substituted,
    text_of,
    without_parentheses,
)
from relstate.storage import errors, types

from ..plan.node import Node
from ..plan.temporal import CLOCK, DAY, ClockBound, TemporalFilter
from .analysis import Analysis
from .clock_comparisons import FIXED_ZONE, FLIPPED, ClockComparisons, has_clock
from .expressions import CLOCK_HINT, SUBQUERY_CALL, function_name, is_clock, unsupported_error
from .moments import micros_text

_TIMES = types.Date, types.Timestamp, types.TimestampNtz
# What a bound may consist of, besides calls of these functions and the present time.
_PARTS = (
    exp.Paren, exp.Add, exp.Sub, exp.Neg, exp.Interval, exp.IntervalSpan, exp.Literal, exp.Var,
    exp.Cast, exp.DataType,
)  # fmt: skip
_STEPS = exp.Add, exp.Sub, exp.Cast, exp.Anonymous
_FUNCTIONS = {
    "add_months", "date", "date_add", "date_sub", "date_trunc", "dateadd", "from_utc_timestamp",
    "last_day", "make_dt_interval", "make_interval", "make_ym_interval", "timestampadd", "to_date",
    "to_utc_timestamp", "trunc",
}  # fmt: skip
# What may be before a value that it has had even in a time zone with a fixed offset.
_GOES_BACK = re.compile(
    r"mon|year|quarter|make_interval|make_ym|_utc_timestamp|'\s*-?\d+-\d", re.IGNORECASE
)
# More days than a step of an expression may take from those between two times: a zone may move by a
# day, and February lacks three.
_MARGIN = 7


ComputeFields: TypeAlias = Callable[
    [Node, Sequence[Tree], Sequence[str | None]], tuple[Node, tuple[str, ...]]
]
"""Returns an operator with expressions, with these titles if any, as fields, and their names."""


@dataclass(frozen=True, slots=True)
class MomentBound:
    """A bound of the moments in a field: the lowest that pass, or the first that do not.

    ``unit``: the microseconds by which one moment is after the one before it.
    """

    moment: str
    unit: int
    bound: ClockBound
    is_low: bool

    @property
    def opposite(self) -> MomentBound:
        """The bound that the other moments are within."""
        return replace(self, is_low=not self.is_low)

    def of(self, moment: str) -> MomentBound:
        """Return the bound of another field."""
        return replace(self, moment=moment)


def compare_with_clock(
    analysis: Analysis, compute: ComputeFields, node: Node, conditions: Sequence[Tree]
) -> tuple[Node, list[list[MomentBound]]]:
    """Return an operator with the moments that are compared, and the bounds of each condition."""
    isolated = [ClockComparisons(analysis, node).isolated(condition) for condition in conditions]
    comparisons = [_Comparison.of(part) for parts in isolated for part in parts]
    node, names = compute(node, [comparison.value for comparison in comparisons], ())
    times = [
        _Time.of(analysis, node.type_of(name), comparison)
        for name, comparison in zip(names, comparisons, strict=True)
    ]
    values = [
        parse_expression(time.moment(types.quoted(name), node.type_of(name)))
        for name, time in zip(names, times, strict=True)
    ]
    node, moments = compute(node, values, ["moment"] * len(values))
    bounds = iter(
        [
            MomentBound(moment, time.unit, bound, low)
            for low, bound in time.bounds(analysis.time_zone)
        ]
        for moment, time in zip(moments, times, strict=True)
    )
    return node, [[bound for _ in parts for bound in next(bounds)] for parts in isolated]


def filter_moments(node: Node, bounds: Sequence[MomentBound]) -> Node:
    """Return the rows within all bounds."""
    # The bounds of one moment one after the other: they are one filter's.
    for bound in sorted(bounds, key=attrgetter("moment")):
        node = _with_bound(node, bound)
    return node


def filter_expired(node: Node, expiry: str) -> Node:
    """Return the rows of a scan that have not expired; ``expiry``: the field that says when."""
    return TemporalFilter(
        node, expiry, _bound(micros_text(CLOCK.name, CLOCK.type), 0, is_after=True), None, 1
    )


def _with_bound(node: Node, bound: MomentBound) -> Node:
    """Return the rows within one more bound, by the same filter if it has none on that side."""
    if isinstance(node, TemporalFilter) and node.moment == bound.moment and node.flag is None:
        if bound.is_low and node.low is None:
            return replace(node, low=bound.bound)
        if not bound.is_low and node.high is None:
            return replace(node, high=bound.bound)
    low, high = (bound.bound, None) if bound.is_low else (None, bound.bound)
    return TemporalFilter(node, bound.moment, low, high, bound.unit)


@dataclass(frozen=True, slots=True)
class _Comparison:
    """A value of a row, and the expression of the present time that it is compared with.

    ``condition``: as it is written, for messages.
    """

    value: Tree
    operator: type[Tree]
    time: Tree
    condition: Tree

    @classmethod
    def of(cls, condition: Tree) -> _Comparison:
        """Return the comparison that a condition is. UnsupportedStatementError for any other."""
        condition = without_parentheses(condition)
        if type(condition) not in FLIPPED:
            raise clock_error(condition, CLOCK_HINT)
        operator = type(condition)
        value, time = map(without_parentheses, (condition.this, condition.expression))
        if has_clock(value):
            value, operator, time = time, FLIPPED[operator], value
        if has_clock(value) or columns_of(time):
            raise clock_error(condition, CLOCK_HINT)
        if not _is_bound(time) or sum(map(is_clock, time.walk())) > 1:
            raise clock_error(
                condition,
                "add constant intervals to now(), or truncate it by date_trunc, no more, or write "
                "the condition in the query over the view",
            )
        return cls(value, operator, time, condition)


@dataclass(frozen=True, slots=True)
class _Time:
    """The expression of the present time in a comparison.

    ``text``: over the field of the clock. ``own_type``: its type. ``data_type``: that in which
    Spark compares it.
    """

    analysis: Analysis
    comparison: _Comparison
    text: str
    own_type: types.DataType
    data_type: types.DataType

    @classmethod
    def of(cls, analysis: Analysis, value_type: types.DataType, comparison: _Comparison) -> _Time:
        """Return the time that a value is compared with. UnsupportedStatementError if it is none.

        ``value_type``: that of the value.
        """
        text = text_of(substituted(comparison.time, _clock_field))
        (own_type,) = analysis.types_of([CLOCK], [text])
        if not isinstance(value_type, _TIMES) or not isinstance(own_type, _TIMES):
            raise clock_error(
                comparison.condition,
                f"it compares a {value_type} with a {own_type}: CAST both to TIMESTAMP or DATE",
            )
        data_type: types.DataType = own_type
        if value_type != own_type:
            fields = types.Field("value", value_type), types.Field("bound", own_type)
            (data_type,) = analysis.types_of(fields, ["coalesce(value, bound)"])
        return cls(analysis, comparison, text, own_type, data_type)

    @property
    def unit(self) -> int:
        """The microseconds by which one moment is after the one before it."""
        return DAY if isinstance(self.data_type, types.Date) else 1

    def moment(self, text: str, own_type: types.DataType) -> str:
        """Return an expression of a type as a whole number: microseconds, of a date days."""
        if own_type != self.data_type:
            text = cast_text(text, self.data_type)
        if isinstance(self.data_type, types.Date):
            return f"CAST(unix_date({text}) AS BIGINT)"
        return micros_text(text, self.data_type)

    def bounds(self, time_zone: str) -> Iterator[tuple[bool, ClockBound]]:
        """Yield the bounds of moments, each with whether it is the lower one."""
        number, margin = self.moment(self.text, self.own_type), self._margin(time_zone)
        operator = self.comparison.operator
        if operator in (exp.GT, exp.GTE, exp.EQ):
            yield True, _bound(number, margin, is_after=operator is exp.GT)
        if operator in (exp.LT, exp.LTE, exp.EQ):
            yield False, _bound(number, margin, is_after=operator is not exp.LT)

    def _margin(self, time_zone: str) -> int:
        """Return for how many days the time may be before one that it has been."""
        time = self.comparison.time
        goes_back = _GOES_BACK.search(text_of(time)) is not None or self._moves_by_months
        is_fixed = FIXED_ZONE.fullmatch(time_zone) is not None and not goes_back
        is_instant = isinstance(self.own_type, types.Timestamp) and self._is_short(time)
        if is_fixed or (is_instant and self.data_type == self.own_type):
            return 0
        steps = sum(isinstance(part, _STEPS) for part in time.walk())
        return _MARGIN * (steps + 1)

    @property
    def _moves_by_months(self) -> bool:
        """Whether a constant is an interval of months, which may go back at the end of a month."""
        return any(map(_is_of_months, self.analysis.types_of([], list(map(text_of, self._steps)))))

    @property
    def _steps(self) -> list[Tree]:
        """The constants by which the present time is moved."""
        time = self.comparison.time
        sums = time.find_all(exp.Add, exp.Sub)
        return [
            side for part in sums for side in (part.this, part.expression) if _is_constant(side)
        ]

    def _is_short(self, time: Tree) -> bool:
        """Return whether a time is the present one, earlier or later by intervals below a day.

        Only then Spark adds microseconds, whatever the time zone.
        """
        time = without_parentheses(time)
        if is_clock(time):
            return True
        if not isinstance(time, exp.Add | exp.Sub) or not _is_constant(time.expression):
            return False
        length = self.analysis.length_of(text_of(time.expression))
        return length is not None and 0 <= length < DAY and self._is_short(time.this)


def _is_of_months(data_type: types.DataType) -> bool:
    return isinstance(data_type, types.YearMonthInterval | types.CalendarInterval)


def _bound(number: str, margin: int, *, is_after: bool) -> ClockBound:
    text = f"{number} + 1" if is_after else number
    return ClockBound(text_of(parse_expression(text)), margin)


def _is_bound(tree: Tree) -> bool:
    """Return whether an expression without columns is the present time, moved by constants."""
    if is_clock(tree) or _is_constant(tree):
        return True
    if not isinstance(tree, _PARTS) and function_name(tree) not in _FUNCTIONS:
        return False
    return all(map(_is_bound, tree.iter_expressions()))


def _is_constant(tree: Tree) -> bool:
    """Return whether an expression without columns has one value; it may have any form."""
    calls = (str(part.this) for part in tree.find_all(exp.Anonymous))
    return not has_clock(tree) and not any(name.startswith(SUBQUERY_CALL) for name in calls)


def _clock_field(node: Tree) -> Tree | None:
    """Return what replaces a call that gives the present time, over the field of the clock."""
    if not is_clock(node):
        return None
    return parse_expression(time_text(function_name(node) or "", CLOCK.name))


def clock_error(condition: Tree, advice: str) -> errors.UnsupportedStatementError:
    """Return the error about a condition that reads the present time in another way."""
    return unsupported_error("the present time in this condition", advice, condition)
