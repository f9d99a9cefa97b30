"""The commit log: creating, loading, following, appending to it, and its past."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from relstate.storage.commit_signal import LOOK_INTERVAL
from relstate.storage.environment import FOLDER_VERSION_TICK, LocalEnvironment
from relstate.storage.errors import (
    CorruptionError,
    EpochNotFoundError,
    NotAStoreError,
    StoreExistsError,
    StoreNotFoundError,
)
from relstate.storage.log.entry import Entry, encode_entry
from relstate.storage.log.log import Log
from relstate.storage.log.state import StoreState, fold
from relstate.storage.log.transaction import commit
from relstate.storage.paths import archived_checkpoint_path, checkpoint_path, entry_path
from support.clock import ManualClock
from support.commits import (
    SETTINGS,
    advanced,
    committed,
    creation,
    entries_on_disk,
    new_store,
    quick_environment,
    truncation,
    upsert,
)
from support.faulty_environment import FaultyEnvironment
from support.histories import following

# Creating and loading


def test_a_new_store_is_at_epoch_one(environment: LocalEnvironment) -> None:
    """Its settings are in its first entry; it has no table; it can be loaded."""
    state = Log(environment).create(SETTINGS)

    assert (state.epoch, state.settings, state.tables) == (1, SETTINGS, {})
    assert Log(environment).load() == state
    assert environment.list("") == ["_archive", "_log", "segments"]


def test_a_store_is_created_once(environment: LocalEnvironment) -> None:
    """The second time it is there already, and stays as it is."""
    log, state = new_store(environment, "orders")

    with pytest.raises(StoreExistsError, match="there is a store already"):
        log.create(SETTINGS)
    assert log.load() == state


def test_nothing_is_not_a_store(environment: LocalEnvironment) -> None:
    """A path with nothing at it is told from one that holds something else."""
    with pytest.raises(StoreNotFoundError, match="nothing here"):
        Log(environment).load()


def test_other_things_are_not_a_store(tmp_path: Path) -> None:
    """A file, and a folder with other things: neither opened, nor made into a store."""
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "precious").write_bytes(b"content")
    for name in ("file", "folder"):
        log = Log(quick_environment(tmp_path / name))
        with pytest.raises(NotAStoreError, match=str(tmp_path / name)):
            log.load()
        with pytest.raises(NotAStoreError, match=str(tmp_path / name)):
            log.create(SETTINGS)

    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["precious"]


def test_a_store_can_be_created_in_an_empty_folder(tmp_path: Path) -> None:
    """Also with the hidden files that systems leave, and where a creation was cut short."""
    (tmp_path / ".hidden").write_bytes(b"")
    (tmp_path / "_log").mkdir()
    (tmp_path / "_log" / f"{1:020d}.json.0a.tmp").write_bytes(b"half")
    log = Log(quick_environment(tmp_path))
    with pytest.raises(NotAStoreError, match="was cut short"):
        log.load()

    assert log.create(SETTINGS).epoch == 1


def test_loading_is_folding_all_entries(environment: LocalEnvironment) -> None:
    """However many checkpoints and archives there are."""
    log, state = new_store(environment, "orders")
    for _ in range(100):
        state = committed(log, state, upsert(environment))

    first, *rest = entries_on_disk(environment, 1, state.epoch)
    assert Log(environment).load() == state == fold(StoreState.first(first), rest)


def test_files_that_are_not_the_logs_do_no_harm(environment: LocalEnvironment) -> None:
    """Rests of a crash, pointers of other systems, garbage: they are left alone."""
    log, state = new_store(environment, "orders")
    state = advanced(log, state, 70)
    strays = ["latest", "_last_checkpoint", f"{71:020d}.json.0a.tmp", "99.json", ".nfs0001"]
    for name in strays:
        Path(environment.local_path(f"_log/{name}")).write_bytes(b"\xff garbage")

    assert Log(environment).load() == state
    state = advanced(log, state, 130)
    assert Log(environment).load() == state
    assert set(strays) < set(environment.list("_log"))


# Following


def test_refreshing_the_newest_state_returns_it_after_a_few_looks(
    environment: LocalEnvironment,
) -> None:
    """The very same object; the next entry is looked for first, then the own one.

    No look follows until something may have been committed.
    """
    clock = ManualClock()
    _, state = new_store(quick_environment(environment.root, clock), "orders")
    watched = FaultyEnvironment(environment.root, clock=clock)
    log = Log(watched)
    log.load()
    before = len(watched.touches)

    assert log.refresh(state) is state
    assert watched.touches[before:] == [
        "look at the file _log/.signal",
        "map _log/.signal",
        "look at the version of _log",
        "look for _log/00000000000000000003.json",
        "look for _log/00000000000000000002.json",
    ]
    before = len(watched.touches)
    assert log.refresh(state) is state
    assert watched.touches[before:] == []


def test_refreshing_takes_one_look_at_a_folder_at_rest(environment: LocalEnvironment) -> None:
    """What the folder held when its version was taken is still there, and nothing else."""
    clock = ManualClock()
    log, old = new_store(quick_environment(environment.root, clock), "orders")
    watched = FaultyEnvironment(environment.root, clock=clock)
    reader = Log(watched)
    reader.refresh(reader.load())
    clock.advance(FOLDER_VERSION_TICK)
    reader.refresh(old)
    clock.advance(LOOK_INTERVAL)
    before = len(watched.touches)

    assert reader.refresh(old) is old
    assert watched.touches[before:] == [
        "look at the file _log/.signal",
        "look at the version of _log",
    ]

    new = advanced(log, old, 3)
    assert reader.refresh(old) == new
    environment.remove(entry_path(3))
    with pytest.raises(CorruptionError, match=r"0003\.json: .*although epoch 3 was read"):
        reader.refresh(new)


def test_a_change_that_the_folders_version_does_not_show_is_seen(
    environment: LocalEnvironment,
) -> None:
    """Two changes in one tick of the file system's clock, however far that is behind this one."""
    clock = ManualClock()
    log, state = new_store(quick_environment(environment.root, clock), "orders")

    class OneTick(LocalEnvironment):
        def folder_version(self, folder: str) -> tuple[int, ...]:
            return (0,)

    reader = Log(OneTick(environment.root, clock=clock))
    reader.load()
    for epoch in (3, 4, 5):
        assert reader.refresh(state) is state
        assert reader.refresh(state) is state
        clock.advance(FOLDER_VERSION_TICK / 4)
        newer = advanced(log, state, epoch)
        state = reader.refresh(state)
        assert state == newer


