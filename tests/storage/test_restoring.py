"""The laws of bringing back the rows of an earlier epoch."""

from __future__ import annotations

import pytest

from relstate.storage import Store
from relstate.storage.errors import (
    EpochNotFoundError,
    InternalTableError,
    SchemaError,
    TableNotFoundError,
)
from support.stores import contents
from support.views import new_view


@pytest.fixture
def changed(store: Store) -> tuple[Store, int]:
    """A table that changed since an epoch: rows, the name of a column, another column."""
    store.create_table("t", "k BIGINT, v STRING, w INT", primary_key=["k"])
    epoch = store.write("t", [{"k": 1, "v": "a", "w": 5}, {"k": 2, "v": None, "w": None}])
    store.write("t", [{"k": 1, "v": "b"}, {"k": 3, "v": "c"}])
    store.rename_column("t", "v", "text")
    store.widen_column("t", "w", "BIGINT")
    store.add_columns("t", "extra INT")
    return store, epoch


def test_the_rows_are_those_of_the_epoch(changed: tuple[Store, int]) -> None:
    """No others; columns have their names and types of now, and what came later is NULL."""
    store, epoch = changed
    before = store.epoch

    assert store.restore("t", epoch) == store.epoch == before + 1
    assert contents(store, "t") == [(1, "a", 5, None), (2, None, None, None)]


def test_it_can_be_undone(changed: tuple[Store, int]) -> None:
    """By the epoch before it, which may have had no rows."""
    store, epoch = changed
    before, rows = store.epoch, contents(store, "t")
    store.restore("t", epoch)
    store.restore("t", before)
    assert contents(store, "t") == rows

    store.restore("t", epoch - 1)
    assert contents(store, "t") == []


def test_rows_without_a_key_come_back(store: Store) -> None:
    """As many times as they were there."""
    store.create_table("log", "v INT")
    epoch = store.write("log", [{"v": 1}, {"v": 1}, {"v": 2}])
    store.write("log", [{"v": 3}])

    store.restore("log", epoch)

    assert sorted(contents(store, "log")) == [(1,), (1,), (2,)]


def test_what_cannot_be_restored_is_said(changed: tuple[Store, int]) -> None:
    """Nothing is committed."""
    store, epoch = changed
    store.create_table("later", "k INT", primary_key=["k"])
    store.view_catalog.create(new_view(store, "v", "t"))
    store.drop_columns("t", "extra")
    last = store.epoch

    with pytest.raises(TableNotFoundError, match="there was no table 'later' at epoch"):
        store.restore("later", epoch)
    with pytest.raises(SchemaError, match="the column 'extra', which table 't' had"):
        store.restore("t", last - 1)
    with pytest.raises(InternalTableError):
        store.restore("v", last)
    with pytest.raises(EpochNotFoundError):
        store.restore("t", last + 1)
    assert store.epoch == last
