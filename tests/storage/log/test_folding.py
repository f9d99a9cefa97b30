"""Folding the log: checkpoints are made, entries move to the archive, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from relstate.storage.local_environment import LocalEnvironment
from relstate.storage.log.log import Log
from relstate.storage.log.state import StoreState
from relstate.storage.paths import (
    archive_path,
    archived_checkpoint_path,
    checkpoint_path,
    entry_path,
)
from support.commits import advanced, entries_on_disk, new_store
from support.faulty_environment import FaultyEnvironment


def files_of(environment: LocalEnvironment) -> list[str]:
    """Return the names of the files in the log's folder, without the zeros they begin with."""
    return [file.lstrip("0") for file in environment.list("_log") if file != ".signal"]


def test_the_folder_of_the_log_stays_small(environment: LocalEnvironment) -> None:
    """At most 100 files at any time; the archives have all the rest."""
    log, state = new_store(environment, "orders")
    for epoch in range(3, 330):
        state = advanced(log, state, epoch)
        assert len(environment.list("_log")) <= 100

    # A block of entries and a checkpoint for every 32 epochs but the last two checkpoints.
    assert len(environment.list("_archive")) == 288 / 32 + 320 / 32 - 2


def test_folding_keeps_two_checkpoints_and_what_they_do_not_cover(
    environment: LocalEnvironment,
) -> None:
    """Entries are removed when a second checkpoint covers them, not before."""
    log, state = new_store(environment, "orders")
    state = advanced(log, state, 63)
    assert files_of(environment) == sorted(
        ["32.checkpoint.json", *(f"{epoch}.json" for epoch in range(1, 64))], key=_number
    )

    advanced(log, state, 98)
    assert files_of(environment) == sorted(
        ["64.checkpoint.json", "96.checkpoint.json", *(f"{epoch}.json" for epoch in range(65, 99))],
        key=_number,
    )
    assert environment.list("_archive") == [
        archive_path(1).removeprefix("_archive/"),
        archived_checkpoint_path(32).removeprefix("_archive/"),
        archive_path(33).removeprefix("_archive/"),
    ]


def _number(file: str) -> tuple[int, str]:
    return int(file.split(".")[0]), file


def test_opening_costs_the_same_however_old_the_store(environment: LocalEnvironment) -> None:
    """Loading reads one checkpoint and the entries after it."""
    log, state = new_store(environment, "orders")
    touches = []
    for epoch in (40, 72, 328):
        state = advanced(log, state, epoch)
        watched = FaultyEnvironment(environment.root)
        Log(watched).load()
        touches.append([touch.split()[0] for touch in watched.touches])

    assert touches[0] == touches[1] == touches[2]
    assert touches[0].count("read") == 10


def test_every_entry_can_be_read_for_ever(environment: LocalEnvironment) -> None:
    """From the archive or the log, in order, any range of them."""
    log, state = new_store(environment, "orders")
    seen = list(log.history.entries(state, 1, 2))
    while state.epoch < 140:
        state = advanced(log, state, state.epoch + 1)
        seen.append(next(log.history.entries(state, state.epoch, state.epoch)))

    assert list(log.history.entries(state, 1, 140)) == entries_on_disk(environment, 1, 140) == seen
    assert (
        list(log.history.entries(state, 30, 70))
        == entries_on_disk(environment, 30, 70)
        == seen[29:70]
    )
    assert list(log.history.entries(state, 100, 99)) == entries_on_disk(environment, 100, 99) == []


def test_a_fold_that_was_cut_short_is_finished_by_the_next(environment: LocalEnvironment) -> None:
    """Entries that were not removed, or were restored, are removed by the next fold."""
    log, state = new_store(environment, "orders")
    entries = {}
    for epoch in range(1, 64):
        state = advanced(log, state, epoch)
        entries[epoch] = environment.read(entry_path(epoch))
    state = advanced(log, state, 64)
    for epoch in (3, 17, 32):
        Path(environment.local_path(entry_path(epoch))).write_bytes(entries[epoch])

    assert Log(environment).load() == state
    state = advanced(log, state, 96)
    assert not any(environment.exists(entry_path(epoch)) for epoch in range(1, 65))
    assert Log(environment).load() == state


def test_a_fold_in_trouble_does_not_undo_the_commit(
    environment: LocalEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    """The commit is valid, the error is logged, and nothing is removed."""
    log, state = new_store(environment, "orders")
    state = advanced(log, state, 63)
    path = Path(environment.local_path(entry_path(20)))
    whole = path.read_bytes()
    path.write_bytes(b"damage")
    state = advanced(log, state, 64)

    assert "0020.json" in caplog.text
    assert Log(environment).load() == state
    assert environment.exists(entry_path(1))

    path.write_bytes(whole)
    advanced(log, state, 96)
    assert not environment.exists(entry_path(64))


def test_an_unforeseen_error_does_not_fail_the_commit(
    environment: LocalEnvironment, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A caller that saw it would write again what is in the log."""

    def fail(_: StoreState) -> None:
        raise ZeroDivisionError("unforeseen")

    log, state = new_store(environment, "t")
    state = advanced(log, state, 31)
    monkeypatch.setattr(log.folding, "put_checkpoint", fail)

    assert advanced(log, state, 33).epoch == Log(environment).load().epoch == 33
    assert "unforeseen" in caplog.text


def test_checkpoints_are_created_once(environment: LocalEnvironment) -> None:
    """The second writer finds the bytes that it would have written."""
    log, state = new_store(environment, "orders")
    log.folding.put_checkpoint(state)
    before = environment.read(checkpoint_path(2))
    log.folding.put_checkpoint(state)

    assert environment.read(checkpoint_path(2)) == before
    assert Log(environment).load() == state
