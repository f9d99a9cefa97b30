"""The columns of a change feed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from relstate.storage import Store, TableSchema, feed_fields
from relstate.storage.errors import SchemaError, SchemaMismatchError
from relstate.storage.feed.columns import FEED_FIELDS, feed_batch, feed_schema, stored_columns
from relstate.storage.schema.types import BigInt, Field


def test_a_feed_has_the_table_s_columns_and_three_more(store: Store) -> None:
    """They have Delta Lake's names; a selection keeps its order."""
    schema = store.create_table("t", "k INT, V STRING", primary_key=["k"]).schema

    assert [field.name for field in feed_fields(schema)] == [
        "k",
        "V",
        "_change_type",
        "_commit_version",
        "_commit_timestamp",
    ]
    assert not any(field.nullable for field in FEED_FIELDS)
    assert [field.name for field in feed_fields(schema, ["_CHANGE_TYPE", "v"])] == [
        "_change_type",
        "V",
    ]
    assert [column.name for column in stored_columns(schema, ["_change_type", "V"])] == ["V"]
    assert [column.name for column in stored_columns(schema, ["_change_type"])] == ["k"]


def test_columns_that_are_not_there_are_refused(store: Store) -> None:
    """No column, a column twice, or a column of the table with a name that the feed adds."""
    schema = store.create_table("t", "k INT", primary_key=["k"]).schema
    for names in ([], ["k", "K"], ["nothing"]):
        with pytest.raises(SchemaMismatchError):
            feed_fields(schema, names)
    field = Field("_Commit_version", BigInt())
    taken = TableSchema.build([field], ["_Commit_version"], None)
    with pytest.raises(SchemaError, match="'_Commit_version', a name that a change feed adds"):
        feed_fields(taken)


@pytest.mark.parametrize("name", ["_change_type", "_COMMIT_VERSION", "_Commit_Timestamp"])
def test_a_table_gets_no_column_of_a_feed(store: Store, name: str) -> None:
    """Neither when it is created nor later, in any case; the advice is a name that works."""
    store.create_table("t", "k INT, v INT", primary_key=["k"])
    before = store.epoch
    changes: list[Callable[[], object]] = [
        lambda: store.create_table("u", f"k INT, `{name}` INT", primary_key=["k"]),
        lambda: store.create_table("u", f"`{name}` INT"),
        lambda: store.create_table("u", pa.schema([(name, pa.int32())]), primary_key=[name]),
        lambda: store.add_columns("t", f"`{name}` STRING"),
        lambda: store.rename_column("t", "v", name),
    ]
    for change in changes:
        with pytest.raises(SchemaError, match=f"cannot be named '{name}'"):
            change()
    assert store.epoch == before
    store.rename_column("t", "v", name.strip("_").lower())


def test_a_batch_tells_what_happened_and_when(store: Store) -> None:
    """In exactly the schema that the plan promises."""
    table = store.create_table("t", "k INT", primary_key=["k"]).schema
    schema = feed_schema(table, ["_commit_timestamp", "k", "_change_type", "_commit_version"])
    rows = pa.record_batch({"k": pa.array([1, 2, 3, 4], pa.int32())})

    batch = feed_batch(
        schema, rows, np.arange(4, dtype=np.int8), np.arange(4) + 7, np.full(4, 1_000_000)
    )

    assert batch.schema == schema
    assert batch.to_pydict()["_change_type"] == [
        "insert",
        "delete",
        "update_preimage",
        "update_postimage",
    ]
    assert batch.to_pydict()["_commit_version"] == [7, 8, 9, 10]
    assert batch.to_pylist()[0]["_commit_timestamp"].isoformat() == "1970-01-01T00:00:01+00:00"
