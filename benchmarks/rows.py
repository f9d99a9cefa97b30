"""The rows that are written and read: a long key, a long, a double, a timestamp, 13 characters.

The keys of n rows are n distinct numbers of which neighbours are far apart. The same rows come as
Arrow batches and as a frame of Spark's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = "k BIGINT NOT NULL, a BIGINT, d DOUBLE, ts TIMESTAMP, s STRING"
WIDE_COLUMNS = "k BIGINT NOT NULL, s STRING"
PRIMARY_KEY = ("k",)
SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        pa.field("a", pa.int64()),
        pa.field("d", pa.float64()),
        pa.field("ts", pa.timestamp("us", tz="UTC")),
        pa.field("s", pa.string()),
    ]
)
TEXT_BYTES = 13
# What Spark puts into a batch by default.
BATCH_ROWS = 10_000

# Multiplying by a number modulo a prime changes the order and gives no number twice.
_PRIME = 2**31 - 1
_FACTOR = 1_103_515_245
_WIDE_BATCH_BYTES = 8 << 20
_FIRST_TIME = 1_700_000_000_000_000
_LEAST_TEXT = 10**12


def keys_of(indices: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the keys of the rows with these indices, each below 2**31 - 1."""
    keys: NDArray[np.int64] = indices * _FACTOR % _PRIME
    return keys


def batches(rows: range) -> Iterator[pa.RecordBatch]:
    """Yield the rows with these indices."""
    for start in range(rows.start, rows.stop, BATCH_ROWS):
        yield batch(np.arange(start, min(start + BATCH_ROWS, rows.stop), dtype=np.int64))


def wide_batches(rows: range, width: int) -> Iterator[pa.RecordBatch]:
    """Yield the keys of the rows, each with a string of ``width`` bytes or a few less."""
    step = max(_WIDE_BATCH_BYTES // width, 1)
    for start in range(rows.start, rows.stop, step):
        indices = np.arange(start, min(start + step, rows.stop), dtype=np.int64)
        texts = pc.binary_repeat(batch(indices).column("s"), width // TEXT_BYTES)
        yield pa.record_batch({"k": keys_of(indices), "s": texts})


def table(rows: range) -> pa.Table:
    """Return the rows with these indices."""
    return pa.Table.from_batches(batches(rows), SCHEMA)


def frame(spark: SparkSession, rows: int) -> DataFrame:
    """Return the first rows as a frame in eight partitions, cheap for Spark to make."""
    return spark.range(0, rows, 1, 8).selectExpr(
        f"id * {_FACTOR} % {_PRIME} AS k",
        "id AS a",
        "CAST(id AS DOUBLE) AS d",
        f"timestamp_micros({_FIRST_TIME} + id * 1000) AS ts",
        f"CAST({_LEAST_TEXT} + id AS STRING) AS s",
    )


def wide_frame(spark: SparkSession, rows: int, width: int) -> DataFrame:
    """Return the rows of `wide_batches` as a frame in eight partitions."""
    return frame(spark, rows).selectExpr("k", f"repeat(s, {width // TEXT_BYTES}) AS s")


def batch(indices: NDArray[np.int64]) -> pa.RecordBatch:
    """Return the rows with these indices."""
    return pa.RecordBatch.from_arrays(
        [
            pa.array(keys_of(indices)),
            pa.array(indices),
            pa.array(indices.astype(np.float64)),
            pa.array(_FIRST_TIME + indices * 1000).cast(SCHEMA.field("ts").type),
            pa.array(indices + _LEAST_TEXT).cast(pa.string()),
        ],
        schema=SCHEMA,
    )
