"""The schemas of document tables: how they change, and what is refused."""

from __future__ import annotations

from typing import Any, Literal

import pyarrow as pa
import pytest

from relstate.storage import Store
from relstate.storage.errors import (
    NullKeyError,
    OptionError,
    SchemaError,
    SchemaMismatchError,
    UsageError,
    ValueRangeError,
)
from support.document_tables import batch_of, got, new_table, seen

# Schemas


@pytest.mark.parametrize("compacted", [False, True])
def test_columns_come_go_and_widen(store: Store, compacted: bool) -> None:
    """Parts of dropped columns are gone, also as the reason for which a row exists."""
    new_table(store, columns="k INT, a INT, b STRING")
    store.patch("t", batch_of(store, [{"k": 1, "a": 1}, {"k": 2, "a": 2}]))
    store.patch("t", batch_of(store, [{"k": 2, "b": "x"}]))
    store.widen_column("t", "a", "BIGINT")
    store.add_columns("t", "c INT")
    store.patch("t", batch_of(store, [{"k": 3, "a": 1 << 40, "c": 3}]))
    before = {
        1: {"a": 1, "b": None, "c": None},
        2: {"a": 2, "b": "x", "c": None},
        3: {"a": 1 << 40, "b": None, "c": 3},
    }
    assert seen(store) == before
    epoch = store.epoch
    if compacted:
        store.compact("t")
    store.drop_columns("t", "a")
    after = {2: {"b": "x", "c": None}, 3: {"b": None, "c": 3}}
    for _ in range(2):
        assert seen(store) == after
        assert [got(store, key) for key in (1, 2, 3)] == [None, after[2], after[3]]
        store.compact("t")
    assert seen(store, epoch) == before


@pytest.mark.parametrize("compacted", [False, True])
def test_the_encoding_changes_without_rewriting(store: Store, compacted: bool) -> None:
    """In both directions, whatever was written under either, at every epoch."""
    store.create_table("t", "k INT, a INT, m MAP<STRING, INT>", primary_key=["k"])
    store.write("t", batch_of(store, [{"k": key, "a": key, "m": [("p", key)]} for key in (1, 2)]))
    past = {store.epoch: seen(store)}
    files = set(store.state.segments)
    store.set_encoding("t", "document")
    store.patch("t", batch_of(store, [{"k": 2, "m": [("q", 0)]}, {"k": 3, "m": [("q", 3)]}]))
    past[store.epoch] = {
        1: {"a": 1, "m": [("p", 1)]},
        2: {"a": 2, "m": [("p", 2), ("q", 0)]},
        3: {"a": None, "m": [("q", 3)]},
    }
    files_of_documents = set(store.state.segments)
    store.set_encoding("t", "row")
    assert files_of_documents == set(store.state.segments) >= files
    if compacted:
        store.compact("t")
    with pytest.raises(OptionError, match="encoding = 'document'"):
        store.patch("t", batch_of(store, [{"k": 2, "a": 1}]))
    for refused in (lambda: store.state_table("t"), lambda: store.create_index("t", "by", ["a"])):
        with pytest.raises((UsageError, SchemaError), match="or was, a document table"):
            refused()
    store.write("t", batch_of(store, [{"k": 3, "a": 7, "m": None}]))
    past[store.epoch] = past[max(past)] | {3: {"a": 7, "m": None}}
    assert seen(store) == past[store.epoch]
    assert got(store, 2) == past[store.epoch][2]
    store.set_encoding("t", "document")
    store.patch("t", batch_of(store, [{"k": 3, "a": None}]))
    assert got(store, 3) == {"a": None, "m": None}
    for epoch, rows in past.items():
        assert seen(store, epoch) == rows
    assert store.check().problems == ()


@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("encodings", [["row"], ["row", "document"]])
def test_rows_without_columns_stay_readable(
    store: Store, encodings: list[Literal["row", "document"]], compacted: bool
) -> None:
    """Under another encoding, where no file has anything but such rows of an unpacked table."""
    new_table(store, packed=False, columns="k INT, a INT, s STRING")
    store.write("t", batch_of(store, [{"k": 1, "a": None, "s": None}]))
    row = {"a": None, "s": None}
    if compacted:
        store.write("t", batch_of(store, [{"k": 2, "a": 2, "s": "x"}]))
        with store.document_writer("t") as writer:
            writer.remove(2, "a", "s")
        store.compact("t")
    else:
        store.write("t", batch_of(store, [{"k": 2, **row}]))
    for encoding in encodings:
        store.set_encoding("t", encoding)
        assert seen(store) == {1: row, 2: row}
        assert [got(store, key) for key in (1, 2, 3)] == [row, row, None]
    store.compact("t")
    assert seen(store) == {1: row, 2: row}
    (statistics,) = (
        table for segment in store.state.segments.values() for table in segment.record.tables
    )
    assert (statistics.rows, statistics.parts) == (2, 0)
    assert store.check().problems == ()


