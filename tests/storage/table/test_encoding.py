"""Laws of the row encoding: rows to keys and values and back, in batches and one by one."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relstate.storage.errors import (
    NullKeyError,
    NullValueError,
    SchemaMismatchError,
    UnknownOperationError,
    ValueRangeError,
)
from relstate.storage.log.table_definition import TableDefinition
from relstate.storage.schema.ddl import parse_columns
from relstate.storage.schema.schema import KeyRange, TableSchema
from relstate.storage.segment.block import Block
from relstate.storage.segment.key import Kind
from relstate.storage.table.rowencoding import RowEncoding
from support.model import is_between
from support.shapes import SHAPES, Row, Shape
from support.sources import product_sources
from support.stores import rows_of

_VNODES = 7


def encoding_of(shape: Shape, vnode_count: int = _VNODES) -> RowEncoding:
    """Return the encoding of a table of some shape."""
    schema = TableSchema.build(
        parse_columns(shape.columns), shape.primary_key, shape.distribution_key
    )
    return RowEncoding(TableDefinition(3, shape.name, schema, 2), vnode_count)


def batch_of(encoding: RowEncoding, rows: list[Row]) -> pa.RecordBatch:
    """Return rows as a batch of the table's schema."""
    schema = encoding.schema.arrow_schema
    columns = [
        pa.array([row[index] for row in rows], field.type) for index, field in enumerate(schema)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Shape, list[Row]]:
    """Draw a shape and rows of it."""
    shape = draw(st.sampled_from(SHAPES))
    return shape, draw(st.lists(shape.rows, max_size=8))


@given(cases())
def test_what_is_decoded_is_what_was_encoded(case: tuple[Shape, list[Row]]) -> None:
    """Whole rows, some columns in any order, and keys alone."""
    shape, rows = case
    encoding = encoding_of(shape)

    block = Block.over(*encoding.encode(batch_of(encoding, rows)))

    assert rows_of(encoding.decode(block, encoding.schema.columns)) == rows
    backwards = encoding.schema.columns[::-1]
    assert rows_of(encoding.decode(block, backwards)) == [row[::-1] for row in rows]
    keys = encoding.decode(block, encoding.schema.key_columns)
    assert rows_of(keys) == [shape.key_of(row) for row in rows]


@given(cases())
def test_one_row_and_a_batch_have_the_same_bytes(case: tuple[Shape, list[Row]]) -> None:
    """And one row is decoded as the batch is."""
    shape, rows = case
    encoding = encoding_of(shape)

    keys, values = encoding.encode(batch_of(encoding, rows))

    assert [encoding.encode_key(shape.key_of(row)) for row in rows] == keys.to_pylist()
    assert [encoding.encode_row(row) for row in rows] == values.to_pylist()
    assert [encoding.key_of(row) for row in rows] == [shape.key_of(row) for row in rows]
    decoded = [
        encoding.decode_row(shape.key_of(row), value)
        for row, value in zip(rows, values.to_pylist(), strict=True)
    ]
    assert decoded == rows
    deleted = encoding.encode_delete()
    assert all(encoding.decode_row(shape.key_of(row), deleted) is None for row in rows)


@given(cases(), st.data())
def test_deletes_need_only_the_key(case: tuple[Shape, list[Row]], data: st.DataObject) -> None:
    """In a batch of both each row has its own kind; a delete may have the key only."""
    shape, rows = case
    encoding = encoding_of(shape)
    kinds = np.array([data.draw(st.sampled_from((Kind.PUT, Kind.DELETE))) for _ in rows], np.uint8)
    whole = batch_of(encoding, rows)

    keys, values = encoding.encode(whole, kinds)
    only_keys = whole.select([column.name for column in encoding.schema.key_columns])

    assert keys.to_pylist() == [encoding.encode_key(shape.key_of(row)) for row in rows]
    assert values.to_pylist() == [
        encoding.encode_row(row) if kind == Kind.PUT else encoding.encode_delete()
        for row, kind in zip(rows, kinds, strict=True)
    ]
    assert encoding.encode_deletes(only_keys)[0].equals(encoding.encode_keys(whole))


