"""Aggregate calls that are maintained as equal calls of other functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from relstate.connector.syntax.tree import parse_expression, text_of
from relstate.connector.views.plan.aggregate import Aggregate
from relstate.connector.views.plan.node import walk
from relstate.connector.views.plan.recompute import GroupRecompute
from relstate.connector.views.planner.equal_calls import Input, as_maintained
from relstate.storage import types

if TYPE_CHECKING:
    from relstate.connector.views.plan.materialize import Materialize


ROWS = Input(
    ["id"],
    lambda tree: types.Map(types.Int(), types.Int()) if text_of(tree) == "m" else types.Int(),
)
"""Rows with a map m; all else is INT."""


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
        (
            "max_by(a, b) FILTER (WHERE c)",
            (
                "MAX(CASE WHEN NOT (b) IS NULL THEN NAMED_STRUCT('by', b, 'value', a) END) "
                "FILTER(WHERE c).`value`"
            ),
        ),
        ("last(a)", "MAX(NAMED_STRUCT('k0', id, 'value', a)).`value`"),
        (
            "any_value(a) IGNORE NULLS",
            "MIN(CASE WHEN NOT (a) IS NULL THEN NAMED_STRUCT('k0', id, 'value', a) END).`value`",
        ),
        ("mode(a, FALSE) FILTER (WHERE c)", "MODE(a) FILTER(WHERE c)"),
    ],
)
def test_a_call_has_an_equal_one(call: str, equal_call: str) -> None:
    """The condition, the FILTER and all values that must not be NULL are the same."""
    assert text_of(as_maintained(parse_expression(call), ROWS)) == equal_call


@pytest.mark.parametrize(
    "call",
    [
        "count_if(DISTINCT a)", "regr_count(DISTINCT a, b)", "bit_and(a)", "sum(a)",
        "corr(DISTINCT a, b)", "mode() WITHIN GROUP (ORDER BY a DESC)", "first(m)",
        "min_by(m, a)", "max_by(a, b, 2)", "kurtosis(a)",
    ],
)  # fmt: skip
def test_other_calls_stay(call: str) -> None:
    """Those that no function of the executor equals."""
    tree = parse_expression(call)
    assert as_maintained(tree, ROWS) is tree


def test_no_group_is_evaluated_again_for_them(planned: Callable[[str], Materialize]) -> None:
    """They are calls of the aggregate executor, unless a call beside them is not."""
    calls = (
        "bool_and(x > 1) AS a, some(x = 1) AS s, count_if(x > 1) AS c, regr_count(x, id) AS r, "
        "bit_xor(x) AS x, corr(x, id) AS o, max_by(st, x) AS m, any_value(x) AS v, mode(g) AS d"
    )
    plan = planned(f"SELECT g, {calls} FROM t GROUP BY g")
    assert any(isinstance(node, Aggregate) for node in walk(plan))
    assert not any(isinstance(node, GroupRecompute) for node in walk(plan))
    plan = planned(f"SELECT g, {calls}, kurtosis(x) AS b FROM t GROUP BY g")
    assert any(isinstance(node, GroupRecompute) for node in walk(plan))