# Refusals


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoding": "cells"}, "encoding is 'cells'"),
        ({"packed": False}, "packed = False needs encoding = 'document'"),
        ({"encoding": "document", "packed": 1}, "packed is True or False"),
        ({"encoding": "document", "merge": "partial"}, "a document table has no merge behaviour"),
        ({"encoding": "document", "append_only": True}, "append_only"),
    ],
)
def test_properties_that_do_not_go_together(
    store: Store, options: dict[str, Any], message: str
) -> None:
    """They are refused before anything is created."""
    with pytest.raises(SchemaError, match=message):
        store.create_table("t", "k INT, a INT", primary_key=["k"], **options)
    assert store.tables() == ()


def test_tables_that_cannot_become_documents(store: Store) -> None:
    """Each is refused with what is in the way, and stays as it is."""
    store.create_table("merged", "k INT, a INT", primary_key=["k"], merge="partial")
    store.create_table("strict", "k INT, a INT NOT NULL", primary_key=["k"])
    store.create_table("t", "k INT, a INT", primary_key=["k"])
    store.create_index("t", "by_a", ["a"])
    for table, message in (("merged", "merge"), ("strict", "NOT NULL"), ("t", "has indexes")):
        with pytest.raises(SchemaError, match=message):
            store.set_encoding(table, "document")
    with pytest.raises(SchemaError, match="encoding is 'cells'"):
        store.set_encoding("merged", "cells")  # type: ignore[arg-type]


def test_columns_that_documents_do_not_have(store: Store) -> None:
    """A column that can be removed by itself is nullable."""
    with pytest.raises(SchemaError, match="'a' of a document table is NOT NULL"):
        new_table(store, columns="k INT, a INT NOT NULL")


def test_patches_that_do_not_fit(store: Store) -> None:
    """Each is an error of its kind, and nothing is written."""
    new_table(store)
    store.create_table("rows", "k INT, a INT", primary_key=["k"])
    epoch = store.epoch
    one = pa.array([1], pa.int32())
    cases: list[tuple[dict[str, pa.Array], type[Exception], str]] = [
        ({"k": one}, SchemaMismatchError, "the columns that change"),
        ({"a": one}, SchemaMismatchError, "'k' is missing"),
        ({"k": pa.nulls(1, pa.int32()), "a": one}, NullKeyError, "NULL"),
        ({"k": one, "z": one}, SchemaMismatchError, "the columns that change"),
        ({"k": one, "a": one, "z": one}, SchemaMismatchError, "z"),
        ({"k": one, "a": pa.array([1 << 40])}, ValueRangeError, "does not fit"),
        ({"k": one, "a": pa.array(["x"])}, SchemaMismatchError, "'a'"),
        ({"k": one, "st": pa.array([{"q": 1}])}, SchemaMismatchError, "st has no field 'q'"),
        (
            {"k": one, "m": pa.array([[("x" * 70_000, 1)]], pa.map_(pa.string(), pa.int32()))},
            ValueRangeError,
            "at most 65535 bytes",
        ),
    ]
    for columns, error, message in cases:
        with pytest.raises(error, match=message):
            store.patch("t", pa.record_batch(columns))
    with pytest.raises(OptionError, match="encoding = 'document'"):
        store.patch("rows", pa.record_batch({"k": one, "a": one}))
    with pytest.raises(UsageError, match="document table"):
        store.state_table("t")
    with pytest.raises(SchemaError, match="no secondary indexes"):
        store.create_index("t", "by_a", ["a"])
    assert store.epoch == epoch


def test_some_fields_of_a_struct(store: Store) -> None:
    """A patch has only the fields that it changes."""
    new_table(store)
    row = {"k": 1, "a": 1, "s": None, "m": None, "l": None, "st": {"x": 1, "y": "old"}, "d": None}
    store.write("t", batch_of(store, [row]))
    patch = pa.record_batch({"k": pa.array([1], pa.int32()), "st": pa.array([{"Y": "new"}])})
    store.patch("t", patch)

    assert (got(store, 1) or {})["st"] == {"x": 1, "y": "new"}


def test_keys_and_paths_beyond_lmdbs_limit(store: Store) -> None:
    """A long key of a row, a long key of a map, and both, in groups with their neighbours."""
    store.create_table(
        "t", "k STRING, a INT, m MAP<STRING, INT>", primary_key=["k"], encoding="document"
    )
    keys = ["x" * length for length in (10, 480, 490, 500, 505, 520, 3000)]
    rows = [{"k": key, "a": 1, "m": [("p", 1)]} for key in keys]
    store.write("t", batch_of(store, rows))
    store.patch("t", batch_of(store, [{"k": key, "m": [("y" * 600, 2), ("q", 3)]} for key in keys]))
    store.patch("t", batch_of(store, [{"k": key, "a": 5} for key in keys]))
    expected = {key: {"a": 5, "m": [("p", 1), ("q", 3), ("y" * 600, 2)]} for key in keys}

    for _ in range(2):
        assert seen(store) == expected
        for key in keys:
            assert got(store, key) == expected[key]
        store.compact("t")
