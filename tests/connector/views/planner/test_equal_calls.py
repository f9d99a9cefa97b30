"""Aggregate calls that are maintained as equal calls of other functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from relstate.connector.syntax.tree import parse_expression, text_of
from relstate.connector.views.plan.aggregate import Aggregate
from relstate.connector.views.plan.node import walk
from relstate.connector.views.plan.recompute import GroupRecompute
from relstate.connector.views.planner.equal_calls import as_maintained

if TYPE_CHECKING:
    from relstate.connector.views.plan.materialize import Materialize


@pytest.mark.parametrize(
    ("call", "equal_call"),
    [
        ("bool_and(a)", "MIN(CAST(a AS BOOLEAN))"),
        ("every(DISTINCT a > 1)", "MIN(CAST(a > 1 AS BOOLEAN))"),
        ("any(a) FILTER (WHERE b OR c)", "MAX(CAST(a AS BOOLEAN)) FILTER(WHERE b OR c)"),
        ("count_if(a > 1)", "COUNT(*) FILTER(WHERE CAST(a > 1 AS BOOLEAN))"),
        (
            "count_if(a) FILTER (WHERE b OR c)",
            "COUNT(*) FILTER(WHERE (b OR c) AND CAST(a AS BOOLEAN))",
        ),
        ("regr_count(a, b)", "COUNT(a, b)"),
    ],
)
def test_a_call_has_an_equal_one(call: str, equal_call: str) -> None:
    """The condition, the FILTER and all values that must not be NULL are the same."""
    assert text_of(as_maintained(parse_expression(call))) == equal_call


@pytest.mark.parametrize(
    "call", ["count_if(DISTINCT a)", "regr_count(DISTINCT a, b)", "bit_and(a)", "sum(a)"]
)
def test_other_calls_stay(call: str) -> None:
    """Those that no function of the executor equals."""
    tree = parse_expression(call)
    assert as_maintained(tree) is tree


def test_no_group_is_evaluated_again_for_them(planned: Callable[[str], Materialize]) -> None:
    """They are calls of the aggregate executor, unless a call beside them is not."""
    calls = "bool_and(x > 1) AS a, some(x = 1) AS s, count_if(x > 1) AS c, regr_count(x, id) AS r"
    plan = planned(f"SELECT g, {calls} FROM t GROUP BY g")
    assert any(isinstance(node, Aggregate) for node in walk(plan))
    assert not any(isinstance(node, GroupRecompute) for node in walk(plan))
    plan = planned(f"SELECT g, {calls}, bit_and(x) AS b FROM t GROUP BY g")
    assert any(isinstance(node, GroupRecompute) for node in walk(plan))
