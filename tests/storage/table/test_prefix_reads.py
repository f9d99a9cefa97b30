"""Laws of reads by prefixes: all rows of many key prefixes, or the first few rows of each."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from relstate.storage import StorageTable, Store
from relstate.storage.codec.ragged import Positions
from relstate.storage.errors import CorruptionError, SchemaMismatchError
from relstate.storage.segment import search as search_module
from relstate.storage.segment import segment as segment_module
from relstate.storage.segment.page import Pages
from relstate.storage.segment.search import KeyRanges, RangeMatches
from relstate.storage.table import prefixes as prefixes_module
from support.examples import examples
from support.prefixed import Prefixed, Rows, Values, without_pages
from support.stores import StoreMaker, contents, rows_of

_LENGTHS = (0, 1, 480, 494, 495, 496, 498, 500, 502, 503, 504, 505, 511, 512, 520, 700)


def _of(*values: Any) -> Callable[[random.Random], Any]:
    return lambda draw: draw.choice(values)


def _long(draw: random.Random) -> str:
    return draw.choice("pq") * draw.choice(_LENGTHS) + draw.choice(["", "a", "b", "\0", "\0\0"])


_INTEGERS = _of(None, 0, 1, 2, 255, 256, -1, -(1 << 63), (1 << 63) - 1)
_SMALL = _of(*range(12))
_TEXTS = _of(None, "", "a", "ab", "b", "a\0", "a\0b", "\0", "\0\0", "\uffff", "x" * 40)
_FLOATS = _of(None, 0.0, 1.5, -2.5, float("inf"), float("-inf"))

TABLES = [
    Prefixed("numbers", "g BIGINT, i BIGINT, v STRING", ("g", "i"), ("g",), (_INTEGERS, _SMALL)),
    Prefixed(
        "orders",
        "s STRING, n BIGINT, f DOUBLE, v STRING",
        ("s desc", "n desc nulls first", "f asc nulls last"),
        ("s",),
        (_TEXTS, _INTEGERS, _FLOATS),
    ),
    Prefixed("single", "a STRING, b INT, v STRING", ("a nulls last", "b"), (), (_TEXTS, _SMALL)),
    Prefixed(
        "inner",
        "a INT, b STRING, c BIGINT, v STRING",
        ("a desc", "b", "c"),
        ("b",),
        (_of(None, 1, 2), _TEXTS, _INTEGERS),
        least=2,
    ),
    Prefixed("long", "k STRING, n SMALLINT, v STRING", ("k", "n desc"), ("k",), (_long, _SMALL)),
    Prefixed(
        "longer",
        "g INT, k STRING, w STRING, v STRING",
        ("g", "k desc", "w"),
        ("g",),
        (_of(1, 2, None), _long, _long),
    ),
]


def _compare(reader: StorageTable, table: Prefixed, rows: Rows, draw: random.Random) -> None:
    """Read random prefixes in every way and compare with the rows."""
    in_order = table.sorted(reader.encoding, rows)
    width = len(table.draws)
    for count in range(table.least, width + 1):
        drawn = {(table.key(draw))[:count] for _ in range(draw.choice([1, 5, 60]))}
        drawn |= {row[:count] for row in in_order if draw.random() < 0.5}
        prefixes = list(drawn)
        draw.shuffle(prefixes)
        asked = table.batch(prefixes, count)
        expected = [[row for row in in_order if row[:count] == prefix] for prefix in prefixes]
        indices, rows_read = reader.prefix_scan(asked)
        assert indices.tolist() == [i for i, group in enumerate(expected) for _ in group]
        assert rows_of(rows_read) == [row for group in expected for row in group]
        most = [draw.choice([0, 1, 1, 2, 3, 10, 1 << 62]) for _ in prefixes]
        indices, rows_read = reader.first_per_prefix(asked, np.array(most, np.int64), ["v"])
        heads = [group[:limit] for group, limit in zip(expected, most, strict=True)]
        assert indices.tolist() == [i for i, group in enumerate(heads) for _ in group]
        assert rows_of(rows_read) == [row[-1:] for group in heads for row in group]
        last_indices, lasts_read = reader.last_per_prefix(asked, np.array(most, np.int64), ["v"])
        lasts = [
            group[max(len(group) - limit, 0) :] for group, limit in zip(expected, most, strict=True)
        ]
        assert last_indices.tolist() == [i for i, group in enumerate(lasts) for _ in group]
        assert rows_of(lasts_read) == [row[-1:] for group in lasts for row in group]
        _compare_encoded(reader, asked, np.array(most, np.int64), indices, rows_read, draw)
    for group in range(table.least, width + 1):
        for count in range(group, width + 1):
            _compare_neighbours(reader, table, rows, draw, group, count)
    keys = list({table.key(draw) for _ in range(30)} | set(rows))
    indices, rows_read = reader.get_rows(table.batch(keys, width))
    assert indices.tolist() == [i for i, key in enumerate(keys) if key in rows]
    assert rows_of(rows_read) == [rows[key] for key in keys if key in rows]


def _compare_encoded(
    reader: StorageTable,
    prefixes: pa.RecordBatch,
    most: Positions,
    indices: Positions,
    rows: pa.RecordBatch,
    draw: random.Random,
) -> None:
    """Read what `first_per_prefix` has read, ``rows`` of it, before it is decoded."""
    numbers, encoded = reader.first_encoded_per_prefix(prefixes, most)
    chosen = np.array([n for n in range(len(indices)) if draw.random() < 0.5], np.int64)[::-1]
    assert numbers.tolist() == indices.tolist()
    assert len(encoded) == len(rows)
    assert encoded.take(chosen, ["v"]).equals(rows.take(pa.array(chosen)))
    keys = encoded.take(np.arange(len(rows)), reader.encoding.key_names)
    assert encoded.keys.equals(reader.encoding.primary_keys(keys))


def _compare_neighbours(
    reader: StorageTable,
    table: Prefixed,
    rows: Rows,
    draw: random.Random,
    group: int,
    count: int,
) -> None:
    """Read the rows after and before random bounds and compare with the rows.

    Those of a bound share its first ``group`` values; it has ``count`` values.
    """
    drawn = {table.key(draw)[:count] for _ in range(draw.choice([1, 5, 40]))}
    bounds = list(drawn | {key[:count] for key in rows if draw.random() < 0.2})
    draw.shuffle(bounds)
    width = len(table.draws)

    def encoded(keys: list[Values], columns: int) -> list[bytes]:
        full: list[bytes] = reader.encoding.encode_prefixes(table.batch(keys, columns)).to_pylist()
        return full

    own = dict(zip(encoded(list(rows), width), rows, strict=True)) if rows else {}
    in_order = sorted(own)
    starts = encoded(bounds, count)
    groups = encoded([bound[:group] for bound in bounds], group)
    limits = [draw.choice([0, 1, 1, 2, 3, 10, 1 << 62]) for _ in bounds]
    after, before = [], []
    for start, prefix, limit in zip(starts, groups, limits, strict=True):
        inside = [key for key in in_order if key.startswith(prefix)]
        later = min((end for end in starts if end > start), default=None)
        earlier = max((end for end in starts if end < start), default=b"")
        after.append([k for k in inside if start <= k and (later is None or k < later)][:limit])
        lasts = [k for k in inside if earlier <= k < start]
        before.append(lasts[max(len(lasts) - limit, 0) :])
    asked, counts = table.batch(bounds, count), np.array(limits, np.int64)
    reads = (reader.rows_from(asked, group, counts), reader.rows_before(asked, group, counts))
    for (indices, read), expected in zip(reads, (after, before), strict=True):
        assert indices.tolist() == [i for i, keys in enumerate(expected) for _ in keys]
        assert rows_of(read) == [rows[own[key]] for keys in expected for key in keys]


@pytest.mark.parametrize("seed", range(examples(4)))
@pytest.mark.parametrize("vnode_count", [1, 5, 256])
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_prefixes_give_the_rows_of_a_dict(
    make_store: StoreMaker,
    monkeypatch: pytest.MonkeyPatch,
    table: Prefixed,
    vnode_count: int,
    seed: int,
) -> None:
    """Over epochs of puts and deletes, compacted or not, reads by prefix equal those of a dict.

    Also where entries that need not be known are left out.
    """
    draw = random.Random(f"{table.name} {vnode_count} {seed}")
    monkeypatch.setattr(prefixes_module, "_FEW_ENTRIES", draw.choice([0, 0, 4096]))
    store = make_store(vnode_count=vnode_count)
    table.create(store)
    rows: Rows = {}
    _compare(store.read_plan(table.name).open(), table, rows, draw)
    for _ in range(8):
        table.change(store, rows, draw)
        if draw.random() < 0.25:
            store.compact(table.name)
        _compare(store.read_plan(table.name).open(), table, rows, draw)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_file_of_another_layout_gives_the_same(
    make_store: StoreMaker, monkeypatch: pytest.MonkeyPatch, table: Prefixed
) -> None:
    """Where pages cannot be read LMDB's cursor finds the same rows."""
    draw = random.Random(table.name)
    store = make_store(vnode_count=4)
    table.create(store)
    rows: Rows = {}
    without_pages(monkeypatch)
    for _ in range(4):
        table.change(store, rows, draw)
    _compare(store.read_plan(table.name).open(), table, rows, draw)


