"""Laws of the storage table: one table at one epoch, whichever segments it is spread over."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

from relstate.storage import StorageTable, Store
from relstate.storage.codec import row_body, value_field
from relstate.storage.errors import NullKeyError, OptionError, SchemaMismatchError, UsageError
from relstate.storage.schema.schema import KeyRange
from relstate.storage.table import keysearch, lookup, scan, table_entries
from relstate.storage.table.scan import Limits
from relstate.storage.table.tablefiles import TableFiles
from support.stores import Rows, committed, rows_of, unsynced, upsert, written

_KEY = "p" * 600


@pytest.fixture
def filled(any_store: Store) -> Store:
    """A table with rows in six segments over four epochs: versions, deletes, long keys."""
    any_store.create_table(
        "t", "k STRING, n INT, v STRING", primary_key=["k", "n"], distribution_key=["k"]
    )
    upsert(any_store, "t", [(key, n, "first") for key in ("a", "b", _KEY) for n in range(4)])
    upsert(any_store, "t", [("a", 1, "second"), (_KEY, 1, "second")], [("b", 2, None)])
    upsert(any_store, "t", [("b", 2, "third")], [("a", 0, None), (_KEY, 0, None)])
    ranks = [written(any_store, "t", [("c", 0, rank), ("c", int(rank), rank)]) for rank in "123"]
    committed(any_store, [segment for segments in ranks for segment in segments])
    return any_store


_ROWS: Rows = sorted(
    [
        ("a", 1, "second"),
        ("a", 2, "first"),
        ("a", 3, "first"),
        ("b", 0, "first"),
        ("b", 1, "first"),
        ("b", 2, "third"),
        ("b", 3, "first"),
        ("c", 0, "3"),
        ("c", 1, "1"),
        ("c", 2, "2"),
        ("c", 3, "3"),
        (_KEY, 1, "second"),
        (_KEY, 2, "first"),
        (_KEY, 3, "first"),
    ]
)


@pytest.fixture
def table(filled: Store) -> StorageTable:
    """The table of `filled` at its last epoch."""
    return filled.read_plan("t").open()


def keys_of(rows: list[tuple[str, int]]) -> pa.RecordBatch:
    """Return keys as a batch."""
    return pa.record_batch(
        {"k": [key for key, _ in rows], "n": pa.array([n for _, n in rows], pa.int32())}
    )


def test_the_newest_version_of_every_row_is_seen(table: StorageTable) -> None:
    """By every way to read it: of equal epochs the later rank, and deletes hide what is older."""
    assert rows_of(table.scan_in_order()) == _ROWS
    assert sorted(rows_of(table.scan())) == _ROWS
    assert table.count() == len(_ROWS)
    for key in ("a", "b", "c", _KEY, "d", "p" * 599):
        for n in range(-1, 5):
            expected = [row for row in _ROWS if row[:2] == (key, n)]
            assert ([table.get((key, n))] if expected else []) == expected
            assert table.get((key, n)) == (expected[0] if expected else None)


def test_an_older_epoch_is_read_from_older_segments(filled: Store) -> None:
    """It has no later rows."""
    plan = filled.read_plan("t", epoch=3)

    assert [segment.epoch for segment in plan.segments] == [3]
    assert {row[2] for row in rows_of(plan.open().scan())} == {"first"}
    assert plan.open().count() == 12


@pytest.mark.parametrize("is_long", [False, True], ids=["short keys", "long keys among them"])
def test_many_rows_are_found_in_the_order_asked(table: StorageTable, is_long: bool) -> None:
    """Those that exist, twice if asked for twice, with their indices in the request."""
    asked = [("b", 2), ("zz", 0), ("a", 0), ("c", 0), ("b", 2), ("a", 3)]
    asked += [(_KEY, 1), (_KEY, 0), (_KEY, 3)] if is_long else []
    rows = {row[:2]: row for row in _ROWS}

    indices, rows_read = table.get_rows(keys_of(asked))

    assert indices.tolist() == [at for at, key in enumerate(asked) if key in rows]
    assert rows_of(rows_read) == [rows[key] for key in asked if key in rows]
    assert rows_of(table.get_rows(keys_of(asked), ["V"])[1]) == [
        (row[2],) for row in rows_of(rows_read)
    ]


@pytest.mark.parametrize("few", [0, 1 << 30], ids=["block by block", "blocks joined"])
@pytest.mark.parametrize("is_ascending", [False, True], ids=["any order", "ascending"])
def test_rows_of_many_blocks_are_found_in_the_order_asked(
    table: StorageTable, monkeypatch: pytest.MonkeyPatch, few: int, is_ascending: bool
) -> None:
    """Whether the entries of each file are decoded alone or together, once for all equal keys."""
    for limit in ("_FEW_KEYS", "_MANY_OF_A_FILE"):
        monkeypatch.setattr(keysearch, limit, 0)
    monkeypatch.setattr(lookup, "_FEW_PER_BLOCK", few)
    rows = {row[:2]: row for row in _ROWS}
    draw = random.Random(0)
    for _ in range(20):
        asked = [(draw.choice("abcz"), draw.randint(0, 4)) for _ in range(draw.randint(1, 30))]
        if is_ascending:
            full_keys = table.encoding.encode_keys(table.encoding.conform_keys(keys_of(asked)))
            asked = [*dict(sorted(zip(full_keys.to_pylist(), asked, strict=True))).values()]

        indices, rows_read = table.get_rows(keys_of(asked))

        assert indices.tolist() == [at for at, key in enumerate(asked) if key in rows]
        assert rows_of(rows_read) == [rows[key] for key in asked if key in rows]


def test_no_keys_find_no_rows(table: StorageTable) -> None:
    """The empty batch has the table's columns."""
    for asked in ([], [("zz", 1)]):
        indices, rows_read = table.get_rows(keys_of(asked))
        assert indices.tolist() == []
        assert rows_read.schema.names == ["k", "n", "v"]
        assert rows_read.num_rows == 0


