"""Windows over whole partitions: an aggregate by the partition, joined with its rows.

    sum(x) OVER (PARTITION BY p)    t JOIN (SELECT p, sum(x) FROM t GROUP BY p) USING (p)

So a change costs a row of the aggregate's state, and the rows of the partition only if their values
change. Without PARTITION BY it is a join with the one row of a global aggregate.

Promises: the aggregate reads the rows below all windows, so that none of these is computed twice.
Does not know: windows whose value depends on the order of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from relstate.connector.syntax.tree import Tree, column, columns_of, text_of

from ..plan.aggregate import Aggregate
from ..plan.join import JoinKind
from ..plan.node import Names, Node
from .approximate_counts import join_groups
from .builder import Builder, has_subquery_call, is_keyable
from .calls import depends_on_order, is_aggregate, values_of
from .group_by import plan_aggregate
from .join_conditions import plan_join
from .open_frames import End, parse_frame


def is_of_whole_partition(window: Tree) -> bool:
    """Return whether a window is an aggregate of all rows of its partition, in whatever order."""
    function = window.this
    if not is_aggregate(function) or function.find(exp.Distinct) is not None:
        return False
    order, spec = window.args.get("order"), window.args.get("spec")
    if order is not None and depends_on_order(function):
        return False
    if spec is None:
        return order is None
    frame = parse_frame(spec)
    return frame is not None and (frame.start, frame.stop) == (End.FIRST_ROW, End.LAST_ROW)


@dataclass(frozen=True, slots=True)
class Partitions:
    """The rows that windows are computed over, and the fields of their PARTITION BY.

    ``is_global``: there is no PARTITION BY.
    """

    node: Node
    group: Names
    is_global: bool


def plan_whole_partitions(
    builder: Builder,
    node: Node,
    group: Names,
    rows: Partitions,
    windows: Sequence[tuple[Tree, str]],
) -> tuple[Node, Names] | None:
    """Return an operator with the values of windows over whole partitions, and their fields.

    ``group``: the fields of the PARTITION BY in ``node``, which has ``rows``, and may have values
    of other windows besides. ``windows``: each with a title for its field. None if the aggregate
    executor does not maintain one of the functions.
    """
    functions = [window.this.copy() for window, _ in windows]
    if not _are_keyable(builder, rows.node, functions):
        return None
    keys = [] if rows.is_global else list(map(column, rows.group))
    aggregate, outputs = plan_aggregate(builder, rows.node, keys, functions)
    if not isinstance(aggregate, Aggregate):
        return None
    computed, names = builder.compute(aggregate, outputs, [title for _, title in windows])
    if rows.is_global:
        joined, _ = plan_join(builder, node, computed, JoinKind.INNER, [])
        return joined, names
    return join_groups(builder, node, computed, list(zip(group, rows.group, strict=True))), names


def _are_keyable(builder: Builder, node: Node, functions: Sequence[Tree]) -> bool:
    """Return whether all values that functions read can be in the key of a state table."""
    values = [value for function in functions for value in values_of(function)]
    if any(map(has_subquery_call, values)):
        return False
    texts = [text_of(value) for value in values if columns_of(value)]
    return all(map(is_keyable, builder.analysis.types_of(node.fields, texts)))