def _groups(count: int, size: int) -> tuple[list[int], list[int]]:
    return [g for g in range(count) for _ in range(size)], list(range(size)) * count


@pytest.fixture
def grouped(make_store: StoreMaker) -> Store:
    """Three groups of 30,000 rows; of each the first 1,000 are deleted later."""
    store = make_store(vnode_count=4)
    store.create_table(
        "t", "g INT, n INT, v STRING", primary_key=["g", "n"], distribution_key=["g"]
    )
    g, n = _groups(3, 30_000)
    store.write("t", pa.table({"g": pa.array(g, pa.int32()), "n": pa.array(n, pa.int32())}))
    g, n = _groups(3, 1_000)
    store.delete("t", pa.table({"g": pa.array(g, pa.int32()), "n": pa.array(n, pa.int32())}))
    return store


def _counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows by the number of entries that each search gives."""
    sizes: list[int] = []
    find_ranges = search_module.find_ranges

    def count(
        pages: Pages, ranges: KeyRanges, most: Positions | None = None, *, from_end: bool = False
    ) -> RangeMatches:
        result = find_ranges(pages, ranges, most, from_end=from_end)
        sizes.append(len(result.owners))
        return result

    monkeypatch.setattr(segment_module, "find_ranges", count)
    return sizes


def test_first_per_prefix_reads_little_of_a_large_group(
    grouped: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first rows of a group are read without the rest, also after deleted rows."""
    sizes = _counted(monkeypatch)
    prefixes = pa.record_batch({"g": pa.array([2, 0, 7], pa.int32())})
    indices, rows = grouped.read_plan("t").open().first_per_prefix(prefixes, np.array([3, 2, 5]))
    assert indices.tolist() == [0, 0, 0, 1, 1]
    assert rows["n"].to_pylist() == [1000, 1001, 1002, 1000, 1001]
    assert sum(sizes) < 20_000
    grouped.compact("t")
    sizes.clear()
    indices, rows = grouped.read_plan("t").open().first_per_prefix(prefixes, np.array([3, 0, 5]))
    assert (indices.tolist(), rows["n"].to_pylist()) == ([0, 0, 0], [1000, 1001, 1002])
    assert sum(sizes) == 3


