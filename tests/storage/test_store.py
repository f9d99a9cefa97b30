"""Laws of a store: what is in it, what changes it, and what it refuses."""

from __future__ import annotations

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
    StoreExistsError,
    StoreNotFoundError,
    TableNotFoundError,
)
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

    with pytest.raises(StoreNotFoundError, match="no store here"):
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


# Epochs


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
