"""What Spark's analysis makes of ROLLUP, PIVOT, UNPIVOT and windows of time, read back.

Each function returns None for a plan of another form. What it reads wrongly is found out when
Spark plans the text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

from .frame_plan import Expression, Plan, class_name, id_of, ids_of, is_ordered, items, refusal

_NUMBER = "spark_grouping_id"
_POSITION = "_gen_grouping_pos"
_OF_ORDER = frozenset({"CollectList", "First", "Last"})


@dataclass(frozen=True)
class GroupingSets:
    """An aggregation by several sets of expressions over the rows of ``child``.

    ``columns``: those of the plan that have the expressions' values, or NULL; ``number``: that of
    `grouping_id()`; ``sets``: the places of the expressions in each set.
    """

    child: Plan
    expressions: tuple[Expression, ...]
    columns: tuple[Expression, ...]
    number: Expression
    sets: tuple[tuple[int, ...], ...]

    def clause(self, groups: Sequence[str]) -> str:
        """Return what is after GROUP BY, for the expressions' texts."""
        everything = tuple(range(len(groups)))
        listed = ", ".join(groups)
        if self.sets == tuple(everything[:size] for size in reversed(range(len(groups) + 1))):
            return f"ROLLUP ({listed})"
        if sorted(self.sets) == sorted(_subsets(everything)):
            return f"CUBE ({listed})"
        sets = ", ".join(f"({', '.join(groups[place] for place in own)})" for own in self.sets)
        return f"GROUPING SETS ({sets})"


def _subsets(places: Sequence[int]) -> list[tuple[int, ...]]:
    sizes = range(len(places) + 1)
    return [subset for size in sizes for subset in combinations(places, size)]


def grouping_sets(plan: Plan) -> GroupingSets | None:
    """Return the grouping sets of an aggregation that Spark has expanded."""
    expand = plan.child()
    if class_name(expand) != "Expand":
        return None
    outputs = items(expand.output())
    names = [column.name() for column in outputs]
    if _NUMBER not in names:
        return None
    projection = expand.child()
    number = len(names) - 1 - names[::-1].index(_NUMBER)
    first = projection.child().output().size()
    aliases = items(projection.projectList())[first:]
    rows = [items(row)[first:number] for row in items(expand.projections())]
    sets = tuple(
        tuple(place for place, value in enumerate(row) if class_name(value) != "Literal")
        for row in rows
    )
    missing = set(range(len(aliases))) - {place for own in sets for place in own}
    if missing:
        name = aliases[min(missing)].name()
        raise refusal(f"the column {name} is in no grouping set", "Leave it out of groupingSets")
    return GroupingSets(
        projection.child(),
        tuple(alias.child() for alias in aliases),
        tuple(outputs[first:number]),
        outputs[number],
        sets,
    )


@dataclass(frozen=True)
class Pivot:
    """The aggregates for each value of a column, as columns.

    ``groups``: the columns that are kept; ``values``: as texts; ``results``: each column of the
    plan with the places of its value and its aggregate.
    """

    child: Plan
    groups: tuple[Expression, ...]
    column: Expression
    aggregates: tuple[Expression, ...]
    values: tuple[str, ...]
    results: tuple[tuple[Expression, tuple[int, int]], ...]

    @property
    def inputs(self) -> list[Expression]:
        """The columns of ``child`` that are read, those that it groups by in their order."""
        first = [*self.groups, self.column]
        rest = _read(self.aggregates) - set(map(id_of, first))
        return [*first, *(column for column in items(self.child.output()) if id_of(column) in rest)]


def _read(expressions: Sequence[Expression]) -> set[int]:
    return {
        number for expression in expressions for number in ids_of(expression.references().toSeq())
    }


def check_no_pivot(plan: Plan) -> None:
    """UnsupportedStatementError for a pivot of another form, such as that of `crosstab`."""
    if any(_pivot_first(item) is not None for item in items(plan.aggregateExpressions())):
        raise refusal(
            "it pivots by values that Spark has taken from the rows",
            "Name them: groupBy(…).pivot(column, [value, …])",
        )


def check_no_order(calls: Sequence[Expression], rows: Plan) -> None:
    """UnsupportedStatementError for aggregates of ordered rows that depend on their order."""
    if not is_ordered(rows):
        return
    for call in calls:
        if (function := _function_of_order(call)) is not None:
            raise refusal(
                f"it calls {function.sql()} after orderBy, and a view does not give it the rows in "
                "that order",
                "Write min_by(column, order) for the first value, and sort_array(collect_list("
                "struct(order, column))) for a list; or number the rows by row_number() over a "
                "window with this order, and choose them by where",
            )


