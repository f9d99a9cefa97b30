"""Simplify plans: remove unread fields, merge projections, move filters down, share equal parts.

Promises: rows, keys and visible columns do not change.
Does not know: Spark. Expressions are parsed again; `dialect` promises that this is lossless.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    as_operand,
    columns_of,
    conjunction,
    conjuncts,
    parse_expression,
    substituted,
    text_of,
)

from ..plan.generate import Generate
from ..plan.materialize import Materialize
from ..plan.node import Node
from ..plan.stateless import Filter, Output, Project
from ..plan.temporal import TemporalFilter
from .sharing import prune_shared, share_equal_parts, unify_shared


def simplify_plan(root: Materialize) -> Materialize:
    """Return an equivalent plan with fewer operators and fields, equal parts of it shared."""
    shared = root.with_children([share_equal_parts(merge_operators(root.child))])
    pruned = prune_shared(shared.prune(frozenset(), _fields_of), _fields_of)
    (child,) = pruned.children
    return replace(root, child=unify_shared(merge_operators(child)))


def _fields_of(expression: str) -> set[str]:
    return columns_of(parse_expression(expression))


def merge_operators(node: Node) -> Node:
    """Return an operator with adjacent projections and filters merged, at every level."""
    node = node.with_children([merge_operators(child) for child in node.children])
    match node:
        case Filter(Filter(child, inner_condition), condition):
            conditions = conjunction(
                [parse_expression(inner_condition), parse_expression(condition)]
            )
            return merge_operators(Filter(child, text_of(conditions)))
        case Filter(Project(child, outputs), condition):
            passed_outputs = {
                output.field.name: output for output in outputs if output.source is not None
            }
            tree = parse_expression(condition)
            if columns_of(tree) <= set(passed_outputs):
                return _merge_project(
                    merge_operators(Filter(child, _inline_columns(tree, passed_outputs))), outputs
                )
        case Filter(TemporalFilter() as temporal, condition) if temporal.flag not in _fields_of(
            condition
        ):
            # The filter with state comes last.
            return replace(temporal, child=merge_operators(Filter(temporal.child, condition)))
        case Filter(Generate() as generate, condition):
            return _filter_below(generate, condition)
        case Project(child, outputs):
            return _merge_project(child, outputs)
    return node


def _filter_below(generate: Generate, condition: str) -> Node:
    """Return the rows of a generator for which a condition is true, filtered before it if it can.

    What reads only fields that pass it decides about all rows of an input row.
    """
    passed = set(generate.passed)
    parts = list(conjuncts(parse_expression(condition)))
    below = [part for part in parts if columns_of(part) and columns_of(part) <= passed]
    if not below:
        return Filter(generate, condition)
    child = merge_operators(Filter(generate.child, text_of(conjunction(below))))
    above = [part for part in parts if part not in below]
    generated = replace(generate, child=child)
    return Filter(generated, text_of(conjunction(above))) if above else generated


def _merge_project(child: Node, outputs: tuple[Output, ...]) -> Node:
    if isinstance(child, Project) and _can_merge(child, outputs):
        inner_outputs = {output.field.name: output for output in child.outputs}
        merged = tuple(_compose_output(output, inner_outputs) for output in outputs)
        return _merge_project(child.child, merged)
    return Project(child, outputs).drop_identity()


def _can_merge(child: Project, outputs: Iterable[Output]) -> bool:
    """Return whether merging computes no expression twice."""
    uses = Counter(name for output in outputs for name in _column_names(output.expression))
    return all(
        output.source is not None
        or uses[output.field.name] <= 1
        or not _fields_of(output.expression)
        for output in child.outputs
    )


def _column_names(expression: str) -> list[str]:
    return [column.name for column in parse_expression(expression).find_all(exp.Column)]


def _compose_output(output: Output, inner_outputs: dict[str, Output]) -> Output:
    """Return an output over the child of the projection whose outputs it reads."""
    if output.source is not None:
        inner_output = inner_outputs[output.source]
        return Output(output.field, inner_output.expression, inner_output.source)
    return replace(
        output, expression=_inline_columns(parse_expression(output.expression), inner_outputs)
    )


def _inline_columns(tree: Tree, inner_outputs: dict[str, Output]) -> str:
    def replacement(node: Tree) -> Tree | None:
        if not isinstance(node, exp.Column):
            return None
        return as_operand(parse_expression(inner_outputs[node.name].expression))

    return text_of(substituted(tree, replacement))
