"""Rows in the driver's process, and their evaluation by Spark without a job.

A DataFrame of local rows is a LocalRelation. Spark's optimizer evaluates projections and filters
over one itself, so the plan of the result is a LocalTableScan, whose rows are in the driver's JVM.
Rows go there and come back as Arrow, by the converters that also serve Spark's Python tasks:
values are the same as in a job.

Promises: no job and no Python worker, however many rows there are.
Does not know: executors, plans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa
from py4j.java_gateway import JavaClass
from pyspark.serializers import NoOpSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.util import _load_from_socket

from relstate.connector.types import struct_of
from relstate.storage import OP_COLUMN, types

from .executor.changes import SelectStep, Step, chunk_schema, empty_chunk
from .plan.stateless import Output
from .wire import in_schema

Evaluation: TypeAlias = Callable[[DataFrame], DataFrame]
"""A projection or a filter."""

_ARROW_STREAMS = "org.apache.spark.sql.execution.arrow.ArrowConverters$ArrowBatchWithSchemaIterator"
_OP = types.Field(OP_COLUMN, types.TinyInt())


@dataclass(frozen=True, slots=True)
class LocalRows:
    """A chunk of changes, and what Spark is to evaluate over it.

    ``source``: the fields of the chunk; ``fields``: those of the result. Evaluations are collected,
    so that Spark is asked once for all between two executors.
    """

    chunk: pa.RecordBatch
    source: tuple[types.Field, ...]
    fields: tuple[types.Field, ...]
    evaluations: tuple[Evaluation, ...] = ()

    @classmethod
    def of(cls, chunk: pa.RecordBatch, fields: tuple[types.Field, ...]) -> LocalRows:
        """Return the changes of a chunk with some fields."""
        return cls(chunk, fields, fields)

    def after(self, step: Step) -> LocalRows:
        """Return the rows after a step, which runs now. Evaluations must be done."""
        assert not self.evaluations
        return LocalRows.of(step.run(self.chunk), step.fields)

    def filtered(self, condition: str) -> LocalRows:
        """Return the rows for which a condition, in Spark's SQL, is true."""
        return self._with(lambda frame: frame.where(condition), self.fields)

    def projected(self, outputs: Sequence[Output]) -> LocalRows:
        """Return the columns of a projection."""
        fields = tuple(output.field for output in outputs)
        sources = [output.source for output in outputs if output.source is not None]
        if not self.evaluations and len(sources) == len(outputs):
            return self.after(SelectStep(tuple(sources), fields))
        columns = [f"{o.expression} AS {types.quoted(o.field.name)}" for o in outputs]
        return self._with(lambda frame: frame.selectExpr(OP_COLUMN, *columns), fields)

    def evaluated(self, session: SparkSession) -> pa.RecordBatch:
        """Return the chunk after all evaluations, in a session of the classic Spark.

        What expressions raise is raised as Spark's exceptions.
        """
        if not self.evaluations:
            return self.chunk
        if not self.chunk.num_rows:
            return empty_chunk(chunk_schema(self.fields))
        frame = local_frame(session, self.chunk, self.source)
        for evaluation in self.evaluations:
            frame = evaluation(frame)
        return collect_local(frame, chunk_schema(self.fields))

    def _with(self, evaluation: Evaluation, fields: tuple[types.Field, ...]) -> LocalRows:
        return replace(self, fields=fields, evaluations=(*self.evaluations, evaluation))


def local_frame(
    session: SparkSession, chunk: pa.RecordBatch, fields: Sequence[types.Field]
) -> DataFrame:
    """Return a chunk as a frame of local rows; ``fields``: those of the chunk besides the op."""
    jvm: Any = session._jvm
    batches = jvm.java.util.ArrayList()
    batches.add(chunk.serialize().to_pybytes())
    schema = struct_of((_OP, *fields)).json()
    messages = jvm.PythonUtils.toSeq(batches).iterator()
    return DataFrame(
        jvm.PythonSQLUtils.toDataFrame(messages, schema, session._jsparkSession), session
    )


def collect_local(frame: DataFrame, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows of a frame under an Arrow schema.

    Where Spark cannot evaluate the frame without a job, it runs one.
    """
    plan = frame._jdf.queryExecution().executedPlan()
    if plan.getClass().getSimpleName() == "LocalTableScanExec":
        batches = read_rows(frame.sparkSession, plan)
    else:
        batches = frame.toArrow().to_batches()
    parts = (in_schema(batch, schema) for batch in batches)
    return pa.concat_batches([empty_chunk(schema), *parts])


def read_rows(session: SparkSession, plan: Any) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a LocalTableScan, which its JVM sends as Arrow streams.

    Py4JError, when all that came has been yielded, if the JVM could not send all of them.
    """
    jvm: Any = session._jvm
    make_streams = JavaClass(_ARROW_STREAMS, jvm._gateway_client)
    # All rows in one stream; times are in UTC, whatever the session's time zone is.
    streams = make_streams(plan.rows().iterator(), plan.schema(), 0, 0, "UTC", True, False, None)
    # A socket, as `collect` uses one: py4j copies bytes one by one.
    socket = jvm.PythonRDD.serveIterator(streams, "relstate rows")
    with _load_from_socket(socket, NoOpSerializer()) as messages:
        for message in messages:
            yield from pa.ipc.open_stream(message)
    # What ends early looks like an end: only the JVM knows.
    socket[2].getResult()
