"""Calls of aggregate and window functions, found and taken apart without Spark."""

from __future__ import annotations

import pytest

from relstate.connector.syntax.tree import Tree, parse_expression, text_of
from relstate.connector.views.planner.calls import (
    AggregateCall,
    depends_on_order,
    find_aggregates,
    is_group_call,
    is_same_for_peers,
    is_window_call,
    with_fields_for_values,
)


def texts(trees: list[Tree]) -> list[str]:
    """Return the text of each tree."""
    return [text_of(tree) for tree in trees]


@pytest.mark.parametrize(
    ("expression", "calls"),
    [
        ("a + 1", []),
        ("sum(a) + count(*)", ["SUM(a)", "COUNT(*)"]),
        ("size(collect_list(a)) > max_by(a, b)", ["MAX_BY(a, b)", "COLLECT_LIST(a)"]),
        ("sum(a) FILTER (WHERE b > 1) * 2", ["SUM(a) FILTER(WHERE b > 1)"]),
        ("first(a) FILTER (WHERE b) IGNORE NULLS", ["FIRST(a) FILTER(WHERE b) IGNORE NULLS"]),
        ("mode() WITHIN GROUP (ORDER BY a)", ["MODE() WITHIN GROUP (ORDER BY a)"]),
        ("any(a > 1) OR b LIKE ANY ('x', 'y')", ["ANY(a > 1)"]),
        ("sum(a) OVER (ORDER BY b)", []),
        ("sum(sum(a)) OVER (PARTITION BY max(b) ORDER BY c)", ["SUM(a)", "MAX(b)"]),
        ("lag(count(*)) IGNORE NULLS OVER (ORDER BY min(b))", ["COUNT(*)", "MIN(b)"]),
        ("rank() OVER (ORDER BY a)", []),
    ],
)
def test_aggregates_are_found_outside_of_windows(expression: str, calls: list[str]) -> None:
    """A window function is no aggregate call, but its arguments and sort keys may be."""
    found = texts(find_aggregates(parse_expression(expression)))

    assert sorted(found) == sorted(calls)


@pytest.mark.parametrize(
    ("text", "call", "is_distinct", "condition"),
    [
        ("count(*)", "COUNT(*)", False, None),
        ("count(DISTINCT a, b)", "COUNT(a, b)", True, None),
        ("stddev(a)", "STDDEV_SAMP(a)", False, None),
        ("collect_set(DISTINCT a) FILTER (WHERE b > 1)", "COLLECT_SET(a)", True, "b > 1"),
        ("any(a > 1)", "ANY(a > 1)", False, None),
        ("percentile(DISTINCT a, 0.5, 2)", "PERCENTILE(a, 0.5, 2)", True, None),
        (
            "listagg(DISTINCT a, ',') WITHIN GROUP (ORDER BY a DESC)",
            "LISTAGG(a, ',') WITHIN GROUP (ORDER BY a DESC)",
            True,
            None,
        ),
    ],
)
def test_a_call_is_taken_apart(
    text: str, call: str, is_distinct: bool, condition: str | None
) -> None:
    """DISTINCT and FILTER are separate; the rest is a call that Spark reads."""
    parts = AggregateCall.of(parse_expression(text))

    assert text_of(parts.call).upper() == call.upper()
    assert parts.is_distinct == is_distinct
    assert (parts.filter and text_of(parts.filter)) == condition


def test_values_become_fields_and_constants_stay() -> None:
    """Each argument and sort key that reads a field is replaced as a whole."""
    call = parse_expression("listagg(upper(a), ', ') WITHIN GROUP (ORDER BY b + 1 DESC)")

    over_fields = with_fields_for_values(call, {"UPPER(a)": "x", "b + 1": "y"})

    assert text_of(over_fields) == "LISTAGG(x, ', ') WITHIN GROUP (ORDER BY y DESC)"
    assert is_group_call(over_fields)
    assert not is_group_call(call)


@pytest.mark.parametrize(
    ("text", "is_call"),
    [
        ("count(*)", True),
        ("collect_list(a)", True),
        ("percentile_cont(0.5) WITHIN GROUP (ORDER BY a)", True),
        ("collect_list(a + 1)", False),
        ("collect_list(DISTINCT a)", False),
        ("collect_list(a) FILTER (WHERE b)", False),
        ("collect_list(max(1))", False),
        ("upper(a)", False),
        ("a", False),
        ("sum(a) OVER ()", False),
    ],
)
def test_a_stored_aggregate_is_one_call_over_fields(text: str, is_call: bool) -> None:
    """Anything else in a stored plan was not made by CREATE."""
    assert is_group_call(parse_expression(text)) == is_call


@pytest.mark.parametrize(
    ("text", "is_call"),
    [
        ("lag(a, 1) OVER (PARTITION BY g ORDER BY b)", True),
        ("first_value(a) IGNORE NULLS OVER (PARTITION BY g)", True),
        ("upper(a) OVER (PARTITION BY g)", False),
        ("lag(a + 1) OVER (PARTITION BY g ORDER BY b)", False),
        ("lag(a)", False),
    ],
)
def test_a_stored_window_is_one_function_over_fields(text: str, is_call: bool) -> None:
    """Anything else in a stored plan was not made by CREATE."""
    assert is_window_call(parse_expression(text)) == is_call


def test_what_depends_on_the_order_of_rows_is_known() -> None:
    """The check of a view does not compare such values with those of its SELECT."""
    assert depends_on_order(parse_expression("listagg(a) WITHIN GROUP (ORDER BY b)"))
    assert not depends_on_order(parse_expression("listagg(a, ', ') WITHIN GROUP (ORDER BY a)"))
    assert depends_on_order(parse_expression("mode(a)"))
    assert not depends_on_order(parse_expression("mode(a, true)"))
    assert not depends_on_order(parse_expression("mode() WITHIN GROUP (ORDER BY a)"))
    assert not depends_on_order(parse_expression("percentile(a, 0.5)"))
    assert is_same_for_peers(parse_expression("rank()"), None)
    assert is_same_for_peers(
        parse_expression("sum(a)"), "RANGE BETWEEN 1 PRECEDING AND CURRENT ROW"
    )
    assert not is_same_for_peers(
        parse_expression("sum(a)"), "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW"
    )
    assert not is_same_for_peers(parse_expression("lag(a)"), None)
    assert not is_same_for_peers(parse_expression("collect_list(a)"), None)
