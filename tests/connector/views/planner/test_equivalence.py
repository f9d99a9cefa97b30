"""Whether a query is read as Spark reads it, whatever ids Spark gives to its parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from relstate.connector.views.planner import equivalence

if TYPE_CHECKING:
    from relstate.connector.views.plan.materialize import Materialize

_QUERY = """WITH p AS (SELECT * FROM t), q AS (SELECT g FROM p WHERE x IN (SELECT id FROM p))
    SELECT g, count(DISTINCT x) AS a, count(DISTINCT y) AS b FROM p
    WHERE EXISTS (SELECT 1 FROM q WHERE q.g = p.g) OR g = 'a' GROUP BY g"""


def test_a_query_whose_optimized_plan_depends_on_ids_is_compared_before(
    planned: Callable[[str], Materialize],
) -> None:
    """Spark's optimizer orders DISTINCT arguments by hashes of ids, new for each reading."""
    plan = planned(_QUERY)
    assert all(planned(_QUERY) == plan for _ in range(5))


def test_a_query_whose_readings_differ_is_read_again(
    planned: Callable[[str], Materialize], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One reading that is as the original is enough."""
    results = iter([False, False, True])
    monkeypatch.setattr(equivalence, "_has_same_plan", lambda left, right: next(results))

    planned(_QUERY)

    assert list(results) == []
