"""A crash, an error or a lost answer at any step of a commit: the old state or the new.

Each test runs one operation on a copy of a prepared store again and again, and lets the first,
second, third, ... touch of the outside world go wrong, until there is no such touch any more.
"""

from __future__ import annotations

import errno
import itertools
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from relstate.storage.errors import (
    FilesystemError,
    NotAStoreError,
    StorageFullError,
    StoreExistsError,
    StoreNotFoundError,
    UnknownOutcomeError,
)
from relstate.storage.log.entry import Transaction
from relstate.storage.log.log import Log
from relstate.storage.log.state import StoreState
from relstate.storage.log.store_creation import create_store
from relstate.storage.log.transaction import commit
from relstate.storage.paths import entry_path
from support.commits import (
    SETTINGS,
    advanced,
    committed,
    entries_on_disk,
    new_store,
    quick_environment,
    truncation,
    upsert,
)
from support.faulty_environment import FaultyEnvironment, failing
from support.faulty_environment import trials as environments

BATCH = Transaction("query", 1, 5, "run")


@dataclass(frozen=True, slots=True)
class Trial:
    """A store in which a fault is about to happen."""

    environment: FaultyEnvironment
    state: StoreState

    def write(self) -> StoreState:
        """Publish a segment and commit it, with a transaction, as epoch ``state.epoch + 1``."""
        proposal = upsert(self.environment, transaction=BATCH)
        return committed(Log(self.environment), self.state, proposal)

    def reopened(self) -> StoreState:
        """Return the state that a new process finds."""
        return Log(quick_environment(self.environment.root)).load()

    def is_whole(self, state: StoreState) -> bool:
        """Return whether every segment of a state is there, with its whole content."""
        fresh = quick_environment(self.environment.root)
        return all(
            fresh.size(f"segments/{name}.lmdb") == segment.record.size
            for name, segment in state.segments.items()
        )


def trials(prepared: Path, tmp_path: Path, fault: str, number: int = errno.EIO) -> Iterator[Trial]:
    """Yield a copy of a store for each touch at which the fault can happen, and a last one."""
    for environment in environments(prepared, tmp_path, fault, errno=number):
        yield Trial(environment, Log(quick_environment(environment.root)).load())


@pytest.fixture
def young(tmp_path: Path) -> Path:
    """A store with a table and three epochs."""
    log, state = new_store(quick_environment(tmp_path / "young"), "orders")
    advanced(log, state, 3)
    return tmp_path / "young"


@pytest.fixture
def due(tmp_path: Path) -> Path:
    """A store whose next commit leaves a checkpoint, archives, and folds."""
    log, state = new_store(quick_environment(tmp_path / "due"), "orders")
    advanced(log, state, 63)
    return tmp_path / "due"


def keep(trial: Trial) -> None:
    """A killed process: the kernel still writes all that was handed to it."""


def cut(trial: Trial) -> None:
    """A power cut that loses all that was not synced."""
    trial.environment.power_cut()


def torn(trial: Trial) -> None:
    """A power cut that loses, keeps and tears what was not synced, drawn by the step."""
    trial.environment.power_cut(len(trial.environment.touches))


@pytest.mark.parametrize("aftermath", [keep, cut, torn])
def test_a_crash_in_a_commit_leaves_the_old_state_or_the_new(
    young: Path, tmp_path: Path, aftermath: Callable[[Trial], None]
) -> None:
    """Never between; what it leaves can be written on; a retry neither loses nor doubles."""
    seen = set()
    for trial in trials(young, tmp_path, "crash_at"):
        with trial.environment.crashing():
            trial.write()
        aftermath(trial)

        state = trial.reopened()
        seen.add(state.epoch)
        assert state.epoch in (3, 4)
        assert (len(state.segments), len(state.transactions)) == ((0, 0), (1, 1))[state.epoch - 3]
        assert trial.is_whole(state)
        _check_retry(trial, state)
    assert seen == {3, 4}


def _check_retry(trial: Trial, state: StoreState) -> None:
    """A restarted writer brings the same batch again: it lands once, whatever had happened."""
    environment = quick_environment(trial.environment.root)
    retry = upsert(environment, transaction=Transaction("query", 1, 5, "restarted"))
    outcome = commit(Log(environment), state, retry)

    assert outcome.committed != (state.epoch == 4)
    assert (outcome.epoch, len(outcome.state.segments)) == (4, 1)


