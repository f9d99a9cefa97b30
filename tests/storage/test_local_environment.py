"""The environment of a store in a folder."""

from __future__ import annotations

import errno
import os
import threading
import uuid
from pathlib import Path

import numpy as np
import pytest

from relstate.storage.disk import Disk
from relstate.storage.environment_choice import environment_of
from relstate.storage.errors import (
    CommitError,
    FilesystemError,
    StorageFullError,
    UnknownOutcomeError,
)
from relstate.storage.local_environment import LocalEnvironment
from support.faulty_environment import FaultyEnvironment, failing


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store's folder with a folder in it."""
    (tmp_path / "store" / "_log").mkdir(parents=True)
    return tmp_path / "store"


# What put_if_absent promises


def test_a_file_is_created_whole(root: Path) -> None:
    """What was put can be read; no temporary file remains."""
    LocalEnvironment(str(root)).put_if_absent("_log/a", b"content")

    assert {path.name: path.read_bytes() for path in (root / "_log").iterdir()} == {"a": b"content"}


def test_a_file_is_created_once(root: Path) -> None:
    """A name that is taken stays as it is."""
    environment = LocalEnvironment(str(root))
    environment.put_if_absent("_log/a", b"first")

    with pytest.raises(FileExistsError):
        environment.put_if_absent("_log/a", b"second")

    assert environment.read("_log/a") == b"first"
    assert environment.list("_log") == ["a"]


def test_many_files_are_created_once(root: Path) -> None:
    """Also in a bucket; those that were there stay as they are, and are named."""
    remote = environment_of(f"memory://{uuid.uuid4().hex}")
    for environment in (LocalEnvironment(str(root)), remote):
        environment.make_folders(["_archive"])
        environment.put_if_absent("_archive/1", b"one")
        files = {f"_archive/{number}": b"%d" % number for number in range(9)}
        assert environment.put_all_if_absent(files) == {"_archive/1"}
        contents = [b"one" if name.endswith("/1") else data for name, data in files.items()]
        assert environment.read_all(list(files)) == contents
        assert environment.put_all_if_absent({}) == set()


def test_of_many_creators_exactly_one_succeeds(root: Path) -> None:
    """The file has the content of the creator that succeeded."""
    environment = LocalEnvironment(str(root))
    start, winners = threading.Barrier(8), []

    def create(number: int) -> None:
        start.wait()
        try:
            environment.put_if_absent("_log/a", b"%d" % number)
        except FileExistsError:
            return
        winners.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(winners) == 1
    assert environment.read("_log/a") == b"%d" % winners[0]


def test_content_is_durable_before_the_name(root: Path) -> None:
    """Write, sync, link, then sync the folder: no name ever leads to half a file."""
    environment = FaultyEnvironment(root)

    environment.put_if_absent("_log/a", b"content")

    steps = [touch.split()[0] for touch in environment.touches]
    assert steps == ["write", "sync", "link", "remove", "sync"]
    assert environment.touches[1].endswith(".tmp")
    assert environment.touches[-1] == "sync _log"


def test_what_a_file_comes_after_is_durable_before_its_name(root: Path) -> None:
    """It is synced together with the temporary file, before the link."""
    environment = FaultyEnvironment(root)
    environment.write("written", [b"content"])

    environment.put_if_absent("_log/a", b"content", after=["written", "_log"])

    steps = [touch.split(".")[0] for touch in environment.touches[2:]]
    assert steps[:4] == ["sync _log/a", "sync written", "sync _log", "link _log/a"]


@pytest.mark.parametrize("fault", ["error_at", "lost_at"])
def test_what_a_file_comes_after_fails_it_with_its_own_path(root: Path, fault: str) -> None:
    """The file is certainly not created, and what could not be made durable is named."""
    environment = failing(root, fault, "sync written")
    environment.write("written", [b"content"])

    with pytest.raises(FilesystemError, match=r"written: cannot sync it"):
        environment.put_if_absent("_log/a", b"content", after=["written", "_log"])

    assert list((root / "_log").iterdir()) == []
    assert environment.touches[-2] == "sync _log"


def test_files_are_made_durable_at_the_same_time(root: Path) -> None:
    """Each sync waits for the others to begin: one after the other, they would wait for ever."""
    barrier = threading.Barrier(3, timeout=120)

    class Meeting(Disk):
        def sync(self, path: str) -> None:
            barrier.wait()
            super().sync(path)

    paths = [str(root / name) for name in "ab"]
    for path in paths:
        Path(path).write_bytes(b"content")
    Meeting().sync_all([*paths, str(root)])

    assert barrier.n_waiting == 0
    assert not barrier.broken


