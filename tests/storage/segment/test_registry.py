"""Laws of the registry: which segments a process has open, and when it verifies them."""

from __future__ import annotations

import gc
import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from relstate.storage.codec.ragged import Buffer
from relstate.storage.environment import Environment
from relstate.storage.errors import CorruptionError, SegmentMissingError
from relstate.storage.log.segment_record import SegmentRecord
from relstate.storage.paths import SEGMENTS, segment_path
from relstate.storage.segment import registry as registry_module
from relstate.storage.segment.registry import SegmentRegistry
from support.segments import folder_for_segments, write_pairs


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """A folder for segments."""
    return folder_for_segments(tmp_path / "store")


@pytest.fixture
def records(environment: Environment) -> Iterator[SegmentRecord]:
    """Yield any number of new segments, each with another entry."""
    return (
        write_pairs(environment, [(b"key", b"value %03d" % number)], name=f"s{number}")
        for number in itertools.count()
    )


def path_of(environment: Environment, record: SegmentRecord) -> Path:
    """Return the path of a segment."""
    return Path(environment.local_path(segment_path(record.name)))


def flip(environment: Environment, record: SegmentRecord) -> None:
    """Change a bit of a segment's value."""
    path = path_of(environment, record)
    contents = bytearray(path.read_bytes())
    contents[contents.rindex(b"value")] ^= 1
    path.write_bytes(contents)


def test_a_file_is_open_once(environment: Environment, records: Iterator[SegmentRecord]) -> None:
    """The second opening returns the same object."""
    registry, record = SegmentRegistry(capacity=4), next(records)

    assert registry.open(environment, record) is registry.open(environment, record, "size")


@pytest.mark.parametrize("verify", ["hash", "size"])
def test_a_file_of_another_size_is_never_opened(
    environment: Environment, records: Iterator[SegmentRecord], verify: str
) -> None:
    """Reading beyond the end of a truncated map would kill the process."""
    registry, record = SegmentRegistry(capacity=4), next(records)
    contents = path_of(environment, record).read_bytes()
    for changed in (contents[:-1], contents + b"\0", b""):
        path_of(environment, record).write_bytes(changed)
        with pytest.raises(
            CorruptionError, match=f"{record.name}.*{len(changed)} bytes.*{record.size}"
        ):
            registry.open(environment, record, verify)


@pytest.mark.parametrize("verify", ["hash", "size"])
def test_a_missing_file_is_an_error(
    environment: Environment, records: Iterator[SegmentRecord], verify: str
) -> None:
    """The error names the file."""
    record = next(records)
    path_of(environment, record).unlink()

    with pytest.raises(SegmentMissingError, match=record.name):
        SegmentRegistry(capacity=4).open(environment, record, verify)


def test_a_changed_file_is_found_before_it_is_read(
    environment: Environment, records: Iterator[SegmentRecord]
) -> None:
    """By its hash, also if a reader that verifies sizes only has it open; that reader goes on."""
    registry, record = SegmentRegistry(capacity=4), next(records)
    flip(environment, record)

    trusted = registry.open(environment, record, "size")
    for _ in range(2):
        with pytest.raises(CorruptionError, match=f"{record.name}.*hash"):
            registry.open(environment, record)

    assert trusted.getter()(b"key") == b"walue 000"


