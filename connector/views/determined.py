"""Which fields of a view's rows its SELECT determines, where it leaves the order of rows open.

``collect_list`` gives the elements of a group in any order, ``first`` any of them; ROW_NUMBER
numbers rows that tie in any order, and LIMIT takes any of them. A view and its SELECT may differ in
such values, and in no others.

Promises: the rows of a plan, with the determined fields alone, are the same whoever computes them,
each as often. What depends on a value that is not determined is not determined either.
Does not know: rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from relstate.connector.syntax.tree import Tree, columns_of, parse_expression
from relstate.storage import types

from .plan.aggregate import Aggregate
from .plan.asof_join import AsofJoin
from .plan.broadcast_join import BroadcastJoin
from .plan.frame import ValueFrame
from .plan.generate import Generate, Generator
from .plan.join import Join, JoinNode
from .plan.materialize import Materialize
from .plan.node import Grouped, Leaf, Names, Node, Order
from .plan.recompute import GroupRecompute, WindowCall, WindowRecompute
from .plan.session import SessionRecompute
from .plan.shared import Shared
from .plan.stateless import Filter, Project, Union
from .plan.temporal import TemporalFilter
from .plan.topn import Ranking, TopN
from .plan.window import OrderedWindow, WindowFunction
from .planner.calls import (
    EMPTY_WITHOUT_ROWS,
    depends_on_order,
    function_of,
    is_by_value,
    is_same_for_peers,
    name_of,
)
from .planner.collations import is_collated

# Functions of an array that are the same for its elements in any order.
_BLIND_TO_ORDER = frozenset(
    {"array_contains", "array_max", "array_min", "array_size", "array_sort", "cardinality", "size",
     "sort_array"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Determined:
    """The determined fields of a plan's rows.

    ``exact``: those with one possible value. ``unordered``: arrays of which the elements are
    determined, and not their order.
    """

    exact: frozenset[str]
    unordered: frozenset[str] = frozenset()

    def has(self, names: Iterable[str]) -> bool:
        """Return whether all of some fields have one possible value."""
        return self.exact.issuperset(names)

    def with_exact(self, names: Iterable[str]) -> Determined:
        """Return it with more fields that have one possible value."""
        return Determined(self.exact | set(names), self.unordered)

    def within(self, names: Iterable[str]) -> Determined:
        """Return it without all fields but some."""
        return Determined(self.exact & set(names), self.unordered & set(names))

    def has_value(self, text: str) -> bool:
        """Return whether an expression over the fields has one possible value."""
        tree = parse_expression(text)
        return all(
            column.name not in self.unordered or _is_blind_to_order(column)
            for column in tree.find_all(exp.Column)
        ) and self.has(columns_of(tree) - self.unordered)


def determined_fields(node: Node) -> Determined | None:
    """Return the determined fields of a plan's rows; None if the number of rows is not determined.

    Of an operator that is not known here, all are, or None.
    """
    children = [determined_fields(child) for child in node.children]
    determined_children = [child for child in children if child is not None]
    if len(determined_children) < len(children):
        return None
    match node:
        case Leaf():
            return Determined(frozenset(node.names))
        case Union():
            return _union(determined_children)
        case AsofJoin():
            return _asof_join(node, *determined_children)
        case JoinNode():
            return _join(node, *determined_children)
        case Project():
            return _project(node, *determined_children)
        case Filter():
            own = determined_children[0]
            return own if own.has_value(node.condition) else _numbered(node)
        case TemporalFilter():
            return _temporal_filter(node, *determined_children)
        case Generate():
            return _generate(node, *determined_children)
        case Aggregate() | GroupRecompute():
            return _aggregate(node, *determined_children)
        case TopN():
            return _top_n(node, *determined_children)
        case OrderedWindow() | WindowRecompute() | SessionRecompute():
            return _window(node, *determined_children)
        case Shared() | Materialize():
            return determined_children[0]
    is_whole = all(
        own.has(child.names) for own, child in zip(determined_children, node.children, strict=True)
    )
    return Determined(frozenset(node.names)) if is_whole else None


def _numbered(node: Filter) -> Determined | None:
    """Return the determined fields of rows that are chosen by their numbers alone, as by OFFSET."""
    window = node.child
    if not isinstance(window, OrderedWindow) or len(window.calls) > 1:
        return None
    (call,) = window.calls
    child = determined_fields(window.child)
    is_number = call.function is WindowFunction.ROW_NUMBER
    read = columns_of(parse_expression(node.condition))
    if not is_number or read != {call.output.name} or child is None or not child.has(window.group):
        return None
    return _open_among_ties(window.group, window.order, child, (call.output.name,))


def _is_blind_to_order(column: Tree) -> bool:
    """Return whether a field, an array, is read in a way in which its order does not matter."""
    function = column.parent
    if not isinstance(function, exp.Func) or name_of(function) not in _BLIND_TO_ORDER:
        return False
    return next(function.iter_expressions()) is column


def _temporal_filter(node: TemporalFilter, child: Determined) -> Determined | None:
    is_known = child.has([node.moment])
    if node.flag is None:
        return child if is_known else None
    return child.with_exact([node.flag]) if is_known else child


def _union(inputs: Sequence[Determined]) -> Determined:
    exact = frozenset.intersection(*(own.exact for own in inputs))
    lists = frozenset.intersection(*(own.exact | own.unordered for own in inputs))
    return Determined(exact, lists - exact)


def _join(node: JoinNode, left: Determined, right: Determined) -> Determined | None:
    sides = Determined(left.exact | right.exact, left.unordered | right.unordered)
    match node:
        case Join():
            compared = [name for key in node.keys for name in (key.left, key.right)]
            sides = sides.with_exact(key.field.name for key in node.keys)
            condition = node.condition
        case BroadcastJoin():
            compared = [name for comparison in node.comparisons for name in comparison.sides]
            condition = node.condition
        case _:
            return None
    if not sides.has(compared) or (condition is not None and not sides.has_value(condition)):
        return None
    return sides.within(node.names)


def _asof_join(node: AsofJoin, left: Determined, right: Determined) -> Determined | None:
    sides = Determined(left.exact | right.exact, left.unordered | right.unordered)
    keys = [name for key in node.keys for name in (key.left, key.right)]
    if not sides.has((*keys, *node.comparison.sides)):
        return None
    nearest = {*(key.right for key in node.keys), node.comparison.right}
    if nearest.issuperset(_row_key(node.right)):
        return sides
    # Which row is taken is open among those that are equally near.
    return left.with_exact(nearest)


def _project(node: Project, child: Determined) -> Determined:
    exact = {output.field.name for output in node.outputs if child.has_value(output.expression)}
    lists = {output.field.name for output in node.outputs if output.source in child.unordered}
    return Determined(frozenset(exact), frozenset(lists))


def _generate(node: Generate, child: Determined) -> Determined | None:
    passed = child.within(node.passed)
    if all(child.has_value(argument.text) for argument in node.arguments):
        return passed.with_exact(output.name for output in node.outputs)
    return passed if node.function is Generator.JSON else None


def _aggregate(node: Aggregate | GroupRecompute, child: Determined) -> Determined | None:
    if not child.has(node.group):
        return None
    exact, lists = set(node.group), set()
    if isinstance(node, Aggregate):
        for call in node.calls:
            inputs = (name for name in (call.argument, call.filter) if name is not None)
            if call.is_determined and child.has(inputs):
                exact.add(call.output.name)
        return Determined(frozenset(exact))
    for recomputed in node.calls:
        tree = parse_expression(recomputed.text)
        if not child.has({*columns_of(tree), *recomputed.inputs}):
            continue
        if not depends_on_order(tree) and not is_collated(recomputed.output.type):
            exact.add(recomputed.output.name)
        elif _collects(tree, recomputed.output.type):
            lists.add(recomputed.output.name)
    return Determined(frozenset(exact), frozenset(lists))


def _collects(call: Tree, data_type: types.DataType) -> bool:
    """Return whether a call gives an array of values of its rows, which can be told apart."""
    if name_of(function_of(call)) not in EMPTY_WITHOUT_ROWS or not isinstance(
        data_type, types.Array
    ):
        return False
    return not is_collated(data_type.element)


def _top_n(node: TopN, child: Determined) -> Determined | None:
    if not child.has(node.group):
        return None
    rank = () if node.rank is None else (node.rank.name,)
    order = [field.name for field in node.order]
    by_place = node.ranking is not Ranking.ROW_NUMBER
    if child.has(order) and (by_place or _tells_apart(node, node.order)):
        return child.with_exact(rank)
    if by_place:
        return None
    return _open_among_ties(node.group, node.order, child, rank)


def _open_among_ties(
    group: Names, order: Sequence[Order], child: Determined, rank: Names
) -> Determined:
    """Return the fields that do not depend on which of the rows that tie are taken.

    They have one value in what orders them. ``rank``: the field with their numbers, if any.
    """
    names = [field.name for field in order]
    first_open = next((n for n, name in enumerate(names) if name not in child.exact), len(names))
    return Determined(frozenset((*group, *names[:first_open], *rank)))


def _tells_apart(node: Grouped, order: Sequence[Order]) -> bool:
    """Return whether an order tells the rows of a group of an operator's child apart."""
    return set(_row_key(node.child)) <= {*node.group, *(field.name for field in order)}


