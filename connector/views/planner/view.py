"""From a query to the plan of a view: its tables, its columns, and the operators between them.

sqlglot parses the query. Spark analyses it: its columns, the types of all expressions, and whether
sqlglot has parsed it right. What cannot be maintained incrementally is refused.

Promises: the visible columns of a plan are those that Spark gives the query.
Does not know: how the clauses of a query become operators (query).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from itertools import chain

from pyspark.sql import SparkSession
from sqlglot import exp

from relstate.connector.syntax.parsed_query import ParsedQuery, common_tables_around
from relstate.connector.syntax.tree import Tree, is_star, substituted, text_of, whole_number
from relstate.storage import errors, is_feed_column, types

from ..plan.materialize import Materialize
from ..plan.node import Order
from .analysis import Analysis, Tables, as_nullable, table_not_found_error
from .builder import Builder, Item, Relation
from .clauses import with_order_by
from .clustering import cluster_root
from .comparisons import compare_in_joins
from .expressions import (
    check_expressions,
    check_moments,
    check_time_independent,
    function_name,
    is_clock,
    unsupported_error,
)
from .grouping_sets import check_grouping_sets
from .null_times import with_null_times
from .query import QueryPlanner
from .reading import check_reading
from .scope import DecorrelationError
from .simplify import merge_operators, simplify_plan
from .windows import plan_unbounded_ranks

_NAMED = exp.Alias, exp.Aliases, exp.Column, exp.Dot
_LATERAL = "relstate_lateral"


def plan_view(
    spark: SparkSession,
    tables: Tables,
    query: str,
    names: Sequence[str] = (),
    cluster_by: Sequence[str] = (),
    user_session: SparkSession | None = None,
) -> Materialize:
    """Return the plan of a view over tables; ``names``: of its columns, if not those of the query.

    ``cluster_by``: the columns by which the view's table is distributed; none for any.
    ``user_session``: see `check_reading`; None if the user's settings read a query as by default.
    UnsupportedStatementError for a query that cannot be maintained, TableNotFoundError for a query
    over tables that the store does not have, Spark's AnalysisException for an invalid query.
    """
    parsed = ParsedQuery.parse(query).without_hints()
    tree = parsed.tree
    analysis = Analysis(spark, tables)
    check_expressions(tree, analysis.functions())
    check_moments(tree)
    check_grouping_sets(tree)
    _check_tables(parsed, tables)
    if user_session is not None:
        check_reading(user_session, tables, parsed)
    columns = analysis.columns(parsed)
    builder = Builder(analysis)
    tree = with_null_times(_with_row_counts(tree, analysis), analysis)
    tree = with_order_by(_with_names_of_spark(tree, columns, analysis))
    try:
        relation = QueryPlanner(builder, tables, parsed).plan(tree, {})
    except errors.UnsupportedStatementError as error:
        analysis.check_outer_types(parsed)
        if isinstance(error, DecorrelationError):
            raise errors.UnsupportedStatementError(str(error)) from None
        raise
    if any(isinstance(data_type, types.Map) for data_type in builder.field_types.values()):
        # What a subquery reads of a map is kept, but Spark may refuse to evaluate it.
        analysis.check_outer_types(parsed)
    node = merge_operators(plan_unbounded_ranks(relation.node))
    relation = replace(relation, node=compare_in_joins(builder, node))
    root = cluster_root(_materialize(relation, columns, names), cluster_by)
    plan = simplify_plan(root)
    check_time_independent(plan, analysis)
    return plan


def _with_row_counts(tree: Tree, analysis: Analysis) -> Tree:
    """Return a query with numbers for constant expressions after LIMIT and OFFSET."""

    def replacement(node: Tree) -> Tree | None:
        if not isinstance(node, exp.Limit | exp.Offset):
            return None
        value = node.expression
        if whole_number(value) is not None or value.find(exp.Column, exp.Var, exp.Query):
            return None
        number = analysis.number_of(text_of(value))
        return None if number is None else type(node)(expression=exp.Literal.number(number))

    return substituted(tree, replacement)


def _with_names_of_spark(tree: Tree, columns: Sequence[types.Field], analysis: Analysis) -> Tree:
    """Return a query in which expressions have aliases if it reads them by Spark's names for them.

    As in ``SELECT g, count(*) FROM t GROUP BY g ORDER BY `count(1)```.
    """
    read_names = {name.name.lower() for name in tree.find_all(exp.Identifier) if name.quoted}
    if not read_names:
        return tree
    named = tree.copy()
    _add_names(named, [field.name for field in columns], read_names)
    for select in named.find_all(exp.Select):
        if select is not named and not all(map(_is_named, select.expressions)):
            queries = chain([_alone(select)], _joined_alone(select))
            names = next(filter(None, map(analysis.names_of, queries)), [])
            _add_names(select, names, read_names)
    return named


def _add_names(select: Tree, names: Sequence[str], read_names: Set[str]) -> None:
    """Give expressions of a SELECT those of their names that are read."""
    is_select = isinstance(select, exp.Select) and len(select.expressions) == len(names)
    if not is_select or any(map(is_star, select.expressions)):
        return
    expressions = [
        exp.alias_(expression, name, quoted=True)
        if name.lower() in read_names and not _is_named(expression)
        else expression
        for expression, name in zip(select.expressions, names, strict=True)
    ]
    select.set("expressions", expressions)


def _is_named(expression: Tree) -> bool:
    return isinstance(expression, _NAMED) or is_star(expression)


def _alone(select: Tree) -> Tree:
    """Return a nested SELECT with the common tables that it can read."""
    alone = select.copy()
    common_tables = [common.copy() for common in common_tables_around(select)]
    if common_tables:
        own: list[Tree] = alone.args["with_"].expressions if alone.args.get("with_") else []
        alone.set("with_", exp.With(expressions=[*common_tables, *own]))
    return alone


def _joined_alone(select: Tree) -> Iterator[Tree]:
    """Yield queries of the columns of a nested SELECT, joined with inputs that it may read.

    Those of each query around it whose FROM it can see.
    """
    part = select
    while part.parent is not None:
        around = part.parent
        if isinstance(around, exp.Select) and around.args.get("from_") is not None:
            joins = around.args.get("joins") or []
            if isinstance(part, exp.Join) and isinstance(part.this, exp.Lateral):
                joins = joins[: part.index]
            if not isinstance(part, exp.From | exp.With) and (
                part.arg_key != "joins" or isinstance(part.this, exp.Lateral)
            ):
                yield _joined(select, around, joins)
        part = around


def _joined(select: Tree, around: Tree, joins: Sequence[Tree]) -> Tree:
    """Return a query of the columns of a SELECT, joined with inputs of the one around it."""
    alias = exp.TableAlias(this=exp.to_identifier(_LATERAL))
    lateral = exp.Lateral(this=exp.Subquery(this=_alone(select)), alias=alias)
    with_ = _alone(around).args.get("with_")
    return exp.Select(
        expressions=[exp.Column(this=exp.Star(), table=exp.to_identifier(_LATERAL))],
        from_=around.args["from_"].copy(),
        joins=[*(join.copy() for join in joins), exp.Join(this=lateral, kind="CROSS")],
        with_=None if with_ is None else with_.copy(),
    )


def _check_tables(query: ParsedQuery, tables: Tables) -> None:
    """Raise an error for a table that is not there, and for the row id of one without a key."""
    references = query.table_references(lambda name, as_of: True)
    row_ids: dict[str, str] = {}
    for reference in references:
        table = tables.find(reference.name)
        if table is None:
            raise table_not_found_error(reference.name)
        _check_clock_names([field.name for field in (*table.columns, *table.hidden)], query.tree)
        if table.row_id is not None:
            row_ids[reference.alias] = table.row_id
    _check_clock_names([alias.alias for alias in query.tree.find_all(exp.Alias)], query.tree)
    others = {reference.alias for reference in references} - row_ids.keys()
    for alias, row_id in row_ids.items():
        if query.names_column(row_id, others):
            raise unsupported_error(
                f"the hidden row id {row_id!r} of {alias!r}",
                "it has no meaning outside of its table; write the alias before a column of that "
                "name of another table",
            )


def _check_clock_names(names: Sequence[str], tree: Tree) -> None:
    """Refuse a name of a column that hides the present time, which the tree shows as a function."""
    for clock in filter(is_clock, tree.walk()):
        if function_name(clock) in {name.lower() for name in names}:
            raise unsupported_error(
                "the present time where a column has the name of its function",
                "give the column another name",
                clock,
            )


def _materialize(
    relation: Relation, columns: Sequence[types.Field], names: Sequence[str]
) -> Materialize:
    """Return the root of a plan. UnsupportedStatementError if columns differ from Spark's."""
    if names and len(names) != len(columns):
        raise unsupported_error(
            f"{len(names)} names for {len(columns)} columns", "name each column of the SELECT once"
        )
    names = names or [field.name for field in columns]
    lowered = [name.lower() for name in names]
    for name in names:
        if lowered.count(name.lower()) > 1:
            raise unsupported_error(
                f"two columns named {name!r}", "give one of them another name, AS …"
            )
        if is_feed_column(name):
            raise unsupported_error(
                f"a column named {name!r}, as a column that change feeds add",
                f"give it another name, AS {name.strip('_').lower()}",
            )
    visible = [item for item in relation.items if not item.is_hidden]
    _check_names(visible, columns)
    own_types = [relation.node.type_of(item.field) for item in visible]
    spark_types = [as_nullable(field.type) for field in columns]
    if own_types != spark_types:
        raise errors.UnsupportedStatementError(
            f"relstate gives the columns of the query the types {', '.join(map(str, own_types))}, "
            f"and Spark {', '.join(map(str, spark_types))}: this is a bug in relstate"
        )
    pairs = tuple((name, item.field) for name, item in zip(names, visible, strict=True))
    order: dict[str, Order] = {field.name: field for field in relation.order}
    return Materialize(relation.node, pairs, tuple(order.values()))


def _check_names(items: Sequence[Item], columns: Sequence[types.Field]) -> None:
    """Raise UnsupportedStatementError if named columns are not in Spark's order."""
    names = [column.name.lower() for column in columns]
    own_names = [(item.name or name).lower() for item, name in zip(items, names, strict=False)]
    if own_names != names:
        raise errors.UnsupportedStatementError(
            f"relstate takes the columns of the query in the order {', '.join(own_names)}, and "
            f"Spark in the order {', '.join(names)}; name the columns"
        )