@pytest.mark.parametrize("missing", [0, 1, 20])
def test_one_of_many_files_that_cannot_be_made_durable_is_named(root: Path, missing: int) -> None:
    """Whichever it is, and though the others can."""
    paths = [root / str(number) for number in range(21)]
    for path in paths[:missing] + paths[missing + 1 :]:
        path.write_bytes(b"content")

    with pytest.raises(FileNotFoundError) as caught:
        Disk().sync_all([str(path) for path in paths])

    assert caught.value.filename == str(paths[missing])


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_full_disk_is_an_error_and_creates_nothing(root: Path, step: int, number: int) -> None:
    """StorageFullError names the path; the folder is as it was."""
    environment = FaultyEnvironment(root, error_at=step, errno=number)

    with pytest.raises(StorageFullError, match=r"_log/a.*free some space"):
        environment.put_if_absent("_log/a", b"content")

    assert list((root / "_log").iterdir()) == []


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK])
def test_a_file_system_without_hard_links_is_refused(root: Path, number: int) -> None:
    """The file is never written in halves instead."""
    environment = FaultyEnvironment(root, error_at=3, errno=number)

    with pytest.raises(FilesystemError, match="no hard links"):
        environment.put_if_absent("_log/a", b"content")

    assert list((root / "_log").iterdir()) == []


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.EIO])
def test_an_error_before_the_link_is_certain(root: Path, number: int) -> None:
    """The file was not created, and the error has the reason that the system gave."""
    environment = FaultyEnvironment(root, error_at=1, errno=number)

    with pytest.raises(FilesystemError, match=os.strerror(number)):
        environment.put_if_absent("_log/a", b"content")

    assert list((root / "_log").iterdir()) == []


@pytest.mark.parametrize("fault", ["error_at", "lost_at"])
@pytest.mark.parametrize("step", [3, 5])
def test_an_error_from_the_link_on_is_an_unknown_outcome(root: Path, step: int, fault: str) -> None:
    """The answer does not say whether the name was made, or is durable."""
    environment = failing(root, fault, step)

    with pytest.raises(UnknownOutcomeError, match="_log/a: the file may or may not"):
        environment.put_if_absent("_log/a", b"content")


def test_a_temporary_file_that_cannot_be_removed_is_no_error(root: Path) -> None:
    """It is a stray file; the commit is valid."""
    environment = FaultyEnvironment(root, error_at=4)

    environment.put_if_absent("_log/a", b"content")

    assert environment.read("_log/a") == b"content"


def test_a_folder_that_is_gone_is_an_error_of_the_file_system(root: Path) -> None:
    """A store that was deleted under its writer is an error of relstate, not a bare traceback."""
    environment = LocalEnvironment(str(root))
    (root / "_log").rmdir()

    with pytest.raises(FilesystemError, match="its folder does not exist"):
        environment.put_if_absent("_log/a", b"content")


# Reading and looking


def test_a_file_is_written_part_by_part(root: Path) -> None:
    """It is new, holds all parts, of bytes or arrays, and survives a power cut once published."""
    environment = FaultyEnvironment(root)
    parts: list[bytes | memoryview] = [b"one", np.frombuffer(b" and two", np.uint8).data, b""]

    for name in ("published", "unpublished"):
        environment.write(f"_log/{name}", iter(parts))
        assert environment.read(f"_log/{name}") == b"one and two"
    environment.publish("_log/published")
    environment.sync_folder("_log")
    environment.power_cut()

    assert (root / "_log" / "published").read_bytes() == b"one and two"
    assert (root / "_log" / "unpublished").read_bytes() == b""
    with pytest.raises(FileExistsError):
        LocalEnvironment(str(root)).write("_log/published", parts)


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EDQUOT, "free some space"),
        (errno.EFBIG, "ulimit -f.*raise the limit"),
    ],
)
def test_a_full_disk_ends_a_write_with_an_error(root: Path, number: int, advice: str) -> None:
    """So does a limit of the size of files. The caller removes what is left of the file."""
    environment = FaultyEnvironment(root, error_at="write _log/name", errno=number)

    with pytest.raises(StorageFullError, match=f"_log/name.*{advice}"):
        environment.write("_log/name", [b"content"])


