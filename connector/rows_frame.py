"""DataFrames of Arrow rows that the driver has.

Spark makes a relation of its own rows of them, over which it evaluates projections and filters
without a job. Of many rows, to make these and to hand them to tasks takes several times as long as
what the tasks do with them. So many rows remain Arrow, which the tasks decode.

Spark itself does so beyond a size that is a setting of the session. The setting is not changed
here: another session of the same Spark, which has no other use, makes the relation.

Promises: values, types and the estimated size are the same either way.
Does not know: what the rows are for.
"""

from __future__ import annotations

from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as s
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.dataframe import DataFrame

from .spark.arrow_transfer import relation_like, send_batches, utc_arrow_schema

MOST_ROWS_OF_SPARK = 8_192
"""Rows up to which Spark holds its own."""
_PARTITION_BYTES = 16 << 20
# The name of the RDD; the number of rows follows.
_NAME = "relstate rows "
_SIZE = "spark.sql.defaultSizeInBytes"
_SETTINGS = {
    "spark.sql.execution.arrow.localRelationThreshold": "0",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
}
_makers: WeakKeyDictionary[SparkSession, Any] = WeakKeyDictionary()
_lock = Lock()


def frame_of_rows(
    spark: SparkSession, rows: pa.Table, schema: s.StructType, partitions: int
) -> DataFrame:
    """Return a frame of some rows, of so many partitions, or more if they are large.

    A frame of one partition always has one. Of several, few rows have as many as Spark makes;
    it projects and filters them without a job.
    """
    is_classic = getattr(spark, "_sc", None) is not None
    if not is_classic or rows.num_rows <= MOST_ROWS_OF_SPARK:
        frame = spark.createDataFrame(rows, schema)
        return frame.coalesce(1) if partitions == 1 else frame
    pieces = max(partitions, -(-rows.nbytes // _PARTITION_BYTES))
    relation = _relation(spark, rows, schema, pieces)
    session: Any = spark
    datasets = session._jvm.org.apache.spark.sql.classic.Dataset
    frame = ClassicDataFrame(datasets.ofRows(session._jsparkSession, relation), spark)
    return frame.coalesce(1) if partitions == 1 and pieces > 1 else frame


def known_count(plan: Any) -> int | None:
    """Return how many rows a plan of the JVM's has if it is made here; else None."""
    name: str | None = plan.rdd().name() if plan.nodeName() == "LogicalRDD" else None
    if name is None or not name.startswith(_NAME):
        return None
    return int(name.removeprefix(_NAME))


def _relation(spark: SparkSession, rows: pa.Table, schema: s.StructType, pieces: int) -> Any:
    """Return a relation of the JVM's whose partitions are rows in Arrow."""
    session: Any = spark
    jvm = session._jvm
    rows = rows.cast(utc_arrow_schema(schema)).combine_chunks()
    batches = rows.to_batches(max_chunksize=-(-rows.num_rows // pieces))
    messages = send_batches(spark, batches)
    with _lock:
        maker = _maker(spark)
        frame = jvm.PythonSQLUtils.toDataFrame(messages, schema.json(), maker)
        relation = frame.queryExecution().logical()
        # It takes its size from the session that makes it.
        maker.conf().set(_SIZE, str(rows.nbytes))
        statistics = jvm.scala.Option.apply(relation.stats())
    relation.rdd().setName(f"{_NAME}{rows.num_rows}")
    return relation_like(spark, relation, statistics)


def _maker(spark: SparkSession) -> Any:
    """Return the session of the JVM's that makes relations in Arrow for another session."""
    if spark not in _makers:
        session: Any = spark
        maker = session._jsparkSession.newSession()
        for name, value in _SETTINGS.items():
            maker.conf().set(name, value)
        _makers[spark] = maker
    return _makers[spark]
