"""The data types against Spark's own: DDL, JSON and Arrow forms, and the order of values."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import DataType, StructType

from relstate.storage import types as t
from relstate.storage.codec.memcomparable import KeyCodec
from relstate.storage.errors import SchemaError, UnsupportedTypeError
from relstate.storage.schema.arrow import arrow_type, from_arrow
from relstate.storage.schema.ddl import parse_columns, parse_type
from relstate.storage.schema.schema import KeyColumn
from relstate.storage.schema.type_json import from_json, to_json
from support.datatypes import all_types, value_types
from support.versions import PRECISE_TIMES, needs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES = [
    "boolean", "tinyint", "BYTE", "smallint", "short", "int", "INTEGER", "bigint", "long",
    "float", "real", "double", "decimal", "dec(5)", "NUMERIC(38,38)", "binary", "date", "void",
    "string", "string collate unicode_ai_ci", "string collate `utf8_lcase`",
    "string collate en_usa", "string collate utf8_binary_rtrim",
    "timestamp", "timestamp(6)", "timestamp_ltz(6)",
    "timestamp_ntz", "timestamp without time zone", "timestamp with local time zone",
    "time", "time(0)", "time(9) without time zone", "variant", "interval", "interval day",
    "interval day to second", "interval hour to minute", "interval year", "interval year to month",
    "array<array<int>>", "map<string,array<map<int,double>>>", "struct<>",
    "struct<a:int not null, `b``c` string, 1a: struct<x: string collate unicode>>",
    "a int, b: string not null", "`odd name` date not null, c array<struct<d: time>>",
]  # fmt: skip
REFUSED = [
    "array<int", "map<int>", "decimal(39)", "decimal(3,5)", "time(10)",
    "interval second to day", "interval day to day", "interval week", "timestamp(3)", "uuid",
    "a int,", "a-b int", "12 int", "a int not", "char", "string(5)", "array<int not null>",
]  # fmt: skip


def parsed(text: str) -> t.DataType:
    """Return a type, or columns as a struct, as ``DataType.fromDDL`` takes both."""
    try:
        return parse_type(text)
    except (SchemaError, UnsupportedTypeError):
        return t.Struct(parse_columns(text))


@needs(PRECISE_TIMES)
def test_spark_reads_ddl_alike(spark: SparkSession) -> None:
    """Every name, synonym and spelling of a type means the same to Spark."""
    for text in TYPES:
        assert to_json(parsed(text)) == DataType.fromDDL(text).jsonValue(), text


@needs(PRECISE_TIMES)
def test_spark_reads_what_is_written(spark: SparkSession) -> None:
    """Spark reads the DDL of a type as that type."""
    for text in TYPES:
        written = str(parsed(text))

        assert DataType.fromDDL(written).jsonValue() == to_json(parsed(text)), written


def test_spark_refuses_alike(spark: SparkSession) -> None:
    """What Spark refuses as a type is an error here too."""
    for text in REFUSED:
        with pytest.raises((SchemaError, UnsupportedTypeError)):
            parsed(text)
        with pytest.raises(PySparkException):
            DataType.fromDDL(text)


@given(all_types())
def test_json_is_that_of_spark(data_type: t.DataType) -> None:
    """PySpark reads the JSON form and writes it back."""
    written = to_json(data_type)
    column = {"name": "c", "type": written, "nullable": True, "metadata": {}}

    returned = StructType.fromJson(json.loads(json.dumps({"type": "struct", "fields": [column]})))

    assert from_json(returned.jsonValue()) == t.Struct((t.Field("c", data_type),))


@given(value_types())
def test_arrow_types_are_those_of_spark(data_type: t.DataType) -> None:
    """The Arrow form equals PySpark's, metadata included, and is read as PySpark reads it."""
    column = t.Struct((t.Field("c", data_type),))
    theirs = StructType.fromJson(to_json(column))  # type: ignore[arg-type]

    arrow = arrow_type(column)

    assert arrow.equals(to_arrow_type(theirs, timezone="UTC"), check_metadata=True)
    assert to_json(from_arrow(arrow)) == from_arrow_type(arrow).jsonValue()


ORDERED: list[tuple[str, list[Any]]] = [
    ("boolean", [True, False, None]),
    ("double", [0.0, -0.0, float("nan"), float("inf"), float("-inf"), -1.5, 1e-300, None]),
    ("float", [float("nan"), -1.0, 0.5, None]),
    ("string", ["", "a", "a\x00", "a\x00b", "aa", "é", "\U0001f600", "\uffff", None]),
    ("binary", [b"", b"\x00", b"\x00\x00", b"\x00\x01", b"\x7f", b"\x80", b"\xff", None]),
    ("decimal(38,2)", ["-9.99", "-0.01", "0.00", "0.01", "99999999999999999999.00", None]),
    ("array<int>", [[], [1], [1, 2], [None], [None, 1], [1, None], [2], [-1], None]),
    (
        "struct<a:int,b:array<string>>",
        [{"a": 1, "b": ["x"]}, {"a": 1, "b": []}, {"a": None, "b": ["z"]}, {"a": 1}, None],
    ),
]


@pytest.mark.parametrize(("ddl", "values"), ORDERED, ids=[ddl for ddl, _ in ORDERED])
def test_keys_are_ordered_as_spark_orders(spark: SparkSession, ddl: str, values: list[Any]) -> None:
    """Keys sort by their bytes as Spark's ORDER BY sorts values, in each of its four forms."""
    data_type = parse_type(ddl)
    if isinstance(data_type, t.Decimal):
        values = [value and Decimal(value) for value in values]
    column = pa.array(values, arrow_type(data_type))
    rows = spark.createDataFrame(pa.table({"c": column, "row": pa.array(range(len(values)))}))
    ranks = rows.selectExpr(
        "row",
        "dense_rank() over (order by c asc nulls first)",
        "dense_rank() over (order by c asc nulls last)",
        "dense_rank() over (order by c desc nulls first)",
        "dense_rank() over (order by c desc nulls last)",
    ).sort("row")

    theirs = list(zip(*[tuple(row)[1:] for row in ranks.collect()], strict=True))

    assert theirs == [
        key_ranks(data_type, column, KeyColumn(1, descending, nulls_first))
        for descending in (False, True)
        for nulls_first in (True, False)
    ]


def key_ranks(data_type: t.DataType, column: pa.Array, order: KeyColumn) -> tuple[int, ...]:
    """Return the dense rank of every value by its key."""
    keys = KeyCodec([data_type], [order]).encode([column]).to_pylist()
    distinct = sorted(set(keys))
    return tuple(distinct.index(key) + 1 for key in keys)
