"""The quick lookup of a row returns what the general one does."""

from __future__ import annotations

import gc
import traceback
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relstate.storage import Store
from relstate.storage.errors import (
    NullKeyError,
    RelstateError,
    SchemaMismatchError,
    ValueRangeError,
)
from relstate.storage.log.table_definition import TableDefinition
from relstate.storage.schema.ddl import parse_columns
from relstate.storage.schema.schema import TableSchema
from relstate.storage.segment.block import Block
from relstate.storage.table.fullkey import MISFITS
from relstate.storage.table.rowencoding import RowEncoding
from support.stores import stored_row, unsynced

_USUAL = {
    "TINYINT": st.integers(-(2**7), 2**7 - 1),
    "SMALLINT": st.integers(-(2**15), 2**15 - 1),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
}
_ODD: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.floats(),
    st.integers(-(2**65), 2**65),
    st.text(),
    st.binary(),
    st.integers(-100, 100).map(np.int64),
)
_KEYS = st.lists(st.sampled_from([*sorted(_USUAL), "STRING"]), min_size=1, max_size=3)
_VNODES = st.sampled_from([1, 7, 256, 1000])


def encoding_of(types: list[str], vnode_count: int = 7, hashed: int = 3) -> RowEncoding:
    """Return the encoding of a table whose key has these types; some of its last are hashed."""
    columns = ", ".join(f"k{number} {name}" for number, name in enumerate(types))
    names = [f"k{number}" for number in range(len(types))]
    schema = TableSchema.build(parse_columns(f"{columns}, v STRING"), names, names[-hashed:])
    return RowEncoding(TableDefinition(3, "t", schema, 2), vnode_count)


def usual_values(types: list[str]) -> st.SearchStrategy[tuple[Any, ...]]:
    """Return the values of usual keys of some types."""
    text = st.text(st.characters(codec="utf-8"))
    return st.tuples(*(_USUAL.get(name, text) for name in types))


@given(data=st.data(), types=_KEYS, vnodes=_VNODES, hashed=st.integers(1, 3))
def test_usual_keys_have_the_bytes_of_the_general(
    data: st.DataObject, types: list[str], vnodes: int, hashed: int
) -> None:
    """Whole numbers of each width, texts with any characters, in any order and number."""
    encoding = encoding_of(types, vnodes, hashed)
    values = data.draw(usual_values(types))
    assert encoding.key_encoder is not None
    assert encoding.key_locator is not None
    assert encoding.key_reader is not None
    vnode, full_key, digest = encoding.key_encoder(values)
    primary_key = full_key[encoding.prefix.size :]

    assert full_key == encoding.encode_key(values)
    assert vnode == encoding.prefix.vnode_of(full_key)
    assert encoding.key_locator(primary_key) == (values, vnode, full_key, digest)
    assert encoding.key_reader(primary_key) == values
    block = Block.of_pairs([(full_key, b"")])
    hashes = encoding.key_hashes(block.keys, block.key_starts, block.key_lengths)
    (hash_of_row,) = hashes.tolist()
    assert hash_of_row == digest % (1 << 64)


@given(data=st.data(), types=_KEYS)
def test_prefixes_have_the_bytes_of_the_general(data: st.DataObject, types: list[str]) -> None:
    """Of the first columns, if the distribution key is among them; else there is no encoder."""
    encoding = encoding_of(types, hashed=1)
    values = data.draw(usual_values(types))
    encode = encoding.prefix_encoder(len(types))
    assert encode is not None
    vnode, prefix, _ = encode(values)

    assert prefix == encoding.encode_key_prefix(values)
    assert vnode == encoding.prefix.vnode_of(prefix)
    assert len(types) == 1 or encoding.prefix_encoder(len(types) - 1) is None


@given(data=st.data(), types=_KEYS)
def test_other_bytes_are_left_to_the_general_way(data: st.DataObject, types: list[str]) -> None:
    """Cut off, continued or changed: they are refused, or have the general way's values."""
    encoding = encoding_of(types)
    primary_key = bytearray(encoding.encode_key(data.draw(usual_values(types))))
    del primary_key[: encoding.prefix.size]
    place = data.draw(st.integers(0, len(primary_key)))
    damaged = data.draw(
        st.sampled_from(
            [
                bytes(primary_key[:place]),
                bytes(primary_key[:place] + b"\0" + primary_key[place:]),
                bytes(primary_key[:place] + b"\2" + primary_key[place + 1 :]),
            ]
        )
    )
    assert encoding.key_locator is not None
    assert encoding.key_reader is not None
    try:
        values, _, full_key, _ = encoding.key_locator(damaged)
    except (*MISFITS, IndexError):
        with pytest.raises((*MISFITS, IndexError)):
            encoding.key_reader(damaged)
        return
    assert (list(values), full_key) == encoding.locate(damaged)
    assert encoding.key_reader(damaged) == values


