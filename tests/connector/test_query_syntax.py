"""The laws of clauses that not every version of Spark reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from relstate.connector import query_syntax
from relstate.connector.query_syntax import check_syntax
from relstate.connector.syntax.parsed_query import ParsedQuery
from relstate.storage import errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from relstate.connector.sql import Database

_CLAUSES = [
    (
        "4.1.4",
        "4.2",
        "QUALIFY",
        "SELECT id FROM orders QUALIFY sum(id) OVER () = 1",
    ),
    ("4.2.1", "4.3", "ASOF JOIN", "SELECT 1 FROM a ASOF JOIN b MATCH_CONDITION (a.t >= b.t)"),
]


@pytest.mark.parametrize(("old", "new", "name", "query"), _CLAUSES)
def test_a_clause_that_spark_does_not_read_is_refused(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, old: str, new: str, name: str, query: str
) -> None:
    """By its name, with the version that reads it, also in a subquery."""
    for text in (query, f"SELECT * FROM ({query}) AS q"):
        tree = ParsedQuery.parse(text).tree
        _run_on(monkeypatch, new)
        check_syntax(spark, tree)

        _run_on(monkeypatch, old)
        with pytest.raises(errors.UnsupportedStatementError) as raised:
            check_syntax(spark, tree)
        assert str(raised.value) == f"{name} needs Spark {new} or newer, and this is Spark {old}"


@pytest.mark.parametrize("statement", ["{}", "CREATE MATERIALIZED VIEW v AS {}"])
def test_queries_and_views_are_checked(
    db: Database, orders: str, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    """Before Spark reads them."""
    old, _, name, query = _CLAUSES[0]
    _run_on(monkeypatch, old)

    with pytest.raises(errors.UnsupportedStatementError, match=f"{name} needs Spark"):
        db.sql(statement.format(query))


def _run_on(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """Let every session seem to be of a version of Spark."""
    monkeypatch.setattr(query_syntax, "session_version", lambda _: version)
