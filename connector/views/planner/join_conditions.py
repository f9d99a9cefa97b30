"""Joins: which conditions are keys, and which are applied below, in or above the operator.

Promises: a condition is applied below a join only if the rows that it removes cannot be in the
result: on both sides of an inner join, and on the side of an outer join that is not preserved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    cast_text,
    column,
    columns_of,
    comparable_text,
    conjunction,
    conjuncts,
    disjunction,
    disjuncts,
    is_column,
    parse_expression,
    text_of,
    without_parentheses,
)
from relstate.storage import types

from ..plan.aggregate import Aggregate
from ..plan.broadcast_join import BroadcastJoin, Comparator, Comparison
from ..plan.generate import OneRow
from ..plan.join import Join, JoinKey, JoinKind, JoinNode
from ..plan.node import Node
from ..plan.recompute import GroupRecompute
from ..plan.stateless import Filter, Project
from .builder import (
    Builder,
    check_keyable,
    field_title,
    has_subquery_call,
    pass_through_output,
    reads_only,
)
from .clock_comparisons import has_clock
from .clock_conditions import split_condition
from .collations import collation_key, is_collated, is_keyless
from .comparisons import plan_comparisons, split_ranges
from .expressions import unsupported_error
from .memberships import (
    outermost_calls,
    with_direct_negations,
    with_join_memberships,
    with_value,
)


@dataclass(frozen=True, slots=True)
class _Equality:
    left: Tree
    right: Tree
    is_null_safe: bool

    @property
    def condition(self) -> Tree:
        """The equality as a condition."""
        kind = exp.NullSafeEQ if self.is_null_safe else exp.EQ
        return kind(this=self.left.copy(), expression=self.right.copy())


def plan_join(
    builder: Builder,
    left: Node,
    right: Node,
    kind: JoinKind,
    conditions: Sequence[Tree],
    constants: tuple[str | None, str | None] = (None, None),
) -> tuple[JoinNode, list[Tree]]:
    """Return a join, and the conditions to apply above it (for inner joins only).

    ``conditions``: over the fields of both inputs. If none is an equality, it is a broadcast join.
    ``constants``: a TINYINT of each input that is 0 in all rows, if it has one; left rows for which
    it is NULL match nothing.
    """
    equalities, before_left, before_right, residual = [], [], [], []
    for condition in conditions:
        equality = _find_equality(condition, left, right)
        if equality is not None:
            equality = _of_keys(builder, left, right, equality)
        if equality is not None:
            equalities.append(equality)
        elif reads_only(left.names, condition) and kind in _LEFT_FIRST:
            before_left.append(condition)
        elif reads_only(right.names, condition) and kind in _RIGHT_FIRST:
            before_right.append(condition)
        elif not (isinstance(condition, exp.Boolean) and condition.this):
            residual.append(condition)
    left = builder.filter(left, before_left)
    right = builder.filter(right, before_right)
    if kind is not JoinKind.INNER:
        left, right, residual = _flag_clocks(builder, left, right, residual)
        if any(map(has_clock, residual)):
            pair_conditions = [*(equality.condition for equality in equalities), *residual]
            return _plan_timed(builder, left, right, kind, pair_conditions), []
    if not equalities:
        return _plan_broadcast(builder, left, right, kind, residual, constants)
    left, right, keys = _compute_keys(builder, left, right, equalities)
    if kind is JoinKind.INNER:
        return Join(left, right, kind, keys), residual
    left, right, residual = _attach_subqueries(builder, left, right, residual)
    left, right, presence = _with_presence(builder, left, right, kind)
    return Join(left, right, kind, keys, _text_of(residual), presence), []


def _plan_broadcast(
    builder: Builder,
    left: Node,
    right: Node,
    kind: JoinKind,
    conditions: Sequence[Tree],
    constants: tuple[str | None, str | None],
) -> tuple[BroadcastJoin, list[Tree]]:
    """Return a join without an equality, and the conditions to apply above it."""
    is_right = kind is JoinKind.RIGHT
    if is_right or (kind is JoinKind.INNER and has_one_row_at_most(left)):
        left, right, kind = right, left, JoinKind.LEFT if is_right else kind
    has_one_row = kind is not JoinKind.FULL and _has_one_row(right, constants[1])
    comparisons: tuple[Comparison, ...] = ()
    if constants[0] is not None and constants[1] is not None:
        comparisons = (Comparison(constants[0], Comparator.EQUAL, constants[1]),)
    if kind is JoinKind.INNER:
        join = BroadcastJoin(left, right, kind, comparisons, has_one_row=has_one_row)
        return join, list(conditions)
    left, right, attached = _attach_subqueries(builder, left, right, conditions)
    left, right, planned, residual = plan_comparisons(
        builder, left, right, list(split_ranges(iter(attached))), with_equality=has_one_row
    )
    left, right, presence = _with_presence(builder, left, right, kind)
    comparisons = (*comparisons, *planned)
    join = BroadcastJoin(
        left, right, kind, comparisons, _text_of(residual), presence, has_one_row=has_one_row
    )
    return join, []


def _text_of(conditions: Sequence[Tree]) -> str | None:
    return text_of(conjunction(conditions)) if conditions else None


def _with_presence(
    builder: Builder, left: Node, right: Node, kind: JoinKind
) -> tuple[Node, Node, tuple[str, str] | None]:
    """Return both inputs, of a full join with a field each that is never NULL, and these fields."""
    if kind is not JoinKind.FULL:
        return left, right, None
    left, in_left = builder.with_constant(left, "in_left")
    right, in_right = builder.with_constant(right, "in_right")
    return left, right, (in_left, in_right)


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


def _of_keys(builder: Builder, left: Node, right: Node, equality: _Equality) -> _Equality | None:
    """Return an equality of the keys of two values if Spark compares them by a collation.

    None if the collation has no keys.
    """
    condition = equality.condition
    fields = [
        field for field in (*left.fields, *right.fields) if field.name in columns_of(condition)
    ]
    text = text_of(condition)
    if "COLLATE" not in text.upper() and not any(is_collated(field.type) for field in fields):
        return equality
    sides = [text_of(equality.left), text_of(equality.right)]
    data_type = _common_collation(builder, fields, sides)
    if not is_collated(data_type):
        return equality
    keys = [collation_key(cast_text(side, data_type), data_type) for side in sides]
    left_key, right_key = keys
    if left_key is None or right_key is None:
        return None
    return _Equality(parse_expression(left_key), parse_expression(right_key), equality.is_null_safe)


def _common_collation(
    builder: Builder, fields: Sequence[types.Field], sides: Sequence[str]
) -> types.DataType:
    """Return the type in which Spark compares two expressions over fields.

    Fields do not say which of their collations a query wrote with COLLATE, which Spark takes.
    """
    try:
        return builder.analysis.types_of(fields, [f"coalesce({', '.join(sides)})"])[0]
    except AnalysisException:
        data_types = builder.analysis.types_of(fields, sides)
        collated = [data_type for data_type in data_types if is_collated(data_type)]
        if len(collated) != 1 or not all(isinstance(t, types.String) for t in data_types):
            raise unsupported_error(
                f"{' = '.join(map(str, data_types))}", "write COLLATE on both sides"
            ) from None
        return collated[0]


def is_equality(condition: Tree, left: Node, right: Node) -> bool:
    """Return whether a condition can be a key of a join."""
    return _find_equality(condition, left, right) is not None


def _flag_clocks(
    builder: Builder, left: Node, right: Node, conditions: list[Tree]
) -> tuple[Node, Node, list[Tree]]:
    """Return both inputs with what they compare with the present time, conditions over that.

    Comparisons of the present time with fields of both stay as they are.
    """
    if not any(map(has_clock, conditions)):
        return left, right, conditions
    conditions = [part for condition in conditions for part in split_condition(condition)]
    left, conditions = builder.attach_flags(left, conditions)
    right, conditions = builder.attach_flags(right, conditions)
    return left, right, conditions


def _plan_timed(
    builder: Builder, left: Node, right: Node, kind: JoinKind, conditions: Sequence[Tree]
) -> JoinNode:
    """Return a join whose conditions compare the present time with fields of both inputs.

    The pairs that meet them now are a filter over all pairs; each input is joined with those by its
    key.
    """
    if kind is JoinKind.RIGHT:
        left, right, kind = right, left, JoinKind.LEFT
    joined, remaining = plan_join(builder, left, right, JoinKind.INNER, conditions)
    pairs = builder.filter(joined, remaining)
    if kind is not JoinKind.FULL:
        pairs, names = _renamed_fields(builder, pairs, left, set(left.names))
        join, _ = plan_join(builder, left, pairs, kind, _same_rows(left, names))
        return join
    pairs, names = _renamed_fields(builder, pairs, left, {*left.names, *right.names}, right.key)
    pairs, is_pair = builder.with_constant(pairs, "is_pair")
    with_pairs, _ = plan_join(builder, left, pairs, JoinKind.LEFT, _same_rows(left, names))
    right, zero = builder.with_constant(right, "zero")
    is_matched = exp.EQ(this=column(is_pair), expression=column(zero))
    join, _ = plan_join(builder, with_pairs, right, kind, [is_matched, *_same_rows(right, names)])
    return join


def _renamed_fields(
    builder: Builder, pairs: Node, left: Node, names: Set[str], keys: Sequence[str] = ()
) -> tuple[Node, dict[str, str]]:
    """Return pairs with other names for the keys among some fields, without the rest of these."""
    needed = {*pairs.key, *left.key, *keys}
    outputs, renamed = [], {}
    for pair_field in pairs.fields:
        name = pair_field.name
        if name not in names:
            outputs.append(pass_through_output(pair_field))
        elif name in needed:
            renamed[name] = builder.namer.unique_name(name)
            outputs.append(pass_through_output(pair_field, renamed[name]))
    return Project(pairs, tuple(outputs)), renamed


def _same_rows(node: Node, names: Mapping[str, str]) -> list[Tree]:
    """Return the conditions that a pair has the row of an input; ``names``: of its key there."""
    return [exp.NullSafeEQ(this=column(name), expression=column(names[name])) for name in node.key]


def _attach_subqueries(
    builder: Builder, left: Node, right: Node, conditions: Sequence[Tree]
) -> tuple[Node, Node, list[Tree]]:
    """Return both inputs joined with the subqueries in conditions, and conditions over them."""
    attached = []
    for condition in conditions:
        if has_subquery_call(condition):
            condition = with_join_memberships(with_direct_negations(condition))
            for part in _parts_of_one_side(left, right, condition):
                if reads_only(left.names, part):
                    left, (value,) = builder.attach_values(left, [part])
                else:
                    right, (value,) = builder.attach_values(right, [part])
                condition = value if part is condition else with_value(condition, part, value)
        attached.append(condition)
    return left, right, attached


def _parts_of_one_side(left: Node, right: Node, condition: Tree) -> list[Tree]:
    """Return the parts of a condition that have its subqueries, each of which reads one side."""
    if columns_of(condition) <= set(left.names) or columns_of(condition) <= set(right.names):
        return [condition]
    calls = outermost_calls(condition)
    for call in calls:
        if not (columns_of(call) <= set(left.names) or columns_of(call) <= set(right.names)):
            raise unsupported_error(
                "a subquery that reads both sides of an outer join, in its ON",
                "compare its value in a query around the join",
            )
    return calls


def factor_condition(condition: Tree) -> list[Tree]:
    """Return conditions that all hold where a condition does: those of every branch of an OR first.

    ``(a = b AND c) OR (a = b AND d)`` is ``a = b`` and ``c OR d``.
    """
    condition = without_parentheses(condition)
    if not isinstance(condition, exp.Or):
        return [condition]
    branches = [
        {_equality_meaning(part): part for part in conjuncts(branch)}
        for branch in disjuncts(condition)
    ]
    common = set(branches[0]).intersection(*branches[1:])
    if not common:
        return [condition]
    conditions = [part for key, part in branches[0].items() if key in common]
    rests = [[part for key, part in branch.items() if key not in common] for branch in branches]
    if all(rests):
        conditions.append(disjunction([conjunction(rest) for rest in rests]))
    return conditions


def _equality_meaning(condition: Tree) -> str:
    """Return the meaning of a condition, the same for ``a = b`` and ``b = a``."""
    condition = without_parentheses(condition)
    if isinstance(condition, exp.EQ):
        return " = ".join(sorted(map(comparable_text, (condition.this, condition.expression))))
    return comparable_text(condition)


def _has_one_row(node: Node, constant: str | None) -> bool:
    """Return whether an operator has one row at most, which a constant identifies."""
    return has_one_row_at_most(node) or (constant is not None and node.key == (constant,))


def has_one_row_at_most(node: Node) -> bool:
    """Return whether a node filters and projects a constant or a global aggregate, no more."""
    while isinstance(node, Project | Filter):
        node = node.child
    if isinstance(node, OneRow):
        return True
    return isinstance(node, Aggregate | GroupRecompute) and node.is_global


def joins_one_row_at_most(node: Node) -> bool:
    """Return whether a node has one row at most, also if it joins such nodes."""
    while isinstance(node, Project | Filter):
        node = node.child
    if not isinstance(node, JoinNode) or node.kind is JoinKind.FULL:
        return has_one_row_at_most(node)
    if not joins_one_row_at_most(node.left):
        return False
    if node.kind in (JoinKind.SEMI, JoinKind.ANTI):
        return True
    has_one_row = isinstance(node, BroadcastJoin) and node.has_one_row
    return has_one_row or joins_one_row_at_most(node.right)


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
        data_type = common_type(builder, left, l_name, right, r_name, equality.condition)
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


def common_type(
    builder: Builder, left: Node, l_name: str, right: Node, r_name: str, condition: Tree
) -> types.DataType:
    """Return the type in which Spark compares two fields."""
    l_type, r_type = left.type_of(l_name), right.type_of(r_name)
    if l_type == r_type:
        return l_type
    for data_type in (l_type, r_type):
        if is_keyless(data_type):
            check_keyable(data_type, "a comparison with another type")
    is_string = isinstance(l_type, types.String), isinstance(r_type, types.String)
    if any(is_string) and not all(is_string) and not builder.analysis.is_ansi:
        raise unsupported_error(
            f"{l_type} = {r_type}",
            "outside of ANSI mode Spark compares them by rules of its own; CAST one side",
            condition,
        )
    fields = (types.Field(l_name, l_type), types.Field(r_name, r_type))
    return _common_collation(builder, fields, [text_of(column(name)) for name in (l_name, r_name)])
