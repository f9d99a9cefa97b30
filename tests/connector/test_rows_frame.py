"""The laws of frames of the driver's rows: in Arrow they are what Spark makes of them."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from relstate.connector import rows_frame
from relstate.connector.local_rows import has_many_rows, known_rows
from relstate.connector.rows_frame import frame_of_rows
from relstate.connector.types import struct_of
from relstate.storage import types as t
from relstate.storage.schema.arrow import arrow_schema
from support.spark import configured

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIELDS = [
    t.Field("k", t.BigInt(), nullable=False), t.Field("s", t.String()), t.Field("b", t.Binary()),
    t.Field("n", t.Decimal(22, 2)), t.Field("d", t.Double()), t.Field("ts", t.Timestamp()),
    t.Field("z", t.TimestampNtz()), t.Field("dt", t.Date()), t.Field("bo", t.Boolean()),
]  # fmt: skip
ROWS = 20


def table() -> pa.Table:
    """Return rows of many types, some NULL."""
    columns: list[list[object]] = [
        list(range(ROWS)), [None, "é"], [b"\0", None], [Decimal("-1.25"), None],
        [float("nan"), -0.0], [0, None], [None, 10**15], [None, 7], [True, None],
    ]  # fmt: skip
    schema = arrow_schema(FIELDS)
    arrays = [
        pa.array((column * ROWS)[:ROWS], pa.int32() if field.type == pa.date32() else None).cast(
            field.type
        )
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


@pytest.fixture
def in_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no rows be so few that Spark holds its own."""
    monkeypatch.setattr(rows_frame, "MOST_ROWS_OF_SPARK", -1)


@pytest.mark.usefixtures("in_arrow")
@pytest.mark.parametrize(("partitions", "is_large"), [(1, False), (1, True), (3, False)])
def test_rows_in_arrow_are_those_of_spark(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, partitions: int, is_large: bool
) -> None:
    """Whatever the settings of the session, which stay, and in as many partitions as asked for."""
    monkeypatch.setattr(rows_frame, "_PARTITION_BYTES", 100 if is_large else 1 << 20)
    settings = {
        "spark.sql.session.timeZone": "Asia/Kathmandu",
        "spark.sql.execution.arrow.useLargeVarTypes": "true",
    }
    with configured(spark, settings):
        before = spark.conf.getAll
        expected = spark.createDataFrame(table(), struct_of(FIELDS))
        frame = frame_of_rows(spark, table(), struct_of(FIELDS), partitions)

        assert frame.schema == expected.schema
        assert str(sorted(frame.collect())) == str(sorted(expected.collect()))
        assert frame.rdd.getNumPartitions() == partitions
        assert spark.conf.getAll == before
        twice = frame.join(frame.withColumnRenamed("s", "s2"), "k")
        assert twice.count() == ROWS


@pytest.mark.usefixtures("in_arrow")
def test_spark_knows_the_size_of_rows_in_arrow(spark: SparkSession) -> None:
    """It broadcasts few bytes, and the driver takes few rows without a task in Python."""
    frame = frame_of_rows(spark, table(), struct_of(FIELDS), 2)
    grouped = frame.groupBy("s").count()
    other = spark.range(5)

    plan = other.join(grouped, other["id"] == grouped["count"])._jdf.queryExecution()
    assert "BroadcastHashJoin" in plan.sparkPlan().toString()
    batches = known_rows(grouped)
    assert batches is not None
    assert sorted(pa.Table.from_batches(batches)["c1"].to_pylist()) == [ROWS // 2] * 2
    assert known_rows(frame, ROWS - 1) is None
    assert has_many_rows(frame, ROWS - 1)
    assert not has_many_rows(grouped, ROWS)
