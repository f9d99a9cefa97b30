"""The window executor keeps the values of functions right, and touches only rows near a change."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal, localcontext
from functools import cmp_to_key
from typing import Any

import pyarrow as pa
import pytest

from relstate.connector.views.executor.window import WindowExecutor
from relstate.connector.views.plan.frame import Frame, ValueBound, ValueFrame
from relstate.connector.views.plan.node import Order
from relstate.connector.views.plan.window import (
    OrderedCall,
    OrderedWindow,
    WindowFunction,
)
from relstate.storage import Op, errors, types
from support.bench import Bench
from support.changes import (
    Change,
    Row,
    Rows,
    chunk_of,
    epochs,
    net_changes,
    scan,
    shown,
    shuffled,
)
from support.examples import Seeds

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
                one.output.name: value_of(node, one, members, places, position)
                for one in node.calls
            }
            results.append({**row, **values})
    return results


def value_of(
    node: OrderedWindow, one: OrderedCall, members: list[Row], places: list[str], position: int
) -> Any:
    """Return the value of a function for one row of a sorted partition."""
    match one.function:
        case F.ROW_NUMBER:
            return position + 1
        case F.RANK:
            return places.index(places[position]) + 1
        case F.DENSE_RANK:
            return list(dict.fromkeys(places)).index(places[position]) + 1
        case F.LAG | F.LEAD:
            rows = members[:position][::-1] if one.function is F.LAG else members[position + 1 :]
            if one.ignores_nulls:
                rows = [row for row in rows if row[one.argument or ""] is not None]
            rows = [members[position], *rows]
            if one.offset < len(rows):
                return rows[one.offset][one.argument or ""]
            return members[position][one.default] if one.default else None
    if isinstance(one.frame, ValueFrame):
        rows = [row for row in members if is_between(node.order[0], row, members[position], one)]
    else:
        assert one.frame is not None
        rows = members[slice(*frame_of(one.frame, places, position))]
    values = [row[one.argument] if one.argument else 1 for row in rows]
    return aggregated(one, values)


def is_between(order: Order, row: Row, owner: Row, one: OrderedCall) -> bool:
    """Return whether a row is in the frame of another one."""
    assert isinstance(one.frame, ValueFrame)
    low, high = (
        owner[order.name if bound is None else bound.field]
        for bound in (one.frame.lower, one.frame.upper)
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


def aggregated(one: OrderedCall, values: list[Any]) -> Any:
    """Return the value of a function over the values of a frame."""
    present = [value for value in values if value is not None]
    if one.ignores_nulls:
        values = present
    match one.function:
        case F.COUNT:
            return len(present)
        case F.FIRST_VALUE:
            return values[0] if values else None
        case F.LAST_VALUE:
            return values[-1] if values else None
        case F.NTH_VALUE:
            return values[one.offset - 1] if len(values) >= one.offset else None
    if not present:
        return None
    match one.function:
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
    for order in node.whole_order:
        result = compared_values(order, left[order.name], right[order.name])
        if result:
            return result
    return 0


def compared_values(order: Order, left: Any, right: Any) -> int:
    """Return the order of two values: -1, 0 or 1."""
    first, second = sortable(left), sortable(right)
    if (first is None) != (second is None):
        return -1 if (first is None) == order.nulls_first else 1
    if first is not None and first != second:
        return -1 if (first < second) != order.descending else 1
    return 0


def sortable(value: Any) -> Any:
    """Return a value that Python sorts as Spark does: NaN is the greatest number."""
    if isinstance(value, float):
        return (1, 0.0) if value != value else (0, value)
    return value


class WindowBench(Bench):
    """A window over a state in memory."""

    def __init__(self, node: OrderedWindow) -> None:
        super().__init__(node, WindowExecutor)
        ((self.state,),) = self.states


def chunk(changes: list[Change]) -> pa.RecordBatch:
    """Return changes of the child's rows as a chunk."""
    return chunk_of(FIELDS, changes)


