"""Comparisons between the two inputs of a broadcast join, which its executor evaluates.

What compares an expression over one input with one over the other becomes a comparison of two
fields. All else remains a condition that Spark evaluates over pairs.

Promises: a comparison is true for the same pairs as its condition. If equal values of a type have
several forms (-0 and 0), what is visible in a view is not the field that is compared.
Does not know: what comparisons are good for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    comparable_text,
    conjunction,
    conjuncts,
    is_column,
    parse_expression,
    text_of,
    without_parentheses,
)
from relstate.storage import types

from ..plan.broadcast_join import BroadcastJoin, Comparator, Comparison
from ..plan.join import JoinKind
from ..plan.node import Node
from ..plan.stateless import Filter
from .builder import Builder, field_title, reads_only
from .simplify import merge_operators

_COMPARATORS: dict[type[Tree], Comparator] = {
    exp.LT: Comparator.LESS,
    exp.LTE: Comparator.AT_MOST,
    exp.GT: Comparator.GREATER,
    exp.GTE: Comparator.AT_LEAST,
    exp.EQ: Comparator.EQUAL,
}
_WHOLE = (types.TinyInt, types.SmallInt, types.Int, types.BigInt, types.Decimal)
_FLOATS = (types.Float, types.Double)
_MOMENTS = (types.Date, types.Timestamp, types.TimestampNtz)
_ALONE = (types.Binary, types.Time, types.DayTimeInterval)


def compare_in_joins(builder: Builder, node: Node) -> Node:
    """Return a plan in which broadcast joins have the comparisons of filters above them."""
    node = node.with_children([compare_in_joins(builder, child) for child in node.children])
    if not isinstance(node, Filter) or not isinstance(node.child, BroadcastJoin):
        return node
    join, conditions = node.child, list(split_ranges(conjuncts(parse_expression(node.condition))))
    if join.kind is not JoinKind.INNER:
        return node
    left = _filter_below(builder, join.left, conditions)
    right = _filter_below(builder, join.right, conditions)
    sides = {*join.left.names}, {*join.right.names}
    across = [c for c in conditions if not any(reads_only(names, c) for names in sides)]
    left, right, comparisons, other_conditions = plan_comparisons(
        builder, left, right, across, with_equality=join.has_one_row
    )
    comparisons = (*join.comparisons, *comparisons)
    joined = replace(join, left=left, right=right, comparisons=comparisons)
    if not other_conditions:
        return joined
    return Filter(joined, text_of(conjunction(other_conditions)))


def _filter_below(builder: Builder, node: Node, conditions: Sequence[Tree]) -> Node:
    """Return an input of an inner join with those conditions that read nothing else."""
    own = [condition for condition in conditions if reads_only(node.names, condition)]
    if not own:
        return node
    filtered = merge_operators(Filter(node, text_of(conjunction(own))))
    return compare_in_joins(builder, filtered)


def split_ranges(conditions: Iterator[Tree]) -> Iterator[Tree]:
    """Yield conditions, each BETWEEN as its two comparisons."""
    for condition in conditions:
        plain = without_parentheses(condition)
        if isinstance(plain, exp.Between) and not plain.args.get("symmetric"):
            yield exp.GTE(this=plain.this.copy(), expression=plain.args["low"].copy())
            yield exp.LTE(this=plain.this.copy(), expression=plain.args["high"].copy())
        else:
            yield condition


def plan_comparisons(
    builder: Builder,
    left: Node,
    right: Node,
    conditions: Sequence[Tree],
    *,
    with_equality: bool,
) -> tuple[Node, Node, tuple[Comparison, ...], list[Tree]]:
    """Return (left, right, comparisons, the other conditions); both inputs have compared fields.

    ``with_equality``: whether an equality may be a comparison, too.
    """
    planner = _ComparisonPlanner(builder, _Values(builder, left), _Values(builder, right))
    comparisons: dict[Comparison, None] = {}
    other_conditions = []
    for condition in conditions:
        comparison = planner.comparison(condition, with_equality)
        if comparison is None:
            other_conditions.append(condition)
        else:
            comparisons[comparison] = None
    return planner.left.node, planner.right.node, tuple(comparisons), other_conditions


@dataclass
class _Values:
    """An input to which the values that are compared are added as fields, each once."""

    builder: Builder
    node: Node
    names: dict[str, str] = field(default_factory=dict)

    def add(self, tree: Tree, data_type: types.DataType) -> str:
        """Return the field of an expression cast to a type."""
        key = f"{comparable_text(tree)} AS {data_type}"
        if key not in self.names:
            self.names[key] = self._new_field(tree, data_type)
        return self.names[key]

    def _new_field(self, tree: Tree, data_type: types.DataType) -> str:
        own_type = self.type_of(tree)
        if is_column(tree) and own_type == data_type and isinstance(data_type, _FLOATS):
            # A key of a state has one form of equal floats: what is visible must not be one.
            tree = exp.Paren(this=tree)
        title = f"{field_title(tree)}_compared"
        self.node, (name,) = self.builder.compute(self.node, [tree], [title])
        self.node, name = self.builder.cast(self.node, name, data_type)
        return name

    def type_of(self, tree: Tree) -> types.DataType:
        """Return the type of an expression."""
        (data_type,) = self.builder.analysis.types_of(self.node.fields, [text_of(tree)])
        return data_type


@dataclass
class _ComparisonPlanner:
    builder: Builder
    left: _Values
    right: _Values

    def comparison(self, condition: Tree, with_equality: bool) -> Comparison | None:
        """Return a condition as a comparison; None if it is not one."""
        plain = without_parentheses(condition)
        comparator = _COMPARATORS.get(type(plain))
        if comparator is None or (comparator is Comparator.EQUAL and not with_equality):
            return None
        first, second = without_parentheses(plain.this), without_parentheses(plain.expression)
        if reads_only(self.right.node.names, first) and reads_only(self.left.node.names, second):
            first, second, comparator = second, first, comparator.mirrored
        elif not (
            reads_only(self.left.node.names, first) and reads_only(self.right.node.names, second)
        ):
            return None
        data_type = self._compared_type(first, comparator, second)
        if data_type is None:
            return None
        return Comparison(
            self.left.add(first, data_type), comparator, self.right.add(second, data_type)
        )

    def _compared_type(
        self, first: Tree, comparator: Comparator, second: Tree
    ) -> types.DataType | None:
        """Return the type in which Spark compares two values; None if it is not a simple one."""
        own = self.left.type_of(first), self.right.type_of(second)
        if own[0] == own[1]:
            return own[0] if is_simple(own[0]) else None
        if not any(all(isinstance(t, k) for t in own) for k in ((*_WHOLE, *_FLOATS), _MOMENTS)):
            return None
        texts = f"({text_of(first)})", f"({text_of(second)})"
        fields = (*self.left.node.fields, *self.right.node.fields)
        analysis = self.builder.analysis
        (data_type,) = analysis.types_of(fields, [f"coalesce({texts[0]}, {texts[1]})"])
        casts = [
            text if own_type == data_type else f"CAST({text} AS {data_type})"
            for text, own_type in zip(texts, own, strict=True)
        ]
        is_same = analysis.is_same(
            fields, f" {comparator} ".join(texts), f" {comparator} ".join(casts)
        )
        return data_type if is_same else None


def is_simple(data_type: types.DataType) -> bool:
    """Return whether the keys of values of a type are in Spark's order."""
    if isinstance(data_type, types.String):
        return not data_type.is_collated
    return isinstance(data_type, (*_WHOLE, *_FLOATS, *_MOMENTS, *_ALONE))
