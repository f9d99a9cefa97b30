"""A model of the window executor: windows to try, and the values that their functions give."""

from __future__ import annotations

import random
from decimal import ROUND_HALF_UP, Decimal, localcontext
from functools import cmp_to_key
from typing import Any

import pyarrow as pa

from relstate.connector.views.executor.window import WindowExecutor
from relstate.connector.views.plan.frame import Frame, ValueBound, ValueFrame
from relstate.connector.views.plan.node import Order
from relstate.connector.views.plan.window import OrderedCall, OrderedWindow, WindowFunction
from relstate.storage import types
from support.bench import Bench
from support.changes import Change, Row, Rows, chunk_of, scan
from support.ordering import compared_values, sortable

FIELDS = (
    types.Field("id", types.Int()),
    types.Field("g", types.String()),
    types.Field("o", types.Double()),
    types.Field("p", types.Int()),
    types.Field("n", types.BigInt()),
    types.Field("d", types.Decimal(30, 2)),
    types.Field("f", types.Double()),
    types.Field("a", types.Array(types.Int())),
    types.Field("s", types.Int()),
    types.Field("w", types.Int()),
    types.Field("w_less_3", types.Int()),
    types.Field("w_less_1", types.Int()),
    types.Field("w_more_1", types.Int()),
    types.Field("w_more_3", types.Int()),
    types.Field("o_less", types.Double()),
    types.Field("o_more", types.Double()),
)
CHILD = scan(FIELDS, ["id"])
RUNNING = Frame(False, None, 0)
BY_PLACE = Frame(True, None, 0)
TIES = Frame(True, 0, 0)


def values(lower: str | None, upper: str | None) -> ValueFrame:
    """Return the frame between two fields."""
    lower_bound, upper_bound = (
        None if name is None else ValueBound(f"{name} FOLLOWING", name) for name in (lower, upper)
    )
    return ValueFrame(lower_bound, upper_bound)


NAN = float("nan")
F = WindowFunction


def call(
    function: WindowFunction,
    argument: str | None = None,
    frame: Frame | ValueFrame | None = None,
    offset: int = 0,
    default: str | None = None,
    *,
    title: str = "",
    ignores_nulls: bool = False,
) -> OrderedCall:
    """Return a call whose output has the type that it has in Spark."""
    data_type: types.DataType = types.Int()
    if function is F.COUNT:
        data_type = types.BigInt()
    elif argument is not None:
        data_type = CHILD.type_of(argument)
        if function is F.SUM:
            data_type = {"n": types.BigInt(), "p": types.BigInt(), "f": types.Double()}.get(
                argument, types.Decimal(38, 2)
            )
        elif function is F.AVG:
            data_type = types.Decimal(34, 6) if argument == "d" else types.Double()
    nulls = "ignored" if ignores_nulls else ""
    name = title or f"{function}_{argument}_{frame and frame.sql}_{offset}{nulls}".replace(" ", "_")
    output = types.Field(name, data_type)
    return OrderedCall(function, argument, output, frame, offset, default, ignores_nulls)


def picks(argument: str, frame: Frame | ValueFrame) -> list[OrderedCall]:
    """Return the first, the last and the second value of a frame, with and without NULLs."""
    functions = (F.FIRST_VALUE, 0), (F.LAST_VALUE, 0), (F.NTH_VALUE, 2)
    return [
        call(function, argument, frame, offset, ignores_nulls=ignores_nulls)
        for function, offset in functions
        for ignores_nulls in (False, True)
    ]


def nearest(argument: str, offset: int) -> list[OrderedCall]:
    """Return lag and lead with IGNORE NULLS."""
    return [
        call(function, argument, None, offset, argument, ignores_nulls=True)
        for function in (F.LAG, F.LEAD)
    ]


def window(
    order: tuple[Order, ...], *calls: OrderedCall, reverses_ties: bool = False
) -> OrderedWindow:
    """Return the window of a partition by g."""
    return OrderedWindow(CHILD, ("g",), order, calls, reverses_ties=reverses_ties)


