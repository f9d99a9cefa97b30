"""Comparisons with the present time as fields of the rows, which follow the clock.

Where a comparison is not a condition of its own, as in SELECT, in an aggregate's FILTER, in CASE or
in the ON of an outer join, it becomes a BOOLEAN field: a row changes when the clock passes its
moment. Everything around the comparison is then an expression of fields like any other.

Promises: a field is NULL where the comparison is.
Does not know: what a comparison may be (temporal), or how a field is maintained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TypeAlias

from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    as_operand,
    column,
    columns_of,
    comparable_text,
    conjunction,
    disjunction,
    substituted,
    without_parentheses,
)

from ..plan.node import Node
from ..plan.temporal import TemporalFilter
from .analysis import Analysis
from .clock_comparisons import FLIPPED, compares_within, equality, has_clock
from .clock_guards import guarded
from .expressions import COMPARISONS, is_clock, present_time_error
from .temporal import ComputeFields, MomentBound, compare_with_clock, filter_moments

UniqueName: TypeAlias = Callable[[str], str]
"""Returns a name that is unique in a plan, similar to one."""


def attach_flags(
    analysis: Analysis,
    compute: ComputeFields,
    unique_name: UniqueName,
    node: Node,
    expressions: Sequence[Tree],
    *,
    is_partial: bool = False,
) -> tuple[Node, list[Tree]]:
    """Return an operator with comparisons as fields, and expressions over these fields.

    ``is_partial``: whether comparisons of fields that the operator does not have stay as they are;
    else these are an UnsupportedStatementError, as every other use of the present time.
    """
    names = set(node.names)
    compared: dict[str, Tree] = {}

    def expanded(part: Tree) -> Tree | None:
        is_own = isinstance(part, COMPARISONS) and has_clock(part) and columns_of(part) <= names
        if not is_own or compares_within(part):
            return None
        return _expanded(guarded(part, names), compared)

    expressions = [substituted(expression, expanded) for expression in expressions]
    if not is_partial:
        for expression in expressions:
            for part in filter(is_clock, expression.walk()):
                raise present_time_error(part)
    node, bounds = compare_with_clock(analysis, compute, node, list(compared.values()))
    fields: dict[str, Tree] = {}
    for text, parts in zip(compared, bounds, strict=True):
        node, flags = _with_flags(unique_name, node, parts)
        fields[text] = exp.Paren(this=conjunction([column(flag) for flag in flags]))

    def flagged(part: Tree) -> Tree | None:
        return fields[part.name] if isinstance(part, exp.Placeholder) else None

    return node, [substituted(expression, flagged) for expression in expressions]


def _expanded(condition: Tree, compared: dict[str, Tree]) -> Tree:
    """Return a comparison as one of placeholders, which are named as the keys of ``compared``."""
    condition = without_parentheses(condition)
    match condition:
        case _ if not has_clock(condition):
            return condition.copy()
        case exp.Between() | exp.In():
            parts = memberships(condition)
            pieces = [_expanded(part, compared) for part in _pieces(parts)]
            return exp.Paren(
                this=(conjunction if isinstance(parts, exp.And) else disjunction)(pieces)
            )
        case exp.NEQ():
            equal = _expanded(pair(exp.EQ, condition.this, condition.expression), compared)
            return exp.Paren(this=exp.Not(this=equal))
        case exp.NullSafeEQ():
            equal = _expanded(equality(condition), compared)
            return exp.Anonymous(this="coalesce", expressions=[equal, exp.false()])
    text = comparable_text(condition)
    compared.setdefault(text, condition)
    return exp.Placeholder(this=text)


def _pieces(condition: Tree) -> Iterator[Tree]:
    kind = type(condition)
    while isinstance(condition, kind) and isinstance(condition, exp.And | exp.Or):
        yield condition.expression
        condition = condition.this
    yield condition


def _with_flags(
    unique_name: UniqueName, node: Node, bounds: Sequence[MomentBound]
) -> tuple[Node, list[str]]:
    """Return an operator with fields that are all true where moments are within bounds."""
    flags = []
    by_moment = attrgetter("moment")
    for _, group in groupby(sorted(bounds, key=by_moment), by_moment):
        flag = unique_name("follows")
        passing = filter_moments(node, list(group))
        assert isinstance(passing, TemporalFilter)
        node = TemporalFilter(
            node, passing.moment, passing.low, passing.high, passing.unit, flag=flag
        )
        flags.append(flag)
    return node, flags


def is_comparison(condition: Tree) -> bool:
    """Return whether a condition compares two expressions, and one of them is to be the time."""
    condition = without_parentheses(condition)
    return type(condition) in FLIPPED and not compares_within(condition)


def memberships(condition: Tree) -> Tree:
    """Return BETWEEN as two comparisons, IN as equalities and an IN without the present time."""
    value = condition.this
    if isinstance(condition, exp.Between):
        low, high = condition.args["low"], condition.args["high"]
        return exp.And(this=pair(exp.GTE, value, low), expression=pair(exp.LTE, value, high))
    items: list[Tree] = condition.expressions
    separate = [item for item in items if has_clock(value) or has_clock(item)]
    plain = [item.copy() for item in items if item not in separate]
    parts: list[Tree] = [exp.In(this=as_operand(value), expressions=plain)] if plain else []
    parts += [pair(exp.EQ, value, item) for item in separate]
    combined = parts[0]
    for part in parts[1:]:
        combined = exp.Or(this=combined, expression=part)
    return combined


def pair(kind: type[Tree], left: Tree, right: Tree) -> Tree:
    """Return two expressions compared or combined."""
    return kind(this=as_operand(left), expression=as_operand(right))
