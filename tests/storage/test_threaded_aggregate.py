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
    Value,
    add_up_in_threads,
    bind_value,
    threaded_aggregate,
)
from relstate.storage.aggregate.adding import MANY_GROUPS
from relstate.storage.syntax import parse_condition
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


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("most_gathered", [None, 500])
def test_many_groups_are_added_up_once(
    plan: ReadPlan, monkeypatch: pytest.MonkeyPatch, threads: int, most_gathered: int | None
) -> None:
    """Of rows that the threads have gathered, or of partial rows of those that have too many."""
    monkeypatch.setattr(threaded_aggregate, "_MOST_GROUPS_OF_THREADS", 0)
    if most_gathered is not None:
        limits = replace(MANY_GROUPS, at_once=(most_gathered, 1 << 20))
        monkeypatch.setattr(threaded_aggregate, "MANY_GROUPS", limits)
    for group in ("g", "k"):
        batches = list(sums(plan, [group]).read((range(plan.vnode_count),)))
        added_up = add_up_in_threads(sums(plan, [group]), threads)

        assert added_up is not None
        assert added_up.is_final
        schema = sums(plan, [group]).arrow_schema()
        assert totals(added_up.partials) == totals(pa.Table.from_batches(batches, schema))
        assert added_up.partials.num_rows == len(totals(added_up.partials))


@pytest.mark.parametrize("most_groups_of_threads", [-1, 1 << 20])
def test_groups_are_final_where_nothing_is_left_to_add_up(
    store: Store, monkeypatch: pytest.MonkeyPatch, most_groups_of_threads: int
) -> None:
    """Not those of floats, of which equal ones may differ in bytes, nor sums that may overflow."""
    monkeypatch.setattr(threaded_aggregate, "_MOST_GROUPS_OF_THREADS", most_groups_of_threads)
    store.create_table("f", "k INT, g INT, d DOUBLE, l BIGINT", primary_key=["k"])
    rows = [(1, 1, 0.0, 2**62), (2, 1, -0.0, 2**62), (3, 2, 1.0, 0), (4, None, None, 5)]
    upsert(store, "f", rows)
    plan = store.read_plan("f")
    schema = plan.definition.schema
    quotient = bind_value(parse_condition("10 div (g - 2)"), schema, "UTC")

    def is_final(
        group: str, function: AggregateFunction, value: str | Value, where: str = "k > 0"
    ) -> bool:
        aggregate = PartialAggregate.of(schema, [group], [(function, value)])
        added_up = add_up_in_threads(AggregatePlan.of(plan.filtered(where), aggregate), 2)
        assert added_up is not None
        return added_up.is_final

    assert is_final("g", AggregateFunction.MAX, "d")
    assert is_final("g", AggregateFunction.MAX, "d", "k > 9")
    assert not is_final("d", AggregateFunction.MAX, "g")
    assert not is_final("g", AggregateFunction.SUM, "l")
    assert is_final("g", AggregateFunction.SUM, "l", "k > 2")
    assert not is_final("g", AggregateFunction.FAILURE, quotient)
    assert is_final("g", AggregateFunction.FAILURE, quotient, "k < 3")


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
            assert is_read.wait(120)
            raise KeyboardInterrupt
        while True:
            is_read.set()
            yield batch

    monkeypatch.setattr(ReadPlan, "read", read)
    monkeypatch.setattr(AggregatePlan, "estimated_groups", 1)
    with pytest.raises(KeyboardInterrupt):
        add_up_in_threads(sums(plan, ["g"]), 3)
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith("relstate-aggregate")]
