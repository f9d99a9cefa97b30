"""Laws of a store: what is in it, what changes it, and what it refuses."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import relstate
from relstate.storage import CommitResult, Proposal, Store, Transaction
from relstate.storage.errors import (
    ClosedError,
    EpochNotFoundError,
    NotAStoreError,
    OptionError,
    RelstateError,
    SchemaError,
    StoreExistsError,
    StoreNotFoundError,
    TableExistsError,
    TableNameError,
    TableNotFoundError,
    UnsupportedTypeError,
)
from support.faulty_environment import FaultyEnvironment
from support.places import BOTH, in_folder
from support.stores import StoreMaker, contents, unsynced, upsert, written

STORE_PLACES = BOTH

# Making and opening


def test_a_store_is_made_and_opened(tmp_path: Path) -> None:
    """The settings are stored; the path may be a `Path`."""
    path = tmp_path / "a" / "b"
    with relstate.create(str(path), vnode_count=40, shards=4, retention=60) as made:
        assert (made.path, made.epoch, made.tables()) == (str(path), 1, ())
        assert repr(made) == f"Store({str(path)!r})"
    with relstate.open(path) as opened:  # type: ignore[arg-type]
        assert opened.settings == made.settings
        assert (opened.settings.vnode_count, opened.settings.shards) == (40, 4)
        assert opened.check().ok


def test_small_stores_have_fewer_shards(make_store: StoreMaker) -> None:
    """There are 16 by default, and never more than vnodes."""
    assert make_store(vnode_count=1).settings.shards == 1
    assert make_store().settings.shards == 16
    assert make_store().settings.vnode_count == 256


@pytest.mark.parametrize(
    "options",
    [
        {"vnode_count": 0},
        {"vnode_count": 32_769},
        {"vnode_count": -1},
        {"shards": 0},
        {"vnode_count": 4, "shards": 5},
        {"retention": -1},
    ],
)
def test_impossible_options_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    """Nothing is created."""
    with pytest.raises(OptionError, match=next(reversed(options))):
        relstate.create(str(tmp_path / "store"), **options)
    assert not (tmp_path / "store").exists()


def test_a_store_is_made_once(store: Store) -> None:
    """Creating it again is an error, or opens it as it is."""
    with pytest.raises(StoreExistsError, match="open it"):
        relstate.create(store.path)
    with relstate.create(store.path, vnode_count=9, exist_ok=True) as same:
        assert same.settings == store.settings


def test_paths_without_a_store_are_refused(tmp_path: Path) -> None:
    """A missing path, a file and a folder of other files each have an error of their own."""
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.write_text("text")
    folder.mkdir()
    (folder / "other").write_text("text")

    with pytest.raises(StoreNotFoundError, match="nothing"):
        relstate.open(str(tmp_path / "none"))
    for path in (file, folder, tmp_path):
        with pytest.raises(NotAStoreError, match=path.name):
            relstate.open(str(path))
        with pytest.raises(NotAStoreError, match=path.name):
            relstate.create(str(path))
    assert sorted(path.name for path in folder.iterdir()) == ["other"]


def test_two_stores_in_one_process(make_store: StoreMaker) -> None:
    """Tables of one name, ids and keys are different tables; closing one leaves the other."""
    first, second = make_store(vnode_count=3), make_store(vnode_count=5)
    for store, value in ((first, 1), (second, 2)):
        store.create_table("t", "k INT, v INT", primary_key=["k"])
        upsert(store, "t", [(0, value)])

    assert (first.table("t").get(0), second.table("t").get(0)) == ((0, 1), (0, 2))
    first.close()
    assert second.table("t").get(0) == (0, 2)


@in_folder
def test_one_store_twice_in_one_process(store: Store, tmp_path: Path) -> None:
    """Also by another path: each handle sees what the other commits, and both read all rows."""
    store.create_table("t", "k INT, v INT", primary_key=["k"])
    upsert(store, "t", [(0, 0)])
    link = tmp_path / "link"
    link.symlink_to(store.path)
    with Store.open(store.path) as same, Store.open(str(link)) as linked:
        handles = (store, same, linked)
        tables = [handle.table("t") for handle in handles]
        for number, handle in enumerate(handles):
            upsert(handle, "t", [(0, number)])
            assert [table.get(0) for table in tables] == [(0, number)] * 3
            assert [contents(handle, "t") for handle in handles] == [[(0, number)]] * 3
        assert linked.check().ok


def test_a_closed_store_says_so(store: Store) -> None:
    """Every call raises ClosedError; closing it again is harmless."""
    store.create_table("t", "k INT", primary_key=["k"])
    state_table = store.state_table("t")
    state_table.insert([1])
    store.close()
    store.close()

    calls: list[Callable[[], object]] = [
        lambda: store.epoch,
        lambda: store.state,
        store.tables,
        store.check,
        state_table.commit,
        lambda: store.table("t"),
        lambda: store.state_table("t"),
        lambda: store.at(1),
        lambda: store.truncate("t"),
        lambda: store.drop_table("t"),
        lambda: store.create_table("u", "k INT", primary_key=["k"]),
        lambda: store.read_plan("t"),
        lambda: store.jobs.write_target("t"),
    ]
    for call in calls:
        with pytest.raises(ClosedError, match="open it again"):
            call()


# Tables


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


@pytest.mark.parametrize(
    "name", ["", "a b", "1a", "a-b", "../t", "a/b", "t\0", "ü", "a" * 129, "__internal_x", "t\n"]
)
def test_impossible_names_are_refused(store: Store, name: str) -> None:
    """No table and no file is made."""
    with pytest.raises(TableNameError):
        store.create_table(name, "k INT", primary_key=["k"])
    with pytest.raises(TableNotFoundError):
        store.table(name)
    assert store.epoch == 1


@pytest.mark.parametrize(
    ("columns", "primary_key", "distribution_key", "error"),
    [
        ("k INT", [], None, SchemaError),
        ("k INT", ["x"], None, SchemaError),
        ("k INT", ["k", "k desc"], None, SchemaError),
        ("k INT, K INT", ["k"], None, SchemaError),
        ("k INT, v INT", ["k"], ["v"], SchemaError),
        ("k MAP<INT, INT>", ["k"], None, SchemaError),
        ("k VARIANT", ["k"], None, SchemaError),
        ("k INT, v NONSENSE", ["k"], None, RelstateError),
        ("k INT, v INTERVAL", ["k"], None, UnsupportedTypeError),
        ("", ["k"], None, SchemaError),
        ("k INT", "k", None, SchemaError),
    ],
)
def test_impossible_tables_are_refused(
    store: Store, columns: str, primary_key: Any, distribution_key: Any, error: type[Exception]
) -> None:
    """No epoch is committed."""
    with pytest.raises(error):
        store.create_table("t", columns, primary_key=primary_key, distribution_key=distribution_key)
    assert (store.tables(), store.epoch) == ((), 1)


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


# Epochs


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


def test_one_commit_may_change_many_tables(store: Store) -> None:
    """All of them in one epoch, or none."""
    for name in ("a", "b"):
        store.create_table(name, "k INT, v INT", primary_key=["k"])
    writer = store.jobs.segment_writer()
    for name in ("b", "a"):
        encoding = store.read_plan(name).open().encoding
        rows = pa.record_batch({"k": pa.array([1], pa.int32()), "v": pa.array([7], pa.int32())})
        writer.add(*encoding.encode(rows))
    segments = writer.finish()
    assert len(segments) == 1
    done = store.jobs.commit(
        Proposal(operation="write", started=store.environment.now(), segments=segments)
    )

    assert done.committed
    for name in ("a", "b"):
        assert contents(store, name) == [(1, 7)]
        assert contents(store, name, done.epoch - 1) == []


def test_a_batch_is_committed_once(store: Store) -> None:
    """A repeated transaction of a writer is recognised, by whichever handle it comes."""
    store.create_table("t", "k INT, v INT", primary_key=["k"])
    table_id = store.state.table("t").definition.table_id

    def commit(handle: Store, batch: int, value: int) -> CommitResult:
        return handle.jobs.commit(
            Proposal(
                operation="write",
                started=handle.environment.now(),
                segments=written(handle, "t", [(1, value)]),
                transactions=(Transaction("writer", table_id, batch),),
            )
        )

    with Store.open(store.path, environment=unsynced(store.path)) as other:
        assert commit(store, 1, 10).committed
        assert not commit(other, 1, 11).committed
        assert commit(other, 5, 50).committed
        assert not commit(store, 3, 30).committed
    assert contents(store, "t") == [(1, 50)]


@pytest.mark.parametrize("epoch", [0, -1, 3, 10**12])
def test_missing_epochs_are_refused(store: Store, epoch: int) -> None:
    """The error says which there are."""
    store.create_table("t", "k INT", primary_key=["k"])

    with pytest.raises(EpochNotFoundError, match=f"{epoch}.*at epoch 2"):
        store.at(epoch)


def test_a_snapshot_is_of_its_epoch(store: Store) -> None:
    """Its tables and their rows stay as they were."""
    store.create_table("t", "k INT, v INT", primary_key=["k"])
    upsert(store, "t", [(1, 1)])
    snapshot = store.at(3)
    table = snapshot.table("T")
    upsert(store, "t", [(1, 2)])
    store.create_table("u", "k INT", primary_key=["k"])
    store.drop_table("t")

    assert (snapshot.epoch, snapshot.tables()) == (3, ("t",))
    assert table.get(1) == snapshot.table("t").get(1) == (1, 1)
    with pytest.raises(TableNotFoundError, match="'u' at epoch 3"):
        snapshot.table("u")
