"""Earlier epochs: which files are read for them, and that the cache mixes no stores."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from relstate.storage.errors import EpochExpiredError, EpochNotFoundError
from relstate.storage.local_environment import LocalEnvironment
from relstate.storage.log import history
from relstate.storage.log.history import EntryCache
from relstate.storage.log.log import Log
from relstate.storage.log.state import StoreState
from relstate.storage.maintenance.vacuum import vacuum
from relstate.storage.paths import BLOCK, archive_path, archived_checkpoint_path, entry_path
from support.clock import ManualClock
from support.commits import advanced, entries_on_disk, new_store, quick_environment
from support.faulty_environment import FaultyEnvironment


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store at epoch 15 with the table orders."""
    log, state = new_store(quick_environment(tmp_path / "store"), "orders")
    advanced(log, state, 15)
    return tmp_path / "store"


def watched(root: Path) -> tuple[FaultyEnvironment, Log, StoreState]:
    """Return a log of a store, opened by a process that has read nothing else, and its state."""
    environment = FaultyEnvironment(root)
    log = Log(environment, EntryCache())
    state = log.load()
    environment.touches.clear()
    return environment, log, state


def test_what_opening_has_read_is_not_read_again(root: Path) -> None:
    """All entries and states of a young store, in any order: no file is touched."""
    environment, log, state = watched(root)
    whole = entries_on_disk(quick_environment(root), 1, 15)

    assert list(log.history.entries(state, 1, 15)) == whole
    assert list(log.history.entries(state, 4, 9)) == whole[3:9]
    assert [log.history.state_at(state, epoch).epoch for epoch in (7, 14, 15)] == [7, 14, 15]
    assert environment.touches == []


def test_no_archive_is_looked_for_where_the_parents_prove_an_entry(root: Path) -> None:
    """An empty cache: each entry is read once, from the state's own down."""
    environment, log, state = watched(root)
    log = Log(environment, EntryCache())

    assert [entry.epoch for entry in log.history.entries(state, 12, 15)] == [12, 13, 14, 15]
    assert environment.touches == [f"read {entry_path(epoch)}" for epoch in (15, 14, 13, 12)]
    environment.touches.clear()
    assert [entry.epoch for entry in log.history.entries(state, 12, 15)] == [12, 13, 14, 15]
    assert environment.touches == []


def test_an_entry_below_unknown_ones_needs_one_look_for_its_archive(root: Path) -> None:
    """It may be dead: only an epoch without an archive has its entry in the log."""
    environment, log, state = watched(root)
    log = Log(environment, EntryCache())

    assert [entry.epoch for entry in log.history.entries(state, 4, 6)] == [4, 5, 6]
    assert environment.touches == [
        f"read {entry_path(6)}",
        f"look at {archive_path(6)}",
        f"read {entry_path(5)}",
        f"read {entry_path(4)}",
    ]


def test_an_archived_block_is_read_once(root: Path) -> None:
    """Its archive is read, without a look for its entries, which were removed."""
    log, state = new_store(quick_environment(root.with_name("old")), "orders")
    state = advanced(log, state, 130)
    environment, log, state = watched(root.with_name("old"))

    assert [entry.epoch for entry in log.history.entries(state, 5, 20)] == list(range(5, 21))
    assert environment.touches == [f"read {archive_path(5)}"]


def test_a_copy_that_went_another_way_has_its_own_entries(root: Path) -> None:
    """Store ids and paths may be equal: an entry is found by the chain of commit ids."""
    copy = root.with_name("copy")
    shutil.copytree(root, copy)
    cache = EntryCache()
    states = []
    for folder in (root, copy):
        log = Log(quick_environment(folder), cache)
        states.append(advanced(log, log.load(), 20))
    shutil.rmtree(root)
    shutil.move(copy, root)
    log = Log(quick_environment(root), cache)

    entries = list(log.history.entries(states[1], 1, 20))
    assert entries == entries_on_disk(quick_environment(root), 1, 20)
    assert entries[-1].commit_id == states[1].commit_id != states[0].commit_id


def test_a_state_is_made_of_one_that_was_asked_for_lately(environment: LocalEnvironment) -> None:
    """In any order of epochs it is the state that a new process reads; then no file is touched."""
    log, state = new_store(environment, "orders")
    advanced(log, state, 70)
    root = Path(environment.location(""))
    faulty, log, state = watched(root)
    for epoch in (66, 65, 70, 67, 69, 68, 66, 65):
        faulty.touches.clear()
        ours = log.history.state_at(state, epoch)
        fresh = Log(LocalEnvironment(str(root)), EntryCache())
        assert ours == fresh.history.state_at(state, epoch)
        assert faulty.touches == [] or epoch in (65, 66)
    faulty.touches.clear()
    for epoch in (66, 67, 70):
        log.history.state_at(state, epoch)
    assert faulty.touches == []


