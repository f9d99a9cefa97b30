"""Joins: which conditions are keys, which are told beneath, within or above the operator.

Promises: a condition goes beneath a join only where the rows that it removes could not have been
seen: on both sides of an inner join, and on the side that an outer one does not keep.
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
    place: Tree,
) -> tuple[Join, list[Tree]]:
    """Return a join, and what of its conditions has to be told above it: none but of inner ones.

    ``conditions``: over the fields of both. UnsupportedStatementError if none is an equality.
    """
    equalities, before_left, before_right, rest = [], [], [], []
    for one in conditions:
        equality = _equality(one, left, right)
        if equality is not None:
            equalities.append(equality)
        elif covers(left.names, one) and kind in _LEFT_FIRST:
            before_left.append(one)
        elif covers(right.names, one) and kind in _RIGHT_FIRST:
            before_right.append(one)
        elif not (isinstance(one, exp.Boolean) and one.this):
            rest.append(one)
    if not equalities:
        raise refused(
            "a join without an equality",
            "every row of one side would meet every row of the other, which is not kept "
            "incrementally yet; join ON a = b",
            place,
        )
    left = builder.filtered(left, before_left)
    right = builder.filtered(right, before_right)
    left, right, keys = _keys(builder, left, right, equalities)
    if kind is JoinKind.INNER:
        return Join(left, right, kind, keys), rest
    condition = text_of(conjunction(rest)) if rest else None
    if kind is not JoinKind.FULL:
        return Join(left, right, kind, keys, condition), []
    left, in_left = builder.with_constant(left, "in_left")
    right, in_right = builder.with_constant(right, "in_right")
    return Join(left, right, kind, keys, condition, (in_left, in_right)), []


_LEFT_FIRST = (JoinKind.INNER, JoinKind.RIGHT, JoinKind.SEMI)
_RIGHT_FIRST = (JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI)


def _equality(condition: Tree, left: Node, right: Node) -> _Equality | None:
    condition = bare(condition)
    if not isinstance(condition, exp.EQ | exp.NullSafeEQ):
        return None
    safe = isinstance(condition, exp.NullSafeEQ)
    one, other = bare(condition.this), bare(condition.expression)
    if covers(left.names, one) and covers(right.names, other):
        return _Equality(one, other, safe)
    if covers(right.names, one) and covers(left.names, other):
        return _Equality(other, one, safe)
    return None


def is_equality(condition: Tree, left: Node, right: Node) -> bool:
    """Tell whether a condition can be a key of a join."""
    return _equality(condition, left, right) is not None


def _keys(
    builder: Builder, left: Node, right: Node, equalities: Sequence[_Equality]
) -> tuple[Node, Node, tuple[JoinKey, ...]]:
    titles = [_title(one) for one in equalities]
    left, lefts = builder.computed(left, [one.left for one in equalities], titles)
    right, rights = builder.computed(right, [one.right for one in equalities], titles)
    keys: dict[tuple[str, str], JoinKey] = {}
    for one, l_name, r_name, title in zip(equalities, lefts, rights, titles, strict=True):
        kind = _common_type(builder, left, l_name, right, r_name, one)
        check_keyable(kind, "the equality of a join")
        left, l_name = builder.cast(left, l_name, kind)
        right, r_name = builder.cast(right, r_name, kind)
        output = types.Field(builder.namer.fresh(f"{title.removesuffix('_key')}_key"), kind)
        keys.setdefault((l_name, r_name), JoinKey(l_name, r_name, output, one.is_null_safe))
        if not one.is_null_safe:
            # Of a = b AND a <=> b the first says more.
            kept = keys[l_name, r_name]
            keys[l_name, r_name] = JoinKey(l_name, r_name, kept.field, False)
    return left, right, tuple(keys.values())


def _title(equality: _Equality) -> str:
    sides = equality.left, equality.right
    return title_of(next(filter(is_column, sides), equality.left))


def _common_type(
    builder: Builder, left: Node, l_name: str, right: Node, r_name: str, equality: _Equality
) -> types.DataType:
    """Return the type in which Spark compares two fields."""
    one, other = left.type_of(l_name), right.type_of(r_name)
    if one == other:
        return one
    texts = isinstance(one, types.String), isinstance(other, types.String)
    if any(texts) and not all(texts) and not builder.analysis.is_ansi:
        raise refused(
            f"{one} = {other}",
            "out of ANSI mode Spark compares them in ways of its own; CAST one side",
            exp.EQ(this=equality.left.copy(), expression=equality.right.copy()),
        )
    fields = (types.Field(l_name, one), types.Field(r_name, other))
    both = f"coalesce({text_of(column(l_name))}, {text_of(column(r_name))})"
    return builder.analysis.types_of(fields, [both])[0]
