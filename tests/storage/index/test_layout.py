"""Indexes are created, listed, dropped and altered with their tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from relstate.storage import Store
from relstate.storage.errors import (
    IndexExistsError,
    IndexNotFoundError,
    InternalTableError,
    SchemaError,
    TableNameError,
    TableNotFoundError,
)
from support.stores import contents, upsert
from support.views import new_view


@pytest.fixture
def table(store: Store) -> Store:
    """A store with a table of two rows."""
    columns = "k BIGINT, v STRING, w INT, m MAP<STRING, INT>"
    store.create_table("t", columns, primary_key=["k"])
    upsert(store, "t", [(1, "a", 1, None), (2, "b", 2, None)])
    return store


def test_indexes_are_listed(table: Store) -> None:
    """As they were created: columns with their orders, the included ones, unique or not."""
    table.create_index("t", "First", ["V desc", "w nulls last"], include=["m", "k", "v"])
    table.create_index("t", "second", ["w"], unique=True)

    first, second = table.indexes("t")
    assert (first.name, first.columns, first.included) == (
        "First",
        ("v DESC", "w NULLS LAST"),
        ("m",),
    )
    assert (second.columns, second.unique, first.unique) == (("w",), True, False)
    assert table.tables() == ("t",)
    assert len(contents(table, first.internal_table)) == 2


@pytest.mark.parametrize(
    ("arguments", "error", "reason"),
    [
        (("t", "i-", ["v"]), TableNameError, "not the name of an index"),
        (("t", "i", []), SchemaError, "has no columns"),
        (("t", "i", "v"), SchemaError, "expected a list"),
        (("t", "i", ["nope"]), SchemaError, "no column 'nope'"),
        (("t", "i", ["v", "V"]), SchemaError, "twice"),
        (("t", "i", ["m"]), SchemaError, "have no order"),
        (("u", "i", ["v"]), TableNotFoundError, "no table 'u'"),
        (("t", "OLD", ["v"]), IndexExistsError, "has an index 'OLD' already"),
    ],
)
def test_an_index_that_cannot_be_is_refused(
    table: Store, arguments: tuple[Any, ...], error: type[Exception], reason: str
) -> None:
    """By its name, its columns, their types, or because it is there."""
    table.create_index("t", "old", ["v"])
    with pytest.raises(error, match=reason):
        table.create_index(*arguments)


def test_creation_and_dropping_can_be_repeated(table: Store) -> None:
    """With if_not_exists and if_exists; without them it is an error."""
    epoch = table.create_index("t", "i", ["v"])
    assert table.create_index("t", "I", ["w"], if_not_exists=True) == epoch
    table.drop_index("t", "I")
    assert table.drop_index("t", "i", if_exists=True) == table.epoch
    with pytest.raises(IndexNotFoundError, match="has no index 'i'; its indexes are: none"):
        table.drop_index("t", "i")
    with pytest.raises(IndexNotFoundError):
        table.table("t").get_by("i", "a")


def test_a_table_is_dropped_with_its_indexes(table: Store) -> None:
    """Nothing of them stays in the catalog, and the names are free again."""
    table.create_index("t", "i", ["v"])
    table.drop_table("t")
    assert table.state.tables == {}
    table.create_table("t", "k INT, v STRING", primary_key=["k"])
    table.create_index("t", "i", ["v"])


def test_the_entries_are_nobody_else_s(table: Store) -> None:
    """The internal table of an index cannot be written, altered, dropped or read by a view."""
    table.create_index("t", "i", ["v"])
    internal = table.indexes("t")[0].internal_table
    for act in (
        lambda: table.jobs.write_target(internal),
        lambda: table.truncate(internal),
        lambda: table.drop_table(internal),
        lambda: table.add_columns(internal, "z INT"),
        lambda: table.create_index(internal, "j", ["v"]),
        lambda: table.view_catalog.create(new_view(table, "x", internal)),
    ):
        with pytest.raises(InternalTableError, match="holds an index of table 't'"):
            act()


def test_views_have_no_indexes(table: Store) -> None:
    """Only tables do; the error says what to do instead."""
    table.view_catalog.create(new_view(table, "x", "t"))
    with pytest.raises(InternalTableError, match=r"'x' is a view, .* give the view an ORDER BY"):
        table.create_index("x", "i", ["v"])


def test_a_column_of_an_index_stays(table: Store) -> None:
    """It is neither dropped nor widened, but may be renamed; other columns may change."""
    table.create_index("t", "i", ["v"], include=["w"])
    changes: list[Callable[[], object]] = [
        lambda: table.drop_columns("t", "v"),
        lambda: table.drop_columns("t", "w"),
        lambda: table.widen_column("t", "w", "BIGINT"),
    ]
    for change in changes:
        with pytest.raises(SchemaError, match="is in the index 'i' of table 't'"):
            change()
    table.rename_column("t", "v", "name")
    table.add_columns("t", "v STRING")
    table.drop_columns("t", "m")
    upsert(table, "t", [(3, "c", 3, "other")])
    assert table.indexes("t")[0].columns == ("name",)
    assert [row.k for row in table.table("t").get_by("i", "c")] == [3]
    (batch,) = table.table("t").scan(["k"], where="name = 'c'")
    assert batch.to_pylist() == [{"k": 3}]
    assert list(table.table("t").scan(["k"], where="v = 'c'")) == []


def test_a_reopened_store_has_its_indexes(table: Store) -> None:
    """They are in the log, and in the checkpoints that it folds to."""
    table.create_index("t", "i", ["v"], include=["w"], unique=True)
    while table.epoch < 100:
        table.create_table("passing", "k INT", primary_key=["k"])
        table.drop_table("passing")
    with Store.open(table.path, environment=table.environment) as reopened:
        assert reopened.indexes("t") == table.indexes("t")
        assert reopened.state == table.state
