"""Aggregates over rows that tasks have added up before the shuffle equal those over the rows."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from relstate.connector.views.executor.aggregate import MergingAggregateExecutor
from relstate.connector.views.executor.partial import combine
from relstate.connector.views.executor.state_layout import StateLayout
from relstate.connector.views.plan.aggregate import Function
from relstate.storage import errors
from support.changes import chunk_of, net_changes
from support.examples import examples
from support.keeper import FIELDS, UNIVERSE, Keeper, aggregate, call, drawn, next_rows

EXTREMES = (Function.MIN, Function.MAX)
WITH_VALUES = (*EXTREMES, Function.MODE)
ADDING = [call for call in UNIVERSE if not call[2] and call[0] not in WITH_VALUES]
INSERT_ONLY = [*ADDING, *(call for call in UNIVERSE if call[0] in EXTREMES)]


class MergingKeeper(Keeper):
    """A keeper whose rows are added up by three tasks, and arrive in random order."""

    def __init__(self, node: Any, *, is_ansi: bool = False) -> None:
        super().__init__(node, is_ansi=is_ansi)
        self._source = random.Random(len(node.calls))

    def run(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Run an epoch; nothing is committed."""
        tasks = [self._source.randrange(3) for _ in range(chunk.num_rows)]
        parts = [
            combine(self.node, chunk.filter(pa.array([t == task for t in tasks], pa.bool_())))
            for task in range(3)
        ]
        merging = MergingAggregateExecutor(self.node, self.states, is_ansi=self.is_ansi)
        whole = pa.concat_batches(parts)
        assert merging.count_rows(self.node, whole, 0) == chunk.num_rows
        order = self._source.sample(range(whole.num_rows), whole.num_rows)
        return merging.run(whole.take(pa.array(order, pa.int64())))


@pytest.mark.parametrize("seed", range(examples(25)))
@pytest.mark.parametrize("group", [("g",), ("h", "g"), ()], ids=["text", "floats", "global"])
def test_groups_of_rows_that_were_added_up(seed: int, group: tuple[str, ...]) -> None:
    """After every epoch the outputs and the state are what the existing rows make."""
    source = random.Random(f"{seed} {group}")
    calls = [call(number, *signature) for number, signature in enumerate(source.sample(ADDING, 6))]
    keeper = MergingKeeper(aggregate([*calls, call(99, Function.COUNT, None, False, None)], group))
    assert StateLayout(keeper.node).adds_up
    for _ in range(8):
        keeper.move(next_rows(source, keeper.live))
        keeper.check()
    keeper.check_state()


@pytest.mark.parametrize("seed", range(examples(20)))
def test_extremes_of_rows_that_are_only_inserted(seed: int) -> None:
    """Least and greatest values add up, too, if no row is deleted."""
    source = random.Random(seed)
    extremes = [signature for signature in INSERT_ONLY if signature[0] in EXTREMES]
    picked = [*source.sample(INSERT_ONLY, 3), *source.sample(extremes, 3)]
    calls = [call(number, *signature) for number, signature in enumerate(picked)]
    keeper = MergingKeeper(aggregate(calls, grows_only=True))
    assert StateLayout(keeper.node).adds_up
    for _ in range(6):
        keeper.move(next_rows(source, keeper.live, grows_only=True))
        keeper.check()
    keeper.check_state()


def test_values_that_are_stored_singly_do_not_add_up() -> None:
    """Distinct values, and extremes that may be deleted, need the single rows."""
    for function, is_distinct in [(Function.COUNT, True), (Function.MIN, False)]:
        assert not StateLayout(aggregate([call(0, function, "i", is_distinct, None)])).adds_up


def test_the_order_of_tasks_does_not_matter() -> None:
    """Sums of floats are the same to the last bit whichever task comes first."""
    source = random.Random(3)
    calls = [call(0, Function.SUM, "x", False, None), call(1, Function.VAR_POP, "x", False, None)]
    node = aggregate(calls)
    numbers = [source.uniform(-1, 1) * 10 ** source.randrange(9) for _ in range(90)]
    rows = [drawn(source, key) | {"g": "a", "x": x} for key, x in enumerate(numbers)]
    chunk = chunk_of(FIELDS, net_changes({}, {row["k"]: row for row in rows}))
    parts = [combine(node, chunk.slice(start, 30)) for start in (0, 30, 60)]
    results = set()
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0], [2, 1, 0]):
        keeper = Keeper(node)
        merging = MergingAggregateExecutor(node, keeper.states, is_ansi=False)
        merging.run(pa.concat_batches([parts[number] for number in order]))
        results.add(repr([state.written for state in keeper.states]))
    assert len(results) == 1


def test_sums_keep_their_digits_on_the_way() -> None:
    """Sums of tasks may exceed 38 digits, with either sign; the total is exact."""
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


def test_more_rows_are_deleted_than_exist() -> None:
    """Tasks count the deleted rows; the unit of the group raises the error."""
    keeper = MergingKeeper(aggregate([call(0, Function.SUM, "i", False, None)]))
    row = drawn(random.Random(1), 1) | {"g": "a", "i": 1}
    keeper.move({1: row})
    changes = net_changes({key: {**row, "k": key} for key in (1, 2)}, {3: {**row, "k": 3}})
    with pytest.raises(errors.ConsistencyError, match="has 1 rows, but 2 are deleted"):
        keeper.run(chunk_of(FIELDS, changes))
