"""The bounds of frames of RANGE with an offset, as fields that Spark computes for each row.

Spark compares the value of the order with ``value + offset``; so does the executor, which needs no
arithmetic of types, intervals and time zones. A bound that would be beyond its type is the least or
the greatest value of the type: no row is beyond it.

Promises: the bounds do not decrease from row to row, or the frame is recomputed. They would for
timestamps with an offset of months (30 January and 31 January become one day), or of days in a time
zone that changes its offset.
Does not know: the functions over the frames.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    cast_text,
    number_text,
    parse_expression,
    text_of,
    whole_constant,
    whole_number,
)
from relstate.storage import types

from ..plan.frame import ValueBound, ValueFrame
from ..plan.node import Names, Node, Order
from .builder import Builder

_BITS = {types.TinyInt: 8, types.SmallInt: 16, types.Int: 32, types.BigInt: 64}
# The sum of two decimals of more digits may lose digits after the point.
_MOST_DIGITS = 37
_SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86400, "WEEK": 7 * 86400}
_DATE_UNITS = frozenset({"DAY", "WEEK", "MONTH", "YEAR"})
_DAY = 86400
_FIXED_ZONE = re.compile(r"UTC|Z|GMT|Etc/UTC|[+-]\d\d:\d\d", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class OffsetTree:
    """An end of a frame: so much before or after the value of the row."""

    offset: Tree
    is_preceding: bool

    @property
    def sql(self) -> str:
        """The end in Spark's SQL."""
        return f"{text_of(self.offset)} {'PRECEDING' if self.is_preceding else 'FOLLOWING'}"


@dataclass(frozen=True, slots=True)
class ValueFrameTree:
    """A frame of RANGE with an offset. ``lower``, ``upper``: None for CURRENT ROW."""

    lower: OffsetTree | None
    upper: OffsetTree | None


def plan_value_frame(
    builder: Builder,
    node: Node,
    group: Names,
    order: tuple[Order, ...],
    tree: ValueFrameTree,
    fields: dict[str, str],
) -> tuple[Node, ValueFrame] | None:
    """Return an operator with the bounds of a frame as fields, and the frame.

    ``fields``: those of bounds that were computed before, by their expressions; new ones are added.
    None if the executor does not maintain frames of such values.
    """
    if len(order) != 1 or order[0].name in group:
        return None
    bounds: list[ValueBound | None] = []
    for end in (tree.lower, tree.upper):
        if end is None:
            bounds.append(None)
            continue
        analysis, data_type = builder.analysis, node.type_of(order[0].name)
        text = bound_text(order[0], data_type, end, analysis.is_ansi, analysis.time_zone)
        if text is None:
            return None
        if text not in fields:
            title = f"{order[0].name}_bound"
            node, (fields[text],) = builder.compute(node, [parse_expression(text)], [title])
        if node.type_of(fields[text]) != data_type:
            return None
        bounds.append(ValueBound(end.sql, fields[text]))
    return node, ValueFrame(*bounds)


def bound_text(
    order: Order, data_type: types.DataType, end: OffsetTree, is_ansi: bool, time_zone: str
) -> str | None:
    """Return the value of an end of a frame, in Spark's SQL over the field of the order.

    None if frames with it are not maintained. ``data_type``: of the order.
    """
    value = types.quoted(order.name)
    is_less = end.is_preceding != order.descending
    match data_type:
        case types.TinyInt() | types.SmallInt() | types.Int() | types.BigInt():
            # Without ANSI Spark's own bound wraps.
            return _whole_bound(value, data_type, end, is_less) if is_ansi else None
        case types.Decimal():
            return _decimal_bound(value, data_type, end, is_less)
        case types.Float() | types.Double():
            number = number_text(end.offset)
            return None if number is None else _sum(value, cast_text(number, data_type), is_less)
        case types.Date():
            return _date_bound(value, end, is_less)
        case types.Timestamp() | types.TimestampNtz():
            has_one_offset = isinstance(data_type, types.TimestampNtz) or (
                _FIXED_ZONE.fullmatch(time_zone) is not None
            )
            return _time_bound(value, end, is_less, has_one_offset)
    return None


def _sum(value: str, offset: str, is_less: bool) -> str:
    return f"{value} {'-' if is_less else '+'} {offset}"


def _whole_bound(
    value: str, data_type: types.DataType, end: OffsetTree, is_less: bool
) -> str | None:
    number = whole_constant(end.offset)
    limit = 1 << (_BITS[type(data_type)] - 1)
    if number is None or number >= limit:
        return None
    function = "TRY_SUBTRACT" if is_less else "TRY_ADD"
    total = f"{function}({value}, {cast_text(str(number), data_type)})"
    greatest = cast_text(str(limit - 1), data_type)
    # The least value has no literal of its own.
    extreme = f"-{greatest} - {cast_text('1', data_type)}" if is_less else greatest
    return _limited(value, total, extreme)


def _decimal_bound(
    value: str, data_type: types.Decimal, end: OffsetTree, is_less: bool
) -> str | None:
    number = number_text(end.offset)
    if number is None or data_type.precision > _MOST_DIGITS:
        return None
    total = _sum(value, cast_text(number, data_type), is_less)
    digits = "9" * (data_type.precision - data_type.scale) or "0"
    fraction = f".{'9' * data_type.scale}" if data_type.scale else ""
    extreme = cast_text(f"'{'-' if is_less else ''}{digits}{fraction}'", data_type)
    return _limited(value, f"TRY_CAST({total} AS {data_type})", extreme)


def _limited(value: str, total: str, extreme: str) -> str:
    """Return a sum, or an extreme where the sum is NULL because it is beyond its type."""
    return f"IF({value} IS NULL, NULL, COALESCE({total}, {extreme}))"


def _date_bound(value: str, end: OffsetTree, is_less: bool) -> str | None:
    number = whole_number(end.offset)
    if number is not None:
        return f"{'DATE_SUB' if is_less else 'DATE_ADD'}({value}, {number})"
    if _interval(end.offset) is None or _unit(end.offset) not in _DATE_UNITS:
        return None
    return _sum(value, text_of(end.offset), is_less)


def _time_bound(value: str, end: OffsetTree, is_less: bool, has_one_offset: bool) -> str | None:
    """Return the bound of a timestamp; ``has_one_offset``: whether all days have 24 hours."""
    number, seconds = _interval(end.offset), _SECONDS.get(_unit(end.offset))
    if number is None or seconds is None or (number * seconds >= _DAY and not has_one_offset):
        return None
    return _sum(value, text_of(end.offset), is_less)


def _interval(tree: Tree) -> int | None:
    """Return the number of units of an interval like INTERVAL 2 DAYS; None for any other tree."""
    number = tree.this if isinstance(tree, exp.Interval) else None
    is_literal = isinstance(number, exp.Literal) and str(number.this).isdecimal()
    return int(number.this) if is_literal and number is not None else None


def _unit(tree: Tree) -> str:
    """Return the unit of an interval in the singular; empty if it has several."""
    unit = tree.args.get("unit")
    return str(unit.this).upper().removesuffix("S") if isinstance(unit, exp.Var) else ""
