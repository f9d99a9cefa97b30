"""The result of a merge: a store that compacts reads as one that never does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relstate.storage import Store
from relstate.storage.clock import SystemClock
from relstate.storage.local_environment import LocalEnvironment
from relstate.storage.log.log import Log
from relstate.storage.log.state import StoreState
from relstate.storage.maintenance import compaction, policy, rewrite
from relstate.storage.schema.properties import Merge
from relstate.storage.segment.block import Block
from relstate.storage.segment.segment import SegmentFile
from relstate.storage.table.run import file_source
from support.clock import ManualClock
from support.commits import UnsyncedDisk
from support.examples import Seeds
from support.stores import StoreMaker, contents, rows_of, unsynced, upsert

_SCHEMA = pa.schema({"k": pa.int32(), "v": pa.int32(), "a": pa.int32(), "b": pa.string()})
_ROW = st.tuples(
    st.integers(0, 7),
    st.none() | st.integers(0, 3),
    st.none() | st.integers(0, 9),
    st.none() | st.sampled_from(["x", "y"]),
)
# Rows of different keys, to be written or deleted; or a full compaction.
_WRITE = st.tuples(
    st.booleans(), st.lists(_ROW, min_size=1, max_size=6, unique_by=lambda row: row[0])
)
_STEPS = st.lists(_WRITE | st.just("compact"), min_size=3, max_size=12)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let two files be too many, but for stores whose folder is ``untouched``."""
    for name in ("MOST_WIDE", "MOST_NARROW", "_EARLY_NARROW", "LEAST_SMALL"):
        monkeypatch.setattr(policy, name, 1)
    monkeypatch.setattr(policy, "_LEAST_FILES", 2)
    monkeypatch.setattr(compaction, "FEW", 1)
    auto_compact = compaction.auto_compact

    def compact_one(log: Log, state: StoreState, tables: set[int]) -> StoreState:
        return (
            state
            if log.environment.location("").endswith("untouched")
            else auto_compact(log, state, tables)
        )

    monkeypatch.setattr(compaction, "auto_compact", compact_one)


@contextmanager
def twins(merge: Merge, is_versioned: bool) -> Iterator[tuple[Store, Store]]:
    """Give two stores with a table each: one that compacts and one that does not."""
    with TemporaryDirectory() as folder:
        stores = []
        for name in ("compacted", "untouched"):
            path = f"{folder}/{name}"
            stores.append(Store.create(path, vnode_count=4, environment=unsynced(path)))
            stores[-1].create_table(
                "t",
                "k INT, v INT, a INT, b STRING",
                primary_key=["k"],
                merge=merge,
                version_column="v" if is_versioned else None,
            )
        yield stores[0], stores[1]
        for store in stores:
            assert store.check().problems == ()
            store.close()


def batch(rows: list[tuple[object, ...]]) -> pa.RecordBatch:
    """Return rows as a batch."""
    columns = zip(_SCHEMA, zip(*rows, strict=True), strict=True)
    return pa.record_batch([pa.array(values, field.type) for field, values in columns], _SCHEMA)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    ("merge", "is_versioned"),
    [
        ("overwrite", False),
        ("overwrite", True),
        ("ignore", False),
        ("partial", False),
        ("partial", True),
    ],
)
def test_compaction_changes_no_row(merge: Merge, is_versioned: bool, seeds: Seeds) -> None:
    """Whatever the table's properties; partial and full merges, at once and after later writes."""
    merged = 0

    @settings(max_examples=len(seeds(25)))
    @given(_STEPS)
    def run(steps: list[tuple[bool, list[tuple[object, ...]]] | str]) -> None:
        nonlocal merged
        with twins(merge, is_versioned) as (compacted, untouched):
            for step in steps:
                if isinstance(step, str):
                    compacted.compact()
                else:
                    for store in (compacted, untouched):
                        (store.delete if step[0] else store.write)("t", batch(step[1]))
                assert rows_of(compacted.table("t").to_arrow()) == rows_of(
                    untouched.table("t").to_arrow()
                )
            merged += compacted.epoch - untouched.epoch

    run()
    assert merged > 0


def test_a_delete_outlives_compaction_for_its_time(tmp_path: Path) -> None:
    """A late update with an older version brings no row back, until the delete may be dropped."""
    clock = ManualClock(SystemClock().now())
    path = str(tmp_path / "store")
    environment = LocalEnvironment(path, UnsyncedDisk(clock), clock)
    with Store.create(path, vnode_count=4, environment=environment) as store:
        store.create_table(
            "t",
            "k INT, v INT, a INT, b STRING",
            primary_key=["k"],
            version_column="v",
            tombstone_retention=3600,
        )
        store.write("t", batch([(1, 1, 1, "row"), (2, 1, 1, "stays")]))
        store.delete("t", batch([(1, 5, None, None)]))
        store.compact()
        (segment,) = store.state.segments.values()
        assert [table.deletes for table in segment.record.tables] == [1]
        store.write("t", batch([(1, 4, 4, "late")]))
        assert [row[0] for row in contents(store, "t")] == [2]

        clock.advance(2 * 3600)
        store.compact()

        (segment,) = store.state.segments.values()
        assert [(table.rows, table.deletes) for table in segment.record.tables] == [(1, 0)]
        assert [row[0] for row in contents(store, "t")] == [2]


def test_a_merge_by_shard_reads_the_files_with_rows_in_the_shard(
    make_store: StoreMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no other: a file of one row is read for one shard, one of all shards for each."""
    read: Counter[str] = Counter()

    def counted(file: SegmentFile, *arguments: Any) -> Iterator[Block]:
        read[Path(file.path).stem] += 1
        return file_source(file, *arguments)

    monkeypatch.setattr(rewrite, "file_source", counted)
    store = make_store(vnode_count=16, shards=4)
    store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
    upsert(store, "t", [(key, "x" * 1000) for key in range(6000)])
    upsert(store, "t", [(7, "y")])
    inputs = {segment.name: segment.statistics_of(1) for segment in store.state.segments_of(1)}

    store.compact()

    assert read == {name: sum(map(bool, of.shard_bytes)) for name, of in inputs.items()}
    assert sorted(read.values()) == [1, 4]
    assert [row for row in contents(store, "t") if row[1] == "y"] == [(7, "y")]


@pytest.mark.usefixtures("eager")
def test_an_expired_row_above_others_hides_them_still(tmp_path: Path) -> None:
    """A merge that leaves older files writes a delete instead of the row."""
    clock = ManualClock(SystemClock().now())
    path = str(tmp_path / "store")
    environment = LocalEnvironment(path, UnsyncedDisk(clock), clock)
    with Store.create(path, vnode_count=4, shards=4, environment=environment) as store:
        store.create_table("t", "k INT, v STRING", primary_key=["k"])
        # Too large to be merged by itself.
        upsert(store, "t", [(key, "x" * 4000) for key in range(1600)])
        store.set_ttl("t", 60)
        upsert(store, "t", [(key, "short") for key in range(40)])
        clock.advance(600)
        upsert(store, "t", [(key, "later") for key in range(40, 80)])

        young = store.state.segments_of(1)[0].record
        assert young.sequence_number is not None
        assert sum(table.deletes for table in young.tables) == 40
        assert store.table("t").count() == 1600 - 40
        assert store.table("t").get(7) is None
