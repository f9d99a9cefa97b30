"""The laws of conforming a batch: its values unchanged in the table's schema, or a clear error."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relstate.storage.errors import (
    NullKeyError,
    NullValueError,
    SchemaMismatchError,
    ValueRangeError,
)
from relstate.storage.schema.arrow import arrow_schema
from relstate.storage.schema.batch import BatchShape
from relstate.storage.schema.ddl import parse_columns
from support.datatypes import array_of, value_types, values_of
from support.examples import examples

COLUMNS = "id BIGINT NOT NULL, name STRING, amount DECIMAL(6,2), must INT NOT NULL"


def shape(columns: str = COLUMNS) -> BatchShape:
    """Return the shape of these columns; ``id`` is the key."""
    return BatchShape(arrow_schema(parse_columns(columns)), ["id"])


def batch(**columns: Any) -> pa.RecordBatch:
    """Return a batch of these columns, in Arrow's own types for Python values."""
    return pa.RecordBatch.from_pydict(columns)


def test_columns_are_found_by_name_whatever_their_case_and_order() -> None:
    """Order and case do not matter, and a nullable column that is missing is NULL."""
    conformed = shape().conform(batch(MUST=[7], Name=["x"], id=[1]))

    assert conformed.schema.equals(arrow_schema(parse_columns(COLUMNS)))
    assert conformed.to_pylist() == [{"id": 1, "name": "x", "amount": None, "must": 7}]


def test_a_batch_that_fits_is_itself() -> None:
    """A batch in exactly the table's schema is returned as it is, not copied."""
    once = shape().conform(batch(id=[1], must=[1]))

    assert shape().conform(once) is once


@settings(max_examples=examples(100))
@given(value_types(), st.data())
def test_values_of_every_type_pass_unchanged(data_type: Any, data: st.DataObject) -> None:
    """A column that has the table's type already is not touched, whatever the type."""
    column = array_of(data_type, data.draw(st.lists(values_of(data_type), max_size=4)))
    target = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("c", column.type)])
    rows = pa.RecordBatch.from_arrays([column, pa.array(range(len(column)))], ["C", "ID"])

    conformed = BatchShape(target, ["id"]).conform(rows)

    assert conformed.schema.equals(target)
    assert repr(conformed.column("c").to_pylist()) == repr(column.to_pylist())


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"must": [1]}, "NOT NULL column 'id' is missing"),
        ({"id": [1]}, "NOT NULL column 'must' is missing"),
        ({"id": [1], "must": [1], "more": [1]}, "unknown column 'more'; the columns are id, name"),
        ({"id": [1], "must": [1], "ID": [1]}, "two columns are named 'ID'"),
        ({"id": ["1"], "must": [1]}, "'id' is int64 in the table and string in the data"),
        ({"id": [1], "must": [1.0]}, "'must' is int32 in the table and double in the data"),
    ],
)
def test_other_columns_are_refused_before_any_row(columns: Any, complaint: str) -> None:
    """Columns that are missing, unknown, doubled or of another type are named."""
    rows = batch(**columns)

    with pytest.raises(SchemaMismatchError, match=complaint):
        shape().check_schema(rows.schema)
    with pytest.raises(SchemaMismatchError, match=complaint):
        shape().conform(rows.slice(0, 0))


def test_a_schema_that_could_be_conformed_passes() -> None:
    """A schema is checked without rows."""
    shape().check_schema(batch(id=pa.array([1], pa.int8()), must=[1]).schema)


@pytest.mark.parametrize("row", [0, 1, 499, 999])
def test_the_first_value_that_does_not_fit_is_named(row: int) -> None:
    """The error says which column, key and value, for the first of several."""
    numbers = [1] * 1000
    numbers[row] = numbers[999] = 2**40

    with pytest.raises(
        ValueRangeError, match=rf"{2**40} in the row with id = {row} .* 'must' of type int32"
    ):
        shape().conform(batch(id=range(1000), must=numbers))


def test_a_long_value_is_shown_in_part() -> None:
    """An error stays readable when the value is long."""
    wide = shape("id BIGINT NOT NULL, c ARRAY<INT>")

    with pytest.raises(ValueRangeError, match="…") as caught:
        wide.conform(batch(id=[1], c=[[2**40] * 1000]))
    assert len(str(caught.value)) < 300


def test_a_null_in_a_key_is_named() -> None:
    """The first row whose key is NULL is named."""
    with pytest.raises(
        NullKeyError,
        match=r"'id' is NULL in the row with must = 2 \(row 1 of the batch\): leave",
    ):
        shape().conform(batch(id=[1, None, None], must=[1, 2, 3]))


def test_a_null_where_none_may_be_is_named() -> None:
    """The first row whose NOT NULL column is NULL is named, the column as the table spells it."""
    with pytest.raises(NullValueError, match=r"'must' is NULL in the row with id = 13 \(row 2 of "):
        shape().conform(batch(id=[11, 12, 13], MUST=[1, 2, None]))


@pytest.mark.parametrize(
    ("column", "good", "bad"),
    [
        ("STRUCT<a: INT NOT NULL>", {"a": 1}, {"a": None}),
        ("STRUCT<s: STRUCT<a: INT NOT NULL>>", {"s": None}, {"s": {"a": None}}),
        ("ARRAY<STRUCT<a: INT NOT NULL>>", [None, {"a": 1}], [{"a": None}]),
        ("MAP<INT, STRUCT<a: INT NOT NULL>>", [(1, None)], [(1, {"a": None})]),
    ],
)
def test_a_null_inside_a_value_is_named(column: str, good: Any, bad: Any) -> None:
    """NOT NULL holds inside structs, arrays and maps too, but not inside what is NULL itself."""
    columns = f"id BIGINT NOT NULL, c {column}"
    loose = arrow_schema(parse_columns(columns.replace(" NOT NULL>", ">")))
    rows = [good, None, bad, bad]

    def conform(values: list[Any]) -> pa.RecordBatch:
        arrays = [pa.array(range(len(values))), pa.array(values, loose.field("c").type)]
        return shape(columns).conform(pa.RecordBatch.from_arrays(arrays, schema=loose))

    assert conform(rows[:2]).column("c").to_pylist() == rows[:2]
    with pytest.raises(NullValueError, match=r"'c' holds a NULL in the row with id = 2 "):
        conform(rows)


def test_elements_that_must_not_be_null() -> None:
    """An array or a map declared without NULLs gets none."""
    strict = pa.list_(pa.field("element", pa.int32(), nullable=False))
    target = BatchShape(pa.schema([pa.field("c", strict)]), [])

    assert target.conform(batch(c=[[1], None, []])).column("c").to_pylist() == [[1], None, []]
    with pytest.raises(
        NullValueError, match=r"'c' holds a NULL in the row with c = \[1, None\] \(row 1 "
    ):
        target.conform(batch(c=[[1], [1, None]]))
