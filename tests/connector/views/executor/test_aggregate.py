"""The law of the aggregate: after every epoch its groups are those of the rows that are there."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from relstate.connector.views.executor.aggregate import AggregateExecutor
from relstate.connector.views.plan.aggregate import Aggregate, Call, Function
from relstate.storage import arrow
from relstate.storage import types as t
from support.aggregates import group_of, groups_of, output_type, same, value_of
from support.changes import Row, chunk_of, net_changes, scan
from support.memory_state import MemoryState

FIELDS = (
    t.Field("k", t.BigInt()),
    t.Field("g", t.String()),
    t.Field("h", t.Double()),
    t.Field("p", t.Boolean()),
    t.Field("q", t.Boolean()),
    t.Field("n", t.TinyInt()),
    t.Field("i", t.BigInt()),
    t.Field("d", t.Decimal(10, 2)),
    t.Field("w", t.Decimal(38, 4)),
    t.Field("f", t.Float()),
    t.Field("x", t.Double()),
    t.Field("s", t.String()),
    t.Field("a", t.Array(t.Int())),
    t.Field("one", t.TinyInt()),
)
WHOLE = ("n", "i", "d", "w")
FLOATS = ("f", "x")
ALL = (*WHOLE, *FLOATS, "s", "a", "p", "g", "k")
VARIANCES = (
    Function.VAR_POP,
    Function.VAR_SAMP,
    Function.STDDEV_POP,
    Function.STDDEV_SAMP,
)
ARGUMENTS = {
    Function.COUNT: ALL,
    Function.SUM: (*WHOLE, *FLOATS),
    Function.AVG: (*WHOLE, *FLOATS),
    Function.MIN: ALL,
    Function.MAX: ALL,
    **dict.fromkeys(VARIANCES, ("x",)),
}
UNIVERSE = [
    (function, argument, is_distinct, condition)
    for function, arguments in ARGUMENTS.items()
    for argument in arguments
    for is_distinct in (False, True)
    for condition in (None, "p", "q")
]
_TYPES = {field.name: field.type for field in FIELDS}
_POOLS: dict[str, Sequence[Any]] = {
    "g": [None, "", "a", "b"],
    "h": [None, 0.0, -0.0, math.nan, 1.5],
    "p": [None, True, False],
    "q": [None, True, True, False],
    "n": [None, -128, 127, 0, 3],
    "i": [None, 2**63 - 1, -(2**63), 0, 7, 2**40],
    "d": [None, Decimal("0.01"), Decimal("-99999999.99"), Decimal("3.33"), Decimal("0.00")],
    "w": [None, Decimal("9" * 34 + ".9999"), Decimal("-" + "9" * 34), Decimal("0.0001")],
    "f": [None, 0.0, -0.0, 0.10000000149011612, -1.5, math.inf, math.nan],
    "x": [None, 0.0, -0.0, 0.1, 1e10, -1e-3, 12345.678, math.inf, -math.inf, math.nan],
    "s": [None, "", "a", "ab", "é"],
    "a": [None, [], [1], [1, None], [2]],
}


def call(
    number: int, function: Function, argument: str | None, is_distinct: bool, condition: str | None
) -> Call:
    """Return a call of the type that Spark gives it."""
    data_type = output_type(function, None if argument is None else _TYPES[argument])
    return Call(function, argument, t.Field(f"o{number}", data_type), is_distinct, condition)


def aggregate(
    calls: Sequence[Call], group: Sequence[str] = ("g",), *, grows_only: bool = False
) -> Aggregate:
    """Return an aggregate over rows with all the fields."""
    child = scan(FIELDS, ["k"], grows_only=grows_only)
    return Aggregate(child, tuple(group) or ("one",), tuple(calls), is_global=not group)


class Keeper:
    """An executor's tables over epochs, and all that came out of it."""

    def __init__(self, node: Aggregate, *, is_ansi: bool = False) -> None:
        self.node = node
        self.is_ansi = is_ansi
        self.states = [MemoryState(spec) for spec in AggregateExecutor.tables(node)]
        self.rows: dict[Any, Row] = {}
        self.live: dict[int, Row] = {}

    def run(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Run an epoch; nothing is committed."""
        return AggregateExecutor(self.node, self.states, is_ansi=self.is_ansi).run(chunk)

    def move(self, new: dict[int, Row]) -> pa.RecordBatch:
        """Run and commit the epoch that makes the live rows these; check that its output fits."""
        chunk = self.run(chunk_of(FIELDS, net_changes(self.live, new)))
        for state in self.states:
            state.commit()
        self.live = dict(new)
        self._apply(chunk)
        return chunk

    def _apply(self, chunk: pa.RecordBatch) -> None:
        assert chunk.schema.names == ["_op", *self.node.names]
        assert chunk.schema.types[1:] == arrow.arrow_schema(self.node.fields).types
        rows = chunk.to_pylist()
        for row in (row for row in rows if row["_op"] == 2):
            old = self.rows.pop(group_of(self.node, row))
            assert repr({**row, "_op": 1}) == repr(old), "what goes is not what came"
        for row in (row for row in rows if row["_op"] == 1):
            assert group_of(self.node, row) not in self.rows
            self.rows[group_of(self.node, row)] = row

    def check(self) -> None:
        """Compare what came out with what the live rows say."""
        expected = groups_of(self.node, self.live.values())
        found = {() if self.node.is_global else key: row for key, row in self.rows.items()}
        assert found.keys() == expected.keys()
        for key, rows in expected.items():
            for one in self.node.calls:
                wanted = value_of(self.node, one, rows)
                value = found[key][one.output.name]
                if one.function in VARIANCES:
                    assert _same_variance(one, value, wanted, rows), (one, value, wanted, rows)
                else:
                    assert same(value, wanted, _largest(one, rows)), (one, value, wanted, rows)

    def check_state(self) -> None:
        """Compare the tables with those that the live rows make in one epoch."""
        fresh = Keeper(self.node)
        fresh.move(self.live)
        for state, wanted in zip(self.states, fresh.states, strict=True):
            assert len(state.rows) == len(wanted.rows)
            for one, other in zip(state.rows, wanted.rows, strict=True):
                assert _alike(one, other), (state.spec.role, one, other)


def _alike(one: Row, other: Row) -> bool:
    pairs = [(one[name], other[name]) for name in one if not name.endswith("_rest")]
    return all(_near(a, b) if isinstance(a, float) else a == b for a, b in pairs)


def _near(one: float, other: float) -> bool:
    # Of the square of 1e10 the last of 106 bits is about 1e-12.
    return same(one, other, max(abs(one), abs(other))) or abs(one - other) < 1e-10


def _largest(one: Call, rows: Sequence[Row]) -> float:
    """Return the magnitude at which a result may be off by a billionth."""
    values = [row[one.argument] for row in rows if one.argument and row[one.argument] is not None]
    numbers = [abs(float(v)) for v in values if isinstance(v, int | float | Decimal)]
    return max((number for number in numbers if math.isfinite(number)), default=0.0)


def _same_variance(one: Call, value: Any, wanted: Any, rows: Sequence[Row]) -> bool:
    """Compare variances; of values that went, up to 1e10, the last of 106 bits may have stayed."""
    if one.function in (Function.STDDEV_POP, Function.STDDEV_SAMP) and wanted is not None:
        value, wanted = value * value, wanted * wanted
    return same(value, wanted, _largest(one, rows) ** 2 + 1e10**2 * 1e-19)


def drawn(source: random.Random, key: int) -> Row:
    """Return a random row."""
    picked = {name: source.choice(pool) for name, pool in _POOLS.items()}
    return {"k": key, **picked, "one": 0}


def next_rows(
    source: random.Random, live: dict[int, Row], *, grows_only: bool = False
) -> dict[int, Row]:
    """Return what the rows may be an epoch later."""
    start = max(live, default=0) + 1
    added = {key: drawn(source, key) for key in range(start, start + source.randrange(12))}
    if grows_only:
        return {**live, **added}
    share = source.choice([0, 0.2, 0.5, 1])
    kept = {key: row for key, row in live.items() if source.random() >= share}
    for key in kept:
        if source.random() < 0.2:
            other = drawn(source, key)
            names = source.sample(sorted(other), source.randrange(1, len(other)))
            kept[key] = {**kept[key], **{name: other[name] for name in names}}
    if source.random() < 0.3:
        # What went comes back under its old key.
        added |= {key: live[key] for key in live if key not in kept and source.random() < 0.5}
    return {**kept, **added}


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("group", [("g",), ("h", "g"), ()], ids=["text", "floats", "global"])
def test_the_groups_are_those_of_the_rows(seed: int, group: tuple[str, ...]) -> None:
    """After every epoch the outputs, and the state, are what the live rows make."""
    source = random.Random(f"{seed} {group}")
    picked = source.sample(UNIVERSE, source.randrange(1, 9))
    calls = [call(number, *one) for number, one in enumerate(picked)]
    keeper = Keeper(aggregate([*calls, call(99, Function.COUNT, None, False, None)], group))
    for _ in range(8):
        keeper.move(next_rows(source, keeper.live))
        keeper.check()
    keeper.check_state()


@pytest.mark.parametrize("seed", range(30))
def test_over_rows_that_only_come(seed: int) -> None:
    """The same holds where least and greatest values are kept without a table of their own."""
    source = random.Random(seed)
    picked = source.sample(UNIVERSE, source.randrange(1, 9))
    calls = [call(number, *one) for number, one in enumerate(picked)]
    keeper = Keeper(aggregate(calls, grows_only=True))
    for _ in range(6):
        keeper.move(next_rows(source, keeper.live, grows_only=True))
        keeper.check()
    keeper.check_state()
    assert not any("min" in state.spec.role or "max" in state.spec.role for state in keeper.states)


@pytest.mark.parametrize("seed", range(25))
def test_rows_in_another_order_give_equal_bits(seed: int) -> None:
    """Two attempts over equal changes write and give the same, floats to the last bit."""
    source = random.Random(seed)
    picked = [one for one in UNIVERSE if one[1] in (*FLOATS, "s")]
    calls = [call(number, *one) for number, one in enumerate(source.sample(picked, 6))]
    keeper = Keeper(aggregate(calls))
    keeper.move(next_rows(source, {}))
    for _ in range(4):
        new = next_rows(source, keeper.live)
        changes = net_changes(keeper.live, new)
        found = []
        for _ in range(2):
            source.shuffle(changes)
            other = Keeper(keeper.node)
            other.states = keeper.states
            rows = other.run(chunk_of(FIELDS, changes))
            found.append((repr(rows.to_pylist()), [repr(state.written) for state in other.states]))
            for state in keeper.states:
                state.forget()
        assert found[0] == found[1]
        keeper.move(new)


def test_distinct_rows() -> None:
    """Without calls there is one row a group, and only its coming and going is told of."""
    keeper = Keeper(aggregate([], ("g", "p")))
    source = random.Random(1)
    for _ in range(20):
        keeper.move(next_rows(source, keeper.live))
        keeper.check()
    again = keeper.move({key + 1000: {**row, "k": key + 1000} for key, row in keeper.live.items()})
    assert again.num_rows == 0


def test_a_global_aggregate_always_has_its_row() -> None:
    """It is told of in the first epoch, rows or none, and in no idle one after that."""
    calls = [call(number, function, "x", False, None) for number, function in enumerate(ARGUMENTS)]
    keeper = Keeper(aggregate(calls, ()))
    first = keeper.move({})
    assert first.to_pylist() == [
        {"_op": 1, "one": 0, **{one.output.name: None for one in calls}, "o0": 0}
    ]
    assert keeper.move({}).num_rows == 0
    keeper.move({1: drawn(random.Random(1), 1)})
    keeper.move({})
    keeper.check()
    assert len(keeper.states[0].rows) == 1


def test_what_does_not_change_a_result_is_not_told_of() -> None:
    """A row that goes and an equal one that comes give nothing; neither does a NaN for a NaN."""
    calls = [call(0, Function.SUM, "x", False, None), call(1, Function.MIN, "i", False, None)]
    keeper = Keeper(aggregate(calls))
    row = drawn(random.Random(2), 1) | {"g": "a", "x": math.nan, "i": 5}
    keeper.move({1: row, 2: {**row, "k": 2, "x": 1.0}})
    assert keeper.move({3: {**row, "k": 3}, 2: {**row, "k": 2, "x": 2.0}}).num_rows == 0
    assert keeper.states[0].rows[0]["o0_sum"] == 2.0

    changes = net_changes(keeper.live, {**keeper.live, 3: {**row, "k": 3, "s": "another"}})
    assert len(changes) == 2
    assert keeper.run(chunk_of(FIELDS, changes)).num_rows == 0
    assert [state.written for state in keeper.states] == [[], []], "nothing to write either"


@pytest.mark.parametrize("function", [Function.SUM, Function.VAR_POP])
def test_no_rounding_outlives_the_values(function: Function) -> None:
    """Where the last finite value went, the sum is 0 again, though others kept the group."""
    keeper = Keeper(aggregate([call(0, function, "x", False, None)]))
    blank = drawn(random.Random(4), 0) | {"g": "a"}
    values = {1: 1e100, 2: 0.1, 3: math.inf}
    rows = {key: {**blank, "k": key, "x": x} for key, x in values.items()}
    for kept in ([1, 3], [1, 2, 3], [2, 3], [3]):
        keeper.move({key: rows[key] for key in kept})
    state = keeper.states[0].rows[0]
    assert {state[name] for name in state if "_sum" in name or "squares" in name} == {0}
    keeper.move({4: {**blank, "k": 4, "x": 5.0}, 5: {**blank, "k": 5, "x": 7.0}})
    assert keeper.rows[next(iter(keeper.rows))]["o0"] == (12 if function is Function.SUM else 1)


def test_the_zero_of_a_sum_has_no_sign_and_one_value_no_variance() -> None:
    """As in Spark, whatever was in the group before."""
    calls = [
        call(0, Function.SUM, "x", False, None),
        call(1, Function.STDDEV_POP, "x", False, None),
    ]
    keeper = Keeper(aggregate(calls))
    blank = drawn(random.Random(5), 0) | {"g": "a"}
    keeper.move({1: {**blank, "k": 1, "x": -0.0}, 2: {**blank, "g": "b", "k": 2, "x": 0.1}})
    big = {**blank, "g": "b", "k": 3, "x": 123456789012.3}
    keeper.move({**keeper.live, 3: big})
    keeper.move({key: row for key, row in keeper.live.items() if key != 3})
    found = {row["g"]: (repr(row["o0"]), repr(row["o1"])) for row in keeper.rows.values()}
    assert found == {"a": ("0.0", "0.0"), "b": ("0.1", "0.0")}


def test_an_extreme_is_looked_up_only_where_it_went() -> None:
    """The table of the values is not read for groups whose extreme stayed, or was bettered."""
    keeper = Keeper(aggregate([call(0, Function.MAX, "i", False, None)]))
    blank = drawn(random.Random(3), 0) | {"g": "a"}
    rows = {key: {**blank, "k": key, "i": key} for key in range(100)}
    keeper.move(rows)
    table = keeper.states[1]
    keeper.move({key: row for key, row in rows.items() if key != 50})
    better = {**rows, 200: {**blank, "k": 200, "i": 200}}
    keeper.move({key: row for key, row in better.items() if key != 99})
    assert table.reads == 0
    keeper.move({key: row for key, row in rows.items() if key < 90})
    keeper.check()
    assert table.reads == 1 + 10, "the next one, and as many as go"
    keeper.move({})
    assert table.reads == 1 + 10, "a group that goes has no extreme to look for"


def test_tables_are_named_for_what_they_hold() -> None:
    """One row a group for all calls; a table an extreme, and one a distinct argument."""
    node = aggregate(
        [
            call(0, Function.SUM, "x", False, None),
            call(1, Function.AVG, "x", False, None),
            call(2, Function.MIN, "i", True, "p"),
            call(3, Function.MIN, "i", False, "q"),
            call(4, Function.COUNT, "s", True, None),
            call(5, Function.SUM, "n", True, "p"),
            call(6, Function.COUNT, "s", True, "q"),
        ]
    )
    tables = AggregateExecutor.tables(node)
    assert [table.role for table in tables] == [
        "groups",
        "min_i",
        "min_i_2",
        "distinct_s",
        "distinct_n",
    ]
    assert [field.name for field in tables[0].fields] == [
        *("g", "row_count", "o0_sum", "o0_sum_rest", "o0_finite", "o0_nan", "o0_infinity"),
        *("o0_minus_infinity", "o2_min", "o3_min", "o4_count", "o5_sum", "o5_count", "o6_count"),
    ]
    assert [order.name for order in tables[1].primary_key] == ["g", "i", "k"]
    assert [field.name for field in tables[3].fields] == ["g", "s", "rows", "rows_1"]
    assert all(table.distribution == ("g",) for table in tables)
    assert all(table.distribution == () for table in AggregateExecutor.tables(aggregate([], ())))


def test_large_groups_are_summed_exactly() -> None:
    """Whole numbers beyond 64 bits, and floats that lie close together, lose nothing."""
    count = 100_000
    source = np.random.default_rng(1)
    whole, floats = source.integers(-(2**62), 2**62, count), source.normal(1e8, 1, count)
    calls = [
        call(0, Function.AVG, "i", False, None),
        call(1, Function.SUM, "x", False, None),
        call(2, Function.VAR_POP, "x", False, None),
    ]
    node = aggregate(calls, ())
    columns = {"_op": np.ones(count, np.int8), "k": np.arange(count), "i": whole, "x": floats}
    empty = chunk_of(FIELDS, [])
    arrays = [
        pa.array(columns[f.name], f.type) if f.name in columns else pa.nulls(count, f.type)
        for f in empty.schema
    ]
    found = Keeper(node).run(pa.RecordBatch.from_arrays(arrays, schema=empty.schema)).to_pylist()[0]
    assert found["o0"] == sum(whole.tolist()) / count
    assert found["o1"] == math.fsum(floats)
    assert found["o2"] == pytest.approx(np.var(floats - 1e8), rel=1e-9)
