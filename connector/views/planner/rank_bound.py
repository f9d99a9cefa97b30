"""Rank bounds: conditions on the position of a row in its group.

Promises: a condition becomes a bound only if all it says is which positions a row may have.
Does not know: how rows are ranked.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from relstate.connector.syntax.tree import Tree, bare, is_column, whole_number

from ..plan.node import Node
from ..plan.stateful import UNBOUNDED, TopN
from ..plan.stateless import Filter, Project
from .expressions import refused

_FLIPPED: dict[type[Tree], type[Tree]] = {
    exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE, exp.EQ: exp.EQ,
}  # fmt: skip


def bounded(node: Node, condition: Tree) -> Node | None:
    """Return the rows for which a condition on a rank is true; None if it is no such condition."""
    found = _range(condition)
    return None if found is None else _narrowed(node, *found)


def check_bounded(node: Node) -> None:
    """UnsupportedStatementError if a rank in a plan has no bound."""
    if isinstance(node, TopN) and node.offset + node.limit >= UNBOUNDED:
        raise refused(
            "ROW_NUMBER without an upper bound",
            "all rows of a group would change their numbers with one; add a condition such as "
            "rn <= 10 in a query around it",
        )
    for child in node.children:
        check_bounded(child)


def _narrowed(node: Node, name: str, low: int, high: int) -> Node | None:
    """Return the operator with the places ``low`` to ``high`` of a rank; None if it is no rank."""
    match node:
        case Project(child, outputs):
            source = next(output.source for output in outputs if output.field.name == name)
            found = None if source is None else _narrowed(child, source, low, high)
            return None if found is None else replace(node, child=found)
        case Filter(child, _):
            # Rows that another filter removed leave gaps, which the rank keeps.
            found = _narrowed(child, name, low, high)
            return None if found is None else replace(node, child=found)
        case TopN() if node.rank is not None and node.rank.name == name:
            first = max(node.offset + 1, low)
            last = min(node.offset + node.limit, high)
            return replace(node, offset=first - 1, limit=max(0, last - first + 1))
    return None


def _range(condition: Tree) -> tuple[str, int, int] | None:
    """Return the field and the places that a condition allows it, from 1."""
    condition = bare(condition)
    if isinstance(condition, exp.Between):
        low, high = whole_number(condition.args["low"]), whole_number(condition.args["high"])
        if is_column(condition.this) and low is not None and high is not None:
            return condition.this.name, low, high
        return None
    kind, left, right = type(condition), condition.this, condition.args.get("expression")
    if kind not in _FLIPPED or right is None:
        return None
    if is_column(bare(right)):
        kind, left, right = _FLIPPED[kind], right, left
    number = whole_number(right)
    if number is None or not is_column(bare(left)):
        return None
    places: dict[type[Tree], tuple[int, int]] = {
        exp.LT: (1, number - 1),
        exp.LTE: (1, number),
        exp.EQ: (number, number),
        exp.GT: (number + 1, UNBOUNDED),
        exp.GTE: (number, UNBOUNDED),
    }
    return (bare(left).name, *places[kind])
