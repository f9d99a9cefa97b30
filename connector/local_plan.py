"""Projections and filters of a DataFrame over Arrow rows in the driver's process, without a job.

The DataFrame is made over a relation that stands for the rows (`LocalRelation.frame`). Spark
analyses and optimises it; what is left of the plan are projections and filters, whose expressions
Spark compiles and evaluates over the columns that they read. A column that is only passed on never
leaves Python, and neither does a row more than once per step of the plan.

Promises: values are the same as in a job, by Spark's own compiled expressions. A plan of anything
else, and an expression that fails for a row, are left to Spark.
Does not know: what the rows are for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as s

from .local_projection import IncompleteError, LocalProjection, scala_object
from .spark.arrow_transfer import utc_arrow_schema

COMPILED_ROWS = 4_096
"""Rows up to which Spark is faster if it evaluates a plan while it optimises it, row by row.

Beyond that, compiling the expressions pays, and not making Spark's rows of columns it only passes.
"""

_TYPES = "org.apache.spark.sql.catalyst.types.DataTypeUtils"
_ATTRIBUTES = "org.apache.spark.sql.catalyst.expressions.AttributeSet"
# What a projection reads that reads no column: a row has one at least.
_ROW = "__relstate_row"


@dataclass(frozen=True, slots=True)
class LocalRelation:
    """Rows of the driver, and a frame without rows that stands for them in other frames.

    ``rows`` have the columns of ``frame``, by position, in the types in which Spark takes them.
    """

    rows: pa.Table
    schema: s.StructType
    frame: DataFrame = field(repr=False)

    @classmethod
    def of(cls, session: SparkSession, rows: pa.Table, schema: s.StructType) -> LocalRelation:
        """Return the relation of some rows, in a session of the classic Spark."""
        java: Any = session
        # Spark would evaluate a frame of local rows by itself.
        no_rows = java._sc._jsc.emptyRDD()
        struct = java._jsparkSession.parseDataType(schema.json())
        frame = DataFrame(java._jsparkSession.createDataFrame(no_rows, struct), session)
        return cls(rows, schema, frame)

    def computed(self, frame: DataFrame) -> pa.RecordBatch | None:
        """Return the rows of a frame that is made over this relation alone; else None.

        None also if Spark needs more than projections and filters, or an expression fails: Spark
        has to say so. Columns are named ``c0`` and so on.
        """
        try:
            return _Run(self, frame.sparkSession).rows_of(frame)
        except (PySparkException, Py4JError, IncompleteError, _NotLocalError):
            return None

    def in_spark(self) -> DataFrame:
        """Return a frame that has the rows."""
        return self.frame.sparkSession.createDataFrame(self.rows, self.schema)


class _NotLocalError(Exception):
    """A plan needs more than projections and filters."""


class _Run:
    """One evaluation of a plan. Used once."""

    def __init__(self, relation: LocalRelation, session: SparkSession) -> None:
        jvm: Any = session._jvm
        client = jvm._gateway_client
        self._relation = relation
        self._jvm = jvm
        self._types = scala_object(_TYPES, client)
        self._attributes = scala_object(_ATTRIBUTES, client)
        self._projection = LocalProjection(session)
        self._boolean = self._struct(session, s.StructType([s.StructField("c0", s.BooleanType())]))
        self._row = self._struct(session, s.StructType([s.StructField(_ROW, s.BooleanType())]))

    @staticmethod
    def _struct(session: Any, schema: s.StructType) -> Any:
        return session._jsparkSession.parseDataType(schema.json())

    def rows_of(self, frame: DataFrame) -> pa.RecordBatch:
        """Return the rows of a frame over the relation."""
        self._projection.activate()
        jdf: Any = frame._jdf
        plan = jdf.queryExecution().optimizedPlan()
        if not plan.deterministic():
            raise _NotLocalError
        columns = self._computed(plan)
        arrays = [columns.arrays[key] for key in _ids(plan.output())]
        return pa.RecordBatch.from_arrays(arrays, [f"c{index}" for index in range(len(arrays))])

    def _computed(self, plan: Any) -> _Columns:
        """Return the columns that a plan of Spark's has."""
        match plan.getClass().getSimpleName():
            case "Project":
                return self._projected(plan.projectList(), self._computed(plan.child()))
            case "Filter":
                return self._filtered(plan.condition(), self._computed(plan.child()))
            case "LogicalRDD":
                rows = self._relation.rows.combine_chunks()
                arrays = (column.chunk(0) for column in rows.columns)
                return _Columns(rows.num_rows, dict(zip(_ids(plan.output()), arrays, strict=True)))
        raise _NotLocalError

    def _projected(self, items: Any, columns: _Columns) -> _Columns:
        """Return the columns of a projection: some are passed on, the others are computed."""
        arrays: dict[int, pa.Array] = {}
        computed = []
        for number in range(items.size()):
            item = items.apply(number)
            key, passed = item.exprId().id(), _passed_id(item)
            if passed is None:
                computed.append((key, item))
            else:
                arrays[key] = columns.arrays[passed]
        if computed:
            expressions = self._sequence([item for _, item in computed])
            attributes = self._sequence([item.toAttribute() for _, item in computed])
            values = self._values(expressions, self._types.fromAttributes(attributes), columns)
            arrays |= dict(zip((key for key, _ in computed), values.columns, strict=True))
        return _Columns(columns.count, arrays)

    def _filtered(self, condition: Any, columns: _Columns) -> _Columns:
        values = self._values(self._sequence([condition]), self._boolean, columns)
        (mask,) = values.columns
        if mask.true_count == columns.count:
            return columns
        arrays = {key: array.filter(mask) for key, array in columns.arrays.items()}
        return _Columns(mask.true_count, arrays)

    def _values(self, expressions: Any, output_type: Any, columns: _Columns) -> pa.RecordBatch:
        """Return the values of expressions over the columns that they read."""
        if not columns.count:
            # Of no rows, Spark sends no batch.
            return _no_values(output_type)
        read = self._attributes.apply(expressions).toSeq()
        if read.isEmpty():
            arrays, input_type = [pa.nulls(columns.count, pa.bool_())], self._row
        else:
            arrays = [columns.arrays[key] for key in _ids(read)]
            input_type = self._types.fromAttributes(read)
        rows = pa.RecordBatch.from_arrays(arrays, [f"c{i}" for i in range(len(arrays))])
        projection = self._projection.create(expressions, read)
        (values,) = self._projection.values(rows, input_type, [projection], output_type)
        return values

    def _sequence(self, values: list[Any]) -> Any:
        return self._jvm.PythonUtils.toSeq(values)


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of ``count`` rows, by Spark's ids of them."""

    count: int
    arrays: Mapping[int, pa.Array]


def _no_values(output_type: Any) -> pa.RecordBatch:
    """Return no rows of a type of Spark's."""
    struct = s.StructType.fromJson(json.loads(output_type.json()))
    return pa.RecordBatch.from_pylist([], utc_arrow_schema(struct))


def _ids(attributes: Any) -> list[int]:
    return [attributes.apply(number).exprId().id() for number in range(attributes.size())]


def _passed_id(item: Any) -> int | None:
    """Return the id of the column that an item of a projection passes on; None if it computes."""
    kind = item.getClass().getSimpleName()
    while kind == "Alias":
        item = item.child()
        kind = item.getClass().getSimpleName()
    return int(item.exprId().id()) if kind == "AttributeReference" else None
