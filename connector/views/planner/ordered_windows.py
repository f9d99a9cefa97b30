"""Windows that the window executor maintains, and the rule that chooses it.

It maintains the numberings, lag and lead, and ``first_value``, ``last_value``, ``nth_value``,
``count``, ``sum``, ``avg``, ``min`` and ``max`` over frames that are bounded, of ROWS or RANGE, and
over those from the first row of the partition to the current row. If one window of a PARTITION BY
is another one, all windows of that PARTITION BY are recomputed: they need the whole partition
anyway.

Does not know: windows that are recomputed (windows).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from relstate.connector.syntax.tree import Tree, columns_of, whole_number
from relstate.storage import types

from ..plan.frame import WIDEST_FRAME, Frame
from ..plan.node import Names, Node, Order
from ..plan.topn import TopN
from ..plan.window import (
    NUMBERINGS,
    PICKS,
    SHIFTS,
    OrderedCall,
    OrderedWindow,
    WindowFunction,
)
from .builder import Builder, field_title, is_keyable
from .calls import function_of, name_of, values_of
from .value_frames import OffsetTree, ValueFrameTree, plan_value_frame

_FUNCTIONS = {
    **{str(function): function for function in WindowFunction},
    "first": WindowFunction.FIRST_VALUE,
    "last": WindowFunction.LAST_VALUE,
}
_WHOLE = types.TinyInt, types.SmallInt, types.Int, types.BigInt
_FLOATS = types.Float, types.Double


@dataclass(frozen=True, slots=True)
class OrderedCallTree:
    """A window function over expressions; for the parts see `OrderedCall`.

    ``order``: the sort keys (expression, descending, NULLs first).
    """

    function: WindowFunction
    argument: Tree | None
    order: tuple[tuple[Tree, bool, bool], ...]
    frame: Frame | ValueFrameTree | None
    offset: int = 0
    default: Tree | None = None
    ignores_nulls: bool = False


def parse_ordered_call(
    window: Tree, order: Sequence[tuple[Tree, bool, bool]]
) -> OrderedCallTree | None:
    """Return the parts of a window; None if the executor does not maintain it."""
    tree = function_of(window.this)
    function = _FUNCTIONS.get(name_of(tree))
    is_wrapped = isinstance(window.this, exp.IgnoreNulls | exp.RespectNulls)
    is_plain = window.this is tree or (is_wrapped and window.this.this is tree)
    if function is None or not order or not is_plain or tree.find(exp.Distinct) is not None:
        return None
    call = _parse_call(function, list(values_of(tree)), window.args.get("spec"), tuple(order))
    if call is None or window.this is tree:
        return call
    if function not in PICKS | SHIFTS or call.ignores_nulls:
        return None
    ignores_nulls = isinstance(window.this, exp.IgnoreNulls)
    # Without a shift it is the value of the row itself, NULL or not.
    return replace(call, ignores_nulls=ignores_nulls and not _is_unshifted(call))


def _is_unshifted(call: OrderedCallTree) -> bool:
    return call.function in SHIFTS and not call.offset


def _parse_call(
    function: WindowFunction,
    arguments: Sequence[Tree],
    spec: Tree | None,
    order: tuple[tuple[Tree, bool, bool], ...],
) -> OrderedCallTree | None:
    """Return the parts of a call but IGNORE NULLS around it."""
    if function in NUMBERINGS:
        return None if spec else OrderedCallTree(function, None, order, None)
    if function in SHIFTS:
        return None if spec else _parse_shift(function, arguments, order)
    frame = Frame(True, None, 0) if spec is None else _parse_frame(spec)
    if frame is None or (isinstance(frame, Frame) and not frame.is_supported):
        return None
    if function in PICKS:
        return _parse_pick(function, arguments, order, frame)
    if len(arguments) != 1:
        return None
    argument: Tree | None = arguments[0]
    if function is WindowFunction.COUNT and not columns_of(arguments[0]):
        if not isinstance(argument, exp.Star) and whole_number(arguments[0]) is None:
            return None
        argument = None
    return OrderedCallTree(function, argument, order, frame)


def _parse_pick(
    function: WindowFunction,
    arguments: Sequence[Tree],
    order: tuple[tuple[Tree, bool, bool], ...],
    frame: Frame | ValueFrameTree,
) -> OrderedCallTree | None:
    """Return the parts of a first, last or n-th value; ``first(v, true)`` ignores NULLs."""
    if function is WindowFunction.NTH_VALUE:
        number = whole_number(arguments[1]) if len(arguments) == 2 else None
        if number is None or not 0 < number <= WIDEST_FRAME:
            return None
        return OrderedCallTree(function, arguments[0], order, frame, number)
    if len(arguments) == 2 and isinstance(arguments[1], exp.Boolean):
        ignores_nulls = bool(arguments[1].this)
        return OrderedCallTree(function, arguments[0], order, frame, ignores_nulls=ignores_nulls)
    return OrderedCallTree(function, arguments[0], order, frame) if len(arguments) == 1 else None


def _parse_shift(
    function: WindowFunction,
    arguments: Sequence[Tree],
    order: tuple[tuple[Tree, bool, bool], ...],
) -> OrderedCallTree | None:
    if not 1 <= len(arguments) <= 3:
        # Spark reads lag() as that of a NULL.
        return None
    offset = 1 if len(arguments) < 2 else _signed_number(arguments[1])
    if offset is None or abs(offset) > WIDEST_FRAME:
        return None
    if offset < 0:
        is_lag = function is WindowFunction.LAG
        function = WindowFunction.LEAD if is_lag else WindowFunction.LAG
    default = arguments[2] if len(arguments) > 2 else None
    if isinstance(default, exp.Null):
        default = None
    return OrderedCallTree(function, arguments[0], order, None, abs(offset), default)


def _signed_number(tree: Tree) -> int | None:
    if isinstance(tree, exp.Neg):
        number = whole_number(tree.this)
        return None if number is None else -number
    return whole_number(tree)


def _parse_frame(spec: Tree) -> Frame | ValueFrameTree | None:
    """Return the frame of a window; None if the executor does not maintain it."""
    if spec.args.get("exclude"):
        return None
    is_range = str(spec.args["kind"]).upper() == "RANGE"
    start = _parse_bound(spec.args.get("start"), spec.args.get("start_side"))
    end = _parse_bound(spec.args.get("end") or "CURRENT ROW", spec.args.get("end_side"))
    if isinstance(end, str):
        return None
    if start == "PRECEDING":
        return Frame(is_range, None, 0) if _rows_of(end) == 0 else None
    if isinstance(start, str):
        return None
    if is_range and (start is not None or end is not None):
        return ValueFrameTree(start, end)
    first, last = _rows_of(start), _rows_of(end)
    return None if first is None or last is None else Frame(is_range, first, last)


def _parse_bound(bound: Tree | str | None, side: str | None) -> OffsetTree | str | None:
    """Return an end of a frame: None for CURRENT ROW, the side of one that is unbounded."""
    direction = str(side or "").upper()
    if isinstance(bound, str):
        return None if bound.upper() == "CURRENT ROW" else direction
    assert bound is not None, "a frame has a start"
    return OffsetTree(bound, direction == "PRECEDING")


def _rows_of(end: OffsetTree | None) -> int | None:
    """Return how many rows after the row an end is; None if that is not a literal number."""
    number = 0 if end is None else whole_number(end.offset)
    return -number if number is not None and end is not None and end.is_preceding else number


def plan_ordered_windows(
    builder: Builder,
    node: Node,
    group: Names,
    windows: Sequence[tuple[OrderedCallTree, str]],
    *,
    is_global: bool,
) -> tuple[Node, Names] | None:
    """Return the rows with the values of windows over one partition, and their fields.

    ``windows``: each with a title for its field. None if the executor does not maintain values of
    these types.
    """
    placed: list[tuple[tuple[Order, ...], OrderedCall]] = []
    bounds: dict[str, str] = {}
    for tree, title in windows:
        node, order = _compute_order(builder, node, tree)
        if not all(is_keyable(node.type_of(field.name)) for field in order):
            return None
        computed = _compute_call(builder, node, tree, title)
        if computed is None:
            return None
        node, call = computed
        if isinstance(tree.frame, ValueFrameTree):
            framed = plan_value_frame(builder, node, group, order, tree.frame, bounds)
            if framed is None:
                return None
            node, value_frame = framed
            call = replace(call, frame=value_frame)
        placed.append((order, call))
    texts = [call.sql(group, order) for order, call in placed]
    data_types = builder.analysis.types_of(node.fields, texts)
    typed: list[tuple[tuple[Order, ...], OrderedCall]] = []
    for (order, call), data_type in zip(placed, data_types, strict=True):
        default = call.default
        if default is not None:
            node, default = builder.cast(node, default, data_type)
        output = types.Field(builder.namer.unique_name(call.output.name), data_type)
        typed.append((order, replace(call, output=output, default=default)))
    for order in dict.fromkeys(order for order, _ in typed):
        calls = tuple(call for own_order, call in typed if own_order == order)
        node = OrderedWindow(node, group, order, calls, is_global=is_global)
    return node, tuple(call.output.name for _, call in typed)


def plan_ordered_rank(node: TopN) -> OrderedWindow:
    """Return all rows of a top n without a bound, with their ranks."""
    assert node.rank is not None, "only a rank has no bound"
    call = OrderedCall(WindowFunction(node.ranking), None, node.rank)
    return OrderedWindow(node.child, node.group, node.order, (call,), is_global=node.is_global)


def _compute_order(
    builder: Builder, node: Node, tree: OrderedCallTree
) -> tuple[Node, tuple[Order, ...]]:
    """Return an operator with the sort keys of a window as fields, and its order."""
    node, names = builder.compute(node, [value for value, _, _ in tree.order])
    orders: dict[str, Order] = {}
    for name, (_, descending, nulls_first) in zip(names, tree.order, strict=True):
        orders.setdefault(name, Order(name, descending, nulls_first))
    return node, tuple(orders.values())


def _compute_call(
    builder: Builder, node: Node, tree: OrderedCallTree, title: str
) -> tuple[Node, OrderedCall] | None:
    """Return an operator with the arguments of a function as fields, and the function.

    The output has no type yet. None if the argument is of a type that is not maintained.
    """
    values = [value for value in (tree.argument, tree.default) if value is not None]
    node, names = builder.compute(node, values, [field_title(value) for value in values])
    argument = names[0] if tree.argument is not None else None
    if argument is not None and not _is_maintained(builder, tree.function, node.type_of(argument)):
        return None
    default = names[-1] if tree.default is not None else None
    output = types.Field(title, types.Void())
    frame = tree.frame if isinstance(tree.frame, Frame) else None
    return node, OrderedCall(
        tree.function, argument, output, frame, tree.offset, default, tree.ignores_nulls
    )


def _is_maintained(builder: Builder, function: WindowFunction, data_type: types.DataType) -> bool:
    match function:
        case WindowFunction.SUM | WindowFunction.AVG:
            if isinstance(data_type, types.Decimal):
                # Without ANSI a running sum that overflowed once is NULL for the rest.
                return builder.analysis.is_ansi
            return isinstance(data_type, (*_WHOLE, *_FLOATS))
        case WindowFunction.MIN | WindowFunction.MAX:
            return is_keyable(data_type)
    return True
