"""Windows: ROW_NUMBER, RANK and DENSE_RANK as ranks, and every function over its partition.

A single one of the three becomes a rank, which a condition in an outer query may bound. All other
windows are maintained from the first changed row on (ordered_windows) or as an aggregate of their
partition (whole_partitions) if they can be, else by keyed recompute. Windows with the same
PARTITION BY share an operator.

Does not know: conditions on ranks (rank_bound).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from relstate.connector.syntax.tree import Tree, columns_of, comparable_text, substituted, text_of
from relstate.storage import types

from ..plan.node import Names, Node, Order
from ..plan.recompute import WindowCall, WindowRecompute
from ..plan.stateless import Filter
from ..plan.topn import UNBOUNDED, Ranking, TopN
from .builder import Builder, field_title
from .calls import function_of, name_of, values_of, with_fields_for_values
from .collations import is_keyless
from .expressions import unsupported_error
from .ordered_windows import (
    OrderedCallTree,
    parse_ordered_call,
    plan_ordered_rank,
    plan_ordered_windows,
)
from .sort_keys import SortKey, sort_keys
from .whole_partitions import Partitions, is_of_whole_partition, plan_whole_partitions

_RANKINGS: dict[type[Tree], Ranking] = {
    exp.RowNumber: Ranking.ROW_NUMBER,
    exp.Rank: Ranking.RANK,
    exp.DenseRank: Ranking.DENSE_RANK,
}


def find_windows(expressions: Sequence[Tree]) -> list[Tree]:
    """Return the windows in expressions, each once."""
    windows = {
        comparable_text(window): window
        for expression in expressions
        for window in expression.find_all(exp.Window)
    }
    return list(windows.values())


def with_named_windows(tree: exp.Select) -> exp.Select:
    """Return a SELECT in which ``OVER name`` is the window of the WINDOW clause."""
    named_windows = {window.name.lower(): window for window in tree.args.get("windows") or ()}
    if not named_windows:
        return tree

    def definition_of(name: Tree) -> Tree:
        window = named_windows[name.name.lower()]
        alias = window.args.get("alias")
        return window if alias is None else definition_of(alias)

    def replacement(node: Tree) -> Tree | None:
        if isinstance(node, exp.Subquery | exp.Exists | exp.CTE):  # has windows of its own
            nested: Tree = node.copy()
            return nested
        if not isinstance(node, exp.Window) or not node.args.get("alias"):
            return None
        window = definition_of(node.args["alias"]).copy()
        window.set("this", node.this.copy())
        window.set("over", node.args.get("over"))
        return window

    copied = tree.copy()
    copied.set("windows", None)
    named = substituted(copied, replacement)
    assert isinstance(named, exp.Select)
    return named


def plan_windows(
    builder: Builder, node: Node, windows: Sequence[Tree], titles: Sequence[str | None]
) -> tuple[Node, list[str]]:
    """Return the rows with the values of windows as fields, and the names of these fields.

    ``titles``: the names of the columns that the windows are.
    """
    ranking = _ranking_of(windows[0]) if len(windows) == 1 else None
    if ranking is not None and _has_keys(builder, node, windows[0]):
        node, name = _plan_rank(builder, node, windows[0], ranking, titles[0] or "place")
        return node, [name]
    names: dict[int, str] = {}
    rows = node
    for partition, members in _by_partition(windows):
        pairs = [(window, titles[windows.index(window)]) for window in members]
        node, outputs = _plan_partition(builder, rows, node, partition, pairs)
        names.update(zip(map(id, members), outputs, strict=True))
    return node, [names[id(window)] for window in windows]


def plan_unbounded_ranks(node: Node) -> Node:
    """Return a plan in which windows maintain the ranks that have no upper bound."""
    node = node.with_children([plan_unbounded_ranks(child) for child in node.children])
    if not isinstance(node, TopN) or node.offset + node.limit < UNBOUNDED:
        return node
    ranked = plan_ordered_rank(node)
    assert node.rank is not None
    if not node.offset:
        return ranked
    return Filter(ranked, f"{types.quoted(node.rank.name)} > {node.offset}")


def _has_keys(builder: Builder, node: Node, window: Tree) -> bool:
    """Return whether all values that a window orders rows by can be in the key of a state."""
    texts = [text_of(value) for value, _, _ in sort_keys(window.args["order"])]
    data_types = builder.analysis.types_of(node.fields, texts)
    return not any(map(is_keyless, data_types))


def _ranking_of(window: Tree) -> Ranking | None:
    """Return how a window numbers the rows of a partition; None if that is not what it does."""
    if window.args.get("order") is None or window.args.get("spec"):
        return None
    return _RANKINGS.get(type(window.this))


def _plan_rank(
    builder: Builder, node: Node, window: Tree, ranking: Ranking, title: str
) -> tuple[Node, str]:
    """Return the rows with their rank in the partition as one more field, and its name."""
    node, keys = builder.compute_order(node, sort_keys(window.args["order"]), "ORDER BY")
    rank = types.Field(builder.namer.unique_name(title), types.Int())
    node, group, is_global = compute_partition(builder, node, _partition_of(window))
    ranked = TopN(node, group, keys, UNBOUNDED, rank=rank, ranking=ranking, is_global=is_global)
    return ranked, rank.name


def _partition_of(window: Tree) -> list[Tree]:
    return list(window.args.get("partition_by") or ())


def compute_partition(
    builder: Builder, node: Node, partition: Sequence[Tree]
) -> tuple[Node, Names, bool]:
    """Return (an operator with a PARTITION BY as fields, these fields, whether it has no keys)."""
    if not partition:
        node, all_rows = builder.with_constant(node, "all_rows")
        return node, (all_rows,), True
    node, groups = builder.compute_order(
        node, [SortKey(tree, False, True) for tree in partition], "PARTITION BY"
    )
    return node, tuple(order.name for order in groups), False


def _by_partition(windows: Sequence[Tree]) -> Iterator[tuple[list[Tree], list[Tree]]]:
    """Yield (the keys of PARTITION BY, the windows over them)."""
    members: dict[tuple[str, ...], list[Tree]] = {}
    for window in windows:
        key = tuple(dict.fromkeys(map(comparable_text, _partition_of(window))))
        members.setdefault(key, []).append(window)
    for group in members.values():
        yield _partition_of(group[0]), group


def _plan_partition(
    builder: Builder,
    rows: Node,
    node: Node,
    partition: Sequence[Tree],
    windows: Sequence[tuple[Tree, str | None]],
) -> tuple[Node, Names]:
    """Return an operator with the values of windows over one partition, and their fields.

    ``rows``: those that all windows are computed over; ``node`` has them, with values of windows.
    """
    maintained = _plan_maintained(builder, rows, node, partition, windows)
    if maintained is not None:
        return maintained
    outputs: dict[int, str] = {}
    for kind in (_is_ordered, is_of_whole_partition):
        members = [pair for pair in windows if kind(pair[0])]
        own = _plan_maintained(builder, rows, node, partition, members) if members else None
        if own is not None:
            node, names = own
            outputs.update(zip((id(window) for window, _ in members), names, strict=True))
    recomputed = [pair for pair in windows if id(pair[0]) not in outputs]
    node, names = _plan_recomputed(builder, node, partition, recomputed)
    outputs.update(zip((id(window) for window, _ in recomputed), names, strict=True))
    return node, tuple(outputs[id(window)] for window, _ in windows)


def _is_ordered(window: Tree) -> bool:
    """Return whether the window executor may maintain a window."""
    return _parse_ordered(window) is not None


def _parse_ordered(window: Tree) -> OrderedCallTree | None:
    clause = window.args.get("order")
    return parse_ordered_call(window, [] if clause is None else sort_keys(clause))


def _plan_recomputed(
    builder: Builder,
    node: Node,
    partition: Sequence[Tree],
    windows: Sequence[tuple[Tree, str | None]],
) -> tuple[Node, Names]:
    """Return what `_plan_partition` does, by keyed recompute."""
    node, group, is_global = compute_partition(builder, node, partition)
    texts: list[tuple[str, tuple[Order, ...], str | None]] = []
    for window, _ in windows:
        node, text = _compute_function(builder, node, window.this)
        node, order = _compute_order(builder, node, window)
        texts.append((text, order, _frame_of(window)))
    calls = [
        WindowCall(text, types.Field(_title(builder, window, title), types.Void()), order, frame)
        for (text, order, frame), (window, title) in zip(texts, windows, strict=True)
    ]
    data_types = builder.analysis.types_of(node.fields, [call.sql(group) for call in calls])
    calls = [
        replace(call, output=replace(call.output, type=data_type))
        for call, data_type in zip(calls, data_types, strict=True)
    ]
    names = tuple(call.output.name for call in calls)
    return WindowRecompute(node, group, tuple(calls), is_global=is_global), names


def _plan_maintained(
    builder: Builder,
    rows: Node,
    node: Node,
    partition: Sequence[Tree],
    windows: Sequence[tuple[Tree, str | None]],
) -> tuple[Node, Names] | None:
    """Return what `_plan_partition` does; None if one of the windows is recomputed."""
    ordered: list[tuple[OrderedCallTree, str]] = []
    whole: list[tuple[Tree, str]] = []
    for window, title in windows:
        name = title or name_of(function_of(window.this))
        call = _parse_ordered(window)
        if call is not None:
            ordered.append((call, name))
        elif is_of_whole_partition(window):
            whole.append((window, name))
        else:
            return None
    node, group, is_global = compute_partition(builder, node, partition)
    planned: tuple[Node, Names] | None = node, ()
    if ordered:
        planned = plan_ordered_windows(builder, node, group, ordered, is_global=is_global)
    if planned is None or not whole:
        return planned
    node, in_order = planned
    partitions = Partitions(*compute_partition(builder, rows, partition))
    planned = plan_whole_partitions(builder, node, group, partitions, whole)
    if planned is None:
        return None
    node, of_partition = planned
    wholes = {id(window) for window, _ in whole}
    names, whole_names = iter(in_order), iter(of_partition)
    return node, tuple(
        next(whole_names if id(window) in wholes else names) for window, _ in windows
    )


def _title(builder: Builder, window: Tree, title: str | None) -> str:
    return builder.namer.unique_name(title or name_of(function_of(window.this)))


def _compute_function(builder: Builder, node: Node, function: Tree) -> tuple[Node, str]:
    """Return an operator with the arguments of a function as fields, and its text over them."""
    if function.find(exp.Distinct) is not None:
        raise unsupported_error(
            "DISTINCT in a window", "Spark does not support it either", function
        )
    values = [value for value in values_of(function) if columns_of(value)]
    node, names = builder.compute(node, values, [field_title(value) for value in values])
    fields = {comparable_text(value): name for value, name in zip(values, names, strict=True)}
    return node, text_of(with_fields_for_values(function, fields))


def _compute_order(builder: Builder, node: Node, window: Tree) -> tuple[Node, tuple[Order, ...]]:
    """Return an operator with the sort keys of a window as fields, and its order.

    A key may have any type that Spark sorts: the order is not part of the state.
    """
    clause = window.args.get("order")
    keys = [] if clause is None else sort_keys(clause)
    node, names = builder.compute(node, [value for value, _, _ in keys])
    orders: dict[str, Order] = {}
    for name, (_, descending, nulls_first) in zip(names, keys, strict=True):
        orders.setdefault(name, Order(name, descending, nulls_first))
    return node, tuple(orders.values())


def _frame_of(window: Tree) -> str | None:
    spec = window.args.get("spec")
    return None if spec is None else text_of(spec)
