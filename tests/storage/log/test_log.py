"""The commit log: creating, loading, following, folding, and what damage it finds."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from relstate.storage.environment import LocalEnvironment
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
from relstate.storage.paths import (
    archive_path,
    archived_checkpoint_path,
    checkpoint_path,
    entry_path,
)
from support.clock import ManualClock
from support.commits import (
    SETTINGS,
    advanced,
    committed,
    creation,
    new_store,
    quick_environment,
    truncation,
    upsert,
)
from support.faulty_environment import FaultyEnvironment
from support.histories import following


@pytest.fixture
def environment(tmp_path: Path) -> LocalEnvironment:
    """An environment whose store's folder does not exist yet."""
    return quick_environment(tmp_path / "store")


def files_of(environment: LocalEnvironment) -> list[str]:
    """Return the names of the files in the log's folder, without the zeros they begin with."""
    return [file.lstrip("0") for file in environment.list("_log")]


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

    first, *rest = log.entries(1, state.epoch)
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


def test_refreshing_the_newest_state_returns_it_after_two_looks(
    environment: LocalEnvironment,
) -> None:
    """The very same object; the next entry is looked for first, then the own one."""
    _, state = new_store(environment, "orders")
    watched = FaultyEnvironment(environment.root)
    log = Log(watched)
    log.load()
    before = len(watched.touches)

    assert log.refresh(state) is state
    assert watched.touches[before:] == [
        "look for _log/00000000000000000003.json",
        "look for _log/00000000000000000002.json",
    ]


def test_refreshing_follows_the_log(environment: LocalEnvironment) -> None:
    """Few entries are folded onto the state; after a fold of the log it is loaded."""
    log, old = new_store(environment, "orders")
    reader = Log(environment)
    for epoch in (3, 5, 40, 200):
        new = advanced(log, old, epoch)

        assert reader.refresh(old) == new
        assert reader.refresh(reader.refresh(old)) == new


def test_the_folder_is_listed_once_a_minute(environment: LocalEnvironment) -> None:
    """What two looks at a stale cache would hide shows then."""
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
    """A state of one store is never continued by another's log."""
    log, state = new_store(environment, "orders", "items")
    shutil.rmtree(environment.root)
    Log(environment).create(replace(SETTINGS, store_id="another"))

    with pytest.raises(CorruptionError, match="another store has taken the place"):
        log.refresh(state)


def test_a_store_that_was_replaced_by_an_equally_old_one_is_told(
    environment: LocalEnvironment,
) -> None:
    """A writer finds out before it adds to the other's log, a reader within a minute."""
    clock = ManualClock()
    log, state = new_store(quick_environment(environment.root, clock), "orders")
    shutil.rmtree(environment.root)
    other = Log(quick_environment(environment.root, clock))
    others_state = other.create(replace(SETTINGS, store_id="another"))
    others_state = committed(other, others_state, creation(other.environment, "orders"))

    assert log.refresh(state) is state
    with pytest.raises(CorruptionError, match="another store"):
        commit(log, state, truncation(log.environment))
    assert other.load() == others_state
    clock.advance(61)
    with pytest.raises(CorruptionError, match="another store"):
        log.refresh(state)


def test_a_store_that_was_deleted_is_told(environment: LocalEnvironment) -> None:
    """Its reader does not go on as if nothing had happened."""
    log, state = new_store(environment, "orders")
    shutil.rmtree(environment.root)

    with pytest.raises(StoreNotFoundError):
        log.refresh(state)


def test_a_log_that_lost_its_end_is_told(environment: LocalEnvironment) -> None:
    """Who has read an epoch is not shown an older one as the newest."""
    log, state = new_store(environment, "orders")
    state = advanced(log, state, 5)
    environment.remove(entry_path(5))

    with pytest.raises(CorruptionError, match=r"0005\.json: .*although epoch 5 was read"):
        log.refresh(state)


# Folding


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
    """Entries go when a second checkpoint covers them, not before."""
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
    """Loading reads one checkpoint and the entries behind it."""
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
    seen = [next(log.entries(1, 1)), next(log.entries(2, 2))]
    while state.epoch < 140:
        state = advanced(log, state, state.epoch + 1)
        seen.append(next(log.entries(state.epoch, state.epoch)))

    assert list(log.entries(1, 140)) == seen
    assert list(log.entries(30, 70)) == seen[29:70]
    assert list(log.entries(100, 99)) == []


def test_a_fold_that_was_cut_short_is_finished_by_the_next(environment: LocalEnvironment) -> None:
    """Entries that came back, or were never removed, go with the next fold."""
    log, state = new_store(environment, "orders")
    kept = {}
    for epoch in range(1, 64):
        state = advanced(log, state, epoch)
        kept[epoch] = environment.read(entry_path(epoch))
    state = advanced(log, state, 64)
    for epoch in (3, 17, 32):
        Path(environment.local_path(entry_path(epoch))).write_bytes(kept[epoch])

    assert Log(environment).load() == state
    state = advanced(log, state, 96)
    assert not any(environment.exists(entry_path(epoch)) for epoch in range(1, 65))
    assert Log(environment).load() == state


