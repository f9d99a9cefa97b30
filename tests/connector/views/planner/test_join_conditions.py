"""Conditions of joins, taken apart."""

from __future__ import annotations

import pytest

from relstate.connector.syntax.tree import parse_expression, text_of
from relstate.connector.views.planner.join_conditions import factor_condition


@pytest.mark.parametrize(
    ("condition", "factors"),
    [
        ("a = b AND c > 1", ["a = b AND c > 1"]),
        ("(a = b AND c > 1) OR (b = a AND c < 0)", ["a = b", "c > 1 OR c < 0"]),
        ("(a = b AND c > 1 AND d) OR (c > 1 AND (b = a))", ["a = b", "c > 1"]),
        ("((a = b AND c) OR (a = b AND d)) OR (e AND a = b)", ["a = b", "c OR d OR e"]),
        ("(a = b AND c) OR d", ["(a = b AND c) OR d"]),
        ("(a < b AND c) OR (b < a AND d)", ["(a < b AND c) OR (b < a AND d)"]),
    ],
)
def test_what_all_branches_of_an_or_require_is_a_condition_of_its_own(
    condition: str, factors: list[str]
) -> None:
    """An equality is the same the other way round; a branch that requires no more ends the OR."""
    assert [text_of(part) for part in factor_condition(parse_expression(condition))] == factors
