"""From a SELECT to the plan of a view.

sqlglot reads the query, Spark says what it means: its columns, the types of all expressions, and
whether sqlglot has read it right. What is not kept incrementally is refused, with the reason.

Promises: the visible columns of a plan are those that Spark gives the query.
Does not know: state tables, or how a plan is run.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from relstate.connector.syntax.parsed_query import ParsedQuery
from relstate.storage import errors, types

from ..plan.node import Order
from ..plan.stateful import Materialize
from .analysis import Analysis, loosened
from .builder import Builder, Item, Relation
from .catalog import Tables, not_found
from .expressions import check_expressions, refused
from .moment import check_moments, check_timeless
from .query import QueryPlanner
from .rank_bound import check_bounded
from .simplify import simplified


def plan_view(spark: SparkSession, tables: Tables, query: str) -> Materialize:
    """Return the plan of a view over tables.

    UnsupportedStatementError for a query that cannot be kept up to date, TableNotFoundError for
    one over tables that the store does not have; what is wrong with the query by Spark's own rules
    is Spark's AnalysisException.
    """
    parsed = ParsedQuery.parse(query)
    tree = parsed.tree
    analysis = Analysis(spark, tables)
    if analysis.is_case_sensitive:
        raise refused(
            "names that differ in case only", "unset spark.sql.caseSensitive and try again"
        )
    check_expressions(tree, analysis.functions())
    check_moments(tree)
    _check_tables(parsed, tables)
    columns = analysis.columns(parsed)
    relation = QueryPlanner(Builder(analysis), tables, parsed).plan(tree, {})
    check_bounded(relation.node)
    plan = simplified(_materialized(relation, columns))
    check_timeless(plan, analysis)
    return plan


def _check_tables(query: ParsedQuery, tables: Tables) -> None:
    for reference in query.table_references(lambda name, as_of: True):
        if tables.find(reference.name) is None:
            raise not_found(reference.name)


def _materialized(relation: Relation, columns: Sequence[types.Field]) -> Materialize:
    """Return the root of a plan. UnsupportedStatementError if columns are not as Spark says."""
    names = [one.name.lower() for one in columns]
    for one in columns:
        if names.count(one.name.lower()) > 1:
            raise refused(f"two columns named {one.name!r}", "give one of them another name, AS …")
    visible = [item for item in relation.items if not item.is_behind]
    _check_names(visible, columns)
    found = [relation.node.type_of(item.field) for item in visible]
    wanted = [loosened(one.type) for one in columns]
    if found != wanted:
        raise errors.UnsupportedStatementError(
            f"relstate takes the columns of the query for {', '.join(map(str, found))}, and Spark "
            f"for {', '.join(map(str, wanted))}: this is a fault of relstate's; please report it"
        )
    pairs = tuple((one.name, item.field) for one, item in zip(columns, visible, strict=True))
    order: dict[str, Order] = {one.name: one for one in relation.order}
    return Materialize(relation.node, pairs, tuple(order.values()))


def _check_names(items: Sequence[Item], columns: Sequence[types.Field]) -> None:
    """UnsupportedStatementError if columns that have names are not in the order of Spark's."""
    names = [one.name.lower() for one in columns]
    ours = [(item.name or name).lower() for item, name in zip(items, names, strict=False)]
    if ours != names:
        raise errors.UnsupportedStatementError(
            f"relstate takes the columns of the query in the order {', '.join(ours)}, and Spark "
            f"in the order {', '.join(names)}; name the columns"
        )