def test_a_fold_in_trouble_does_not_undo_the_commit(
    environment: LocalEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    """The commit stands, the trouble is logged, and nothing is removed."""
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


# Damage


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
    """Nothing is read around it."""
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
    """A reader that only catches up checks what it reads as well."""
    log, old = new_store(environment, "orders")
    advanced(log, old, 4)
    path = Path(environment.local_path(entry_path(3)))
    path.write_bytes(path.read_bytes().replace(b"truncate", b"truncatf"))

    with pytest.raises(CorruptionError, match=r"0003\.json: "):
        log.refresh(old)


def test_a_renamed_entry_is_found(environment: LocalEnvironment) -> None:
    """Two entries exchanged are both whole, and both wrong."""
    log, state = new_store(environment, "orders")
    advanced(log, state, 5)
    paths = [Path(environment.local_path(entry_path(epoch))) for epoch in (3, 4)]
    contents = [path.read_bytes() for path in paths]
    for path, content in zip(paths, reversed(contents), strict=True):
        path.write_bytes(content)

    with pytest.raises(CorruptionError, match="holds the entry of epoch 4, not the one of epoch 3"):
        Log(environment).load()


@pytest.mark.parametrize("epochs", [(3, 4), (4, 4), (3, 3)])
def test_files_of_two_copies_of_a_store_do_not_mix(
    environment: LocalEnvironment, tmp_path: Path, epochs: tuple[int, int]
) -> None:
    """A restore over a store that has gone on is found: entries name their parents."""
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
        list(log.entries(1, 5))


def test_a_missing_archive_is_corruption(environment: LocalEnvironment) -> None:
    """The history is not shortened silently."""
    log, state = new_store(environment, "orders")
    advanced(log, state, 70)
    environment.remove(archive_path(1))

    with pytest.raises(CorruptionError, match=r"0030\.json: this file of the log is missing"):
        list(log.entries(30, 40))


# Appending


def test_an_entry_is_appended_once(environment: LocalEnvironment) -> None:
    """The first has its epoch, the second is told that it has not."""
    log, state = new_store(environment, "orders")
    one, other = (following(state, commit_id=commit_id) for commit_id in ("one", "other"))

    assert log.append(one)
    assert not log.append(other)
    assert log.refresh(state).commit_id == "one"


def test_appending_again_what_is_there_is_success(environment: LocalEnvironment) -> None:
    """An entry is recognised by its commit id: its answer had only been lost."""
    log, state = new_store(environment, "orders")
    entry = following(state)

    assert log.append(entry)
    assert log.append(entry)
    assert log.refresh(state).epoch == 3


def test_checkpoints_are_created_once(environment: LocalEnvironment) -> None:
    """Whoever comes second finds the bytes it would have written."""
    log, state = new_store(environment, "orders")
    log.put_checkpoint(state)
    before = environment.read(checkpoint_path(2))
    log.put_checkpoint(state)

    assert environment.read(checkpoint_path(2)) == before
    assert Log(environment).load() == state


def test_entries_written_by_hand_are_followed(environment: LocalEnvironment) -> None:
    """The format is all that counts, not who wrote it."""
    log, state = new_store(environment, "orders")
    entry: Entry = following(state, operation="by hand")
    Path(environment.local_path(entry_path(3))).write_bytes(encode_entry(entry))

    assert log.refresh(state) == state.apply(entry)
    assert commit(log, state, creation(environment, "items")).epoch == 4
    assert commit(log, state, truncation(environment)).epoch == 5


# The past


def test_the_state_of_every_epoch_can_be_had(environment: LocalEnvironment) -> None:
    """Whether it is folded or not, it is what it was."""
    log, state = new_store(environment, "orders")
    states = [state]
    for epoch in range(state.epoch + 1, 140):
        states.append(advanced(log, states[-1], epoch))

    for state in states:
        assert log.state_at(states[-1], state.epoch) == state


def test_the_state_of_an_epoch_does_not_need_its_checkpoint(environment: LocalEnvironment) -> None:
    """The one before, or the first entry, serves as well."""
    log, state = new_store(environment, "orders")
    middle = advanced(log, state, 70)
    newest = advanced(log, middle, 140)
    for epoch in log.checkpoint_epochs()[:-2]:
        environment.remove(archived_checkpoint_path(epoch))

    assert log.state_at(newest, 70) == middle


def test_an_epoch_is_found_by_its_time(tmp_path: Path) -> None:
    """It is the newest that was committed at or before it; before the first there is none."""
    clock = ManualClock()
    environment = LocalEnvironment(str(tmp_path / "clocked"), clock=clock)
    log, state = new_store(environment, "orders")
    began = state.time
    for epoch in range(3, 80):
        clock.advance(1.0)
        state = advanced(log, state, epoch)

    for epoch in (2, 3, 31, 32, 33, 64, 79):
        committed_at = began + (epoch - 2) * 1_000_000
        assert log.epoch_at(state, committed_at) == epoch
        assert log.epoch_at(state, committed_at + 999_999) == epoch
    assert log.epoch_at(state, began + 10**12) == 79
    with pytest.raises(EpochNotFoundError, match="before the first epoch"):
        log.epoch_at(state, began - 1)


def test_the_history_is_all_entries_the_newest_first(environment: LocalEnvironment) -> None:
    """Archived or not."""
    log, state = new_store(environment, "orders")
    state = advanced(log, state, 100)

    assert [entry.epoch for entry in log.history(state)] == list(range(100, 0, -1))
