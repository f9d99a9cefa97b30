"""Rank bounds: conditions on the position of a row in its group.

Promises: a condition becomes a bound only if it restricts nothing but the position of a row.
Does not know: how rows are ranked.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from relstate.connector.syntax.tree import Tree, is_column, whole_constant, without_parentheses

from ..plan.node import Node
from ..plan.stateless import Filter, Project
from ..plan.topn import UNBOUNDED, TopN

_FLIPPED: dict[type[Tree], type[Tree]] = {
    exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE, exp.EQ: exp.EQ,
}  # fmt: skip


def apply_rank_bound(node: Node, condition: Tree) -> Node | None:
    """Return the rows for which a rank condition is true; None if it is not a rank condition."""
    positions = _allowed_positions(condition)
    return None if positions is None else _narrow_rank(node, *positions)


def _narrow_rank(node: Node, name: str, low: int, high: int) -> Node | None:
    """Return the operator with positions ``low`` to ``high``; None if ``name`` is not a rank."""
    match node:
        case Project(child, outputs):
            source = next(output.source for output in outputs if output.field.name == name)
            narrowed = None if source is None else _narrow_rank(child, source, low, high)
            return None if narrowed is None else replace(node, child=narrowed)
        case Filter(child, _):
            # Rows that another filter removed leave gaps: the ranks of the others do not change.
            narrowed = _narrow_rank(child, name, low, high)
            return None if narrowed is None else replace(node, child=narrowed)
        case TopN() if node.rank is not None and node.rank.name == name:
            first = max(node.offset + 1, low)
            last = min(node.offset + node.limit, high)
            return replace(node, offset=first - 1, limit=max(0, last - first + 1))
    return None


def _allowed_positions(condition: Tree) -> tuple[str, int, int] | None:
    """Return (field, first position, last position) that a condition allows, counted from 1."""
    condition = without_parentheses(condition)
    if isinstance(condition, exp.Between):
        low, high = whole_constant(condition.args["low"]), whole_constant(condition.args["high"])
        if is_column(condition.this) and low is not None and high is not None:
            return condition.this.name, low, high
        return None
    operator, left, right = type(condition), condition.this, condition.args.get("expression")
    if operator not in _FLIPPED or right is None:
        return None
    if is_column(without_parentheses(right)):
        operator, left, right = _FLIPPED[operator], right, left
    number = whole_constant(right)
    if number is None or not is_column(without_parentheses(left)):
        return None
    ranges: dict[type[Tree], tuple[int, int]] = {
        exp.LT: (1, number - 1),
        exp.LTE: (1, number),
        exp.EQ: (number, number),
        exp.GT: (number + 1, UNBOUNDED),
        exp.GTE: (number, UNBOUNDED),
    }
    return (without_parentheses(left).name, *ranges[operator])
