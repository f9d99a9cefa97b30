"""The archive of folded entries."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from relstate.storage.errors import CorruptionError, FilesystemError
from relstate.storage.local_environment import LocalEnvironment
from relstate.storage.log.archive import archive_block, is_archived, read_archive
from relstate.storage.log.entry import Entry, encode_entry
from relstate.storage.log.state import StoreState
from relstate.storage.paths import FOLDERS, archive_path, entry_path
from support.commits import quick_environment
from support.faulty_environment import FaultyEnvironment
from support.histories import FIRST, following
from support.object_stores import CountedStore


def block(count: int = 32) -> list[Entry]:
    """Return the first entries of a store."""
    entries = [FIRST]
    state = StoreState.first(FIRST)
    while len(entries) < count:
        entries.append(following(state))
        state = state.apply(entries[-1])
    return entries


@pytest.fixture
def environment(tmp_path: Path) -> LocalEnvironment:
    """A folder whose log holds the first 32 entries and nothing else."""
    environment = quick_environment(tmp_path / "store")
    environment.make_folders(FOLDERS)
    for entry in block():
        (tmp_path / "store" / entry_path(entry.epoch)).write_bytes(encode_entry(entry))
    return environment


def test_an_archive_is_its_entries_one_a_line(environment: LocalEnvironment) -> None:
    """It is the bytes of their files in order; every epoch of the block has its path."""
    archive_block(environment, 1)

    assert environment.read(archive_path(1)) == b"".join(map(encode_entry, block()))
    for epoch in (1, 17, 32):
        assert read_archive(environment, epoch) == tuple(block())
        assert is_archived(environment, epoch)
    assert not is_archived(environment, 33)
    assert read_archive(environment, 33) is None


def test_archiving_twice_is_archiving_once(environment: LocalEnvironment) -> None:
    """Also after the entries were removed."""
    archive_block(environment, 1)
    before = environment.read(archive_path(1))
    environment.remove(entry_path(5))
    archive_block(environment, 32)

    assert environment.read(archive_path(1)) == before


def test_a_missing_entry_is_corruption_and_archives_nothing(environment: LocalEnvironment) -> None:
    """The file is named."""
    environment.remove(entry_path(5))

    with pytest.raises(CorruptionError, match=r"_log/0{19}5\.json: this log entry is missing"):
        archive_block(environment, 1)
    assert not is_archived(environment, 1)


def test_a_missing_entry_of_a_bucket_is_named_by_its_address(tmp_path: Path) -> None:
    """In the error, which is a message of the log when checkpoints are written."""
    environment = CountedStore(f"memory://{uuid.uuid4().hex}/shop", tmp_path)
    for entry in block()[:4]:
        environment.put_if_absent(entry_path(entry.epoch), encode_entry(entry))

    with pytest.raises(CorruptionError, match=r"^memory://.*/shop/_log/0{19}5\.json: this log"):
        archive_block(environment, 1)


@pytest.mark.parametrize("damage", [b"damage\n", b""])
def test_nothing_is_taken_for_archived_by_a_file_that_is_no_archive(
    environment: LocalEnvironment, damage: bytes
) -> None:
    """Entries are removed once they are archived: an archive that is there has to be whole."""
    Path(environment.local_path(archive_path(1))).write_bytes(damage)

    with pytest.raises(CorruptionError, match="entries instead of 32"):
        archive_block(environment, 1)


def test_a_damaged_entry_is_not_archived(environment: LocalEnvironment) -> None:
    """Entries are removed only after their archive could be decoded."""
    Path(environment.local_path(entry_path(5))).write_bytes(b"damage\n")

    with pytest.raises(CorruptionError):
        archive_block(environment, 1)
    assert not is_archived(environment, 1)


def test_entries_of_two_stores_are_not_archived(environment: LocalEnvironment) -> None:
    """Each entry must follow the one before it."""
    foreign_entry = following(StoreState.first(FIRST), commit_id="another store's")
    Path(environment.local_path(entry_path(2))).write_bytes(encode_entry(foreign_entry))

    with pytest.raises(CorruptionError, match="epoch 3 was committed after another epoch 2"):
        archive_block(environment, 1)


def test_damage_to_an_archive_is_found(environment: LocalEnvironment) -> None:
    """A flipped byte, a missing or doubled line, an empty file: the error names the archive."""
    archive_block(environment, 1)
    path = Path(environment.local_path(archive_path(1)))
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for damaged in (
        b"",
        whole[:-1],
        whole + b"\n",
        b"".join(lines[:-1]),
        b"".join([*lines[:-1], lines[0]]),
        whole[:1000] + b"\x00" + whole[1001:],
        *(
            whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :]
            for at in range(0, len(whole), 199)
        ),
    ):
        path.write_bytes(damaged)
        with pytest.raises(CorruptionError, match=r"_archive/0{19}1-0{18}32\.json: "):
            read_archive(environment, 1)


def test_whether_something_is_archived_is_never_guessed(environment: LocalEnvironment) -> None:
    """If the disk fails there is an error, not a False: whether a commit happened depends on it."""
    faulty = FaultyEnvironment(environment.root, error_at=1)

    with pytest.raises(FilesystemError):
        is_archived(faulty, 1)


@pytest.mark.parametrize("moment", ["read _log/00000000000000000009.json", "link _archive"])
def test_a_race_of_archivers_has_one_result(environment: LocalEnvironment, moment: str) -> None:
    """One archives and removes while the other is about to read, or to create: both succeed."""

    def archive_first(touch: str) -> None:
        if touch.startswith(moment):
            archive_block(environment, 1)
            for epoch in range(1, 33):
                environment.remove(entry_path(epoch))

    archive_block(FaultyEnvironment(environment.root, before=archive_first), 1)

    assert read_archive(environment, 1) == tuple(block())