def test_what_is_not_there_is_file_not_found(root: Path) -> None:
    """Reading, mapping, measuring and listing all raise it, with the path."""
    environment = LocalEnvironment(str(root))

    for look in (environment.read, environment.map, environment.size, environment.list):
        with pytest.raises(FileNotFoundError) as caught:
            look("_log/none")
        assert caught.value.filename == f"{root}/_log/none"


def test_below_a_file_there_is_nothing(root: Path) -> None:
    """A path through a file is as missing as any other."""
    environment = LocalEnvironment(str(root))
    environment.put_if_absent("_log/a", b"content")

    with pytest.raises(FileNotFoundError):
        environment.read("_log/a/b")
    assert not environment.exists("_log/a/b")


def test_read_map_and_size_agree(root: Path) -> None:
    """All show the same bytes; a map of an empty file is empty."""
    environment = LocalEnvironment(str(root))
    for name, content in (("_log/a", bytes(range(256)) * 40), ("_log/empty", b"")):
        environment.put_if_absent(name, content)

        assert environment.read(name) == content
        assert environment.map(name).tobytes() == content
        assert environment.size(name) == len(content)


def test_a_map_cannot_be_written(root: Path) -> None:
    """Nothing on disk is changed by accident through a map."""
    environment = LocalEnvironment(str(root))
    environment.put_if_absent("_log/a", b"content")

    assert environment.map("_log/a").dtype == np.uint8
    with pytest.raises(ValueError, match="read-only"):
        environment.map("_log/a")[0] = 0


def test_names_come_sorted(root: Path) -> None:
    """A listing is in the order of the names, which is that of the epochs."""
    environment = LocalEnvironment(str(root))
    for name in ("c", "a", "b"):
        environment.put_if_absent(f"_log/{name}", b"")

    assert environment.list("_log") == ["a", "b", "c"]
    assert environment.list("") == ["_log"]


def test_an_error_while_reading_names_the_path(root: Path) -> None:
    """An I/O error is FilesystemError with the path; looking for a file shows it as missing."""
    environment = FaultyEnvironment(root, error_at=1, errno=errno.EIO)
    with pytest.raises(FilesystemError, match="_log/a: cannot read it"):
        environment.read("_log/a")

    assert not FaultyEnvironment(root, error_at=1).exists("_log")


# Changing


def test_removing_twice_is_no_error(root: Path) -> None:
    """The file is gone after both calls."""
    environment = LocalEnvironment(str(root))
    environment.put_if_absent("_log/a", b"content")

    environment.remove("_log/a")
    environment.remove("_log/a")

    assert not environment.exists("_log/a")


def test_folders_are_made_with_their_parents_and_survive_a_power_cut(tmp_path: Path) -> None:
    """A store may be created deep below an existing folder, and again where it exists."""
    environment = FaultyEnvironment(tmp_path / "deep" / "store")
    environment.make_folders(("_log", "segments"))
    environment.make_folders(("_log", "segments"))
    environment.power_cut()

    assert LocalEnvironment(str(tmp_path / "deep" / "store")).list("") == ["_log", "segments"]


def test_every_missing_folder_above_a_store_is_made_durable(tmp_path: Path) -> None:
    """Each folder that is made is followed by a sync of its parent."""
    environment = FaultyEnvironment(tmp_path / "a" / "b" / "store")
    environment.make_folders(())

    made = [touch for touch in environment.touches if touch.startswith(("make", "sync"))]
    assert made == [
        "make ../..", "sync ../../..", "make ..", "sync ../..", "make .", "sync ..",
    ]  # fmt: skip


def test_random_ids_are_distinct() -> None:
    """16 bytes in hexadecimal, never the same."""
    environment = LocalEnvironment("/nowhere")
    ids = {environment.random_id() for _ in range(1000)}

    assert len(ids) == 1000
    assert all(len(bytes.fromhex(random_id)) == 16 for random_id in ids)


def test_an_unknown_outcome_is_not_an_error_of_storage() -> None:
    """A handler of file errors does not catch an unknown outcome by accident."""
    assert issubclass(UnknownOutcomeError, CommitError)
    assert not issubclass(UnknownOutcomeError, FilesystemError)


def test_a_folder_that_cannot_be_made_is_an_error_of_ours() -> None:
    """/proc takes no folders, and says that the parent does not exist."""
    with pytest.raises(FilesystemError, match="/proc/relstate"):
        environment_of("/proc/relstate").make_folders(["_log"])
