"""Lookups in segments that are not on this machine."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from relstate.storage import Store
from relstate.storage.errors import CorruptionError, SegmentMissingError
from relstate.storage.objects.arrival import Arrival, Origin
from relstate.storage.objects.leases import Lease
from relstate.storage.paths import segment_path
from support.object_stores import CountedStore

ROWS = 60_000


def value_of(key: int) -> str:
    """Return the value of a row: hardly compressible."""
    return random.Random(key).randbytes(60).hex()


@pytest.fixture(scope="module")
def uri() -> str:
    """Return the address of a store with one segment of 10 MB."""
    return f"memory://{uuid.uuid4().hex}/shop"


@pytest.fixture(scope="module")
def written(uri: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the name of the segment, written by another machine."""
    folder = tmp_path_factory.mktemp("writer")
    store = Store.create("", shards=1, environment=CountedStore(uri, folder))
    store.create_table("t", "id BIGINT, v STRING", primary_key=["id"])
    keys = range(0, 2 * ROWS, 2)
    store.write("t", pa.table({"id": keys, "v": [value_of(key) for key in keys]}))
    (name,) = store.state.segments
    assert store.state.segments[name].record.size > 8 << 20
    return segment_path(name)


@pytest.fixture
def reader(uri: str, written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Return the store on a machine that has nothing of it, and fetches nothing unless told."""
    environment = CountedStore(uri, tmp_path / "reader")
    store = Store.open("", environment=environment)
    behind: list[Callable[[], object]] = []
    start = environment.arrivals.start

    def wait_to_be_told(origin: Origin, lease: Lease, *, is_behind: bool = False) -> Arrival | None:
        if not is_behind:
            return start(origin, lease)
        behind.append(lambda: start(origin, lease, is_behind=True).wait_for_all())
        return None

    monkeypatch.setattr(environment.arrivals, "start", wait_to_be_told)
    environment.waiting = behind  # type: ignore[attr-defined]
    environment.taken()
    return store


def environment_of(store: Store) -> CountedStore:
    """Return the environment of a store."""
    assert isinstance(store.environment, CountedStore)
    return store.environment


def test_a_cold_get_reads_the_pages_that_it_needs(reader: Store, written: str) -> None:
    """By four requests at most, one more for another row; few bytes of the segment."""
    table, environment = reader.table("t"), environment_of(reader)
    row = table.get(1000)
    assert row is not None
    assert row["v"] == value_of(1000)

    requests = [kind for kind, name in environment.taken() if name == written]
    assert requests == ["get_range"] * len(requests)
    assert len(requests) <= 4
    assert environment.client.range_bytes < 1 << 20

    row = table.get(100_000)
    assert row is not None
    assert row["v"] == value_of(100_000)
    assert len([name for _, name in environment.taken() if name == written]) == 1
    assert table.get(100_001) is None
    assert table.get_rows([(1000,), (100_000,), (7,)]).num_rows == 2
    assert {kind for kind, name in environment.taken() if name == written} <= {"get_range"}


def test_the_rest_of_the_segment_comes_behind(reader: Store, written: str) -> None:
    """Once; then no request is for the segment, and the table is read from the copy."""
    table, environment = reader.table("t"), environment_of(reader)
    table.get(1000)
    (fetch,) = environment.waiting  # type: ignore[attr-defined]
    fetch()
    environment.taken()

    row = table.get(100_000)
    assert row is not None
    assert row["v"] == value_of(100_000)
    assert table.count() == ROWS
    assert [name for _, name in environment.taken() if name == written] == []


def test_a_plan_knows_whether_its_files_are_here(reader: Store, written: str) -> None:
    """Without a request, and fetching nothing; what is on its way is not here."""
    plan, environment = reader.read_plan("t"), environment_of(reader)
    environment.taken()
    assert not plan.is_on_this_machine(environment)
    assert environment.taken() == []
    assert environment.waiting == []  # type: ignore[attr-defined]

    reader.table("t").get(1000)
    assert not plan.is_on_this_machine(environment)
    (fetch,) = environment.waiting  # type: ignore[attr-defined]
    fetch()
    assert plan.is_on_this_machine(environment)


def test_a_thread_fetches_behind(uri: str, written: str, tmp_path: Path) -> None:
    """Without being asked again, and nobody waits for it."""
    environment = CountedStore(uri, tmp_path / "reader")
    with Store.open("", environment=environment) as store:
        assert store.table("t").get(1000) is not None
        environment.arrivals.wait()
        size = store.state.segments[written[9:-5]].record.size
        assert Path(environment.local_path(written)).stat().st_size == size


def test_a_fetch_behind_that_failed_is_tried_again(
    reader: Store, written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a later part, but not with each; meanwhile gets are answered by parts."""
    table, environment = reader.table("t"), environment_of(reader)
    times = [0.0]
    monkeypatch.setattr(environment, "monotonic", lambda: times[0])
    waiting = environment.waiting  # type: ignore[attr-defined]
    for key, time, count in ((1000, 0.0, 1), (100_000, 30.0, 1), (50_000, 90.0, 2)):
        times[0] = time
        assert table.get(key) is not None
        assert len(waiting) == count
    waiting[-1]()
    environment.taken()
    assert table.get(20_000) is not None
    assert [name for _, name in environment.taken() if name == written] == []


@pytest.mark.parametrize("position", [20, 100, -1, "all"])
def test_a_damaged_part_is_an_error(reader: Store, written: str, position: int | str) -> None:
    """Of the index, of blocks that are read; also if the object is another segment's."""
    environment = environment_of(reader)
    get_range = environment.client.get_range

    def damaged(key: str, start: int, stop: int) -> tuple[bytes, int]:
        content, size = get_range(key, start, stop)
        if key.endswith(written):
            if position == "all":
                content = content.translate(bytes([*range(1, 256), 0]))
            else:
                assert isinstance(position, int)
                changed = bytearray(content)
                changed[position] ^= 1
                content = bytes(changed)
        return content, size

    environment.client.get_range = damaged  # type: ignore[method-assign]
    # An object without magic is read whole, and by another request.
    if position == "all":
        get = environment.client.get
        environment.client.get = (  # type: ignore[method-assign]
            lambda key: b"other" if key.endswith(written) else get(key)
        )
    with pytest.raises(CorruptionError, match="segments/"):
        reader.table("t").get(1000)


def test_the_object_of_another_segment_is_an_error(
    reader: Store, written: str, tmp_path: Path
) -> None:
    """Though each of its blocks is whole: the hash of its content is not the log's."""
    other = Store.open("", environment=CountedStore(environment_of(reader).root, tmp_path / "o"))
    other.create_table("u", "id BIGINT", primary_key=["id"])
    other.write("u", [{"id": 1}])
    (name,) = other.state.segments.keys() - {written[9:-5]}
    environment = environment_of(reader)
    get_range = environment.client.get_range

    def exchanged(key: str, start: int, stop: int) -> tuple[bytes, int]:
        return get_range(key.replace(written, segment_path(name)), start, stop)

    environment.client.get_range = exchanged  # type: ignore[method-assign]
    with pytest.raises(CorruptionError, match="a segment of hash"):
        reader.table("t").get(1000)
    other.drop_table("u")


def test_a_missing_segment_is_named(reader: Store, written: str) -> None:
    """As where it is read whole."""
    environment = environment_of(reader)

    def missing(key: str, start: int, stop: int) -> tuple[bytes, int]:
        raise FileNotFoundError(key)

    environment.client.get_range = missing  # type: ignore[method-assign]
    with pytest.raises(SegmentMissingError, match=written):
        reader.table("t").get(1000)
