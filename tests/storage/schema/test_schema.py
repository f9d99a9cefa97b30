"""The laws of a table's schema: what a table may be, and how it survives the log."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relstate.storage import types as t
from relstate.storage.errors import SchemaError, SchemaMismatchError, UnsupportedTypeError
from relstate.storage.schema.ddl import parse_columns
from relstate.storage.schema.schema import Column, KeyColumn, TableSchema
from support.datatypes import key_types, value_types
from support.examples import examples

COLUMNS = "order_id BIGINT, Customer STRING, amount DECIMAL(12,2) NOT NULL, `odd desc` DATE"


def build(primary_key: Any, distribution_key: Any = None, columns: str = COLUMNS) -> TableSchema:
    """Return the schema of a table of orders."""
    return TableSchema.build(parse_columns(columns), primary_key, distribution_key)


@st.composite
def schemas(draw: st.DrawFn) -> TableSchema:
    """Draw the schema of any table: key columns, then values, in any mixture."""
    keys = draw(st.lists(key_types(), min_size=1, max_size=3))
    values = draw(st.lists(value_types(), max_size=3))
    orders = ["", " desc", " asc nulls last", " DESC NULLS FIRST"]
    fields = [t.Field(f"k{number}", data_type) for number, data_type in enumerate(keys)]
    parts = [field.name + draw(st.sampled_from(orders)) for field in fields]
    distribution = draw(st.lists(st.sampled_from(fields), min_size=1, unique=True))
    fields += [t.Field(f"v {number}", data_type) for number, data_type in enumerate(values)]
    names = [field.name for field in distribution]
    return TableSchema.build(draw(st.permutations(fields)), parts, draw(st.none() | st.just(names)))


@settings(max_examples=examples(100))
@given(schemas())
def test_a_schema_survives_json_and_pickle(schema: TableSchema) -> None:
    """The log stores it as JSON, tasks receive it pickled."""
    assert TableSchema.from_json(json.loads(json.dumps(schema.to_json()))) == schema
    assert pickle.loads(pickle.dumps(schema)) == schema


@settings(max_examples=examples(100))
@given(schemas())
def test_key_and_value_columns_are_all_columns(schema: TableSchema) -> None:
    """Each column is in the key or in the value; key columns are never NULL."""
    keys, values = schema.key_columns, schema.value_columns

    assert sorted(column.id for column in keys + values) == list(range(1, schema.next_column_id))
    assert [column.id for column in keys] == [key.column_id for key in schema.primary_key]
    assert list(values) == [column for column in schema.columns if column in values]
    assert not any(column.nullable for column in keys)
    assert {column.id for column in schema.distribution_columns} <= {column.id for column in keys}


def test_a_table_is_built_from_its_columns() -> None:
    """Ids count from 1, key columns become NOT NULL, the distribution key is the primary key."""
    schema = build(["customer", "ORDER_ID desc"])

    assert schema == TableSchema(
        version=1,
        columns=(
            Column(1, "order_id", t.BigInt(), False),
            Column(2, "Customer", t.String(), False),
            Column(3, "amount", t.Decimal(12, 2), False),
            Column(4, "odd desc", t.Date()),
        ),
        primary_key=(KeyColumn(2), KeyColumn(1, True, False)),
        distribution_key=(2, 1),
        next_column_id=5,
    )
    assert schema.arrow_schema == pa.schema(
        [
            pa.field("order_id", pa.int64(), nullable=False),
            pa.field("Customer", pa.string(), nullable=False),
            pa.field("amount", pa.decimal128(12, 2), nullable=False),
            pa.field("odd desc", pa.date32()),
        ]
    )


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("order_id", KeyColumn(1, False, True)),
        ("order_id asc", KeyColumn(1, False, True)),
        ("order_id DESC", KeyColumn(1, True, False)),
        ("order_id nulls last", KeyColumn(1, False, False)),
        (" `order_id`  desc  nulls first ", KeyColumn(1, True, True)),
        ("odd desc", KeyColumn(4, False, True)),
        ("odd desc desc", KeyColumn(4, True, False)),
        ("`odd desc` nulls last", KeyColumn(4, False, False)),
    ],
)
def test_the_order_of_a_key_column(part: str, expected: KeyColumn) -> None:
    """Ascending puts NULLs first and descending last, as in Spark, unless stated otherwise."""
    assert build([part]).primary_key == (expected,)


@pytest.mark.parametrize(
    ("primary_key", "distribution_key", "complaint"),
    [
        ([], None, "the primary key is empty"),
        ("order_id", None, "found the text 'order_id'"),
        (["nothing"], None, "no column 'nothing'; the columns are order_id"),
        (["order_id down"], None, "no column 'order_id down'"),
        ([""], None, "not a part of a primary key"),
        (["order_id", "ORDER_ID desc"], None, "names the column 'order_id' twice"),
        (["order_id"], ["nothing"], "no column 'nothing'"),
        (["order_id"], ["customer"], "'Customer' is not part of the primary key"),
        (["order_id"], ["order_id", "order_id"], "names the column 'order_id' twice"),
    ],
)
def test_impossible_keys_are_refused(
    primary_key: Any, distribution_key: Any, complaint: str
) -> None:
    """A key names columns of the table, each once, and the distribution key is part of it."""
    with pytest.raises(SchemaError, match=complaint):
        build(primary_key, distribution_key)


@pytest.mark.parametrize(
    "ddl",
    ["MAP<INT, INT>", "VARIANT", "STRING COLLATE UNICODE", "VOID", "ARRAY<STRUCT<a: VARIANT>>"],
)
def test_types_without_an_order_are_refused_as_keys(ddl: str) -> None:
    """A type that has no order may be a value but not a key."""
    columns = f"id INT, v {ddl}"

    assert len(build(["id"], columns=columns).value_columns) == 1
    with pytest.raises(SchemaError, match=r"'v' of type .* cannot be in the primary key"):
        build(["id", "v"], columns=columns)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ([], "at least one column"),
        ([t.Field("", t.Int())], "a column needs a name"),
        ([t.Field("a", t.Int()), t.Field("A", t.Int())], "two columns are named 'A'"),
        ([t.Field("a", t.Int()), t.Field("a", t.Int())], "two columns are named 'a'"),
    ],
)
def test_impossible_columns_are_refused(fields: list[t.Field], complaint: str) -> None:
    """A table has columns, whose names differ, whatever the case."""
    with pytest.raises(SchemaError, match=complaint):
        TableSchema.build(fields, ["a"])


def test_types_that_cannot_be_stored_are_refused() -> None:
    """An interval of months cannot come from Spark, so no table has one."""
    with pytest.raises(UnsupportedTypeError, match="INTERVAL YEAR TO MONTH cannot be stored"):
        build(["id"], columns="id INT, v INTERVAL YEAR TO MONTH")


def test_a_column_is_found_whatever_its_case() -> None:
    """Names match as in Spark; an unknown name is refused."""
    schema = build(["order_id"])

    assert schema.column("CUSTOMER").id == 2
    with pytest.raises(SchemaError, match="no column 'x'"):
        schema.column("x")


def test_a_schema_conforms_batches() -> None:
    """Rows are checked and cast to the table's columns."""
    schema = build(["order_id"], columns="order_id BIGINT, v INT")

    conformed = schema.conform(pa.RecordBatch.from_pydict({"V": [1], "order_id": [2]}))

    assert conformed.schema.equals(schema.arrow_schema)
    with pytest.raises(SchemaMismatchError):
        schema.check_schema(pa.schema([("v", pa.int32())]))


@pytest.mark.parametrize("value", [{}, {"version": 1}, {"columns": None}, None])
def test_what_is_not_a_schema_is_refused(value: Any) -> None:
    """JSON that does not describe a schema raises SchemaError."""
    with pytest.raises(SchemaError):
        TableSchema.from_json(value)
