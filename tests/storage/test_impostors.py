"""What stands in place of a file of a store and is none: found and named, in no case followed.

Who can write into a store's folder could otherwise let its users read or write any file of theirs,
or wait for ever.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from relstate.storage import Store
from relstate.storage.epochs import Epochs
from relstate.storage.errors import CorruptionError, RelstateError, StorageError
from relstate.storage.figures.files import disk_use
from relstate.storage.local_environment import LocalEnvironment
from relstate.storage.log.folding import Division
from relstate.storage.paths import SIGNAL, archive_path, checkpoint_path, entry_path, segment_path
from support.commits import quick_environment
from support.divided_logs import divided_log
from support.stores import contents

ROWS = 75


def open_anew(path: Path) -> Store:
    """Return the store as a process has it that has read nothing, and that divides finely."""
    log = divided_log(quick_environment(path), Division(most=2, size=2))
    return Store(Epochs(log, log.load()))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with files of every kind."""
    path = tmp_path_factory.mktemp("original") / "store"
    Store.create("", environment=quick_environment(path)).create_table(
        "t", "id BIGINT", primary_key=["id"]
    )
    store = open_anew(path)
    for number in range(ROWS):
        store.write("t", [{"id": number}])
    assert [*path.glob("_archive/*.manifest.json")]
    return path


def to_itself(path: Path) -> None:
    """Put a link to the file, moved elsewhere."""
    moved = path.parents[1].with_name("moved")
    path.rename(moved)
    path.symlink_to(moved)


def to_zeros(path: Path) -> None:
    """Put a link to a device that never ends."""
    path.unlink()
    path.symlink_to("/dev/zero")


def pipe(path: Path) -> None:
    """Put a pipe that nobody writes to."""
    path.unlink()
    os.mkfifo(path)


def folder(path: Path) -> None:
    """Put a folder."""
    path.unlink()
    path.mkdir()


def listener(path: Path) -> None:
    """Put a socket."""
    path.unlink()
    before = os.getcwd()
    os.chdir(path.parent)  # the path of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as opened:
            opened.bind(path.name)
    finally:
        os.chdir(before)


def sparse(path: Path) -> None:
    """Let the file have a terabyte."""
    os.truncate(path, 1 << 40)


IMPOSTORS: dict[str, Callable[[Path], None]] = {
    "a symbolic link to '.*moved'": to_itself,
    "a symbolic link to '/dev/zero'": to_zeros,
    "a named pipe": pipe,
    "a folder": folder,
    "a socket": listener,
    "1099511627776 bytes": sparse,
}
FILES: dict[str, Callable[[Path], Path]] = {
    "newest entry": lambda store: max(store.glob("_log/*[0-9].json")),
    "entry": lambda store: store / entry_path(ROWS - 3),
    "checkpoint": lambda store: store / checkpoint_path(64),
    "archive": lambda store: store / archive_path(1),
    "manifest": lambda store: max(
        store.glob("_archive/*.manifest.json"), key=lambda path: path.stat().st_mtime_ns
    ),
    "segment": lambda store: store / segment_path(min(open_anew(store).state.segments)),
}


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("found", IMPOSTORS)
def test_an_impostor_is_named(original: Path, tmp_path: Path, found: str, file: str) -> None:
    """By the first call that needs the file, and by a check, with what it is."""
    store = tmp_path / "store"
    shutil.copytree(original, store)
    path = FILES[file](store)
    IMPOSTORS[found](path)

    def read() -> None:
        opened = open_anew(store)
        assert len(contents(opened, "t")) == ROWS
        assert len(list(opened.history())) > ROWS

    with pytest.raises(CorruptionError, match=f"{path.name}: .*{found}"):
        read()
    try:
        problems = [str(problem) for problem in open_anew(store).check().problems]
    except StorageError as error:
        problems = [str(error)]
    assert any(path.name in problem for problem in problems)


@pytest.mark.parametrize("target", ["/dev/zero", "missing"])
def test_an_impostor_of_the_next_entry_is_named(
    original: Path, tmp_path: Path, target: str
) -> None:
    """A commit waits for nobody and writes nothing to where a link leads."""
    path = tmp_path / "store"
    shutil.copytree(original, path)
    store = Store.open(str(path))
    (path / entry_path(store.epoch + 1)).symlink_to(target)

    with pytest.raises(RelstateError, match=f"a symbolic link to '{target}'"):
        store.write("t", [{"id": 1}])
    assert not (path / "_log" / "missing").exists()


def to_secret(signal: Path, secret: Path) -> None:
    """Put a link to somebody's file."""
    signal.symlink_to(secret)


def second_name(signal: Path, secret: Path) -> None:
    """Give somebody's file a second name."""
    os.link(secret, signal)


def signal_pipe(signal: Path, _: Path) -> None:
    """Put a pipe that nobody reads from."""
    os.mkfifo(signal)


@pytest.mark.parametrize("put", [to_secret, second_name, signal_pipe])
def test_the_signal_is_written_to_no_file_of_others(
    original: Path, tmp_path: Path, put: Callable[[Path, Path], None]
) -> None:
    """Commits and reads work without it, in all processes."""
    path, secret = tmp_path / "store", tmp_path / "secret"
    shutil.copytree(original, path)
    secret.write_text("of somebody, and not for the store")
    with Store.open(str(path)) as reader, Store.open(str(path)) as writer:
        assert reader.table("t").get(1) is not None
        (path / SIGNAL).unlink(missing_ok=True)
        put(path / SIGNAL, secret)
        for number in range(3):
            writer.write("t", [{"id": ROWS + number}])
            assert reader.table("t").get(ROWS + number) is not None
    assert secret.read_text() == "of somebody, and not for the store"


def test_folders_may_be_links(original: Path, tmp_path: Path) -> None:
    """The store's own, as a name for it, and that of its segments, as another disk has room."""
    path, other_disk = tmp_path / "store", tmp_path / "disk"
    shutil.copytree(original, path)
    shutil.move(path / "segments", other_disk)
    (path / "segments").symlink_to(other_disk)
    (tmp_path / "name").symlink_to(path)

    with Store.open(str(tmp_path / "name")) as store:
        store.write("t", [{"id": ROWS}])
        store.compact()
        store.vacuum(0)
        assert len(contents(store, "t")) == ROWS + 1
        assert store.check().problems == ()
    with Store.open(str(path)) as store:
        assert store.table("t").get(ROWS) is not None


def test_a_file_that_could_not_be_read_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is larger than what a reader takes for a file of the store."""
    environment = LocalEnvironment(str(tmp_path / "store"))
    store = Store.create("", environment=environment)
    monkeypatch.setattr("relstate.storage.local_environment.MOST_READ", 50)
    with pytest.raises(StorageError, match="at most 50 can be read; nothing was written"):
        store.create_table("t", "id BIGINT", primary_key=["id"])
    assert store.epoch == 1


def test_an_impostor_that_no_epoch_names_hinders_no_report(tmp_path: Path) -> None:
    """It counts as a file, of no bytes."""
    store = Store.create("", environment=quick_environment(tmp_path / "store"))
    (tmp_path / "store" / "segments" / "x-000000.lmdb").symlink_to("/dev/zero")
    use = disk_use(store.environment, store.state)
    assert (use.other_files, use.other_bytes) == (1, 0)