def test_the_hash_of_an_unchanged_file_is_verified_once(
    environment: Environment, records: Iterator[SegmentRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it is opened; again after a change of its inode, size or times."""
    registry, record = SegmentRegistry(capacity=0), next(records)
    identity = environment.identity(segment_path(record.name))
    registry.open(environment, record)
    gc.collect()
    flip(environment, record)

    with monkeypatch.context() as patch:
        # A change that the file system does not show.
        patch.setattr(environment, "identity", lambda _: identity)
        assert registry.open(environment, record).getter()(b"key") == b"walue 000"
    gc.collect()
    with pytest.raises(CorruptionError, match="hash"):
        registry.open(environment, record)
    with pytest.raises(CorruptionError, match="hash"):
        registry.verify(environment, record)


def test_only_who_opens_the_same_file_waits_for_its_hash(
    environment: Environment, records: Iterator[SegmentRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A get elsewhere, be it of another store, does not; a file is hashed once."""
    registry, slow, quick = SegmentRegistry(capacity=4), next(records), next(records)
    begun, may_end, hashed = threading.Event(), threading.Event(), list[str]()
    check_hash = registry_module._check_hash

    def hash_slowly(contents: Buffer, record: SegmentRecord, path: str) -> None:
        hashed.append(record.name)
        if record is slow:
            begun.set()
            assert may_end.wait(60)
        check_hash(contents, record, path)

    monkeypatch.setattr(registry_module, "_check_hash", hash_slowly)
    with ThreadPoolExecutor(3) as pool:
        files = [pool.submit(registry.open, environment, slow) for _ in range(3)]
        assert begun.wait(60)
        other = threading.Thread(target=registry.open, args=(environment, quick))
        other.start()
        other.join(60)
        is_stuck = other.is_alive()
        registry.forget(environment, ["s9"])
        may_end.set()
        assert len({id(file.result()) for file in files}) == 1
    assert not is_stuck
    assert hashed == [slow.name, quick.name]


def test_a_process_remembers_a_bounded_number_of_verified_files(
    environment: Environment, records: Iterator[SegmentRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it has read for years; those that were verified first are verified again."""
    monkeypatch.setattr(registry_module, "_MOST_VERIFIED", 3)
    registry = SegmentRegistry(capacity=0)
    some = [next(records) for _ in range(5)]
    for record in some:
        registry.open(environment, record)
    gc.collect()

    names = [record.name for record in some if path_of(environment, record) in _verified(registry)]
    assert names == ["s2", "s3", "s4"]
    flip(environment, some[0])
    with pytest.raises(CorruptionError, match="hash"):
        registry.open(environment, some[0])


def _verified(registry: SegmentRegistry) -> set[Path]:
    return {Path(path) for path in registry._verified}


def test_only_the_latest_files_are_kept_for_later(
    environment: Environment, records: Iterator[SegmentRecord]
) -> None:
    """Unused files close, the least recently used first; files in use stay open."""
    registry = SegmentRegistry(capacity=2)
    held, *unused = (registry.open(environment, next(records)) for _ in range(2))
    names = [segment_path(f"s{number}") for number in range(4)]
    del unused
    for _ in range(2):
        registry.open(environment, next(records))
    gc.collect()

    is_open = [environment.local_path(name) in registry._open for name in names]
    assert is_open == [True, False, True, True]
    assert held.getter()(b"key") == b"value 000"


def test_a_store_releases_its_own_files_only(tmp_path: Path) -> None:
    """A folder whose name begins with the store's name is another folder."""
    registry = SegmentRegistry(capacity=4)
    environments = [folder_for_segments(tmp_path / name) for name in ("store", "store2")]
    for environment in environments:
        registry.open(environment, write_pairs(environment, [(b"key", b"value")], name="s0"))

    registry.close(environments[0].local_path(SEGMENTS))
    gc.collect()

    paths = [environment.local_path(segment_path("s0")) for environment in environments]
    assert [path in registry._open for path in paths] == [False, True]


def test_more_files_than_descriptors_can_be_read(
    environment: Environment, records: Iterator[SegmentRecord]
) -> None:
    """Files for which LMDB has no descriptor left are read by their pages."""
    registry = SegmentRegistry(capacity=3)
    files = [registry.open(environment, next(records)) for _ in range(8)]
    getters = [file.getter() for file in files]

    assert [get(b"key") for get in getters] == [b"value %03d" % number for number in range(8)]


def test_threads_that_open_and_release_never_read_a_closed_file(
    environment: Environment, records: Iterator[SegmentRecord]
) -> None:
    """With room for one file, three threads over four files open and close all the time."""
    registry, four_records = SegmentRegistry(capacity=1), [next(records) for _ in range(4)]
    wrong: list[object] = []

    def read() -> None:
        for number, record in itertools.islice(itertools.cycle(enumerate(four_records)), 400):
            value: object
            try:
                value = registry.open(environment, record).getter()(b"key")
            except Exception as error:
                value = error
            if value != b"value %03d" % number:
                wrong.append(value)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []


def test_locks_that_were_held_at_a_fork_are_renewed(
    environment: Environment, records: Iterator[SegmentRecord]
) -> None:
    """No thread of the child would ever release them."""
    registry, record = SegmentRegistry(capacity=4), next(records)
    file = registry.open(environment, record)
    for lock in (registry._lock, file._lock):
        lock.__enter__()
        lock.renew()

    assert registry.open(environment, record).get_many([b"key"]) == [(b"key", b"value 000")]


def test_files_that_others_removed_are_released_while_more_are_opened(
    environment: Environment, records: Iterator[SegmentRecord]
) -> None:
    """Without a look at the newest epoch, as tasks of Spark do; those in use stay."""
    registry = SegmentRegistry(capacity=100)
    removed = [next(records) for _ in range(8)]
    used = registry.open(environment, removed[0])
    for record in removed:
        registry.open(environment, record)
        environment.remove(segment_path(record.name))
    for _ in range(64):
        registry.open(environment, next(records))

    kept = set(registry.kept(environment))
    assert not kept & {record.name for record in removed}
    assert len(kept) == 64
    assert used.get_many([b"key"]) == [(b"key", b"value 000")]
