"""Which fields of a plan are never NULL.

Promises: a field that is said never to be NULL never is; of others nothing is said.
"""

from __future__ import annotations

from collections.abc import Set

from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    conjuncts,
    is_column,
    parse_expression,
    without_parentheses,
)

from ..plan.aggregate import Aggregate
from ..plan.generate import Generate
from ..plan.join import JoinKind, JoinNode
from ..plan.node import Node
from ..plan.stateless import Filter, Project, Scan, Union
from ..plan.temporal import TemporalFilter
from ..plan.topn import TopN
from ..plan.window import OrderedWindow
from .expressions import function_name


def is_never_null(node: Node, name: str, scanned: Set[str]) -> bool:
    """Return whether a field of a node is never NULL; ``scanned``: those of scans that are not."""
    match node:
        case Scan():
            return name in scanned
        case Project(child, outputs):
            output = next(output for output in outputs if output.field.name == name)
            if output.source is None:
                return _has_default(parse_expression(output.expression))
            return is_never_null(child, output.source, scanned)
        case Filter(child, condition) if _excludes_null(condition, name):
            return True
        case (
            Filter(child)
            | TemporalFilter(child)
            | TopN(child)
            | Aggregate(child)
            | Generate(child)
            | OrderedWindow(child)
        ):
            return name in child.names and is_never_null(child, name, scanned)
        case Union():
            return all(is_never_null(child, name, scanned) for child in node.inputs)
        case JoinNode():
            return _is_never_null_in_join(node, name, scanned)
    return False


def _has_default(tree: Tree) -> bool:
    """Return whether an expression is a literal, or one where it would be NULL."""
    tree = without_parentheses(tree)
    if function_name(tree) == "coalesce":
        return any(map(_has_default, tree.expressions))
    return isinstance(tree, exp.Literal | exp.Boolean)


def _excludes_null(condition: str, name: str) -> bool:
    """Return whether a condition is not true where a field is NULL, as far as that is plain."""
    return any(_compares(part, name) for part in conjuncts(parse_expression(condition)))


def _compares(condition: Tree, name: str) -> bool:
    if isinstance(condition, exp.Not) and isinstance(condition.this, exp.Is):
        is_null = isinstance(condition.this.expression, exp.Null)
        return is_null and _is_field(condition.this.this, name)
    if not isinstance(condition, exp.EQ | exp.NEQ | exp.GT | exp.GTE | exp.LT | exp.LTE):
        return False
    return _is_field(condition.this, name) or _is_field(condition.expression, name)


def _is_field(tree: Tree, name: str) -> bool:
    tree = without_parentheses(tree)
    return is_column(tree) and tree.name == name


def _is_never_null_in_join(node: JoinNode, name: str, scanned: Set[str]) -> bool:
    preserved = {
        JoinKind.INNER: (node.left, node.right),
        JoinKind.RIGHT: (node.right,),
        JoinKind.FULL: (),
    }.get(node.kind, (node.left,))
    return any(name in side.names and is_never_null(side, name, scanned) for side in preserved)
