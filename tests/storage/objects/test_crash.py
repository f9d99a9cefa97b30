"""A process that dies at any request to a bucket leaves the old rows or the new ones, and no harm.

Of a request that it died in, the server may have carried out all or nothing: both are tried.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relstate.storage import Location, Store
from relstate.storage.objects.cache import Cache
from relstate.storage.objects.client import ObjectClient
from relstate.storage.objects.object_environment import ObjectEnvironment
from relstate.storage.paths import segment_path
from support.clock import ManualClock
from support.faulty_environment import SimulatedCrash
from support.object_stores import DatedStore
from support.stores import Rows, batch_of, contents, upsert, written

Change = Callable[[Store], object]
_OLD: Rows = [(1, "one"), (2, "two"), (3, "three")]
_NEW: Rows = [(2, "new"), (3, "three"), (4, "four")]


class CrashingClient:
    """A client of a process that dies at its request of a number, carried out or not.

    The later requests of its threads do nothing.
    """

    def __init__(self, location: Location, crash_at: int, is_carried_out: bool) -> None:
        self._client = ObjectClient(location)
        self._numbers = itertools.count(1)
        self._crash_at, self._is_carried_out = crash_at, is_carried_out
        self.has_crashed = False

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if not callable(method):
            return method

        def request(*arguments: Any) -> Any:
            number = next(self._numbers)
            is_dying = number == self._crash_at
            if number < self._crash_at or (is_dying and self._is_carried_out):
                answer = method(*arguments)
            if number >= self._crash_at:
                self.has_crashed = True
                raise SimulatedCrash(f"{name} {arguments[0]}")
            return answer

        return request


def _upsert(store: Store) -> None:
    upsert(store, "t", [(2, "new"), (4, "four")], deleted=[(1, None)])


def _write_indexed(store: Store) -> None:
    store.write("indexed", batch_of(store, "indexed", [(1, "two"), (2, "one")]))


_CHANGES: dict[str, tuple[Change, Rows, tuple[str, ...]]] = {
    "upsert": (_upsert, _NEW, ("indexed", "t")),
    "truncate": (lambda store: store.truncate("t"), [], ("indexed", "t")),
    "compact": (lambda store: store.compact(), _OLD, ("indexed", "t")),
    "vacuum": (lambda store: store.vacuum(0), _OLD, ("indexed", "t")),
    "drop table": (lambda store: store.drop_table("indexed"), _OLD, ("t",)),
    "write indexed": (_write_indexed, _OLD, ("indexed", "t")),
}


def _prepared(location: Location, cache: Path) -> None:
    """Make a store of a few rows and files, some of which no epoch needs any more."""
    store = Store.create(
        "",
        vnode_count=5,
        shards=2,
        environment=ObjectEnvironment(location, ObjectClient(location), Cache(str(cache), 1 << 30)),
    )
    store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
    upsert(store, "t", [(1, "old"), (2, "two"), (9, "gone")])
    store.compact()
    upsert(store, "t", [(1, "one"), (3, "three")], deleted=[(9, None)])
    store.create_table("indexed", "k BIGINT, v STRING", primary_key=["k"])
    store.create_index("indexed", "by_v", ["v"], unique=True)
    upsert(store, "indexed", [(1, "one"), (2, "two")])
    store.close()


@pytest.mark.parametrize("is_carried_out", [False, True], ids=["not sent", "answer lost"])
@pytest.mark.parametrize("name", _CHANGES)
def test_a_crash_at_any_request_leaves_the_old_or_the_new(
    name: str, is_carried_out: bool, tmp_path: Path
) -> None:
    """What a change that returned did is there; another process reads, writes and vacuums on."""
    change, rows, tables = _CHANGES[name]
    seen = set()
    for step in itertools.count(1):
        location = Location(f"memory://{uuid.uuid4().hex}/shop")
        _prepared(location, tmp_path / "cache")
        client = CrashingClient(location, step, is_carried_out)
        # Its cache dies with it: what it had not uploaded is lost.
        environment = ObjectEnvironment(
            location, client, Cache(str(tmp_path / f"dying{step}"), 1 << 30)
        )
        has_returned = False
        try:
            change(Store.open("", environment=environment))
            has_returned = True
        except SimulatedCrash:
            pass

        after = ObjectEnvironment(
            location, ObjectClient(location), Cache(str(tmp_path / "new"), 1 << 30)
        )
        with Store.open("", environment=after) as store:
            assert store.check().problems == ()
            present = (contents(store, "t"), store.tables())
            assert present in ((_OLD, ("indexed", "t")), (rows, tables))
            assert present == (rows, tables) or not has_returned
            seen.add(has_returned)
            _upsert(store)
            store.vacuum(0)
            assert store.check().problems == ()
            assert (4, "four") in contents(store, "t")
        if not client.has_crashed:
            break
    assert seen == {False, True}


def test_vacuum_removes_what_tasks_uploaded_in_vain(tmp_path: Path) -> None:
    """A segment of no commit is an orphan, and goes once no job that wrote it can commit."""
    clock = ManualClock()
    environment = DatedStore(f"memory://{uuid.uuid4().hex}/shop", tmp_path, clock, clock)
    store = Store.create("", environment=environment)
    store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
    upsert(store, "t", [(1, "one")])
    (orphan,) = written(store, "t", [(1, "of a task that was tried again")])

    assert store.check().orphans == 1
    assert store.vacuum(0).files == 0
    clock.advance(25 * 3600)
    assert store.vacuum(0).files == 1
    assert not environment.exists(segment_path(orphan.name))
    assert store.check().orphans == 0
    assert contents(store, "t") == [(1, "one")]
