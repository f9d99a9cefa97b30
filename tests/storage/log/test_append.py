"""Appending to the log: of the entries of one epoch exactly one is committed."""

from __future__ import annotations

import pytest

from relstate.storage.local_environment import LocalEnvironment
from relstate.storage.log.append import append
from relstate.storage.log.history import EntryCache
from relstate.storage.log.log import Log
from support.commits import new_store
from support.histories import following


def test_an_entry_is_appended_once(environment: LocalEnvironment) -> None:
    """The first gets the epoch; for the second, append returns False."""
    log, state = new_store(environment, "orders")
    first, second = (following(state, commit_id=commit_id) for commit_id in ("one", "other"))

    assert append(log, first)
    assert not append(log, second)
    assert log.refresh(state).commit_id == "one"


@pytest.mark.parametrize("removal_delay", [0.0, 600.0])
def test_appending_again_what_is_there_is_success(
    environment: LocalEnvironment, monkeypatch: pytest.MonkeyPatch, removal_delay: float
) -> None:
    """An entry is recognised by its commit id: only the response had been lost.

    Also where one look at the slot decides, because the entry before it was seen lately.
    """
    monkeypatch.setattr(environment, "removal_delay", removal_delay, raising=False)
    log, state = new_store(environment, "orders")
    other = Log(environment, EntryCache())
    other.load()
    entry = following(state)

    assert append(log, entry)
    assert append(log, entry)
    assert append(other, entry)
    assert log.refresh(state).epoch == 3


def test_who_loses_a_race_reads_the_entry_of_the_winner_once(
    environment: LocalEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look at the slot has it; on an object store each read is a request."""
    monkeypatch.setattr(environment, "removal_delay", 600.0, raising=False)
    log, state = new_store(environment, "orders")
    late = Log(environment, EntryCache())
    late.load()
    winner, loser = (following(state, commit_id=commit_id) for commit_id in ("one", "other"))
    assert append(log, winner)
    read_names: list[str] = []
    read = environment.read

    def counting_read(path: str) -> bytes:
        read_names.append(path)
        return read(path)

    monkeypatch.setattr(environment, "read", counting_read)

    assert not append(late, loser)
    assert late.refresh(state).commit_id == "one"
    assert len([name for name in read_names if f"{winner.epoch:020d}" in name]) == 1
