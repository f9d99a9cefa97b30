"""The laws of the error of rows that do not fit a table: it says what to do with their columns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from relstate.connector.sink.schema_mismatch import mismatch_error
from relstate.storage import Store
from relstate.storage.errors import SchemaMismatchError

FEED = ("_change_type", "_commit_version", "_commit_timestamp")


@pytest.fixture
def users(tmp_path: Path) -> Iterator[Store]:
    """A store with a table of users."""
    with Store.create(str(tmp_path / "store")) as store:
        store.create_table("users", "id INT, name STRING", primary_key=["id"])
        yield store


def message(store: Store, *names: str) -> str:
    """Return the error of rows that have these columns, too."""
    definition = store.jobs.write_target("users").definition
    others = [(name, pa.string()) for name in ("name", *names)]
    rows = pa.schema([("id", pa.int32()), *others])
    with pytest.raises(SchemaMismatchError) as raised:
        definition.schema.check_schema(rows)
    return str(mismatch_error(store, definition, raised.value, rows))


@pytest.mark.parametrize("name", ["_change_type", "_Change_Type", "_op"])
def test_an_operation_column_that_is_not_named_is_pointed_out(users: Store, name: str) -> None:
    """A change feed must not become columns of the table: the error names opColumn."""
    text = message(users, name)

    assert f"unknown column {name!r}" in text
    assert "option 'opColumn' (op_column='_" in text
    assert "mergeSchema" not in text


def test_columns_of_a_commit_are_to_be_left_out(users: Store) -> None:
    """With and without the operation, which may have been named."""
    for names in (FEED, FEED[1:]):
        text = message(users, *names)
        assert "leave out _commit_version and _commit_timestamp" in text
        assert "mergeSchema" not in text
    assert "opColumn" not in message(users, *FEED[1:])


def test_other_columns_may_be_added_by_the_write(users: Store) -> None:
    """A column that is not a change feed's is one that the table may get."""
    assert "mergeSchema=true, which does both" in message(users, "city")
    users.add_columns("users", "_op STRING")
    assert "mergeSchema=true, which does both" in message(users, "_op", "city")


@pytest.mark.parametrize(
    ("rows", "has_advice"),
    [
        ([("name", pa.string())], False),
        ([("id", pa.int64())], False),
        ([("id", pa.int32()), ("name", pa.int32())], False),
        ([("id", pa.int32()), ("score", pa.int64())], True),
    ],
    ids=["without the key", "a wider key", "another type", "a wider type"],
)
def test_mergeschema_is_named_only_where_it_helps(
    users: Store, rows: list[tuple[str, pa.DataType]], has_advice: bool
) -> None:
    """It neither adds a column that the rows lack nor converts a type that is not wider."""
    users.add_columns("users", "score INT")
    definition = users.jobs.write_target("users").definition
    error = mismatch_error(users, definition, SchemaMismatchError("no"), pa.schema(rows))

    assert ("mergeSchema" in str(error)) == has_advice
