"""The laws of every type of Spark SQL on its way through Spark into a table and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import types as s

from relstate.connector.sql import Database
from relstate.connector.types import check_readable, has_variant
from relstate.storage import Store
from relstate.storage.errors import SchemaMismatchError, UnsupportedTypeError
from support.spark import load, save, schema_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Each type and values of it in Spark's SQL; a NULL is added to all.
KEYS = {
    "BOOLEAN": "true, false",
    "TINYINT": "-128, 0, 127",
    "SMALLINT": "-32768, 32767",
    "INT": "-2147483648, 2147483647",
    "BIGINT": "-9223372036854775808, 0, 9223372036854775807",
    "FLOAT": "float('-inf'), -1.5F, 0F, float('nan')",
    "DOUBLE": "double('-inf'), 4.9E-324D, double('inf'), double('nan')",
    "DECIMAL(9,2)": "-9999999.99BD, 0.01BD",
    "DECIMAL(38,10)": "-9999999999999999999999999999.9999999999BD, 0.0000000001BD",
    "STRING": "'', 'a', 'ünïcödé', 'a\\0b', repeat('x', 600)",
    "BINARY": "X'', X'00', X'00FF01'",
    "DATE": "DATE'0001-01-01', DATE'1969-12-31', DATE'9999-12-31'",
    "TIMESTAMP": "TIMESTAMP'1900-01-01 00:00:00.000001', TIMESTAMP'2024-03-10 02:30:00'",
    "TIMESTAMP_NTZ": "TIMESTAMP_NTZ'0001-01-01 00:00:00', TIMESTAMP_NTZ'2024-03-10 02:30:00'",
    "TIME(6)": "TIME'00:00:00', TIME'23:59:59.999999'",
    "INTERVAL DAY TO SECOND": "INTERVAL '-1 02:03:04.000005' DAY TO SECOND, INTERVAL '9' DAY",
    "STRUCT<a: INT, b: STRING>": "named_struct('a', 1, 'b', 'x'), named_struct('a', NULL, 'b', '')",
    "ARRAY<INT>": "array(), array(1, NULL, 3)",
}
VALUES = KEYS | {
    "VARIANT": "parse_json('{\"a\": [1, null]}'), parse_json('null')",
    "VOID": "NULL",
    "MAP<STRING, INT>": "map('a', 1, 'b', NULL), CAST(map() AS MAP<STRING, INT>)",
    "ARRAY<ARRAY<STRING>>": "array(array('a', NULL), NULL, array())",
    "ARRAY<STRUCT<t: TIMESTAMP, d: DECIMAL(20,3)>>": (
        "array(named_struct('t', TIMESTAMP'2024-01-01 00:00:00', 'd', 1.5BD), NULL)"
    ),
    "STRUCT<a: STRUCT<b: ARRAY<BINARY>>, m: MAP<INT, DATE>>": (
        "named_struct('a', named_struct('b', array(X'00', NULL)), 'm', map(1, DATE'2024-01-01')), "
        "named_struct('a', NULL, 'm', NULL)"
    ),
    "MAP<STRUCT<x: INT>, ARRAY<VARIANT>>": "map(named_struct('x', 1), array(parse_json('1')))",
}


def columns_of(values: dict[str, str], missing: str) -> str:
    """Return, in Spark's SQL, a column for each type: value number ``id`` of its list."""
    return ", ".join(
        f"get(CAST(array({listed}{missing}) AS ARRAY<{data_type}>), "
        f"id % size(array({listed}{missing}))) AS c{index}"
        for index, (data_type, listed) in enumerate(values.items())
    )


def definition(values: dict[str, str]) -> str:
    """Return the columns that `columns_of` makes, in DDL."""
    return ", ".join(f"c{index} {data_type}" for index, data_type in enumerate(values))


def rows_of(frame: DataFrame) -> list[str]:
    """Return the rows as text by id, in which NaN and variants equal themselves."""
    return [repr(row) for row in frame.orderBy("id").collect()]


@pytest.fixture(autouse=True)
def times(spark: SparkSession) -> Iterator[None]:
    """Set the setting without which Spark does not take the type TIME."""
    spark.conf.set("spark.sql.timeType.enabled", "true")
    yield
    spark.conf.unset("spark.sql.timeType.enabled")


