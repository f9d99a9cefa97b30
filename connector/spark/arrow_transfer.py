"""Rows in Arrow between this process and the JVM of a session of the classic Spark.

PySpark's own functions for it are private, and change from one version to the next.

Promises: a connection to the JVM is closed with the block that uses it.
Does not know: what the rows are for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from py4j.java_gateway import JavaClass
from pyspark.serializers import NoOpSerializer
from pyspark.sql import SparkSession
from pyspark.sql import types as s
from pyspark.sql.pandas.serializers import ArrowStreamSerializer
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.util import local_connect_and_auth

from .capabilities import CHECKPOINTED_INPUT, ZONED_ARROW_SCHEMA
from .received import received
from .version import pyspark_version

ARROW_CONVERTERS = "org.apache.spark.sql.execution.arrow.ArrowConverters"
_MESSAGES = f"{ARROW_CONVERTERS}$ArrowBatchWithSchemaIterator"


def utc_arrow_schema(schema: s.StructType) -> pa.Schema:
    """Return the schema in which Spark takes, and hands over, rows in Arrow with times in UTC."""
    if ZONED_ARROW_SCHEMA.is_in(pyspark_version()):
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)  # in UTC always


class ArrowMessages:
    """Makes messages of rows of the JVM, and receives them, in one session."""

    def __init__(self, session: SparkSession) -> None:
        jvm: Any = session._jvm
        # Each name that is looked up in the JVM is a call.
        self._make = JavaClass(_MESSAGES, jvm._gateway_client)
        self._serve = jvm.PythonRDD.serveIterator

    def of(self, rows: Any, row_type: Any) -> Any:
        """Return the JVM's iterator over one message with all rows of a type, times in UTC."""
        return self._make(rows, row_type, 0, 0, "UTC", True, False, None)

    def receive(self, messages: Any, description: str) -> tuple[list[pa.RecordBatch], Any]:
        """Return the batches of the JVM's iterator, and what raises an error that ended it."""
        # By a socket, as `collect` does it: py4j decodes bytes one by one.
        served = self._serve(messages, description)
        with _streams(served) as streams:
            batches = [batch for stream in streams for batch in pa.ipc.open_stream(stream)]
        return list(received(batches)), served[2].getResult


@contextmanager
def _streams(served: Any) -> Iterator[Iterator[bytes]]:
    """Yield what the JVM serves by a socket, one value of bytes after the other."""
    file, connection = local_connect_and_auth(served[0], served[1])
    try:
        connection.settimeout(None)  # nobody knows how long the JVM computes
        serializer: Any = NoOpSerializer()  # its methods carry no types
        yield serializer.load_stream(file)
    finally:
        file.close()
        connection.close()


def send_batches(session: SparkSession, batches: Sequence[pa.RecordBatch]) -> Any:
    """Return batches of one schema as the JVM's messages, of which it makes a relation."""
    own: Any = session
    return own._sc._serialize_to_jvm(
        batches,
        ArrowStreamSerializer(),
        own._jvm.PythonSQLUtils.readArrowStreamFromFile,
        own._jvm.ArrowIteratorServer,
    )


def relation_like(session: SparkSession, relation: Any, statistics: Any) -> Any:
    """Return a relation of the JVM's with the rows of another one, in this session.

    ``relation``: one over an RDD. ``statistics``: Spark's, or none, as its option.
    """
    own: Any = session
    stream = nothing = relation.stream()
    is_of_checkpoint = (False,) if CHECKPOINTED_INPUT.is_in(pyspark_version()) else ()
    return own._jvm.org.apache.spark.sql.execution.LogicalRDD(
        *(relation.output(), relation.rdd()),
        *(relation.outputPartitioning(), relation.outputOrdering(), False, stream),
        *(own._jsparkSession, statistics, nothing, *is_of_checkpoint),
    )
