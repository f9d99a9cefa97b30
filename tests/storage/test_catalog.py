"""Tables that are created, also in place of others, like others and with rows, renamed, dropped."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pyarrow as pa
import pytest

from relstate.storage import NewTable, Proposal, Store
from relstate.storage.errors import (
    ConflictError,
    InternalTableError,
    OptionError,
    TableExistsError,
    TableNameError,
    TableNotFoundError,
)
from support.faulty_environment import FaultyEnvironment
from support.places import in_folder
from support.stores import contents, upsert, written


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
    with pytest.raises(TableNameError, match="is reserved"):
        filled.rename_table("u", "t__quarantine")


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


def test_tables_are_made_listed_and_dropped(store: Store) -> None:
    """The case of names does not matter; each change is an epoch of its own."""
    store.create_table("Orders", "k INT", primary_key=["k"])
    store.create_table("b", pa.schema([("k", pa.int64())]), primary_key=["k"])

    assert store.tables() == ("Orders", "b")
    assert store.table("ORDERS").schema.column("K").name == "k"
    assert store.epoch == 3
    store.drop_table("orders")
    assert (store.tables(), store.epoch) == (("b",), 4)
    assert store.at(3).tables() == ("Orders", "b")


def test_a_table_is_made_once(store: Store) -> None:
    """Names that differ in case only are one name."""
    store.create_table("t", "k INT", primary_key=["k"])
    with pytest.raises(TableExistsError, match="'T'"):
        store.create_table("T", "k INT", primary_key=["k"])

    same = store.create_table("T", "other STRING", primary_key=["other"], if_not_exists=True)
    assert [column.name for column in same.schema.columns] == ["k"]
    assert store.epoch == 2


def test_what_is_not_there_cannot_be_dropped(store: Store) -> None:
    """Except with if_exists; truncating and reading it is an error, too."""
    for call in (store.drop_table, store.truncate, store.table, store.state_table):
        with pytest.raises(TableNotFoundError, match="'t'"):
            call("t")
    store.drop_table("t", if_exists=True)

    assert store.epoch == 1


def test_a_dropped_table_never_comes_back(store: Store) -> None:
    """A new table of its name is another table; rows written for the old one are refused."""
    store.create_table("t", "k INT, v INT", primary_key=["k"])
    upsert(store, "t", [(1, 1)])
    late = written(store, "t", [(2, 2)])
    store.drop_table("t")
    store.create_table("t", "k INT, v INT", primary_key=["k"])

    with pytest.raises(TableNotFoundError, match="dropped"):
        store.jobs.commit(
            Proposal(operation="write", started=store.environment.now(), segments=late)
        )
    assert contents(store, "t") == []
    assert contents(store, "t", epoch=3) == [(1, 1)]
    with pytest.raises(TableNotFoundError, match="epoch 4"):
        store.at(4).table("t")


def test_threads_that_make_one_table(store: Store) -> None:
    """One of them creates it; with if_not_exists all of them get it."""
    made: list[object] = []

    def make(name: str, if_not_exists: bool) -> None:
        try:
            table = store.create_table(
                name, "k INT", primary_key=["k"], if_not_exists=if_not_exists
            )
            made.append(table.name)
        except TableExistsError as error:
            made.append(type(error))

    for name, if_not_exists in (("one", False), ("all", True)):
        made.clear()
        threads = [threading.Thread(target=make, args=(name, if_not_exists)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert made.count(name) == (4 if if_not_exists else 1)
        assert len(made) == 4
    assert store.tables() == ("all", "one")
    assert store.epoch == 3


@in_folder
def test_two_may_drop_one_table_with_if_exists(store: Store) -> None:
    """At whatever moment the second drop comes between."""
    for moment in range(1, 30):
        store.create_table("t", "k INT", primary_key=["k"])
        touches = itertools.count(1)

        def drop_at_the_moment(_: str, moment: int = moment, touches: Any = touches) -> None:
            if next(touches) == moment:
                store.drop_table("t")

        environment = FaultyEnvironment(store.path, before=drop_at_the_moment)
        Store.open(store.path, environment=environment).drop_table("t", if_exists=True)
        assert store.tables() == ()
        if next(touches) <= moment:
            break
    assert moment > 10


def test_a_truncated_table_takes_later_rows(store: Store) -> None:
    """Rows that are written before and committed after it are kept; so are older epochs."""
    store.create_table("t", "k INT, v INT", primary_key=["k"])
    upsert(store, "t", [(1, 1), (2, 1)])
    late = written(store, "t", [(2, 2)])

    assert store.truncate("t") == 4
    assert contents(store, "t") == []
    store.jobs.commit(Proposal(operation="write", started=store.environment.now(), segments=late))
    assert contents(store, "t") == [(2, 2)]
    assert contents(store, "t", epoch=3) == [(1, 1), (2, 1)]
    assert contents(store, "t", epoch=4) == []
