"""The laws of the geometry of charts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from relstate.connector.ui.charts import (
    LEVELS,
    WIDTH,
    Node,
    bar_chart,
    graph,
    heat_strip,
    nice_limit,
    owner_strip,
    short_number,
)

_VALUES = st.lists(st.lists(st.floats(0, 1e12), min_size=2, max_size=2), min_size=0, max_size=70)


@given(_VALUES)
def test_bars_are_inside_their_chart(stacks: list[list[float]]) -> None:
    """Every bar is within the chart and can be seen; every value above 0 has one."""
    chart = bar_chart(stacks, [""] * len(stacks), [""] * len(stacks))

    assert len(chart.bars) == sum(value > 0 for stack in stacks for value in stack)
    for bar in chart.bars:
        assert 0 <= bar.x <= bar.x + bar.width <= WIDTH + 0.1
        assert bar.y >= 0
        assert bar.height >= 1
    assert len(chart.labels) <= 7


@given(st.floats(0, 1e15))
def test_an_axis_ends_at_or_above_its_greatest_value(most: float) -> None:
    """And not far above it."""
    limit = nice_limit(most)

    assert most <= limit
    assert limit <= max(2.5 * most, 1)


def test_numbers_are_short() -> None:
    """Thousands and more have a letter."""
    assert [short_number(n) for n in (0, 0.25, 12, 1500, 2e6, 3.5e9)] == [
        "0",
        "0.25",
        "12",
        "1.5k",
        "2M",
        "3.5G",
    ]


def test_only_nothing_is_colourless() -> None:
    """A value of 0 has level 0, the greatest the strongest; cells fill the width."""
    groups = [range(2), range(2, 4), range(4, 6), range(6, 7)]
    cells = heat_strip(groups, [0, 1, 5, 1000], ["a", "b", "c", "d"])

    assert [cell.level for cell in cells] == [0, 1, 1, LEVELS - 1]
    assert abs(cells[-1].x + cells[-1].width - WIDTH) < 0.1
    assert heat_strip([], [], []) == ()
    assert [cell.level for cell in owner_strip(groups[:2], [1, 8], ["", ""])] == [1, 8]


def test_what_reads_is_right_of_what_it_reads() -> None:
    """Nodes never share a place, and edges go from left to right; unknown inputs are left out."""
    nodes = [
        Node("t", "table", "", ()),
        Node("u", "table", "", ()),
        Node("v", "view", "", (), ("t", "u")),
        Node("w", "view", "", (), ("v", "t", "gone")),
    ]
    drawn = graph(nodes)

    assert len({(placed.x, placed.y) for placed in drawn.nodes}) == len(nodes)
    assert len(drawn.edges) == 4
    assert all(edge.x1 < edge.x2 for edge in drawn.edges)
    assert all(placed.x + drawn.node_width <= drawn.width for placed in drawn.nodes)
    assert graph([]).nodes == ()
