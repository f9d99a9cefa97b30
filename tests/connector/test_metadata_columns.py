"""The laws of the operation column of a change stream."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from relstate.connector.sink.metadata_columns import OperationColumn
from relstate.storage.errors import SchemaMismatchError, UnknownOperationError
from relstate.storage.segment.key import Kind


def changes(*operations: str | None) -> pa.RecordBatch:
    """Return a batch with one row per operation, numbered in the column k."""
    return pa.record_batch({"Op": pa.array(operations, pa.string()), "k": range(len(operations))})


def test_every_spelling_is_known_whatever_its_case() -> None:
    """The operations of Delta, Spark and Debezium are puts and deletes."""
    batch = changes("insert", "I", "c", "r", "Update", "u", "UPDATE_POSTIMAGE", "delete", "D")

    rows, kinds = OperationColumn("op", stored=False).split(batch)

    assert kinds.tolist() == [Kind.PUT] * 7 + [Kind.DELETE] * 2
    assert rows.schema.names == ["k"]
    assert kinds.dtype == np.uint8


def test_the_old_row_of_an_update_changes_nothing() -> None:
    """Pre-images are left out; the other rows keep their order."""
    rows, kinds = OperationColumn("op", stored=False).split(
        changes("update_preimage", "update_postimage", "d", "update_preimage", "i")
    )

    assert rows.column("k").to_pylist() == [1, 2, 4]
    assert kinds.tolist() == [Kind.PUT, Kind.DELETE, Kind.PUT]


def test_a_column_of_the_table_is_kept() -> None:
    """The operation is stored if the table has a column of its name."""
    rows, _ = OperationColumn("op", stored=True).split(changes("i"))

    assert rows.schema.names == ["Op", "k"]


@pytest.mark.parametrize("operation", ["upsert", "", " i", None, "t"])
def test_an_unknown_operation_is_refused(operation: str | None) -> None:
    """The error names the row and the value; nothing is treated as an insert."""
    with pytest.raises(UnknownOperationError, match=rf"row 1 of the batch has {operation!r}"):
        OperationColumn("op", stored=False).split(changes("i", operation))


def test_a_batch_without_rows_is_split_into_none() -> None:
    """An empty batch has no rows and no kinds."""
    rows, kinds = OperationColumn("op", stored=False).split(changes())

    assert rows.num_rows == 0
    assert len(kinds) == 0


def test_the_column_must_be_there_and_be_text() -> None:
    """A missing or other column fails when the write is planned."""
    column = OperationColumn("op", stored=False)

    with pytest.raises(SchemaMismatchError, match="no operation column 'op'; it has k"):
        column.check_schema(pa.schema({"k": pa.int64()}))
    with pytest.raises(SchemaMismatchError, match="int32; it must be a string"):
        column.check_schema(pa.schema({"OP": pa.int32()}))


def test_the_rest_of_the_schema_is_the_tables() -> None:
    """The column is not part of the schema that is compared with the table's, unless stored."""
    schema = pa.schema({"op": pa.string(), "k": pa.int64()})

    assert OperationColumn("op", stored=False).check_schema(schema).names == ["k"]
    assert OperationColumn("op", stored=True).check_schema(schema) is schema