ALL_OVER = (F.COUNT, F.SUM, F.MIN, F.MAX, F.AVG, F.FIRST_VALUE, F.LAST_VALUE)
CASES = {
    "lag and lead": window(
        (Order("p"),), call(F.LAG, "a", None, 1), call(F.LEAD, "n", None, 2, "n")
    ),
    "lag by nothing": window((Order("o", True),), call(F.LAG, "f", None, 0, "f")),
    "positions": window((Order("o", True, False),), call(F.ROW_NUMBER)),
    "ranks": window((Order("p"),), call(F.RANK), call(F.DENSE_RANK)),
    "all numbers": window(
        (Order("p", True), Order("o")), call(F.ROW_NUMBER), call(F.RANK), call(F.LAG, "p", None, 1)
    ),
    "running": window((Order("p"),), *(call(f, "n", RUNNING) for f in ALL_OVER)),
    "running decimals": window((Order("o"),), call(F.SUM, "d", RUNNING), call(F.AVG, "d", RUNNING)),
    "running floats": window(
        (Order("p", False, False),), call(F.SUM, "f", RUNNING), call(F.AVG, "f", RUNNING)
    ),
    "by place": window((Order("p"),), *(call(f, "n", BY_PLACE) for f in ALL_OVER)),
    "floats by place": window(
        (Order("p"),),
        call(F.MAX, "f", BY_PLACE),
        call(F.AVG, "f", BY_PLACE),
        call(F.COUNT, None, BY_PLACE),
    ),
    "ties": window((Order("p"),), *(call(f, "n", TIES) for f in ALL_OVER)),
    "around": window((Order("o"),), *(call(f, "n", Frame(False, -1, 1)) for f in ALL_OVER)),
    "before": window((Order("p"),), *(call(f, "f", Frame(False, -3, -1)) for f in ALL_OVER)),
    "after": window((Order("p"),), *(call(f, "d", Frame(False, 1, 2)) for f in ALL_OVER)),
    "arrays": window(
        (Order("p"),),
        call(F.FIRST_VALUE, "a", BY_PLACE),
        call(F.LAST_VALUE, "a", Frame(False, 0, 2)),
    ),
    "everything": window(
        (Order("p"), Order("o", True)),
        call(F.LAG, "f", None, 2),
        call(F.RANK),
        call(F.SUM, "n", BY_PLACE),
        call(F.AVG, "p", RUNNING),
        call(F.MIN, "o", Frame(False, -2, 0)),
    ),
    "values up to the row": window(
        (Order("w"),), *(call(f, "n", values("w_less_3", None)) for f in ALL_OVER)
    ),
    "values from the row": window(
        (Order("w", False, False),),
        *(call(f, "d", values(None, "w_more_1")) for f in ALL_OVER),
    ),
    "values around": window(
        (Order("w", True),), *(call(f, "f", values("w_more_1", "w_less_3")) for f in ALL_OVER)
    ),
    "values before": window(
        (Order("w"),), *(call(f, "n", values("w_less_3", "w_less_1")) for f in ALL_OVER)
    ),
    "values after": window(
        (Order("w", True, True),), *(call(f, "p", values("w_less_1", "w_less_3")) for f in ALL_OVER)
    ),
    "no values": window((Order("w"),), call(F.COUNT, "n", values("w_more_3", "w_more_1"))),
    "floats around": window(
        (Order("o", True, True),), *(call(f, "n", values("o_more", "o_less")) for f in ALL_OVER)
    ),
    "two frames": window(
        (Order("w"),),
        call(F.MAX, "n", values("w_less_1", "w_more_3")),
        call(F.LAG, "s", None, 2, ignores_nulls=True),
        call(F.LEAD, "s", None, 1, ignores_nulls=True),
        call(F.SUM, "n", RUNNING),
        call(F.COUNT, None, values(None, "w_more_3")),
        call(F.LAG, "n", None, 1),
    ),
    "picks": window((Order("w"),), *picks("s", Frame(False, -2, 3))),
    "running picks": window((Order("w"),), *picks("s", RUNNING)),
    "picks by place": window((Order("p"),), *picks("s", BY_PLACE)),
    "picks of ties": window((Order("p"),), *picks("n", TIES)),
    "picks of values": window((Order("w", True),), *picks("s", values("w_more_3", None))),
    "late picks": window(
        (Order("w"),),
        call(F.NTH_VALUE, "n", RUNNING, 9),
        call(F.NTH_VALUE, "s", RUNNING, 4, ignores_nulls=True),
    ),
    "nearest": window((Order("w"),), *nearest("s", 1)),
    "second nearest": window((Order("o", True),), *nearest("n", 2), call(F.LAG, "n", None, 1)),
    "last known": window((Order("w"),), call(F.LAST_VALUE, "s", RUNNING, ignores_nulls=True)),
    "extremes": window((Order("w"),), call(F.MAX, "n", RUNNING), call(F.MIN, "n", BY_PLACE)),
    "ties last first": window(
        (Order("p", True, False),),
        *(call(f, "n", RUNNING) for f in ALL_OVER),
        call(F.SUM, "p", BY_PLACE),
        call(F.LAG, "id", None, 2),
        reverses_ties=True,
    ),
    "by the group": window((Order("g"),), call(F.SUM, "n", BY_PLACE), call(F.ROW_NUMBER)),
}


def row_of(chance: random.Random, key: Any) -> Row:
    """Return a row that ties with others in the order."""
    o = chance.choice([None, NAN, 0.0, 1.5, -2.0, float("inf")])
    w = chance.choice([None, *range(20)])
    return {
        "s": chance.choice([None, None, None, None, 1, 2]),
        "w": w,
        **{
            f"w_{name}": None if w is None else w + offset
            for name, offset in (("less_3", -3), ("less_1", -1), ("more_1", 1), ("more_3", 3))
        },
        # -0.0 ties with 0.0.
        "o_less": None if o is None else o - 1.5 or -0.0,
        "o_more": None if o is None else o + 2.0,
        "id": key,
        "g": chance.choice(["x", "x", "x", "y", None]),
        "o": o,
        "p": chance.choice([None, 1, 2, 3, 4]),
        "n": chance.choice([None, 0, 1, -5, 1 << 40]),
        "d": chance.choice([None, Decimal("0.01"), Decimal("-2.50"), Decimal(f"1{'0' * 25}.00")]),
        "f": chance.choice([None, 0.25, -1.5, 3.0]),
        "a": chance.choice([None, [], [1, None]]),
    }


