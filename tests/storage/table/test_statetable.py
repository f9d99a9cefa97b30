"""Laws of the state table: an executor's rows, committed and not, by RisingWave's rules."""

from __future__ import annotations

import errno
import itertools
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from relstate.storage import StateTable, Store
from relstate.storage.errors import (
    ConflictError,
    ConsistencyError,
    DataError,
    NullKeyError,
    NullValueError,
    RelstateError,
    SchemaMismatchError,
    StorageError,
    TableNotFoundError,
    UnknownOutcomeError,
    UsageError,
    ValueRangeError,
)
from support.faulty_environment import FaultyEnvironment
from support.places import in_folder
from support.stores import Rows, batch_of, contents, rows_of, upsert

modes = pytest.mark.parametrize("strict", [True, False], ids=["strict", "blind"])


@pytest.fixture
def store_of_t(any_store: Store) -> Store:
    """A store with the table of RisingWave's example."""
    any_store.create_table("t", "a INT, b INT, c INT", primary_key=["a"])
    return any_store


def batch(
    store: Store, *changes: tuple[str, tuple[Any, ...]]
) -> tuple[pa.RecordBatch, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Return (rows, deleted) of changes of `t`, each a sign and a row."""
    rows = batch_of(store, "t", [row for _, row in changes])
    return rows, np.array([sign == "-" for sign, _ in changes], np.bool_)


def keys(*values: int) -> pa.RecordBatch:
    """Return keys of `t`."""
    return pa.record_batch({"a": pa.array(values, pa.int32())})


@modes
def test_the_worked_example(store_of_t: Store, strict: bool) -> None:
    """Insert, insert, delete, insert; commit; an upsert over a committed row."""
    table = store_of_t.state_table("t", strict=strict)
    table.insert([1, 11, 111])
    table.insert([2, 22, 222])
    table.delete([2, 22, 222])
    table.insert([3, 33, 333])
    epoch = table.commit()
    if strict:
        # An upsert says what it found where it is held to it.
        table.update([3, 33, 333], [3, 3333, 3333])
    else:
        table.insert([3, 3333, 3333])

    assert table.get_row(1) == (1, 11, 111)
    assert table.get_row(2) is None
    assert table.get_row(3) == (3, 3333, 3333)
    assert rows_of(table.scan()) == [(1, 11, 111), (3, 3333, 3333)]
    assert contents(store_of_t, "t") == [(1, 11, 111), (3, 33, 333)]
    assert table.commit() == epoch + 1
    assert contents(store_of_t, "t") == [(1, 11, 111), (3, 3333, 3333)]
    assert contents(store_of_t, "t", epoch) == [(1, 11, 111), (3, 33, 333)]


@modes
def test_the_worked_example_in_batches(store_of_t: Store, strict: bool) -> None:
    """Changes that come as Arrow batches do the same."""
    table = store_of_t.state_table("t", strict=strict)
    table.write(
        *batch(
            store_of_t,
            ("+", (1, 11, 111)),
            ("+", (2, 22, 222)),
            ("-", (2, 22, 222)),
            ("+", (3, 33, 333)),
        )
    )
    table.commit()
    table.write(*batch(store_of_t, ("-", (3, 33, 333)), ("+", (3, 3333, 3333))))

    indices, rows = table.get_rows(keys(3, 2, 1))
    assert (indices.tolist(), rows_of(rows)) == ([0, 2], [(3, 3333, 3333), (1, 11, 111)])
    assert rows_of(table.scan()) == [(1, 11, 111), (3, 3333, 3333)]


def test_a_blind_delete_is_always_written(store_of_t: Store) -> None:
    """After an insert of the same epoch too: an older epoch may hold the row."""
    upsert(store_of_t, "t", [(1, 0, 0), (2, 0, 0)])
    table = store_of_t.state_table("t")
    table.insert([1, 1, 1])
    table.delete([1, 1, 1])
    table.insert([2, 2, 2])
    table.delete([2, 0, 0])
    table.write(keys(77), np.array([True]))

    assert rows_of(table.scan()) == []
    table.commit()
    assert contents(store_of_t, "t") == []


def test_a_strict_insert_and_delete_are_nothing(store_of_t: Store) -> None:
    """A commit of them makes no epoch."""
    table = store_of_t.state_table("t", strict=True)
    before = store_of_t.epoch
    table.insert([1, 1, 1])
    table.delete([1, 1, 1])

    assert table.commit() == before == store_of_t.epoch


@modes
def test_a_commit_without_changes_is_no_epoch(store_of_t: Store, strict: bool) -> None:
    """It returns the latest one."""
    table = store_of_t.state_table("t", strict=strict)

    assert table.commit() == table.commit() == store_of_t.epoch == 2


_MISTAKES: list[tuple[str, Callable[[StateTable], object]]] = [
    ("one", lambda table: table.insert([1, 5, 5])),
    ("none", lambda table: table.delete([2, 5, 5])),
    ("none", lambda table: table.update([2, 5, 5], [2, 6, 6])),
    ("another row", lambda table: table.delete([1, 5, 5])),
    ("another row", lambda table: table.update([1, 5, 5], [1, 6, 6])),
]


@pytest.mark.parametrize(("committed", "mistake"), _MISTAKES)
def test_what_a_strict_change_expects_to_be_committed_must_be(
    store_of_t: Store, committed: str, mistake: Callable[[StateTable], object]
) -> None:
    """The error names the table and the key; commits fail until the changes are cleared."""
    upsert(store_of_t, "t", [(1, 1, 1)])
    table = store_of_t.state_table("t", strict=True)
    mistake(table)
    table.insert([3, 3, 3])

    for _ in range(2):
        with pytest.raises(
            ConsistencyError, match=rf"table t, row a=[12]: .* there is {committed}"
        ):
            table.commit()

    assert contents(store_of_t, "t") == [(1, 1, 1)]
    table.clear()
    table.insert([3, 3, 3])
    table.commit()
    assert contents(store_of_t, "t") == [(1, 1, 1), (3, 3, 3)]


def test_a_strict_table_takes_back_what_it_wrote(store_of_t: Store) -> None:
    """Over epochs: what was committed is what the next change must name."""
    table = store_of_t.state_table("t", strict=True)
    table.insert([1, None, 1])
    table.commit()
    table.update([1, None, 1], [1, 2, None])
    table.commit()
    table.delete([1, 2, None])
    table.insert([1, 3, 3])
    table.commit()
    table.delete([1, 3, 3])
    table.commit()

    assert [contents(store_of_t, "t", epoch) for epoch in range(2, 7)] == [
        [],
        [(1, None, 1)],
        [(1, 2, None)],
        [(1, 3, 3)],
        [],
    ]


def test_a_strict_mistake_within_an_epoch_is_refused_at_once(store_of_t: Store) -> None:
    """The changes before it stay; a batch with a mistake is refused whole."""
    table = store_of_t.state_table("t", strict=True)
    table.insert([1, 1, 1])
    with pytest.raises(ConsistencyError, match="a=1"):
        table.insert([1, 2, 2])
    with pytest.raises(ConsistencyError, match="a=1"):
        table.delete([1, 2, 2])
    with pytest.raises(ConsistencyError, match="a=9"):
        table.write(*batch(store_of_t, ("+", (8, 8, 8)), ("+", (9, 9, 9)), ("+", (9, 0, 0))))

    assert rows_of(table.scan()) == [(1, 1, 1)]


@modes
def test_an_update_keeps_the_key(store_of_t: Store, strict: bool) -> None:
    """Another key is another row."""
    table = store_of_t.state_table("t", strict=strict)
    with pytest.raises(ConsistencyError, match="delete and insert"):
        table.update([1, 1, 1], [2, 1, 1])

    assert rows_of(table.scan()) == []


def test_keys_are_equal_where_their_bytes_are(any_store: Store) -> None:
    """Minus zero equals zero and all NaNs are equal; an update may use any of them."""
    any_store.create_table("f", "k DOUBLE, v INT", primary_key=["k"])
    table = any_store.state_table("f")
    table.update([0.0, 1], [-0.0, 2])
    table.update([float("nan"), 1], [-float("nan"), 2])

    assert table.get_row(-0.0) == (0.0, 2)
    assert rows_of(table.scan(["v"])) == [(2,), (2,)]
    table.commit()
    assert any_store.table("f").get(0.0) == (0.0, 2)
    assert any_store.table("f").count() == 2


def test_strict_writers_of_the_same_row_conflict(store_of_t: Store) -> None:
    """The later commit relies on a row that has changed; other rows do not matter."""
    first, second, third = (store_of_t.state_table("t", strict=True) for _ in range(3))
    first.insert([1, 1, 1])
    second.insert([1, 2, 2])
    third.insert([3, 3, 3])
    first.commit()
    third.commit()
    with pytest.raises(ConflictError, match="changed rows that were read"):
        second.commit()

    assert contents(store_of_t, "t") == [(1, 1, 1), (3, 3, 3)]
    second.clear()
    second.update([1, 1, 1], [1, 2, 2])
    second.commit()
    assert contents(store_of_t, "t") == [(1, 2, 2), (3, 3, 3)]


def test_a_strict_writer_conflicts_with_a_truncate(store_of_t: Store) -> None:
    """The row that it deletes was removed by the truncate."""
    upsert(store_of_t, "t", [(1, 1, 1)])
    table = store_of_t.state_table("t", strict=True)
    table.delete([1, 1, 1])
    store_of_t.truncate("t")

    with pytest.raises(ConflictError):
        table.commit()


def test_blind_writers_never_conflict(store_of_t: Store) -> None:
    """The later epoch wins, and an upsert after a truncate stays."""
    first, second = (store_of_t.state_table("t") for _ in range(2))
    first.insert([1, 1, 1])
    second.insert([1, 2, 2])
    second.insert([2, 2, 2])
    first.commit()
    store_of_t.truncate("t")
    second.commit()

    assert contents(store_of_t, "t") == [(1, 2, 2), (2, 2, 2)]


def test_what_others_commit_is_seen_in_the_next_epoch(store_of_t: Store) -> None:
    """Until its commit a state table reads one state of the store."""
    table = store_of_t.state_table("t")
    upsert(store_of_t, "t", [(1, 1, 1)])

    assert (table.get_row(1), rows_of(table.scan())) == (None, [])
    table.insert([2, 2, 2])
    table.commit()
    assert rows_of(table.scan()) == [(1, 1, 1), (2, 2, 2)]
    assert table.get_row(1) == (1, 1, 1)


@pytest.fixture
def merged(store_of_t: Store) -> StateTable:
    """Return a state table of even rows with uncommitted changes of every third one."""
    upsert(store_of_t, "t", [(key, 0, key) for key in range(0, 40, 2)])
    table = store_of_t.state_table("t")
    for key in range(0, 40, 3):
        if key % 4:
            table.insert([key, 1, key])
        else:
            table.delete([key, 0, key])
    return table


_MERGED: Rows = [
    (key, int(key % 3 == 0), key)
    for key in range(40)
    if (key % 3 or key % 4) and (key % 2 == 0 or key % 3 == 0)
]


def test_scans_merge_committed_and_uncommitted_rows(merged: StateTable) -> None:
    """In key order, ranges, descending, some columns, vnode by vnode; uncommitted rows win."""
    assert rows_of(merged.scan()) == _MERGED
    assert rows_of(merged.scan(descending=True)) == _MERGED[::-1]
    assert sorted(rows_of(merged.scan(ordered=False))) == _MERGED
    assert rows_of(merged.scan(["b", "a"])) == [(b, a) for a, b, _ in _MERGED]
    inside = [row for row in _MERGED if 5 <= row[0] < 21]
    assert rows_of(merged.scan(start=[5], stop=[21])) == inside
    assert rows_of(merged.scan(start=[5], stop=[21], descending=True)) == inside[::-1]
    assert rows_of(merged.scan(prefix=[9])) == [(9, 1, 9)]
    assert rows_of(merged.scan(prefix=[12])) == []


def test_many_rows_merge_committed_and_uncommitted(merged: StateTable) -> None:
    """As lookups of single rows do."""
    expected = {row[0]: row for row in _MERGED}
    asked = [39, 0, 2, 12, 9, 9, 1, 3]

    indices, rows = merged.get_rows(keys(*asked), ["c", "a"])

    assert indices.tolist() == [at for at, key in enumerate(asked) if key in expected]
    assert rows_of(rows) == [(key, key) for key in asked if key in expected]
    assert [merged.get_row(key) for key in asked] == [expected.get(key) for key in asked]


@modes
def test_a_state_table_may_own_some_vnodes_only(any_store: Store, strict: bool) -> None:
    """Its scans read the rows of these vnodes, and it refuses to write other rows."""
    any_store.create_table("t", "a INT, b INT, c INT", primary_key=["a"])
    count = any_store.settings.vnode_count
    upsert(any_store, "t", [(key, 0, 0) for key in range(100)])
    whole = any_store.read_plan("t")
    owned = [range(1), range(3, count)] if count > 3 else [range(1)]
    table = any_store.state_table("t", strict=strict, vnodes=owned)

    inside = {row[0] for row in rows_of(whole.open().scan(vnodes=owned))}
    assert {row[0] for row in rows_of(table.scan())} == inside
    assert {row[0] for row in rows_of(table.scan(ordered=False))} == inside
    for key in set(range(100)) - inside:
        row = (key, 0, 0)
        writes: list[Callable[[], None]] = [
            partial(table.insert, row),
            partial(table.delete, row),
            partial(table.update, row, row),
            partial(table.write, *batch(any_store, ("-", row))),
        ]
        for write in writes:
            with pytest.raises(ConsistencyError, match="vnode"):
                write()
    key = min(inside)
    table.delete([key, 0, 0])
    table.commit()
    assert any_store.table("t").get(key) is None


_WRONG_ROWS: list[tuple[list[Any], type[DataError]]] = [
    ([1, 1], SchemaMismatchError),
    ([1, 1, 1, 1], SchemaMismatchError),
    (["1", 1, 1], SchemaMismatchError),
    ([1, "1", 1], SchemaMismatchError),
    ([1.5, 1, 1], SchemaMismatchError),
    ([1 << 31, 1, 1], ValueRangeError),
    ([1, 1 << 31, 1], ValueRangeError),
    ([None, 1, 1], NullKeyError),
    ([1, None, 1], NullValueError),
]


@modes
@pytest.mark.parametrize(("row", "error"), _WRONG_ROWS)
def test_rows_that_do_not_fit_are_refused(
    store: Store, row: list[Any], error: type[DataError], strict: bool
) -> None:
    """By every way of writing, and none of the change is kept."""
    store.create_table("t", "a INT, b INT NOT NULL, c INT", primary_key=["a"])
    table = store.state_table("t", strict=strict)
    writes: list[Callable[[], None]] = [
        partial(table.insert, row),
        partial(table.delete, row),
        partial(table.update, [1, 1, 1], row),
        partial(table.update, row, [1, 1, 1]),
    ]
    for write in writes:
        with pytest.raises(error):
            write()

    assert rows_of(table.scan()) == []
    assert table.commit() == 2


@pytest.mark.parametrize("key", [(), (1, 2), ("1",), (1.0,), (None,), (1 << 31,), ([1],)])
def test_keys_that_do_not_fit_are_refused(store_of_t: Store, key: tuple[Any, ...]) -> None:
    """The error says so; there is no row of such a key."""
    with pytest.raises(DataError):
        store_of_t.state_table("t").get_row(*key)


_WRONG_BATCHES = [
    (pa.record_batch({"a": ["1"], "b": [1], "c": [1]}), SchemaMismatchError),
    (pa.record_batch({"a": [1], "d": [1]}), SchemaMismatchError),
    (pa.record_batch({"a": [1, None]}), NullKeyError),
    (pa.record_batch({"a": [1, 1 << 40]}), ValueRangeError),
]


@modes
@pytest.mark.parametrize(("wrong", "error"), _WRONG_BATCHES)
def test_batches_that_do_not_fit_are_refused_whole(
    store_of_t: Store, wrong: pa.RecordBatch, error: type[DataError], strict: bool
) -> None:
    """None of their rows is applied."""
    table = store_of_t.state_table("t", strict=strict)
    with pytest.raises(error):
        table.write(wrong)

    assert rows_of(table.scan()) == []


def test_a_batch_may_lack_nullable_columns(store_of_t: Store) -> None:
    """They are NULL; the order and case of other columns do not matter; a batch may be empty."""
    table = store_of_t.state_table("t")
    table.write(pa.record_batch({"C": [3], "A": [1]}))
    table.write(*batch(store_of_t))

    assert rows_of(table.scan()) == [(1, None, 3)]


@in_folder
def test_an_error_keeps_the_changes(store: Store, tmp_path: Path) -> None:
    """At any step of a strict commit: a second commit succeeds, and never commits twice."""
    store.create_table("t", "a INT, b INT, c INT", primary_key=["a"])
    upsert(store, "t", [(1, 1, 1)])
    for step in itertools.count(1):
        root = str(tmp_path / f"step{step}")
        shutil.copytree(store.path, root)
        environment = FaultyEnvironment(root, error_at=step, errno=errno.ENOSPC)
        try:
            table = Store.open(root, environment=environment).state_table("t", strict=True)
        except RelstateError:
            continue
        table.update([1, 1, 1], [1, 2, 2])
        try:
            table.commit()
        except UnknownOutcomeError:
            table.clear()
        except StorageError:
            assert rows_of(table.scan()) == [(1, 2, 2)]
            table.commit()
        with Store.open(root) as rows:
            assert contents(rows, "t") == [(1, 2, 2)]
            assert rows.epoch == 4
        if not environment.struck:
            break
    assert step > 15


def test_a_dropped_table_takes_no_changes(store_of_t: Store) -> None:
    """Nor does a new table of the same name."""
    table = store_of_t.state_table("t")
    table.insert([1, 1, 1])
    store_of_t.drop_table("t")
    store_of_t.create_table("t", "a INT, b INT, c INT", primary_key=["a"])

    with pytest.raises(TableNotFoundError, match="dropped"):
        table.commit()
    assert contents(store_of_t, "t") == []


def test_long_keys_and_sets_are_tables_too(any_store: Store) -> None:
    """Keys beyond LMDB's limit, and tables of key columns only, before and after a commit."""
    any_store.create_table("long", "k STRING, n INT", primary_key=["k", "n"])
    table = any_store.state_table("long", strict=True)
    long = "k" * 700
    for n in range(3):
        table.insert([long, n])
    table.commit()
    table.delete([long, 1])
    table.insert([long, 5])

    for _ in range(2):
        assert rows_of(table.scan(prefix=[long])) == [(long, 0), (long, 2), (long, 5)]
        assert rows_of(table.scan(start=[long, 1], stop=[long, 5])) == [(long, 2)]
        assert table.get_row(long, 5) == (long, 5)
        assert table.get_row(long, 1) is None
        table.commit()


def test_a_cleared_table_is_under_the_definition_that_there_is(any_store: Store) -> None:
    """Its changes are gone, and those after it have the columns, and the encoding, of that time."""
    any_store.create_table("c", "k INT, a INT", primary_key=["k"])
    table = any_store.state_table("c")
    table.insert([1, 1])
    any_store.add_columns("c", "b INT")
    table.clear()
    table.insert([2, 2, 3])
    table.commit()
    assert contents(any_store, "c") == [(2, 2, 3)]
    any_store.set_encoding("c", "document")
    table.clear()
    with pytest.raises(UsageError, match="a state table writes whole rows"):
        table.insert([3, 3, 3])
