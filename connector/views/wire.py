"""The rows of a refresh's Spark job: changes, and the reports of tasks to the driver.

A row is a change (`OP_COLUMN`, and the fields of an operator) or, if `MESSAGE` is not NULL, a
*control row*: it carries the report of a task, a packet of changes (exchange), or nothing, to a
unit of the next fragment (`TARGET`). Reports are passed on from fragment to fragment, and so to the
driver. Every partition of every fragment gets a control row, so that Spark does not skip one as
empty. A change may have a target, too; the task that gets it ignores it.

Promises: control rows pass every expression and filter unchanged; it is not evaluated for them.
Does not know: what reports say, or executors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from relstate.storage import OP_COLUMN, arrow, types

from .executor.changes import chunk_schema, empty_chunk

# Rows handed to Spark at once.
_BATCH_ROWS = 65_536
# Every Arrow message begins with this, and no report does.
_PACKET_START = b"\xff\xff\xff\xff"
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
        columns = map(_with_whole_parts, part.columns)
        yield pa.RecordBatch.from_arrays([*columns, *control], schema=schema)


def control_rows(targets: Sequence[int], message: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Return a control row with a message, empty for none, to each of some units."""
    rows = len(targets)
    nulls = [_with_whole_parts(pa.nulls(rows, field.type)) for field in schema][:-2]
    control = [pa.array(targets, pa.int32()), pa.array([message] * rows, pa.binary())]
    return pa.RecordBatch.from_arrays([*nulls, *control], schema=schema)


def null_for_control_rows(expression: str) -> str:
    """Return an expression in Spark's SQL that is not evaluated for control rows."""
    return f"CASE WHEN {MESSAGE} IS NULL THEN {expression} END"


def true_for_control_rows(condition: str) -> str:
    """Return a condition in Spark's SQL that control rows meet."""
    return f"{MESSAGE} IS NOT NULL OR ({condition})"


@dataclass(frozen=True, slots=True)
class Received:
    """The input of a task: its changes, and the control rows, each a target and a message.

    The control rows say which unit the task is: after a union its partition number does not.
    """

    chunk: pa.RecordBatch
    control: tuple[tuple[int, bytes], ...]

    @classmethod
    def of(cls, batches: Iterator[pa.RecordBatch], fields: Sequence[types.Field]) -> Received:
        """Return the input that came as rows of the wire; its changes have these fields."""
        schema = chunk_schema(fields)
        control: list[tuple[int, bytes]] = []
        chunks = [empty_chunk(schema)]
        packets: list[bytes] = []
        for batch in batches:
            target, message = batch.columns[-2:]
            if message.null_count < len(message):
                targets, messages = target.filter(message.is_valid()), message.drop_null()
                for pair in zip(targets.to_pylist(), messages.to_pylist(), strict=True):
                    if pair[1].startswith(_PACKET_START):
                        packets.append(pair[1])
                    else:
                        control.append(pair)
                batch = batch.filter(message.is_null())
            if batch.num_rows:
                chunks.append(in_schema(batch.select(range(len(schema))), schema))
        chunks += [pa.ipc.read_record_batch(pa.py_buffer(packet), schema) for packet in packets]
        return cls(pa.concat_batches(chunks), tuple(control))

    @property
    def messages(self) -> list[bytes]:
        """The messages, each once: those of a shared operator come with the rows of each reader."""
        return list(dict.fromkeys(message for _, message in self.control if message))


def in_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of Spark's under our schema: timestamps come in the session's time zone."""
    if batch.schema.equals(schema):
        return batch
    pairs = zip(batch.columns, schema, strict=True)
    columns = [c if c.type.equals(field.type) else c.cast(field.type) for c, field in pairs]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _with_whole_parts(column: pa.Array) -> pa.Array:
    """Return a column of which no NULL struct has a NULL for a part that must not be one.

    Arrow makes a NULL VARIANT so, as that of an outer join, and PySpark then fails to cast it.
    """
    if not pa.types.is_struct(column.type) or not column.null_count:
        return column
    parts = []
    for number, field in enumerate(column.type):
        part = _with_whole_parts(column.field(number))
        is_whole = field.nullable or not pa.types.is_binary(field.type)
        parts.append(part if is_whole else part.fill_null(b""))
    return pa.StructArray.from_arrays(parts, fields=list(column.type), mask=column.is_null())
