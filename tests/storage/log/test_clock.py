"""Wrong clocks: no commit is far ahead of the clock of files; a repair undoes one that was."""

from __future__ import annotations

from pathlib import Path

import pytest

from relstate.storage import Store
from relstate.storage.clock import CLOCK_TOLERANCE
from relstate.storage.errors import ClockError
from relstate.storage.local_environment import LocalEnvironment
from relstate.storage.log.checkpoint import decode_checkpoint, encode_checkpoint
from relstate.storage.log.history import EntryCache
from relstate.storage.log.log import Log
from relstate.storage.log.state import StoreState
from relstate.storage.log.transaction import commit, repair_clock
from support.clock import ManualClock
from support.commits import (
    UnsyncedDisk,
    advanced,
    committed,
    entries_on_disk,
    quick_environment,
    truncation,
)
from support.stores import upsert

YEAR = 365 * 24 * 3600


def by_another_clock(root: str | Path, clock: ManualClock, seconds: float) -> LocalEnvironment:
    """Return an environment of a machine that is some seconds ahead of the file system's clock."""
    machine = ManualClock(clock.now() + round(seconds * 1_000_000))
    return LocalEnvironment(str(root), UnsyncedDisk(clock), machine)


def test_a_commit_far_ahead_of_the_file_systems_clock_is_refused(
    store: tuple[Log, StoreState], clock: ManualClock
) -> None:
    """Up to the tolerance it is accepted; beyond that nothing is committed."""
    log, state = store
    root = log.environment.location("")
    tolerated = by_another_clock(root, clock, CLOCK_TOLERANCE / 1_000_000)
    state = committed(Log(tolerated), state, truncation(tolerated))
    assert state.time == clock.now() + CLOCK_TOLERANCE

    ahead = by_another_clock(root, clock, YEAR)
    with pytest.raises(ClockError, match="31536000 s ahead of the file system's clock"):
        commit(Log(ahead), state, truncation(ahead))
    assert log.refresh(state) == state
    with pytest.raises(ClockError, match="ahead"):
        Store.create(f"{root}-2", environment=by_another_clock(f"{root}-2", clock, YEAR))


def test_a_clock_that_is_ahead_removes_nothing(tmp_path: Path, clock: ManualClock) -> None:
    """Neither history nor rows with a TTL: vacuum and compaction are refused."""
    path = str(tmp_path / "store")
    with Store.create(path, environment=quick_environment(path, clock)) as store:
        store.create_table("t", "k BIGINT, v STRING", primary_key=["k"], ttl=3600)
        for key in range(3):
            upsert(store, "t", [(key, "a")])
        with Store.open(path, environment=by_another_clock(path, clock, YEAR)) as ahead:
            with pytest.raises(ClockError):
                ahead.vacuum()
            with pytest.raises(ClockError):
                ahead.compact("t")

        assert store.check().ok
        assert sum(batch.num_rows for batch in store.table("t").scan()) == 3
        assert store.at(3).epoch == 3


def wronged(log: Log, state: StoreState, clock: ManualClock, epochs: int) -> StoreState:
    """Let a machine whose clocks are a year ahead commit some epochs."""
    machine = ManualClock(clock.now() + YEAR * 1_000_000)
    environment = quick_environment(log.environment.location(""), machine)
    for _ in range(epochs):
        machine.advance(1)
        state = committed(Log(environment), state, truncation(environment))
    return state


def test_a_repair_leads_out_of_a_wrong_clock(
    store: tuple[Log, StoreState], clock: ManualClock
) -> None:
    """Writers with right clocks are refused until a repair; then the store's time is theirs."""
    log, state = store
    clock.advance(10)
    state = wronged(log, state, clock, 3)
    clock.advance(10)
    with pytest.raises(ClockError, match=r"behind the commit of epoch 6 .*repair --clock"):
        commit(log, state, truncation(log.environment))

    repaired = repair_clock(log, state)
    assert (repaired.committed, repaired.state.time) == (True, clock.now())
    assert Log(log.environment, EntryCache()).load() == repaired.state
    state = advanced(log, repaired.state, 9)
    assert state.time == clock.now()
    again = repair_clock(log, state)
    assert (again.committed, again.epoch) == (False, 9)


def test_times_find_epochs_across_repairs(
    store: tuple[Log, StoreState], clock: ManualClock
) -> None:
    """Epochs dated by a wrong clock count as committed at the repair, all others by their own
    time.
    """
    log, state = store
    expected: dict[int, int] = {}
    for _ in range(3):
        for _ in range(12):
            clock.advance(10)
            state = committed(log, state, truncation(log.environment))
            expected[clock.now()] = state.epoch
        state = wronged(log, state, clock, 7)
        clock.advance(10)
        state = repair_clock(log, state).state
        expected[clock.now()] = state.epoch

    assert state.clock_repairs == (23, 43, 63)
    for time, epoch in expected.items():
        assert log.history.epoch_at(state, time) == epoch
        assert log.history.epoch_at(state, time + 9_999_999) == epoch


def test_a_checkpoint_keeps_the_repairs(store: tuple[Log, StoreState], clock: ManualClock) -> None:
    """Without repairs its bytes are those of format 1."""
    log, state = store
    assert b"clock_repairs" not in encode_checkpoint(state)
    state = repair_clock(log, wronged(log, state, clock, 1)).state

    assert decode_checkpoint(encode_checkpoint(state), state.epoch, "") == state
    assert state.clock_repairs == (5,)
    assert [entry.operation for entry in entries_on_disk(log.environment, 5, 5)] == ["repair clock"]
    with Store.open("", environment=log.environment) as opened:
        assert opened.check().problems == ()
