"""Segments that are read while they arrive."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from relstate.storage import Store
from relstate.storage.errors import (
    CorruptionError,
    FilesystemError,
    SegmentMissingError,
)
from relstate.storage.objects import arrival, arrivals
from relstate.storage.objects.client import IsWanted, Take
from relstate.storage.paths import segment_path
from relstate.storage.segment.registry import registry
from support.clock import ManualClock
from support.object_stores import CountedStore, DatedStore

ROWS = 8000
_SECONDS = 120.0


def value_of(key: int) -> str:
    """Return the value of a row: hardly compressible, and of some rows larger than a page."""
    return random.Random(key).randbytes(2500 if key % 50 == 0 else 600).hex()


@pytest.fixture(scope="module")
def uri() -> str:
    """Return the address of a store with a segment of some blocks."""
    return f"memory://{uuid.uuid4().hex}/shop"


@pytest.fixture(scope="module")
def written(uri: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the name of the segment, written by another machine."""
    store = Store.create(
        "", shards=4, environment=CountedStore(uri, tmp_path_factory.mktemp("writer"))
    )
    store.create_table("t", "id BIGINT, v STRING", primary_key=["id"])
    store.write("t", pa.table({"id": range(ROWS), "v": [value_of(key) for key in range(ROWS)]}))
    (name,) = store.state.segments
    assert store.state.segments[name].record.size > 32 * (256 << 10)
    return segment_path(name)


@pytest.fixture(autouse=True)
def portions_of_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each portion have one block."""
    monkeypatch.setattr(arrival, "_FIRST_BYTES", 200 << 10)
    monkeypatch.setattr(arrival, "_PORTION_BYTES", 200 << 10)


class Watched(CountedStore):
    """A machine with an empty cache, on which ``on_range`` sees each range of the segment."""

    def __init__(self, uri: str, cache: Path, on_range: Callable[[int], None]) -> None:
        super().__init__(uri, cache)
        take_range = self.client.take_range

        def watched(
            key: str, start: int, stop: int, take: Take, is_wanted: IsWanted = lambda: True
        ) -> int:
            if "/segments/" in key:
                on_range(start)
            return take_range(key, start, stop, take, is_wanted)

        self.client.take_range = watched  # type: ignore[method-assign]


def keys_of(batches: Iterable[pa.RecordBatch]) -> list[int]:
    """Return the keys of some rows, after comparing their values with what was written."""
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert all(row["v"] == value_of(row["id"]) for row in rows)
    return [row["id"] for row in rows]


def rows_of(store: Store) -> list[int]:
    """Return the keys of a scan."""
    return keys_of(store.table("t").scan())


def _descending(store: Store) -> list[int]:
    return keys_of(store.table("t")._reader().scan_in_order(descending=True))[::-1]


def _ordered(store: Store) -> list[int]:
    return keys_of(store.table("t").scan(ordered=True))


def _last_vnodes(store: Store) -> list[int]:
    """Return the keys of a scan of the last vnodes, as a task reads them, then of the others."""
    reader = store.table("t")._reader()
    count = store.settings.vnode_count
    parts = [range(count * 3 // 4, count), range(count * 3 // 4)]
    return sorted(key for vnodes in parts for key in keys_of(reader.scan(vnodes=[vnodes])))


def _by_key(store: Store) -> list[int]:
    assert keys_of(store.table("t").scan(where="id = 4711")) == [4711]
    return sorted(rows_of(store))


def copies(cache: Path) -> list[str]:
    """Return the names of the files in a cache's folders of segments."""
    return sorted(path.name for path in cache.glob("*/segments/*"))


def fetching() -> list[threading.Thread]:
    """Return the threads that fetch."""
    return [thread for thread in threading.enumerate() if thread.name == "relstate-fetch"]


def wait_for_threads() -> None:
    """Wait until no thread fetches."""
    for thread in fetching():
        thread.join(_SECONDS)
    assert not fetching()