@pytest.mark.parametrize("names", [["v"], ["n", "k"], ["v", "n"], ["N", "V", "K"]])
def test_columns_come_as_asked(table: StorageTable, names: list[str]) -> None:
    """In the order of the request, in any case, sorted by a key that may be left out."""
    indices = [["k", "n", "v"].index(name.lower()) for name in names]
    expected = [tuple(row[index] for index in indices) for row in _ROWS]

    assert rows_of(table.scan_in_order(names)) == expected
    assert sorted(rows_of(table.scan(names))) == sorted(expected)


@pytest.mark.parametrize("names", [["x"], ["k", "K"], [], ["k", "x", "n"]])
def test_columns_that_cannot_be_read_are_refused(table: StorageTable, names: list[str]) -> None:
    """Unknown ones, none at all, and one twice."""
    for read in (table.scan, table.scan_in_order):
        with pytest.raises(SchemaMismatchError):
            list(read(names))
    with pytest.raises(SchemaMismatchError):
        table.get_rows(keys_of([("a", 1)]), names)


def test_wrong_keys_are_refused(table: StorageTable) -> None:
    """Without a column, with one of another type, with a NULL."""
    with pytest.raises(SchemaMismatchError, match="'n'"):
        table.get_rows(pa.record_batch({"k": ["a"]}))
    with pytest.raises(SchemaMismatchError, match="'n'"):
        table.get_rows(pa.record_batch({"k": ["a"], "n": ["1"]}))
    with pytest.raises(NullKeyError, match="'n'"):
        table.get_rows(pa.record_batch({"k": ["a"], "n": pa.array([None], pa.int32())}))


def test_vnodes_divide_the_rows(filled: Store, table: StorageTable) -> None:
    """Every row is in exactly one group of vnodes, sorted within the group."""
    count = filled.settings.vnode_count
    for groups in ([range(count)], [range(at, at + 1) for at in range(count)]):
        parts = [rows_of(table.scan_in_order(vnodes=[group])) for group in groups]
        assert sorted(row for part in parts for row in part) == _ROWS
        assert all(part == sorted(part) for part in parts)
        assert sum(table.count([group]) for group in groups) == len(_ROWS)
    assert rows_of(table.scan(vnodes=[])) == []


@pytest.mark.parametrize(
    "groups",
    [
        [range(-1, 1)],
        [range(257)],
        [range(70_000)],
        [range(1), range(1)],
        [range(1, 0, -1)],
        [range(0, 1, 2), range(1)],
    ],
)
def test_ranges_that_are_not_of_vnodes_are_refused(filled: Store, groups: list[range]) -> None:
    """After the last vnode another table begins, and no vnode may be read twice."""
    with pytest.raises(OptionError, match=r"range\("):
        list(filled.read_plan("t").open().scan(vnodes=groups))
    with pytest.raises(OptionError, match=r"range\("):
        filled.state_table("t", vnodes=groups)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (KeyRange(prefix=("b",)), [row for row in _ROWS if row[0] == "b"]),
        (KeyRange(prefix=("b", 2)), [("b", 2, "third")]),
        (KeyRange(prefix=(_KEY,)), [row for row in _ROWS if row[0] == _KEY]),
        (KeyRange(prefix=(_KEY, 2)), [(_KEY, 2, "first")]),
        (KeyRange(prefix=(_KEY[:-1],)), []),
        (KeyRange(start=("b", 2)), [row for row in _ROWS if row[:2] >= ("b", 2)]),
        (KeyRange(start=(_KEY, 2)), [row for row in _ROWS if row[:2] >= (_KEY, 2)]),
        (KeyRange(stop=("b",)), [row for row in _ROWS if row[0] < "b"]),
        (KeyRange(stop=(_KEY, 2)), [row for row in _ROWS if row[:2] < (_KEY, 2)]),
        (KeyRange(("a",), ("a", 2), ("a", 3)), [("a", 2, "first")]),
        (KeyRange(("a",), ("b",)), []),
        (KeyRange(start=("b",), stop=("a",)), []),
    ],
)
def test_ranges_of_keys_are_exact(table: StorageTable, keys: KeyRange, expected: Rows) -> None:
    """Bounds of any length, within a group of long keys too, in both directions."""
    assert rows_of(table.scan_in_order(keys=keys)) == expected
    assert rows_of(table.scan_in_order(keys=keys, descending=True)) == expected[::-1]
    assert sorted(rows_of(table.scan(keys=keys))) == expected


