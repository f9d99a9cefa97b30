"""Which windows are aggregates of their whole partition, and how they are planned."""

from __future__ import annotations

import pytest

from relstate.connector.syntax.tree import parse_expression
from relstate.connector.views.planner.whole_partitions import is_of_whole_partition


@pytest.mark.parametrize(
    "text",
    [
        "sum(v) OVER (PARTITION BY g)",
        "count(*) FILTER (WHERE b) OVER ()",
        (
            "avg(v) OVER (PARTITION BY g ORDER BY x ROWS BETWEEN UNBOUNDED PRECEDING AND "
            "UNBOUNDED FOLLOWING)"
        ),
        "max(v) OVER (ORDER BY x RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)",
        "first(v) OVER (PARTITION BY g)",
    ],
)
def test_an_aggregate_of_all_rows_is_of_the_whole_partition(text: str) -> None:
    """Without an order, or with a frame from the first to the last row."""
    assert is_of_whole_partition(parse_expression(text))


@pytest.mark.parametrize(
    "text",
    [
        "sum(v) OVER (PARTITION BY g ORDER BY x)",
        "sum(v) OVER (ORDER BY x ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
        (
            "collect_list(v) OVER (ORDER BY x ROWS BETWEEN UNBOUNDED PRECEDING AND "
            "UNBOUNDED FOLLOWING)"
        ),
        "ntile(2) OVER (PARTITION BY g)",
        "sum(DISTINCT v) OVER (PARTITION BY g)",
    ],
)
def test_what_depends_on_the_order_or_on_fewer_rows_is_not(text: str) -> None:
    """A list has the order of the window, and a running sum only rows before."""
    assert not is_of_whole_partition(parse_expression(text))
