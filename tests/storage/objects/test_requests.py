"""What a store in a bucket costs in requests."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from relstate.storage import Proposal, ReadPlan, Store
from relstate.storage.log.transaction import commit
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

    assert taken(store) == [("head", f"_log/{epoch + 1:020d}.json")]


def test_a_get_with_a_warm_cache_is_one_request(store: Store) -> None:
    """The look for a newer epoch; of a state that is held, none."""
    table = store.table("t")
    table.get(5)
    taken(store)

    row = table.get(6)

    assert row is not None
    assert row["v"] == "x" * 50
    assert [kind for kind, _ in taken(store)] == ["head"]


def test_a_commit_is_three_requests_beside_its_segments(store: Store) -> None:
    """A look for a newer epoch, the put of the entry, and a look whether its slot was folded."""
    log, state = store._epochs.log, store.state
    segments = written(store, "t", [(1, "y")])
    proposal = Proposal(operation="write", started=store.environment.now(), segments=segments)
    assert "put" in [kind for kind, name in taken(store) if name.startswith("segments/")]

    commit(log, state, proposal)

    assert [kind for kind, _ in taken(store)] == ["head", "put_new", "head"]


def test_opening_lists_once_and_reads_no_entry_twice(store: Store, opener: Opener) -> None:
    """The list, the newest checkpoint and the entries since it: three after a checkpoint."""
    while store.epoch % 32 != 1:
        upsert(store, "t", [(1, str(store.epoch))])
    environment = opener()

    with Store.open("", environment=environment) as reopened:
        requests = environment.taken()
        assert [kind for kind, _ in requests] == ["list", "get", "get"]
        assert reopened.epoch == store.epoch


def test_planning_a_read_takes_no_request_per_segment(store: Store) -> None:
    """However many segments there are: what it needs is in the log."""
    for key in range(8):
        upsert(store, "t", [(key, "y")])
    state = store.state
    taken(store)

    plan = ReadPlan.of(store.path, state, "t")

    assert plan.path == store.path
    assert len(state.segments) >= 8
    assert taken(store) == []


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
    assert {kind for kind, _ in environment.taken()} == {"get", "head"}
    row = reader.table("t").get(1)
    assert row is not None
    assert row["v"] == "99"


class Slow(CountedStore):
    """A bucket whose segments wait for each other: none is read until three are asked for."""

    def __init__(self, uri: str, cache: Path) -> None:
        super().__init__(uri, cache)
        barrier, get = threading.Barrier(3), self.client.get

        def wait(key: str) -> bytes:
            if "/segments/" in key:
                barrier.wait(30)
            return get(key)

        self.client.get = wait  # type: ignore[method-assign]


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
