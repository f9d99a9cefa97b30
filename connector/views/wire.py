"""The rows of a refresh's Spark job: changes, and the reports of tasks to the driver.

A row is a change (`OP_COLUMN`, and the fields of an operator) or, if `MESSAGE` is not NULL, a
*control row*: it carries the report of a task, or nothing, to a unit of the next fragment
(`TARGET`), and so to the driver. Every partition of every fragment gets a control row, so that
Spark does not skip one as empty.

Promises: control rows pass every expression and filter unchanged; it is not evaluated for them.
Does not know: what reports say, or executors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from relstate.storage import OP_COLUMN, arrow, types

# Rows handed to Spark at once.
_BATCH_ROWS = 65_536

TARGET = "_target"
MESSAGE = "_message"

_OP = types.Field(OP_COLUMN, types.TinyInt())
_CONTROL = (types.Field(TARGET, types.Int()), types.Field(MESSAGE, types.Binary()))


def wire_fields(fields: Sequence[types.Field]) -> tuple[types.Field, ...]:
    """Return the columns of rows that carry changes with these fields."""
    return (_OP, *fields, *_CONTROL)


def wire_schema(fields: Sequence[types.Field]) -> pa.Schema:
    """Return the Arrow schema of `wire_fields`."""
    return pa.schema([arrow.arrow_field(field) for field in wire_fields(fields)])


def change_batches(chunk: pa.RecordBatch, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield a chunk as rows of a wire schema, as many as Spark should get at once."""
    for start in range(0, chunk.num_rows, _BATCH_ROWS):
        part = chunk.slice(start, _BATCH_ROWS)
        control = pa.nulls(len(part), pa.int32()), pa.nulls(len(part), pa.binary())
        yield pa.RecordBatch.from_arrays([*part.columns, *control], schema=schema)


def control_rows(targets: Sequence[int], message: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Return a control row with a message, empty for none, to each of some units."""
    rows = len(targets)
    nulls = [pa.nulls(rows, field.type) for field in schema][:-2]
    control = [pa.array(targets, pa.int32()), pa.array([message] * rows, pa.binary())]
    return pa.RecordBatch.from_arrays([*nulls, *control], schema=schema)


def guarded(expression: str) -> str:
    """Return an expression in Spark's SQL that is not evaluated for control rows."""
    return f"CASE WHEN {MESSAGE} IS NULL THEN {expression} END"


def passing(condition: str) -> str:
    """Return a condition in Spark's SQL that control rows meet."""
    return f"{MESSAGE} IS NOT NULL OR ({condition})"
