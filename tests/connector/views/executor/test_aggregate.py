"""The law of the aggregate: after every epoch its groups are those of the rows that exist."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest

from relstate.connector.views.executor.aggregate import AggregateExecutor
from relstate.connector.views.plan.aggregate import Function
from support.changes import chunk_of, net_changes
from support.examples import examples
from support.keeper import (
    ARGUMENTS,
    FIELDS,
    FLOATS,
    UNIVERSE,
    Keeper,
    aggregate,
    call,
    drawn,
    next_rows,
)


@pytest.mark.parametrize("seed", range(examples(40)))
@pytest.mark.parametrize("group", [("g",), ("h", "g"), ()], ids=["text", "floats", "global"])
def test_the_groups_are_those_of_the_rows(seed: int, group: tuple[str, ...]) -> None:
    """After every epoch the outputs and the state are what the existing rows make."""
    source = random.Random(f"{seed} {group}")
    picked = source.sample(UNIVERSE, source.randrange(1, 9))
    calls = [call(number, *signature) for number, signature in enumerate(picked)]
    keeper = Keeper(aggregate([*calls, call(99, Function.COUNT, None, False, None)], group))
    for _ in range(8):
        keeper.move(next_rows(source, keeper.live))
        keeper.check()
    keeper.check_state()


@pytest.mark.parametrize("seed", range(examples(30)))
def test_rows_that_are_only_inserted(seed: int) -> None:
    """The same holds where least and greatest values are stored without a table of their own."""
    source = random.Random(seed)
    picked = source.sample(UNIVERSE, source.randrange(1, 9))
    calls = [call(number, *signature) for number, signature in enumerate(picked)]
    keeper = Keeper(aggregate(calls, grows_only=True))
    for _ in range(6):
        keeper.move(next_rows(source, keeper.live, grows_only=True))
        keeper.check()
    keeper.check_state()
    assert not any("min" in state.spec.role or "max" in state.spec.role for state in keeper.states)


@pytest.mark.parametrize("seed", range(examples(25)))
def test_rows_in_another_order_give_equal_bits(seed: int) -> None:
    """Two attempts over equal changes write and return the same, floats to the last bit."""
    source = random.Random(seed)
    picked = [signature for signature in UNIVERSE if signature[1] in (*FLOATS, "s")]
    calls = [call(number, *signature) for number, signature in enumerate(source.sample(picked, 6))]
    keeper = Keeper(aggregate(calls))
    keeper.move(next_rows(source, {}))
    for _ in range(4):
        new = next_rows(source, keeper.live)
        changes = net_changes(keeper.live, new)
        results = []
        for _ in range(2):
            source.shuffle(changes)
            attempt = Keeper(keeper.node)
            attempt.states = keeper.states
            rows = attempt.run(chunk_of(FIELDS, changes))
            written = [repr(state.written) for state in attempt.states]
            results.append((repr(rows.to_pylist()), written))
            for state in keeper.states:
                state.forget()
        assert results[0] == results[1]
        keeper.move(new)


def test_distinct_rows() -> None:
    """Without calls there is one row per group, and only new and removed groups are emitted."""
    keeper = Keeper(aggregate([], ("g", "p")))
    source = random.Random(1)
    for _ in range(20):
        keeper.move(next_rows(source, keeper.live))
        keeper.check()
    again = keeper.move({key + 1000: {**row, "k": key + 1000} for key, row in keeper.live.items()})
    assert again.num_rows == 0


def test_a_global_aggregate_always_has_its_row() -> None:
    """The row is emitted in the first epoch, even without input, and in no later idle epoch."""
    calls = [call(number, function, "x", False, None) for number, function in enumerate(ARGUMENTS)]
    keeper = Keeper(aggregate(calls, ()))
    first = keeper.move({})
    assert first.to_pylist() == [
        {"_op": 1, "one": 0, **{call.output.name: None for call in keeper.node.calls}, "o0": 0}
    ]
    assert keeper.move({}).num_rows == 0
    keeper.move({1: drawn(random.Random(1), 1)})
    keeper.move({})
    keeper.check()
    assert len(keeper.states[0].rows) == 1


def test_unchanged_results_are_not_emitted() -> None:
    """Replacing a row by an equal one emits nothing; neither does replacing NaN by NaN."""
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
def test_no_rounding_error_remains_after_the_values(function: Function) -> None:
    """When the last finite value is deleted the sum is 0 again, though the group has other rows."""
    keeper = Keeper(aggregate([call(0, function, "x", False, None)]))
    blank = drawn(random.Random(4), 0) | {"g": "a"}
    values = {1: 1e100, 2: 0.1, 3: math.inf}
    rows = {key: {**blank, "k": key, "x": x} for key, x in values.items()}
    for keys in ([1, 3], [1, 2, 3], [2, 3], [3]):
        keeper.move({key: rows[key] for key in keys})
    state = keeper.states[0].rows[0]
    assert {state[name] for name in state if "_sum" in name or "squares" in name} == {0}
    keeper.move({4: {**blank, "k": 4, "x": 5.0}, 5: {**blank, "k": 5, "x": 7.0}})
    assert keeper.rows[next(iter(keeper.rows))]["o0"] == (12 if function is Function.SUM else 1)


@pytest.mark.parametrize("large", [[1e200], [1.7e308] * 2, [1e145, -1e200, 1.7e308, -1.7e308]])
def test_overflow_is_undone_by_deletes(large: list[float]) -> None:
    """Values whose sums or squares overflow give infinity while they exist, and no trace
    afterwards.
    """
    functions = (Function.SUM, Function.AVG, Function.STDDEV_POP, Function.VAR_SAMP)
    calls = [call(number, function, "x", False, None) for number, function in enumerate(functions)]
    keeper = Keeper(aggregate(calls))
    blank = drawn(random.Random(4), 0) | {"g": "a"}
    few = {key: {**blank, "k": key, "x": x} for key, x in enumerate([1.0, 2.0, 4.5])}
    more = {key: {**blank, "k": key, "x": x} for key, x in enumerate(large, 10)}
    keeper.move(few)
    (before,) = keeper.rows.values()
    keeper.move({**few, **more})
    (row,) = keeper.rows.values()
    assert (row["o2"], row["o3"]) == (math.inf, math.inf)
    assert row["o0"] == (math.inf if math.fsum(x / 2 for x in large) > 1e308 else math.fsum(large))
    for key in more:
        keeper.move({live: row for live, row in keeper.live.items() if live != key})
    assert list(keeper.rows.values()) == [before]
    keeper.move(more)
    assert len(keeper.rows) == 1


def test_large_values_have_a_variance() -> None:
    """It is finite where it fits a double: 0 for equal values, NULL for a sample of one."""
    calls = [
        call(0, Function.VAR_POP, "x", False, None),
        call(1, Function.STDDEV_SAMP, "x", False, None),
        call(2, Function.AVG, "x", False, None),
    ]
    blank = drawn(random.Random(4), 0) | {"g": "a"}
    for values, expected in (
        ([1e200], (0.0, None, 1e200)),
        ([1e200, 1e200], (0.0, 0.0, 1e200)),
        ([1e160, 0.0], (math.inf, math.inf, 5e159)),
    ):
        keeper = Keeper(aggregate(calls))
        keeper.move({key: {**blank, "k": key, "x": x} for key, x in enumerate(values)})
        (row,) = keeper.rows.values()
        assert (row["o0"], row["o1"], row["o2"]) == expected


def test_the_zero_of_a_sum_has_no_sign_and_one_value_no_variance() -> None:
    """As in Spark, whatever values the group had before."""
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
    results = {row["g"]: (repr(row["o0"]), repr(row["o1"])) for row in keeper.rows.values()}
    assert results == {"a": ("0.0", "0.0"), "b": ("0.1", "0.0")}


@pytest.mark.parametrize("seed", range(examples(20)))
def test_both_ends_of_values_of_every_type_are_those_of_the_rows(seed: int) -> None:
    """The least and the greatest of one argument, of which either is asked for first."""
    source = random.Random(seed)
    argument, condition = source.choice(
        [(name, where) for function, name, _, where in UNIVERSE if function is Function.MIN]
    )
    functions = source.sample([Function.MIN, Function.MAX], 2)
    calls = [call(n, function, argument, False, condition) for n, function in enumerate(functions)]
    keeper = Keeper(aggregate(calls))
    assert len(keeper.states) == 2
    for _ in range(12):
        keeper.move(next_rows(source, keeper.live))
        keeper.check()
    keeper.check_state()


def test_an_extreme_is_looked_up_only_where_it_is_deleted() -> None:
    """The table of values is not read for groups that keep their extreme or get a better one."""
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
    assert table.reads == 1 + 10, "the next value, and as many as are deleted"
    keeper.move({})
    assert table.reads == 1 + 10, "a deleted group has no extreme"


@pytest.mark.parametrize("functions", [*permutations([Function.MIN, Function.MAX])])
@pytest.mark.parametrize("argument", ["i", "x"])
def test_the_least_and_the_greatest_are_the_ends_of_one_table(
    functions: Sequence[Function], argument: str
) -> None:
    """Each value is stored once; either end is read only where its value is deleted."""
    keeper = Keeper(
        aggregate(
            [call(n, function, argument, False, None) for n, function in enumerate(functions)]
        )
    )
    assert len(keeper.states) == 2
    blank = drawn(random.Random(3), 0) | {"g": "a"}
    rows = {key: {**blank, "k": key, argument: key} for key in range(100)}
    keeper.move(rows)
    table = keeper.states[1]
    for change in (range(5, 100), range(5, 90), range(20, 50)):
        keeper.move({key: rows[key] for key in change})
        keeper.check()
    assert table.reads == (5 + 1) + (10 + 1) + 2 * (15 + 40 + 1)


def test_tables_are_named_for_what_they_hold() -> None:
    """One row per group for all calls; one table of sorted or distinct values per argument."""
    node = aggregate(
        [
            call(0, Function.SUM, "x", False, None),
            call(1, Function.AVG, "x", False, None),
            call(2, Function.MIN, "i", True, "p"),
            call(3, Function.MIN, "i", False, "q"),
            call(4, Function.COUNT, "s", True, None),
            call(5, Function.SUM, "n", True, "p"),
            call(6, Function.COUNT, "s", True, "q"),
            call(7, Function.MAX, "i", False, "q"),
        ]
    )
    tables = AggregateExecutor.tables(node)
    assert [table.role for table in tables] == [
        "groups",
        "min_i",
        "min_max_i",
        "distinct_s",
        "distinct_n",
    ]
    assert [field.name for field in tables[0].fields] == [
        *("g", "row_count", "o0_sum", "o0_sum_rest", "o0_large_sum", "o0_large_sum_rest"),
        *(
            "o0_finite",
            "o0_large",
            "o0_nan",
            "o0_infinity",
            "o0_minus_infinity",
            "o2_min",
            "o3_min",
            "o4_count",
            "o5_sum",
            "o5_count",
            "o6_count",
            "o7_max",
        ),
    ]
    assert [order.name for order in tables[1].primary_key] == ["g", "i", "k"]
    assert [field.name for field in tables[3].fields] == ["g", "s", "rows", "rows_1"]
    assert all(table.distribution == ("g",) for table in tables)
    assert all(table.distribution == () for table in AggregateExecutor.tables(aggregate([], ())))


def test_large_groups_are_summed_exactly() -> None:
    """Whole numbers beyond 64 bits, and floats of nearly equal size, lose no precision."""
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
    chunk = pa.RecordBatch.from_arrays(arrays, schema=empty.schema)
    (result,) = Keeper(node).run(chunk).to_pylist()
    assert result["o0"] == sum(whole.tolist()) / count
    assert result["o1"] == math.fsum(floats)
    assert result["o2"] == pytest.approx(np.var(floats - 1e8), rel=1e-9)
