"""ASOF JOIN: each left row with the nearest of the right rows that meet its conditions.

With equalities alone in ON, an operator finds it by an order. With any other condition that reads
both sides, it is the join by ON and MATCH_CONDITION, and of its pairs the first of each left row.

Promises: rows with a NULL in MATCH_CONDITION match nothing. Of right rows that are equally near,
the first in the order of their keys is taken; Spark takes any. A tuple as MATCH_CONDITION is only
followed backwards: for the next one Spark 4.3 stops at a row that is not the nearest, because its
distance of tuples, member by member, does not ascend with their order.
Does not know: how names are resolved.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from relstate.connector.syntax.tree import Tree, column, without_parentheses
from relstate.storage import errors, types

from ..plan.asof_join import AsofJoin
from ..plan.broadcast_join import BroadcastJoin, Comparator, Comparison
from ..plan.join import Join, JoinKey, JoinKind
from ..plan.node import Node, Order
from ..plan.topn import TopN
from .builder import Builder, check_keyable, has_subquery_call, reads_only
from .comparisons import is_simple, plan_comparisons
from .expressions import unsupported_error
from .join_conditions import plan_join

_FLIPPED: dict[type[Tree], type[Tree]] = {
    exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE,
}  # fmt: skip
_BACKWARD = exp.GT, exp.GTE
_COMPARATORS: dict[type[Tree], Comparator] = {
    exp.LT: Comparator.LESS,
    exp.LTE: Comparator.AT_MOST,
    exp.GT: Comparator.GREATER,
    exp.GTE: Comparator.AT_LEAST,
}


def plan_asof_join(
    builder: Builder,
    left: Node,
    right: Node,
    kind: JoinKind,
    conditions: Sequence[Tree],
    match: Tree,
) -> Node:
    """Return the join of two inputs.

    ``kind``: INNER or LEFT. ``conditions``: those of ON, ``match``: that of MATCH_CONDITION, over
    the fields of both.
    """
    for condition in (*conditions, match):
        if has_subquery_call(condition):
            raise unsupported_error(
                "a subquery in the conditions of an ASOF JOIN",
                "Spark does not support it either; compute it in a subquery in FROM",
                condition,
            )
    first, second = (without_parentheses(side) for side in (match.this, match.expression))
    operator = type(match)
    if reads_only(right.names, first):
        first, second, operator = second, first, _FLIPPED[operator]
    if not (reads_only(left.names, first) and reads_only(right.names, second)):
        raise _sides_error(match)
    compared = operator(this=first, expression=second)
    nearest = _plan_nearest(builder, left, right, kind, conditions, compared)
    if nearest is not None:
        return nearest
    left, (value,) = builder.compute(left, [first])
    right, (moment,) = builder.compute(right, [second])
    check_keyable(right.type_of(moment), "MATCH_CONDITION")
    if operator not in _BACKWARD and isinstance(right.type_of(moment), types.Struct):
        raise _tuple_error(match)
    compared = operator(this=column(value), expression=column(moment))
    joined, remaining = plan_join(builder, left, right, kind, [*conditions, compared])
    pairs = builder.filter(joined, remaining)
    order = Order(moment, descending=operator in _BACKWARD, nulls_first=False)
    return TopN(pairs, left.key, (order,), 1)


def _plan_nearest(
    builder: Builder,
    left: Node,
    right: Node,
    kind: JoinKind,
    conditions: Sequence[Tree],
    compared: Tree,
) -> AsofJoin | None:
    """Return the operator that finds the nearest row; None if ON has more than equalities.

    ``compared``: an expression over the left side with one over the right side.
    """
    left, right, comparison = _compare(builder, left, right, compared)
    if comparison is None:
        return None
    joined, remaining = plan_join(builder, left, right, kind, conditions)
    if remaining:
        return None
    match joined:
        case Join(condition=None):
            return AsofJoin(joined.left, joined.right, kind, joined.keys, comparison)
        case BroadcastJoin(condition=None, comparisons=()):
            # The inputs of an inner join may have changed places.
            is_left = comparison.left in joined.left.names
            left, right = joined.children if is_left else reversed(joined.children)
            left, in_left = builder.with_constant(left, "in_left")
            right, in_right = builder.with_constant(right, "in_right")
            field = types.Field(builder.namer.unique_name("all_rows"), left.type_of(in_left))
            key = JoinKey(in_left, in_right, field)
            return AsofJoin(left, right, kind, (key,), comparison)
    return None


def _compare(
    builder: Builder, left: Node, right: Node, compared: Tree
) -> tuple[Node, Node, Comparison | None]:
    """Return both sides with what is compared as fields, and the comparison; None without one."""
    with_left, with_right, comparisons, _ = plan_comparisons(
        builder, left, right, [compared], with_equality=False
    )
    if comparisons:
        return with_left, with_right, comparisons[0]
    left, (value,) = builder.compute(left, [compared.this])
    right, (moment,) = builder.compute(right, [compared.expression])
    data_type = left.type_of(value)
    members = _exact_members(data_type)
    if members is None or members != _exact_members(right.type_of(moment)):
        return left, right, None
    if not isinstance(compared, _BACKWARD):
        return left, right, None
    right, moment = builder.cast(right, moment, data_type)
    return left, right, Comparison(value, _COMPARATORS[type(compared)], moment)


def _exact_members(data_type: types.DataType) -> list[types.DataType] | None:
    """Return the types in a struct whose keys are in Spark's order, and have one form each.

    None for any other type.
    """
    if not isinstance(data_type, types.Struct):
        return None
    members = [member.type for member in data_type.fields]
    inexact = types.Float, types.Double
    is_exact = all(is_simple(kind) and not isinstance(kind, inexact) for kind in members)
    return members if is_exact else None


def _tuple_error(match: Tree) -> errors.UnsupportedStatementError:
    return unsupported_error(
        "a MATCH_CONDITION that looks for the next tuple",
        "Spark returns other rows than the nearest for it; compare one value, or look for the "
        "previous tuple, as l >= r does",
        match,
    )


def _sides_error(match: Tree) -> errors.UnsupportedStatementError:
    return unsupported_error(
        "this MATCH_CONDITION",
        "compare an expression over columns of the left side with one over the right side",
        match,
    )
