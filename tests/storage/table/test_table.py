"""Laws of the table as users without Spark read it: the right rows, or an error."""

from __future__ import annotations

import datetime
import threading
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from relstate.storage import Store, Table
from relstate.storage.errors import (
    ClosedError,
    DataError,
    NullKeyError,
    SchemaError,
    SchemaMismatchError,
    SegmentMissingError,
    TableNotFoundError,
    UsageError,
    ValueRangeError,
)
from support.stores import contents, rows_of, upsert


@pytest.fixture
def table(store: Store) -> Table:
    """A table with a key of two columns and some rows."""
    store.create_table("t", "v STRING, a BIGINT, b STRING", primary_key=["a", "b"])
    upsert(store, "t", [("one", 1, "x"), ("two", 1, "y"), (None, 2, "x")])
    return store.table("t")


def test_a_row_is_got_by_its_key(table: Table) -> None:
    """Value by value or as one tuple, in the key's order, not the columns'."""
    assert table.get(1, "y") == table.get((1, "y")) == table.get([1, "y"]) == ("two", 1, "y")
    assert table.get(2, "x") == (None, 2, "x")
    assert table.get(2, "y") is None
    row = table.get(np.int64(1), "x")
    assert row is not None
    assert (row.v, row["a"]) == ("one", 1)


@pytest.mark.parametrize("keys", [None, 5, "ab", {"a": [1]}, pa.table({"a": [1]})])
def test_what_is_not_keys_is_refused(table: Table, keys: Any) -> None:
    """The error says what keys are, and what was given."""
    with pytest.raises(
        UsageError, match=rf"^keys are a list of values of \(a, b\).*{type(keys).__name__}"
    ):
        table.get_rows(keys)


def test_a_column_named_twice_is_said_to_be(table: Table) -> None:
    """An unknown column is another error than one that is repeated."""
    with pytest.raises(SchemaMismatchError, match=r"the column 'v' is named twice in v, V$"):
        table.get(1, "x", columns=["v", "V"])
    with pytest.raises(SchemaMismatchError, match=r"'w' is not one of its columns v, a, b$"):
        table.get(1, "x", columns=["w"])


_OTHER_FORMS = [
    ("BIGINT", 1, np.int64(1)),
    ("STRING", "x", np.str_("x")),
    ("BINARY", b"x", bytearray(b"x")),
    ("FLOAT", float(np.float32(0.1)), 0.1),
    ("DOUBLE", 1.0, 1),
    ("DOUBLE", 0.0, -0.0),
    ("DECIMAL(5,2)", Decimal("1.00"), 1),
    ("DECIMAL(30,2)", Decimal("1.00"), Decimal(1)),
    (
        "TIMESTAMP",
        datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
        datetime.datetime(2024, 1, 1, 3, tzinfo=datetime.timezone(datetime.timedelta(hours=3))),
    ),
    ("STRUCT<a: INT, b: STRING>", {"a": 1, "b": "x"}, (1, "x")),
    ("ARRAY<INT>", [1, 2], (1, 2)),
]


@pytest.mark.parametrize(("type_name", "stored", "key"), _OTHER_FORMS)
def test_a_row_has_its_stored_key(store: Store, type_name: str, stored: Any, key: Any) -> None:
    """A row looked up by another form of its key is the row that a scan returns."""
    table = store.create_table("t", f"b BOOLEAN, k {type_name}, v INT", primary_key=["b", "k"])
    store.write("t", [{"b": True, "k": stored, "v": 1}])
    row, part = table.get(True, key), table.get(True, key, columns=["k"])
    assert row is not None
    assert part is not None
    assert repr(row) == repr(table.get(True, stored))
    assert row.asDict() == table.to_dicts()[0] == {"b": True, "k": stored, "v": 1}
    assert repr(row.k) == repr(part.k) == repr(stored)


_WRONG = [
    ((1,), SchemaMismatchError),
    ((1, "x", 2), SchemaMismatchError),
    ((), SchemaMismatchError),
    (((1,),), SchemaMismatchError),
    (("x", 1), SchemaMismatchError),
    ((1, b"x"), SchemaMismatchError),
    ((1.0, "x"), SchemaMismatchError),
    ((True, "x"), SchemaMismatchError),
    ((1, object()), SchemaMismatchError),
    (([1], "x"), SchemaMismatchError),
    ((1 << 63, "x"), ValueRangeError),
    ((1, None), NullKeyError),
]


@pytest.mark.parametrize(("key", "error"), _WRONG)
def test_a_wrong_key_is_refused(table: Table, key: tuple[Any, ...], error: type[DataError]) -> None:
    """The same error of relstate's for one key and for many."""
    with pytest.raises(error):
        table.get(*key)
    with pytest.raises(error):
        table.get_rows([(1, "x"), key])


