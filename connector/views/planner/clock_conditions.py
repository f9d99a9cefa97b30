"""Conditions in WHERE, HAVING and ON that read the present time, with AND, OR and NOT.

Comparisons by AND are filters one after the other. Those below OR are taken apart into cases of
which a row passes at most one at a time: each case is a chain of filters, and the result is the
union of their rows, under the key that they had. In any other condition, such as CASE, and where
there are many cases, each comparison is a field that follows the clock (clock_flags).

Promises: NULL is what it is to Spark: a condition that is NULL lets no row pass, nor does its NOT.
Does not know: how a filter is maintained.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    as_operand,
    conjunction,
    conjuncts,
    disjunction,
    disjuncts,
    parse_expression,
    text_of,
    without_parentheses,
)
from relstate.storage import NEVER, types

from ..plan.node import Node
from ..plan.stateless import Filter, Output, Project, Union
from .analysis import Analysis
from .clock_comparisons import compares_within, equality, has_clock
from .clock_flags import UniqueName, attach_flags, is_comparison, memberships, pair
from .disjoint_terms import Combination, Term, disjoint_terms
from .expressions import COMPARISONS
from .temporal import ComputeFields, MomentBound, compare_with_clock, filter_moments

_OPPOSITES: dict[type[Tree], type[Tree]] = {
    exp.GT: exp.LTE, exp.GTE: exp.LT, exp.LT: exp.GTE, exp.LTE: exp.GT, exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ, exp.And: exp.Or, exp.Or: exp.And,
}  # fmt: skip
_COMPARED = frozenset(COMPARISONS)
_MOST_CASES = 32

_Atom = MomentBound | str
"""A bound of a moment, or a field that is a condition."""


def split_condition(condition: Tree) -> list[Tree]:
    """Return conditions that all hold where one does.

    Those that read the present time are comparisons, and OR of comparisons and other conditions.
    """
    if not has_clock(condition):
        return [condition]
    return list(conjuncts(_without_not(condition)))


def filter_by_clock(
    analysis: Analysis,
    compute: ComputeFields,
    unique_name: UniqueName,
    node: Node,
    conditions: Sequence[Tree],
) -> Node:
    """Return the rows for which conditions are true, as `split_condition` returned them."""
    comparisons = [condition for condition in conditions if is_comparison(condition)]
    node, bounds = compare_with_clock(analysis, compute, node, comparisons)
    node = filter_moments(node, [bound for parts in bounds for bound in parts])
    for condition in conditions:
        if not is_comparison(condition):
            node = _filter_any(analysis, compute, unique_name, node, condition)
    return node


def _without_not(condition: Tree, *, is_negated: bool = False) -> Tree:
    """Return an equal condition, or its opposite, without NOT, BETWEEN and <> over a clock."""
    condition = without_parentheses(condition)
    kind = type(condition)
    if not has_clock(condition) or (kind in _COMPARED and compares_within(condition)):
        return exp.Not(this=as_operand(condition)) if is_negated else condition
    match condition:
        case exp.Not():
            return _without_not(condition.this, is_negated=not is_negated)
        case exp.Between() | exp.In():
            return _without_not(memberships(condition), is_negated=is_negated)
        case exp.NullSafeEQ() if not is_negated:
            return equality(condition)
        case exp.And() | exp.Or():
            parts = (condition.this, condition.expression)
            left, right = (_without_not(part, is_negated=is_negated) for part in parts)
            return pair(_OPPOSITES[kind] if is_negated else kind, left, right)
    if is_negated and kind not in _OPPOSITES:
        return exp.Not(this=as_operand(condition))
    kind = _OPPOSITES[kind] if is_negated else kind
    left, right = condition.this, condition.expression
    if kind is exp.NEQ:
        return exp.Or(this=pair(exp.LT, left, right), expression=pair(exp.GT, left, right))
    return pair(kind, left, right) if is_negated else condition


def _filter_any(
    analysis: Analysis,
    compute: ComputeFields,
    unique_name: UniqueName,
    node: Node,
    condition: Tree,
) -> Node:
    """Return the rows for which a condition, not a comparison alone, is true."""
    leaves = list(_leaves(condition))
    plain = [leaf for leaf in leaves if not has_clock(leaf)]
    timed = [leaf for leaf in leaves if has_clock(leaf)]
    if not all(map(is_comparison, timed)):
        return _filter_by_flags(analysis, compute, unique_name, node, condition)
    computed, conditions = compute(node, plain, ["condition"] * len(plain))
    computed, bounds = compare_with_clock(analysis, compute, computed, timed)
    atoms: dict[str, Sequence[_Atom]] = {
        text_of(leaf): (name,) for leaf, name in zip(plain, conditions, strict=True)
    }
    atoms |= {text_of(leaf): parts for leaf, parts in zip(timed, bounds, strict=True)}
    cases: Iterator[Term[_Atom]] = disjoint_terms(_formula(condition, atoms))
    terms = list(islice(cases, _MOST_CASES + 1))
    if len(terms) > _MOST_CASES:
        return _filter_by_flags(analysis, compute, unique_name, node, condition)
    # A join with a subquery adds fields to the key.
    names = {*node.names, *computed.key}
    outputs = tuple(
        Output(f, types.quoted(f.name), f.name) for f in computed.fields if f.name in names
    )
    inputs = tuple(Project(_filter_term(compute, computed, term), outputs) for term in terms)
    return Union(inputs, computed.key)


def _filter_by_flags(
    analysis: Analysis, compute: ComputeFields, unique_name: UniqueName, node: Node, condition: Tree
) -> Node:
    """Return the rows for which a condition is true, each of its comparisons a field."""
    node, (condition,) = attach_flags(analysis, compute, unique_name, node, [condition])
    return Filter(node, text_of(condition))


def _leaves(condition: Tree) -> Iterator[Tree]:
    """Yield the conditions of a combination by AND and OR; those without a clock are not split."""
    parts = _parts(condition)
    if len(parts) == 1:
        yield condition
    else:
        for part in parts:
            yield from _leaves(part)


def _parts(condition: Tree) -> list[Tree]:
    """Return what an AND or an OR combines: first, as one, what does not read the present time."""
    if not has_clock(condition) or not isinstance(condition, exp.And | exp.Or):
        return [condition]
    is_any = isinstance(condition, exp.Or)
    parts = list(map(without_parentheses, (disjuncts if is_any else conjuncts)(condition)))
    plain = [part for part in parts if not has_clock(part)]
    whole = [(disjunction if is_any else conjunction)(plain)] if plain else []
    return [*whole, *(part for part in parts if has_clock(part))]


def _formula(condition: Tree, atoms: dict[str, Sequence[_Atom]]) -> _Atom | Combination[_Atom]:
    parts = _parts(condition)
    if len(parts) > 1:
        is_any = isinstance(condition, exp.Or)
        return Combination(is_any, tuple(_formula(part, atoms) for part in parts))
    bounds = tuple(atoms[text_of(condition)])
    return bounds[0] if len(bounds) == 1 else Combination(False, bounds)


def _filter_term(compute: ComputeFields, node: Node, term: Term[_Atom]) -> Node:
    """Return the rows for which each condition of a term is true, or is not."""
    conditions: list[Tree] = []
    bounds = [atom for atom, is_true in term if isinstance(atom, MomentBound) and is_true]
    never_null = {bound.moment for bound in bounds}
    for atom, is_true in term:
        if isinstance(atom, str):
            name = types.quoted(atom)
            conditions.append(parse_expression(name if is_true else f"NOT coalesce({name}, false)"))
        elif not is_true:
            bound = atom.opposite
            if atom.moment not in never_null:
                node, moment = _with_moment(compute, node, bound)
                bound = bound.of(moment)
            bounds.append(bound)
    if conditions:
        node = Filter(node, text_of(conjunction(conditions)))
    return filter_moments(node, bounds)


def _with_moment(compute: ComputeFields, node: Node, bound: MomentBound) -> tuple[Node, str]:
    """Return a node with a moment for every row, within the bound where there was none."""
    within = NEVER if bound.is_low else -NEVER
    value = parse_expression(f"coalesce({types.quoted(bound.moment)}, {within})")
    node, (moment,) = compute(node, [value], ["moment"])
    return node, moment
