"""The window executor keeps the values of functions right, and touches only rows near a change."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from relstate.connector.views.executor.window import WindowExecutor
from relstate.connector.views.plan.frame import Frame
from relstate.connector.views.plan.node import Order
from relstate.connector.views.plan.window import OrderedWindow
from relstate.storage import Op, errors, types
from support.changes import Change, Rows, epochs, net_changes, scan, shown, shuffled
from support.examples import Seeds
from support.window_model import (
    CASES,
    FIELDS,
    RUNNING,
    F,
    WindowBench,
    call,
    chunk,
    model,
    row_of,
    values,
    window,
)


@pytest.fixture
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only two rows be read before and after a change at first."""
    monkeypatch.setattr("relstate.connector.views.executor.window._LEAST_ROWS", 2)
    monkeypatch.setattr("relstate.connector.views.executor.window._GROWTH", 2)


@pytest.fixture
def small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a portion hold about six rows, and at most a dozen unless it is one partition."""
    package = "relstate.connector.views.executor"
    for module in ("portions", "window"):
        monkeypatch.setattr(f"{package}.{module}.HELD_ROWS", 6)
    monkeypatch.setattr(f"{package}.window._SPARE", 2)
    monkeypatch.setattr(f"{package}.portions._FIRST_CHANGES", 2)


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


@pytest.mark.usefixtures("few_rows", "small_portions")
@pytest.mark.parametrize("case", CASES)
def test_the_output_is_right_in_small_portions(case: str, seeds: Seeds) -> None:
    """Some partitions are processed after others, and again where more is read than fits."""
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


def test_rows_are_held_for_some_partitions_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many changed partitions as many are read as fit, each to its end; each row is emitted."""
    held = 400
    for module in ("portions", "window"):
        monkeypatch.setattr(f"relstate.connector.views.executor.{module}.HELD_ROWS", held)
    node = replace(window((Order("o"),), call(F.SUM, "n", RUNNING)), group=("p",))
    bench, rows = WindowBench(node), large(8000, lambda number: number % 80)
    bench.step(chunk(net_changes({}, rows)))
    changed = {i: {**rows[i], "n": rows[i]["n"] + 1} for i in range(80)}
    executor = WindowExecutor(node, [bench.state])

    batches = executor.batches(chunk(net_changes(rows, {**rows, **changed})))
    emitted = [batch.num_rows for batch in batches]

    assert sum(emitted) == 2 * len(rows)
    assert held <= max(emitted) <= 2 * 4 * held


@pytest.mark.usefixtures("few_rows")
def test_large_partitions_after_small_ones_are_read_to_their_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The share of each in a portion ends before its last changed row: fewer are tried at once."""
    package = "relstate.connector.views.executor"
    for module in ("portions", "window"):
        monkeypatch.setattr(f"{package}.{module}.HELD_ROWS", 100)
    monkeypatch.setattr(f"{package}.portions._FIRST_CHANGES", 8)
    node = replace(window((Order("o"),), call(F.SUM, "n", RUNNING)), group=("p",))
    bench = WindowBench(node)
    rows = large(1680, lambda number: number // 8 if number < 480 else 60 + (number - 480) // 200)
    bench.step(chunk(net_changes({}, rows)))
    firsts = (*range(0, 480, 8), *range(480, 1680, 200), *range(630, 1680, 200))
    new = {**rows, **{i: {**rows[i], "n": rows[i]["n"] + 1} for i in firsts}}

    bench.step(chunk(net_changes(rows, new)))

    assert bench.mirror.content() == sorted(map(shown, model(node, new)))


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
