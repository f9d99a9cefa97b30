"""Laws of chunks: rows, and an op for each."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from relstate.storage.errors import UnknownOperationError
from relstate.storage.segment.key import Kind
from relstate.storage.table.chunk import OP_COLUMN, Op, chunk_of, split

_ROWS = pa.record_batch({"a": [1, 2, 3, 4], "b": ["w", "x", "y", "z"]})


def test_the_codes_are_risingwaves() -> None:
    """Other programs write these numbers, so they never change."""
    assert {op.name: op.value for op in Op} == {
        "INSERT": 1,
        "DELETE": 2,
        "UPDATE_INSERT": 3,
        "UPDATE_DELETE": 4,
    }


def test_a_chunk_comes_apart_into_rows_and_kinds() -> None:
    """Inserts and the new rows of updates are puts, the others are deletes."""
    chunk = chunk_of(_ROWS, np.array(list(Op), np.int8))

    rows, kinds = split(chunk)

    assert chunk.schema.names == [OP_COLUMN, "a", "b"]
    assert rows.equals(_ROWS)
    assert kinds.tolist() == [Kind.PUT, Kind.DELETE, Kind.PUT, Kind.DELETE]


@pytest.mark.parametrize("integers", [pa.uint8(), pa.int16(), pa.int64()])
def test_ops_may_be_any_integers_in_any_column_position(integers: pa.DataType) -> None:
    """The column is found by its name."""
    chunk = pa.record_batch({"a": [5], OP_COLUMN: pa.array([2], integers)})

    rows, kinds = split(chunk)

    assert rows.to_pydict() == {"a": [5]}
    assert kinds.tolist() == [Kind.DELETE]


@pytest.mark.parametrize("wrong", [0, 5, -1, 127, None])
def test_an_unknown_op_is_refused_with_its_row(wrong: int | None) -> None:
    """The error names the row, its op and the ops there are."""
    ops = pa.array([1, wrong, 1, 1], pa.int8())
    chunk = pa.RecordBatch.from_arrays([ops, *_ROWS.columns], [OP_COLUMN, "a", "b"])

    with pytest.raises(UnknownOperationError, match=f"row 1 of the chunk has op {wrong}.*2 DELETE"):
        split(chunk)


def test_a_chunk_without_ops_is_refused() -> None:
    """The error names the column that is missing and those there are."""
    with pytest.raises(UnknownOperationError, match=f"{OP_COLUMN}.*a, b"):
        split(_ROWS)


def test_ops_that_are_not_numbers_are_refused() -> None:
    """The error names the type of the column."""
    with pytest.raises(UnknownOperationError, match="string"):
        split(pa.record_batch({OP_COLUMN: ["I"], "a": [1]}))
