"""Looks at the folder of a log: as few as show that nothing changed."""

from __future__ import annotations

import pytest

from relstate.storage.commit_signal import LOOK_INTERVAL
from relstate.storage.environment import FOLDER_VERSION_TICK
from relstate.storage.errors import CorruptionError
from relstate.storage.local_environment import LocalEnvironment
from relstate.storage.log.log import Log
from relstate.storage.paths import entry_path
from support.clock import ManualClock
from support.commits import advanced, new_store, quick_environment
from support.faulty_environment import FaultyEnvironment


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
