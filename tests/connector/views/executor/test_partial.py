"""The law of rows that are added up before they come: it makes no difference to the groups."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from relstate.connector.views.executor.aggregate import MergingAggregateExecutor
from relstate.connector.views.executor.layout import Layout
from relstate.connector.views.executor.partial import combine
from relstate.connector.views.plan.aggregate import Function
from relstate.storage import errors
from support.changes import chunk_of, net_changes
from support.keeper import FIELDS, UNIVERSE, Keeper, aggregate, call, drawn, next_rows

EXTREMES = (Function.MIN, Function.MAX)
ADDING = [one for one in UNIVERSE if not one[2] and one[0] not in EXTREMES]
ONLY_COMING = [one for one in UNIVERSE if not one[2] or one[0] in EXTREMES]


class MergingKeeper(Keeper):
    """A keeper whose rows come from three tasks, which add them up; their order is random."""

    def __init__(self, node: Any, *, is_ansi: bool = False) -> None:
        super().__init__(node, is_ansi=is_ansi)
        self._source = random.Random(len(node.calls))

    def run(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Run an epoch; nothing is committed."""
        tasks = [self._source.randrange(3) for _ in range(chunk.num_rows)]
        parts = [
            combine(self.node, chunk.filter(pa.array([task == one for task in tasks], pa.bool_())))
            for one in range(3)
        ]
        merging = MergingAggregateExecutor(self.node, self.states, is_ansi=self.is_ansi)
        whole = pa.concat_batches(parts)
        assert merging.count_rows(self.node, whole) == chunk.num_rows
        order = self._source.sample(range(whole.num_rows), whole.num_rows)
        return merging.run(whole.take(pa.array(order, pa.int64())))


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("group", [("g",), ("h", "g"), ()], ids=["text", "floats", "global"])
def test_groups_of_rows_that_were_added_up(seed: int, group: tuple[str, ...]) -> None:
    """After every epoch the outputs, and the state, are what the live rows make."""
    source = random.Random(f"{seed} {group}")
    calls = [call(number, *one) for number, one in enumerate(source.sample(ADDING, 6))]
    keeper = MergingKeeper(aggregate([*calls, call(99, Function.COUNT, None, False, None)], group))
    assert Layout(keeper.node).adds_up
    for _ in range(8):
        keeper.move(next_rows(source, keeper.live))
        keeper.check()
    keeper.check_state()


@pytest.mark.parametrize("seed", range(20))
def test_extremes_of_rows_that_only_come(seed: int) -> None:
    """The least and the greatest values add up, too, where none goes."""
    source = random.Random(seed)
    extremes = [one for one in ONLY_COMING if one[0] in EXTREMES]
    picked = [*source.sample(ONLY_COMING, 3), *source.sample(extremes, 3)]
    calls = [call(number, *one) for number, one in enumerate(picked)]
    keeper = MergingKeeper(aggregate(calls, grows_only=True))
    assert Layout(keeper.node).adds_up
    for _ in range(6):
        keeper.move(next_rows(source, keeper.live, grows_only=True))
        keeper.check()
    keeper.check_state()


def test_what_tables_keep_one_by_one_does_not_add_up() -> None:
    """Distinct values, and extremes that may go, have to be seen."""
    for function, is_distinct in [(Function.COUNT, True), (Function.MIN, False)]:
        assert not Layout(aggregate([call(0, function, "i", is_distinct, None)])).adds_up


def test_the_order_of_tasks_makes_no_difference_to_a_bit() -> None:
    """Sums of floats, too, are the same whichever task comes first."""
    source = random.Random(3)
    calls = [call(0, Function.SUM, "x", False, None), call(1, Function.VAR_POP, "x", False, None)]
    node = aggregate(calls)
    numbers = [source.uniform(-1, 1) * 10 ** source.randrange(9) for _ in range(90)]
    rows = [drawn(source, key) | {"g": "a", "x": x} for key, x in enumerate(numbers)]
    chunk = chunk_of(FIELDS, net_changes({}, {row["k"]: row for row in rows}))
    parts = [combine(node, chunk.slice(start, 30)) for start in (0, 30, 60)]
    found = set()
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0], [2, 1, 0]):
        keeper = Keeper(node)
        merging = MergingAggregateExecutor(node, keeper.states, is_ansi=False)
        merging.run(pa.concat_batches([parts[number] for number in order]))
        found.add(repr([state.written for state in keeper.states]))
    assert len(found) == 1


def test_sums_keep_their_digits_on_the_way() -> None:
    """Tasks' sums beyond 38 digits, of either sign, come to what the values are."""
    node = aggregate([call(0, Function.SUM, "w", False, None)])
    blank = drawn(random.Random(1), 0) | {"g": "a"}
    most, least = Decimal("9" * 34 + ".9999"), Decimal("-" + "9" * 34 + ".9999")
    values = [most] * 30 + [least] * 61 + [most] * 31 + [Decimal("0.0001")] * 3
    rows = [blank | {"k": key, "w": value} for key, value in enumerate(values)]
    chunk = chunk_of(FIELDS, net_changes({}, {row["k"]: row for row in rows}))
    parts = [combine(node, chunk.slice(start, 31)) for start in range(0, chunk.num_rows, 31)]
    keeper = Keeper(node)
    merging = MergingAggregateExecutor(node, keeper.states, is_ansi=False)
    (row,) = merging.run(pa.concat_batches(parts)).to_pylist()
    assert row["o0"] == Decimal("0.0003")


def test_more_rows_that_go_than_there_were_are_found() -> None:
    """They are counted by the tasks, and told where the group lives."""
    keeper = MergingKeeper(aggregate([call(0, Function.SUM, "i", False, None)]))
    row = drawn(random.Random(1), 1) | {"g": "a", "i": 1}
    keeper.move({1: row})
    changes = net_changes({key: {**row, "k": key} for key in (1, 2)}, {3: {**row, "k": 3}})
    with pytest.raises(errors.ConsistencyError, match="has 1 rows, but 2 are deleted"):
        keeper.run(chunk_of(FIELDS, changes))
