"""ASOF JOIN: each left row with the nearest of the right rows that meet its conditions.

It is the join by ON and MATCH_CONDITION, and of its pairs the first of each left row.

Promises: rows with a NULL in MATCH_CONDITION match nothing. Of right rows that are equally near,
the first in the order of their keys is taken; Spark takes any.
Does not know: how names are resolved.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from relstate.connector.syntax.tree import Tree, column, without_parentheses
from relstate.storage import errors

from ..plan.join import JoinKind
from ..plan.node import Node, Order
from ..plan.topn import TopN
from .builder import Builder, check_keyable, has_subquery_call, reads_only
from .expressions import unsupported_error
from .join_conditions import plan_join

_FLIPPED: dict[type[Tree], type[Tree]] = {
    exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE,
}  # fmt: skip
_BACKWARD = exp.GT, exp.GTE


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
                "Spark does not run it either; compute it in a subquery in FROM",
                condition,
            )
    first, second = (without_parentheses(side) for side in (match.this, match.expression))
    operator = type(match)
    if reads_only(right.names, first):
        first, second, operator = second, first, _FLIPPED[operator]
    if not (reads_only(left.names, first) and reads_only(right.names, second)):
        raise _sides_error(match)
    left, (value,) = builder.compute(left, [first])
    right, (moment,) = builder.compute(right, [second])
    check_keyable(right.type_of(moment), "MATCH_CONDITION")
    compared = operator(this=column(value), expression=column(moment))
    joined, remaining = plan_join(builder, left, right, kind, [*conditions, compared])
    pairs = builder.filter(joined, remaining)
    order = Order(moment, descending=operator in _BACKWARD, nulls_first=False)
    return TopN(pairs, left.key, (order,), 1)


def _sides_error(match: Tree) -> errors.UnsupportedStatementError:
    return unsupported_error(
        "this MATCH_CONDITION",
        "compare an expression over columns of the left side with one over the right side",
        match,
    )