@given(cases(), st.data())
def test_bounds_enclose_just_the_keys_of_their_range(
    case: tuple[Shape, list[Row]], data: st.DataObject
) -> None:
    """A key is between the bounds of a range exactly if its values are in the range."""
    shape, rows = case
    encoding = encoding_of(shape)
    columns = shape.keys.flatmap(lambda key: st.integers(0, len(key)).map(lambda size: key[:size]))
    keys = KeyRange(data.draw(columns), data.draw(columns), data.draw(columns))

    low, high = encoding.key_bounds(keys)

    between = is_between(shape, keys.start, keys.stop)
    for row in rows:
        key = shape.key_of(row)
        inside = key[: len(keys.prefix)] == keys.prefix and between(key)
        encoded = encoding.encode_key(key)[encoding.prefix.size :]
        assert (low <= encoded and (high is None or encoded < high)) == inside
        vnode = encoding.vnode_of_range(keys)
        assert (
            vnode is None
            or not inside
            or vnode == encoding.prefix.vnode_of(encoding.encode_key(key))
        )


_WORDS = next(shape for shape in SHAPES if shape.name == "words")
_NUMBERS = next(shape for shape in SHAPES if shape.name == "numbers")


@pytest.mark.parametrize(
    ("key", "error"),
    [
        (("a",), SchemaMismatchError),
        (("a", 1, 2), SchemaMismatchError),
        ((), SchemaMismatchError),
        ((1, "a"), SchemaMismatchError),
        ((b"a", 1), SchemaMismatchError),
        (("a", 1.5), SchemaMismatchError),
        (("a", [1]), SchemaMismatchError),
        (("a", 1 << 31), ValueRangeError),
        (("\ud800", 1), ValueRangeError),
        (("a", None), NullKeyError),
        ((None, None), NullKeyError),
    ],
)
def test_a_wrong_key_is_refused(key: tuple[Any, ...], error: type[Exception]) -> None:
    """The error is one of relstate's, whatever is wrong with the key."""
    with pytest.raises(error, match=r"key"):
        encoding_of(_WORDS).encode_key(key)


@pytest.mark.parametrize("part", ["prefix", "start", "stop"])
@pytest.mark.parametrize("values", [("a", 1, 2), (1,), ("a", "b")])
def test_a_wrong_range_is_refused(part: str, values: tuple[Any, ...]) -> None:
    """Too many values and values of other types."""
    parts: dict[str, Any] = {part: values}
    with pytest.raises(SchemaMismatchError):
        encoding_of(_WORDS).key_bounds(KeyRange(**parts))


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ((None, 1, "tag"), SchemaMismatchError),
        ((None, 1, "tag", True, 5), SchemaMismatchError),
        ((5, 1, "tag", True), SchemaMismatchError),
        ((None, 1, "tag", None), NullValueError),
        ((None, None, "tag", True), NullKeyError),
        ((None, 1, None, True), NullKeyError),
        (("\ud800", 1, "tag", True), ValueRangeError),
    ],
)
def test_a_wrong_row_is_refused(row: tuple[Any, ...], error: type[Exception]) -> None:
    """NULLs are refused where a column allows none, and values of other types everywhere."""
    with pytest.raises(error):
        encoding_of(_WORDS).encode_row(row)


@pytest.mark.parametrize("kinds", [[1, 3], [0, 1], [1], [1, 2, 1], []])
def test_unknown_kinds_are_refused(kinds: list[int]) -> None:
    """A kind that is neither the upsert, a put nor a delete is an error."""
    encoding = encoding_of(_NUMBERS)
    rows = batch_of(encoding, [(1, "a", None, None), (2, "b", None, None)])

    with pytest.raises(UnknownOperationError, match="2 rows"):
        encoding.encode(rows, np.array(kinds, np.uint8))


