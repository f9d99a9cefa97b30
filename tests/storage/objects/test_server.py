"""The clock of a bucket judges commits, whatever happens to the clock of this machine."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from relstate.storage import Store
from relstate.storage.errors import ClockError
from support.clock import ManualClock
from support.object_stores import CountedStore, DatedStore
from support.stores import contents, upsert

HOUR = 3600


class Dated(DatedStore):
    """A new store whose server is observed."""

    def __init__(self, cache: Path, clock: ManualClock, server: ManualClock) -> None:
        super().__init__(f"memory://{uuid.uuid4().hex}/shop", cache, clock, server)

    def probes(self) -> int:
        """Return how often the server was tried since the last call."""
        requests = self.taken()
        return sum(kind == "delete" and "probe" in name for kind, name in requests)


def test_a_clock_that_jumps_after_the_first_commit_is_noticed(tmp_path: Path) -> None:
    """The commit is refused as long as the clock is wrong, and nothing of it is in the store."""
    clock, server = ManualClock(), ManualClock()
    store = Store.create("", environment=Dated(tmp_path, clock, server))
    store.create_table("t", "id BIGINT, v STRING", primary_key=["id"])
    for passing in (clock, server):
        passing.advance(HOUR)
    upsert(store, "t", [(1, "x")])

    clock.suspend(HOUR)  # the wall clock alone: somebody set it
    with pytest.raises(ClockError, match="3600 s ahead of the bucket's clock"):
        upsert(store, "t", [(2, "x")])
    clock.set_back(HOUR)
    upsert(store, "t", [(3, "x")])

    assert [row[0] for row in contents(store, "t")] == [1, 3]


def test_a_suspended_machine_goes_on_writing(tmp_path: Path) -> None:
    """Its monotonic clock is behind: the server's is looked at again, once."""
    clock, server = ManualClock(), ManualClock()
    environment = Dated(tmp_path, clock, server)
    store = Store.create("", environment=environment)
    store.create_table("t", "id BIGINT, v STRING", primary_key=["id"])
    assert environment.probes() == 1

    clock.suspend(HOUR)
    server.suspend(HOUR)
    for key in range(3):
        upsert(store, "t", [(key, "x")])

    assert environment.probes() == 1
    assert len(contents(store, "t")) == 3


def test_a_server_is_probed_once_by_create_and_by_the_first_commit_of_a_process(
    tmp_path: Path,
) -> None:
    """Not by opening: who reads needs no right to write, and opening is not told what follows."""
    uri = f"memory://{uuid.uuid4().hex}/shop"
    environments = [CountedStore(uri, tmp_path / name) for name in ("creator", "writer", "reader")]

    def probes(number: int) -> int:
        return len([name for _, name in environments[number].taken() if ".probe-" in name])

    store = Store.create("", environment=environments[0])
    assert probes(0) == 4
    store.create_table("t", "id BIGINT, v STRING", primary_key=["id"])
    assert probes(0) == 0
    writer, reader = (Store.open("", environment=place) for place in environments[1:])
    assert reader.table("t").scan().read_all().num_rows == probes(1) == probes(2) == 0
    writer.write("t", [{"id": 1, "v": "x"}])
    assert probes(1) == 4
    writer.write("t", [{"id": 2, "v": "x"}])
    assert probes(1) == 0
