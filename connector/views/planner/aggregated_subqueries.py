"""EXISTS and IN over subqueries that aggregate rows and compare them with the query around them.

    GROUP BY            its groups for each of the compared values, which are joined as rows are
    without GROUP BY    one row for each of the compared values, by a left join; EXISTS and IN are
                        conditions on it

Promises: a subquery without GROUP BY has one row for every row of the query around it, unless its
HAVING is not true; a count over no rows is 0 there.
Does not know: how names are resolved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    column,
    conjunction,
    parse_expression,
    text_of,
)

from ..plan.join import JoinKind
from ..plan.node import Node
from .builder import Builder, Item, Relation
from .clauses import SelectColumn, alias_values, group_by, select_columns
from .correlation import Correlation, Equality
from .group_by import has_aggregates, plan_aggregate, with_defaults
from .grouping_sets import GroupBy
from .having import having_conditions
from .join_conditions import common_type, plan_join
from .planned_subquery import PlannedSubquery
from .subquery_joins import SubqueryJoin


@dataclass(frozen=True)
class OneRowSubquery:
    """A subquery with one row at most for each row of the query around it, joined with them.

    ``presence``: is true where it has the row; None if it always has. ``equalities``: of the values
    before IN with those of the row.
    """

    presence: Tree | None
    equalities: Sequence[Equality]

    def exists_value(self, node: Node) -> tuple[Node, Tree]:
        """Return the rows, and whether the subquery has its row for each."""
        return node, parse_expression(self._presence)

    def in_value(self, node: Node) -> tuple[Node, Tree]:
        """Return the rows, and whether the row of the subquery is known to equal the values."""
        return node, parse_expression(f"{self._presence} AND coalesce({self._equals}, FALSE)")

    def not_in_value(self, node: Node) -> tuple[Node, Tree]:
        """Return the rows, and whether the row of the subquery is known not to equal the values."""
        differs = f"coalesce(NOT ({self._equals}), FALSE)"
        return node, parse_expression(f"NOT {self._presence} OR {differs}")

    @property
    def _presence(self) -> str:
        return "TRUE" if self.presence is None else f"coalesce({text_of(self.presence)}, FALSE)"

    @property
    def _equals(self) -> str:
        return text_of(conjunction([equality.condition for equality in self.equalities]))


def own_columns(planned: PlannedSubquery, select: exp.Select) -> list[SelectColumn]:
    """Return the columns of a subquery that reads outer values up to WHERE alone.

    DecorrelationError if it reads them in a clause after WHERE.
    """
    scope = planned.context.scope(planned.relation.items)
    columns = select_columns(select, scope)
    group_by(select, columns, scope)
    if (clause := select.args.get("having")) is not None:
        replace(scope, aliases=alias_values(columns)).resolve(clause.this)
    return columns


def has_one_row(planned: PlannedSubquery) -> bool:
    """Return whether a subquery compares outer values and aggregates all rows without GROUP BY."""
    aggregation = _Aggregation.of(planned)
    return aggregation is not None and aggregation.is_global


def aggregate_subquery(
    node: Node, subquery: SubqueryJoin, *, is_exists: bool
) -> tuple[Node, SubqueryJoin | OneRowSubquery]:
    """Return rows, and a subquery whose aggregates are computed, if it has any."""
    aggregation = _Aggregation.of(subquery.planned)
    if aggregation is None:
        return node, subquery
    operator = "EXISTS" if is_exists else "IN"
    subquery.check_plain(operator)
    if is_exists and not aggregation.has_having:
        # A group has a row if it has any rows; all rows together have one in any case.
        return node, OneRowSubquery(None, ()) if aggregation.is_global else subquery
    planned = _AggregatePlan(subquery.by_equalities(node), aggregation, is_exists)
    return planned.one_row(node) if aggregation.is_global else planned.groups(node)


@dataclass(frozen=True)
class _Aggregation:
    """What a subquery aggregates: its SELECT, over the fields of its FROM, and its GROUP BY."""

    select: exp.Select
    columns: Sequence[SelectColumn]
    group: GroupBy

    @classmethod
    def of(cls, planned: PlannedSubquery) -> _Aggregation | None:
        """Return what a subquery aggregates that compares outer values; None if it does not."""
        select = planned.select
        if select is None:
            return None
        scope = planned.context.scope(planned.relation.items)
        columns = select_columns(select, scope)
        group = group_by(select, columns, scope)
        values = [value for select_column in columns for value in select_column.values]
        if group is None and not has_aggregates(values) and select.args.get("having") is None:
            return None
        return cls(select, columns, group or GroupBy(()))

    @property
    def is_global(self) -> bool:
        """Whether it has one row, whatever rows it reads."""
        return not self.group.expressions and self.group.sets is None

    @property
    def has_having(self) -> bool:
        """Whether it has a HAVING."""
        return self.select.args.get("having") is not None


@dataclass(frozen=True)
class _AggregatePlan:
    """The aggregates of a subquery that compares outer values by equalities alone."""

    subquery: SubqueryJoin
    aggregation: _Aggregation
    is_exists: bool

    def one_row(self, node: Node) -> tuple[Node, OneRowSubquery]:
        """Return rows joined with one row for each of the compared values, and what it says."""
        node, aggregate, equalities, outputs = self._aggregate(node, ())
        outputs = with_defaults(aggregate, outputs, self.subquery.tree)
        conditions = [equality.condition for equality in equalities]
        joined: Node
        joined, _ = plan_join(self._builder, node, aggregate, JoinKind.LEFT, conditions)
        count = len(self._values)
        presence = conjunction(outputs[count:]) if outputs[count:] else None
        compared = []
        if not self.is_exists:
            self.subquery.check_width(count)
            joined, names = self._builder.compute(joined, outputs[:count])
            for value, name in zip(self.subquery.values, names, strict=True):
                joined, equality = self._compared(joined, value, name)
                compared.append(equality)
        return joined, OneRowSubquery(presence, compared)

    def groups(self, node: Node) -> tuple[Node, SubqueryJoin]:
        """Return rows, and the subquery over its groups, which has the compared values in them."""
        expressions = self.aggregation.group.expressions
        node, aggregate, equalities, outputs = self._aggregate(node, expressions)
        count = len(self._values)
        right = self._builder.filter(aggregate, outputs[count:])
        right, names = self._builder.compute(right, outputs[:count])
        relation = Relation(right, tuple(Item(None, name) for name in names))
        planned = PlannedSubquery(relation, self.subquery.planned.context)
        correlation = Correlation(equalities, ())
        return node, replace(self.subquery, planned=planned, correlation=correlation)

    def _aggregate(
        self, node: Node, group: Sequence[Tree]
    ) -> tuple[Node, Node, Sequence[Equality], list[Tree]]:
        """Return (rows, an aggregate by the compared values and a group, their equalities, values).

        The values are those of the SELECT and of the HAVING, over the aggregate.
        """
        subquery = self.subquery
        node, right, equalities = subquery.computed(
            node, subquery.node, subquery.correlation.equalities
        )
        keys = [column(equality.inner.name) for equality in equalities]
        expressions = [*self._values, *self._having(right)]
        aggregate, outputs = plan_aggregate(self._builder, right, [*keys, *group], expressions)
        return node, aggregate, equalities, outputs

    def _compared(self, node: Node, value: Tree, name: str) -> tuple[Node, Equality]:
        """Return rows, and the equality of a value before IN with a field, of one type."""
        condition = exp.EQ(this=value.copy(), expression=column(name))
        data_type = common_type(self._builder, node, value.name, node, name, condition)
        node, outer = self._builder.cast(node, value.name, data_type)
        node, inner = self._builder.cast(node, name, data_type)
        return node, Equality(column(outer), column(inner))

    def _having(self, node: Node) -> list[Tree]:
        clause = self.aggregation.select.args.get("having")
        if clause is None:
            return []
        planned, columns = self.subquery.planned, self.aggregation.columns
        scope = planned.context.scope(planned.relation.items, alias_values(columns))
        values = [select_column.value for select_column in columns]
        grouped = [*self.aggregation.group.expressions, *values]
        return having_conditions(clause, scope, grouped, partial(self._builder.is_same, node))

    @property
    def _values(self) -> list[Tree]:
        """The values of the SELECT that are read."""
        columns = () if self.is_exists else self.aggregation.columns
        return [select_column.value for select_column in columns]

    @property
    def _builder(self) -> Builder:
        return self.subquery.builder
