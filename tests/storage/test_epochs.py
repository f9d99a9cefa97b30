"""The newest state that an open store knows, while several threads look and commit."""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from relstate.storage import Store
from relstate.storage.errors import FilesystemError
from relstate.storage.local_environment import LocalEnvironment
from support.clock import ManualClock
from support.commits import UnsyncedDisk, quick_environment
from support.object_stores import CountedStore


class SlowLooks(LocalEnvironment):
    """A folder in which a call is made whenever an entry was found or committed."""

    def __init__(self, root: Path, clock: ManualClock, act: Callable[[], None]) -> None:
        super().__init__(str(root), UnsyncedDisk(clock), clock)
        self._act = act

    def announce(self, name: str, entry: str) -> None:
        super().announce(name, entry)
        self._act()


def test_a_slow_look_does_not_hide_a_newer_commit(tmp_path: Path) -> None:
    """A thread has found the commit of another process and sleeps before it says so; meanwhile
    the store commits. With max_staleness no look would find that commit again.
    """
    others = Store.create("", environment=quick_environment(tmp_path, ManualClock()))
    others.create_table("t", "id BIGINT", primary_key=["id"])
    clock = ManualClock()
    has_found, may_go_on = threading.Event(), threading.Event()

    def wait() -> None:
        if threading.current_thread().name == "slow":
            has_found.set()
            assert may_go_on.wait(60)

    store = Store.open("", environment=SlowLooks(tmp_path, clock, wait), max_staleness=10)
    others.write("t", [{"id": 1}])
    clock.advance(11)
    found: list[int] = []
    slow = threading.Thread(target=lambda: found.append(store.epoch), name="slow")
    slow.start()
    assert has_found.wait(60)
    committed = store.write("t", [{"id": 2}])
    may_go_on.set()
    slow.join()

    assert store.epoch == committed
    assert store.table("t").get(2) == (2,)
    assert found == [committed]


def test_threads_never_see_the_store_go_back(tmp_path: Path) -> None:
    """Each thread reads its own commits at once, and epochs never decrease; looks and commits
    are delayed at random, and the staleness allowed is over now and then.
    """
    clock, draw = ManualClock(), random.Random(7)
    others = Store.create("", environment=quick_environment(tmp_path, clock))
    others.create_table("t", "id BIGINT", primary_key=["id"])
    pause = threading.Event()

    def wait() -> None:
        pause.wait(draw.choice([0, 0, 0.002, 0.01]))

    environment = SlowLooks(tmp_path, clock, wait)
    store = Store.open("", environment=environment, max_staleness=10)

    def run(number: int) -> None:
        last = 0
        for step in range(25):
            clock.advance(draw.choice([0, 11]))
            epoch = store.epoch
            assert epoch >= last
            last = epoch
            if step % 3 == 0:
                key = number * 1000 + step
                last = max(last, store.write("t", [{"id": key}]))
                assert store.table("t").get(key) == (key,)
                assert store.epoch >= last

    def run_others() -> None:
        for step in range(25):
            others.write("t", [{"id": -step}])

    with ThreadPoolExecutor(5) as pool:
        for done in [*(pool.submit(run, number) for number in range(4)), pool.submit(run_others)]:
            done.result()


def test_a_look_that_fails_is_no_look(tmp_path: Path) -> None:
    """The next read looks again, however much staleness is allowed."""
    uri, clock = f"memory://{uuid.uuid4().hex}/s", ManualClock()
    writer = Store.create("", environment=CountedStore(uri, tmp_path / "writer"))
    environment = CountedStore(uri, tmp_path / "reader", clock=clock)
    reader = Store.open("", environment=environment, max_staleness=3600)
    writer.create_table("t", "id BIGINT", primary_key=["id"])
    clock.advance(3601)
    client = environment.client
    get, list_names = client.get, client.list

    def fail(_: str) -> bytes:
        raise FilesystemError("no answer")

    client.get = client.list = fail  # type: ignore[method-assign,assignment]
    with pytest.raises(FilesystemError, match="no answer"):
        reader.epoch  # noqa: B018
    client.get, client.list = get, list_names  # type: ignore[method-assign]
    assert reader.epoch == writer.epoch
