"""Windows that the window executor maintains, and the rule that chooses it.

It maintains the numberings, lag and lead, and ``first_value``, ``last_value``, ``nth_value``,
``count``, ``sum``, ``avg``, ``min`` and ``max`` over frames that are bounded, of ROWS or RANGE, or
open at one end (open_frames). If one window of a PARTITION BY is none of these, and no aggregate of
its whole partition either, all windows of that PARTITION BY are recomputed: they need the whole
partition anyway.

Does not know: windows that are recomputed (windows).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from relstate.connector.syntax.tree import Tree, columns_of, whole_number
from relstate.storage import types

from ..plan.frame import WIDEST_FRAME, Frame, ValueFrame
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
from .open_frames import Pick, maintained_frame, parse_frame
from .sort_keys import SortKey
from .value_frames import ValueFrameTree, plan_value_frame

_FUNCTIONS = {
    **{str(function): function for function in WindowFunction},
    "first": WindowFunction.FIRST_VALUE,
    "last": WindowFunction.LAST_VALUE,
}
_WHOLE = types.TinyInt, types.SmallInt, types.Int, types.BigInt
_FLOATS = types.Float, types.Double
# Spark adds doubles for an average of whole numbers: of these the sums of 2^22 rows are exact.
_EXACT_AS_DOUBLES = types.TinyInt, types.SmallInt, types.Int


@dataclass(frozen=True, slots=True)
class OrderedCallTree:
    """A window function over expressions; for the parts see `OrderedCall`.

    ``order``: the sort keys (expression, descending, NULLs first). ``is_reversed``: the function is
    over the rows in the reverse order. ``last_of``: as in `MaintainedFrame`.
    """

    function: WindowFunction
    argument: Tree | None
    order: tuple[SortKey, ...]
    frame: Frame | ValueFrameTree | None = None
    offset: int = 0
    default: Tree | None = None
    ignores_nulls: bool = False
    is_reversed: bool = False
    last_of: Frame | ValueFrameTree | None = None


def parse_ordered_call(window: Tree, order: Sequence[SortKey]) -> OrderedCallTree | None:
    """Return the parts of a window; None if the executor does not maintain it."""
    tree = function_of(window.this)
    function = _FUNCTIONS.get(name_of(tree))
    is_wrapped = isinstance(window.this, exp.IgnoreNulls | exp.RespectNulls)
    is_plain = window.this is tree or (is_wrapped and window.this.this is tree)
    if function is None or not order or not is_plain or tree.find(exp.Distinct) is not None:
        return None
    call = _parse_call(function, list(values_of(tree)), tuple(order))
    if call is not None and is_wrapped:
        call = _with_nulls(call, window.this)
    if call is None:
        return None
    spec = window.args.get("spec")
    if function in NUMBERINGS | SHIFTS:
        return None if spec else call
    return _with_frame(call, spec)


def _with_nulls(call: OrderedCallTree, clause: Tree) -> OrderedCallTree | None:
    """Return a call with IGNORE NULLS or RESPECT NULLS; None if it has none."""
    if call.function not in PICKS | SHIFTS or call.ignores_nulls:
        return None
    # Without a shift it is the value of the row itself, NULL or not.
    is_unshifted = call.function in SHIFTS and not call.offset
    return replace(call, ignores_nulls=isinstance(clause, exp.IgnoreNulls) and not is_unshifted)


def _with_frame(call: OrderedCallTree, spec: Tree | None) -> OrderedCallTree | None:
    frame = parse_frame(spec)
    pick = Pick(call.function, call.offset, call.ignores_nulls)
    planned = None if frame is None else maintained_frame(pick, frame)
    if planned is None:
        return None
    return replace(
        call,
        function=planned.function,
        frame=planned.frame,
        is_reversed=planned.is_reversed,
        last_of=planned.last_of,
    )


def _parse_call(
    function: WindowFunction,
    arguments: Sequence[Tree],
    order: tuple[SortKey, ...],
) -> OrderedCallTree | None:
    """Return the parts of a call but its frame, and IGNORE NULLS around it."""
    if function in NUMBERINGS:
        return OrderedCallTree(function, None, order)
    if function in SHIFTS:
        return _parse_shift(function, arguments, order)
    if function in PICKS:
        return _parse_pick(function, arguments, order)
    if len(arguments) != 1:
        return None
    argument: Tree | None = arguments[0]
    if function is WindowFunction.COUNT and not columns_of(arguments[0]):
        if not isinstance(argument, exp.Star) and whole_number(arguments[0]) is None:
            return None
        argument = None
    return OrderedCallTree(function, argument, order)


def _parse_pick(
    function: WindowFunction,
    arguments: Sequence[Tree],
    order: tuple[SortKey, ...],
) -> OrderedCallTree | None:
    """Return the parts of a first, last or n-th value; ``first(v, true)`` ignores NULLs."""
    if function is WindowFunction.NTH_VALUE:
        number = whole_number(arguments[1]) if len(arguments) == 2 else None
        if number is None or not 0 < number <= WIDEST_FRAME:
            return None
        return OrderedCallTree(function, arguments[0], order, offset=number)
    if len(arguments) == 2 and isinstance(arguments[1], exp.Boolean):
        ignores_nulls = bool(arguments[1].this)
        return OrderedCallTree(function, arguments[0], order, ignores_nulls=ignores_nulls)
    return OrderedCallTree(function, arguments[0], order) if len(arguments) == 1 else None


def _parse_shift(
    function: WindowFunction,
    arguments: Sequence[Tree],
    order: tuple[SortKey, ...],
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
    return OrderedCallTree(function, arguments[0], order, offset=abs(offset), default=default)


def _signed_number(tree: Tree) -> int | None:
    if isinstance(tree, exp.Neg):
        number = whole_number(tree.this)
        return None if number is None else -number
    return whole_number(tree)


@dataclass(frozen=True, slots=True)
class _PlacedCall:
    """A call over fields, and where it is computed.

    ``title``: of the field of its result; ``last_of``: as in `OrderedCallTree`, over fields.
    """

    call: OrderedCall
    order: tuple[Order, ...]
    is_reversed: bool
    title: str
    last_of: Frame | ValueFrame | None

    @property
    def place(self) -> tuple[tuple[Order, ...], bool]:
        """The order, and whether it is reversed: calls with one place share an operator."""
        return self.order, self.is_reversed


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
    placed: list[_PlacedCall] = []
    bounds: dict[str, str] = {}
    for tree, title in windows:
        computed = _place(builder, node, group, tree, title, bounds)
        if computed is None:
            return None
        node, placed_call = computed
        placed.append(placed_call)
    texts = [placed_call.call.sql(group, placed_call.order) for placed_call in placed]
    data_types = builder.analysis.types_of(node.fields, texts)
    typed: list[_PlacedCall] = []
    for placed_call, data_type in zip(placed, data_types, strict=True):
        node, call = _with_type(builder, node, placed_call.call, data_type)
        typed.append(replace(placed_call, call=call))
    node = _add_windows(node, group, typed, is_global=is_global)
    last: dict[str, _PlacedCall] = {}
    for placed_call in typed:
        if placed_call.last_of is not None:
            node, last[placed_call.call.output.name] = _last_of(builder, node, placed_call)
    node = _add_windows(node, group, list(last.values()), is_global=is_global)
    names = (placed_call.call.output.name for placed_call in typed)
    return node, tuple(last[name].call.output.name if name in last else name for name in names)


def _add_windows(
    node: Node, group: Names, placed: Sequence[_PlacedCall], *, is_global: bool
) -> Node:
    """Return an operator with calls, those with one place together."""
    for ordering in dict.fromkeys(placed_call.place for placed_call in placed):
        order, is_reversed = ordering
        calls = tuple(placed_call.call for placed_call in placed if placed_call.place == ordering)
        node = OrderedWindow(
            node, group, order, calls, reverses_ties=is_reversed, is_global=is_global
        )
    return node


def _place(
    builder: Builder,
    node: Node,
    group: Names,
    tree: OrderedCallTree,
    title: str,
    bounds: dict[str, str],
) -> tuple[Node, _PlacedCall] | None:
    """Return an operator with what a call reads as fields, and the call, without its type.

    ``bounds``: as the fields of `plan_value_frame`.
    """
    node, order = _compute_order(builder, node, tree)
    if not all(is_keyable(node.type_of(field.name)) for field in order):
        return None
    computed = _compute_call(builder, node, tree, title)
    if computed is None:
        return None
    node, call = computed
    frames: list[Frame | ValueFrame | None] = []
    for written in (tree.frame, tree.last_of):
        if not isinstance(written, ValueFrameTree):
            frames.append(written)
            continue
        framed = plan_value_frame(builder, node, group, order, written, bounds)
        if framed is None:
            return None
        node, value_frame = framed
        frames.append(value_frame)
    frame, last_of = frames
    return node, _PlacedCall(replace(call, frame=frame), order, tree.is_reversed, title, last_of)


def _with_type(
    builder: Builder, node: Node, call: OrderedCall, data_type: types.DataType
) -> tuple[Node, OrderedCall]:
    default = call.default
    if default is not None:
        node, default = builder.cast(node, default, data_type)
    output = types.Field(builder.namer.unique_name(call.output.name), data_type)
    return node, replace(call, output=output, default=default)


def _last_of(builder: Builder, node: Node, placed: _PlacedCall) -> tuple[Node, _PlacedCall]:
    """Return the call for the last value of a run in another frame."""
    run, frame = placed.call, placed.last_of
    name = run.output.name
    output = types.Field(builder.namer.unique_name(placed.title), run.output.type)
    call = OrderedCall(WindowFunction.LAST_VALUE, name, output, frame)
    if isinstance(frame, Frame) and frame.end < 0:
        call = OrderedCall(WindowFunction.LAG, name, output, offset=-frame.end)
        if run.function is WindowFunction.COUNT:
            # Before the first row there are none.
            nothing = builder.namer.unique_name(f"{name}_before")
            node = builder.with_field(node, nothing, "CAST(0 AS BIGINT)")
            call = replace(call, default=nothing)
    return node, replace(placed, call=call, last_of=None)


def plan_ordered_rank(node: TopN) -> OrderedWindow:
    """Return all rows of a top n without a bound, with their ranks."""
    assert node.rank is not None, "only a rank has no bound"
    call = OrderedCall(WindowFunction(node.ranking), None, node.rank)
    return OrderedWindow(node.child, node.group, node.order, (call,), is_global=node.is_global)


def _compute_order(
    builder: Builder, node: Node, tree: OrderedCallTree
) -> tuple[Node, tuple[Order, ...]]:
    """Return an operator with the sort keys of a window as fields, and the order of its rows."""
    node, names = builder.compute(node, [value for value, _, _ in tree.order])
    node, names = builder.typed_nulls(node, names)
    orders: dict[str, Order] = {}
    for name, (_, descending, nulls_first) in zip(names, tree.order, strict=True):
        order = Order(name, descending, nulls_first)
        orders.setdefault(name, order.reverse if tree.is_reversed else order)
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
    if argument is not None and not _is_maintained(builder, tree, node.type_of(argument)):
        return None
    default = names[-1] if tree.default is not None else None
    # The value of a run of which another frame takes the last one has no column of its own.
    output = types.Field(title if tree.last_of is None else f"{title}_run", types.Void())
    frame = tree.frame if isinstance(tree.frame, Frame) else None
    return node, OrderedCall(
        tree.function, argument, output, frame, tree.offset, default, tree.ignores_nulls
    )


def _is_maintained(builder: Builder, tree: OrderedCallTree, data_type: types.DataType) -> bool:
    """Return whether the executor maintains a function of values of a type."""
    match tree.function:
        case WindowFunction.SUM | WindowFunction.AVG:
            if isinstance(data_type, types.Decimal):
                # Without ANSI a running sum that overflowed once is NULL for the rest.
                is_sum = tree.function is WindowFunction.SUM
                return builder.analysis.is_ansi and (is_sum or builder.analysis.averages(data_type))
            if tree.is_reversed:
                # Doubles added from the other end may have another sum.
                is_sum = tree.function is WindowFunction.SUM
                return isinstance(data_type, _WHOLE if is_sum else _EXACT_AS_DOUBLES)
            return isinstance(data_type, (*_WHOLE, *_FLOATS))
        case WindowFunction.MIN | WindowFunction.MAX:
            return is_keyable(data_type)
    return True