def test_the_rest_of_a_folder_begins_when_its_version_was_seen(
    environment: LocalEnvironment,
) -> None:
    """The time before the first look at the folder does not count."""
    clock = ManualClock()
    log, state = new_store(quick_environment(environment.root, clock), "orders")

    class Slow(LocalEnvironment):
        def folder_version(self, folder: str) -> tuple[int, ...]:
            clock.advance(2 * FOLDER_VERSION_TICK)
            return (0,)

    reader = Log(Slow(environment.root, clock=clock))
    reader.load()
    reader.refresh(state)
    reader.refresh(state)
    newer = advanced(log, state, 3)

    assert reader.refresh(state) == newer


def test_a_folder_that_is_not_there_has_no_version(environment: LocalEnvironment) -> None:
    """Its reader looks for the files themselves, and raises an error."""
    new_store(environment, "orders")

    assert environment.folder_version("_log") is not None
    assert environment.folder_version("nowhere") is None


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
    Log(environment).create(replace(SETTINGS, store_id="another"))

    with pytest.raises(CorruptionError, match="another store has taken the place"):
        log.refresh(state)


def test_a_store_that_was_replaced_by_an_equally_old_one_is_told(
    environment: LocalEnvironment,
) -> None:
    """A writer finds it before it adds to the other log, a reader within a minute."""
    clock = ManualClock()
    log, state = new_store(quick_environment(environment.root, clock), "orders")
    shutil.rmtree(environment.root)
    foreign_log = Log(quick_environment(environment.root, clock))
    others_state = foreign_log.create(replace(SETTINGS, store_id="another"))
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


# Appending


def test_an_entry_is_appended_once(environment: LocalEnvironment) -> None:
    """The first gets the epoch; for the second, append returns False."""
    log, state = new_store(environment, "orders")
    first, second = (following(state, commit_id=commit_id) for commit_id in ("one", "other"))

    assert log.append(first)
    assert not log.append(second)
    assert log.refresh(state).commit_id == "one"


def test_appending_again_what_is_there_is_success(environment: LocalEnvironment) -> None:
    """An entry is recognised by its commit id: only the response had been lost."""
    log, state = new_store(environment, "orders")
    entry = following(state)

    assert log.append(entry)
    assert log.append(entry)
    assert log.refresh(state).epoch == 3


def test_checkpoints_are_created_once(environment: LocalEnvironment) -> None:
    """The second writer finds the bytes that it would have written."""
    log, state = new_store(environment, "orders")
    log.folding.put_checkpoint(state)
    before = environment.read(checkpoint_path(2))
    log.folding.put_checkpoint(state)

    assert environment.read(checkpoint_path(2)) == before
    assert Log(environment).load() == state


def test_entries_written_by_hand_are_followed(environment: LocalEnvironment) -> None:
    """Any program that follows the format may write entries."""
    log, state = new_store(environment, "orders")
    entry: Entry = following(state, operation="by hand")
    Path(environment.local_path(entry_path(3))).write_bytes(encode_entry(entry))

    assert log.refresh(state) == state.apply(entry)
    assert commit(log, state, creation(environment, "items")).epoch == 4
    assert commit(log, state, truncation(environment)).epoch == 5


# The past


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
