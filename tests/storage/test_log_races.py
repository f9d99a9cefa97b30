"""Races for the log: writers that sleep, lose answers and commit side by side.

A race is made certain, not likely: `FaultyEnvironment` lets the others act just before a chosen
touch of the outside world.
"""

from __future__ import annotations

import multiprocessing
from itertools import pairwise
from pathlib import Path

import pytest

from relstate.storage.clock import SystemClock
from relstate.storage.errors import (
    FilesystemError,
    StoreExistsError,
    TableExistsError,
    UnknownOutcomeError,
)
from relstate.storage.log.append import append
from relstate.storage.log.entry import Transaction
from relstate.storage.log.log import Log
from relstate.storage.log.store_creation import create_store
from relstate.storage.log.transaction import CommitResult, commit
from relstate.storage.paths import checkpoint_path, entry_path
from support.clock import ManualClock
from support.commits import (
    SETTINGS,
    TABLE,
    advanced,
    commit_many,
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
from support.races import FAR, Before, history, landed, loaded, others_advance

LINK = f"link {entry_path(3)}"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store with the table orders (id 1), at epoch 2."""
    new_store(quick_environment(tmp_path / "store"), "orders")
    return tmp_path / "store"


# Slept writers


def test_a_writer_that_slept_through_a_fold_commits_at_the_tail(root: Path) -> None:
    """It wins a slot that had been used and removed, finds out, and tries again."""
    slept = FaultyEnvironment(root, before=Before(LINK, lambda: others_advance(root, FAR)))
    log = Log(slept)
    outcome = commit(log, log.load(), upsert(slept))

    assert outcome.committed
    assert outcome.epoch == 2 + FAR + 1
    assert LINK in slept.touches
    assert not slept.exists(entry_path(3))
    assert landed(root, outcome.state.commit_id) == [outcome.epoch]
    assert outcome.state == loaded(root)


@pytest.mark.parametrize("moment", ["sync _log", "look at _archive/*", f"remove {entry_path(3)}"])
def test_a_slept_writer_that_dies_misleads_nobody(root: Path, moment: str) -> None:
    """Its void entry may stay: opening, following and folding ignore it."""
    old = loaded(root)
    slept = FaultyEnvironment(
        root, crash_at=moment, before=Before(LINK, lambda: others_advance(root, FAR))
    )
    with slept.crashing():
        commit(Log(slept), old, upsert(slept))
    assert slept.struck
    assert (root / entry_path(3)).exists()

    newest = loaded(root)
    assert newest.epoch == 2 + FAR
    assert Log(quick_environment(root)).refresh(old) == newest
    others_advance(root, 64)
    assert not (root / entry_path(3)).exists()
    assert loaded(root).epoch == 2 + FAR + 64


def test_a_dead_entry_in_place_of_a_readers_own_hides_the_log_for_a_minute_at_most(
    root: Path,
) -> None:
    """The one case two looks cannot tell; what is shown until then is old, but was true."""
    clock = ManualClock(SystemClock().now())
    slept = FaultyEnvironment(
        root, crash_at="sync _log", before=Before(LINK, lambda: others_advance(root, FAR))
    )
    with slept.crashing():
        commit(Log(slept), loaded(root), upsert(slept))
    reader = Log(quick_environment(root, clock))
    reader.load()
    at_three = history(root, 3)

    assert reader.refresh(at_three) is at_three
    clock.advance(61)
    assert reader.refresh(at_three) == loaded(root)


def test_a_reader_between_two_dead_entries_is_not_misled(root: Path) -> None:
    """Its own entry is another's dead one, and so is the next: the commit id tells."""
    before = [loaded(root), others_advance(root, 1)]
    sleepers = [FaultyEnvironment(root, crash_at="sync _log") for _ in before]
    dead = [sleeper.random_id() for sleeper in sleepers]
    newest = others_advance(root, FAR)
    for sleeper, state, commit_id in zip(sleepers, before, dead, strict=True):
        with sleeper.crashing():
            append(Log(sleeper), following(state, commit_id=commit_id))
    assert (root / entry_path(3)).exists()
    assert (root / entry_path(4)).exists()

    assert Log(quick_environment(root)).refresh(before[1]) == newest


def test_an_entry_that_was_folded_at_once_is_not_taken_for_dead(root: Path) -> None:
    """Others are so fast that it is archived before its writer has looked: it is no less alive."""
    slow = FaultyEnvironment(
        root, before=Before("look at _archive/*", lambda: others_advance(root, FAR))
    )
    outcome = commit(Log(slow), loaded(root), upsert(slow))

    assert outcome.epoch == 3
    assert loaded(root).epoch == 3 + FAR
    assert landed(root, outcome.state.commit_id) == [3]


def test_a_creator_that_slept_finds_the_store_there(tmp_path: Path) -> None:
    """Also when the first entry of the other's store has been folded."""
    for name, epochs in (("young", 0), ("old", FAR)):
        path = tmp_path / name

        def commit_first(path: Path = path, epochs: int = epochs) -> None:
            log, state = new_store(quick_environment(path), "orders")
            advanced(log, state, 2 + epochs)

        slept = FaultyEnvironment(path, before=Before(f"link {entry_path(1)}", commit_first))
        with pytest.raises(StoreExistsError):
            create_store(Log(slept), SETTINGS)

        assert loaded(path).epoch == 2 + epochs
        assert (path / entry_path(1)).exists() == (epochs == 0)


# Lost answers


def test_a_lost_answer_that_is_mine(root: Path) -> None:
    """The slot is read back: it was committed once, and no error is raised."""
    for moment in (LINK, "sync _log"):
        faulty = FaultyEnvironment(root, lost_at=moment.replace("3.json", "?.json"))
        log = Log(faulty)
        state = log.load()
        outcome = commit(log, state, upsert(faulty))

        assert faulty.struck
        assert outcome.epoch == state.epoch + 1
        assert landed(root, outcome.state.commit_id) == [outcome.epoch]


def test_a_lost_answer_that_is_mine_and_folded_since(root: Path) -> None:
    """It is found in the archive."""
    folding = Before(f"read {entry_path(3)}", lambda: others_advance(root, FAR), after=LINK)
    faulty = FaultyEnvironment(root, lost_at=LINK, before=folding)
    outcome = commit(Log(faulty), loaded(root), upsert(faulty))

    assert outcome.epoch == 3
    assert landed(root, outcome.state.commit_id) == [3]
    assert loaded(root).epoch == 3 + FAR


def test_a_lost_answer_that_is_theirs(root: Path) -> None:
    """Another's entry is in the slot: it was a lost race, and the next epoch is ours."""
    faulty = FaultyEnvironment(
        root, error_at=LINK, before=Before(LINK, lambda: others_advance(root, 1))
    )
    outcome = commit(Log(faulty), loaded(root), upsert(faulty))

    assert faulty.struck
    assert outcome.epoch == 4
    assert landed(root, outcome.state.commit_id) == [4]


def test_an_answer_that_cannot_be_found_is_unknown(root: Path) -> None:
    """Neither mine nor theirs: an error of its own, which is no conflict, naming the entry."""
    faulty = FaultyEnvironment(root, error_at=LINK)

    with pytest.raises(UnknownOutcomeError, match=f"{entry_path(3)}: this commit .* may or may"):
        commit(Log(faulty), loaded(root), upsert(faulty))
    assert loaded(root).epoch == 2


def test_an_answer_that_cannot_be_read_is_unknown(root: Path) -> None:
    """The commit has happened, but a writer that cannot read the slot must not say either."""

    class Blind(FaultyEnvironment):
        def read(self, name: str) -> bytes:
            if self.struck:
                raise FilesystemError(f"{name}: no answer")
            return super().read(name)

    blind = Blind(root, lost_at=LINK)
    proposal = upsert(blind, transaction=Transaction("query", TABLE, 0, "run"))
    with pytest.raises(UnknownOutcomeError, match="may or may not"):
        commit(Log(blind), loaded(root), proposal)
    assert loaded(root).epoch == 3

    again = upsert(quick_environment(root), transaction=Transaction("query", TABLE, 0, "next"))
    assert commit(Log(quick_environment(root)), loaded(root), again) == CommitResult(
        3, loaded(root), committed=False
    )


def test_a_commit_whose_life_cannot_be_checked_is_unknown(root: Path) -> None:
    """Linked, but whether the slot was free or folded cannot be seen."""
    faulty = FaultyEnvironment(root, error_at="look at _archive/*")

    with pytest.raises(UnknownOutcomeError):
        commit(Log(faulty), loaded(root), upsert(faulty))


# Writers beside each other


def test_whoever_loses_the_race_takes_the_next_epoch(root: Path) -> None:
    """Checked against the state it then follows."""
    late = FaultyEnvironment(root, before=Before(LINK, lambda: others_advance(root, 5)))
    outcome = commit(Log(late), loaded(root), upsert(late))

    assert outcome.epoch == 8
    assert outcome.state == loaded(root)


def test_a_batch_that_another_process_landed_first_is_skipped(root: Path) -> None:
    """Two restarts of one query at once: the transaction is checked again after the lost race."""
    environment = quick_environment(root)
    first = upsert(environment, transaction=Transaction("query", TABLE, 0, "one"))
    second = upsert(environment, transaction=Transaction("query", TABLE, 0, "two"))
    rival = Log(quick_environment(root))
    late = FaultyEnvironment(root, before=Before(LINK, lambda: commit(rival, rival.load(), first)))

    assert not commit(Log(late), loaded(root), second).committed
    assert len(loaded(root).segments) == 1


@pytest.mark.parametrize("truncate_first", [True, False])
def test_a_truncate_beside_an_upsert(root: Path, truncate_first: bool) -> None:
    """Both are committed: a later upsert is visible, an earlier one is not."""
    environment = quick_environment(root)
    old = loaded(root)
    row, empty = upsert(environment), truncation(environment)
    rival = Log(quick_environment(root))
    early, late = (empty, row) if truncate_first else (row, empty)
    slept = FaultyEnvironment(root, before=Before(LINK, lambda: commit(rival, old, early)))
    state = committed(Log(slept), old, late)

    visible = [segment.record for segment in state.segments_of(TABLE)]
    assert state.epoch == 4
    assert visible == ([row.segments[0]] if truncate_first else [])
    assert len(state.segments) == len(visible)


def test_two_creators_of_one_table_name(root: Path) -> None:
    """One has the name; the other gets an error, after its lost race."""
    environment = quick_environment(root)
    rival = Log(quick_environment(root))
    proposal = creation(environment, "items")
    late = FaultyEnvironment(
        root, before=Before(LINK, lambda: commit(rival, rival.load(), proposal))
    )

    with pytest.raises(TableExistsError):
        commit(Log(late), loaded(root), creation(environment, "ITEMS"))
    assert loaded(root).table_names() == ("items", "orders")


def test_writers_with_different_clocks_keep_time_in_order(root: Path) -> None:
    """The writer with the slower clock takes the time of the other."""
    now = SystemClock().now()
    clocks = [ManualClock(now), ManualClock(now)]
    clocks[1].set_back(50)
    logs = [Log(quick_environment(root, clock)) for clock in clocks]
    state = loaded(root)
    for turn in range(8):
        clocks[turn % 2].advance(1)
        state = committed(logs[turn % 2], state, truncation(logs[turn % 2].environment))

    times = [entry.time for entry in entries_on_disk(logs[0].environment, 3, 10)]
    assert times == sorted(times)


def test_a_checkpoint_raced_by_two_writers(root: Path) -> None:
    """Both wanted to write the same bytes; either's file serves."""
    state = others_advance(root, 29)
    rival = Log(quick_environment(root))
    late = FaultyEnvironment(
        root,
        before=Before(
            f"link {checkpoint_path(32)}", lambda: rival.folding.put_checkpoint(history(root, 32))
        ),
    )
    outcome = commit(Log(late), state, upsert(late))

    assert outcome.epoch == 32
    assert (root / checkpoint_path(32)).exists()
    assert loaded(root) == outcome.state


def test_eight_processes_committing_at_once_lose_nothing(root: Path) -> None:
    """Every batch of every process is in the log once, in its writer's order."""
    processes, batches = 8, 20
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(processes)
    workers = [
        context.Process(target=commit_many, args=(str(root), f"writer {number}", batches, start))
        for number in range(processes)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)

    assert [worker.exitcode for worker in workers] == [0] * processes
    state = loaded(root)
    assert state.epoch == 2 + processes * batches
    assert len(state.segments) == processes * batches
    assert {key[0]: last.batch for key, last in state.transactions.items()} == {
        f"writer {number}": batches - 1 for number in range(processes)
    }
    entries = entries_on_disk(quick_environment(root), 3, state.epoch)
    written = [
        (transaction.writer, transaction.batch)
        for entry in entries
        for transaction in entry.transactions
    ]
    assert len(set(written)) == processes * batches
    assert all(
        earlier < later
        for number in range(processes)
        for earlier, later in pairwise([b for w, b in written if w == f"writer {number}"])
    )
    assert [entry.time for entry in entries] == sorted(entry.time for entry in entries)