def test_a_table_without_segments_is_empty(any_store: Store) -> None:
    """It has columns and no rows."""
    any_store.create_table("e", "k INT, v STRING", primary_key=["k"])
    table = any_store.read_plan("e").open()

    assert list(table.scan()) == list(table.scan_in_order(descending=True)) == []
    assert table.get((1,)) is None
    assert table.count() == 0
    assert table.get_rows(pa.record_batch({"k": pa.array([1], pa.int32())}))[1].num_rows == 0


def test_a_table_of_keys_only(any_store: Store) -> None:
    """A set: rows without values are there or not."""
    any_store.create_table("s", "a INT, b STRING", primary_key=["b desc", "a"])
    upsert(any_store, "s", [(1, "x"), (2, "x"), (1, "y")])
    upsert(any_store, "s", [(3, "x")], deleted=[(2, "x")])
    table = any_store.read_plan("s").open()

    assert rows_of(table.scan_in_order()) == [(1, "y"), (1, "x"), (3, "x")]
    assert rows_of(table.scan_in_order(["a"])) == [(1,), (1,), (3,)]
    assert table.get(("x", 1)) == (1, "x")
    assert table.get(("x", 2)) is None
    assert table.count() == 3


def test_a_lookup_survives_a_reset_by_another_thread(table: StorageTable) -> None:
    """A thread that has met damage makes all threads open the files again, at any time."""
    lookup = {TableFiles.getters.__code__, vars(TableFiles)["opened"].fget.__code__}

    def reset(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        if frame.f_code not in lookup:
            return None
        table._files.close()
        return reset

    tracer = sys.gettrace()
    sys.settrace(reset)
    try:
        row = table.get(("c", 0))
        count = table.count()
    finally:
        sys.settrace(tracer)
    assert (row, count) == (("c", 0, "3"), len(_ROWS))


def test_more_bytes_than_a_batch_holds_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says what to do; from one file or several, and a scan reads the rows."""
    path = str(tmp_path / "s")
    with Store.create(path, environment=unsynced(path), vnode_count=4) as store:
        store.create_table("t", "k INT, v STRING", primary_key=["k"])
        store.write("t", [{"k": k, "v": "x" * 100} for k in range(10)])
        for module in (value_field, row_body, table_entries):
            monkeypatch.setattr(module, "MAX_ARROW_OFFSET", 900)
        table = store.table("t")
        keys = pa.record_batch({"k": pa.array(range(10), pa.int32())})
        assert table.get_rows(keys.slice(0, 9)).num_rows == 9
        for _ in range(2):
            with pytest.raises(UsageError, match=r"table t: 10 rows .* scan the table"):
                table.get_rows(keys)
            store.write("t", [{"k": 1, "v": "y" * 100}])
        monkeypatch.setattr(scan, "_BATCH", Limits(rows=4, size=500))
        assert table.to_arrow().num_rows == 10


def test_rows_that_are_too_large_together_are_sorted_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches that cannot be made one are still returned in the order of the key."""
    path = str(tmp_path / "s")
    with Store.create(path, environment=unsynced(path), vnode_count=4) as store:
        store.create_table("t", "k INT, v STRING", primary_key=["k"])
        store.write("t", [{"k": k, "v": "x" * k} for k in range(300)])
        monkeypatch.setattr(scan, "_MOST_JOINED", 1000)
        monkeypatch.setattr(scan, "_BATCH", Limits(rows=70, size=2000))
        for where, keys in ((None, range(300)), ("k > 100", range(101, 300))):
            batches = list(store.table("t").scan(where=where, ordered=True))
            assert [k for batch in batches for k in batch["k"].to_pylist()] == list(keys)
            assert [v for batch in batches for v in batch["v"].to_pylist()] == [
                "x" * k for k in keys
            ]
            assert len(batches) > 3
