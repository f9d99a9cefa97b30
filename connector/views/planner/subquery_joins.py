"""The joins that subqueries in expressions become.

Promises: as `subqueries` says of each kind.
Does not know: how names are resolved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    as_operand,
    cast_text,
    column,
    disjunction,
    parse_expression,
    substituted,
    text_of,
)
from relstate.storage import errors, types

from ..plan.aggregate import Aggregate, Call, Function
from ..plan.join import JoinKind
from ..plan.node import Node
from ..plan.stateless import Filter, Project
from ..plan.topn import TopN
from .builder import Builder, check_keyable, pass_through_output
from .clauses import select_columns
from .collations import is_collated
from .correlation import Correlation, Equality, compare_by_equalities
from .expressions import unsupported_error
from .fallible import may_fail
from .group_by import plan_distinct
from .join_conditions import common_type, has_one_row_at_most, plan_join
from .nullability import is_never_null
from .planned_subquery import PlannedSubquery

_TOO_MANY_ROWS = (
    "raise_error('[SCALAR_SUBQUERY_TOO_MANY_ROWS] More than one row returned by a subquery used as "
    "an expression.')"
)


@dataclass(frozen=True)
class SubqueryJoin:
    """A subquery that is to be joined with an operator.

    ``tree``: as it is written. ``values``: those before IN, as fields.
    """

    builder: Builder
    tree: Tree
    planned: PlannedSubquery
    correlation: Correlation
    values: Sequence[Tree]

    @property
    def node(self) -> Node:
        """The rows of the subquery."""
        return self.planned.relation.node

    def by_equalities(self, node: Node) -> SubqueryJoin:
        """Return the subquery, compared with the rows of an operator by equalities alone."""
        compared = compare_by_equalities(self.builder, node, self.node, self.correlation)
        right, correlation = compared
        relation = replace(self.planned.relation, node=right)
        planned = replace(self.planned, relation=relation)
        return replace(self, planned=planned, correlation=correlation)

    # EXISTS

    def match(self, node: Node, kind: JoinKind) -> Node:
        """Return the rows for which the subquery has rows, or has none."""
        self.check_plain("EXISTS")
        if not self.correlation.conditions:
            return self._match_all(node, self.node, kind)
        return self._join(node, self.node, kind, self.correlation.conditions)

    def exists_value(self, node: Node) -> tuple[Node, Tree]:
        """Return the rows, and whether the subquery has rows for each."""
        self.check_plain("EXISTS")
        node, marker = self._look_up(node, self.node, self.correlation.equalities)
        return node, parse_expression(f"{types.quoted(marker)} IS NOT NULL")

    # IN

    def match_values(self, node: Node) -> Node:
        """Return the rows whose values the subquery has."""
        inner, equalities = self._inner_values()
        conditions = [*self.correlation.conditions, *(e.condition for e in equalities)]
        return self._join(node, inner, JoinKind.SEMI, conditions)

    def exclude(self, node: Node) -> Node:
        """Return the rows whose values are none of the subquery's, and not unknown to be."""
        inner, equalities = self._inner_values()
        conditions = self.correlation.conditions
        result = self._join(
            node, inner, JoinKind.ANTI, [*conditions, *(e.condition for e in equalities)]
        )
        may_be_null = [
            _is_null(e.inner) for e in equalities if not self._is_never_null(inner, e.inner)
        ]
        if may_be_null:
            result = self._exclude_unknown(
                result, self.builder.filter(inner, [disjunction(may_be_null)]), equalities
            )
        may_be_null = [
            _is_null(e.outer) for e in equalities if not self._is_never_null(node, e.outer)
        ]
        if may_be_null:
            # NULL equals nothing: the state has only the rows with a NULL among their values.
            marker = parse_expression(f"CASE WHEN {text_of(disjunction(may_be_null))} THEN 0Y END")
            result = self._exclude_unknown(result, inner, equalities, marker)
        return result

    def _exclude_unknown(
        self, node: Node, inner: Node, equalities: Sequence[Equality], marker: Tree | None = None
    ) -> Node:
        """Return the rows for which no row of the subquery may have their values.

        ``marker``: NULL for the rows that it need not be looked up for.
        """
        conditions = list(self.correlation.conditions)
        if len(equalities) > 1:
            conditions += [_may_be_equal(equality) for equality in equalities]
        if marker is not None:
            node, (name,) = self.builder.compute(node, [marker])
            if not conditions:
                return self._match_all(node, inner, JoinKind.ANTI, name)
            inner, constant = self.builder.with_constant(inner, "zero")
            equality = exp.EQ(this=column(name), expression=column(constant))
            return self._join(node, inner, JoinKind.ANTI, [equality, *conditions])
        if not conditions:
            return self._match_all(node, inner, JoinKind.ANTI)
        return self._join(node, inner, JoinKind.ANTI, conditions)

    def in_value(self, node: Node) -> tuple[Node, Tree]:
        """Return the rows, and whether the subquery is known to have the values of each."""
        inner, equalities = self._inner_values()
        node, match = self._look_up(node, inner, [*self.correlation.equalities, *equalities])
        return node, parse_expression(f"{types.quoted(match)} IS NOT NULL")

    def not_in_value(self, node: Node) -> tuple[Node, Tree]:
        """Return the rows, and whether the subquery is known not to have the values of each."""
        inner, equalities = self._inner_values()
        correlated = self.correlation.equalities
        unknown = [e.inner for e in equalities if not self._is_never_null(inner, e.inner)]
        outer_unknown = [e.outer for e in equalities if not self._is_never_null(node, e.outer)]
        node, match = self._look_up(node, inner, [*correlated, *equalities])
        conditions = [f"{types.quoted(match)} IS NULL"]
        nulls = inner
        if unknown:
            nulls = self.builder.filter(inner, [disjunction(list(map(_is_null, unknown)))])
        if len(equalities) > 1:
            near = [_may_be_equal(equality) for equality in equalities]
            if unknown:
                node, found = self._look_up_by(node, nulls, Correlation(correlated, near))
                conditions.append(f"{types.quoted(found)} IS NULL")
            if outer_unknown:
                node, found = self._look_up_unknown(node, inner, outer_unknown, near)
                conditions.append(f"{types.quoted(found)} IS NULL")
            return node, parse_expression(" AND ".join(conditions))
        if unknown:
            node, has_null = self._look_up(node, nulls, correlated)
            conditions.append(f"{types.quoted(has_null)} IS NULL")
        if outer_unknown:
            node, has_any = self._look_up(node, inner, correlated)
            value = text_of(outer_unknown[0])
            conditions.append(f"({value} IS NOT NULL OR {types.quoted(has_any)} IS NULL)")
        return node, parse_expression(" AND ".join(conditions))

    def may_be_unknown(self, node: Node) -> bool:
        """Return whether a value of the rows, or one of the subquery, may be NULL."""
        inner, equalities = self._inner_values()
        return not all(
            self._is_never_null(inner, equality.inner) and self._is_never_null(node, equality.outer)
            for equality in equalities
        )

    def _look_up_unknown(
        self, node: Node, inner: Node, outer: Sequence[Tree], near: Sequence[Tree]
    ) -> tuple[Node, str]:
        """Return what `_look_up` does for the rows with a NULL in ``outer``, NULL for others.

        ``near``: the conditions that the values may be equal.
        """
        has_null = disjunction(list(map(_is_null, outer)))
        marker = parse_expression(f"CASE WHEN {text_of(has_null)} THEN 0Y END")
        node, (name,) = self.builder.compute(node, [marker])
        inner, zero = self.builder.with_constant(inner, "zero")
        is_unknown = Equality(column(name), column(zero))
        correlation = Correlation([*self.correlation.equalities, is_unknown], near)
        return self._look_up_by(node, inner, correlation)

    def _look_up_by(self, node: Node, right: Node, correlation: Correlation) -> tuple[Node, str]:
        """Return what `_look_up` does, by any conditions."""
        right, correlation = compare_by_equalities(self.builder, node, right, correlation)
        return self._look_up(node, right, correlation.equalities)

    def _inner_values(self) -> tuple[Node, list[Equality]]:
        """Return the subquery's rows, and the equalities of its values with those before IN."""
        select = self.planned.select
        if select is None:
            node = self.node
            inner: Sequence[Tree] = [column(item.field) for item in self.planned.relation.items]
        else:
            self.check_plain("IN")
            columns = select_columns(
                select, self.planned.context.scope(self.planned.relation.items)
            )
            inner = [select_column.value for select_column in columns]
            node = self.node
        self.check_width(len(inner))
        node, names = self.builder.compute(node, inner)
        pairs = zip(self.values, names, strict=True)
        return node, [Equality(value, column(name)) for value, name in pairs]

    def _is_never_null(self, node: Node, value: Tree) -> bool:
        return is_never_null(node, value.name, self.builder.never_null)

    # Scalar

    def scalar_value(self, node: Node) -> tuple[Node, Tree]:
        """Return the rows, and the value of the subquery for each."""
        (item,) = self._only_column()
        if self.correlation.equalities:
            return self._value_per_key(node, item)
        lazy = self._lazy_value(item)
        right, value = self._one_row(item) if lazy is None else lazy
        joined, _ = plan_join(self.builder, node, right, JoinKind.INNER, [])
        return joined, value if lazy is None else _read_with(node, value)

    def _lazy_value(self, name: str) -> tuple[Node, Tree] | None:
        """Return an operator with one row, and a value over its fields that may fail.

        The operator always has its row, even if no row asks for the value: so what may fail, as a
        quotient over no rows, is computed after the join. None if it cannot fail.
        """
        if not has_one_row_at_most(self.node):
            return None
        right, value = _value_of_row(self.node, name)
        return (right, value) if may_fail(value, right, self.builder.analysis) else None

    def _value_per_key(self, node: Node, name: str) -> tuple[Node, Tree]:
        """Return the rows, and the value of the subquery that is compared with each."""
        right = self.node
        value: Tree = column(name)
        keys = tuple(equality.inner.name for equality in self.correlation.equalities)
        if not set(right.key) <= set(keys):
            right, calls, value = self.single_value(right, name)
            right = Aggregate(right, keys, calls)
        conditions = self.correlation.conditions
        joined, _ = plan_join(self.builder, node, right, JoinKind.LEFT, conditions)
        return joined, value

    def _only_column(self) -> tuple[str]:
        items = [item.field for item in self.planned.relation.items if not item.is_hidden]
        if len(items) != 1:
            raise self.error("a scalar subquery of several columns")
        return (items[0],)

    def _one_row(self, name: str) -> tuple[Node, Tree]:
        """Return an operator with exactly one row, and the value over its fields."""
        node = self.node
        if has_one_row_at_most(node) and not _is_filtered(node):
            node, (renamed,) = self.builder.compute(node, [column(name)])
            return node, column(renamed)
        node, all_rows = self.builder.with_constant(node, "all_rows")
        node, calls, value = self.single_value(node, name)
        return Aggregate(node, (all_rows,), calls, is_global=True), value

    def single_value(self, node: Node, name: str) -> tuple[Node, tuple[Call, ...], Tree]:
        """Return (the rows, the calls of an aggregate over these, its value) if one is expected."""
        data_type = node.type_of(name)
        if is_collated(data_type):
            node, (name,) = self.builder.as_bytes(node, [name])
        check_keyable(node.type_of(name), "a scalar subquery without an aggregate")
        namer = self.builder.namer
        largest = Call(Function.MAX, name, types.Field(namer.unique_name(name), node.type_of(name)))
        value = types.quoted(largest.output.name)
        if is_collated(data_type):
            value = cast_text(value, data_type)
        if _has_limit_of_one(node):
            return node, (largest,), parse_expression(value)
        rows = Call(Function.COUNT, None, types.Field(namer.unique_name("rows"), types.BigInt()))
        text = (
            f"CASE WHEN {types.quoted(rows.output.name)} > 1 THEN {_TOO_MANY_ROWS} ELSE {value} END"
        )
        return node, (rows, largest), parse_expression(text)

    # Joins

    def _join(self, node: Node, right: Node, kind: JoinKind, conditions: Sequence[Tree]) -> Node:
        joined, remaining = plan_join(self.builder, node, right, kind, conditions)
        return self.builder.filter(joined, remaining)

    def _match_all(
        self, node: Node, right: Node, kind: JoinKind, left_constant: str | None = None
    ) -> Node:
        """Return all rows if an operator has rows, or if it has none.

        ``left_constant``: NULL for rows for which it has none in any case.
        """
        right, constant = self._any_row(right)
        constants = (left_constant, constant)
        joined, _ = plan_join(self.builder, node, right, kind, [], constants)
        return joined

    def _any_row(self, node: Node) -> tuple[Node, str]:
        """Return one row if an operator has rows; its field is a constant."""
        node, constant = self.builder.with_constant(node, "any_row")
        return plan_distinct(self.builder, node, [constant]), constant

    def _look_up(self, node: Node, right: Node, equalities: Sequence[Equality]) -> tuple[Node, str]:
        """Return the rows with a field that is not NULL where an operator has equal values."""
        if not equalities:
            right, constant = self._any_row(right)
            constants = (None, constant)
            joined, _ = plan_join(self.builder, node, right, JoinKind.LEFT, [], constants)
            return joined, constant
        node, right, compared = self.computed(node, right, equalities)
        # The subquery may be looked up more than once: its fields get names of their own.
        right, names = _renamed(self.builder, right, [e.inner.name for e in compared])
        compared = [replace(e, inner=column(name)) for e, name in zip(compared, names, strict=True)]
        right = plan_distinct(self.builder, right, names)
        right, marker = self.builder.with_constant(right, "found")
        joined, _ = plan_join(
            self.builder, node, right, JoinKind.LEFT, [e.condition for e in compared]
        )
        return joined, marker

    def computed(
        self, node: Node, right: Node, equalities: Sequence[Equality]
    ) -> tuple[Node, Node, list[Equality]]:
        """Return both operators with the sides of equalities as fields of the same types."""
        builder = self.builder
        node, outer_names = builder.compute(node, [e.outer for e in equalities])
        right, inner_names = builder.compute(right, [e.inner for e in equalities])
        compared = []
        for equality, outer, inner in zip(equalities, outer_names, inner_names, strict=True):
            data_type = common_type(builder, node, outer, right, inner, equality.condition)
            node, outer = builder.cast(node, outer, data_type)
            right, inner = builder.cast(right, inner, data_type)
            node, (outer,) = builder.collation_keys(node, [outer])
            right, (inner,) = builder.collation_keys(right, [inner])
            compared.append(Equality(column(outer), column(inner), equality.is_null_safe))
        return node, right, compared

    def check_plain(self, operator: str) -> None:
        """Refuse a correlated subquery whose SELECT changes which rows it has."""
        select = self.planned.select
        if select is None:
            return
        columns = select_columns(select, self.planned.context.scope(self.planned.relation.items))
        if any(select_column.call is not None for select_column in columns):
            raise unsupported_error(
                f"{operator} over a subquery that has a function of rows in its SELECT and that "
                "compares rows with those of the query around it",
                "call the function in LATERAL VIEW",
                self.tree,
            )

    def check_width(self, width: int) -> None:
        """Refuse IN unless the subquery has as many columns as there are values before it."""
        if width != len(self.values):
            raise self.error(f"IN of {len(self.values)} values over {width} columns")

    def error(self, construct: str) -> errors.UnsupportedStatementError:
        """Return the error that says what a subquery cannot be."""
        return unsupported_error(construct, "write it as a join with ON", self.tree)


