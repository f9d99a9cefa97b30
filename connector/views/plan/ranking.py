"""ROW_NUMBER under a bound: the first rows of every group.

Promises: a condition is taken in only where all it says is which places a row may have.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from relstate.storage import types

from .dialect import Tree, bare, is_column, meaning
from .function import refused
from .node import Filter, Node, Project, TopN
from .relation import UNBOUNDED, Builder

_FLIPPED: dict[type[Tree], type[Tree]] = {
    exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE, exp.EQ: exp.EQ,
}  # fmt: skip


def windows_of(expressions: list[Tree]) -> list[Tree]:
    """Return the windows in expressions, each once."""
    found = {meaning(one): one for each in expressions for one in each.find_all(exp.Window)}
    return list(found.values())


def ranked(builder: Builder, node: Node, window: Tree, title: str) -> tuple[Node, str]:
    """Return the rows with their places in their groups as a further field, and its name.

    UnsupportedStatementError for any window but ROW_NUMBER.
    """
    order = window.args.get("order")
    if not isinstance(window.this, exp.RowNumber) or window.args.get("spec"):
        raise refused("a window", "only ROW_NUMBER below a bound is kept incrementally yet", window)
    if order is None or window.args.get("alias"):
        raise refused("this window", "write PARTITION BY … ORDER BY … in it", window)
    node, keys = builder.ordered(node, sort_keys(order), "ORDER BY")
    partition = window.args.get("partition_by") or []
    rank = types.Field(builder.namer.fresh(title), types.Int())
    if not partition:
        node, everything = builder.with_constant(node, "all_rows")
        return TopN(node, (everything,), keys, UNBOUNDED, rank=rank, is_global=True), rank.name
    node, groups = builder.ordered(node, [(one, False, True) for one in partition], "PARTITION BY")
    return TopN(node, tuple(one.name for one in groups), keys, UNBOUNDED, rank=rank), rank.name


def sort_keys(order: Tree) -> list[tuple[Tree, bool, bool]]:
    """Return what an ORDER BY sorts by: the expression, descending, NULLs first."""
    return [
        (one.this, bool(one.args.get("desc")), bool(one.args.get("nulls_first")))
        for one in order.expressions
    ]


def bounded(node: Node, condition: Tree) -> Node | None:
    """Return the rows for which a condition on a rank is true; None if it is no such condition."""
    found = _range(condition)
    return None if found is None else _narrowed(node, *found)


def check_bounded(node: Node) -> None:
    """UnsupportedStatementError if a rank beneath has no bound."""
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
            # What was filtered by anything else has gaps, which the rank keeps.
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
        low, high = _number(condition.args["low"]), _number(condition.args["high"])
        if is_column(condition.this) and low is not None and high is not None:
            return condition.this.name, low, high
        return None
    kind, left, right = type(condition), condition.this, condition.args.get("expression")
    if kind not in _FLIPPED or right is None:
        return None
    if is_column(bare(right)):
        kind, left, right = _FLIPPED[kind], right, left
    number = _number(right)
    if number is None or not is_column(bare(left)):
        return None
    low, high = {
        exp.LT: (1, number - 1), exp.LTE: (1, number), exp.EQ: (number, number),
        exp.GT: (number + 1, UNBOUNDED), exp.GTE: (number, UNBOUNDED),
    }[kind]  # fmt: skip
    return bare(left).name, low, high


def _number(tree: Tree) -> int | None:
    tree = bare(tree)
    return int(tree.this) if isinstance(tree, exp.Literal) and tree.is_int else None
