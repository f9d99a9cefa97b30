"""Conflicts: what a commit has read is checked against all later commits, at every attempt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from relstate.storage.errors import ConflictError
from relstate.storage.local_environment import LocalEnvironment
from relstate.storage.log.entry import Entry
from relstate.storage.log.log import Log
from relstate.storage.log.proposal import Reads
from relstate.storage.log.state import StoreState
from relstate.storage.log.transaction import commit
from support.clock import ManualClock
from support.commits import advanced, committed, refused, truncation, upsert
from support.faulty_environment import FaultyEnvironment


def test_a_proposal_that_read_conflicts_with_a_change_of_it(store: tuple[Log, StoreState]) -> None:
    """The check is called for every data commit since, and for no other."""
    log, state = store
    asked: list[int] = []

    def conflicts(entry: Entry) -> bool:
        asked.append(entry.epoch)
        return 1 in entry.based_tables

    for table_id in (2, 2):
        newest = committed(log, state, truncation(log.environment, table_id))
    upkeep = replace(truncation(log.environment, 1), data_change=False)
    newest = committed(log, newest, upkeep)
    reading = replace(upsert(log.environment), reads=Reads(state.epoch, conflicts))
    assert committed(log, state, reading).epoch == 7
    assert asked == [4, 5]

    committed(log, newest, truncation(log.environment, 1))
    again = replace(upsert(log.environment), reads=Reads(state.epoch, conflicts))
    refused(
        log,
        state,
        again,
        ConflictError,
        r"epoch 8 \(truncate\) changed rows that were read at epoch 3",
    )


def test_what_was_read_is_checked_through_the_archive(store: tuple[Log, StoreState]) -> None:
    """However much was committed and folded since."""
    log, state = store
    committed(log, state, truncation(log.environment, 2))
    advanced(log, log.refresh(state), 100)
    reading = replace(
        upsert(log.environment), reads=Reads(state.epoch, lambda entry: 2 in entry.based_tables)
    )

    refused(log, state, reading, ConflictError, r"epoch 4 ")


def test_what_was_read_is_checked_once_an_epoch(store: tuple[Log, StoreState]) -> None:
    """After a lost race the check is called for new commits only."""
    log, state = store
    committed(log, state, truncation(log.environment, 2))
    asked: list[int] = []

    def ask(entry: Entry) -> bool:
        asked.append(entry.epoch)
        return False

    reading = replace(upsert(log.environment), reads=Reads(state.epoch, ask))
    late = FaultyEnvironment(
        log.environment.location(""),
        clock=ManualClock(),
        before=lambda touch: _rival(log, touch),
    )

    assert committed(Log(late), state, reading).epoch == 6
    assert asked == [4, 5]


def _rival(log: Log, touch: str) -> None:
    if touch == "link _log/00000000000000000005.json":
        committed(log, log.load(), truncation(log.environment, 2))


def test_blind_writes_never_conflict(store: tuple[Log, StoreState]) -> None:
    """All of several writers with the same old state commit."""
    log, old = store
    states = [committed(log, old, upsert(log.environment)) for _ in range(10)]

    assert [state.epoch for state in states] == list(range(4, 14))
    assert len(states[-1].segments_of(1)) == 10


def test_a_race_that_never_ends_is_given_up(
    store: tuple[Log, StoreState], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system that always says the slot is taken does not hang its writer."""
    log, state = store
    monkeypatch.setattr("relstate.storage.log.transaction._ATTEMPTS", 5)

    class Taken(LocalEnvironment):
        def put_if_absent(
            self, name: str, data: bytes, time: int | None = None, after: Sequence[str] = ()
        ) -> None:
            raise FileExistsError(name)

    stuck = Log(Taken(log.environment.location(""), clock=clock))
    with pytest.raises(ConflictError, match="lost the race for the next epoch 5 times"):
        commit(stuck, state, truncation(log.environment))