def _renamed(builder: Builder, node: Node, names: Sequence[str]) -> tuple[Node, list[str]]:
    """Return an operator with more fields that have the values of others, and their names."""
    by_name = {input_field.name: input_field for input_field in node.fields}
    outputs = [pass_through_output(input_field) for input_field in node.fields]
    new_names = [builder.namer.unique_name(name) for name in names]
    outputs += [
        pass_through_output(by_name[name], new_name)
        for name, new_name in zip(names, new_names, strict=True)
    ]
    return Project(node, tuple(outputs)), new_names


def _is_null(tree: Tree) -> Tree:
    return exp.Is(this=tree.copy(), expression=exp.Null())


def _may_be_equal(equality: Equality) -> Tree:
    return exp.Paren(
        this=disjunction([equality.condition, _is_null(equality.outer), _is_null(equality.inner)])
    )


def _is_filtered(node: Node) -> bool:
    while isinstance(node, Project):
        node = node.child
    return isinstance(node, Filter)


def _read_with(node: Node, value: Tree) -> Tree:
    """Return a value that is computed for the rows of an operator, and not before a join of it.

    It names a field of the operator for that reason alone.
    """
    field = types.quoted(node.names[0])
    return parse_expression(f"CASE WHEN {field} IS NULL OR TRUE THEN {text_of(value)} END")


def _value_of_row(node: Node, name: str) -> tuple[Node, Tree]:
    """Return the operator with one row below projections and filters, and a field over its fields.

    The field is NULL if a filter removes the row.
    """
    value: Tree = column(name)
    while isinstance(node, Project | Filter):
        if isinstance(node, Project):
            by_name = {output.field.name: output.expression for output in node.outputs}
            value = _inlined(value, by_name)
        else:
            value = parse_expression(f"CASE WHEN {node.condition} THEN {text_of(value)} END")
        node = node.child
    return node, value


def _inlined(value: Tree, expressions: Mapping[str, str]) -> Tree:
    """Return a value with expressions for its fields."""

    def replacement(node: Tree) -> Tree | None:
        if not isinstance(node, exp.Column):
            return None
        return as_operand(parse_expression(expressions[node.name]))

    return substituted(value, replacement)


def _has_limit_of_one(node: Node) -> bool:
    """Return whether an operator has at most one row in all."""
    while isinstance(node, Project | Filter):
        node = node.child
    return isinstance(node, TopN) and node.is_global and node.limit <= 1
