"""Damage to the log: every missing, changed or foreign file is found and named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from relstate.storage.errors import CorruptionError
from relstate.storage.local_environment import LocalEnvironment
from relstate.storage.log.history import EntryCache
from relstate.storage.log.log import Log
from relstate.storage.paths import archive_path, checkpoint_path, entry_path
from support.commits import advanced, committed, new_store, quick_environment, upsert


def test_a_gap_is_corruption(environment: LocalEnvironment) -> None:
    """The missing file is named, whether it is the first, one in between or a checkpoint."""
    log, state = new_store(environment, "orders")
    advanced(log, state, 40)
    for path in (entry_path(33), entry_path(35), entry_path(39)):
        _check_missing(environment, path)

    environment.remove(checkpoint_path(32))
    for path in (entry_path(1), entry_path(2), entry_path(31)):
        _check_missing(environment, path)


def _check_missing(environment: LocalEnvironment, path: str) -> None:
    content = environment.read(path)
    environment.remove(path)
    with pytest.raises(CorruptionError, match=f"{path}: this file of the log is missing"):
        Log(environment).load()
    Path(environment.local_path(path)).write_bytes(content)
    Log(environment).load()


def test_a_lost_checkpoint_is_corruption_once_its_entries_are_folded(
    environment: LocalEnvironment,
) -> None:
    """No other file replaces it."""
    log, state = new_store(environment, "orders")
    advanced(log, state, 70)
    for epoch in (32, 64):
        environment.remove(checkpoint_path(epoch))

    with pytest.raises(CorruptionError, match=r"0001\.json: this file of the log is missing"):
        Log(environment).load()


@pytest.mark.parametrize("name", [checkpoint_path(32), entry_path(33), entry_path(34)])
def test_damage_anywhere_in_the_log_is_found(environment: LocalEnvironment, name: str) -> None:
    """A flipped bit or a truncation, in any region of any file that is read, names the file."""
    log, state = new_store(environment, "orders")
    state = advanced(log, state, 31)
    state = committed(log, state, upsert(environment))
    committed(log, committed(log, state, upsert(environment)), upsert(environment))
    path = Path(environment.local_path(name))
    whole = path.read_bytes()

    damaged = [whole[:length] for length in range(0, len(whole), 23)]
    damaged += [
        whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :]
        for at in range(0, len(whole), 7)
    ]
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(CorruptionError, match=f"{name}: "):
            Log(environment).load()


def test_damage_to_the_first_entry_is_found(environment: LocalEnvironment) -> None:
    """Also where no checkpoint is read before it."""
    new_store(environment)
    path = Path(environment.local_path(entry_path(1)))
    path.write_bytes(path.read_bytes()[:-1])

    with pytest.raises(CorruptionError, match=r"_log/0{19}1\.json: "):
        Log(environment).load()


def test_damage_met_while_following_is_found(environment: LocalEnvironment) -> None:
    """A reader that follows the log checks what it reads, too."""
    log, old = new_store(environment, "orders")
    advanced(log, old, 4)
    path = Path(environment.local_path(entry_path(3)))
    path.write_bytes(path.read_bytes().replace(b"truncate", b"truncatf"))

    with pytest.raises(CorruptionError, match=r"0003\.json: "):
        log.refresh(old)


def test_a_renamed_entry_is_found(environment: LocalEnvironment) -> None:
    """Two exchanged entries are both whole, and both refused."""
    log, state = new_store(environment, "orders")
    advanced(log, state, 5)
    paths = [Path(environment.local_path(entry_path(epoch))) for epoch in (3, 4)]
    contents = [path.read_bytes() for path in paths]
    for path, content in zip(paths, reversed(contents), strict=True):
        path.write_bytes(content)

    with pytest.raises(CorruptionError, match="it is the entry of epoch 4, not of epoch 3"):
        Log(environment).load()


@pytest.mark.parametrize("epochs", [(3, 4), (4, 4), (3, 3)])
def test_files_of_two_copies_of_a_store_do_not_mix(
    environment: LocalEnvironment, tmp_path: Path, epochs: tuple[int, int]
) -> None:
    """A partial restore over a newer store is found: entries name their parents."""
    log, state = new_store(environment, "orders")
    shutil.copytree(environment.root, tmp_path / "copy")
    copy = quick_environment(tmp_path / "copy")
    advanced(log, state, 5)
    advanced(Log(copy), state, 5)
    for epoch in range(epochs[0], epochs[1] + 1):
        shutil.copy(copy.local_path(entry_path(epoch)), environment.local_path(entry_path(epoch)))

    with pytest.raises(CorruptionError, match="files of two stores were mixed"):
        Log(environment).load()
    with pytest.raises(CorruptionError, match="files of two stores were mixed"):
        log.refresh(state)
    with pytest.raises(CorruptionError, match="files of two stores were mixed"):
        list(Log(environment, EntryCache()).history.entries(state, 1, 5))


def test_a_missing_archive_is_corruption(environment: LocalEnvironment) -> None:
    """The history is not shortened silently; the error names the archive."""
    log, state = new_store(environment, "orders")
    state = advanced(log, state, 70)
    environment.remove(archive_path(1))

    with pytest.raises(CorruptionError, match=f"{archive_path(1)}: this file of the log"):
        list(Log(environment, EntryCache()).history.entries(state, 30, 40))
