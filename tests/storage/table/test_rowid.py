"""Row ids: unique, ascending, and nothing that a key would escape."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from relstate.storage.errors import SchemaError, SchemaMismatchError
from relstate.storage.local_environment import LocalEnvironment
from relstate.storage.schema import types as t
from relstate.storage.schema.schema import TableSchema
from relstate.storage.table import rowid
from relstate.storage.table.rowid import RowIds
from support.clock import ManualClock

SCHEMA = TableSchema.build_keyless([t.Field("a", t.Int(), False), t.Field("b", t.String())])


@pytest.fixture
def environment(tmp_path: Path) -> LocalEnvironment:
    """An environment whose clock stands still."""
    return LocalEnvironment(str(tmp_path), clock=ManualClock(1_800_000_000_000_000))


def test_ids_ascend_and_have_no_zero_byte(environment: LocalEnvironment) -> None:
    """Over several takes, and beyond the numbers of one, two and three digits."""
    ids = RowIds(environment)
    taken = pa.concat_arrays([ids.take(count) for count in (1, 0, 300, 70_000, 17_000_000)])

    assert taken.type == pa.binary()
    values = np.frombuffer(taken.buffers()[2], "S16")
    assert len(values) == 17_070_301
    assert (values[1:] > values[:-1]).all()
    assert np.frombuffer(taken.buffers()[2], np.uint8).min() > 0


def test_no_rows_get_no_ids(environment: LocalEnvironment) -> None:
    """Also if they are the first."""
    assert RowIds(environment).take(0) == pa.array([], pa.binary())


def test_writers_of_one_moment_share_no_id(environment: LocalEnvironment) -> None:
    """Randomness tells them apart where the clock does not."""
    ids = [RowIds(environment).take(3).to_pylist() for _ in range(1000)]
    assert len({row_id for three in ids for row_id in three}) == 3000


def test_a_later_writer_has_greater_ids(tmp_path: Path) -> None:
    """So new keys come after the keys that are there."""
    clock = ManualClock(1_800_000_000_000_000)
    environment = LocalEnvironment(str(tmp_path), clock=clock)
    previous = b""
    for _ in range(100):
        first, last = RowIds(environment).take(2).to_pylist()
        assert previous < first < last
        previous = last
        clock.advance(1e-6)


def test_a_writer_that_runs_out_of_numbers_begins_again(
    environment: LocalEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under another random number."""
    monkeypatch.setattr(rowid, "_MOST_ROWS", 4)
    ids = RowIds(environment)
    ids._next = 4
    taken = [row_id for count in (3, 1, 2) for row_id in ids.take(count).to_pylist()]
    assert len(set(taken)) == 6
    assert len({row_id[:12] for row_id in taken}) == 2


def test_rows_get_ids_where_they_have_none(environment: LocalEnvironment) -> None:
    """Without the column all of them do, with it those that are NULL in it."""
    ids = RowIds(environment)
    rows = ids.identify(SCHEMA, pa.record_batch({"B": ["x", None], "a": [1, 2]}))
    assert rows.schema == SCHEMA.arrow_schema
    assert rows.drop_columns(["_row_id"]).to_pylist() == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]

    known = pa.record_batch({"_row_id": pa.array([None, b"known", None], pa.binary())})
    first, second, third = ids.identify(SCHEMA, known)["_row_id"].to_pylist()
    assert second == b"known"
    assert None not in (first, third)
    assert first < third


def test_known_ids_may_have_wide_offsets(environment: LocalEnvironment) -> None:
    """As Spark sends them under spark.sql.execution.arrow.useLargeVarTypes."""
    known = pa.record_batch({"_row_id": pa.array([None, b"known"], pa.large_binary())})
    first, second = RowIds(environment).identify(SCHEMA, known)["_row_id"].to_pylist()
    assert second == b"known"
    assert len(first) == 16


def test_a_schema_without_a_key_hides_its_row_id() -> None:
    """It is the first column and the key; users' rows do not have it."""
    assert SCHEMA.row_id == SCHEMA.columns[0] == SCHEMA.key_columns[0]
    assert [column.name for column in SCHEMA.visible_columns] == ["a", "b"]
    SCHEMA.check_schema(pa.schema({"a": pa.int32()}))
    with pytest.raises(SchemaMismatchError, match=r"unknown column '_ROW_ID'; .* are a, b$"):
        SCHEMA.check_schema(pa.schema({"a": pa.int32(), "_ROW_ID": pa.binary()}))
    with pytest.raises(SchemaError, match="rename the column '_Row_Id', or declare a primary key"):
        TableSchema.build_keyless([t.Field("_Row_Id", t.Int())])
    with pytest.raises(SchemaError, match="at least one column"):
        TableSchema.build_keyless([])


def test_a_hidden_key_of_a_view_is_no_row_id() -> None:
    """Whatever it is called: it comes after the columns that the view shows."""
    fields = [t.Field("a", t.Int()), t.Field("_row_id", t.Binary())]
    assert TableSchema.build(fields, ["_row_id"], hidden=["_row_id"]).row_id is None
    assert TableSchema.build(fields[::-1], ["_row_id"]).row_id is None
