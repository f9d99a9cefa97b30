"""Pickled stores, snapshots and tables, and the epochs that they read."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from relstate.storage import Store
from relstate.storage.errors import ClosedError, OptionError, StoreNotFoundError, TableNotFoundError
from relstate.storage.snapshot import LatestReaders
from support.stores import contents, upsert


@pytest.fixture
def filled(store: Store) -> Store:
    """A store with a table of one row."""
    store.create_table("t", "k INT, v STRING", primary_key=["k"])
    upsert(store, "t", [(1, "old")])
    return store


def test_a_table_pickles_and_follows_the_latest_epoch(filled: Store) -> None:
    """The copy is read through a store of its own, as in another process."""
    copy = pickle.loads(pickle.dumps(filled.table("t")))
    upsert(filled, "t", [(1, "new")])
    filled.close()

    assert copy.name == "t"
    assert copy.get(1) == (1, "new")


def test_a_table_of_a_snapshot_pickles_with_its_epoch(filled: Store) -> None:
    """Later commits are not seen."""
    packed = pickle.dumps(filled.at(filled.epoch).table("t"))
    upsert(filled, "t", [(1, "new")])

    assert pickle.loads(packed).get(1) == (1, "old")


def test_a_snapshot_pickles_with_its_epoch(filled: Store) -> None:
    """The copy has the tables of that epoch."""
    packed = pickle.dumps(filled.at(filled.epoch))
    upsert(filled, "t", [(1, "new")])
    copy = pickle.loads(packed)

    assert copy.epoch == filled.epoch - 1
    assert copy.table("t").get(1) == (1, "old")


def test_a_store_pickles_by_its_path(filled: Store) -> None:
    """The copy reads and writes."""
    with pickle.loads(pickle.dumps(filled)) as copy:
        upsert(copy, "t", [(2, "b")])

    assert contents(filled, "t") == [(1, "old"), (2, "b")]


def test_what_was_dropped_meanwhile_is_missing(filled: Store, tmp_path: Path) -> None:
    """A table that was dropped, and a store that was moved."""
    packed = pickle.dumps(filled.table("t"))
    filled.drop_table("t")
    with pytest.raises(TableNotFoundError, match="'t'"):
        pickle.loads(packed)

    with Store.create(str(tmp_path / "moved")) as moved:
        store = pickle.dumps(moved)
    (tmp_path / "moved").rename(tmp_path / "elsewhere")
    with pytest.raises(StoreNotFoundError):
        pickle.loads(store)


@pytest.mark.parametrize("epoch", ["3", 2.0, None, True])
def test_an_epoch_is_an_integer(filled: Store, epoch: object) -> None:
    """A text, a float or a bool is refused by name; numpy's integers are integers."""
    with pytest.raises(OptionError, match="an epoch is an integer, not"):
        filled.at(epoch)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="an epoch is an integer, not"):
        filled.changes("t", epoch)  # type: ignore[arg-type]

    assert filled.at(np.int64(3)).epoch == 3  # type: ignore[arg-type]


def test_a_table_that_is_asked_for_again_is_open(filled: Store) -> None:
    """It shows what was committed since; of many tables, those that were asked for last are."""
    readers = LatestReaders(Store.open(filled.path)._epochs)
    first = readers.reader("t")

    assert readers.reader("t") is first
    upsert(filled, "t", [(1, "new")])
    assert readers.reader("t")().get((1,)) == (1, "new")

    names = [f"t{number}" for number in range(LatestReaders._MOST)]
    for name in names:
        filled.create_table(name, "k INT", primary_key=["k"])
    second = readers.reader("t")
    for name in names:
        readers.reader(name)
    assert readers.reader(names[-1]) is readers.reader(names[-1])
    assert readers.reader("t") is not second


def test_a_table_that_was_dropped_is_not_found_again(filled: Store) -> None:
    """Nor is one of a closed store; a table that took its name is another."""
    table = filled.table("t")
    filled.drop_table("t")
    with pytest.raises(TableNotFoundError, match="'t'"):
        filled.table("t")
    filled.create_table("t", "k INT", primary_key=["k"])
    assert filled.table("t").get(1) is None
    assert table.get(1) is None

    filled.close()
    with pytest.raises(ClosedError):
        filled.table("t")
