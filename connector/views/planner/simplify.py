"""Plans made smaller: what nobody reads goes, projections become one, filters sink below them.

Promises: the result has the same rows; keys and visible columns are what they were.
Does not know: Spark. Expressions are parsed again, which `dialect` promises to be faithful.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
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

from ..plan.aggregate import Aggregate
from ..plan.join import Join
from ..plan.materialize import Materialize
from ..plan.node import Filter, Node, Output, Project, Scan, Unary, Union
from ..plan.topn import TopN


def simplified(root: Materialize) -> Materialize:
    """Return a plan that does the same with less."""
    read = {field for _, field in root.visible} | {one.name for one in root.order}
    child = _merged(_pruned(_merged(root.child), read | set(root.child.key)))
    return replace(root, child=child)


# --- Which fields are read. -------------------------------------------------------------------


def _pruned(node: Node, read: Collection[str]) -> Node:
    """Return an operator without fields that are not ``read`` and can be left out."""
    wanted = set(read) | set(node.key)
    match node:
        case Scan(columns=columns):
            kept = tuple(one for one in columns if one.field.name in wanted)
            return replace(node, columns=kept)
        case Project(child, outputs):
            return _pruned_project(child, outputs, wanted)
        case Filter(child, condition):
            return Filter(_pruned(child, wanted | _read_by(condition)), condition)
        case Aggregate(child, group, calls):
            kept_calls = tuple(one for one in calls if one.output.name in wanted)
            if node.is_global and not kept_calls:
                kept_calls = calls[:1]
            inputs = {name for call in kept_calls for name in (call.argument, call.filter) if name}
            return replace(node, child=_pruned(child, {*group, *inputs}), calls=kept_calls)
        case Join(left, right, _, keys, condition):
            wanted |= set() if condition is None else _read_by(condition)
            return replace(
                node,
                left=_pruned(left, wanted & set(left.names) | {key.left for key in keys}),
                right=_pruned(right, wanted & set(right.names) | {key.right for key in keys}),
            )
        case TopN(child, group, order):
            inner = wanted & set(child.names) | {*group, *(one.name for one in order)}
            is_ranked = node.rank is not None and node.rank.name in read
            return replace(node, child=_pruned(child, inner), rank=node.rank if is_ranked else None)
        case Union(inputs, _):
            return replace(node, inputs=tuple(_only(one, node, wanted) for one in inputs))
    return node


def _pruned_project(child: Node, outputs: Iterable[Output], wanted: set[str]) -> Node:
    kept = [one for one in outputs if one.field.name in wanted]
    there = {one.source for one in kept}
    kept += [one for one in outputs if one.source in set(child.key) - there]
    inner = {name for one in kept for name in _read_by(one.expression)}
    return _without_nothing(Project(_pruned(child, inner), tuple(kept)))


def _only(node: Node, union: Node, wanted: set[str]) -> Node:
    """Return an input of a union with the fields that are wanted of it, in the union's order."""
    assert isinstance(node, Project), "what tells the inputs of a union apart is computed"
    outputs = {one.field.name: one for one in node.outputs}
    kept = tuple(outputs[name] for name in union.names if name in wanted)
    inner = {name for one in kept for name in _read_by(one.expression)}
    return Project(_pruned(node.child, inner), kept)


def _read_by(expression: str) -> set[str]:
    return columns_of(parse_expression(expression))


# --- Projections that become one. -------------------------------------------------------------


def _merged(node: Node) -> Node:
    """Return an operator whose projections and filters are as few as can be."""
    node = _with_children(node, [_merged(child) for child in node.children])
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
    return _without_nothing(Project(child, outputs))


def _can_merge(child: Project, outputs: Iterable[Output]) -> bool:
    """Tell whether nothing that is computed would be computed twice."""
    uses = Counter(name for one in outputs for name in _uses(one.expression))
    return all(
        one.source is not None or uses[one.field.name] <= 1 or not _read_by(one.expression)
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


def _without_nothing(node: Project) -> Node:
    """Return the child of a projection that changes nothing."""
    same = [one.source == one.field.name for one in node.outputs]
    if all(same) and tuple(one.field.name for one in node.outputs) == node.child.names:
        return node.child
    return node


def _with_children(node: Node, children: list[Node]) -> Node:
    match node:
        case Scan():
            return node
        case Join():
            return replace(node, left=children[0], right=children[1])
        case Union():
            return replace(node, inputs=tuple(children))
        case Unary():
            return replace(node, child=children[0])
    raise TypeError(f"{type(node).__name__} is no operator of a plan")
