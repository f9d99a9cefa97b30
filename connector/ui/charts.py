"""The geometry of charts: bars over time, strips of cells, and the graph of views.

Promises: pure functions; everything is inside the stated width and height. Texts are not escaped:
the templates do that.
Does not know: SVG, or what is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import floor, log10

WIDTH = 900
"""The width of bars and strips; pages scale it."""

_LEFT, _TOP, _BOTTOM = 72, 8, 20
_TICKS = 4
_WIDEST_BAR = 48.0
_LABELS = 6
LEVELS = 9
"""In how many levels, from 0 on, the cells of a strip are coloured."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle of a chart; ``series``: the number of its series; ``title``: what it says."""

    x: float
    y: float
    width: float
    height: float
    series: int
    title: str


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark of an axis, at a place along it, and its text."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class BarChart:
    """Stacked bars, with marks of both axes."""

    width: int
    height: int
    left: int
    bottom: float
    bars: tuple[Bar, ...]
    ticks: tuple[Tick, ...]
    labels: tuple[Tick, ...]

    @property
    def stacks(self) -> tuple[tuple[Bar, ...], ...]:
        """The bars that are upon each other, from the left."""
        return tuple(tuple(bars) for _, bars in groupby(self.bars, key=lambda bar: bar.x))


def bar_chart(
    stacks: Sequence[Sequence[float]],
    titles: Sequence[str],
    labels: Sequence[str],
    height: int = 180,
) -> BarChart:
    """Return a chart of stacks of values, one value for each series.

    ``titles`` and ``labels``: of each stack; of the labels only a few are shown.
    """
    bottom, right = float(height - _BOTTOM), float(WIDTH - 4)
    top = nice_limit(max((sum(stack) for stack in stacks), default=0.0), least=float(_TICKS))
    scale = (bottom - _TOP) / top
    step = (right - _LEFT) / max(len(stacks), 1)
    bars = []
    for number, (stack, title) in enumerate(zip(stacks, titles, strict=True)):
        y = bottom
        for series, value in enumerate(stack):
            if value > 0:
                y -= value * scale
                width = min(step * 0.8, _WIDEST_BAR)
                x = _LEFT + (number + 0.5) * step - width / 2
                # A value that can hardly be seen is still there.
                bars.append(
                    Bar(
                        round(x, 1),
                        round(min(y, bottom - 1), 1),
                        round(width, 1),
                        round(max(value * scale, 1.0), 1),
                        series,
                        title,
                    )
                )
    ticks = tuple(
        Tick(round(bottom - top * part / _TICKS * scale, 1), short_number(top * part / _TICKS))
        for part in range(_TICKS + 1)
    )
    every = max(-(-len(labels) // _LABELS), 1)
    shown = tuple(
        Tick(round(_LEFT + (number + 0.5) * step, 1), label)
        for number, label in enumerate(labels)
        if number % every == 0
    )
    return BarChart(WIDTH, height, _LEFT, bottom, tuple(bars), ticks, shown)


def nice_limit(most: float, least: float = 1.0) -> float:
    """Return the least of 1, 2, 4, 10, 20, 40, ... that is not less than a value, or ``least``."""
    if most <= least:
        return least
    power = 10.0 ** floor(log10(most))
    return next(factor * power for factor in (1, 2, 4, 10) if factor * power >= most)


_SUFFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def short_number(value: float) -> str:
    """Return a number of few characters: 1.5k."""
    for unit, suffix in _SUFFIXES:
        if value >= unit:
            return f"{value / unit:.3g}{suffix}"
    return f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a strip; ``level``: how strong its colour is, or a number of a colour."""

    x: float
    width: float
    level: int
    title: str


def heat_strip(
    groups: Sequence[range], values: Sequence[float], titles: Sequence[str]
) -> tuple[Cell, ...]:
    """Return a cell for each group of neighbours, the stronger the nearer to the greatest value.

    Only a value of 0 has level 0.
    """
    most = max(values, default=0)
    levels = (0 if value <= 0 else 1 + int((LEVELS - 2) * value / most) for value in values)
    return _cells(groups, list(levels), titles)


def owner_strip(
    groups: Sequence[range], owners: Sequence[int], titles: Sequence[str]
) -> tuple[Cell, ...]:
    """Return a cell for each group of neighbours, coloured by the number of its owner."""
    return _cells(groups, [owner % LEVELS for owner in owners], titles)


def _cells(
    groups: Sequence[range], levels: Sequence[int], titles: Sequence[str]
) -> tuple[Cell, ...]:
    scale = WIDTH / groups[-1].stop if groups else 0.0
    return tuple(
        Cell(round(group.start * scale, 2), round(len(group) * scale, 2), level, title)
        for group, level, title in zip(groups, levels, titles, strict=True)
    )


@dataclass(frozen=True, slots=True)
class Node:
    """What a graph shows: ``inputs`` are the names of the nodes that it reads.

    ``kind`` and ``status`` decide its colour; ``lines`` are texts below its name.
    """

    name: str
    kind: str
    status: str
    lines: tuple[str, ...]
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlacedNode:
    """A node and the upper left corner of its box."""

    node: Node
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Edge:
    """A curve from the right of a node to the left of one that reads it."""

    x1: float
    y1: float
    x2: float
    y2: float


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes in columns from left to right: each after all that it reads."""

    width: int
    height: int
    node_width: int
    node_height: int
    nodes: tuple[PlacedNode, ...]
    edges: tuple[Edge, ...]

    @property
    def kinds(self) -> Mapping[str, str]:
        """The kinds of nodes by their names."""
        return {placed.node.name: placed.node.kind for placed in self.nodes}


_NODE_WIDTH, _NODE_HEIGHT = 190, 56
_COLUMN, _ROW = 260, 72
_MARGIN = 6


def graph(nodes: Sequence[Node]) -> Graph:
    """Return nodes and the curves between them, placed. Inputs that are no nodes are left out."""
    by_name = {node.name: node for node in nodes}
    depths: dict[str, int] = {}
    for node in nodes:
        _depth(node, by_name, depths)
    places = _places(nodes, depths)
    placed = tuple(PlacedNode(node, *places[node.name]) for node in nodes)
    edges = tuple(
        Edge(
            places[name][0] + _NODE_WIDTH,
            places[name][1] + _NODE_HEIGHT / 2,
            places[node.name][0],
            places[node.name][1] + _NODE_HEIGHT / 2,
        )
        for node in nodes
        for name in node.inputs
        if name in places
    )
    width = max((x for x, _ in places.values()), default=0) + _NODE_WIDTH + _MARGIN
    height = max((y for _, y in places.values()), default=0) + _NODE_HEIGHT + _MARGIN
    return Graph(int(width), int(height), _NODE_WIDTH, _NODE_HEIGHT, placed, edges)


def _places(nodes: Sequence[Node], depths: Mapping[str, int]) -> Mapping[str, tuple[float, float]]:
    """Return the place of each node: within its column near those that it reads."""
    places: dict[str, tuple[float, float]] = {}
    for depth in range(max(depths.values(), default=-1) + 1):
        column = [node for node in nodes if depths[node.name] == depth]
        column.sort(key=lambda node: (_average_height(node, places), node.name))
        for row, node in enumerate(column):
            places[node.name] = (_MARGIN + depth * _COLUMN, _MARGIN + row * _ROW)
    return places


def _average_height(node: Node, places: Mapping[str, tuple[float, float]]) -> float:
    heights = [places[name][1] for name in node.inputs if name in places]
    return sum(heights) / len(heights) if heights else 0.0


def _depth(node: Node, by_name: Mapping[str, Node], depths: dict[str, int]) -> int:
    """Return how many nodes come before one, at most; views never read each other in a circle."""
    if node.name not in depths:
        inputs = [by_name[name] for name in node.inputs if name in by_name]
        depths[node.name] = 1 + max((_depth(n, by_name, depths) for n in inputs), default=-1)
    return depths[node.name]
