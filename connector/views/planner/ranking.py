"""ROW_NUMBER under a bound: the first rows of every group.

Does not know: which of the places are asked for (bound).
"""

from __future__ import annotations

from sqlglot import exp

from relstate.connector.syntax.tree import Tree, meaning
from relstate.storage import types

from ..plan.node import Node
from ..plan.stateful import UNBOUNDED, TopN
from .builder import Builder
from .expressions import refused


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