def test_keys_are_found_by_name_whatever_else_there_is() -> None:
    """In any order and case; a column that comes twice is an error."""
    encoding = encoding_of(_WORDS)
    batch = pa.record_batch({"N": [1], "other": [2.5], "Tag": ["a"]})

    assert rows_of(encoding.conform_keys(batch)) == [("a", 1)]
    twice = pa.RecordBatch.from_arrays([pa.array([1])] * 2 + [pa.array(["a"])], ["n", "n", "tag"])
    with pytest.raises(SchemaMismatchError, match="two columns"):
        encoding.conform_keys(twice)


def test_a_stored_key_takes_one_look_at_the_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the full key of `encode_key`, and the values that are decoded from that."""
    schema = TableSchema.build(parse_columns("k TIMESTAMP, d DECIMAL(5,2), v INT"), ["k", "d"])
    encoding = RowEncoding(TableDefinition(3, "t", schema, 2), _VNODES)
    zone = dt.timezone(dt.timedelta(hours=3))
    values = (dt.datetime(2024, 1, 1, 3, tzinfo=zone), 1)
    full_key = encoding.encode_key(values)
    looks: list[Any] = []
    canonical = encoding._keys.canonical

    def counted(values: Any) -> list[Any]:
        looks.append(values)
        return canonical(values)

    monkeypatch.setattr(encoding._keys, "canonical", counted)
    stored, found_key = encoding.stored_key(values)

    assert looks == [values]
    assert found_key == full_key
    assert repr(stored) == repr(encoding.decode_key(full_key))


def test_errors_name_the_row() -> None:
    """A full key is described as the table and the values of its primary key."""
    encoding = encoding_of(_WORDS)

    assert encoding.describe(encoding.encode_key(("a", 1))) == "table words, row tag='a', n=1"


def test_only_encoding_of_makes_an_encoding() -> None:
    """A second encoding is chosen in one place, so no other product code names the class."""
    makers = {
        source.path
        for source in product_sources()
        if "RowEncoding(" in source.text.replace("class RowEncoding(", "")
    }

    assert makers == {"storage/table/encoding.py"}


def test_floats_that_a_key_keeps_are_read_as_they_were_written() -> None:
    """-0 and 0 are one key, whose rows are told apart by the value; a delete has only the key."""
    fields = parse_columns("d DOUBLE, p STRUCT<x: FLOAT>, a ARRAY<DOUBLE>, k INT, v INT")
    schema = TableSchema.build(
        fields, ["d desc", "p", "a", "k"], [], nullable_key=True, keeps_floats=True
    )
    encoding = RowEncoding(TableDefinition(3, "t", schema, 2), _VNODES)
    rows: list[Row] = [
        (-0.0, {"x": -0.0}, [0.0, -0.0], 1, 1),
        (0.0, {"x": 0.0}, [-0.0, 0.0], 1, 2),
        (None, None, None, 2, None),
    ]
    keys, values = encoding.encode(batch_of(encoding, rows))

    assert schema.stored_keys == (1, 2, 3)
    assert TableSchema.from_json(schema.to_json()) == schema
    assert keys[0] == keys[1]
    block = Block.over(keys, values)
    assert repr(rows_of(encoding.decode(block, schema.columns))) == repr(rows)
    for position, row in enumerate(rows):
        key = encoding.decode_key(keys[position].as_py())
        assert repr(tuple(encoding.decode_row(key, values[position].as_py()) or ())) == repr(row)
        assert encoding.encode_row(row) == values[position].as_py()
    kinds = np.array([Kind.DELETE, Kind.PUT, Kind.DELETE], np.uint8)
    changed = Block.over(*encoding.encode(batch_of(encoding, rows), kinds))
    read = rows_of(encoding.decode(changed, schema.key_columns))
    zero = (0.0, {"x": 0.0}, [0.0, 0.0], 1)
    assert repr(read) == repr([zero, rows[1][:4], rows[2][:4]])
