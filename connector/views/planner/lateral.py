"""LATERAL subqueries: a join of each row with the rows that a subquery has for it.

    plain SELECT        a join by the comparisons of its WHERE
    GROUP BY, DISTINCT  a join with an aggregate by what is compared, and by the groups
    aggregate           a left join with an aggregate: it has a row for every row
    ORDER BY … LIMIT    a join with the first rows of each of the values that are compared

Promises: NULLs and counts of no rows are those of Spark.
Does not know: how names of FROM are resolved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    column,
    columns_of,
    conjuncts,
    is_column,
    parse_expression,
    text_of,
)
from relstate.storage import types

from ..plan.generate import OneRow
from ..plan.join import JoinKind
from ..plan.node import Node
from ..plan.topn import TopN
from .builder import Builder, Item, Relation
from .clauses import (
    SelectColumn,
    alias_values,
    group_by,
    limit_and_offset,
    order_keys,
    select_columns,
)
from .context import Context
from .correlation import Correlation, correlation_of, with_outer_values
from .from_clause import has_join_condition, is_left_join
from .generators import named_columns
from .group_by import has_aggregates, plan_aggregate, plan_distinct, with_defaults
from .having import having_conditions
from .join_conditions import plan_join
from .keyless_order import keyless_position, keys_over_fields
from .limit_rule import is_limited_per_row
from .planned_subquery import PlannedSubquery
from .scope import DecorrelationError, Outer, Scope
from .subquery_joins import SubqueryJoin
from .time_windows import has_time_window
from .windows import find_windows


@dataclass(frozen=True)
class LateralJoin:
    """A join of a relation with a LATERAL subquery.

    ``planned``: the subquery; its ``select`` is None if it reads nothing of the relation.
    """

    builder: Builder
    relation: Relation
    tree: exp.Lateral
    planned: PlannedSubquery
    outer: Outer
    context: Context

    def plan(self) -> Relation:
        """Return the joined rows, with the columns of both sides."""
        select = self.planned.select
        if select is None:
            inner = self.planned.relation
            return self._joined(inner.node, inner.items, Correlation((), ()))
        if find_windows(list(select.expressions)) or select.args.get("qualify") is not None:
            raise self._error("windows")
        if has_time_window(select):
            raise self._error("windows of time")
        columns = select_columns(select, self._scope)
        if any(select_column.call is not None for select_column in columns):
            raise self._error("a function of rows in its SELECT")
        if select.args.get("group") is not None:
            return self._grouped(select, columns)
        values = [select_column.value for select_column in columns]
        if has_aggregates(values) or select.args.get("having") is not None:
            return self._aggregated(select, columns)
        return self._plain(select, columns)

    def over_domain(self, names: Sequence[str]) -> Relation:
        """Return the joined rows of a subquery that is planned over a domain.

        ``names``: the fields of the relation with the values of the domain.
        """
        inner = self.planned.relation
        pairs = zip(names, inner.domain, strict=True)
        return self._joined(inner.node, inner.items, Correlation.of_fields(pairs))

    @property
    def _scope(self) -> Scope:
        return self.planned.context.where_scope(self.planned.relation.items)

    @property
    def _correlation(self) -> Correlation:
        return correlation_of(self.planned, self.outer.parameters)

    @property
    def _is_left(self) -> bool:
        return is_left_join(self.tree.parent)

    def _error(self, construct: str) -> DecorrelationError:
        """Return the error after which the subquery is planned over a domain."""
        return DecorrelationError(f"a LATERAL subquery with {construct} is not a join")

    # Kinds of subqueries

    def _plain(self, select: exp.Select, columns: Sequence[SelectColumn]) -> Relation:
        limit, offset = limit_and_offset(select)
        if limit is None and not offset and not select.args.get("distinct"):
            return self._rows(columns)
        node, right, keys, correlation = self._keyed()
        values = [select_column.value for select_column in columns]
        self._check_own(values)
        right, names = self.builder.compute(right, values, _titles(columns))
        if select.args.get("distinct"):
            right = plan_distinct(self.builder, right, [*keys, *names])
        if limit is not None or offset:
            right = self._limited(select, columns, right, keys)
        items = _items(columns, names)
        return replace(self, relation=replace(self.relation, node=node))._joined(
            right, items, correlation
        )

    def _limited(
        self, select: exp.Select, columns: Sequence[SelectColumn], right: Node, keys: Sequence[str]
    ) -> Node:
        limit, offset = limit_and_offset(select)
        sort_keys = order_keys(select, columns, self._aliased_scope(columns).with_aliases_first())
        outer_types = {
            name: self.relation.node.type_of(tree.name)
            for name, tree in self.outer.parameters.items()
            if is_column(tree)
        }
        subquery = self.planned.relation.node
        if not is_limited_per_row(self.planned.conditions, subquery, outer_types):
            raise self._error("LIMIT, and another comparison than = of columns of one type")
        if not sort_keys or limit is None:
            raise self._error("LIMIT")
        if select.args.get("distinct"):
            raise self._error("DISTINCT and LIMIT")
        self._check_own([expression for expression, _, _ in sort_keys])
        right, fields = self.builder.compute(right, [value for value, _, _ in sort_keys])
        if keyless_position(right, fields) is not None:
            raise self._error("LIMIT, and an order that no state can have")
        sort_keys = keys_over_fields(sort_keys, fields)
        right, order = self.builder.compute_order(right, sort_keys, "ORDER BY")
        return TopN(right, tuple(dict.fromkeys(keys)), order, limit, offset)

    def _rows(self, columns: Sequence[SelectColumn]) -> Relation:
        """Return the join with the rows of a plain SELECT, whose columns may read both sides."""
        builder, parameters = self.builder, self.outer.parameters
        right: Node = self.planned.relation.node
        values = [with_outer_values(c.value, parameters) for c in columns]
        own = [i for i, c in enumerate(columns) if columns_of(c.value).isdisjoint(parameters)]
        correlation = self._correlation
        if isinstance(right, OneRow) and not self._is_left:
            node = builder.filter(self.relation.node, correlation.conditions)
            node, names = builder.compute(node, values, _titles(columns))
            joined = Relation(node, (*self.relation.items, *self._named(_items(columns, names))))
            return replace(joined, node=builder.filter(node, self._on(joined)))
        titles = _titles(columns)
        right, own_names = builder.compute(
            right, [values[i] for i in own], [titles[i] for i in own]
        )
        fields = dict(zip(own, own_names, strict=True))
        if len(own) == len(columns):
            return self._joined(right, _items(columns, own_names), correlation)
        right, marker = builder.with_constant(right, "found")
        items = [Item(None, fields[i]) for i in own]
        joined = self._joined(right, items, correlation, is_complete=False)
        node = joined.node
        computed = [i for i in range(len(columns)) if i not in fields]
        if self._is_left:
            for i in computed:
                text = f"CASE WHEN {types.quoted(marker)} IS NOT NULL THEN {text_of(values[i])} END"
                values[i] = parse_expression(text)
        node, names = builder.compute(
            node, [values[i] for i in computed], [titles[i] for i in computed]
        )
        fields |= dict(zip(computed, names, strict=True))
        all_items = _items(columns, [fields[i] for i in range(len(columns))])
        result = Relation(node, (*self.relation.items, *self._named(all_items)))
        on = self._on(result)
        if on and self._is_left:
            raise self._error("outer columns in SELECT")
        return replace(result, node=builder.filter(node, on))

    def _aggregated(self, select: exp.Select, columns: Sequence[SelectColumn]) -> Relation:
        """Return the left join with an aggregate, which has a row even where there is none."""
        self._check_unlimited(select)
        node, right, keys, correlation = self._keyed()
        values = [select_column.value for select_column in columns]
        having = self._having(select, right, columns, ())
        self._check_own([*values, *having])
        if self._is_left and (having or has_join_condition(self.tree)):
            raise self._error("an aggregate, in a LEFT JOIN")
        aggregate, outputs = plan_aggregate(
            self.builder, right, [column(key) for key in keys], [*values, *having]
        )
        outputs = with_defaults(aggregate, outputs, self.tree)
        joined, _ = plan_join(self.builder, node, aggregate, JoinKind.LEFT, correlation.conditions)
        filtered = self.builder.filter(joined, outputs[len(values) :])
        computed, names = self.builder.compute(filtered, outputs[: len(values)], _titles(columns))
        items = (*self.relation.items, *self._named(_items(columns, names)))
        result = Relation(computed, items)
        return replace(result, node=self.builder.filter(computed, self._on(result)))

    def _grouped(self, select: exp.Select, columns: Sequence[SelectColumn]) -> Relation:
        self._check_unlimited(select)
        node, right, keys, correlation = self._keyed()
        group = group_by(select, columns, self._scope)
        assert group is not None
        if group.sets is not None:
            raise self._error("GROUPING SETS, CUBE or ROLLUP")
        values = [select_column.value for select_column in columns]
        having = self._having(select, right, columns, group.expressions)
        self._check_own([*values, *having, *group.expressions])
        aggregate, outputs = plan_aggregate(
            self.builder,
            right,
            [*(column(key) for key in keys), *group.expressions],
            [*values, *having],
        )
        right = self.builder.filter(aggregate, outputs[len(values) :])
        right, names = self.builder.compute(right, outputs[: len(values)], _titles(columns))
        if select.args.get("distinct"):
            right = plan_distinct(self.builder, right, [*keys, *names])
        left = replace(self, relation=replace(self.relation, node=node))
        return left._joined(right, _items(columns, names), correlation)

    # Parts

    def _keyed(self) -> tuple[Node, Node, list[str], Correlation]:
        """Return both sides with what is compared as fields, those of the right, the comparison."""
        if not self._correlation.conditions:
            raise self._own_values_error()
        join = SubqueryJoin(self.builder, self.tree, self.planned, self._correlation, [])
        join = join.by_equalities(self.relation.node)
        node, right, equalities = join.computed(
            self.relation.node, join.node, join.correlation.equalities
        )
        keys = [equality.inner.name for equality in equalities]
        return node, right, keys, Correlation(equalities, ())

    def _having(
        self,
        select: exp.Select,
        node: Node,
        columns: Sequence[SelectColumn],
        group: Sequence[Tree],
    ) -> list[Tree]:
        clause = select.args.get("having")
        if clause is None:
            return []
        grouped = [*group, *(select_column.value for select_column in columns)]
        is_same = partial(self.builder.is_same, node)
        return having_conditions(clause, self._aliased_scope(columns), grouped, is_same)

    def _aliased_scope(self, columns: Sequence[SelectColumn]) -> Scope:
        """Return the scope of clauses that may name columns of the SELECT."""
        return replace(self._scope, aliases=alias_values(columns))

    def _check_own(self, values: Sequence[Tree]) -> None:
        if any(not columns_of(value).isdisjoint(self.outer.parameters) for value in values):
            raise self._own_values_error()

    def _own_values_error(self) -> DecorrelationError:
        return self._error("aggregates, DISTINCT or LIMIT, and outer columns outside of its WHERE")

    def _check_unlimited(self, select: exp.Select) -> None:
        if limit_and_offset(select) != (None, 0):
            raise self._error("an aggregate and LIMIT")

    def _on(self, joined: Relation) -> list[Tree]:
        """Return the conditions after ON, over the columns of both sides."""
        if not has_join_condition(self.tree):
            return []
        assert self.tree.parent is not None
        scope = self.context.scope(joined.items)
        return [scope.resolve(part) for part in conjuncts(self.tree.parent.args["on"])]

    def _named(self, items: Sequence[Item]) -> tuple[Item, ...]:
        alias = self.tree.args.get("alias")
        names = [] if alias is None else [name.name for name in alias.columns]
        renamed = named_columns(items, names, self.tree)
        qualifier = None if alias is None else alias.name or None
        return tuple(replace(item, qualifier=qualifier) for item in renamed)

    def _joined(
        self,
        right: Node,
        items: Sequence[Item],
        correlation: Correlation,
        *,
        is_complete: bool = True,
    ) -> Relation:
        """Return the join by a correlation, and by ON if all columns are there."""
        kind = JoinKind.LEFT if self._is_left else JoinKind.INNER
        visible = [item for item in items if not item.is_hidden]
        all_items = (*self.relation.items, *(self._named(visible) if is_complete else ()))
        on = self._on(Relation(right, all_items)) if is_complete else []
        joined, remaining = plan_join(
            self.builder, self.relation.node, right, kind, [*correlation.conditions, *on]
        )
        return Relation(self.builder.filter(joined, remaining), all_items)


def _titles(columns: Sequence[SelectColumn]) -> list[str | None]:
    return [select_column.name for select_column in columns]


def _items(columns: Sequence[SelectColumn], names: Sequence[str]) -> list[Item]:
    return [Item(c.name, name) for c, name in zip(columns, names, strict=True)]