@pytest.fixture(params=["UTC", "America/New_York"])
def zone(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """The time zone of the session."""
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield request.param
    spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_every_value_comes_back_as_it_was(
    spark: SparkSession, store: Store, db: Database, zone: str
) -> None:
    """All types side by side, nested and NULL, whatever the session's time zone."""
    db.sql(f"CREATE TABLE t (id INT PRIMARY KEY, {definition(VALUES)})")
    written = spark.sql(f"SELECT INT(id) AS id, {columns_of(VALUES, ', NULL')} FROM range(7)")
    save(written, store, "t")

    read = load(spark, store, "t", numPartitions=2)

    assert rows_of(read) == rows_of(written)


def test_every_key_comes_back_as_it_was(spark: SparkSession, store: Store, db: Database) -> None:
    """All key types in one key, some of it beyond LMDB's 511 bytes."""
    names = ", ".join(f"c{index}" for index in range(len(KEYS)))
    db.sql(f"CREATE TABLE t (id INT, {definition(KEYS)}, PRIMARY KEY ({names}, id))")
    written = spark.sql(f"SELECT INT(id) AS id, {columns_of(KEYS, '')} FROM range(7)")
    save(written, store, "t")
    save(written, store, "t")

    assert rows_of(load(spark, store, "t")) == rows_of(written)


def test_a_table_has_the_schema_it_was_given(db: Database) -> None:
    """Spark sees the types of the DDL, with NOT NULL inside them."""
    db.sql(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, s STRUCT<a: INT NOT NULL, b: STRING>, "
        "c STRING COLLATE UNICODE_CI, v VARCHAR(3))"
    )

    assert db.table("t").schema.toDDL() == (
        "id BIGINT NOT NULL,s STRUCT<a: INT NOT NULL, b: STRING>,"
        "c STRING COLLATE UNICODE_CI,v STRING"
    )


@pytest.mark.parametrize("data_type", ["INTERVAL YEAR TO MONTH", "INTERVAL"])
def test_what_spark_cannot_hand_over_is_refused(db: Database, data_type: str) -> None:
    """A column that could never be read is not created."""
    with pytest.raises(UnsupportedTypeError, match="cannot be stored"):
        db.sql(f"CREATE TABLE t (id BIGINT PRIMARY KEY, c {data_type})")


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        ("ARRAY<INT>", "ARRAY<INT>"),
        ("STRUCT<a: INT NOT NULL>", "STRUCT<a: INT>"),
        ("ARRAY<STRUCT<a: INT NOT NULL>>", "ARRAY<STRUCT<a: INT>>"),
    ],
)
def test_a_schema_may_forget_what_is_not_null(
    spark: SparkSession, store: Store, db: Database, narrow: str, wide: str
) -> None:
    """Such a read has Spark's own Arrow types; NOT NULL over a nullable column is refused."""
    db.sql(f"CREATE TABLE narrow (id INT PRIMARY KEY, c {narrow})")
    db.sql(f"CREATE TABLE wide (id INT PRIMARY KEY, c {wide})")
    value = f"from_json('{VALUE_OF[narrow[:5]]}', '{wide}')"
    save(spark.sql(f"SELECT 1 AS id, {value} AS c"), store, "narrow")
    reader = spark.read.format("relstate").schema(f"id INT, c {wide}").option("table", "narrow")

    read = reader.load(store.path)

    assert read.schema.toDDL() == f"id INT,c {wide}"
    assert len(read.collect()) == 1
    if narrow != wide:
        with pytest.raises(SchemaMismatchError, match="the column 'c'"):
            check_readable(store.table("wide").schema, schema_of(f"c {narrow}"))


VALUE_OF = {"ARRAY": '[{"a": 1}]', "STRUC": '{"a": 1}'}


def test_a_variant_is_found_by_type_not_by_name() -> None:
    """Inside any value; a field that is called so is none."""
    variant = s.VariantType()
    with_variant = (
        variant,
        s.ArrayType(variant),
        s.MapType(s.StringType(), s.ArrayType(variant)),
        s.StructType([s.StructField("a", s.StructType([s.StructField("b", variant)]))]),
    )
    named = s.StructType([s.StructField("variant", s.StringType())])

    assert all(map(has_variant, with_variant))
    assert not has_variant(named)
    assert not has_variant(s.MapType(s.StringType(), s.ArrayType(named)))
