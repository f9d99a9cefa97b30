"""Rows that expire: which reads return them, and until when."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from relstate.storage import Store, moment_of
from relstate.storage.errors import (
    OptionError,
    SchemaError,
    SchemaMismatchError,
    ValueRangeError,
)
from support.clock import ManualClock
from support.commits import quick_environment
from support.views import new_view


@pytest.fixture
def clock() -> ManualClock:
    """The clock of the store."""
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    """A store with a table whose rows live for a minute."""
    path = str(tmp_path / "store")
    environment = quick_environment(path, clock)
    with Store.create(path, vnode_count=4, environment=environment) as store:
        store.create_table("t", "k INT, v STRING", primary_key=["k"], ttl=60)
        yield store
        assert store.check().ok


def rows(**values: str) -> pa.RecordBatch:
    """Return rows by key, which begins with ``k``."""
    keys = pa.array([int(key[1:]) for key in values], pa.int32())
    return pa.record_batch({"k": keys, "v": pa.array(list(values.values()))})


def seen(store: Store, epoch: int | None = None) -> dict[int, str]:
    """Return what a scan sees, after checking that lookups and counts see the same."""
    table = store.table("t") if epoch is None else store.at(epoch).table("t")
    scanned = {row["k"]: row["v"] for row in table.to_arrow().to_pylist()}
    keys = pa.record_batch({"k": pa.array(range(9), pa.int32())})
    assert {row["k"]: row["v"] for row in table.get_rows(keys).to_pylist()} == scanned
    assert {key: row.v for key in range(9) if (row := table.get(key)) is not None} == scanned
    assert table.count() == len(scanned)
    return scanned


def test_a_row_is_seen_until_it_expires(store: Store, clock: ManualClock) -> None:
    """Each row by the time when it was written; a read of the latest epoch goes by the clock."""
    store.write("t", rows(k1="a"))
    clock.advance(30)
    store.write("t", rows(k2="b"))
    assert seen(store) == {1: "a", 2: "b"}

    clock.advance(29.9)
    assert seen(store) == {1: "a", 2: "b"}
    clock.advance(0.1)
    assert seen(store) == {2: "b"}
    clock.advance(30)
    assert seen(store) == {}


def test_an_epoch_answers_the_same_for_ever(store: Store, clock: ManualClock) -> None:
    """Rows expire by the time of the epoch, however late it is read."""
    first = store.write("t", rows(k1="a"))
    clock.advance(59)
    second = store.write("t", rows(k2="b"))
    clock.advance(59)
    third = store.write("t", rows(k3="c"))
    clock.advance(10**6)

    for _ in range(2):
        assert seen(store, first) == {1: "a"}
        assert seen(store, second) == {1: "a", 2: "b"}
        assert seen(store, third) == {2: "b", 3: "c"}
    assert seen(store) == {}


def test_an_expired_row_hides_what_is_older(store: Store, clock: ManualClock) -> None:
    """The older row was replaced; it does not come back when its successor expires."""
    store.set_ttl("t", None)
    store.write("t", rows(k1="for ever"))
    store.set_ttl("t", 10)
    store.write("t", rows(k1="for a while"))
    assert seen(store) == {1: "for a while"}

    clock.advance(11)
    assert seen(store) == {}


def test_altering_the_ttl_is_for_later_writes(store: Store, clock: ManualClock) -> None:
    """Rows written before keep their expiry; a row that is written again gets the new one."""
    store.write("t", rows(k1="a", k2="b"))
    store.set_ttl("t", 3600)
    store.write("t", rows(k2="b", k3="c"))

    clock.advance(61)
    assert seen(store) == {2: "b", 3: "c"}


def test_a_row_may_have_a_ttl_of_its_own(store: Store, clock: ManualClock) -> None:
    """NULL stands for the table's TTL; in a table without one, the row never expires."""
    store.write("t", rows(k1="a", k2="b"), ttls=pa.array([5, None]))
    clock.advance(6)
    assert seen(store) == {2: "b"}

    store.set_ttl("t", None)
    store.write("t", rows(k3="c", k4="d"), ttls=pa.array([5, None]))
    clock.advance(10**6)
    assert seen(store) == {4: "d"}


