"""Following the commit log: a state of one store leads to its newest."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from relstate.storage.errors import CorruptionError, StoreNotFoundError
from relstate.storage.local_environment import LocalEnvironment
from relstate.storage.log.entry import Entry, encode_entry
from relstate.storage.log.log import Log
from relstate.storage.log.store_creation import create_store
from relstate.storage.log.transaction import commit
from relstate.storage.paths import entry_path
from support.clock import ManualClock
from support.commits import (
    SETTINGS,
    advanced,
    committed,
    creation,
    new_store,
    quick_environment,
    truncation,
)
from support.faulty_environment import FaultyEnvironment
from support.histories import following


def test_refreshing_follows_the_log(environment: LocalEnvironment) -> None:
    """New entries are folded onto the state; after a fold of the log it is loaded."""
    log, old = new_store(environment, "orders")
    reader = Log(environment)
    for epoch in (3, 5, 40, 200):
        new = advanced(log, old, epoch)

        assert reader.refresh(old) == new
        assert reader.refresh(reader.refresh(old)) == new


def test_the_folder_is_listed_once_a_minute(environment: LocalEnvironment) -> None:
    """It bounds how long a stale cache can hide an entry."""
    clock = ManualClock()
    _, state = new_store(quick_environment(environment.root, clock), "orders")
    watched = FaultyEnvironment(environment.root, clock=clock)
    reader = Log(watched)
    state = reader.load()
    for wait, listings in ((59.0, 0), (2.0, 1), (58.0, 0), (3.0, 1)):
        clock.advance(wait)
        before = len(watched.touches)
        assert reader.refresh(state) is state
        assert watched.touches[before:].count("list _log") == listings


def test_a_cache_that_hides_the_next_entry_is_seen_through(environment: LocalEnvironment) -> None:
    """A listing that shows a newer entry leads to it within a minute."""
    clock = ManualClock()
    log, state = new_store(quick_environment(environment.root, clock), "orders")

    class Stale(LocalEnvironment):
        def exists(self, name: str) -> bool:
            return name != entry_path(3) and super().exists(name)

    reader = Log(Stale(environment.root, clock=clock))
    reader.load()
    newer = advanced(log, state, 3)

    assert reader.refresh(state) is state
    clock.advance(61)
    assert reader.refresh(state) == newer


def test_a_store_that_was_replaced_is_told(environment: LocalEnvironment) -> None:
    """A state of one store is never followed by another store's entries."""
    log, state = new_store(environment, "orders", "items")
    shutil.rmtree(environment.root)
    create_store(Log(environment), replace(SETTINGS, store_id="another"))

    with pytest.raises(CorruptionError, match="another store has replaced"):
        log.refresh(state)


def test_a_store_that_was_replaced_by_an_equally_old_one_is_told(
    environment: LocalEnvironment,
) -> None:
    """A writer finds it before it adds to the other log, a reader within a minute."""
    clock = ManualClock()
    log, state = new_store(quick_environment(environment.root, clock), "orders")
    shutil.rmtree(environment.root)
    foreign_log = Log(quick_environment(environment.root, clock))
    others_state = create_store(foreign_log, replace(SETTINGS, store_id="another"))
    others_state = committed(foreign_log, others_state, creation(foreign_log.environment, "orders"))

    assert log.refresh(state) is state
    with pytest.raises(CorruptionError, match="another store"):
        commit(log, state, truncation(log.environment))
    assert foreign_log.load() == others_state
    clock.advance(61)
    with pytest.raises(CorruptionError, match="another store"):
        log.refresh(state)


def test_a_store_that_was_deleted_is_told(environment: LocalEnvironment) -> None:
    """Its reader raises an error."""
    log, state = new_store(environment, "orders")
    shutil.rmtree(environment.root)

    with pytest.raises(StoreNotFoundError):
        log.refresh(state)


def test_a_log_that_lost_its_end_is_told(environment: LocalEnvironment) -> None:
    """After an epoch was read, an older one is not accepted as the newest."""
    log, state = new_store(environment, "orders")
    state = advanced(log, state, 5)
    environment.remove(entry_path(5))

    with pytest.raises(CorruptionError, match=r"0005\.json: .*although epoch 5 was read"):
        log.refresh(state)


def test_entries_written_by_hand_are_followed(environment: LocalEnvironment) -> None:
    """Any program that follows the format may write entries."""
    log, state = new_store(environment, "orders")
    entry: Entry = following(state, operation="by hand")
    Path(environment.local_path(entry_path(3))).write_bytes(encode_entry(entry))

    assert log.refresh(state) == state.apply(entry)
    assert commit(log, state, creation(environment, "items")).epoch == 4
    assert commit(log, state, truncation(environment)).epoch == 5
