"""Expressions are Spark's: values to the bit, types, nullability, and which rows raise an error.

One query per test computes all expressions. What raises an error for a row has no value there.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import Column
from pyspark.sql.types import ArrayType

from relstate.storage import Value, errors
from relstate.storage.expression.binding import parse_value
from relstate.storage.expression.expression_json import value_from_json, value_to_json
from support.examples import Seeds
from support.scalar_expressions import SCHEMA, expressions, random_expression, random_rows
from support.spark import interpreted
from support.versions import CHECKED_TRUNCATION, has

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

ROWS = 150


def values_of(texts: Sequence[str], time_zone: str) -> dict[str, Value]:
    """Return the values of the expressions that are computed here, as tasks receive them."""
    values: dict[str, Value] = {}
    for text in texts:
        try:
            value = parse_value(text, SCHEMA, time_zone)
        except errors.UnsupportedExpressionError:
            continue
        values[text] = value_from_json(value_to_json(value), SCHEMA)
        assert values[text] == value
    return values


@contextmanager
def separate_expressions(spark: SparkSession, time_zone: str) -> Iterator[None]:
    """Let Spark compute each expression by itself, in a time zone."""
    settings = {
        "spark.sql.subexpressionElimination.enabled": "false",
        "spark.sql.alwaysInlineCommonExpr": "true",
        "spark.sql.session.timeZone": time_zone,
    }
    before = {name: str(spark.conf.get(name)) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        with interpreted(spark):
            yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def attempt(spark: SparkSession, text: str) -> Column:
    """Return an array of the value of an expression; NULL where it raises an error."""
    jvm: Any = spark._jvm
    sql: Any = jvm.org.apache.spark.sql
    array = sql.classic.ExpressionUtils.expression(sql.functions.expr(f"array({text})"))
    return Column(sql.classic.ExpressionUtils.column(sql.catalyst.expressions.TryEval(array)))


def results_of_spark(
    spark: SparkSession, rows: pa.RecordBatch, texts: Sequence[str]
) -> tuple[pa.Table, StructType]:
    """Return an array of each expression for each row, or NULL, and the types to Spark."""
    frame = spark.createDataFrame(pa.Table.from_batches([rows]), SCHEMA_DDL).coalesce(1)
    tried = [attempt(spark, text).alias(f"c{n}") for n, text in enumerate(texts)]
    result = frame.select(*tried)
    return result.toArrow(), result.schema


SCHEMA_DDL = ", ".join(
    f"{column.name} {column.type}{'' if column.nullable else ' NOT NULL'}"
    for column in SCHEMA.columns
)


def plain(values: pa.Array) -> list[Any]:
    """Return values that compare as their bits: NaN with itself, -0.0 not with 0.0."""
    if pa.types.is_date(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    return [
        ("NaN" if math.isnan(value) else (value, math.copysign(1, value)))
        if isinstance(value, float)
        else value
        for value in values.to_pylist()
    ]


# Of the least timestamp an older Spark returns a great one.
_UNCHECKED_TRUNCATIONS = "date_trunc('second'", "date_trunc('millisecond'"


def differences(spark: SparkSession, rows: pa.RecordBatch, values: dict[str, Value]) -> list[str]:
    """Return in what the values differ from those of Spark."""
    table, schema = results_of_spark(spark, rows, list(values))
    result = []
    for (text, value), column, field in zip(
        values.items(), table.columns, schema.fields, strict=True
    ):
        arrays = pa.concat_arrays(column.chunks)
        computed, failures = value.computed(rows)
        assert isinstance(field.dataType, ArrayType)
        data_type = field.dataType.elementType.simpleString().upper()
        if data_type != str(value.type).replace(", ", ","):
            result.append(f"{text}: {value.type}, of Spark {data_type}")
            continue
        if field.dataType.containsNull and not value.nullable:
            result.append(f"{text}: may be NULL to Spark")
        raised = (~arrays.is_valid().to_numpy(zero_copy_only=False)).tolist()
        elements = iter(plain(arrays.flatten()))
        expected = [None if raises else next(elements) for raises in raised]
        pairs = zip(plain(computed), failures != 0, expected, raised, strict=True)
        for number, (own, fails, of_spark, raises) in enumerate(pairs):
            if fails != raises or (not fails and own != of_spark):
                row = {name: plain(rows[name])[number] for name in set(value.columns())}
                result.append(
                    f"{text}: {'fails' if fails else repr(own)}, of Spark "
                    f"{'an error' if raises else repr(of_spark)}, for {row}"
                )
                break
        if bool((failures != 0).any()) and not value.may_fail:
            result.append(f"{text}: fails, though it may not")
    return result


@pytest.mark.parametrize("time_zone", ["UTC", "Europe/Berlin", "+05:30"])
def test_expressions_are_spark_s(spark: SparkSession, time_zone: str) -> None:
    """Each kind of expression; in a region all but those that need local times."""
    texts = [
        text
        for text in expressions()
        if has(CHECKED_TRUNCATION) or not text.startswith(_UNCHECKED_TRUNCATIONS)
    ]
    values = values_of(texts, time_zone)
    assert len(values) > (200 if time_zone == "Europe/Berlin" else 260)

    with separate_expressions(spark, time_zone):
        found = differences(spark, random_rows(random.Random(3), ROWS), values)

    assert not found, "\n".join(found)


def test_random_expressions_are_spark_s(spark: SparkSession, seeds: Seeds) -> None:
    """Compositions of expressions, of which parts may fail without being computed."""
    computed = 0
    with separate_expressions(spark, "UTC"):
        for start in range(0, len(seeds(600)), 200):
            numbers = seeds(600)[start : start + 200]
            texts = [random_expression(random.Random(seed)) for seed in numbers]
            values = values_of(texts, "UTC")
            found = differences(spark, random_rows(random.Random(start), ROWS), values)
            computed += len(values)

            assert not found, "\n".join(found)
    assert computed > len(seeds(600)) * 0.5