def _function_of_order(expression: Expression) -> Expression | None:
    """Return a function in an expression whose result depends on the order of the rows."""
    kind = class_name(expression)
    if kind in _OF_ORDER or (kind == "ListAgg" and expression.orderExpressions().isEmpty()):
        return expression
    parts = map(_function_of_order, items(expression.children()))
    return next((part for part in parts if part is not None), None)


def pivot(plan: Plan, literal: Callable[[object, Expression], str]) -> Pivot | None:
    """Return the pivot of a projection over two aggregations. ``literal``: writes a value."""
    second = plan.child()
    if class_name(second) != "Aggregate" or class_name(second.child()) != "Aggregate":
        return None
    functions = {
        id_of(item): function
        for item in items(second.aggregateExpressions())
        if (function := _pivot_first(item)) is not None
    }
    if not functions:
        return None
    first = second.child()
    *groups, column = items(first.groupingExpressions())
    aggregates = [item.child() for item in items(first.aggregateExpressions())[len(groups) + 1 :]]
    for expression in (*groups, column):
        if class_name(expression) != "AttributeReference":
            raise refusal(
                f"it groups or pivots by the expression {expression.sql()}",
                "Compute it by withColumn first, and name its column",
            )
    shared = {id_of(group) for group in groups} & _read(aggregates)
    if shared:
        name = next(group.name() for group in groups if id_of(group) in shared)
        raise refusal(
            f"an aggregate of its pivot reads {name}, by which it groups",
            "Add a copy of the column by withColumn first, and aggregate that",
        )
    numbers = {item: number for number, item in enumerate(functions)}
    function = next(iter(functions.values()))
    values = [literal(value, column) for value in items(function.pivotColumnValues())]
    aliases = [item for item in items(plan.projectList()) if class_name(item) == "Alias"]
    results = [
        (item, (int(item.child().ordinal().value()), numbers[id_of(item.child().child())]))
        for item in aliases
    ]
    return Pivot(
        first.child(), tuple(groups), column, tuple(aggregates), tuple(values), tuple(results)
    )


def _pivot_first(item: Expression) -> Expression | None:
    """Return the function by which Spark pivots, of a column of an aggregation that has it."""
    if class_name(item) != "Alias" or class_name(item.child()) != "AggregateExpression":
        return None
    function = item.child().aggregateFunction()
    return function if class_name(function) == "PivotFirst" else None


@dataclass(frozen=True)
class Unpivot:
    """Columns as rows: the names and columns of each row, and the columns that they become."""

    ids: tuple[Expression, ...]
    values: tuple[tuple[str, tuple[Expression, ...]], ...]
    variable: Expression
    results: tuple[Expression, ...]

    @property
    def inputs(self) -> list[Expression]:
        """The columns that are read, those that are kept in their order first."""
        columns = [*self.ids, *(column for _, values in self.values for column in values)]
        return list({id_of(column): column for column in columns}.values())


def is_unpivot(plan: Plan) -> bool:
    """Return whether a plan is an unpivot that Spark has expanded, not grouping sets or windows."""
    if class_name(plan) != "Expand":
        return False
    position = _variable(plan)
    return position is not None and items(plan.output())[position].name() != _NUMBER


def _variable(plan: Plan) -> int | None:
    """Return the place of the column that has a literal in each row that Spark makes of one."""
    rows = [items(row) for row in items(plan.projections())]
    return next(
        (
            position
            for position, values in enumerate(zip(*rows, strict=True))
            if all(class_name(value) == "Literal" for value in values)
        ),
        None,
    )


def unpivot(plan: Plan) -> Unpivot:
    """Return the unpivot that Spark has expanded; it must be an Expand without grouping sets."""
    rows = [items(row) for row in items(plan.projections())]
    outputs = items(plan.output())
    position = _variable(plan)
    if position is None:
        raise refusal("its plan has the operator Expand, which relstate does not read")
    values = tuple(
        (str(row[position].value()), tuple(map(_column, row[position + 1 :]))) for row in rows
    )
    return Unpivot(
        tuple(map(_column, rows[0][:position])),
        values,
        outputs[position],
        tuple(outputs[position + 1 :]),
    )


def _column(expression: Expression) -> Expression:
    """Return the column of an unpivot, of which Spark may have made another type."""
    source = expression
    while class_name(source) in ("Alias", "Cast"):
        source = source.child()
    if class_name(source) != "AttributeReference":
        raise refusal(
            f"it unpivots the expression {expression.sql()}",
            "Compute it by withColumn first, and unpivot its column",
        )
    return source