@pytest.mark.parametrize("aftermath", [cut, torn])
def test_a_crash_in_a_fold_loses_nothing(
    due: Path, tmp_path: Path, aftermath: Callable[[Trial], None]
) -> None:
    """Between checkpoint, archive and removals: the store opens, and has its whole history."""
    before = entries_on_disk(quick_environment(due), 1, 63)
    for trial in trials(due, tmp_path, "crash_at"):
        with trial.environment.crashing():
            trial.write()
        aftermath(trial)

        state = trial.reopened()
        assert state.epoch in (63, 64)
        assert trial.is_whole(state)
        history = entries_on_disk(quick_environment(trial.environment.root), 1, state.epoch)
        assert history[:63] == before


def test_the_log_goes_on_after_a_crash_in_a_fold(due: Path, tmp_path: Path) -> None:
    """Whatever a crash left is folded by the next process."""
    for number, trial in enumerate(trials(due, tmp_path, "crash_at")):
        with trial.environment.crashing():
            trial.write()
        trial.environment.power_cut()
        if number % 7:
            continue
        environment = quick_environment(trial.environment.root)
        state = advanced(Log(environment), trial.reopened(), 128)

        assert Log(environment).load() == state
        assert not any(environment.exists(entry_path(epoch)) for epoch in range(1, 97))
        assert len(entries_on_disk(environment, 1, 128)) == 128


@pytest.mark.parametrize("aftermath", [keep, cut, torn])
def test_a_crash_in_a_creation_leaves_no_store_or_an_empty_one(
    tmp_path: Path, aftermath: Callable[[Trial], None]
) -> None:
    """And where there is none, it can be created."""
    for step in itertools.count(1):
        environment = FaultyEnvironment(tmp_path / f"store{step}", crash_at=step)
        with environment.crashing():
            create_store(Log(environment), SETTINGS)
        aftermath(Trial(environment, None))  # type: ignore[arg-type]

        log = Log(quick_environment(environment.root))
        try:
            state = log.load()
        except (StoreNotFoundError, NotAStoreError):
            assert environment.struck
            state = create_store(log, SETTINGS)
        assert (state.epoch, state.settings) == (1, SETTINGS)
        if not environment.struck:
            break


@pytest.mark.parametrize("store", ["young", "due"])
def test_what_was_committed_survives_a_power_cut(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Once commit has returned, nothing takes the epoch away."""
    root = request.getfixturevalue(store)
    for seed in (None, *range(10)):
        shutil.copytree(root, tmp_path / f"copy{seed}")
        environment = FaultyEnvironment(tmp_path / f"copy{seed}")
        trial = Trial(environment, Log(quick_environment(environment.root)).load())
        state = trial.write()
        environment.power_cut(seed)

        assert trial.reopened() == state
        assert trial.is_whole(state)


@pytest.mark.parametrize("store", ["young", "due"])
@pytest.mark.parametrize(
    ("fault", "number"),
    [("error_at", errno.ENOSPC), ("error_at", errno.EIO), ("lost_at", errno.EIO)],
)
def test_trouble_in_a_commit_is_told_as_it_is(
    store: str, fault: str, number: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """An error means the old state, for ever; success the new one, for ever; unknown, either.

    None of it shows a bare OSError, and in each case the log goes on.
    """
    root = request.getfixturevalue(store)
    old = Log(quick_environment(root)).load()
    outcomes = set()
    for trial in trials(root, tmp_path, fault, number):
        allowed = {old.epoch + 1}
        try:
            outcome = "committed"
            trial.write()
        except UnknownOutcomeError:
            outcome = "unknown"
            allowed = {old.epoch, old.epoch + 1}
        except (StorageFullError, FilesystemError) as error:
            outcome = type(error).__name__
            allowed = {old.epoch}
        outcomes.add(outcome)
        assert trial.reopened().epoch in allowed
        trial.environment.power_cut()
        state = trial.reopened()
        assert state.epoch in allowed
        assert trial.is_whole(state)
        environment = quick_environment(trial.environment.root)
        assert committed(Log(environment), state, truncation(environment)).epoch == state.epoch + 1

    refusal = "StorageFullError" if number == errno.ENOSPC else "FilesystemError"
    assert {"committed", refusal} <= outcomes


def test_trouble_in_a_creation_is_told_as_it_is(tmp_path: Path) -> None:
    """An error leaves no store, or an empty one where the outcome is unknown."""
    for fault, step in itertools.product(["error_at", "lost_at"], range(1, 40)):
        environment = failing(tmp_path / f"{fault}{step}", fault, step)
        log = Log(quick_environment(environment.root))
        try:
            create_store(Log(environment), SETTINGS)
        except UnknownOutcomeError:
            pass
        except (StorageFullError, FilesystemError):
            with pytest.raises((StoreNotFoundError, NotAStoreError)):
                log.load()
        try:
            create_store(log, SETTINGS)
        except StoreExistsError:
            assert log.load().settings == SETTINGS
