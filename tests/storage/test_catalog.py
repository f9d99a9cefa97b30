"""The laws of tables that are created in place of others, like others, with rows, and renamed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from relstate.storage import NewTable, Proposal, Store
from relstate.storage.errors import (
    ConflictError,
    InternalTableError,
    OptionError,
    TableExistsError,
    TableNotFoundError,
)
from support.stores import contents


@pytest.fixture
def filled(store: Store) -> Store:
    """A store with a table of two rows and an index."""
    store.create_table(
        "t",
        "region STRING, id BIGINT, v STRING NOT NULL COMMENT 'a value'",
        primary_key=["region", "id desc"],
        distribution_key=["region"],
        merge="ignore",
        user_properties={"comment": "all of them", "owner.team": "x"},
    )
    store.write("t", pa.table({"region": ["n", "s"], "id": [1, 2], "v": ["a", "b"]}))
    store.create_index("t", "by_v", ["v"])
    return store


def test_a_table_takes_the_place_of_another_one_in_one_epoch(filled: Store) -> None:
    """It is empty and has no index; the epoch before still has the old table."""
    before = filled.epoch
    filled.create_table("T", "x INT", primary_key=["x"], or_replace=True)

    assert filled.epoch == before + 1
    assert filled.tables() == ("T",)
    assert contents(filled, "T") == []
    assert filled.indexes("t") == ()
    assert contents(filled, "t", before) == [("n", 1, "a"), ("s", 2, "b")]


def test_a_table_that_is_not_there_is_created(store: Store) -> None:
    """OR REPLACE needs no table."""
    store.create_table("t", "x INT", or_replace=True)

    assert store.tables() == ("t",)


def test_a_table_is_not_both_replaced_and_kept(store: Store) -> None:
    """The two arguments contradict each other."""
    with pytest.raises(OptionError, match="exclude each other"):
        store.create_table("t", "x INT", or_replace=True, if_not_exists=True)
    with pytest.raises(OptionError, match="exclude each other"):
        store.create_table_like("t", "t", or_replace=True, if_not_exists=True)


def test_a_table_like_another_has_its_columns_keys_and_properties(filled: Store) -> None:
    """But neither its rows nor its indexes; schemas that it had before do not count."""
    filled.add_columns("t", "w INT")
    filled.drop_columns("t", "w")
    copy = filled.create_table_like("copy", "T")

    source = filled.state.table("t").definition
    made = filled.state.table("copy").definition
    assert made.schema.columns == source.schema.columns
    assert made.schema.primary_key == source.schema.primary_key
    assert made.schema.distribution_key == source.schema.distribution_key
    assert (made.schema.version, made.older_schemas, made.indexes) == (1, (), ())
    assert (made.properties, made.comment) == (source.properties, "all of them")
    assert made.user_properties == (("owner.team", "x"),)
    assert copy.count() == 0
    filled.add_columns("copy", "w INT")
    filled.write("copy", pa.table({"region": ["n"], "id": [1], "v": ["a"], "w": [5]}))
    assert contents(filled, "copy") == [("n", 1, "a", 5)]


def test_a_table_like_one_without_a_key_has_none(store: Store) -> None:
    """Equal rows stay two rows."""
    store.create_table("t", "x INT")
    store.create_table_like("copy", "t")
    store.write("copy", pa.table({"x": [1, 1]}))

    assert store.table("copy").count() == 2
    with pytest.raises(TableExistsError):
        store.create_table_like("copy", "t")
    with pytest.raises(TableNotFoundError):
        store.create_table_like("other", "nothing")
    store.create_index("t", "i", ["x"])
    with pytest.raises(InternalTableError):
        store.create_table_like("other", store.indexes("t")[0].internal_table)


def test_a_table_is_renamed_in_one_epoch(filled: Store) -> None:
    """Its rows, its index and its id stay; earlier epochs have the old name."""
    before, table_id = filled.epoch, filled.state.table("t").definition.table_id
    assert filled.rename_table("T", "u") == before + 1

    assert filled.tables() == ("u",)
    assert filled.state.table("u").definition.table_id == table_id
    assert filled.table("u").get_by("by_v", "b")[0].region == "s"
    assert contents(filled, "t", before) == contents(filled, "u")
    with pytest.raises(TableNotFoundError, match="there are: u"):
        filled.table("t")
    filled.create_table("t", "x INT")
    with pytest.raises(TableExistsError):
        filled.rename_table("t", "U")


def _creation_with_rows(store: Store, name: str) -> Proposal:
    """Return the proposal of a table like ``t`` with one row."""
    definition = store.state.table("t").definition
    table = NewTable(name, definition.schema)
    target = store.jobs.new_target(table)
    with target.open() as writer:
        writer.write(pa.record_batch({"region": ["w"], "id": [9], "v": ["z"]}))
        segments = writer.finish()
    return Proposal(
        operation="create with rows",
        started=store.environment.now(),
        segments=segments,
        created_tables=(table,),
        first_table_id=target.definition.table_id,
    )


def test_a_table_is_created_with_its_rows_in_one_epoch(filled: Store) -> None:
    """Its change feed begins with them."""
    done = filled.jobs.commit(_creation_with_rows(filled, "made"))

    assert contents(filled, "made") == [("w", 9, "z")]
    assert filled.at(done.epoch - 1).tables() == ("t",)
    (changes,) = filled.changes("made", done.epoch)
    assert changes["_change_type"].to_pylist() == ["insert"]


def test_a_table_with_rows_loses_the_race_for_its_id(filled: Store) -> None:
    """Rows contain the id of their table; if another table has got it, nothing is committed."""
    proposal = _creation_with_rows(filled, "made")
    filled.create_table("other", "x INT")

    with pytest.raises(ConflictError, match="another table was created"):
        filled.jobs.commit(proposal)
    assert filled.tables() == ("other", "t")
    filled.jobs.discard(proposal.segments)