def test_a_known_state_of_a_copy_is_not_the_start_of_another_state(root: Path) -> None:
    """Both have the epoch, and the log reads the copy from where the store was."""
    copy = root.with_name("copy")
    shutil.copytree(root, copy)
    log = Log(quick_environment(root), EntryCache())
    newest = advanced(log, log.load(), 20)
    assert log.history.state_at(newest, 18).epoch == 18
    other = Log(quick_environment(copy), EntryCache())
    advanced(other, other.load(), 20)
    shutil.rmtree(root)
    shutil.move(copy, root)

    state = Log(quick_environment(root), EntryCache()).load()
    expected = Log(quick_environment(root), EntryCache()).history.state_at(state, 19)
    assert log.history.state_at(state, 19) == expected


def test_the_cache_is_bounded(environment: LocalEnvironment) -> None:
    """The entries that were added first are removed first."""
    log, state = new_store(environment, "orders")
    state = advanced(log, state, 12)
    cache = EntryCache(units=4)
    log = Log(environment, cache)

    assert len(list(log.history.entries(state, 1, 12))) == 12
    assert list(cache.ancestors(state, 1)) == [12, 11, 10, 9]


def test_the_state_of_an_expired_epoch_is_that_of_its_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after vacuum removed the checkpoint before it, however many entries it is made of."""
    monkeypatch.setattr(history, "_MOST_ENTRIES", 20)
    environment = quick_environment(tmp_path / "store")
    log, state = new_store(environment, "orders")
    past = state = advanced(log, state, 3 * BLOCK - 1)
    state = advanced(log, state, 6 * BLOCK)
    state, _ = vacuum(log, state, 0)
    assert state.oldest_epoch > past.epoch
    assert [epoch for epoch in log.files.checkpoint_epochs() if epoch <= past.epoch] == []

    log = Log(environment, EntryCache())
    assert log.history.past_state(log.load(), past.epoch) == past
    with pytest.raises(EpochExpiredError):
        log.history.state_at(state, past.epoch)


def test_the_state_of_every_epoch_can_be_had(environment: LocalEnvironment) -> None:
    """Folded or not, it equals the state at that time."""
    log, state = new_store(environment, "orders")
    states = [state]
    for epoch in range(state.epoch + 1, 140):
        states.append(advanced(log, states[-1], epoch))

    for state in states:
        assert log.history.state_at(states[-1], state.epoch) == state


def test_the_state_of_an_epoch_does_not_need_its_checkpoint(environment: LocalEnvironment) -> None:
    """An older checkpoint, or the first entry, is used instead."""
    log, state = new_store(environment, "orders")
    middle = advanced(log, state, 70)
    newest = advanced(log, middle, 140)
    for epoch in log.files.checkpoint_epochs()[:-2]:
        environment.remove(archived_checkpoint_path(epoch))

    assert log.history.state_at(newest, 70) == middle


def test_an_epoch_is_found_by_its_time(tmp_path: Path) -> None:
    """It is the newest one committed at or before the time; before the first there is none."""
    clock = ManualClock()
    environment = quick_environment(tmp_path / "clocked", clock)
    log, state = new_store(environment, "orders")
    began = state.time
    for epoch in range(3, 80):
        clock.advance(1.0)
        state = advanced(log, state, epoch)

    for epoch in (2, 3, 31, 32, 33, 64, 79):
        committed_at = began + (epoch - 2) * 1_000_000
        assert log.history.epoch_at(state, committed_at) == epoch
        assert log.history.epoch_at(state, committed_at + 999_999) == epoch
    assert log.history.epoch_at(state, began + 10**12) == 79
    with pytest.raises(EpochNotFoundError, match="before the first epoch"):
        log.history.epoch_at(state, began - 1)


def test_the_history_is_all_entries_the_newest_first(environment: LocalEnvironment) -> None:
    """Archived or not."""
    log, state = new_store(environment, "orders")
    state = advanced(log, state, 100)

    assert [entry.epoch for entry in log.history.newest_first(state)] == list(range(100, 0, -1))


def test_entries_of_epochs_that_cannot_be_read_are_forgotten(environment: LocalEnvironment) -> None:
    """Those of a block before the oldest epoch stay; more fit then, and all can still be read."""
    log, state = new_store(environment, "orders")
    state = advanced(log, state, 2 * BLOCK)
    cache = EntryCache(units=2 * BLOCK)
    log = Log(environment, cache)
    assert len(list(log.history.entries(state, 1, state.epoch))) == 2 * BLOCK
    kept = range(2 * BLOCK, 9, -1)

    log.history.forget_expired(replace(state, oldest_epoch=BLOCK + 10))

    assert list(cache.ancestors(state, 1)) == list(kept)
    assert cache._room == 2 * BLOCK - len(kept)
    assert [entry.epoch for entry in log.history.entries(state, 5, 12)] == [*range(5, 13)]
