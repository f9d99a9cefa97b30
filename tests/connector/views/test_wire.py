"""The rows of a refresh's Spark job."""

from __future__ import annotations

import pyarrow as pa

from relstate.connector.views.wire import change_batches, control_rows, wire_schema
from relstate.storage import arrow, types

_FIELDS = (types.Field("k", types.Int()), types.Field("doc", types.Variant()))


def test_a_null_variant_can_be_cast_as_pyspark_does() -> None:
    """Arrow casts no NULL struct with a NULL for a part that must not be one; outer joins make it.

    Control rows have NULL in all columns.
    """
    variant = arrow.arrow_type(types.Variant())
    value = {"value": b"\x00", "metadata": b"\x01\x00\x00"}
    docs = pa.array([value], variant).take(pa.array([None, 0], pa.int32()))
    schema = wire_schema(_FIELDS)
    columns = [pa.array([1, 1], pa.int8()), pa.array([1, 2], pa.int32()), docs]
    chunk = pa.RecordBatch.from_arrays(columns, schema=pa.schema(list(schema)[:-2]))

    batches = [*change_batches(chunk, schema), control_rows([0], b"", schema)]

    cast = [batch["doc"].cast(variant).to_pylist() for batch in batches]
    assert cast == [[None, value], [None]]
