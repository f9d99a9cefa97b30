"""The laws of reads that add up: they are the aggregate over the rows of the plan."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pyarrow as pa
import pytest

from relstate.storage import AggregateFunction, AggregatePlan, PartialAggregate, ReadPlan, Store
from support.stores import upsert

SECOND = 1_000_000
HOUR = 3600


def counts(plan: ReadPlan, group: list[str], partitions: int) -> dict[tuple[object, ...], int]:
    """Return how many rows each group has, from the partial rows of all partitions."""
    schema = plan.definition.schema
    aggregate = PartialAggregate.of(schema, group, [(AggregateFunction.ROWS, "")])
    added_up = AggregatePlan.of(plan, aggregate)
    # Spark pickles a plan that was looked at.
    assert pickle.loads(pickle.dumps(added_up)) == added_up
    totals: dict[tuple[object, ...], int] = {}
    for vnodes in added_up.partitions(partitions):
        for batch in added_up.read(vnodes):
            assert batch.schema == added_up.arrow_schema()
            for *key, count in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                totals[tuple(key)] = totals.get(tuple(key), 0) + count
    return totals


@pytest.fixture
def plan(store: Store) -> ReadPlan:
    """The read of a table whose rows were changed and deleted, and expire after an hour."""
    store.create_table("t", "k INT, g STRING, v INT", primary_key=["k"], ttl=HOUR)
    upsert(store, "t", [(key, "ab"[key % 2], key) for key in range(100)])
    upsert(store, "t", [(key, "c", key) for key in range(10)], [(key, None, None) for key in (50,)])
    return store.read_plan("t")


@pytest.mark.parametrize("partitions", [1, 3])
def test_each_row_is_counted_once(plan: ReadPlan, partitions: int) -> None:
    """The newest version of it, if it is there; whatever columns the plan has."""
    assert counts(plan, [], partitions) == {(): 99}
    assert counts(plan, ["g"], partitions) == {("a",): 44, ("b",): 45, ("c",): 10}
    assert counts(replace(plan, columns=("v",)), ["g"], partitions)[("c",)] == 10


def test_a_condition_decides_which_rows_are_counted(plan: ReadPlan) -> None:
    """On the group's columns and on others, also where no column is added up."""
    assert counts(plan.filtered("v < 20"), [], 2) == {(): 20}
    assert counts(plan.filtered("v < 20 AND k > 5"), ["g"], 2) == {
        ("a",): 5,
        ("b",): 5,
        ("c",): 4,
    }
    assert counts(plan.filtered("v < 0"), ["g"], 2) == {}


def test_expired_rows_are_not_counted(plan: ReadPlan) -> None:
    """By the plan's time, with and without values to read."""
    later = replace(plan, time=plan.time + 2 * HOUR * SECOND)

    assert counts(later, [], 2) == {}
    assert counts(later, ["g"], 2) == {}


def known_count(store: Store) -> int | None:
    """Return the count of the table u that the log knows; None if it does not."""
    plan = store.read_plan("u")
    aggregate = PartialAggregate.of(plan.definition.schema, [], [(AggregateFunction.ROWS, "")])
    known = AggregatePlan.of(plan, aggregate).known()
    assert known is None or known.num_rows == int(store.table("u").count() > 0)
    return None if known is None else sum(known.column(0).to_pylist())


def test_the_log_knows_how_many_rows_there_are(store: Store) -> None:
    """Of a compacted table; not where a file has keys of another, or deletes."""
    store.create_table("u", "k INT, v INT", primary_key=["k"])
    assert known_count(store) == 0
    upsert(store, "u", [(key, key) for key in range(100)])
    assert known_count(store) == 100
    upsert(store, "u", [(3, 4)])
    assert known_count(store) is None
    store.compact()
    assert known_count(store) == 100
    upsert(store, "u", [], [(3, None)])
    assert known_count(store) is None
    store.compact()
    assert known_count(store) == 99


@pytest.mark.parametrize("options", [{"ttl": HOUR}, {"encoding": "document"}])
def test_the_log_does_not_know_what_expires_or_has_parts(
    store: Store, options: dict[str, object]
) -> None:
    """Then the files are read."""
    store.create_table("u", "k INT, v INT", primary_key=["k"], **options)  # type: ignore[arg-type]
    upsert(store, "u", [(1, 1)])

    assert known_count(store) is None


@pytest.mark.parametrize(
    ("group", "least", "most"),
    [
        ([], 1, 1),
        (["few"], 10, 5000),
        (["some"], 1500, 6000),
        (["many"], 15_000, 20_000),
        (["few", "many"], 15_000, 20_000),
    ],
)
def test_the_number_of_groups_is_estimated(
    store: Store, group: list[str], least: int, most: int
) -> None:
    """By the rows of some vnodes, all over the keys; few groups may be as many as half of them."""
    store.create_table("u", "k INT, few INT, some INT, many INT", primary_key=["k"])
    rows = [(key, key % 50, key % 3000, key * 7) for key in range(20_000)]
    upsert(store, "u", rows)
    plan = store.read_plan("u")
    aggregate = PartialAggregate.of(
        plan.definition.schema, group, [(AggregateFunction.COUNT, "many")]
    )

    assert least <= AggregatePlan.of(plan, aggregate).estimated_groups <= most


def test_groups_that_follow_from_keys_are_estimated_by_keys_all_over(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of neighbouring keys, which come first, may be of no group twice."""
    store.create_table("u", "k INT, g INT", primary_key=["k"])
    upsert(store, "u", [(key, key % 5000) for key in range(20_000)])
    plan = store.read_plan("u")
    rows = pa.Table.from_batches(plan.read((range(plan.vnode_count),))).sort_by("k")
    monkeypatch.setattr(ReadPlan, "read", lambda *_: iter(rows.to_batches(max_chunksize=4000)))
    aggregate = PartialAggregate.of(plan.definition.schema, ["g"], [(AggregateFunction.COUNT, "k")])

    assert 2500 <= AggregatePlan.of(plan, aggregate).estimated_groups <= 10_000