def _row_key(node: Node) -> Names:
    """Return fields that identify a row: the key of a window has its partition besides."""
    match node:
        case OrderedWindow() | WindowRecompute() | SessionRecompute() | TopN():
            return _row_key(node.child)
        case Filter() | TemporalFilter() | Shared():
            return _row_key(node.child)
        case Project():
            names = {output.source: output.field.name for output in reversed(node.outputs)}
            return tuple(names[name] for name in _row_key(node.child))
    return node.key


def _window(
    node: OrderedWindow | WindowRecompute | SessionRecompute, child: Determined
) -> Determined:
    if not child.has(node.group):
        return child
    match node:
        case SessionRecompute():
            is_known = child.has((node.start, node.end))
            return child.with_exact([node.session.name] if is_known else [])
        case WindowRecompute():
            return _recomputed_windows(node, child)
    if not child.has(field.name for field in node.order):
        return child
    is_total = _tells_apart(node, node.order)
    same = frozenset(() if is_total else _same_for_ties(node))
    return child.with_exact(
        call.output.name
        for call in node.calls
        if child.has(call.inputs) and (is_total or call.output.name in same)
    )


def _same_for_ties(node: OrderedWindow) -> Iterator[str]:
    """Yield the values of a window that are the same whatever the order of rows that tie."""
    below = node.child
    while isinstance(below, Project):
        below = below.child
    same: set[str] = set()
    if isinstance(below, OrderedWindow) and (below.group, below.order) == (node.group, node.order):
        same = set(_same_for_ties(below))
    for call in node.calls:
        # A value in a frame of values that its rows have in common with those that tie.
        is_shared = isinstance(call.frame, ValueFrame) and call.argument in same
        if is_shared or not call.depends_on_ties:
            yield call.output.name


def _recomputed_windows(node: WindowRecompute, child: Determined) -> Determined:
    exact, lists = set(child.exact), set(child.unordered)
    for call in node.calls:
        tree = parse_expression(call.text)
        if not child.has(_inputs_of(call, columns_of(tree))):
            continue
        if is_same_for_peers(tree, call.frame) or _tells_apart(node, call.order):
            exact.add(call.output.name)
        elif is_by_value(call.frame) and _collects(tree, call.output.type):
            lists.add(call.output.name)
    return Determined(frozenset(exact), frozenset(lists))


def _inputs_of(call: WindowCall, read: Collection[str]) -> Names:
    return (*read, *(field.name for field in call.order))
