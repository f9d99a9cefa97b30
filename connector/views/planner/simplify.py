"""Smaller plans: unread fields are removed, projections merged, filters moved down.

Promises: the result has the same rows; keys and visible columns are what they were.
Does not know: Spark. Expressions are parsed again, which `dialect` promises to be faithful.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    columns_of,
    conjunction,
    enclosed,
    parse_expression,
    substituted,
    text_of,
)

from ..plan.node import Node
from ..plan.stateful import Materialize
from ..plan.stateless import Filter, Output, Project


def simplified(root: Materialize) -> Materialize:
    """Return a plan that does the same with less."""
    merged = root.with_children([_merged(root.child)])
    pruned = merged.pruned(frozenset(), _fields_of)
    (child,) = pruned.children
    return replace(root, child=_merged(child))


def _fields_of(expression: str) -> set[str]:
    return columns_of(parse_expression(expression))


def _merged(node: Node) -> Node:
    """Return an operator whose projections and filters are as few as can be."""
    node = node.with_children([_merged(child) for child in node.children])
    match node:
        case Filter(Filter(child, inner), condition):
            both = conjunction([parse_expression(inner), parse_expression(condition)])
            return _merged(Filter(child, text_of(both)))
        case Filter(Project(child, outputs), condition):
            passed = {one.field.name: one for one in outputs if one.source is not None}
            tree = parse_expression(condition)
            if columns_of(tree) <= set(passed):
                return _merged_project(_merged(Filter(child, _inlined(tree, passed))), outputs)
        case Project(child, outputs):
            return _merged_project(child, outputs)
    return node


def _merged_project(child: Node, outputs: tuple[Output, ...]) -> Node:
    if isinstance(child, Project) and _can_merge(child, outputs):
        inner = {one.field.name: one for one in child.outputs}
        merged = tuple(_through(one, inner) for one in outputs)
        return _merged_project(child.child, merged)
    return Project(child, outputs).unless_identity()


def _can_merge(child: Project, outputs: Iterable[Output]) -> bool:
    """Tell whether nothing that is computed would be computed twice."""
    uses = Counter(name for one in outputs for name in _uses(one.expression))
    return all(
        one.source is not None or uses[one.field.name] <= 1 or not _fields_of(one.expression)
        for one in child.outputs
    )


def _uses(expression: str) -> list[str]:
    return [one.name for one in parse_expression(expression).find_all(exp.Column)]


def _through(output: Output, inner: dict[str, Output]) -> Output:
    """Return an output over what is beneath the projection that it reads."""
    if output.source is not None:
        found = inner[output.source]
        return Output(output.field, found.expression, found.source)
    return replace(output, expression=_inlined(parse_expression(output.expression), inner))


def _inlined(tree: Tree, inner: dict[str, Output]) -> str:
    def replacement(node: Tree) -> Tree | None:
        if not isinstance(node, exp.Column):
            return None
        return enclosed(parse_expression(inner[node.name].expression))

    return text_of(substituted(tree, replacement))
