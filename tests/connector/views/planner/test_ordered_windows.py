"""The rule that chooses the window executor, from the text of a window."""

from __future__ import annotations

import pytest

from relstate.connector.syntax.tree import parse_expression
from relstate.connector.views.plan.frame import Frame
from relstate.connector.views.plan.window import WindowFunction
from relstate.connector.views.planner.ordered_windows import OrderedCallTree, parse_ordered_call
from relstate.connector.views.planner.sort_keys import sort_keys
from relstate.connector.views.planner.value_frames import ValueFrameTree

BY_PLACE = Frame(True, None, 0)


def parsed(text: str) -> OrderedCallTree | None:
    """Return the parts of a window that the executor maintains."""
    window = parse_expression(text)
    order = window.args.get("order")
    return parse_ordered_call(window, [] if order is None else sort_keys(order))


@pytest.mark.parametrize(
    ("text", "function", "frame", "offset"),
    [
        ("rank() OVER (PARTITION BY g ORDER BY x)", "rank", None, 0),
        ("lag(v) OVER (ORDER BY x)", "lag", None, 1),
        ("lag(v, 3, 0) OVER (ORDER BY x)", "lag", None, 3),
        ("lag(v, -2) OVER (ORDER BY x)", "lead", None, 2),
        ("lead(v, 2, NULL) OVER (ORDER BY x)", "lead", None, 2),
        ("sum(v) OVER (ORDER BY x)", "sum", BY_PLACE, 0),
        ("first(v) OVER (ORDER BY x)", "first_value", BY_PLACE, 0),
        ("count(*) OVER (ORDER BY x ROWS UNBOUNDED PRECEDING)", "count", Frame(False, None, 0), 0),
        ("min(v) OVER (ORDER BY x ROWS 2 PRECEDING)", "min", Frame(False, -2, 0), 0),
        (
            "avg(v) OVER (ORDER BY x rows between 1 following and 3 following)",
            "avg",
            Frame(False, 1, 3),
            0,
        ),
        (
            "count(1) OVER (ORDER BY x RANGE BETWEEN CURRENT ROW AND CURRENT ROW)",
            "count",
            Frame(True, 0, 0),
            0,
        ),
    ],
)
def test_what_has_a_limited_effect_is_maintained_from_the_first_changed_row_on(
    text: str, function: str, frame: Frame | None, offset: int
) -> None:
    """Numberings, lag and lead, and functions over frames that are bounded, or that run."""
    call = parsed(text)

    assert call is not None
    assert (call.function, call.frame, call.offset) == (WindowFunction(function), frame, offset)


@pytest.mark.parametrize(
    "text",
    [
        "sum(v) OVER (PARTITION BY g)",
        "ntile(2) OVER (ORDER BY x)",
        "percent_rank() OVER (ORDER BY x)",
        "lag(v, n) OVER (ORDER BY x)",
        "lag(v, 1001) OVER (ORDER BY x)",
        "nth_value(v, 1001) OVER (ORDER BY x)",
        "nth_value(v, n) OVER (ORDER BY x)",
        "sum(v) OVER (ORDER BY x RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)",
        "count(a, b) OVER (ORDER BY x)",
        "count(NULL) OVER (ORDER BY x)",
        "sum(DISTINCT v) OVER (ORDER BY x)",
        "sum(v) FILTER (WHERE b) OVER (ORDER BY x)",
        "collect_list(v) OVER (ORDER BY x ROWS 1 PRECEDING)",
        "sum(v) OVER (ORDER BY x ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)",
        "sum(v) OVER (ORDER BY x ROWS BETWEEN 1001 PRECEDING AND CURRENT ROW)",
        "sum(v) OVER (ORDER BY x ROWS BETWEEN 1 FOLLOWING AND 1 PRECEDING)",
    ],
)
def test_all_other_windows_are_recomputed(text: str) -> None:
    """They need the whole partition, or Spark's own evaluation."""
    assert parsed(text) is None


@pytest.mark.parametrize(
    ("text", "ignores_nulls"),
    [
        ("lag(v) IGNORE NULLS OVER (ORDER BY x)", True),
        ("lag(v) RESPECT NULLS OVER (ORDER BY x)", False),
        ("lead(v, 0) IGNORE NULLS OVER (ORDER BY x)", False),
        ("nth_value(v, 3) IGNORE NULLS OVER (ORDER BY x)", True),
        ("first(v, true) OVER (ORDER BY x)", True),
        ("last_value(v, false) OVER (ORDER BY x)", False),
        ("last_value(v) IGNORE NULLS OVER (ORDER BY x ROWS 3 PRECEDING)", True),
    ],
)
def test_nulls_are_ignored_where_the_text_says_so(text: str, ignores_nulls: bool) -> None:
    """In both forms that Spark has."""
    call = parsed(text)

    assert call is not None
    assert call.ignores_nulls == ignores_nulls


@pytest.mark.parametrize(
    ("text", "lower", "upper"),
    [
        ("1 PRECEDING AND CURRENT ROW", "1 PRECEDING", None),
        ("CURRENT ROW AND 2.5 FOLLOWING", None, "2.5 FOLLOWING"),
        (
            "INTERVAL 2 HOURS PRECEDING AND INTERVAL 1 DAY FOLLOWING",
            "INTERVAL '2' HOURS PRECEDING",
            "INTERVAL '1' DAY FOLLOWING",
        ),
    ],
)
def test_a_range_with_an_offset_is_a_frame_of_values(
    text: str, lower: str | None, upper: str | None
) -> None:
    """Its ends are texts, whose values Spark computes for each row."""
    call = parsed(f"sum(v) OVER (ORDER BY x RANGE BETWEEN {text})")

    assert call is not None
    assert isinstance(call.frame, ValueFrameTree)
    ends = call.frame.lower, call.frame.upper
    assert tuple(end if end is None else end.sql for end in ends) == (lower, upper)
