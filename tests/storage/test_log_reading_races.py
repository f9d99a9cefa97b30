"""Races with the log: readers, and folds that go on or die, beside writers.

A race is made certain, not likely: `FaultyEnvironment` lets the others act just before a chosen
touch of the outside world.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from relstate.storage.log.log import Log
from relstate.storage.log.state import StoreState
from relstate.storage.log.transaction import commit
from relstate.storage.paths import checkpoint_path, entry_path, parse_log_file
from support.clock import ManualClock
from support.commits import advanced, new_store, quick_environment, upsert
from support.faulty_environment import FaultyEnvironment
from support.races import FAR, Before, history, landed, loaded, others_advance


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store with the table orders (id 1), at epoch 2."""
    new_store(quick_environment(tmp_path / "store"), "orders")
    return tmp_path / "store"


@pytest.mark.parametrize("epochs", [1, 40, FAR])
def test_a_reader_that_slept_sees_the_newest_epoch(root: Path, epochs: int) -> None:
    """However long, and with no clock moved: a folded log is not taken for an unchanged one."""
    clock = ManualClock()
    reader = Log(quick_environment(root, clock))
    old = reader.load()
    newest = others_advance(root, epochs)

    assert reader.refresh(old) == newest


@pytest.mark.parametrize("epochs", [3, FAR])
def test_loading_beside_writers_gives_a_true_state(root: Path, epochs: int) -> None:
    """Whatever happens between any two touches: a state the store was in since loading began."""
    others_advance(root, 38)
    _check_every_moment(root, epochs, lambda log: log.load())


@pytest.mark.parametrize("behind", [0, 3, 38])
@pytest.mark.parametrize("epochs", [3, FAR])
def test_refreshing_beside_writers_gives_a_true_state(root: Path, behind: int, epochs: int) -> None:
    """Whatever happens between any two touches: a state the store was in since the call began."""
    state = others_advance(root, 38 - behind)
    others_advance(root, behind)
    _check_every_moment(root, epochs, lambda log: log.refresh(state))


def _check_every_moment(root: Path, epochs: int, read: Callable[[Log], StoreState]) -> None:
    """Let the others commit before the first, second, ... touch of a read."""
    for step in count(1):
        copy = root.with_name(f"copy{step}")
        shutil.copytree(root, copy)
        others = Before(step, partial(others_advance, copy, epochs))
        state = read(Log(FaultyEnvironment(copy, before=others)))

        assert 40 <= state.epoch <= 40 + epochs
        assert state == history(copy, state.epoch)
        shutil.rmtree(copy)
        if not others.happened:
            return


@pytest.fixture
def due(tmp_path: Path) -> Path:
    """A store at epoch 95: the next commit removes checkpoint 32 and the entries 33 to 64."""
    log, state = new_store(quick_environment(tmp_path / "due"), "orders")
    advanced(log, state, 95)
    return tmp_path / "due"


# A fold that stops before it removes the checkpoint, the first entries, the last.
STOPS = [checkpoint_path(32), *map(entry_path, (33, 34, 50, 64))]


@pytest.mark.parametrize("stop", STOPS)
def test_following_beside_a_fold_that_dies_reaches_the_newest_epoch(due: Path, stop: str) -> None:
    """However far it came: a reader at any epoch is not stopped by what was removed."""
    states = [history(due, epoch) for epoch in (1, 31, 32, 33, 34, 49, 50, 63, 64, 65, 95)]
    folder = FaultyEnvironment(due, crash_at=f"remove {stop}")
    with folder.crashing():
        commit(Log(folder), states[-1], upsert(folder))
    assert folder.struck

    newest = loaded(due)
    assert newest.epoch == 96
    for state in states:
        reader = Log(quick_environment(due))
        reader.load()
        assert reader.refresh(state) == newest


@pytest.mark.parametrize("stop", STOPS)
def test_loading_beside_a_fold_that_dies_gives_the_newest_epoch(due: Path, stop: str) -> None:
    """However far it came, and wherever the reader was: at a checkpoint that is going away too."""
    young = due.with_name("young")
    for step in count(1):
        shutil.copytree(due, young, ignore=_younger_than(40))

        def others(young: Path = young) -> None:
            shutil.copytree(due, young, dirs_exist_ok=True)
            folder = FaultyEnvironment(young, crash_at=f"remove {stop}")
            with folder.crashing():
                commit(Log(folder), Log(folder).load(), upsert(folder))

        acting = Before(step, others)
        reader = FaultyEnvironment(young, before=acting)
        state = Log(reader).load()
        had_seen_the_end = f"read {entry_path(41)}" in reader.touches[: step - 1]
        assert state.epoch == 96 or (state.epoch == 40 and had_seen_the_end)
        shutil.rmtree(young)
        if not acting.happened:
            return


def _younger_than(epoch: int) -> Callable[[str, list[str]], list[str]]:
    """Return a filter for `copytree` that leaves out what came after an epoch."""

    def too_young(_: str, names: list[str]) -> list[str]:
        files = {name: parse_log_file(name) for name in names}
        return [name for name, file in files.items() if file is not None and file.epoch > epoch]

    return too_young


def test_folding_beside_folders_and_readers_keeps_every_entry(root: Path) -> None:
    """Whenever another folds as well, or further: nothing is lost, no commit is disturbed."""
    others_advance(root, 61)
    for step in count(1):
        copy = root.with_name(f"copy{step}")
        shutil.copytree(root, copy)
        others = Before(step, partial(others_advance, copy, 33 + step % 2 * 64))
        writer = FaultyEnvironment(copy, before=others)
        outcome = commit(Log(writer), history(root, 63), upsert(writer))

        assert outcome.committed
        assert landed(copy, outcome.state.commit_id) == [outcome.epoch]
        shutil.rmtree(copy)
        if not others.happened:
            return
