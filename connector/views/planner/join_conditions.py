"""Joins: which conditions are keys, and which go below, into or above the operator.

Promises: a condition goes below a join only if the rows that it removes cannot be in the result: on
both sides of an inner join, and on the side whose rows an outer join does not keep.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from relstate.connector.syntax.tree import Tree, bare, column, conjunction, is_column, text_of
from relstate.storage import types

from ..plan.node import Node
from ..plan.stateful import Join, JoinKey, JoinKind
from .builder import Builder, check_keyable, covers, title_of
from .expressions import refused


@dataclass(frozen=True, slots=True)
class _Equality:
    left: Tree
    right: Tree
    is_null_safe: bool


def joined(
    builder: Builder,
    left: Node,
    right: Node,
    kind: JoinKind,
    conditions: Sequence[Tree],
    join_tree: Tree,
) -> tuple[Join, list[Tree]]:
    """Return a join, and the conditions that have to be filtered above it: of inner joins only.

    ``conditions``: over the fields of both. UnsupportedStatementError if none is an equality.
    """
    equalities, before_left, before_right, residual = [], [], [], []
    for condition in conditions:
        equality = _equality(condition, left, right)
        if equality is not None:
            equalities.append(equality)
        elif covers(left.names, condition) and kind in _LEFT_FIRST:
            before_left.append(condition)
        elif covers(right.names, condition) and kind in _RIGHT_FIRST:
            before_right.append(condition)
        elif not (isinstance(condition, exp.Boolean) and condition.this):
            residual.append(condition)
    if not equalities:
        raise refused(
            "a join without an equality",
            "every row of one side would match every row of the other, which is not "
            "maintained incrementally yet; join ON a = b",
            join_tree,
        )
    left = builder.filtered(left, before_left)
    right = builder.filtered(right, before_right)
    left, right, keys = _keys(builder, left, right, equalities)
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


def _equality(condition: Tree, left: Node, right: Node) -> _Equality | None:
    condition = bare(condition)
    if not isinstance(condition, exp.EQ | exp.NullSafeEQ):
        return None
    is_null_safe = isinstance(condition, exp.NullSafeEQ)
    first, second = bare(condition.this), bare(condition.expression)
    if covers(left.names, first) and covers(right.names, second):
        return _Equality(first, second, is_null_safe)
    if covers(right.names, first) and covers(left.names, second):
        return _Equality(second, first, is_null_safe)
    return None


def is_equality(condition: Tree, left: Node, right: Node) -> bool:
    """Return whether a condition can be a key of a join."""
    return _equality(condition, left, right) is not None


def _keys(
    builder: Builder, left: Node, right: Node, equalities: Sequence[_Equality]
) -> tuple[Node, Node, tuple[JoinKey, ...]]:
    titles = [_title(equality) for equality in equalities]
    left, lefts = builder.computed(left, [equality.left for equality in equalities], titles)
    right, rights = builder.computed(right, [equality.right for equality in equalities], titles)
    keys: dict[tuple[str, str], JoinKey] = {}
    for equality, l_name, r_name, title in zip(equalities, lefts, rights, titles, strict=True):
        data_type = _common_type(builder, left, l_name, right, r_name, equality)
        check_keyable(data_type, "the equality of a join")
        left, l_name = builder.cast(left, l_name, data_type)
        right, r_name = builder.cast(right, r_name, data_type)
        output = types.Field(builder.namer.fresh(f"{title.removesuffix('_key')}_key"), data_type)
        keys.setdefault((l_name, r_name), JoinKey(l_name, r_name, output, equality.is_null_safe))
        if not equality.is_null_safe:
            # a = b AND a <=> b is a = b.
            key = keys[l_name, r_name]
            keys[l_name, r_name] = JoinKey(l_name, r_name, key.field, False)
    return left, right, tuple(keys.values())


def _title(equality: _Equality) -> str:
    sides = equality.left, equality.right
    return title_of(next(filter(is_column, sides), equality.left))


def _common_type(
    builder: Builder, left: Node, l_name: str, right: Node, r_name: str, equality: _Equality
) -> types.DataType:
    """Return the type in which Spark compares two fields."""
    l_type, r_type = left.type_of(l_name), right.type_of(r_name)
    if l_type == r_type:
        return l_type
    texts = isinstance(l_type, types.String), isinstance(r_type, types.String)
    if any(texts) and not all(texts) and not builder.analysis.is_ansi:
        raise refused(
            f"{l_type} = {r_type}",
            "outside of ANSI mode Spark compares them by rules of its own; CAST one side",
            exp.EQ(this=equality.left.copy(), expression=equality.right.copy()),
        )
    fields = (types.Field(l_name, l_type), types.Field(r_name, r_type))
    both = f"coalesce({text_of(column(l_name))}, {text_of(column(r_name))})"
    return builder.analysis.types_of(fields, [both])[0]
