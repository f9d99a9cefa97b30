"""approx_count_distinct over few rows of a group, however many it has.

Spark's HyperLogLog++ puts the hash of a value into one of 2^p registers by its first p bits, and
keeps in each the greatest position of the first 1 among the other bits. So one value per register,
one with the greatest position, has the same estimate as all values of the group: an aggregate keeps
these, and Spark estimates over them when one of them changes.

Promises: the estimate is Spark's own.
Does not know: the formula of the estimate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    as_operand,
    column,
    number_text,
    parse_expression,
    text_of,
)
from relstate.storage import types

from ..plan.aggregate import Aggregate, Call, Function
from ..plan.join import Join, JoinKey, JoinKind
from ..plan.node import Names, Node
from ..plan.stateless import Project
from .builder import Builder, field_title, is_keyable, pass_through_output
from .calls import AggregateCall, name_of
from .recompute import plan_group_recompute

_NAME = "approx_count_distinct"
_DEVIATION = "0.05"
_MOST_DEVIATION = 0.39
"""Spark refuses more."""
_MOST_BITS = 14
"""With more registers the groups are rarely larger."""


def is_approximate_count(builder: Builder, node: Node, call: Tree) -> bool:
    """Return whether a call is an approximate count that is kept by its registers."""
    function = call.this if isinstance(call, exp.Filter) else call
    if not isinstance(function, exp.Anonymous) or name_of(function) != _NAME:
        return False
    value, *rest = AggregateCall.of(call).call.expressions
    number = number_text(rest[0]) if len(rest) == 1 else None if rest else _DEVIATION
    if number is None:
        return False
    deviation = float(number)
    if not 0 < deviation <= _MOST_DEVIATION or _precision(deviation) > _MOST_BITS:
        return False
    return is_keyable(builder.analysis.types_of(node.fields, [text_of(value)])[0])


def plan_approximate_count(
    builder: Builder, node: Node, group: Names, call: Tree, *, is_global: bool
) -> tuple[Node, str]:
    """Return (rows with the estimate of each group, the field of the estimate)."""
    parts = AggregateCall.of(call)
    value, *rest = parts.call.expressions
    deviation = (number_text(rest[0]) if rest else None) or _DEVIATION
    if parts.filter is not None:
        text = (
            f"CASE WHEN {text_of(as_operand(parts.filter))} THEN {text_of(as_operand(value))} END"
        )
        value = parse_expression(text)
    node, (name,) = builder.compute(node, [value], [field_title(value)])
    node, register, rank = _with_rank(builder, node, name, _precision(float(deviation)))
    best = types.Field(builder.namer.unique_name(rank), node.type_of(rank))
    greatest = Aggregate(node, (*group, register), (Call(Function.MAX, rank, best),))
    chosen = parse_expression(f"{types.quoted(best.name)}.`value`")
    values, (representative,) = builder.compute(greatest, [chosen], [name])
    estimate = exp.Anonymous(
        this=_NAME, expressions=[column(representative), parse_expression(deviation)]
    )
    operator, (result,) = plan_group_recompute(
        builder, values, group, [estimate], is_global=is_global
    )
    return operator, result


def _precision(deviation: float) -> int:
    """Return the number of bits that choose a register, as Spark's HyperLogLogPlusPlusHelper."""
    return math.ceil(2.0 * math.log(1.106 / deviation) / math.log(2.0))


def _with_rank(builder: Builder, node: Node, name: str, bits: int) -> tuple[Node, str, str]:
    """Return rows with (the register of a value, the position of the first 1 and the value)."""
    value = types.quoted(name)
    hashed = f"xxhash64({value})"
    rest = f"shiftleft({hashed}, {bits}) | CAST({1 << (bits - 1)} AS BIGINT)"
    register = f"shiftrightunsigned({hashed}, {64 - bits})"
    rank = f"named_struct('position', 65 - length(bin({rest})), 'value', {value})"
    expressions = [
        parse_expression(f"CASE WHEN {value} IS NOT NULL THEN {text} END")
        for text in (register, rank)
    ]
    node, (register_name, rank_name) = builder.compute(
        node, expressions, [f"register_{name}", f"rank_{name}"]
    )
    return node, register_name, rank_name


def join_groups(
    builder: Builder, left: Node, right: Node, group: Sequence[tuple[str, str]]
) -> Node:
    """Return the rows of an operator with those of another, which has one row for each group.

    ``group``: the fields of both that are equal, or both NULL.
    """
    names = {name: builder.namer.unique_name(name) for _, name in group}
    renamed = Project(
        right, tuple(pass_through_output(field, names.get(field.name)) for field in right.fields)
    )
    keys = (
        JoinKey(name, names[right_name], _key_field(builder, left, name), is_null_safe=True)
        for name, right_name in group
    )
    return Join(left, renamed, JoinKind.INNER, tuple(keys))


def _key_field(builder: Builder, node: Node, name: str) -> types.Field:
    return types.Field(builder.namer.unique_name(f"{name}_key"), node.type_of(name))
