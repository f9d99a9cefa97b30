"""The laws of aggregates in threads: what tasks would send, or nothing, and no thread is left."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from relstate.storage import (
    AggregateFunction,
    AggregatePlan,
    PartialAggregate,
    ReadPlan,
    Store,
    add_up_in_threads,
    threaded_aggregate,
)
from support.stores import upsert

SECOND = 1_000_000
HOUR = 3600
ROWS = 4_000


@pytest.fixture
def plan(store: Store) -> ReadPlan:
    """The read of a table whose rows were changed, and expire after an hour."""
    store.create_table("t", "k INT, g INT, v INT", primary_key=["k"], ttl=HOUR)
    upsert(store, "t", [(key, key % 7, key) for key in range(ROWS)])
    upsert(store, "t", [(key, 9, 1) for key in range(0, ROWS, 4)])
    return store.read_plan("t")


def sums(plan: ReadPlan, group: list[str]) -> AggregatePlan:
    """Return the plan of the count and the sum of v by some columns."""
    measures = [(AggregateFunction.ROWS, ""), (AggregateFunction.SUM, "v")]
    return AggregatePlan.of(plan, PartialAggregate.of(plan.definition.schema, group, measures))


def partials_of(plan: AggregatePlan, threads: int) -> pa.Table:
    """Return the partial rows that threads add up, which must not be too many."""
    added_up = add_up_in_threads(plan, threads)
    assert added_up is not None
    return added_up.partials


def totals(partials: pa.Table) -> dict[int, tuple[int, int]]:
    """Return the count and the sum of each group, of partial rows by one column."""
    result: dict[int, tuple[int, int]] = {}
    for group, count, total in zip(*(c.to_pylist() for c in partials.columns), strict=True):
        before = result.get(group, (0, 0))
        result[group] = (before[0] + count, before[1] + total)
    return result


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_add_up_what_tasks_do(plan: ReadPlan, threads: int) -> None:
    """Whatever their number, also under a condition, and of an earlier time or a later one."""
    for read in (plan, plan.filtered("v % 3 = 0"), plan.filtered("v < -1")):
        added_up = sums(read, ["g"])
        batches = list(added_up.read((range(read.vnode_count),)))
        expected = totals(pa.Table.from_batches(batches, added_up.arrow_schema()))

        partials = partials_of(added_up, threads)
        assert partials.num_rows == len(expected)
        assert totals(partials) == expected
    later = replace(plan, time=plan.time + 2 * HOUR * SECOND)
    assert totals(partials_of(sums(later, ["g"]), threads)) == {}


def test_too_many_groups_are_not_held(plan: ReadPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither too many rows, nor too many bytes of them."""
    added_up = sums(plan, ["k"])
    assert len(totals(partials_of(added_up, 2))) == ROWS
    monkeypatch.setattr(threaded_aggregate, "_MOST_ROWS", ROWS - 1)
    assert add_up_in_threads(added_up, 2) is None
    monkeypatch.setattr(threaded_aggregate, "_MOST_ROWS", ROWS)
    monkeypatch.setattr(threaded_aggregate, "_MOST_BYTES", 1000)
    assert add_up_in_threads(added_up, 2) is None


@pytest.mark.parametrize("fails_here", [True, False])
def test_a_failure_ends_all_threads(
    plan: ReadPlan, monkeypatch: pytest.MonkeyPatch, fails_here: bool
) -> None:
    """As Ctrl-C in the thread that waits: the others end after a batch, and nothing remains."""
    batch = next(plan.read((range(plan.vnode_count),)))
    is_read = threading.Event()

    def read(*_: object) -> Iterator[pa.RecordBatch]:
        is_caller = threading.current_thread() is threading.main_thread()
        yield batch
        if is_caller is fails_here:
            assert is_read.wait(10)
            raise KeyboardInterrupt
        while True:
            is_read.set()
            yield batch

    monkeypatch.setattr(ReadPlan, "read", read)
    with pytest.raises(KeyboardInterrupt):
        add_up_in_threads(sums(plan, ["g"]), 3)
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith("relstate-aggregate")]