@pytest.mark.parametrize("keys", [[1], ["xy"], [None], [{"a": 1, "b": "x"}]])
def test_keys_are_tuples(table: Table, keys: list[Any]) -> None:
    """A key that is neither a tuple nor a list is refused."""
    with pytest.raises(SchemaMismatchError, match="tuple"):
        table.get_rows(keys)


def test_many_rows_are_got_at_once(table: Table) -> None:
    """By a batch of keys or by tuples; some columns or all."""
    keys = [(2, "x"), (1, "nothing"), (1, "x"), (2, "x")]
    batch = pa.record_batch({"b": [key[1] for key in keys], "a": [key[0] for key in keys]})
    expected = [(None, 2, "x"), ("one", 1, "x"), (None, 2, "x")]

    assert rows_of(table.get_rows(keys)) == rows_of(table.get_rows(batch)) == expected
    assert rows_of(table.get_rows(keys, ["v"])) == [(None,), ("one",), (None,)]
    assert rows_of(table.get_rows([])) == []


_TYPES = [
    ("BOOLEAN", True, 1.5),
    ("TINYINT", -128, 128),
    ("SMALLINT", 32767, "1"),
    ("INT", -(1 << 31), 1 << 31),
    ("FLOAT", 1.5, "1.5"),
    ("DOUBLE", float("inf"), None),
    ("DECIMAL(5,2)", Decimal("1.25"), Decimal("1.255")),
    ("DECIMAL(38,0)", Decimal(10**37), 1.5),
    ("STRING", "\0\u20ac", b"x"),
    ("BINARY", b"\0\0", "x"),
    ("DATE", datetime.date(1, 1, 1), datetime.datetime(2020, 1, 1)),
    (
        "TIMESTAMP",
        datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
        datetime.datetime(2020, 1, 1),
    ),
    ("TIMESTAMP_NTZ", datetime.datetime(2020, 1, 1), datetime.datetime.now(datetime.UTC)),
    ("TIME", datetime.time(23, 59, 59, 999999), "12:00"),
    ("INTERVAL DAY TO SECOND", datetime.timedelta(-1), 5),
    ("STRUCT<a: INT, b: STRING>", {"a": 1, "b": None}, {"a": 1}),
    ("ARRAY<INT>", [1, None], "ab"),
]


@pytest.mark.parametrize(("data_type", "value", "wrong"), _TYPES, ids=[t[0] for t in _TYPES])
def test_every_type_of_key_is_found_and_guarded(
    store: Store, data_type: str, value: Any, wrong: Any
) -> None:
    """A lookup finds the row; a value of another type is an error, not an absent row."""
    store.create_table("k", f"k {data_type}, v INT", primary_key=["k"])
    upsert(store, "k", [(value, 7)])
    table = store.table("k")

    assert table.get(value) == (value, 7)
    assert rows_of(table.get_rows([(value,)])) == contents(store, "k") == [(value, 7)]
    with pytest.raises(DataError):
        table.get(wrong)
    with pytest.raises(DataError):
        table.get_rows([(wrong,)])


def test_a_table_follows_the_latest_epoch(store: Store, table: Table) -> None:
    """After commits of other writers, a truncate, and a drop."""
    with Store.open(store.path) as writer:
        upsert(writer, "t", [("new", 9, "z")], deleted=[(None, 2, "x")])
        assert table.get(9, "z") == ("new", 9, "z")
        assert (table.get(2, "x"), table.count()) == (None, 3)
        writer.truncate("t")
        assert table.count() == 0
        writer.drop_table("t")
        with pytest.raises(TableNotFoundError, match="'t'"):
            table.get(1, "x")
        writer.create_table("t", "a INT", primary_key=["a"])
        assert table.get(1) is None
        assert [column.name for column in table.schema.columns] == ["a"]


def test_a_scan_keeps_the_epoch_it_began_with(store: Store, table: Table) -> None:
    """It does not return rows that are committed while it runs."""
    batches = table.scan(ordered=True)
    upsert(store, "t", [("new", 0, "a")], deleted=[(None, 2, "x")])

    assert rows_of(batches) == [("one", 1, "x"), ("two", 1, "y"), (None, 2, "x")]
    assert len(rows_of(table.scan())) == 3


def test_scans_and_whole_tables_agree(table: Table) -> None:
    """In any order, of any columns."""
    assert rows_of(table.to_arrow(["b", "a"])) == [("x", 1), ("y", 1), ("x", 2)]
    assert rows_of(table.scan(["b", "a"], ordered=True)) == [("x", 1), ("y", 1), ("x", 2)]
    assert sorted(rows_of(table.scan(["b", "a"]))) == [("x", 1), ("x", 2), ("y", 1)]
    assert table.to_arrow().schema.equals(table.schema.arrow_schema)
    for read in (table.to_arrow, lambda names: list(table.scan(names))):
        with pytest.raises(SchemaMismatchError, match="'nothing'"):
            read(["nothing"])