def model(node: OrderedWindow, rows: Rows) -> list[Row]:
    """Return all rows with the values of the functions."""
    partitions: dict[str, list[Row]] = {}
    for row in rows.values():
        partitions.setdefault(repr([row[name] for name in node.group]), []).append(row)
    results = []
    for members in partitions.values():
        members.sort(key=cmp_to_key(lambda left, right: compared(node, left, right)))
        places = [repr([sortable(row[o.name]) for o in node.order]) for row in members]
        for position, row in enumerate(members):
            values = {
                ordered_call.output.name: value_of(node, ordered_call, members, places, position)
                for ordered_call in node.calls
            }
            results.append({**row, **values})
    return results


def value_of(
    node: OrderedWindow,
    ordered_call: OrderedCall,
    members: list[Row],
    places: list[str],
    position: int,
) -> Any:
    """Return the value of a function for one row of a sorted partition."""
    match ordered_call.function:
        case F.ROW_NUMBER:
            return position + 1
        case F.RANK:
            return places.index(places[position]) + 1
        case F.DENSE_RANK:
            return list(dict.fromkeys(places)).index(places[position]) + 1
        case F.LAG | F.LEAD:
            rows = (
                members[:position][::-1]
                if ordered_call.function is F.LAG
                else members[position + 1 :]
            )
            if ordered_call.ignores_nulls:
                rows = [row for row in rows if row[ordered_call.argument or ""] is not None]
            rows = [members[position], *rows]
            if ordered_call.offset < len(rows):
                return rows[ordered_call.offset][ordered_call.argument or ""]
            return members[position][ordered_call.default] if ordered_call.default else None
    if isinstance(ordered_call.frame, ValueFrame):
        rows = [
            row
            for row in members
            if is_between(node.order[0], row, members[position], ordered_call)
        ]
    else:
        assert ordered_call.frame is not None
        rows = members[slice(*frame_of(ordered_call.frame, places, position))]
    values = [row[ordered_call.argument] if ordered_call.argument else 1 for row in rows]
    return aggregated(ordered_call, values)


def is_between(order: Order, row: Row, owner: Row, ordered_call: OrderedCall) -> bool:
    """Return whether a row is in the frame of another row."""
    assert isinstance(ordered_call.frame, ValueFrame)
    low, high = (
        owner[order.name if bound is None else bound.field]
        for bound in (ordered_call.frame.lower, ordered_call.frame.upper)
    )
    value = row[order.name]
    return compared_values(order, low, value) <= 0 <= compared_values(order, high, value)


def frame_of(frame: Frame, places: list[str], position: int) -> tuple[int, int]:
    """Return the first row of a frame, and the one after its last."""
    if frame.is_range:
        first = places.index(places[position])
        stop = first + places.count(places[position])
        return (0 if frame.start is None else first), stop
    first = 0 if frame.start is None else max(position + frame.start, 0)
    return first, max(position + frame.end + 1, first)


def aggregated(ordered_call: OrderedCall, values: list[Any]) -> Any:
    """Return the value of a function over the values of a frame."""
    present = [value for value in values if value is not None]
    if ordered_call.ignores_nulls:
        values = present
    match ordered_call.function:
        case F.COUNT:
            return len(present)
        case F.FIRST_VALUE:
            return values[0] if values else None
        case F.LAST_VALUE:
            return values[-1] if values else None
        case F.NTH_VALUE:
            return values[ordered_call.offset - 1] if len(values) >= ordered_call.offset else None
    if not present:
        return None
    match ordered_call.function:
        case F.MIN:
            return min(present, key=sortable)
        case F.MAX:
            return max(present, key=sortable)
        case F.SUM:
            with localcontext(prec=80):
                return sum(present[1:], present[0])
    if isinstance(present[0], Decimal):
        with localcontext(prec=80):
            average = sum(present) / len(present)
            return average.quantize(Decimal("0.000001"), ROUND_HALF_UP)
    return float(sum(present)) / len(present)


def compared(node: OrderedWindow, left: Row, right: Row) -> int:
    """Return the order of two rows of one partition: -1, 0 or 1."""
    results = (
        compared_values(order, left[order.name], right[order.name]) for order in node.whole_order
    )
    return next(filter(None, results), 0)


class WindowBench(Bench):
    """A window over a state in memory."""

    def __init__(self, node: OrderedWindow) -> None:
        super().__init__(node, WindowExecutor)
        ((self.state,),) = self.states


def chunk(changes: list[Change]) -> pa.RecordBatch:
    """Return changes of the child's rows as a chunk."""
    return chunk_of(FIELDS, changes)