def test_rows_are_read_before_the_rest_has_come(uri: str, written: str, tmp_path: Path) -> None:
    """They wait for the blocks that have them, and the blocks that come last are read last."""
    gate, seen = threading.Event(), []
    environment = Watched(uri, tmp_path, lambda start: hold_back(start))
    size = environment.client.head(f"shop/{written}").size

    def hold_back(start: int) -> None:
        seen.append(start)
        # Not the last portion, which has the upper pages of the tree.
        if size * 0.6 < start < size * 0.9:
            assert gate.wait(_SECONDS)

    with Store.open("", environment=environment) as store:
        batches = iter(store.table("t").scan())
        first = next(batches)
        assert not gate.is_set()
        assert [name for name in copies(tmp_path) if not name.endswith(".tmp")] == []
        gate.set()
        assert sorted(keys_of([first, *batches])) == list(range(ROWS))
        wait_for_threads()
        assert copies(tmp_path) == [Path(written).name]
        assert len(seen) == len(set(seen))


@pytest.mark.parametrize("seed", range(2))
def test_the_order_of_arrival_changes_nothing(
    uri: str, written: str, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a scan, of a part of it, from its end, or of single rows."""
    draw = random.Random(seed)
    monkeypatch.setattr(arrival.Arrival, "distance", lambda *_: draw.randrange(9))
    for scan in (_descending, _ordered, _last_vnodes, _by_key):
        environment = CountedStore(uri, tmp_path / scan.__name__)
        with Store.open("", environment=environment) as store:
            assert scan(store) == list(range(ROWS))
            assert store.table("t").get(7) is not None
    wait_for_threads()


@pytest.mark.parametrize("failing", [0, 1, 5])
def test_what_fails_is_the_error_of_the_reader(
    uri: str, written: str, tmp_path: Path, failing: int
) -> None:
    """Of the first portion or of another; the next read fetches the segment again."""
    for error, expected in (
        (FilesystemError("no answer"), FilesystemError),
        (FileNotFoundError("gone"), SegmentMissingError),
        (ValueError("damaged"), CorruptionError),
    ):
        cache = tmp_path / expected.__name__
        seen: list[int] = []

        def fail(start: int, seen: list[int] = seen, error: Exception = error) -> None:
            seen.append(start)
            if len(seen) == failing + 1:
                raise error

        with Store.open("", environment=Watched(uri, cache, fail)) as store:
            with pytest.raises(expected) as caught:
                rows_of(store)
            assert expected is FilesystemError or written in str(caught.value)
            wait_for_threads()
            assert copies(cache) == []
            assert len(rows_of(store)) == ROWS
            assert copies(cache) == [Path(written).name]


def test_machines_processes_fetch_a_segment_once(uri: str, written: str, tmp_path: Path) -> None:
    """Whoever comes while it arrives waits for it, and reads the copy."""
    seen: list[int] = []
    stores = [Store.open("", environment=Watched(uri, tmp_path, seen.append)) for _ in range(2)]
    name = written.removeprefix("segments/").removesuffix(".lmdb")
    record = stores[0].state.segments[name].record
    # By the environments: the registry of a process opens it once anyway.
    brought = [store.environment.bring(written, record.size, record.hash) for store in stores]
    for _, arriving in brought:
        assert arriving is not None
        arriving.wait_for_all()
    wait_for_threads()
    assert len(seen) == len(set(seen))
    assert copies(tmp_path) == [Path(written).name]


def test_a_segment_that_nobody_reads_any_more_is_given_up(
    uri: str, written: str, tmp_path: Path
) -> None:
    """Its store was closed; threads and partial copy go, and another may fetch it."""
    gate = threading.Event()
    seen: list[int] = []

    def hold_back(start: int) -> None:
        seen.append(start)
        assert not start or gate.wait(_SECONDS)

    environment = Watched(uri, tmp_path, hold_back)
    store = Store.open("", environment=environment)
    file = registry.open(environment, next(iter(store.state.segments.values())).record)
    assert file.path
    del file
    store.close()
    gate.set()
    wait_for_threads()
    assert len(seen) <= 1 + arrivals.AT_ONCE
    assert copies(tmp_path) == []
    with Store.open("", environment=CountedStore(uri, tmp_path)) as other:
        assert len(rows_of(other)) == ROWS


def test_without_threads_a_segment_is_fetched_by_its_reader(
    uri: str, written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the process may have no more of them."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with Store.open("", environment=CountedStore(uri, tmp_path)) as store:
        monkeypatch.setattr(threading.Thread, "start", refuse)
        assert len(rows_of(store)) == ROWS


def test_a_scan_joins_the_copy_behind_a_lookup(uri: str, written: str, tmp_path: Path) -> None:
    """It reads what has come, while the rest comes; each part of the segment is fetched once."""
    gate, seen = threading.Event(), []

    def hold_back(start: int) -> None:
        seen.append(start)
        assert len(seen) < 4 or gate.wait(_SECONDS)

    environment = Watched(uri, tmp_path, hold_back)
    with Store.open("", environment=environment) as store:
        table = store.table("t")
        assert table.get(7) is not None
        while len(seen) < 4:
            assert fetching()
        rows = threading.Thread(
            target=lambda: seen.extend(-key - 1 for key in keys_of(table.scan()))
        )
        rows.start()
        # All that a scan may have under way, where a copy behind a lookup has one request.
        while len(seen) < 10:
            assert rows.is_alive()
        gate.set()
        rows.join(_SECONDS)
        wait_for_threads()
    starts = [start for start in seen if start >= 0]
    assert len(starts) == len(set(starts))
    assert len(seen) == len(starts) + ROWS


def test_a_copy_behind_a_lookup_comes_by_one_request_at_a_time(
    uri: str, written: str, tmp_path: Path
) -> None:
    """It leaves the network to those who wait."""
    running, most = [0], [0]
    environment = CountedStore(uri, tmp_path)
    take_range = environment.client.take_range

    def counted(
        key: str, start: int, stop: int, take: Take, is_wanted: IsWanted = lambda: True
    ) -> int:
        running[0] += 1
        most[0] = max(most[0], running[0])
        try:
            return take_range(key, start, stop, take, is_wanted)
        finally:
            running[0] -= 1

    environment.client.take_range = counted  # type: ignore[method-assign]
    with Store.open("", environment=environment) as store:
        assert store.table("t").get(7) is not None
        environment.arrivals.wait()
        assert copies(tmp_path) == [Path(written).name]
    assert most == [1]


def test_what_is_read_comes_first(uri: str, written: str, tmp_path: Path) -> None:
    """What a reader waits for, what is read, what was opened, and copies behind lookups last."""

    def taking(_start: int, _stop: int, _take: Take, _is_wanted: object) -> int:
        raise FilesystemError("not fetched")

    origin = arrival.Origin("s", "s", 1000, "", taking)
    cache = CountedStore(uri, tmp_path)._cache
    tasks = [
        arrivals._Task(
            arrival.Arrival(origin, cache, cache.lease_name(f"{number}"), is_behind=not number)
        )
        for number in range(4)
    ]
    behind, later, announced, waiting = tasks
    announced.arrival.announce()

    def wait() -> None:
        with suppress(FilesystemError):
            waiting.arrival.wait(0, 1)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    while not waiting.arrival.is_waited_for:
        assert thread.is_alive()
    order = sorted(tasks, key=arrivals._Task.urgency)
    waiting.arrival.give_up()
    thread.join(_SECONDS)
    assert order == [waiting, announced, later, behind]


@pytest.mark.parametrize("overlap", [0, 50])
def test_segments_come_in_the_order_in_which_a_scan_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overlap: int
) -> None:
    """That of their keys, not that of their commits; those of a merge are all announced first."""
    uri = f"memory://{uuid.uuid4().hex}/shop"
    names: dict[str, int] = {}
    store = Store.create("", vnode_count=1, environment=CountedStore(uri, tmp_path / "writer"))
    store.create_table("t", "id BIGINT", primary_key=["id"])
    for start in (200, 0, 300, 100):
        store.write("t", pa.table({"id": range(start, start + 100 + overlap)}))
        (name,) = store.state.segments.keys() - names.keys()
        names[name] = start
    monkeypatch.setattr(arrivals, "AT_ONCE", 1)
    environment, announced = CountedStore(uri, tmp_path / "reader"), [0]
    announce, contents = arrival.Arrival.announce, arrival.Arrival.contents

    def noted(self: arrival.Arrival) -> None:
        announced[-1] += self.position is None
        announce(self)

    def first_read(self: arrival.Arrival) -> Any:
        announced.append(announced[-1])
        return contents(self)

    monkeypatch.setattr(arrival.Arrival, "announce", noted)
    monkeypatch.setattr(arrival.Arrival, "contents", first_read)
    with Store.open("", environment=environment) as reader:
        environment.taken()
        reader.table("t").scan().read_all()
    assert announced[0] == (4 if overlap else 1)
    asked = [name for kind, name in environment.taken() if kind == "take_range"]
    starts = [names[Path(name).stem] for name in asked]
    assert sorted(starts) == [0, 100, 200, 300]
    assert overlap or starts == sorted(starts)


_ENDING = """
import os, sys, threading, time
sys.path.insert(0, {tests!r})
from pathlib import Path
import pyarrow as pa
from relstate.storage import Store
from relstate.storage.errors import FilesystemError
from relstate.storage.objects import arrival, arrivals
from support.object_stores import CountedStore
arrival._FIRST_BYTES = arrival._PORTION_BYTES = 200 << 10
arrivals.AT_ONCE = 8
root = Path({root!r})
store = Store.create("", environment=CountedStore("memory://ending/x", root / "a"))
store.create_table("t", "id BIGINT, v BINARY", primary_key=["id"])
store.write("t", pa.table({{"id": range(20000), "v": [os.urandom(1500) for _ in range(20000)]}}))
environment = CountedStore("memory://ending/x", root / "b")
take_range, seen = environment.client.take_range, []
is_read, has_waited = threading.Event(), threading.Event()
def slow(key, start, *arguments):
    seen.append(start)
    if is_read.is_set():
        has_waited.wait()
    time.sleep(0.2 if len(seen) > 3 and "/segments/" in key else 0)
    return take_range(key, start, *arguments)
environment.client.take_range = slow
batches = Store.open("", environment=environment).table("t").scan()
batches.read_next_batch()
is_read.set()
child = os.fork()
if not child:
    try:
        batches.read_all()
    except FilesystemError as error:
        os._exit(7 if "fork" in str(error) else 8)
    os._exit(9)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
has_waited.set()
"""


def test_a_process_ends_while_a_segment_arrives(tmp_path: Path) -> None:
    """Without waiting for all of it; a forked child fails instead of waiting for ever."""
    tests = str(Path(__file__).parents[2])
    program = _ENDING.format(tests=tests, root=str(tmp_path))
    # From Python 3.12 on it warns of forks beside threads, which is what the program tries.
    ignored = "ignore:This process:DeprecationWarning"
    command = [sys.executable, "-W", ignored, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert done.stdout == "7\n"
    assert copies(tmp_path / "b") == []


def test_a_segment_that_was_vacuumed_under_a_reader_is_explained(tmp_path: Path) -> None:
    """Although it turns out to be missing only while it is read."""
    uri, clock = f"memory://{uuid.uuid4().hex}/shop", ManualClock()
    writer = DatedStore(uri, tmp_path / "writer", clock, clock)
    store = Store.create("", environment=writer)
    store.create_table("t", "id BIGINT, v STRING", primary_key=["id"])
    for number in range(3):
        store.write("t", [{"id": number, "v": "x"}])
    reader = Store.open("", environment=DatedStore(uri, tmp_path / "reader", clock, clock))
    table, segments = reader.at(reader.epoch).table("t"), [*reader.state.segments]
    clock.advance(25 * 3600)
    store.write("t", [{"id": 9, "v": "x"}])
    store.vacuum(0)
    for name in segments:
        store.environment.remove(segment_path(name))
    with pytest.raises(SegmentMissingError, match="vacuum removed a segment"):
        table.scan().read_all()


def test_no_block_counts_as_read_after_a_failure(tmp_path: Path) -> None:
    """Those that come then are not written: a reader that finds one gets the error."""

    def taking(_start: int, _stop: int, _take: Take, _is_wanted: object) -> int:
        raise AssertionError

    origin = arrival.Origin("s", "s", 1000, "", taking)
    cache = CountedStore(f"memory://{uuid.uuid4().hex}/shop", tmp_path)._cache
    coming = arrival.Arrival(origin, cache, cache.lease_name("s"), is_behind=False)
    coming._has_bytes = lambda *_: True  # type: ignore[method-assign]
    coming.wait(0, 1)
    coming.fail(FilesystemError("no answer"))
    with pytest.raises(FilesystemError, match="no answer"):
        coming.wait(0, 1)
