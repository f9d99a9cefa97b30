"""Slots leave out files without a key, and never one that has it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relstate.storage import Store
from relstate.storage.segment.lookup_memory import index_memory
from relstate.storage.segment.segment import SegmentFile
from relstate.storage.table import keydigests, keylookups
from relstate.storage.table.encoding import Encoding
from relstate.storage.table.keydigests import KeyDigests
from relstate.storage.table.storagetable import StorageTable
from support.examples import examples
from support.stores import unsynced

_KEYS = range(-6, 30)
_COLUMNS = {
    "k INT NOT NULL, v INT": ["k"],
    "k INT NOT NULL, t STRING NOT NULL, v INT": ["t", "k"],
}
_COMMITS = st.lists(
    st.tuples(st.booleans(), st.lists(st.sampled_from(_KEYS[6:]), min_size=1, max_size=9)),
    min_size=2,
    max_size=12,
)


@pytest.fixture(autouse=True, scope="module")
def quick_slots() -> Iterator[None]:
    """Slots pay after one lookup."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keylookups, "_LEAST_MISSES", 0)
        patch.setattr(keylookups, "_ENTRIES_PER_MISS", 1 << 40)
        patch.setattr(keylookups, "_KNOWN_PER_MISS", 1 << 40)
        yield


def filled(
    path: str, columns: str, commits: list[tuple[bool, list[int]]], vnodes: int = 7
) -> tuple[Store, dict[int, int]]:
    """Return a store of some commits that write or delete keys, and its rows as they should be."""
    store = Store.create(path, environment=unsynced(path), vnode_count=vnodes, shards=2)
    store.create_table(
        "t", columns, primary_key=_COLUMNS[columns], distribution_key=_COLUMNS[columns][-1:]
    )
    rows: dict[int, int] = {}
    names = [name for name in ("k", "t", "v") if f"{name} " in columns]
    for number, (is_delete, keys) in enumerate(commits):
        batch = [{"k": key, "t": str(key), "v": number} for key in dict.fromkeys(keys)]
        whole = store.table("t").schema.arrow_schema
        table = pa.Table.from_pylist(batch, pa.schema([whole.field(name) for name in names]))
        if is_delete:
            store.delete("t", table.select([name for name in names if name != "v"]))
            rows = {key: value for key, value in rows.items() if key not in keys}
        else:
            store.write("t", table)
            rows |= dict.fromkeys(keys, number)
    return store, rows


def values_of(table: StorageTable) -> dict[int, int]:
    """Return the values of all keys that have one, by gets of each twice."""
    is_single = len(table.encoding.key_names) == 1
    values: dict[int, int] = {}
    for key in [*_KEYS, *_KEYS]:
        row = table.get((key,) if is_single else (str(key), key))
        if row is not None:
            values[key] = row.v
    return values


@settings(max_examples=examples(30))
@given(
    commits=_COMMITS,
    columns=st.sampled_from(sorted(_COLUMNS)),
    most=st.sampled_from([2, 5, 100]),
    vnodes=st.sampled_from([4, 7]),
    last_bit=st.sampled_from([1, 7]),
)
def test_gets_with_slots_find_the_newest_rows(
    commits: list[tuple[bool, list[int]]], columns: str, most: int, vnodes: int, last_bit: int
) -> None:
    """Of many files, some of them too large for slots, with deletes, and of keys without a row."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(keylookups, "_MOST_ROWS", most)
        patch.setattr(keylookups, "_LAST_BIT", last_bit)
        store, rows = filled(folder, columns, commits, vnodes)
        with store:
            assert values_of(store.read_plan("t").open(store.environment)) == rows


@pytest.fixture
def table(tmp_path: Path) -> StorageTable:
    """A table of three files."""
    commits = [(False, list(range(20))), (False, [1]), (True, [2])]
    store, _ = filled(str(tmp_path), "k INT NOT NULL, v INT", commits)
    return store.read_plan("t").open(store.environment)


def asked(table: StorageTable, key: int) -> int:
    """Return how many files a get of a key asks."""
    encode, lookups = table.encoding.key_encoder, table._files.key_lookups
    assert encode is not None
    assert lookups is not None
    assert lookups.slots is not None
    vnode, _, digest = encode((key,))
    by_slot: Any = lookups.by_vnode[vnode][1][0]
    return len(by_slot[lookups.slots[digest & lookups.mask]])


def test_files_without_a_key_are_not_asked(table: StorageTable) -> None:
    """Once a key was looked up; before, all are."""
    assert len(table._files.segments) == 3
    assert table.get((1,)) == (1, 1)
    assert table._files.key_lookups is not None
    assert table._files.key_lookups.slots is None
    assert table.get((5,)) == (5, 0)

    counts = [asked(table, key) for key in range(20)]
    assert counts[1] >= 2
    assert counts[2] >= 2
    assert sum(counts) < 30
    assert sum(asked(table, key) for key in range(1000, 1020)) < 20


def test_memory_is_bounded_and_given_back(
    table: StorageTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the last reference, without a collection; where it is taken there are no slots."""
    free = index_memory._free
    assert (table.get((1,)), table.get((2,))) == ((1, 1), None)
    assert index_memory._free < free
    table._files.close()
    gc.disable()
    try:
        assert index_memory._free == free
        monkeypatch.setattr(index_memory, "_free", 0)
        for key in (1, 2, 3):
            table.get((key,))
        assert table._files.key_lookups is not None
        assert table._files.key_lookups.slots is None
        assert (table.get((1,)), table.get((2,)), table.get((3,))) == ((1, 1), None, (3, 0))
    finally:
        gc.enable()


def test_after_a_commit_only_its_own_file_is_hashed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hashes of the keys of the other files are in memory, and gets find all rows by slots."""
    read: list[int] = []
    read_digests = keydigests._read_digests

    def counted(file: SegmentFile, encoding: Encoding) -> KeyDigests:
        digests = read_digests(file, encoding)
        read.append(len(digests.digests))
        return digests

    monkeypatch.setattr(keydigests, "_read_digests", counted)
    commits = [(False, list(range(20))), (False, [1, 3])]
    store, rows = filled(str(tmp_path), "k INT NOT NULL, v INT", commits)
    with store:
        first = store.read_plan("t").open(store.environment)
        assert values_of(first) == rows
        assert sorted(read) == [2, 20]

        store.write("t", [{"k": key, "v": 7} for key in (4, 5, 6)])

        second = store.read_plan("t").open(store.environment)
        assert values_of(second) == rows | dict.fromkeys((4, 5, 6), 7)
        assert sorted(read) == [2, 3, 20]
        assert second._files.key_lookups is not None
        assert second._files.key_lookups.slots is not None
        assert sum(asked(second, key) for key in range(20)) < 30