@given(values=st.lists(_ODD, max_size=3), types=_KEYS)
def test_other_keys_are_left_to_the_general_way(values: list[Any], types: list[str]) -> None:
    """What the general way refuses is refused; what is not refused has the same bytes."""
    encoding = encoding_of(types)
    assert encoding.key_encoder is not None
    try:
        encoded = encoding.key_encoder(values)
    except MISFITS:
        return
    assert encoded[1] == encoding.encode_key(values)


@pytest.mark.parametrize(
    ("columns", "primary_key", "distribution_key"),
    [
        ("a INT", ["a DESC"], ["a"]),
        ("a INT, b STRING", ["a", "b DESC"], ["a"]),
        ("a DATE", ["a"], ["a"]),
        ("a INT, b DOUBLE", ["a", "b"], ["a"]),
    ],
)
def test_tables_of_other_keys_have_no_quick_encoder(
    columns: str, primary_key: list[str], distribution_key: list[str]
) -> None:
    """Descending keys, and those with other types."""
    schema = TableSchema.build(parse_columns(columns), primary_key, distribution_key)
    encoding = RowEncoding(TableDefinition(3, "t", schema, 2), 7)

    assert encoding.key_encoder is None
    assert encoding.key_locator is None
    assert encoding.key_reader is None


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with a table of rows of two schemas, in several files, one of them deleted."""
    store = Store.create(str(tmp_path), environment=unsynced(str(tmp_path)))
    store.create_table("t", "k BIGINT NOT NULL, v STRING, n INT", primary_key=["k"])
    store.write("t", pa.table({"k": [1, 2, 3], "v": ["a", "b", None], "n": [1, 2, 3]}))
    store.add_columns("t", "w DOUBLE")
    store.write("t", pa.table({"k": [2, 4], "v": ["B", "d"], "n": [0, 4], "w": [0.5, None]}))
    store.delete("t", pa.table({"k": [1]}))
    return store


def test_rows_are_those_of_a_scan(store: Store) -> None:
    """Under either schema, the newest version, with NULLs; None for what was deleted."""
    table = store.table("t")
    rows = {row["k"]: tuple(row.values()) for row in table.to_dicts()}

    assert {key: table.get(key) for key in range(6)} == {key: rows.get(key) for key in range(6)}
    assert rows.keys() == {2, 3, 4}
    assert table.get(np.int64(2)) == rows[2]


@pytest.mark.parametrize("columns", [["n"], ["w", "k"], ["v"], ["k"], ["W", "v", "n"]])
def test_some_columns_are_those_of_the_row(store: Store, columns: list[str]) -> None:
    """In the order that is asked for, of rows of either schema, with NULLs, twice."""
    table = store.table("t")
    for key in [*range(6), *range(6)]:
        row, whole = table.get(key, columns=columns), table.get(key)

        assert (row is None) == (whole is None)
        if row is not None and whole is not None:
            assert row == tuple(whole[name.lower()] for name in columns)
            assert row.columns == tuple(map(str.lower, columns))


@pytest.mark.parametrize("options", [{"encoding": "document"}, {"merge": "partial"}])
def test_some_columns_of_rows_of_several_entries(store: Store, options: dict[str, Any]) -> None:
    """Are taken from the whole row."""
    store.create_table("m", "k INT, a STRING, b STRING", primary_key=["k"], **options)
    store.write("m", pa.table({"k": pa.array([1], pa.int32()), "a": ["x"], "b": ["y"]}))
    store.write("m", pa.table({"k": pa.array([1], pa.int32()), "a": ["z"]}))
    table = store.table("m")

    assert table.get(1, columns=["b", "a"]) == (stored_row(table, 1).b, "z")


@pytest.mark.parametrize("columns", [["nope"], [], "n", ["n", "n"], ["N", "n"]])
def test_columns_that_cannot_be_read_have_errors(store: Store, columns: Any) -> None:
    """Also after others were read."""
    table = store.table("t")
    assert table.get(2, columns=["n"]) == (0,)
    with pytest.raises(RelstateError):
        table.get(2, columns=columns)


@pytest.mark.parametrize(
    ("key", "error"),
    [
        (None, NullKeyError),
        (True, SchemaMismatchError),
        ("2", SchemaMismatchError),
        (2**63, ValueRangeError),
    ],
)
def test_wrong_keys_have_their_errors(store: Store, key: object, error: type[Exception]) -> None:
    """Those of the general way, which is not a consequence of another error."""
    with pytest.raises(error) as raised:
        store.table("t").get(key)
    shown = "".join(traceback.format_exception(raised.value))
    assert "fullkey" not in shown


def test_a_table_is_released_with_its_last_reference(store: Store) -> None:
    """Its files are open while it lives: no cycle of references holds it."""
    table = store.read_plan("t").open()
    assert table.get((2,)) is not None
    files = weakref.ref(table._files)
    gc.disable()
    try:
        del table
        assert files() is None
    finally:
        gc.enable()
