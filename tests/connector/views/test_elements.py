"""Laws of the rows that a generator makes of arrays in the driver's process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pytest

from relstate.connector.views.elements import element_bytes, element_count, element_rows
from relstate.connector.views.executor.changes import chunk_schema
from relstate.storage import types

if TYPE_CHECKING:
    from relstate.connector.views.plan.generate import Generate

_COLUMNS = {
    "text": (types.String(), ["x" * 20_000, "y", None]),
    "number": (types.BigInt(), [1, None, 3]),
    "list": (types.Array(types.Int(), contains_null=True), [list(range(500)), None, []]),
}


@pytest.mark.parametrize("keeps_empty", [False, True])
@pytest.mark.parametrize("name", _COLUMNS)
def test_the_bytes_of_elements_are_bounded_before_they_are_made(
    name: str, keeps_empty: bool
) -> None:
    """Every element repeats the columns of its row, however wide they are."""
    data_type, values = _COLUMNS[name]
    passed = types.Field(name, data_type)
    fields = (passed, types.Field("p", types.Int()), types.Field("e", types.Int()))
    node = cast("Generate", SimpleNamespace(fields=fields, passed=(name,), keeps_empty=keeps_empty))
    schema = chunk_schema((passed,))
    columns = [pa.array([1, 1, 1], schema.types[0]), pa.array(values, schema.types[1])]
    chunk = pa.RecordBatch.from_arrays(columns, schema=schema)
    arrays = pa.array([list(range(600)), [7], None], pa.list_(pa.int32()))

    bound = element_bytes(node, chunk, arrays)
    rows = element_rows(node, chunk, arrays)

    assert rows.num_rows == element_count(node, arrays) == 601 + keeps_empty
    assert rows.column(name).nbytes < bound
    assert rows.nbytes < bound + 20 * rows.num_rows  # and the two columns of the generator
    if name == "text":
        assert bound > 600 * 20_000
