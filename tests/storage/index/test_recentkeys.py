"""Laws of the recent keys: none of a covered file is denied, and nothing is read without need."""

from __future__ import annotations

import random

import numpy as np
import pytest
from numpy.typing import NDArray

from relstate.storage import Store
from relstate.storage.index import recentkeys
from relstate.storage.index.recentkeys import RecentKeys, RecentKeysOfTables
from relstate.storage.log.log import Log
from relstate.storage.log.sequenced_segment import SequencedSegment
from relstate.storage.segment.keyfilter import KeyMarks
from relstate.storage.segment.registry import registry
from relstate.storage.table.run import span_of
from support.examples import Seeds
from support.stores import StoreMaker, batch_of, unsynced


class _Reader:
    """Reads the hashes of the keys of files, and records which."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._log = Log(store.environment)
        self.table_id = store.state.table("t").definition.table_id
        self.names: list[str] = []

    def __call__(self, segment: SequencedSegment) -> NDArray[np.uint64] | None:
        self.names.append(segment.name)
        return self.hashes(segment)

    def hashes(self, segment: SequencedSegment) -> NDArray[np.uint64] | None:
        file = registry.open(self._store.environment, segment.record)
        return file.key_hashes(span_of(segment, self.table_id))

    def look(self, recent: RecentKeys, keys: int) -> list[SequencedSegment]:
        """Bring the recent keys up to date for a lookup of some keys; return what they cover."""
        state = self._log.load()
        recent.follow(state, self._log.history.entries)
        segments = state.segments_of(self.table_id)
        uncovered = {segment.name for segment in recent.cover(segments, keys, self)}
        return [segment for segment in segments if segment.name not in uncovered]


def _write(store: Store, chance: random.Random, rows: int) -> None:
    keys = chance.sample(range(400), rows)
    values = [(key, f"{chance.randrange(20)}") for key in keys]
    store.write("t", batch_of(store, "t", values))


def _make_table(store: Store) -> None:
    store.create_table("t", "k INT, v STRING", primary_key=["k"])
    store.create_index("t", "i", ["v"])


def test_no_key_of_a_covered_file_is_denied(
    make_store: StoreMaker, seeds: Seeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was committed, merged or truncated since, and however often the filter was full."""
    for seed in seeds(4):
        chance = random.Random(seed)
        monkeypatch.setattr(recentkeys, "_LEAST_CAPACITY", chance.choice([16, 64, 1024]))
        monkeypatch.setattr(recentkeys, "_MOST_CAPACITY", 1024)
        monkeypatch.setattr(recentkeys, "_ENTRIES_AT_ONCE", chance.choice([0, 50, 1000]))
        monkeypatch.setattr(recentkeys, "_MOST_EPOCHS", chance.choice([2, 32]))
        store = make_store(vnode_count=chance.choice([1, 5]))
        _make_table(store)
        reader = _Reader(store)
        recent = RecentKeys(reader.table_id)
        for _ in range(30):
            _write(store, chance, chance.randrange(1, 40))
            if chance.random() < 0.1:
                store.compact() if chance.random() < 0.7 else store.truncate("t")
            if chance.random() < 0.6:
                for segment in reader.look(recent, chance.randrange(10)):
                    hashes = reader.hashes(segment)
                    assert hashes is not None
                    assert recent.may_hold(KeyMarks.of(hashes)).all()


def test_what_is_merged_is_not_read_again(make_store: StoreMaker) -> None:
    """The output of a merge has the keys of its inputs, one of which has the index alone."""
    store = make_store(vnode_count=4, shards=2)
    store.create_table("t", "k INT, v STRING", primary_key=["k"])
    chance = random.Random(0)
    _write(store, chance, 30)
    store.create_index("t", "i", ["v"])
    reader = _Reader(store)
    recent = RecentKeys(reader.table_id)
    for _ in range(3):
        _write(store, chance, 20)
    assert len(reader.look(recent, 1)) == len(reader.names) > 2

    before = len(reader.names)
    names = {segment.name for segment in store.state.segments_of(reader.table_id)}
    store.compact()
    merged = reader.look(recent, 1)
    assert merged
    assert names.isdisjoint(segment.name for segment in merged)
    assert len(reader.names) == before

    _write(store, chance, 20)
    reader.look(recent, 1)
    assert len(reader.names) == before + 1


def test_large_files_are_not_read(make_store: StoreMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor more entries in one call than pay."""
    monkeypatch.setattr(recentkeys, "_MOST_ROWS", 50)
    monkeypatch.setattr(recentkeys, "_ENTRIES_AT_ONCE", 35)
    store = make_store(vnode_count=1)
    _make_table(store)
    reader = _Reader(store)
    for rows in (100, 30, 20, 10):
        _write(store, random.Random(rows), rows)
    recent = RecentKeys(reader.table_id)

    covered = [len(reader.look(recent, 0)) for _ in range(4)]

    assert covered == [2, 3, 3, 3]
    assert len(reader.names) == 3


def test_an_index_is_its_table_while_others_write_it(
    make_store: StoreMaker, seeds: Seeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of two writers, each of which knows its own recent keys; merges of either."""
    for seed in seeds(3):
        chance = random.Random(seed)
        monkeypatch.setattr(recentkeys, "_LEAST_CAPACITY", chance.choice([64, 1024]))
        monkeypatch.setattr(recentkeys, "_ENTRIES_AT_ONCE", chance.choice([0, 1000]))
        store = make_store(vnode_count=3)
        _make_table(store)
        with Store.open(store.path, environment=unsynced(store.path)) as rival:
            for turn in range(25):
                writer = chance.choice([store, rival])
                _write(writer, chance, chance.choice([1, 20, 90]))
                if chance.random() < 0.1:
                    writer.compact()
                if turn % 5 == 4:
                    assert store.check().problems == ()


def test_the_recent_keys_of_few_tables_are_kept() -> None:
    """Of those that were given back last; what is taken is not there for others."""
    tables = RecentKeysOfTables(most=2)
    keys = [tables.take(table_id) for table_id in range(3)]
    for table_keys in keys:
        tables.give_back(table_keys)

    assert tables.take(0) is not keys[0]
    assert tables.take(2) is keys[2]
    assert tables.take(2) is not keys[2]
