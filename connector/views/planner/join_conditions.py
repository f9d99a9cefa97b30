"""Joins: which conditions are keys, and which are applied below, in or above the operator.

Promises: a condition is applied below a join only if the rows that it removes cannot be in the
result: on both sides of an inner join, and on the side of an outer join that is not preserved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    column,
    conjunction,
    is_column,
    text_of,
    without_parentheses,
)
from relstate.storage import types

from ..plan.join import Join, JoinKey, JoinKind
from ..plan.node import Node
from .builder import Builder, check_keyable, field_title, reads_only
from .expressions import unsupported_error


@dataclass(frozen=True, slots=True)
class _Equality:
    left: Tree
    right: Tree
    is_null_safe: bool


def plan_join(
    builder: Builder,
    left: Node,
    right: Node,
    kind: JoinKind,
    conditions: Sequence[Tree],
    join_tree: Tree,
) -> tuple[Join, list[Tree]]:
    """Return a join, and the conditions to apply above it (for inner joins only).

    ``conditions``: over the fields of both inputs.
    UnsupportedStatementError if none is an equality.
    """
    equalities, before_left, before_right, residual = [], [], [], []
    for condition in conditions:
        equality = _find_equality(condition, left, right)
        if equality is not None:
            equalities.append(equality)
        elif reads_only(left.names, condition) and kind in _LEFT_FIRST:
            before_left.append(condition)
        elif reads_only(right.names, condition) and kind in _RIGHT_FIRST:
            before_right.append(condition)
        elif not (isinstance(condition, exp.Boolean) and condition.this):
            residual.append(condition)
    if not equalities:
        raise unsupported_error(
            "a join without an equality",
            "every row of one side would match every row of the other, which is not "
            "maintained incrementally yet; join ON a = b",
            join_tree,
        )
    left = builder.filter(left, before_left)
    right = builder.filter(right, before_right)
    left, right, keys = _compute_keys(builder, left, right, equalities)
    if kind is JoinKind.INNER:
        return Join(left, right, kind, keys), residual
    residual_text = text_of(conjunction(residual)) if residual else None
    if kind is not JoinKind.FULL:
        return Join(left, right, kind, keys, residual_text), []
    left, in_left = builder.with_constant(left, "in_left")
    right, in_right = builder.with_constant(right, "in_right")
    return Join(left, right, kind, keys, residual_text, (in_left, in_right)), []


_LEFT_FIRST = (JoinKind.INNER, JoinKind.RIGHT, JoinKind.SEMI)
_RIGHT_FIRST = (JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI)


def _find_equality(condition: Tree, left: Node, right: Node) -> _Equality | None:
    condition = without_parentheses(condition)
    if not isinstance(condition, exp.EQ | exp.NullSafeEQ):
        return None
    is_null_safe = isinstance(condition, exp.NullSafeEQ)
    first, second = without_parentheses(condition.this), without_parentheses(condition.expression)
    if reads_only(left.names, first) and reads_only(right.names, second):
        return _Equality(first, second, is_null_safe)
    if reads_only(right.names, first) and reads_only(left.names, second):
        return _Equality(second, first, is_null_safe)
    return None


def is_equality(condition: Tree, left: Node, right: Node) -> bool:
    """Return whether a condition can be a key of a join."""
    return _find_equality(condition, left, right) is not None


def _compute_keys(
    builder: Builder, left: Node, right: Node, equalities: Sequence[_Equality]
) -> tuple[Node, Node, tuple[JoinKey, ...]]:
    titles = [_key_title(equality) for equality in equalities]
    left, left_names = builder.compute(left, [equality.left for equality in equalities], titles)
    right, right_names = builder.compute(right, [equality.right for equality in equalities], titles)
    keys: dict[tuple[str, str], JoinKey] = {}
    for equality, l_name, r_name, title in zip(
        equalities, left_names, right_names, titles, strict=True
    ):
        data_type = _common_type(builder, left, l_name, right, r_name, equality)
        check_keyable(data_type, "the equality of a join")
        left, l_name = builder.cast(left, l_name, data_type)
        right, r_name = builder.cast(right, r_name, data_type)
        output = types.Field(
            builder.namer.unique_name(f"{title.removesuffix('_key')}_key"), data_type
        )
        keys.setdefault((l_name, r_name), JoinKey(l_name, r_name, output, equality.is_null_safe))
        if not equality.is_null_safe:
            # a = b AND a <=> b is a = b.
            key = keys[l_name, r_name]
            keys[l_name, r_name] = JoinKey(l_name, r_name, key.field, False)
    return left, right, tuple(keys.values())


def _key_title(equality: _Equality) -> str:
    sides = equality.left, equality.right
    return field_title(next(filter(is_column, sides), equality.left))


def _common_type(
    builder: Builder, left: Node, l_name: str, right: Node, r_name: str, equality: _Equality
) -> types.DataType:
    """Return the type in which Spark compares two fields."""
    l_type, r_type = left.type_of(l_name), right.type_of(r_name)
    if l_type == r_type:
        return l_type
    is_string = isinstance(l_type, types.String), isinstance(r_type, types.String)
    if any(is_string) and not all(is_string) and not builder.analysis.is_ansi:
        raise unsupported_error(
            f"{l_type} = {r_type}",
            "outside of ANSI mode Spark compares them by rules of its own; CAST one side",
            exp.EQ(this=equality.left.copy(), expression=equality.right.copy()),
        )
    fields = (types.Field(l_name, l_type), types.Field(r_name, r_type))
    coalesced = f"coalesce({text_of(column(l_name))}, {text_of(column(r_name))})"
    return builder.analysis.types_of(fields, [coalesced])[0]
