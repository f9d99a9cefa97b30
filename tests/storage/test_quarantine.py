"""The quarantine of a table comes, goes and is renamed with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from relstate.storage import Store
from relstate.storage.errors import (
    InternalTableError,
    OptionError,
    SchemaMismatchError,
    TableNotFoundError,
)
from relstate.storage.log.state import StoreState

NAME = "t__quarantine"


@pytest.fixture
def quarantined(store: Store) -> Store:
    """A store with a table that has a quarantine with an index."""
    store.create_table("t", "k INT, v STRING", primary_key=["k"])
    store.jobs.quarantine_target("T")
    store.create_index(NAME, "by_rule", ["rule"])
    return store


def test_a_quarantine_is_created_once(quarantined: Store) -> None:
    """It is an ordinary table beside its own; the second write finds it."""
    epoch = quarantined.epoch
    target = quarantined.jobs.quarantine_target("t")

    assert quarantined.epoch == epoch
    assert target.definition.name == NAME
    assert quarantined.tables() == ("t", NAME)
    assert quarantined.state.quarantine_of(1) == target.definition
    with pytest.raises(OptionError, match="is a quarantine"):
        quarantined.jobs.quarantine_target(NAME)
    with pytest.raises(TableNotFoundError):
        quarantined.jobs.quarantine_target("u")


def test_a_quarantine_of_an_internal_table_is_refused(quarantined: Store) -> None:
    """Nobody writes the table of an index."""
    with pytest.raises(InternalTableError):
        quarantined.jobs.quarantine_target(quarantined.indexes(NAME)[0].internal_table)


def test_a_quarantine_is_dropped_and_renamed_with_its_table(quarantined: Store) -> None:
    """The rows of another table of the same name never meet them."""
    quarantined.rename_table("t", "u")
    assert quarantined.tables() == ("u", "u__quarantine")
    quarantined.create_table("u", "k INT", primary_key=["k"], or_replace=True)
    assert quarantined.tables() == ("u",)
    quarantined.jobs.quarantine_target("u")
    quarantined.drop_table("u")
    assert quarantined.tables() == ()


def test_a_quarantine_is_dropped_alone(quarantined: Store) -> None:
    """Then the table has none, and the next write creates it."""
    quarantined.drop_table(NAME)
    assert quarantined.state.quarantine_of(1) is None
    quarantined.jobs.quarantine_target("t")
    assert quarantined.tables() == ("t", NAME)


def test_an_altered_quarantine_is_refused(quarantined: Store) -> None:
    """Columns may be added, but none may be missing."""
    quarantined.add_columns(NAME, "note STRING")
    quarantined.jobs.quarantine_target("t")
    quarantined.drop_columns(NAME, "reason")
    with pytest.raises(SchemaMismatchError, match="drop it, and the next write creates it"):
        quarantined.jobs.quarantine_target("t")


@pytest.mark.parametrize("action", ["drop", "rename", "replace"])
def test_a_quarantine_that_comes_meanwhile_is_not_left_behind(
    store: Store, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who drops or renames a table sees the quarantine that it gets at this moment."""
    store.create_table("t", "k INT", primary_key=["k"])
    actions: dict[str, Callable[[], object]] = {
        "drop": lambda: store.drop_table("t"),
        "rename": lambda: store.rename_table("t", "u"),
        "replace": lambda: store.create_table("t", "k INT", primary_key=["k"], or_replace=True),
    }
    original, looks = StoreState.quarantine_of, []

    def late(state: StoreState, table_id: int) -> Any:
        looks.append(table_id)
        if len(looks) == 1:
            with Store.open(store.path) as other:
                other.jobs.quarantine_target("t")
            return None
        return original(state, table_id)

    monkeypatch.setattr(StoreState, "quarantine_of", late)
    actions[action]()

    left = {"drop": (), "rename": ("u", "u__quarantine"), "replace": ("t",)}
    assert store.tables() == left[action]
