"""Comparisons that mix columns with the present time, written with each on a side of its own.

``now() - ts < INTERVAL 1 HOUR`` is a comparison of ``ts`` with a time, and so is
``datediff(current_date(), d) < 7``: each is one of moments, to which a temporal filter can be
applied. Only what gives the same result for every row at every time is written in another way.

Promises: every comparison that is returned has the present time on one side, and no column there.
Does not know: what expressions of the present time may be (temporal).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    as_operand,
    columns_of,
    parse_expression,
    text_of,
    whole_number,
    without_parentheses,
)
from relstate.storage import types

from ..plan.node import Node
from .analysis import Analysis
from .expressions import (
    CLOCK_HINT,
    COMPARISONS,
    function_name,
    is_clock,
    unsupported_error,
)

FLIPPED: dict[type[Tree], type[Tree]] = {
    exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE, exp.EQ: exp.EQ,
}  # fmt: skip
"""The operators of comparisons, each with that which has its sides exchanged."""
FIXED_ZONE = re.compile(r"UTC|Z|GMT|Etc/UTC|[+-]\d\d:\d\d", re.IGNORECASE)
"""Time zones that never change their offset."""
_SIGNS: dict[type[Tree], str] = {
    exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<=", exp.EQ: "=",
}  # fmt: skip
_TIMES = types.Date, types.Timestamp, types.TimestampNtz
_WHOLE = types.TinyInt, types.SmallInt, types.Int, types.BigInt
_DIFFERENCES = frozenset({"datediff", "date_diff", "timestampdiff"})
_ADDITIONS: dict[str, type[Tree]] = {
    "date_add": exp.Add, "dateadd": exp.Add, "date_sub": exp.Sub,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _FirstTime:
    """The first time at which a function of the present time is at least a number.

    ``text``: of the number. ``data_type``: in which times are compared. ``most``: numbers beyond it
    are compared as it, which no present time reaches; a column may have any as a mark.
    """

    text: str
    data_type: str
    most: int

    def at(self, number: str) -> str:
        """Return the time for the text of a number, a DECIMAL(38, 0) at most."""
        most = self.most
        within = f"CASE WHEN {number} < -{most} THEN -{most} WHEN {number} > {most} THEN {most}"
        return self.text.format(f"CAST({within} ELSE {number} END AS BIGINT)")


_FIRST_SECOND = _FirstTime("timestamp_seconds({})", "TIMESTAMP", 9 * 10**12)
_FIRST_DAY = _FirstTime("date_from_unix_date(CAST({} AS INT))", "DATE", 2 * 10**9)
_FIRST_TIMES = {
    "year": _FirstTime("make_date(CAST({} AS INT), 1, 1)", "DATE", 290_000),
    "unix_date": _FIRST_DAY,
    "unix_timestamp": _FIRST_SECOND,
    "to_unix_timestamp": _FIRST_SECOND,
    "unix_seconds": _FIRST_SECOND,
    "unix_millis": _FirstTime("timestamp_millis({})", "TIMESTAMP", 9 * 10**15),
    "unix_micros": _FirstTime("timestamp_micros({})", "TIMESTAMP", 9 * 10**18),
}
_OF_DATES = "year", "unix_date"
_UNITS = frozenset({"MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK"})
# More fit no interval of weeks. Larger numbers of small units would, but nobody means them.
_MOST_UNITS = 15_000_000
_FAR_YEARS = "+200000", "-200000"
_MICROSECONDS = {"MICROSECOND": 1, "MILLISECOND": 1000}
_DAYS = {"DAY": 1, "WEEK": 7}


def has_clock(tree: Tree) -> bool:
    """Return whether an expression reads the present time."""
    return any(map(is_clock, tree.walk()))


def compares_within(condition: Tree) -> bool:
    """Return whether a part of what is compared is a comparison with the present time itself."""
    parts = (part for part in condition.walk() if isinstance(part, COMPARISONS))
    return any(part is not condition and has_clock(part) for part in parts)


@dataclass(frozen=True, slots=True)
class ClockComparisons:
    """Makes comparisons over the fields of a node such that the present time is on one side."""

    analysis: Analysis
    node: Node

    def isolated(self, condition: Tree) -> list[Tree]:
        """Return comparisons that are all true, all false or NULL as a comparison is.

        UnsupportedStatementError if there are none.
        """
        condition = without_parentheses(condition)
        operator = type(condition)
        if operator not in FLIPPED:
            raise _mixed_error(condition, CLOCK_HINT)
        left, right = map(without_parentheses, (condition.this, condition.expression))
        if _counts_units(right):
            left, operator, right = right, FLIPPED[operator], left
        if _counts_units(left):
            return list(self._compared_units(condition, left, operator, right))
        terms = [*_terms(left, 1), *((-sign, term) for sign, term in _terms(right, 1))]
        timed = [(sign, term) for sign, term in terms if has_clock(term)]
        if len(timed) == 1 and function_name(timed[0][1]) in _FIRST_TIMES:
            others = [(sign, term) for sign, term in terms if not has_clock(term)]
            return list(self._compared_numbers(condition, timed[0], operator, others))
        if has_clock(right):
            left, operator, right = right, FLIPPED[operator], left
        if not columns_of(left):
            return [condition]
        if has_clock(right):
            raise _mixed_error(condition, CLOCK_HINT)
        return [self._isolated_time(condition, _sum_of(left), operator, right)]

    def _compared_units(
        self, condition: Tree, call: Tree, operator: type[Tree], other: Tree
    ) -> Iterator[Tree]:
        """Yield comparisons of times for one of whole units between two times, cut to zero."""
        unit, start, end = call.expressions
        name, number = unit.name.upper().removesuffix("S"), _whole_number(other)
        is_large = number is not None and abs(number) > _MOST_UNITS
        if (
            name not in _UNITS
            or number is None
            or is_large
            or (has_clock(start) and has_clock(end))
        ):
            raise _mixed_error(
                condition,
                "compare the time of the row with the present one and an interval, as in "
                "ts > now() - INTERVAL 1 MONTH",
            )
        if columns_of(end if has_clock(end) else start):
            raise _mixed_error(condition, CLOCK_HINT)
        for sign, units in _cut(operator, number):
            yield parse_expression(
                f"{_local(end)} - {_interval(units, name)} {sign} {_local(start)}"
            )

    def _compared_numbers(
        self,
        condition: Tree,
        timed: tuple[int, Tree],
        operator: type[Tree],
        others: Sequence[tuple[int, Tree]],
    ) -> Iterator[Tree]:
        """Yield comparisons of times for one of sums, of which one term is the present time."""
        sign, call = timed
        operator = operator if sign > 0 else FLIPPED[operator]
        for data_type in self._types([term for _, term in others]):
            if not isinstance(data_type, _WHOLE):
                raise _mixed_error(
                    condition, f"it compares whole numbers with a {data_type}: CAST it to BIGINT"
                )
        number = "".join(
            f" {'-' if term_sign == sign else '+'} CAST({text_of(term)} AS DECIMAL(20, 0))"
            for term_sign, term in others
        )
        name = function_name(call) or ""
        first = _FIRST_TIMES[name]
        argument = call.expressions[0] if call.expressions else exp.Anonymous(this="now")
        if columns_of(call):
            raise _mixed_error(condition, CLOCK_HINT)
        if name not in _OF_DATES and isinstance(self._types([argument])[0], types.TimestampNtz):
            raise _mixed_error(condition, "use now() instead of a time without a time zone")
        time = f"CAST({text_of(argument)} AS {first.data_type})"
        least, next_one = first.at(f"0{number}"), first.at(f"1{number}")
        if operator in (exp.GTE, exp.GT, exp.EQ):
            yield parse_expression(f"{time} >= {next_one if operator is exp.GT else least}")
        if operator in (exp.LT, exp.LTE, exp.EQ):
            yield parse_expression(f"{time} < {least if operator is exp.LT else next_one}")

    def _isolated_time(
        self, condition: Tree, total: Tree, operator: type[Tree], other: Tree
    ) -> Tree:
        """Return ``<total> <operator> <other>`` for a sum of a time of columns and one of now."""
        if not isinstance(total, exp.Add | exp.Sub):
            raise _mixed_error(condition, CLOCK_HINT)
        first, second = map(without_parentheses, (total.this, total.expression))
        parts = [part for part in (first, second) if has_clock(part)]
        if len(parts) != 1 or columns_of(parts[0]):
            raise _mixed_error(condition, CLOCK_HINT)
        total_type, first_type, second_type, other_type = self._types([total, first, second, other])
        if isinstance(total_type, types.DayTimeInterval) and isinstance(first_type, _TIMES):
            if not isinstance(other_type, types.DayTimeInterval):
                raise _mixed_error(condition, CLOCK_HINT)
            return self._isolated_difference(first, operator, second, other)
        if isinstance(total, exp.Add) and not isinstance(first_type, _TIMES):
            first, first_type, second, second_type = second, second_type, first, first_type
        step_types = types.DayTimeInterval, types.TinyInt, types.SmallInt, types.Int
        if not has_clock(first) or not isinstance(second_type, step_types):
            raise _mixed_error(condition, CLOCK_HINT)
        opposite = "-" if isinstance(total, exp.Add) else "+"
        step = text_of(as_operand(second))
        moved = f"{text_of(as_operand(other))} {opposite} {step} {_SIGNS[FLIPPED[operator]]}"
        is_fixed = FIXED_ZONE.fullmatch(self.analysis.time_zone) is not None
        if isinstance(total_type, types.Timestamp) and not is_fixed:
            raise _mixed_error(
                condition,
                f"write {moved} {text_of(first)}, which gives the same but where the time zone "
                "changes its offset",
            )
        (common,) = self._types([_coalesced(total, other)])
        if common != total_type:
            raise _mixed_error(
                condition, f"it compares a {total_type} with a {other_type}: CAST both to TIMESTAMP"
            )
        value = f"CAST({text_of(other)} AS {common})"
        is_long = isinstance(second_type, types.DayTimeInterval) and bool(columns_of(second))
        value = _moved(value, opposite, step, common) if is_long else f"{value} {opposite} {step}"
        if isinstance(common, types.Date) and not isinstance(second_type, types.DayTimeInterval):
            day = f"unix_date(CAST({text_of(other)} AS DATE))"
            value = _FIRST_DAY.at(f"CAST({day} AS DECIMAL(20, 0)) {opposite} {step}")
        sign = _SIGNS[FLIPPED[operator]]
        return parse_expression(f"{value} {sign} CAST({text_of(first)} AS {common})")

    def _isolated_difference(
        self, first: Tree, operator: type[Tree], second: Tree, length: Tree
    ) -> Tree:
        """Return ``<first> - <second> <operator> <length>``, a difference of local times."""
        (common,) = self._types([_coalesced(first, second)])
        first_text, second_text = (
            f"CAST(CAST({text_of(time)} AS {common}) AS TIMESTAMP_NTZ)" for time in (first, second)
        )
        length_text = text_of(as_operand(length))
        sign = _SIGNS[operator]
        local = types.TimestampNtz()
        if has_clock(first) and columns_of(length):
            moved = _moved(second_text, "+", length_text, local)
            return parse_expression(f"{first_text} {sign} {moved}")
        if columns_of(length):
            moved = _moved(first_text, "-", length_text, local)
            return parse_expression(f"{moved} {sign} {second_text}")
        return parse_expression(f"{first_text} - {length_text} {sign} {second_text}")

    def _types(self, expressions: Sequence[Tree]) -> tuple[types.DataType, ...]:
        texts = [text_of(expression) for expression in expressions]
        return tuple(self.analysis.types_of(self.node.fields, texts)) if texts else ()


def equality(condition: exp.NullSafeEQ) -> Tree:
    """Return the equality that ``<=>`` with the present time is, but for NULL.

    UnsupportedStatementError if both sides may be NULL.
    """
    sides = condition.this, condition.expression
    if any(has_clock(side) and columns_of(side) for side in sides):
        raise _mixed_error(condition, "write = instead of <=>, and OR … IS NULL where NULLs count")
    left, right = map(as_operand, sides)
    return exp.EQ(this=left, expression=right)


def _moved(time: str, operator: str, length: str, data_type: types.DataType) -> str:
    """Return a time plus or minus an interval; where no time is so far away, one far away."""
    is_added = operator == "+"
    latest, earliest = (f"CAST('{year}-01-01' AS {data_type})" for year in _FAR_YEARS)
    after, before = (latest, earliest) if is_added else (earliest, latest)
    return (
        f"CASE WHEN {time} IS NOT NULL THEN coalesce("
        f"{'try_add' if is_added else 'try_subtract'}({time}, {length}), CASE WHEN {length} > "
        f"INTERVAL '0' SECOND THEN {after} WHEN {length} < INTERVAL '0' SECOND THEN {before} END) "
        "END"
    )


def _coalesced(left: Tree, right: Tree) -> Tree:
    return exp.Anonymous(this="coalesce", expressions=[left.copy(), right.copy()])


def _counts_units(tree: Tree) -> bool:
    """Return whether an expression is ``timestampdiff(unit, start, end)`` with the present time."""
    is_call = function_name(tree) in _DIFFERENCES and len(tree.expressions) == 3
    return is_call and has_clock(tree)


def _terms(tree: Tree, sign: int) -> Iterator[tuple[int, Tree]]:
    """Yield the terms of a sum with their signs: a difference of dates as two, if one is now."""
    tree = without_parentheses(tree)
    match tree:
        case _ if not has_clock(tree):
            # Spark adds up in the type of its terms.
            yield sign, tree
        case exp.Add() | exp.Sub():
            yield from _terms(tree.this, sign)
            yield from _terms(tree.expression, sign if isinstance(tree, exp.Add) else -sign)
        case exp.Neg():
            yield from _terms(tree.this, -sign)
        case _ if function_name(tree) in _DIFFERENCES and len(tree.expressions) == 2:
            for date, date_sign in zip(tree.expressions, (sign, -sign), strict=True):
                days = parse_expression(f"unix_date(CAST({text_of(date)} AS DATE))")
                yield date_sign, days
        case _:
            yield sign, tree


def _sum_of(tree: Tree) -> Tree:
    """Return date_add and date_sub as the sums that they are."""
    kind = _ADDITIONS.get(function_name(tree) or "")
    if kind is None or len(tree.expressions) != 2:
        return tree
    date, days = tree.expressions
    date = parse_expression(f"CAST({text_of(date)} AS DATE)")
    return kind(this=date, expression=as_operand(days))


def _whole_number(tree: Tree) -> int | None:
    if isinstance(tree, exp.Neg):
        number = whole_number(tree.this)
        return None if number is None else -number
    return whole_number(tree)


def _cut(operator: type[Tree], number: int) -> Iterator[tuple[str, int]]:
    """Yield what holds for a quotient where ``<its whole part> <operator> <number>`` does."""
    if operator in (exp.GT, exp.GTE, exp.EQ):
        least = number + 1 if operator is exp.GT else number
        yield (">=", least) if least > 0 else (">", least - 1)
    if operator in (exp.LT, exp.LTE, exp.EQ):
        limit = number if operator is exp.LT else number + 1
        yield ("<", limit) if limit > 0 else ("<=", limit - 1)


def _interval(number: int, unit: str) -> str:
    """Return an interval of some units."""
    if unit in _MICROSECONDS:
        micros = number * _MICROSECONDS[unit]
        sign = "-" if micros < 0 else ""
        return f"INTERVAL '{sign}{abs(micros) // 1_000_000}.{abs(micros) % 1_000_000:06}' SECOND"
    if unit in _DAYS:
        return f"INTERVAL '{number * _DAYS[unit]}' DAY"
    return f"INTERVAL '{number}' {unit}"


def _local(time: Tree) -> str:
    return f"CAST(CAST({text_of(time)} AS TIMESTAMP) AS TIMESTAMP_NTZ)"


def _mixed_error(condition: Tree, advice: str) -> Exception:
    return unsupported_error("the present time in this condition", advice, condition)
