"""Hashes of the keys of a file are those of the keys, and are computed once while it is open."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from relstate.storage import Store
from relstate.storage.segment.lookup_memory import digest_memory
from relstate.storage.table import keydigests
from relstate.storage.table.keydigests import digests_of, has_digests
from relstate.storage.table.storagetable import StorageTable
from support.stores import unsynced

_LONG = "x" * 600
_COLUMNS: dict[str, tuple[str, list[str], list[tuple[Any, ...]]]] = {
    "one number": ("k BIGINT NOT NULL, v INT", ["k"], [(7 * k,) for k in range(-500, 500)]),
    "numbers": (
        "a SMALLINT NOT NULL, k INT NOT NULL, v INT",
        ["a", "k"],
        [(-a, k) for a in range(20) for k in range(20)],
    ),
    "nullable": ("k INT, v INT", ["k"], [(None,), *((k,) for k in range(50))]),
    "texts, one of them long": (
        "k STRING NOT NULL, v INT",
        ["k"],
        [*((f"key {k}",) for k in range(300)), (_LONG,)],
    ),
}


@pytest.fixture(params=sorted(_COLUMNS))
def keys(request: pytest.FixtureRequest) -> str:
    """The name of some keys."""
    name: str = request.param
    return name


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store."""
    path = str(tmp_path)
    with Store.create(path, environment=unsynced(path), vnode_count=5, shards=2) as store:
        yield store


def written(store: Store, keys: str) -> StorageTable:
    """Return a table of one file with some keys, which has entries of an index, too."""
    columns, names, values = _COLUMNS[keys]
    store.create_table(
        "t",
        columns,
        primary_key=names,
        distribution_key=names[-1:],
        nullable_key=keys == "nullable",
    )
    whole = store.table("t").schema.arrow_schema
    rows = [{**dict(zip(names, key, strict=True)), "v": 1} for key in values]
    store.create_index("t", "by_v", ["v"])
    store.write("t", pa.Table.from_pylist(rows, whole))
    table = store.read_plan("t").open(store.environment)
    assert len(store.state.segments) == len(table._files.opened) == 1
    assert len(table._files.segments[0].record.tables) == 2
    return table


def test_they_are_those_of_all_keys_of_the_table(
    store: Store, keys: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By vnode, of usual keys as their encoder says; keys with NULL have any, long ones none."""
    monkeypatch.setattr(keydigests, "_LEAVES_AT_ONCE", 2)
    table = written(store, keys)
    encode = table.encoding.key_encoder
    assert encode is not None
    usual = [key for key in _COLUMNS[keys][2] if None not in key and key != (_LONG,)]
    expected = sorted((vnode, digest % (1 << 32)) for vnode, _, digest in map(encode, usual))

    found = digests_of(table._files.opened[0], table.encoding)

    vnodes = [vnode for vnode, count in enumerate(found.counts.tolist()) for _ in range(count)]
    pairs = list(zip(vnodes, found.digests.tolist(), strict=True))
    assert len(pairs) == len(usual) + (keys == "nullable")
    assert set(expected) <= set(pairs)
    assert keys == "nullable" or sorted(pairs) == expected


def test_they_are_kept_as_long_as_the_file_is_open(store: Store) -> None:
    """And their memory is given back with it, without a collection."""
    table = written(store, "one number")
    (file,), encoding = table._files.opened, table.encoding
    free = digest_memory._free
    assert not has_digests(file, encoding.table_id)

    digests = digests_of(file, encoding)

    assert has_digests(file, encoding.table_id)
    assert not has_digests(file, encoding.table_id + 1)
    assert digests_of(file, encoding) is digests
    assert digest_memory._free == free - 4 * 1000
    gc.disable()
    try:
        store.close()
        del table, file, digests
        assert digest_memory._free == free
    finally:
        gc.enable()


def test_others_are_forgotten_where_the_memory_is_full(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of one file at least are kept, unless they need more than all of it."""
    table = written(store, "one number")
    (old,), encoding = table._files.opened, table.encoding
    keydigests._known.clear()
    monkeypatch.setattr(digest_memory, "_free", 4 * 1500)
    digests_of(old, encoding)
    store.write("t", pa.table({"k": list(range(700)), "v": pa.array([1] * 700, pa.int32())}))
    new = store.read_plan("t").open(store.environment)._files.opened[0]

    digests_of(new, encoding)
    assert has_digests(new, encoding.table_id)
    assert not has_digests(old, encoding.table_id)

    keydigests._known.clear()
    monkeypatch.setattr(digest_memory, "_free", 4 * 800)
    assert len(digests_of(old, encoding).digests) == 1000
    assert not has_digests(old, encoding.table_id)
    assert digest_memory._free == 4 * 800
