"""A table's files as sorted runs, and which of them a lookup asks."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from relstate.storage import Store
from relstate.storage.segment.registry import registry
from relstate.storage.table.encoding import encoding_of
from relstate.storage.table.run import sorted_runs
from relstate.storage.table.tablefiles import lookups_by_vnode
from support.places import in_folder
from support.stores import contents


@pytest.fixture
def compacted(store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Return a store with a table of one file per shard, and a newer file of changes."""
    monkeypatch.setattr("relstate.storage.maintenance.policy.CUT", 1)
    store.create_table("t", "k INT, v INT", primary_key=["k"])
    for start in (0, 500):
        keys = np.arange(start, start + 1000)
        store.write("t", pa.table({"k": keys, "v": keys + start}))
    store.compact("t")
    store.write("t", pa.table({"k": [3, 700], "v": [-3, -700]}))
    return store


def test_the_output_of_one_merge_is_one_run(compacted: Store) -> None:
    """Of many files, whose keys ascend from file to file."""
    segments = compacted.state.segments_of(1)
    files = [registry.open(compacted.environment, segment.record) for segment in segments]

    newest, merged = sorted_runs(segments, files, 1)

    assert len(newest.files) == 1
    assert len(merged.files) == len(segments) - 1 > 1
    spans = [span for _, span in merged.files]
    assert spans == sorted(spans)
    whole = list(merged.source((b"", None), 512, False))
    keys = [key for block in whole for key in block.key_bytes().to_pylist()]
    assert keys == sorted(keys)
    assert len(keys) == 1500


@pytest.mark.parametrize("descending", [False, True])
def test_a_run_yields_the_entries_within_bounds(compacted: Store, descending: bool) -> None:
    """From either end, and from the files within the bounds only."""
    segments = compacted.state.segments_of(1)
    files = [registry.open(compacted.environment, segment.record) for segment in segments]
    merged = sorted_runs(segments, files, 1)[-1]
    encoding = encoding_of(compacted.state.table("t").definition, compacted.settings.vnode_count)
    every = [
        key
        for block in merged.source((b"", None), 512, False)
        for key in block.key_bytes().to_pylist()
    ]

    for vnodes in (range(1), range(1, 3), range(encoding.vnode_count)):
        low, high = encoding.vnode_bounds(vnodes)
        blocks = list(merged.source((low, high), 4, descending))
        parts = [block.key_bytes().to_pylist() for block in blocks]
        joined = [key for part in (parts[::-1] if descending else parts) for key in part]
        assert joined == [key for key in every if low <= key and (high is None or key < high)]


def test_files_that_overlap_are_runs_of_their_own(compacted: Store) -> None:
    """Also if they have the same sequence number."""
    segments = [compacted.state.segments_of(1)[-1]] * 2
    files = [registry.open(compacted.environment, segment.record) for segment in segments]

    assert [len(run.files) for run in sorted_runs(segments, files, 1)] == [1, 1]


def test_a_lookup_asks_the_files_of_its_shard_only(compacted: Store) -> None:
    """The newest first."""
    segments = compacted.state.segments_of(1)
    encoding = encoding_of(compacted.state.table("t").definition, compacted.settings.vnode_count)
    asked = lookups_by_vnode(segments, range(len(segments)), encoding)

    assert all(1 <= len(numbers) <= 2 for numbers in asked)
    assert all(list(numbers) == sorted(numbers) for numbers in asked)
    assert [store_row for store_row in contents(compacted, "t") if store_row[0] in (3, 700)] == [
        (3, -3), (700, -700),
    ]  # fmt: skip
    for key in range(1500):
        row = compacted.table("t").get(key)
        assert row is not None
        assert row.k == key


def test_a_table_without_files_has_nothing_to_ask(store: Store) -> None:
    """It has no rows."""
    store.create_table("t", "k INT", primary_key=["k"])

    assert store.table("t").get(1) is None
    assert store.table("t").count() == 0


@pytest.fixture
def loaded(store: Store) -> Store:
    """Return a store with a table of five files with ranges of keys of their own, just opened."""
    store.create_table("t", "k INT, v INT", primary_key=["k"])
    for start in range(0, 500, 100):
        keys = np.arange(start, start + 100)
        store.write("t", pa.table({"k": keys, "v": keys}))
    return Store.open(store.path)


@in_folder
def test_the_first_gets_open_only_the_files_that_may_have_their_keys(loaded: Store) -> None:
    """A file is read whole before its first use: the time of a get is not that of the table."""
    with loaded:
        before, table = registry.opened, loaded.table("t")

        assert table.get(250) == (250, 250)
        assert registry.opened == before + 1
        assert table.get(900) is None
        assert table.get(-1) is None
        assert table.get(299) == (299, 299)
        assert registry.opened == before + 1
        assert table.get(0) == (0, 0)
        assert registry.opened == before + 2


def test_gets_of_many_files_open_all_of_them(loaded: Store) -> None:
    """Once they have asked for half of the bytes; before and after it they find the newest rows."""
    loaded.write("t", pa.table({"k": [150, 477], "v": [-150, -477]}))
    loaded.delete("t", [{"k": 444}])
    # The first is asked for before all are open, the last after it.
    expected = {150: (150, -150)} | {key: (key, key) for key in range(0, 500, 35)}
    expected |= {477: (477, -477)}
    with loaded, Store.open(loaded.path) as again:
        names = {segment.name for segment in again.state.segments_of(1)}
        assert len(names) == 7
        table = again.table("t")

        assert {key: table.get(key) for key in expected} == expected
        assert table.get(444) is None
        assert names <= set(registry.kept(again.environment))