def test_threads_read_one_table(store: Store) -> None:
    """While another thread commits, each sees whole epochs, in their order."""
    store.create_table("t", "k BIGINT, v BIGINT", primary_key=["k"])
    keys = list(range(20))
    upsert(store, "t", [(key, 0) for key in keys])
    table, wrong, is_over = store.table("t"), list[object](), threading.Event()

    def read() -> None:
        last = 0
        while not is_over.is_set():
            got = table.get(3)
            rows = rows_of(table.get_rows([(key,) for key in keys]))
            scanned = rows_of(table.scan())
            assert got is not None
            epochs = [{got.v}, {v for _, v in rows}, {v for _, v in scanned}]
            if any(len(numbers) != 1 for numbers in epochs) or len(rows) != len(scanned) != 20:
                wrong.append(epochs)
                return
            seen = [numbers.pop() for numbers in epochs]
            if [last, *seen] != sorted([last, *seen]):
                wrong.append(seen)
            last = seen[-1]

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for epoch in range(1, 25):
        upsert(store, "t", [(key, epoch) for key in keys])
    is_over.set()
    for thread in threads:
        thread.join()

    assert wrong == []
    assert table.get(3) == (3, 24)


def test_a_closed_store_has_no_tables(store: Store, table: Table) -> None:
    """Neither do tables and snapshots that were opened before."""
    snapshot = store.at(store.epoch)
    past = snapshot.table("t")
    store.close()

    for read in (
        lambda: table.get(1, "x"),
        lambda: past.get(1, "x"),
        lambda: table.get_rows([(1, "x")]),
        lambda: list(table.scan()),
        lambda: past.to_arrow(),
        lambda: table.count(),
    ):
        with pytest.raises(ClosedError, match="open it again"):
            read()


def test_a_text_is_not_a_list_of_columns(store: Store) -> None:
    """Its letters are not taken for names of columns."""
    table = store.create_table("t", "id INT, i INT, d INT", primary_key=["id"])

    for read in (table.scan, table.to_arrow):
        with pytest.raises(SchemaError, match=r"found the text 'id'; write \['id'\]"):
            list(read("id"))
    with pytest.raises(SchemaError, match="found the text"):
        table.get_rows([(1,)], "id")
    with pytest.raises(SchemaError, match="found the text"):
        store.read_plan("t", columns="id")
    with pytest.raises(SchemaError, match="found the text"):
        store.changes("t", 1, columns="id")


def test_a_scan_is_a_reader_that_other_libraries_take(store: Store, table: Table) -> None:
    """It is of its epoch; a table is a stream itself, and can be written to another one."""
    reader = table.scan(["a", "v"], where="a = 1")
    upsert(store, "t", [("new", 1, "z")])

    assert isinstance(reader, pa.RecordBatchReader)
    assert reader.schema.names == ["a", "v"]
    assert sorted(reader.read_all().to_pylist(), key=str) == [
        {"a": 1, "v": "one"}, {"a": 1, "v": "two"},
    ]  # fmt: skip
    assert pa.table(table).num_rows == 4
    store.create_table("copy", "v STRING, a BIGINT, b STRING", primary_key=["a", "b"])
    store.write("copy", table)
    assert contents(store, "copy") == contents(store, "t")


def test_rows_come_in_the_form_that_is_asked_for(store: Store, table: Table) -> None:
    """As Arrow data, a DataFrame or dicts, in the order of the key, with a condition or not."""
    assert table.to_dicts(["b", "v"], where="a = 1") == [
        {"b": "x", "v": "one"}, {"b": "y", "v": "two"},
    ]  # fmt: skip
    assert table.to_arrow(where="a > 1").to_pylist() == [{"v": None, "a": 2, "b": "x"}]
    frame = table.to_pandas(["a", "b"])
    assert list(frame.itertuples(index=False, name=None)) == [(1, "x"), (1, "y"), (2, "x")]


def test_a_reader_raises_the_errors_of_relstate(store: Store, table: Table) -> None:
    """Also an error that comes while the reader is read."""
    with pytest.raises(SchemaMismatchError):
        table.scan(["nothing"])
    upsert(store, "t", [("new", 1, "x")])
    reader = store.at(store.epoch).table("t").scan(ordered=True)
    upsert(store, "t", [("newer", 1, "x")])
    store.compact()
    store.vacuum(retention=0)
    with pytest.raises(SegmentMissingError):
        reader.read_all()


def test_a_key_of_one_column_needs_no_tuple(store: Store) -> None:
    """As in `get`; a key of several columns does."""
    store.create_table("k", "k INT, v STRING", primary_key=["k"])
    store.write("k", pa.table({"k": pa.array([1, 2], pa.int32()), "v": ["a", "b"]}))

    assert rows_of(store.table("k").get_rows([2, (1,), 3])) == [(2, "b"), (1, "a")]
