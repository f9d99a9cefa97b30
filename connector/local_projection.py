"""Spark's compiled projections over Arrow rows in the driver's process, without a job.

Only the columns that a projection reads go to the JVM, only its values come back, and both are
Arrow, by the converters that also serve Spark's Python tasks. So values are the same as in a job.

Does not know: how expressions are analysed, or what the values are for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from py4j.java_gateway import JavaClass
from pyspark.sql import SparkSession

from .spark.arrow_transfer import ARROW_CONVERTERS, ArrowMessages

_SHARING = "spark.sql.subexpressionElimination.enabled"
_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"


class IncompleteError(Exception):
    """Spark returned fewer values than it got rows."""


class LocalProjection:
    """Runs projections in one session of the classic Spark.

    A projection of Spark has one row in memory, which it returns each time: each is run by one
    thread at a time.
    """

    def __init__(self, session: SparkSession) -> None:
        jvm: Any = session._jvm
        self._session = session
        # Each name that is looked up in the JVM is a call.
        self._sessions = SparkSession._get_j_spark_session_class(jvm)
        client = jvm._gateway_client
        self._converters = scala_object(ARROW_CONVERTERS, client)
        self._iterators = scala_object("scala.collection.Iterator", client)
        self._projections = scala_object(f"{_EXPRESSIONS}.UnsafeProjection", client)
        self._messages = ArrowMessages(session)

    def activate(self) -> None:
        """Make the session the active one of this thread: its settings hold for what follows."""
        self._sessions.setActiveSession(self._session._jsparkSession)

    def create(self, expressions: Any, inputs: Any) -> Any:
        """Return a compiled projection of Spark's expressions over rows of Spark's attributes."""
        # All classes that Spark compiles have one name, by which py4j looks methods up. So none of
        # a projection is called, not even `initialize`, which only random values need.
        return self._projections.create(expressions, inputs)

    def create_catching(self, expressions: Any, inputs: Any) -> Any:
        """Return `create`'s projection, in which an expression that fails is NULL, by itself."""
        # Spark would evaluate what several expressions share before any of them.
        shares = self._session.conf.get(_SHARING)
        self._session.conf.set(_SHARING, "false")
        try:
            jvm: Any = self._session._jvm
            try_eval = getattr(jvm, f"{_EXPRESSIONS}.TryEval")
            caught = [
                try_eval(expressions.apply(number).child()) for number in range(expressions.size())
            ]
            return self.create(jvm.PythonUtils.toSeq(caught), inputs)
        finally:
            self._session.conf.set(_SHARING, str(shares))

    def values(
        self, rows: pa.RecordBatch, input_type: Any, projections: Iterable[Any], output_type: Any
    ) -> list[pa.RecordBatch]:
        """Return what projections, the innermost first, make of rows; times are in UTC.

        The types are Spark's, of the rows and of the values. Py4JError or PySparkException if a row
        fails; IncompleteError if values are missing.
        """
        message = self._iterators.single(rows.serialize().to_pybytes())
        # Times are in UTC, whatever the session's time zone is.
        received = self._converters.fromBatchIterator(message, input_type, "UTC", True, False, None)
        values = received
        for projection in projections:
            values = values.map(projection)
        messages = self._messages.of(values, output_type)
        try:
            return self._receive(messages, rows.num_rows)
        except Exception:
            _release(received, messages)
            raise

    def _receive(self, messages: Any, count: int) -> list[pa.RecordBatch]:
        """Return the rows of the JVM's iterator of Arrow streams, ``count`` rows in all.

        IncompleteError if there are fewer: evaluated while they are sent, one of them has failed.
        """
        batches, raise_error = self._messages.receive(messages, "relstate values")
        returned = sum(batch.num_rows for batch in batches)
        if returned != count:
            raise_error()
            raise IncompleteError(f"Spark returned {returned} of {count} rows")
        return batches


def _release(rows: Any, messages: Any) -> None:
    """Free the memory of Spark's iterators, which do that themselves only after the last row."""
    messages.close()
    resources = rows.resources()
    for number in reversed(range(resources.size())):
        resources.apply(number).close()
    rows.allocator().close()


def scala_object(name: str, client: Any) -> Any:
    """Return the object of this name in the JVM."""
    return getattr(JavaClass(f"{name}$", client), "MODULE$")
