"""What the clauses of a query say."""

from __future__ import annotations

import pytest

from relstate.connector.syntax.parsed_query import ParsedQuery
from relstate.connector.syntax.tree import text_of
from relstate.connector.views.planner.clauses import with_order_by


@pytest.mark.parametrize(
    ("clauses", "order"),
    [
        ("CLUSTER BY a, b", "ORDER BY a, b"),
        ("DISTRIBUTE BY b SORT BY a DESC, b", "ORDER BY a DESC, b"),
        ("DISTRIBUTE BY b", ""),
    ],
)
def test_orders_within_tasks_are_orders_of_the_view(clauses: str, order: str) -> None:
    """CLUSTER BY ascends, as in Spark; DISTRIBUTE BY changes no row."""
    clustered, ordered = (
        ParsedQuery.parse(f"SELECT a, b FROM t {text}").tree for text in (clauses, order)
    )
    assert text_of(with_order_by(clustered)) == text_of(ordered)
