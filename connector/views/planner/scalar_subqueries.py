"""Scalar subqueries that compare values of the query around them: one row for each of those values.

Those with windows, GROUPING SETS or LIMIT are planned over a domain (outer_domain).

Promises: a count over no rows is 0, as in Spark; of two rows the value is Spark's error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    column,
    parse_expression,
    text_of,
)

from ..plan.aggregate import Aggregate
from ..plan.join import JoinKind
from ..plan.node import Node
from .clauses import alias_values, group_by, select_columns
from .group_by import has_aggregates, plan_aggregate, plan_distinct, with_defaults
from .having import having_conditions
from .join_conditions import plan_join
from .scope import Scope
from .subquery_joins import SubqueryJoin


@dataclass(frozen=True)
class CorrelatedScalar:
    """A scalar subquery that compares values of the query around it, one row for each of them."""

    subquery: SubqueryJoin
    select: exp.Select

    def attach(self, node: Node) -> tuple[Node, Tree]:
        """Return the rows, and the value of the subquery for each."""
        subquery, builder = self.subquery, self.subquery.builder
        if not subquery.correlation.equalities:
            raise subquery.error("a scalar subquery with a condition on outer columns alone")
        node, right, equalities = subquery.computed(
            node, subquery.node, subquery.correlation.equalities
        )
        keys = tuple(equality.inner.name for equality in equalities)
        right, value = self._plan_value(right, keys)
        joined, _ = plan_join(
            builder, node, right, JoinKind.LEFT, [equality.condition for equality in equalities]
        )
        return joined, value

    def _plan_value(self, node: Node, keys: tuple[str, ...]) -> tuple[Node, Tree]:
        """Return an operator with one row for each of the keys, and the value over a left join."""
        planned, select = self.subquery.planned, self.select
        columns = select_columns(select, planned.context.scope(planned.relation.items))
        if len(columns) != 1 or columns[0].call is not None:
            raise self.subquery.error("a scalar subquery of several columns")
        scope = planned.context.scope(planned.relation.items)
        grouped = group_by(select, columns, scope)
        group = None if grouped is None else grouped.expressions
        value = columns[0].value
        aliased = replace(scope, aliases=alias_values(columns))
        having = self._having(node, aliased, group or [], value)
        if group is None and (has_aggregates([value, *having]) or having):
            return self._plan_aggregated(node, keys, value, having)
        if group is not None:
            node, value = self._plan_grouped(node, keys, group, value, having)
        return self._plan_rows(node, keys, value)

    def _having(self, node: Node, scope: Scope, group: Sequence[Tree], value: Tree) -> list[Tree]:
        clause = self.select.args.get("having")
        if clause is None:
            return []
        is_same = partial(self.subquery.builder.is_same, node)
        return having_conditions(clause, scope, [*group, value], is_same)

    def _plan_aggregated(
        self, node: Node, keys: tuple[str, ...], value: Tree, having: Sequence[Tree]
    ) -> tuple[Node, Tree]:
        """Return an aggregate by the keys, with the values that calls have without rows."""
        builder = self.subquery.builder
        group = [column(key) for key in keys]
        aggregate, outputs = plan_aggregate(builder, node, group, [value, *having])
        value, *conditions = with_defaults(aggregate, outputs, self.subquery.tree)
        for condition in conditions:
            value = parse_expression(f"CASE WHEN {text_of(condition)} THEN {text_of(value)} END")
        return aggregate, value

    def _plan_grouped(
        self,
        node: Node,
        keys: tuple[str, ...],
        group: Sequence[Tree],
        value: Tree,
        having: Sequence[Tree],
    ) -> tuple[Node, Tree]:
        builder = self.subquery.builder
        names = [column(key) for key in keys]
        aggregate, (value, *conditions) = plan_aggregate(
            builder, node, [*names, *group], [value, *having]
        )
        return builder.filter(aggregate, conditions), value

    def _plan_rows(self, node: Node, keys: tuple[str, ...], value: Tree) -> tuple[Node, Tree]:
        """Return one row for each of the keys of rows that should be one for each."""
        builder = self.subquery.builder
        node, (name,) = builder.compute(node, [value])
        if self.select.args.get("distinct"):
            node = plan_distinct(builder, node, [*keys, name])
        if set(node.key) <= set(keys):
            return node, column(name)
        node, calls, single = self.subquery.single_value(node, name)
        return Aggregate(node, keys, calls), single
