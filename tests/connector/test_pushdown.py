"""Spark's own filter pushdown, for who asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import datasource as s

from relstate.connector.options import read_options
from relstate.connector.source.pushdown import condition_of, literal_of
from relstate.storage import Store

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[SparkSession]:
    """A session that hands filters to Python's sources."""
    spark.conf.set(PUSHDOWN, "true")
    yield spark
    spark.conf.unset(PUSHDOWN)


@pytest.fixture
def filled(spark: SparkSession, store: Store) -> Store:
    """A store with a table of many types."""
    columns = "k INT, t STRING, d DOUBLE, n DECIMAL(10,2), day DATE, at TIMESTAMP, b BOOLEAN"
    store.create_table("t", columns, primary_key=["k"])
    rows = spark.range(1000).selectExpr(
        "int(id) AS k", "IF(id % 7 = 0, NULL, concat('it''s_', id % 50, '%')) AS t",
        "IF(id = 5, double('NaN'), id / 4) AS d", "decimal(id / 8) AS n",
        "date_add(DATE '2026-01-01', int(id)) AS day",
        "timestamp_micros(id * 3600000000) AS at", "id % 2 = 0 AS b",
    )  # fmt: skip
    rows.write.format("relstate").option("table", "t").mode("append").save(store.path)
    return store


def loaded(spark: SparkSession, store: Store, **options: str) -> DataFrame:
    """Return the table, read with options."""
    return spark.read.format("relstate").options(table="t", **options).load(store.path)


@pytest.mark.parametrize(
    "condition",
    [
        "k = 7", "k IN (1, 5, 2000)", "k > 10 AND k <= 20", "k BETWEEN 3 AND 5 OR k = 900",
        "t = 'it\\'s_3%'", "t LIKE 'it\\'s_1%'", "t LIKE '%\\\\_4\\\\%'", "t LIKE '%s\\\\_2%'",
        "t IS NULL", "t IS NOT NULL AND NOT (k = 3)", "t <=> NULL", "d = 'NaN'", "d > 100.25",
        "n = 12.50", "day = DATE '2026-03-01'", "at >= TIMESTAMP '1970-01-03 00:00:00'", "b",
        "NOT b AND k < 9", "k + 1 = 4",
    ],
)  # fmt: skip
def test_filters_keep_what_spark_keeps(
    pushing: SparkSession, filled: Store, condition: str
) -> None:
    """Taken or left to Spark, alone and beside a condition of the read's own."""
    expected = {row.k for row in loaded(pushing, filled).where(condition).collect()}
    pushed = loaded(pushing, filled, pushdown="true").where(condition)
    assert {row.k for row in pushed.collect()} == expected

    both = loaded(pushing, filled, pushdown="true", where="k < 500").where(condition)
    assert {row.k for row in both.collect()} == {key for key in expected if key < 500}


def test_a_filter_on_the_key_leaves_few_partitions(pushing: SparkSession, filled: Store) -> None:
    """It prunes as the same condition given as an option does."""
    pushed = loaded(pushing, filled, pushdown="true", numPartitions="8").where("k = 7")
    whole = loaded(pushing, filled, numPartitions="8").where("k = 7")

    assert pushed.rdd.getNumPartitions() == 1
    assert whole.rdd.getNumPartitions() == 8


def test_without_the_option_nothing_is_pushed(pushing: SparkSession, filled: Store) -> None:
    """So a relation that is used twice answers rightly, whatever the session says."""
    table = loaded(pushing, filled)

    assert table.where("k = 1").union(table.where("k = 2")).count() == 2
    assert {row.k for row in table.where("k = 1").union(table.where("k = 2")).collect()} == {1, 2}


def test_spark_must_be_told_too(spark: SparkSession, filled: Store) -> None:
    """Its own error says which setting hands filters over."""
    with pytest.raises(PySparkException, match="filterPushdown"):
        loaded(spark, filled, pushdown="true").where("k = 1").collect()


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        (True, "TRUE"), (7, "7L"), (-7, "-7L"), (2**63, None), (Decimal("1.50"), "1.50BD"),
        (0.5, "0.5D"), (float("nan"), None), (float("inf"), None), ("a'b\\", "'a\\'b\\\\'"),
        (b"\x00\xff", "X'00ff'"), (date(2026, 1, 2), "DATE '2026-01-02'"),
        (datetime(2026, 1, 2, 3, tzinfo=UTC), "TIMESTAMP '2026-01-02 03:00:00+00:00'"),
        (datetime(2026, 1, 2, 3), "TIMESTAMP_NTZ '2026-01-02 03:00:00'"), ([1], None),
    ],
)  # fmt: skip
def test_values_become_literals(value: Any, literal: str | None) -> None:
    """Those without one leave their filter to Spark."""
    assert literal_of(value) == literal


def test_filters_become_conditions() -> None:
    """Names are quoted, fields are reached, patterns escaped; what has no form is left."""
    assert condition_of(s.EqualTo(("a b", "c"), 1)) == "`a b`.`c` = 1L"
    assert condition_of(s.Not(s.IsNull(("a",)))) == "NOT (`a` IS NULL)"
    assert condition_of(s.In(("a",), (1, None))) is None
    assert condition_of(s.StringContains(("a",), "5%")) == "`a` LIKE '%5\\\\%%'"
    assert read_options({"path": "/p", "table": "t", "pushdown": "true"}).pushdown
