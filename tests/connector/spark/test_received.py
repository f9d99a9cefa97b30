"""The laws of rows in Arrow as Spark hands them over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import types as s

from relstate.connector.cli.statements import result_rows
from relstate.connector.spark.received import received, with_offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_INTS = pa.list_(pa.int32())
_VALUES = [
    pa.array([[[1], []], [], None], pa.list_(_INTS)),
    pa.array([[], None, []], pa.list_(_INTS)),
    pa.array([{"x": []}, None, {"x": None}], pa.struct([("x", _INTS)])),
    pa.array([[(1, [2])], [], None], pa.map_(pa.int32(), _INTS)),
    pa.array([[], [], None], pa.map_(pa.int32(), pa.map_(pa.string(), _INTS))),
    pa.array([1, None, 3]),
]


@pytest.mark.parametrize("column", _VALUES, ids=lambda column: str(column.type))
def test_offsets_change_no_value(column: pa.Array) -> None:
    """Nor a type; slices stay as they are."""
    batch = pa.record_batch({"c": column})

    assert with_offsets(batch) == batch
    assert with_offsets(batch).schema.equals(batch.schema, check_metadata=True)
    assert with_offsets(batch.slice(1)) == batch.slice(1)


def _without_offsets() -> pa.Array:
    """Return an array of one empty array of arrays, as Spark 4.1 makes it."""
    empty = pa.Array.from_buffers(_INTS, 0, [None, None], children=[pa.array([], pa.int32())])
    offsets = pa.array([0, 0], pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.list_(_INTS), 1, [None, offsets], children=[empty])


def test_a_missing_offset_is_added() -> None:
    """Counting the bytes of the array without it ends the process."""
    column = _without_offsets()
    assert column.values.buffers()[1] is None

    (whole,) = with_offsets(pa.record_batch({"c": column})).columns

    assert whole.values.buffers()[1] is not None
    assert whole.nbytes >= 0
    assert whole.to_pylist() == [[]]


def test_rows_of_spark_have_offsets(spark: SparkSession) -> None:
    """Whatever the version is, their bytes can be counted."""
    frame = spark.sql("SELECT CAST(map() AS MAP<INT, ARRAY<STRING>>) AS m")

    batches = list(received(frame.toArrow().to_batches()))

    assert [batch.nbytes > 0 for batch in batches] == [True]


def test_the_command_line_shows_rows_with_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """`relstate sql` casts the columns, and their bytes can be counted."""
    monkeypatch.setattr("relstate.connector.spark.received.pyspark_version", lambda: "4.1.0")
    schema = s.StructType().add("c", s.ArrayType(s.ArrayType(s.IntegerType())))
    sent = pa.table({"c": _without_offsets()})
    frame: Any = SimpleNamespace(schema=schema, toArrow=lambda: sent)

    (batch,) = result_rows(frame).batches

    assert batch.nbytes >= 0
    assert batch.to_pylist() == [{"c": []}]
