"""What a store in a bucket costs in requests."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from relstate.storage import Proposal, ReadPlan, Store
from relstate.storage.clock import SystemClock
from relstate.storage.errors import (
    OptionError,
    SchemaMismatchError,
    TableExistsError,
    TableNotFoundError,
)
from relstate.storage.log.entry import Entry
from relstate.storage.objects.client import IsWanted, Take
from relstate.storage.table.storagetable import StorageTable
from support.clock import ManualClock
from support.object_stores import CountedStore
from support.stores import upsert, written

Opener = Callable[[], CountedStore]


@pytest.fixture
def opener(tmp_path: Path) -> Opener:
    """Return what makes environments of one store, as processes of one machine have them."""
    uri = f"memory://{uuid.uuid4().hex}/shop"
    return lambda: CountedStore(uri, tmp_path / "cache")


@pytest.fixture
def store(opener: Opener) -> Store:
    """Return a store with a table of some rows, committed after its server was checked."""
    store = Store.create("", environment=opener())
    store.create_table("t", "id BIGINT, v STRING", primary_key=["id"])
    upsert(store, "t", [(key, "x" * 50) for key in range(1000)])
    return store


def taken(store: Store) -> list[tuple[str, str]]:
    """Return the requests of a store since the last call."""
    environment = store.environment
    assert isinstance(environment, CountedStore)
    return environment.taken()


def test_a_look_for_a_newer_epoch_is_one_request(store: Store) -> None:
    """Also if there is one: then its entry is read, and the slot after it is looked at."""
    taken(store)
    epoch = store.epoch

    assert taken(store) == [("get", f"_log/{epoch + 1:020d}.json")]


def test_a_get_with_a_warm_cache_is_one_request(store: Store) -> None:
    """The look for a newer epoch; of a state that is held, none."""
    table = store.table("t")
    table.get(5)
    taken(store)

    row = table.get(6)

    assert row is not None
    assert row["v"] == "x" * 50
    assert [kind for kind, _ in taken(store)] == ["get"]

    store.table("t").get(7)
    store.table("t").get(8)
    assert [kind for kind, _ in taken(store)] == ["get", "get"]


def test_a_table_that_was_dropped_is_missed_by_its_reader(store: Store, opener: Opener) -> None:
    """The name is looked up without a request if it was there lately, and then at each read."""
    store.table("t").get(1)
    other = Store.open("", environment=opener())
    other.drop_table("t")
    table = store.table("t")
    with pytest.raises(TableNotFoundError):
        table.get(1)
    other.create_table("new", "id BIGINT", primary_key=["id"])
    assert store.table("new").count() == 0
    with pytest.raises(TableNotFoundError):
        store.table("t")


def of_store(requests: list[tuple[str, str]]) -> list[str]:
    """Return the kinds of requests, without those for segments."""
    return [kind for kind, name in requests if not name.startswith("segments/")]


def test_a_commit_is_two_requests_beside_its_segments(store: Store) -> None:
    """The put of the entry, and a look whether its slot was folded; also for a write of rows."""
    taken(store)
    for key in range(3):
        store.write("t", [{"id": key, "v": "y"}])
        requests = taken(store)
        assert of_store(requests) == ["put_new", "head"]
        assert len(requests) == 3
    store.delete("t", [{"id": 1}])
    assert of_store(taken(store)) == ["put_new", "head"]

    segments = written(store, "t", [(1, "y")])
    taken(store)
    proposal = Proposal(operation="write", started=store.environment.now(), segments=segments)
    store.jobs.commit(proposal)
    assert of_store(taken(store)) == ["put_new", "head"]


def test_a_write_looks_first_while_others_write(store: Store, opener: Opener) -> None:
    """A put that loses costs more than the look, which is left out again after some commits."""
    other = Store.open("", environment=opener())
    for number in range(3):
        upsert(other, "t", [(number, "other")])
        store.write("t", [{"id": number, "v": "mine"}])
        taken(store)
    upsert(other, "t", [(9, "other")])
    store.write("t", [{"id": 9, "v": "mine"}])

    # The entry that the look found, and the one after it.
    assert of_store(taken(store)) == ["get", "get", "put_new", "head"]
    row = other.table("t").get(9)
    assert row is not None
    assert row["v"] == "mine"
    for number in range(9):
        store.write("t", [{"id": number, "v": "alone"}])
    taken(store)
    store.write("t", [{"id": 1, "v": "alone"}])
    assert of_store(taken(store)) == ["put_new", "head"]


def test_a_lost_attempt_is_a_put_and_a_read_of_each_entry(tmp_path: Path, opener: Opener) -> None:
    """And a look at the archive only if the writer has not seen its own entry for minutes."""
    clock = ManualClock(SystemClock().now())
    store = Store.create(
        "", environment=CountedStore(opener().root, tmp_path / "mine", clock=clock)
    )
    store.create_table("t", "id BIGINT, v STRING", primary_key=["id"])
    other = Store.open("", environment=opener())
    commit_at = store.environment.put_if_absent
    for seconds in (0, 301):
        for number in range(9):
            store.write("t", [{"id": number, "v": "alone"}])

        def late(*args: object, seconds: int = seconds, **options: object) -> None:
            store.environment.put_if_absent = commit_at  # type: ignore[method-assign]
            other.write("t", [{"id": 1, "v": "other"}])
            clock.advance(seconds)
            commit_at(*args, **options)  # type: ignore[arg-type]

        store.environment.put_if_absent = late  # type: ignore[method-assign]
        taken(store)
        store.write("t", [{"id": 2, "v": "mine"}])
        requests = taken(store)
        if not seconds:
            assert of_store(requests) == ["put_new", "get", "get", "put_new", "head"]
        read = [name for kind, name in requests if kind == "get"]
        assert any(name.startswith("_archive/") for name in read) == bool(seconds)
        assert other.epoch == store.epoch
    assert other.check().problems == ()


def test_a_write_without_a_look_sees_what_others_did(store: Store, opener: Opener) -> None:
    """A table that was created, altered or dropped since is found to be, as with a look."""
    other = Store.open("", environment=opener())
    other.create_table("new", "id BIGINT", primary_key=["id"])
    store.write("new", [{"id": 1}])
    assert other.table("new").get(1) is not None

    store.write("t", [{"id": 1, "v": "a"}])
    for number in range(9):
        store.write("t", [{"id": number, "v": "alone"}])
    other.add_columns("t", "w BIGINT")
    store.write("t", [{"id": 1, "v": "a", "w": 5}])
    row = other.table("t").get(1)
    assert row is not None
    assert row["w"] == 5

    for number in range(9):
        store.write("t", [{"id": number, "v": "alone"}])
    other.drop_table("t")
    epoch = other.epoch
    with pytest.raises(TableNotFoundError):
        store.write("t", [{"id": 2, "v": "a"}])
    assert other.epoch == epoch


def test_reads_that_may_be_stale_take_no_request(opener: Opener, tmp_path: Path) -> None:
    """For so many seconds by both clocks; what the reader itself commits it reads at once."""
    Store.create("", environment=opener()).create_table("t", "id BIGINT", primary_key=["id"])
    clock = ManualClock(SystemClock().now())
    environment = CountedStore(opener().root, tmp_path / "cache", clock=clock)
    reader = Store.open("", max_staleness=10, environment=environment)
    writer = Store.open("", environment=opener())
    writer.write("t", [{"id": 1}])
    reader.epoch  # noqa: B018
    clock.advance(10)
    assert reader.table("t").get(1) is not None
    writer.write("t", [{"id": 2}])
    environment.taken()

    assert reader.table("t").get(1) is not None
    assert reader.table("t").get(2) is None
    assert environment.taken() == []
    reader.write("t", [{"id": 3}])
    assert reader.table("t").get(3) is not None
    assert reader.table("t").get(2) is not None
    writer.write("t", [{"id": 4}])
    clock.suspend(10)
    assert reader.table("t").get(4) is not None

    for wrong in (-1, 0.5, True, "soon"):
        with pytest.raises(OptionError, match="max_staleness"):
            Store.open("", max_staleness=wrong, environment=environment)  # type: ignore[arg-type]


def test_planning_a_read_of_a_thousand_segments_takes_no_request(store: Store) -> None:
    """What it needs is in the log."""
    segments = [written(store, "t", [(key, "y")]) for key in range(8)]
    records = [
        replace(segment, name=f"{segment.name}-{copy}")
        for (segment,) in segments
        for copy in range(125)
    ]
    entry = Entry(
        commit_id="0" * 32,
        parent=store.state.commit_id,
        epoch=store.epoch + 1,
        time=store.state.time,
        started=store.state.time,
        operation="write",
        data_change=True,
        added=tuple(records),
    )
    state = store.state.apply(entry)
    taken(store)

    plan = ReadPlan.of(store.path, state, "t")

    assert len(plan.segments) >= 1000
    assert taken(store) == []


def test_opening_lists_once_and_reads_no_entry_twice(store: Store, opener: Opener) -> None:
    """The list, the newest checkpoint and the entries since it: three after a checkpoint."""
    while store.epoch % 32 != 1:
        upsert(store, "t", [(1, str(store.epoch))])
    environment = opener()

    with Store.open("", environment=environment) as reopened:
        requests = environment.taken()
        assert [kind for kind, _ in requests] == ["list", "get", "get"]
        assert reopened.epoch == store.epoch


def test_entries_stay_for_the_readers_that_look_once(store: Store) -> None:
    """So a reader that misses many commits still finds them one after the other."""
    environment = store.environment
    assert isinstance(environment, CountedStore)
    reader = Store.open("", environment=environment)
    first = reader.epoch
    for number in range(100):
        upsert(store, "t", [(1, str(number))])

    environment.taken()
    assert reader.epoch == store.epoch >= first + 100
    assert {kind for kind, _ in environment.taken()} == {"get"}
    row = reader.table("t").get(1)
    assert row is not None
    assert row["v"] == "99"


class Slow(CountedStore):
    """A bucket whose segments wait for each other: none is read until three are asked for."""

    def __init__(self, uri: str, cache: Path) -> None:
        super().__init__(uri, cache)
        barrier, take_range = threading.Barrier(3), self.client.take_range

        def wait(
            key: str, start: int, stop: int, take: Take, is_wanted: IsWanted = lambda: True
        ) -> int:
            if "/segments/" in key:
                barrier.wait(120)
            return take_range(key, start, stop, take, is_wanted)

        self.client.take_range = wait  # type: ignore[method-assign]


def test_cold_segments_are_fetched_at_the_same_time(tmp_path: Path) -> None:
    """Those that a read needs, and each once."""
    uri = f"memory://{uuid.uuid4().hex}/shop"
    store = Store.create("", environment=CountedStore(uri, tmp_path / "writer"))
    store.create_table("t", "id BIGINT, v STRING", primary_key=["id"])
    for key in range(3):
        upsert(store, "t", [(key, "x")])

    with Store.open("", environment=Slow(uri, tmp_path / "reader")) as reader:
        assert len(reader.state.segments) == 3
        assert reader.table("t").count() == 3
        fetched = [name for kind, name in taken(reader) if name.startswith("segments/")]
        assert len(fetched) == len(set(fetched)) == 3


def test_the_parts_of_a_statement_look_once(store: Store, opener: Opener) -> None:
    """They see one epoch, and what they commit; another thread looks, and who asks for it."""
    other = Store.open("", environment=opener())
    with store.one_look():
        before = store.epoch
        upsert(other, "t", [(1, "other")])
        taken(store)
        assert store.epoch == before
        assert store.table("t").get(1)["v"] == "x" * 50  # type: ignore[index]
        assert all(name.startswith("segments/") for _, name in taken(store))

        seen: list[int] = []
        thread = threading.Thread(target=lambda: seen.append(store.epoch))
        thread.start()
        thread.join()
        assert seen == [before + 1]
        upsert(store, "t", [(2, "mine")])
        assert store.epoch == before + 2
        upsert(other, "t", [(3, "other")])
        with store.one_look(again=True):
            assert store.epoch == before + 3
    assert len(taken(store)) > 0
    store.epoch  # noqa: B018
    assert [kind for kind, _ in taken(store)] == ["get"]


def test_segments_of_tasks_are_committed_without_looks_at_them(
    store: Store, opener: Opener
) -> None:
    """Their puts were answered to the tasks, in other processes."""
    segments = written(Store.open("", environment=opener()), "t", [(1, "y")])
    taken(store)
    proposal = Proposal(operation="write", started=store.environment.now(), segments=segments)
    store.jobs.commit(proposal)
    assert [kind for kind, _ in taken(store)] == ["put_new", "head"]
    row = store.table("t").get(1)
    assert row is not None
    assert row["v"] == "y"


def test_a_refused_commit_makes_the_next_look_of_a_statement(store: Store, opener: Opener) -> None:
    """Else its parts would be tried again on what is known to be old."""
    other = Store.open("", environment=opener())
    with store.one_look():
        before = store.epoch
        other.create_table("u", "id BIGINT", primary_key=["id"])
        assert store.epoch == before
        with pytest.raises(TableExistsError):
            store.create_table("u", "id BIGINT", primary_key=["id"])
        assert store.epoch == before + 1


def test_the_commit_of_a_state_table_takes_no_other_look(store: Store) -> None:
    """Its rows are those of its own commit; a look is made by the first read after a `clear`."""
    table = store.state_table("t")
    for key in range(3):
        table.insert((5000 + key, "new"))
        taken(store)
        table.commit()
        assert of_store(taken(store)) == ["put_new", "head"]
        assert table.get_row(5000 + key) is not None
    table.clear()
    assert of_store(taken(store)) == []
    table.get_row(5000)
    assert of_store(taken(store)) == ["get"]


def test_a_scan_begins_while_the_look_is_under_way(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the same one request, and returns what it would have returned after the look."""
    upsert(store, "t", [(1, "y")])
    expected = store.table("t").to_dicts()
    environment, has_begun = store.environment, threading.Event()
    assert isinstance(environment, CountedStore)
    get, scan = environment.client.get, StorageTable.scan_in_order

    def get_later(key: str) -> bytes:
        assert has_begun.wait(120)
        return get(key)

    def begin(self: StorageTable, *arguments: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        for batch in scan(self, *arguments, **options):
            has_begun.set()
            yield batch

    monkeypatch.setattr(environment.client, "get", get_later)
    monkeypatch.setattr(StorageTable, "scan_in_order", begin)
    taken(store)
    assert store.table("t").to_dicts() == expected
    assert of_store(taken(store)) == ["get"]


def test_a_scan_of_what_is_not_the_newest_is_begun_again(store: Store, opener: Opener) -> None:
    """It has the rows, the columns and the errors of the newest epoch."""
    other = Store.open("", environment=opener())
    table = store.table("t")
    for key in range(3):
        before = table.scan().read_all()
        upsert(other, "t", [(7000 + key, "other")])
        after = table.scan(where=f"id = {7000 + key}").read_all()
        assert after.to_pylist() == [{"id": 7000 + key, "v": "other"}]
        assert table.scan().read_all().num_rows == before.num_rows + 1
    other.add_columns("t", "w INT")
    assert table.scan(["w"], where="id = 7000").read_all().to_pylist() == [{"w": None}]
    with pytest.raises(SchemaMismatchError):
        table.scan(["nothing"])
    with store.one_look():
        assert store.epoch == other.epoch
        upsert(other, "t", [(8000, "later", None)])
        assert table.scan(where="id = 8000").read_all().num_rows == 0
    other.drop_table("t")
    with pytest.raises(TableNotFoundError):
        table.scan()