def test_last_per_prefix_reads_little_of_a_large_group(
    grouped: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last rows of a group are read without the rest."""
    sizes = _counted(monkeypatch)
    prefixes = pa.record_batch({"g": pa.array([2, 0, 7], pa.int32())})
    indices, rows = grouped.read_plan("t").open().last_per_prefix(prefixes, np.array([3, 2, 5]))
    assert indices.tolist() == [0, 0, 0, 1, 1]
    assert rows["n"].to_pylist() == [29_997, 29_998, 29_999, 29_998, 29_999]
    assert sum(sizes) < 100


def test_a_file_with_rows_everywhere_is_read_once(
    make_store: StoreMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a small file has after the rows that a large one gives is neither needed nor missed."""
    monkeypatch.setattr(prefixes_module, "_FEW_ENTRIES", 0)
    store = make_store(vnode_count=1)
    columns = "g INT, n INT, v INT"
    store.create_table("t", columns, primary_key=["g", "n"], distribution_key=["g"])
    for step in (1, 100):
        n = np.arange(0, 10_000, step, dtype=np.int32)
        values = np.full(len(n), step, np.int32)
        store.write("t", pa.table({"g": np.zeros_like(n), "n": n, "v": values}))
    sizes = _counted(monkeypatch)
    group = pa.record_batch({"g": pa.array([0], pa.int32())})
    _, rows = store.read_plan("t").open().first_per_prefix(group, np.array([25]))
    assert rows["n"].to_pylist() == [*range(25)]
    assert rows["v"].to_pylist() == [100, *[1] * 24]
    assert len(sizes) == 2


def test_the_neighbours_of_a_row_are_read_without_the_rest(
    grouped: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows before and after rows of large groups, up to the next bound."""
    sizes = _counted(monkeypatch)
    bounds = pa.record_batch(
        {"g": pa.array([2, 0, 2], pa.int32()), "n": pa.array([20_000, 1_001, 20_002], pa.int32())}
    )
    reader = grouped.read_plan("t").open()
    indices, rows = reader.rows_from(bounds, 1, np.array([3, 2, 3]), ["n"])
    assert indices.tolist() == [0, 0, 1, 1, 2, 2, 2]
    assert rows["n"].to_pylist() == [20_000, 20_001, 1_001, 1_002, 20_002, 20_003, 20_004]
    indices, rows = reader.rows_before(bounds, 1, np.array([2, 2, 5]), ["n"])
    assert indices.tolist() == [0, 0, 1, 2, 2]
    assert rows["n"].to_pylist() == [19_998, 19_999, 1_000, 20_000, 20_001]
    assert sum(sizes) < 6_000


def test_all_of_large_groups(grouped: Store) -> None:
    """Groups of many pages are returned whole, in the order of the prefixes and of the key."""
    prefixes = pa.record_batch({"g": pa.array([1, 9, 0], pa.int32())})
    indices, rows = grouped.read_plan("t").open().prefix_scan(prefixes, ["n", "g"])
    assert np.bincount(indices).tolist() == [29_000, 0, 29_000]
    assert rows["n"].to_pylist() == [*range(1_000, 30_000)] * 2
    assert rows["g"].to_pylist() == [1] * 29_000 + [0] * 29_000


def test_rows_that_are_merged(make_store: StoreMaker) -> None:
    """A table that merges rows returns them merged, as a scan does."""
    store = make_store(vnode_count=3)
    columns = "g INT, n INT, a STRING, b STRING"
    store.create_table(
        "t", columns, primary_key=["g", "n"], distribution_key=["g"], merge="partial"
    )
    for name in ("a", "b"):
        g = pa.array([0, 0, 1, 1], pa.int32())
        n = pa.array([0, 1, 0, 2 if name == "a" else 3], pa.int32())
        store.write("t", pa.table({"g": g, "n": n, name: [f"{name}{i}" for i in range(4)]}))
    prefixes = pa.record_batch({"g": pa.array([0, 1], pa.int32())})
    reader = store.read_plan("t").open()
    assert rows_of(reader.prefix_scan(prefixes)[1]) == contents(store, "t")
    indices, rows = reader.first_per_prefix(prefixes, np.array([1, 2]))
    assert indices.tolist() == [0, 1, 1]
    assert rows_of(rows) == [(0, 0, "a0", "b0"), (1, 0, "a2", "b2"), (1, 2, "a3", None)]


def test_columns_that_are_not_a_prefix_are_refused(make_store: StoreMaker) -> None:
    """Prefixes are the first columns of the key, with all of the distribution key."""
    store = make_store(vnode_count=3)
    TABLES[3].create(store)
    reader = store.read_plan("inner").open()
    for names in (["a"], ["b"], ["a", "c"], ["a", "b", "v"]):
        batch = pa.record_batch({name: pa.nulls(1) for name in names})
        with pytest.raises(SchemaMismatchError, match="not a prefix of the primary key"):
            reader.prefix_scan(batch)


def test_damage_is_an_error(grouped: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page number beyond the end of the file is an error that names the file."""
    reader = grouped.read_plan("t").open()
    prefixes = pa.record_batch({"g": pa.array([1], pa.int32())})

    def lead_out(_self: Pages, starts: Positions, _slots: Positions) -> Positions:
        return starts + (1 << 50)

    monkeypatch.setattr(Pages, "nodes", lead_out)
    with pytest.raises(CorruptionError, match=r"\.lmdb: a page is damaged"):
        reader.prefix_scan(prefixes)
