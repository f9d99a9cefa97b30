"""Clauses of queries that not every version of Spark reads.

Without a check Spark would take the first word of such a clause for an alias, and say that the next
one is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyspark.sql import SparkSession
from sqlglot import exp

from relstate.storage import errors

from .spark.capabilities import ASOF_JOIN, QUALIFY, RECURSIVE_VIEWS, Capability
from .spark.version import session_version
from .syntax.tree import Tree


def check_syntax(spark: SparkSession, query: Tree) -> None:
    """UnsupportedStatementError for a query with a clause that the Spark of a session lacks."""
    _check(spark, _capabilities_of(query))


def check_view_syntax(spark: SparkSession, query: Tree) -> None:
    """Check a view's query as `check_syntax` does, and for what only views cannot have there."""
    check_syntax(spark, query)
    if any(clause.args.get("recursive") for clause in query.find_all(exp.With)):
        _check(spark, [RECURSIVE_VIEWS])


def _check(spark: SparkSession, capabilities: Iterable[Capability]) -> None:
    for capability in capabilities:
        lack = capability.lack(session_version(spark))
        if lack is not None:
            raise errors.UnsupportedStatementError(lack)


def _capabilities_of(query: Tree) -> Iterator[Capability]:
    if query.find(exp.Qualify) is not None:
        yield QUALIFY
    if any(join.method == "ASOF" for join in query.find_all(exp.Join)):
        yield ASOF_JOIN
