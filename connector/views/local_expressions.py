"""Spark's evaluation of expressions over rows in the driver's process, without a job.

Spark analyses an expression once, over a frame of no rows, and compiles it as it does for a task.
After that an evaluation is a handful of calls to the JVM.

Does not know: plans, executors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from relstate.connector.failure import without_context_log
from relstate.connector.local_projection import IncompleteError, LocalProjection
from relstate.connector.types import struct_of
from relstate.storage import OP_COLUMN, arrow, types

from .bounds import FailedExpressionError, GivenUpError
from .executor.changes import Mask
from .general_reason import Reason, general_reason
from .plan.node import Expression
from .wire import in_schema

_Key: TypeAlias = tuple[tuple[types.Field, ...], tuple[Expression, ...], bool]

_OP = types.Field(OP_COLUMN, types.TinyInt())
# A view has a few; those of dropped views go with the others when there are so many.
_MOST_COMPILED = 1000


@dataclass(frozen=True, slots=True)
class _Compiled:
    """Expressions, ready to be evaluated.

    ``inputs``: the names of the columns that they read, in the order of ``input_type``; the op if
    they read none.
    ``projections``: Spark's, the innermost first. ``schema``: of the values.
    """

    inputs: tuple[str, ...]
    input_type: Any
    projections: tuple[Any, ...]
    output_type: Any
    schema: pa.Schema


class LocalEvaluator:
    """Evaluates expressions in one session of the classic Spark. Safe between threads."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._projection = LocalProjection(session)
        self._compiled: dict[_Key, _Compiled] = {}
        self._reasons: dict[tuple[tuple[types.Field, ...], Expression], Reason] = {}
        self._lock = Lock()

    def evaluate(
        self,
        chunk: pa.RecordBatch,
        fields: tuple[types.Field, ...],
        expressions: tuple[Expression, ...],
        *,
        catches: bool = False,
    ) -> list[pa.Array]:
        """Return the values of each expression over the rows of a chunk with some fields.

        ``catches``: the value of a row for which an expression fails is NULL. The session becomes
        the active one of this thread. GivenUpError if Spark cannot evaluate an expression without a
        job, or it fails for a row.
        """
        try:
            # A projection of Spark has one row in memory, which it returns each time.
            with self._lock:
                self._projection.activate()
                compiled = self._compiled_of(fields, expressions, catches)
                try:
                    return self._values(compiled, chunk)
                except BaseException:
                    # If this thread was interrupted, the JVM may still be using the projections.
                    del self._compiled[fields, expressions, catches]
                    raise
        except (PySparkException, Py4JError, IncompleteError) as error:
            raise FailedExpressionError("Spark could not evaluate an expression") from error

    def attempt(
        self,
        chunk: pa.RecordBatch,
        fields: tuple[types.Field, ...],
        expressions: tuple[Expression, ...],
    ) -> list[tuple[pa.Array, Mask]]:
        """Return the values of each expression as `evaluate` does, and for which rows it fails.

        The value of a row for which it fails is NULL. GivenUpError if Spark cannot evaluate an
        expression without a job.
        """
        caught = tuple(
            Expression(
                f"named_struct('value', {value.text})",
                types.Struct((types.Field("value", value.type),)),
            )
            for value in expressions
        )
        values = self.evaluate(chunk, fields, caught, catches=True)
        return [(column.field(0), np.asarray(column.is_null())) for column in map(_flat, values)]

    def reason(
        self, row: pa.RecordBatch, fields: tuple[types.Field, ...], expression: Expression
    ) -> Reason:
        """Return why an expression fails for a row, in words that hold for any other one.

        ``row``: a chunk of one row. Later calls for the same expression return the same.
        """
        key = fields, expression
        if key not in self._reasons:
            if len(self._reasons) >= _MOST_COMPILED:
                self._reasons.clear()
            self._reasons[key] = self._reason(row, fields, expression)
        return self._reasons[key]

    def _reason(
        self, row: pa.RecordBatch, fields: tuple[types.Field, ...], expression: Expression
    ) -> Reason:
        try:
            with without_context_log():
                self.evaluate(row, fields, (expression,))
        except FailedExpressionError as error:
            return general_reason(error.__cause__, expression.text, self._session)
        except GivenUpError:
            pass
        return Reason()

    def _values(self, compiled: _Compiled, chunk: pa.RecordBatch) -> list[pa.Array]:
        inputs = chunk.select(list(compiled.inputs))
        batches = self._projection.values(
            inputs, compiled.input_type, compiled.projections, compiled.output_type
        )
        values = [in_schema(batch, compiled.schema) for batch in batches]
        table = pa.Table.from_batches(values, compiled.schema)
        return [column.combine_chunks() for column in table.columns]

    # Expressions

    def _compiled_of(
        self, fields: tuple[types.Field, ...], expressions: tuple[Expression, ...], catches: bool
    ) -> _Compiled:
        key = fields, expressions, catches
        if key not in self._compiled:
            if len(self._compiled) >= _MOST_COMPILED:
                self._compiled.clear()
            self._compiled[key] = self._compile(fields, expressions, catches)
        return self._compiled[key]

    def _compile(
        self, fields: Sequence[types.Field], expressions: Sequence[Expression], catches: bool
    ) -> _Compiled:
        frame, projects = self._analysed(fields, expressions)
        read = projects[0].references().toSeq()
        inputs_of = [read, *(project.child().output() for project in projects[1:])]
        if catches and len(projects) > 1:
            raise GivenUpError("Spark evaluates expressions one after the other")
        create = self._projection.create_catching if catches else self._projection.create
        projections = tuple(
            create(project.projectList(), inputs)
            for project, inputs in zip(projects, inputs_of, strict=True)
        )
        by_name = {field.name: field for field in (_OP, *fields)}
        names = [read.apply(number).name() for number in range(read.size())] or [OP_COLUMN]
        values = [types.Field(f"c{n}", value.type) for n, value in enumerate(expressions)]
        return _Compiled(
            tuple(names),
            self._struct([by_name[name] for name in names]),
            projections,
            self._struct(values) if catches else frame._jdf.schema(),
            arrow.arrow_schema(values),
        )

    def _analysed(
        self, fields: Sequence[types.Field], expressions: Sequence[Expression]
    ) -> tuple[DataFrame, list[Any]]:
        """Return the frame of some expressions over no rows, and its projections.

        The innermost comes first. GivenUpError if Spark needs more than projections.
        """
        no_rows = self._session._sc._jsc.emptyRDD()  # Spark would evaluate a frame of local rows
        rows = self._session._jsparkSession.createDataFrame(no_rows, self._struct(fields))
        columns = [f"{value.text} AS c{number}" for number, value in enumerate(expressions)]
        frame = DataFrame(rows, self._session).selectExpr(*columns)
        plan = frame._jdf.queryExecution().optimizedPlan()
        projects: list[Any] = []
        while plan.nodeName() == "Project":
            projects.insert(0, plan)
            plan = plan.child()
        if not projects or plan.getClass().getSimpleName() != "LogicalRDD":
            raise GivenUpError(f"Spark needs a job for {columns}")
        return frame, projects

    def _struct(self, fields: Sequence[types.Field]) -> Any:
        """Return the JVM's type of rows with some fields."""
        return self._session._jsparkSession.parseDataType(struct_of(fields).json())


def _flat(column: pa.Array) -> pa.Array:
    """Return an array of structs without an offset: its fields have as many values."""
    return pa.concat_arrays([column]) if column.offset == 0 else column.take(np.arange(len(column)))