@pytest.fixture
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only two rows be read before and after a change at first."""
    monkeypatch.setattr("relstate.connector.views.executor.window._LEAST_ROWS", 2)
    monkeypatch.setattr("relstate.connector.views.executor.window._GROWTH", 2)


@pytest.mark.parametrize("case", CASES)
def test_the_output_is_every_row_with_its_values(case: str, seeds: Seeds) -> None:
    """The applied chunks are what the functions give, and so is the state.

    Rows tie, hold NULLs and NaNs, move in and between partitions, and are deleted.
    """
    for seed in seeds(3):
        _follow(CASES[case], random.Random(seed), 12)


@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize("case", CASES)
def test_the_output_is_right_in_partitions_that_are_read_in_parts(case: str, seeds: Seeds) -> None:
    """Rows that are far from a change are not read, or only after those near it."""
    for seed in seeds(2):
        _follow(CASES[case], random.Random(seed), 50)


def _follow(node: OrderedWindow, chance: random.Random, keys: int) -> None:
    """Check the output and the state over some epochs."""
    bench = WindowBench(node)
    for rows, changes in epochs(chance, 8, range(keys), row_of):
        bench.step(chunk(changes))

        expected = sorted(map(shown, model(node, rows)))
        assert bench.mirror.content() == expected
        names = [field.name for field in node.fields]
        stored = [{name: row[name] for name in names} for row in bench.state.rows]
        assert sorted(map(shown, stored)) == expected


@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize("case", CASES)
def test_the_state_depends_on_the_rows_alone(case: str, seeds: Seeds) -> None:
    """After a few small changes the state is what one epoch would have made."""
    node = CASES[case]
    for seed in seeds(2):
        chance = random.Random(seed)
        bench, rows = WindowBench(node), {key: row_of(chance, key) for key in range(40)}
        bench.step(chunk(net_changes({}, rows)))
        for _ in range(12):
            old, rows = rows, dict(rows)
            for key in chance.sample(range(44), chance.randint(1, 3)):
                if key in rows and chance.random() < 0.4:
                    del rows[key]
                else:
                    rows[key] = row_of(chance, key)
            bench.step(chunk(shuffled(chance, net_changes(old, rows))))
            assert bench.mirror.content() == sorted(map(shown, model(node, rows)))
        anew = WindowBench(node)
        anew.step(chunk(net_changes({}, rows)))
        assert [*map(shown, bench.state.rows)] == [*map(shown, anew.state.rows)]


def large(count: int, value: Callable[[int], int] = lambda number: number) -> Rows:
    """Return the rows of one large partition, in the order of their keys."""
    return {
        i: {
            **dict.fromkeys(field.name for field in FIELDS),
            "id": i, "g": "x", "o": float(i), "p": value(i), "n": i, "f": 0.0, "w": i,
            "w_less_3": i - 3, "w_more_3": i + 3,
        }
        for i in range(count)
    }  # fmt: skip


def test_a_bounded_frame_reads_and_emits_few_rows() -> None:
    """However large the partition is."""
    node = window((Order("o"),), call(F.LAG, "n", None, 1), call(F.SUM, "n", Frame(False, -2, 2)))
    bench, rows = WindowBench(node), large(3000)
    bench.step(chunk(net_changes({}, rows)))
    bench.state.reads = 0

    changed = bench.run(chunk([(Op.DELETE, rows[1000])]))

    assert sorted(row["id"] for row in changed.to_pylist()) == [
        998, 998, 999, 999, 1000, 1001, 1001, 1002, 1002,
    ]  # fmt: skip
    assert bench.state.reads < 300


def test_what_runs_is_read_to_the_end_only_if_it_changes() -> None:
    """An update that keeps the order and the sum stops; an insert in the middle does not."""
    node = window((Order("o"),), call(F.ROW_NUMBER), call(F.SUM, "n", RUNNING))
    bench, rows = WindowBench(node), large(3000)
    bench.step(chunk(net_changes({}, rows)))
    bench.state.reads = 0
    update = {**rows[500], "f": 1.0}
    assert bench.run(chunk([(Op.DELETE, rows[500]), (Op.INSERT, update)])).num_rows == 2
    assert bench.state.reads == 1

    bench.state.reads = 0
    swapped = {500: {**rows[500], "n": 510}, 510: {**rows[510], "n": 500}}
    changes = net_changes({key: rows[key] for key in swapped}, swapped)
    assert bench.run(chunk(changes)).num_rows == 2 * 10 + 2
    assert bench.state.reads < 500

    bench.state.reads = 0
    last = {**rows[2990], "n": 0}
    assert bench.run(chunk([(Op.DELETE, rows[2990]), (Op.INSERT, last)])).num_rows == 20
    assert bench.state.reads < 300

    middle = {**rows[1500], "id": 9000, "o": 1500.5}
    assert bench.run(chunk([(Op.INSERT, middle)])).num_rows == 2 * 1499 + 1


def changed_rows(node: OrderedWindow, rows: Rows, changes: list[Change]) -> tuple[list[Any], int]:
    """Return the keys of the rows that changes change, and how many rows are read for them."""
    bench = WindowBench(node)
    bench.step(chunk(net_changes({}, rows)))
    bench.state.reads = 0
    keys = sorted({row["id"] for row in bench.run(chunk(changes)).to_pylist()})
    return keys, bench.state.reads


def test_what_values_decide_is_read_as_far_as_it_reaches() -> None:
    """A frame of values, and the nearest value that is not NULL, in a large partition."""
    rows = large(3000)
    for row in rows.values():
        row["s"] = row["id"] if row["id"] % 50 == 0 else None
    update = {**rows[1000], "n": 7, "s": None}
    changes = [(Op.DELETE, rows[1000]), (Op.INSERT, update)]

    frame = window((Order("w"),), call(F.SUM, "n", values("w_less_3", "w_more_3")))
    keys, reads = changed_rows(frame, rows, changes)
    assert keys == list(range(997, 1004))
    assert reads < 300

    lags = window((Order("w"),), call(F.LAG, "s", None, 1, ignores_nulls=True))
    keys, reads = changed_rows(lags, rows, changes)
    assert keys == list(range(1000, 1051))
    assert reads < 1500

    last = window((Order("w"),), call(F.LAST_VALUE, "s", RUNNING, ignores_nulls=True))
    keys, reads = changed_rows(last, rows, changes)
    assert keys == list(range(1000, 1050))
    assert reads < 1500


def test_what_runs_is_read_until_it_is_what_it_was() -> None:
    """A maximum up to the next greater one, numbers up to the place to which a row moves."""
    rows = large(20_000)
    highest = window((Order("w"),), call(F.MAX, "n", RUNNING))
    update = {**rows[1000], "n": 1300}
    keys, reads = changed_rows(highest, rows, [(Op.DELETE, rows[1000]), (Op.INSERT, update)])
    assert keys == list(range(1000, 1300))
    assert reads < 2000

    numbers = window((Order("o"),), call(F.ROW_NUMBER), call(F.SUM, "n", RUNNING))
    moved = {**rows[1000], "o": 1400.5}
    keys, reads = changed_rows(numbers, rows, [(Op.DELETE, rows[1000]), (Op.INSERT, moved)])
    assert keys == list(range(1000, 1401))
    assert reads < 3000


def test_one_partition_for_all_rows_is_in_vnode_0() -> None:
    """A window without PARTITION BY has a constant group and no distribution."""
    fields = (types.Field("one", types.TinyInt()), *FIELDS)
    calls = (call(F.ROW_NUMBER),)
    node = OrderedWindow(
        scan(fields, ["one", "id"]), ("one",), (Order("o"),), calls, is_global=True
    )

    (spec,) = WindowExecutor.tables(node)

    assert spec.distribution == ()
    assert [order.name for order in spec.primary_key] == ["one", "o", "id"]


def test_hidden_columns_have_free_names() -> None:
    """A column of the input may be named like one that only the state has."""
    fields = (*FIELDS, types.Field("r_position", types.Int()))
    rank = call(F.RANK, title="r")
    node = OrderedWindow(scan(fields, ["id"]), ("g",), (Order("o"),), (rank,))

    (spec,) = WindowExecutor.tables(node)

    assert [field.name for field in spec.fields][-3:] == ["r_position", "r", "r_position_2"]


def test_a_sum_that_does_not_fit_is_an_error_or_wraps() -> None:
    """With ANSI it is an error that says what to do; without, a BIGINT wraps as in Spark."""
    node = window((Order("o"),), call(F.SUM, "n", RUNNING))
    rows = large(3)
    for row in rows.values():
        row["n"] = (1 << 63) - 1
    with pytest.raises(errors.ValueRangeError, match=r"sum\(n\) over a window overflows BIGINT"):
        WindowBench(node).run(chunk(net_changes({}, rows)))
    bench = WindowBench(node)

    changed = WindowExecutor(node, [bench.state], is_ansi=False).run(chunk(net_changes({}, rows)))

    sums = sorted(row[node.calls[0].output.name] for row in changed.to_pylist())
    assert sums == [-2, (1 << 63) - 3, (1 << 63) - 1]


def test_the_order_of_changes_does_not_matter() -> None:
    """Two attempts over the same changes in another order return equal chunks."""
    bench, chance = WindowBench(CASES["everything"]), random.Random(1)
    rows = {key: row_of(chance, key) for key in range(30)}
    bench.step(chunk(net_changes({}, rows)))
    changes = net_changes(rows, {key: row_of(chance, key) for key in range(30)})

    outputs = [repr(bench.run(chunk(shuffled(chance, changes))).to_pylist()) for _ in range(5)]

    assert len(set(outputs)) == 1


def test_what_does_not_fit_is_refused() -> None:
    """Deleting a missing row, inserting an existing one, one row twice."""
    bench, row = WindowBench(CASES["positions"]), large(1)[0]
    with pytest.raises(errors.ConsistencyError, match="id = 0 is deleted but does not exist"):
        bench.run(chunk([(Op.DELETE, row)]))
    bench.step(chunk([(Op.INSERT, row)]))

    with pytest.raises(errors.ConsistencyError, match="id = 0 is inserted but already exists"):
        bench.run(chunk([(Op.INSERT, row)]))
    with pytest.raises(errors.ConsistencyError, match="id = 2 is inserted twice"):
        bench.run(chunk([(Op.INSERT, {**row, "id": 2}), (Op.INSERT, {**row, "id": 2})]))


def test_a_call_whose_parts_do_not_fit_is_refused() -> None:
    """As a damaged or forged plan may have it."""
    whole = call(F.SUM, "n", RUNNING)
    for wrong, problem in {
        replace(whole, frame=None): "a wrong frame",
        replace(whole, argument=None): "no argument",
        replace(whole, frame=Frame(False, None, 3)): "not maintained",
        replace(whole, frame=Frame(True, -1, 0)): "not maintained",
        replace(whole, offset=2): "only lag and lead",
        call(F.LAG, "n", None, -1): "not negative",
        call(F.LAG, "n", None, 1, "p"): "another type",
        replace(whole, argument="q"): "not one of its fields",
        replace(whole, ignores_nulls=True): "ignores NULLs",
        replace(whole, frame=values(None, None)): "no bounds",
        replace(whole, frame=values("n", None)): "another type than the order",
        call(F.NTH_VALUE, "n", RUNNING): "before the first",
        call(F.LAG, "n", None, 0, ignores_nulls=True): "ignores NULLs",
    }.items():
        with pytest.raises(ValueError, match=problem):
            window((Order("o"),), wrong).check()