@pytest.mark.parametrize("ttl", [0, -1, 2**62])
def test_a_ttl_must_be_seconds_to_come(store: Store, ttl: int) -> None:
    """Nothing is written otherwise."""
    with pytest.raises(ValueRangeError, match="a TTL is in seconds"):
        store.write("t", rows(k1="a"), ttls=pa.array([ttl]))
    if ttl < 1:
        with pytest.raises(SchemaError, match="ttl is a whole number of seconds from 1"):
            store.set_ttl("t", ttl)
    assert seen(store) == {}


def test_a_clock_that_goes_backwards_does_not_bring_rows_back(
    store: Store, clock: ManualClock
) -> None:
    """A plan never goes by an earlier time than that of the last commit."""
    store.write("t", rows(k1="a"))
    clock.advance(61)
    store.write("t", rows(k2="b"))
    clock.set_back(50)

    plan = store.read_plan("t")
    assert [row["k"] for part in plan.open().scan() for row in part.to_pylist()] == [2]


def test_a_plan_of_a_named_epoch_is_judged_by_its_time(store: Store, clock: ManualClock) -> None:
    """Also that of the latest epoch, if it is named; unless a time is given, too."""
    epoch = store.write("t", rows(k1="a"))
    clock.advance(61)

    def count(**how: Any) -> int:
        return store.read_plan("t", **how).open().count()

    assert count() == 0
    assert count(epoch=epoch) == 1
    assert count(epoch=epoch, time=moment_of(clock.now())) == 0
    with pytest.raises(OptionError, match="no time zone"):
        count(time=datetime(2026, 1, 1))


@pytest.mark.parametrize("way", ["own", "table's", "merged"])
def test_a_view_is_not_created_over_rows_that_expire(
    store: Store, clock: ManualClock, way: str
) -> None:
    """Even for a TTL that the table no longer has, if the view was planned without it."""
    if way == "table's":
        store.write("t", rows(k1="a", k2="b"))
        store.set_ttl("t", None)
    else:
        store.set_ttl("t", None)
        store.write("t", rows(k1="a"))
        store.write("t", rows(k2="b", k3="c"), ttls=pa.array([60, None]))
    if way == "merged":
        store.compact()
    with pytest.raises(SchemaError, match="'v' cannot read table 't', whose rows expire"):
        store.view_catalog.create(new_view(store, "v", "t"))

    if way == "own":
        store.write("t", store.table("t").to_arrow(), overwrite=True)
    else:
        clock.advance(100)
        store.write("t", rows(k9="later"))
        store.compact()
    store.view_catalog.create(new_view(store, "v", "t"))


@pytest.mark.parametrize("ttls", [[5], [5, 5, 5], []])
def test_there_is_one_ttl_for_each_row(tmp_path: Path, ttls: list[int]) -> None:
    """Rows, and patches, with more or fewer are refused, and nothing is written."""
    with Store.create(str(tmp_path / "store"), vnode_count=2) as store:
        for encoding in ("row", "document"):
            store.create_table(encoding, "k INT, v INT", primary_key=["k"], encoding=encoding)
        batch = pa.table({"k": [1, 2], "v": [1, 2]})
        epoch = store.epoch
        changes: list[tuple[Callable[..., object], str]]
        changes = [(store.write, "row"), (store.patch, "document")]
        for change, table in changes:
            with pytest.raises(SchemaMismatchError, match=f"{len(ttls)} TTLs for"):
                change(table, batch, ttls=pa.array(ttls, pa.int64()))
        assert store.epoch == epoch


@pytest.mark.parametrize("ttls", [5, [5, 5], pa.array(["a", "b"]), pa.array([5.5, 5.5])])
def test_ttls_are_an_array_of_whole_numbers(tmp_path: Path, ttls: Any) -> None:
    """Anything else is refused by an error that says what is needed, and nothing is written."""
    with Store.create(str(tmp_path / "store"), vnode_count=2) as store:
        store.create_table("t", "k INT, v INT", primary_key=["k"])
        epoch = store.epoch
        with pytest.raises(SchemaMismatchError, match="an array of whole seconds"):
            store.write("t", pa.table({"k": [1, 2], "v": [1, 2]}), ttls=ttls)
        assert store.epoch == epoch
