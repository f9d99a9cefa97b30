"""How many files a lookup asks: the one that has the key, and of other files hardly any.

These are counts, which no machine's speed disturbs: how often LMDB is asked for a key.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

from relstate.storage import Store
from relstate.storage.codec.ragged import Positions
from relstate.storage.maintenance import compaction
from relstate.storage.segment import writer
from relstate.storage.segment.segment import SegmentFile
from relstate.storage.table import filteredgets, keylookups
from support.stores import unsynced

_FILES, _ROWS = 24, 500
# Of the keys that a file does not have, its filter lets pass about two in a hundred.
_PASSED = 0.03


@dataclass
class Asked:
    """Counts the lookups of keys in files."""

    lookups: int = 0

    def counted(self, get: Callable[[bytes], bytes | None]) -> Callable[[bytes], bytes | None]:
        """Return a lookup that is counted."""

        def counted_get(key: bytes) -> bytes | None:
            self.lookups += 1
            return get(key)

        return counted_get


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Counts lookups; all files have filters, and none has slots."""
    counts = Asked()
    getter = SegmentFile.getter
    monkeypatch.setattr(SegmentFile, "getter", lambda file: counts.counted(getter(file)))
    monkeypatch.setattr(writer, "LEAST_FILTERED_KEYS", 1)
    monkeypatch.setattr(keylookups, "_MOST_ROWS", 0)
    # Small files are not merged after a commit.
    monkeypatch.setattr(compaction, "auto_compact", lambda _log, state, _tables: state)
    return counts


@pytest.fixture(params=["one by one", "together"], autouse=True)
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    """Filters are asked one by one, or together from the first lookups on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filteredgets, "_LEAST_TOGETHER", 2 if request.param == "together" else 99)
        patch.setattr(filteredgets, "_ASKED_PER_WORD", 0)
        yield


def table_of_files(path: Path, keys_of_files: list[list[str]]) -> Store:
    """Return a store with a table t of some files with these keys, the newest last."""
    store = Store.create(str(path), environment=unsynced(str(path)), vnode_count=16, shards=2)
    store.create_table("t", "k STRING, v INT", primary_key=["k"])
    for number, keys in enumerate(keys_of_files):
        write(store, keys, number)
    return store


def write(store: Store, keys: list[str], value: int) -> None:
    """Write one value under some keys, as one file."""
    values = pa.array([value] * len(keys), pa.int32())
    store.write("t", pa.table({"k": keys, "v": values}))


def lookups_per_get(store: Store, asked: Asked, expected: dict[str, int | None]) -> float:
    """Return how many files a get of some keys asks, whose values are as expected."""
    table = store.table("t")
    for key in [*expected][:50]:
        table.get(key)
    asked.lookups = 0
    for key, value in expected.items():
        row = table.get(key)
        assert (None if row is None else row.v) == value
    return asked.lookups / len(expected)


def random_keys(count: int, seed: int) -> list[str]:
    """Return some keys at random, as UUIDs are."""
    draw = random.Random(seed)
    return [f"{draw.getrandbits(128):032x}" for _ in range(count)]


def test_a_get_of_random_keys_asks_hardly_another_file(tmp_path: Path, asked: Asked) -> None:
    """As loaded, after upserts, of keys that are not there, and one file after a compaction."""
    keys = random_keys(_FILES * _ROWS, 1)
    parts = [keys[start::_FILES] for start in range(_FILES)]
    with table_of_files(tmp_path, parts) as store:
        assert len(store.read_plan("t").open(store.environment)._files.segments) == _FILES
        rows: dict[str, int | None] = {}
        for number, part in enumerate(parts):
            rows |= dict.fromkeys(part[::5], number)
        assert 1 <= lookups_per_get(store, asked, rows) <= 1 + _PASSED * _FILES / 2

        for number in range(6):
            upserted = keys[number * 300 : number * 300 + 300]
            write(store, upserted, 100 + number)
            rows |= dict.fromkeys(upserted, 100 + number)
        files = _FILES + 6
        assert 1 <= lookups_per_get(store, asked, rows) <= 1 + _PASSED * files
        absent = dict.fromkeys(random_keys(3000, 2))
        assert lookups_per_get(store, asked, absent) <= _PASSED * files

        store.compact("t")
        assert lookups_per_get(store, asked, rows) == 1


def test_a_get_of_keys_in_order_asks_one_file(tmp_path: Path, asked: Asked) -> None:
    """The bounds of the files say which one: no filter is asked, nor needed."""
    keys = sorted(random_keys(_FILES * 100, 3))
    parts = [keys[start : start + 100] for start in range(0, len(keys), 100)]
    with table_of_files(tmp_path, parts) as store:
        rows: dict[str, int | None] = {}
        for number, part in enumerate(parts):
            rows |= dict.fromkeys(part, number)
        assert lookups_per_get(store, asked, rows) == 1


def test_many_keys_are_looked_up_in_the_files_that_have_them(
    tmp_path: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lookup of many keys searches each key in the file that has it, and hardly in another."""
    keys = random_keys(_FILES * _ROWS, 4)
    parts = [keys[start::_FILES] for start in range(_FILES)]
    searched = 0
    get_many, find_keys = SegmentFile.get_many, SegmentFile.find_keys

    def counted_get_many(file: SegmentFile, few: list[bytes]) -> list[tuple[bytes, bytes]]:
        nonlocal searched
        searched += len(few)
        return get_many(file, few)

    def counted_find_keys(file: SegmentFile, some: pa.Array, at: Positions) -> object:
        nonlocal searched
        searched += len(at)
        return find_keys(file, some, at)

    with table_of_files(tmp_path, parts) as store:
        monkeypatch.setattr(SegmentFile, "get_many", counted_get_many)
        monkeypatch.setattr(SegmentFile, "find_keys", counted_find_keys)
        table = store.read_plan("t").open(store.environment)
        chosen = pa.table({"k": sorted(keys)[::3]})
        found = table.get_rows(chosen.to_batches()[0])
        assert found is not None
        assert len(chosen) <= searched <= len(chosen) * (1 + _PASSED * _FILES / 2)


@pytest.mark.parametrize("merge", ["partial", "ignore"])
def test_a_get_of_rows_that_are_merged_asks_hardly_another_file(
    tmp_path: Path, asked: Asked, merge: Literal["partial", "ignore"]
) -> None:
    """All versions of a row are needed, but files without any are left out too."""
    keys = random_keys(_FILES * 50, 5)
    environment = unsynced(str(tmp_path))
    with Store.create(str(tmp_path), environment=environment, vnode_count=16, shards=2) as store:
        store.create_table("t", "k STRING, v INT", primary_key=["k"], merge=merge)
        for number in range(_FILES):
            write(store, keys[number::_FILES], number)
        rows: dict[str, int | None] = {
            key: number for number in range(_FILES) for key in keys[number::_FILES]
        }
        assert 1 <= lookups_per_get(store, asked, rows) <= 1 + _PASSED * _FILES
