"""Calls that stand for subqueries within an expression, and the NOT before those of IN.

Promises: an expression is rewritten as Spark rewrites it, so that NOT is directly before IN. A NOT
IN that Spark may evaluate within a join is marked: of NULL it may be true there.
Does not know: how IN becomes a join (subqueries).
"""

from __future__ import annotations

from sqlglot import exp

from relstate.connector.syntax.tree import Tree, as_operand, substituted, without_parentheses
from relstate.storage import errors

from .builder import is_subquery_call
from .expressions import SUBQUERY_CALL, unsupported_error

MEMBERSHIP_CALL = f"{SUBQUERY_CALL}in_"
"""The prefix of the names of calls that stand for IN of a subquery."""

_JOIN_MEMBERSHIP_CALL = f"{MEMBERSHIP_CALL}join_"


def is_membership(tree: Tree) -> bool:
    """Return whether an expression is the call that stands for IN of a subquery."""
    return isinstance(tree, exp.Anonymous) and str(tree.this).startswith(MEMBERSHIP_CALL)


def is_negated_membership(tree: Tree) -> bool:
    """Return whether an expression is NOT IN of a subquery."""
    return isinstance(tree, exp.Not) and is_membership(without_parentheses(tree.this))


def has_membership(tree: Tree) -> bool:
    """Return whether an expression has a call that stands for IN of a subquery."""
    return any(map(is_membership, tree.find_all(exp.Anonymous)))


def with_join_memberships(condition: Tree) -> Tree:
    """Return a condition whose calls of IN are marked as those in the condition of a join."""

    def replacement(node: Tree) -> Tree | None:
        if not is_membership(node) or is_join_membership(node):
            return None
        number = str(node.this).removeprefix(MEMBERSHIP_CALL)
        return exp.Anonymous(
            this=f"{_JOIN_MEMBERSHIP_CALL}{number}",
            expressions=[argument.copy() for argument in node.expressions],
        )

    return substituted(condition, replacement)


def is_join_membership(tree: Tree) -> bool:
    """Return whether an expression is a call of IN that `with_join_memberships` has marked."""
    return isinstance(tree, exp.Anonymous) and str(tree.this).startswith(_JOIN_MEMBERSHIP_CALL)


def join_membership_error(tree: Tree) -> errors.UnsupportedStatementError:
    """Return the error of a NOT IN in the condition of a join whose values may be NULL."""
    return unsupported_error(
        "NOT IN (SELECT …) of values that may be NULL in ON",
        "whether it is true of NULL depends on how Spark plans the join; write NOT EXISTS, or "
        "values that are never NULL on both sides of IN, as by coalesce(), or for an inner join "
        "write it in WHERE",
        tree,
    )


def outermost_calls(tree: Tree) -> list[Tree]:
    """Return the calls in an expression that stand for subqueries, of IN with the NOT before it."""
    if is_negated_membership(tree) or is_subquery_call(tree):
        return [tree]
    return [call for child in tree.iter_expressions() for call in outermost_calls(child)]


def with_value(tree: Tree, call: Tree, value: Tree) -> Tree:
    """Return an expression in which a value replaces a call."""
    return substituted(tree, lambda node: exp.Paren(this=value.copy()) if node == call else None)


def with_direct_negations(tree: Tree) -> Tree:
    """Return an expression in which every NOT that concerns IN is directly before it.

    IN compared with FALSE is a NOT, and NOT of an AND or OR goes into both sides.
    """
    return _push_negations(_negate_comparisons(tree))


def _negate_comparisons(tree: Tree) -> Tree:
    def replacement(node: Tree) -> Tree | None:
        if not isinstance(node, exp.EQ | exp.NEQ):
            return None
        for value, constant in ((node.this, node.expression), (node.expression, node.this)):
            constant = without_parentheses(constant)
            is_negation = isinstance(constant, exp.Boolean) and (
                bool(constant.this) is isinstance(node, exp.NEQ)
            )
            if is_negation and has_membership(value):
                return exp.Paren(this=exp.Not(this=as_operand(_negate_comparisons(value))))
        return None

    return substituted(tree, replacement)


def _push_negations(tree: Tree) -> Tree:
    def replacement(node: Tree) -> Tree | None:
        inner = without_parentheses(node.this) if isinstance(node, exp.Not) else None
        if inner is None or not has_membership(inner):
            return None
        if isinstance(inner, exp.Not):
            return exp.Paren(this=_push_negations(without_parentheses(inner.this)))
        if not isinstance(inner, exp.And | exp.Or):
            return None
        kind = exp.Or if isinstance(inner, exp.And) else exp.And
        sides = (exp.Not(this=as_operand(side)) for side in (inner.this, inner.expression))
        left, right = map(_push_negations, sides)
        return exp.Paren(this=kind(this=left, expression=right))

    return substituted(tree, replacement)
