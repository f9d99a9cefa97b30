"""Laws of reads in the order of the key: every row once, in steps that vnodes do not multiply."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relstate.storage import StorageTable, Store
from relstate.storage.codec.ragged import sort_order
from relstate.storage.segment.block import Block
from relstate.storage.table import keychunks, keyorder, table_entries
from relstate.storage.table.keychunks import Sample, key_chunks
from relstate.storage.table.rowencoding import RowEncoding
from relstate.storage.table.scan import Limits, Scan
from support.examples import examples
from support.stores import rows_of, unsynced

_MOST_VNODES = 32_768


@contextmanager
def sorting(rows: int, size: int = 1 << 20, leaves: int = 16_384) -> Iterator[None]:
    """Let reads in the order of the key sort only so much at once, after a look at some leaves."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (keychunks, keyorder, table_entries):
            patch.setattr(module, "SORTED", Limits(rows, size))
        patch.setattr(table_entries, "_MOST_SAMPLED_LEAVES", leaves)
        yield


@contextmanager
def new_store(vnodes: int) -> Iterator[Store]:
    """Return a store whose commits are quick."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/store"
        environment = unsynced(path)
        shards = min(vnodes, 4)
        with Store.create(path, vnode_count=vnodes, shards=shards, environment=environment) as new:
            yield new


_KEYS = st.lists(st.integers(0, 300), min_size=1, max_size=200)
_CONDITIONS = (None, "k >= 'key 1'", "k < 'key 2' AND v > 3", "k IN ('key 1', 'key 22')", "v = 2")


@pytest.mark.parametrize("encoding", ["row", "document"])
@settings(max_examples=examples(25))
@given(
    st.lists(st.tuples(st.booleans(), _KEYS), min_size=1, max_size=4),
    st.sampled_from([1, 3, 300]),
    st.sampled_from([5, 40, 10_000]),
    st.sampled_from(_CONDITIONS),
    st.booleans(),
    st.booleans(),
)
def test_rows_come_in_the_order_of_the_key(
    encoding: Any,
    writes: list[tuple[bool, list[int]]],
    vnodes: int,
    rows: int,
    where: str | None,
    descending: bool,
    has_newest: bool,
) -> None:
    """Whatever is sorted at once: each row once, its newest version, of the condition only.

    Newer entries in memory are merged with those of the files.
    """
    with new_store(vnodes) as store, sorting(rows):
        store.create_table("t", "k STRING, v INT, w STRING", primary_key=["k"], encoding=encoding)
        for number, (deletes, keys) in enumerate(writes):
            batch = pa.table({"k": [f"key {key}" for key in keys], "v": [number + 1] * len(keys)})
            if deletes:
                store.delete("t", batch.select(["k"]))
            else:
                store.write("t", batch)
            if encoding == "document":
                store.patch("t", [{"k": f"key {keys[0]}", "w": "part"}])
        plan = store.read_plan("t")
        plan = plan if where is None else plan.filtered(where)
        table = plan.open()
        newest = None
        if has_newest and encoding == "row":
            rows_above = pa.record_batch({"k": ["key 1", "key 7", "new"], "v": [9, 9, 9]})
            newest = Block.over(*table.encoding.encode(rows_above))
            newest = newest.take(sort_order(newest.key_bytes()))
        expected = rows_of(table.scan(where=plan.where, newest=newest))
        batches = list(table.scan_in_order(where=plan.where, descending=descending, newest=newest))

        assert rows_of(batches) == sorted(expected, reverse=descending)
        assert all(batch.num_rows for batch in batches)


@settings(max_examples=examples(15))
@given(st.integers(1, 40), st.booleans())
def test_a_sample_divides_large_tables(leaves: int, descending: bool) -> None:
    """Also if few leaf pages are looked at, and the keys are long."""
    keys = [f"{'long ' * (number % 150)}{number:05}" for number in range(2000)]
    with new_store(7) as store, sorting(100, leaves=leaves):
        store.create_table("t", "k STRING, v INT", primary_key=["k"])
        store.write("t", pa.table({"k": keys, "v": range(2000)}))
        store.write("t", pa.table({"k": keys[::3], "v": [0] * len(keys[::3])}))
        batches = store.read_plan("t").open().scan_in_order(["k"], descending=descending)

        assert [row[0] for row in rows_of(batches)] == sorted(keys, reverse=descending)


class CountedTable(StorageTable):
    """A table that counts the pieces that it decodes."""

    decoded = 0

    def decode(self, piece: Any, columns: Any) -> pa.RecordBatch:
        """Count, and decode."""
        self.decoded += 1
        return super().decode(piece, columns)


@pytest.fixture(scope="module")
def wide_store() -> Iterator[Store]:
    """A store of the most vnodes, with a table of 20,000 rows in two files of each shard."""
    with new_store(_MOST_VNODES) as store:
        store.create_table("t", "k STRING, v INT", primary_key=["k"])
        for part in range(2):
            numbers = np.arange(part, 20_000, 2)
            texts = [f"key {number:06}" for number in numbers]
            store.write("t", pa.table({"k": texts, "v": pa.array(numbers, pa.int32())}))
        yield store


def counted(store: Store, where: str | None, *, ordered: bool, patch: Any) -> tuple[int, int, int]:
    """Return (rows, decoded pieces, windows of merges) of a read."""
    windows = 0
    merged = Scan.windows

    def counting(scan: Scan, *arguments: Any, **named: Any) -> Iterator[Any]:
        nonlocal windows
        for window in merged(scan, *arguments, **named):
            windows += 1
            yield window

    patch.setattr(Scan, "windows", counting)
    plan = store.read_plan("t")
    plan = plan if where is None else plan.filtered(where)
    encoding = RowEncoding(plan.definition, plan.vnode_count)
    table = CountedTable(unsynced(plan.path), encoding, plan.segments, lambda: plan.time)
    read = table.scan_in_order if ordered else table.scan
    rows = sum(batch.num_rows for batch in read(where=plan.where))
    patch.undo()
    return rows, table.decoded, windows


@pytest.mark.parametrize(
    ("where", "ordered", "rows", "most"),
    [
        (None, False, 20_000, 10),
        (None, True, 20_000, 60),
        ("k BETWEEN 'key 000100' AND 'key 000105'", False, 6, 4),
        ("k BETWEEN 'key 000100' AND 'key 000105'", True, 6, 4),
        ("k >= 'key 010000'", True, 10_000, 40),
    ],
)
def test_steps_do_not_grow_with_the_vnodes(
    wide_store: Store,
    monkeypatch: pytest.MonkeyPatch,
    where: str | None,
    ordered: bool,
    rows: int,
    most: int,
) -> None:
    """At 32,768 vnodes a read takes steps for the rows that are sorted at once, not for vnodes."""
    with sorting(1500):
        found, decoded, windows = counted(wide_store, where, ordered=ordered, patch=monkeypatch)

    assert found == rows
    assert decoded <= most
    assert windows <= most


def test_the_first_rows_are_no_scan_of_vnodes(wide_store: Store) -> None:
    """More ranges than a quarter of the rows are not sought: all rows are read in order."""
    table = wide_store.read_plan("t").open()
    assert table.first_in_order(10) is None


def test_chunks_hold_equal_shares(tmp_path: Path) -> None:
    """About half of what is sorted at once, in rows or in bytes, and together all keys."""
    with Store.create(str(tmp_path / "s"), vnode_count=5) as store:
        store.create_table("t", "k INT, v STRING", primary_key=["k"])
        encoding = store.read_plan("t").open().encoding
    numbers = np.random.default_rng(1).permutation(60_000)
    for width, rows_per_chunk in ((1, 5_000), (400, 1_280)):
        texts = pa.repeat("x" * width, len(numbers))
        block = Block.over(
            *encoding.encode(pa.record_batch({"k": pa.array(numbers, pa.int32()), "v": texts}))
        )
        with sorting(10_000, 1 << 20):
            chunks = key_chunks(encoding, [Sample(block)], (b"", None))
        assert chunks[0][0] == b""
        assert chunks[-1][1] is None
        assert [high for _, high in chunks[:-1]] == [low for low, _ in chunks[1:]]
        keys = sorted(encoding.primary_keys_in(block).to_pylist())
        counts = np.diff(np.searchsorted(keys, [low for low, _ in chunks] + [b"\xff"]))
        assert max(counts) < 1.4 * rows_per_chunk
        assert min(counts[:-1]) > 0.6 * rows_per_chunk


def test_many_points_are_read_in_order(tmp_path: Path) -> None:
    """More keys than can be sorted at once are looked up in parts, in their order."""
    with Store.create(str(tmp_path / "s"), vnode_count=64) as store:
        store.create_table("t", "k INT, v INT", primary_key=["k"])
        store.write("t", pa.table({"k": range(5000), "v": range(5000)}))
        wanted = ", ".join(str(number) for number in range(0, 4000, 4))
        plan = store.read_plan("t").filtered(f"k IN ({wanted}) AND v <> 8")
        with sorting(100):
            batches = list(plan.open().scan_in_order(["v"], where=plan.where, descending=True))

    assert [row[0] for row in rows_of(batches)] == [n for n in range(3996, -1, -4) if n != 8]
