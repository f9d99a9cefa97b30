"""Aggregates of year-month intervals, by their months.

Spark does not hand such intervals to tasks in Python, so state tables cannot have them.

Promises: values, types and errors are those that Spark has for the intervals.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    cast_text,
    comparable_text,
    parse_expression,
    substituted,
    text_of,
)
from relstate.storage import types

from ..plan.node import Node
from .builder import Builder, has_subquery_call
from .calls import find_aggregates, function_of

_FUNCTIONS = exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Count
_MONTHS = "INTERVAL MONTH"


def with_months(builder: Builder, node: Node, expressions: Sequence[Tree]) -> list[Tree]:
    """Return expressions in which aggregates of year-month intervals are those of their months."""
    calls = {
        comparable_text(call): call
        for tree in expressions
        for call in find_aggregates(tree)
        if _may_be_of_intervals(node, call)
    }
    if not calls:
        return list(expressions)
    texts = [text_of(_argument_of(call)) for call in calls.values()]
    argument_types = builder.analysis.types_of(node.fields, texts)
    of_intervals = {
        text: call
        for (text, call), argument_type in zip(calls.items(), argument_types, strict=True)
        if isinstance(argument_type, types.YearMonthInterval)
    }
    data_types = builder.analysis.types_of(node.fields, list(map(text_of, of_intervals.values())))
    values = {
        text: _over_months(call, data_type)
        for (text, call), data_type in zip(of_intervals.items(), data_types, strict=True)
    }

    def replacement(part: Tree) -> Tree | None:
        value = values.get(comparable_text(part)) if isinstance(part, _CALLS) else None
        return None if value is None else value.copy()

    return [substituted(tree, replacement) for tree in expressions]


_CALLS = (*_FUNCTIONS, exp.Filter)


def _may_be_of_intervals(node: Node, call: Tree) -> bool:
    """Return whether a call may have year-month intervals as its argument, as far as is plain."""
    if not isinstance(function_of(call), _FUNCTIONS) or function_of(call).expressions:
        return False
    value = _argument_of(call)
    if isinstance(value, exp.Star | exp.Distinct) or has_subquery_call(call):
        return False
    has_field = any(isinstance(field.type, types.YearMonthInterval) for field in node.fields)
    return has_field or "INTERVAL" in text_of(value).upper()


def _argument_of(call: Tree) -> Tree:
    """Return the argument of a call, without DISTINCT if it is one value."""
    argument: Tree = function_of(call).this
    is_one = isinstance(argument, exp.Distinct) and len(argument.expressions) == 1
    return argument.expressions[0] if is_one else argument


def _over_months(call: Tree, data_type: types.DataType) -> Tree:
    """Return the value of a call, of its type, computed from months."""
    function = type(function_of(call))
    if function is exp.Count:
        return _with_function(call, exp.Count)
    if function is exp.Avg:
        total, count = (text_of(_with_function(call, kind)) for kind in (exp.Sum, exp.Count))
        text = f"CAST({total} AS {_MONTHS}) / nullif({count}, 0)"
    else:
        text = f"CAST({text_of(_with_function(call, function))} AS {_MONTHS})"
    return parse_expression(cast_text(text, data_type))


def _with_function(call: Tree, function: type[Tree]) -> Tree:
    """Return a call of a function of the months of the intervals that a call reads."""
    copied = call.copy()
    inner, value = function_of(copied), _argument_of(copied)
    months = parse_expression(f"CAST(CAST({text_of(value)} AS {_MONTHS}) AS BIGINT)")
    value.replace(months)
    if inner is copied:
        return function(this=copied.this)
    inner.replace(function(this=inner.this))
    return copied
