"""What a call does after its commit: nothing that can make it fail.

A caller who sees an error repeats the call, and would do so to what is done already.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from errno import EIO
from pathlib import Path
from typing import Any

import pytest

from relstate.storage import Store
from relstate.storage.disk import FolderVersion
from relstate.storage.errors import FilesystemError
from relstate.storage.local_environment import LocalEnvironment
from relstate.storage.schema.properties import EncodingName
from support.commits import UnsyncedDisk

ROW = [{"k": 2, "v": "b"}]


class BlindDisk(UnsyncedDisk):
    """A disk on which no look succeeds once a log entry was created, except at the archive.

    Whether an entry is archived belongs to the commit: its outcome is unknown without the answer.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_blind = False

    def link(self, source: str, target: str) -> None:
        super().link(source, target)
        if os.path.basename(os.path.dirname(target)) == "_log":
            self.is_blind = True

    def _look(self, path: str) -> None:
        if self.is_blind and "_archive" not in path:
            raise OSError(EIO, os.strerror(EIO), path)

    def sync(self, path: str) -> None:
        """Do nothing."""

    def read(self, path: str) -> bytes:
        self._look(path)
        return super().read(path)

    def map(self, path: str) -> Any:
        self._look(path)
        return super().map(path)

    def size(self, path: str) -> int:
        self._look(path)
        return super().size(path)

    def identity(self, path: str) -> tuple[int, ...]:
        self._look(path)
        return super().identity(path)

    def modified(self, path: str) -> int:
        self._look(path)
        return super().modified(path)

    def exists(self, path: str) -> bool:
        # As `access` does with errors.
        return not (self.is_blind and "_archive" not in path) and super().exists(path)

    def list(self, path: str) -> list[str]:
        self._look(path)
        return super().list(path)

    def folder_version(self, path: str) -> FolderVersion | None:
        self._look(path)
        return super().folder_version(path)


def state_table(*, strict: bool) -> Callable[[Store], object]:
    """Return what commits a row through a state table."""

    def commit(store: Store) -> object:
        table = store.state_table("t", strict=strict)
        table.insert([3, "c"])
        return table.commit()

    return commit


def document(store: Store) -> object:
    """Commit a change of a document."""
    writer = store.document_writer("d")
    writer.set(1, {"v": "c"})
    return writer.commit()


CALLS: dict[str, Callable[[Store], object]] = {
    "create_table": lambda store: store.create_table("n", "k INT", primary_key=["k"]),
    "replace": lambda store: store.create_table("t", "k INT", primary_key=["k"], or_replace=True),
    "create_table_like": lambda store: store.create_table_like("n", "t"),
    "rename_table": lambda store: store.rename_table("t", "n"),
    "drop_table": lambda store: store.drop_table("t"),
    "truncate": lambda store: store.truncate("t"),
    "add_columns": lambda store: store.add_columns("t", "w INT"),
    "indexed_write": lambda store: store.write("i", ROW),
    "set_ttl": lambda store: store.set_ttl("t", 60),
    "create_index": lambda store: store.create_index("t", "i", ["v"]),
    "drop_index": lambda store: store.drop_index("i", "by_v"),
    "write": lambda store: store.write("t", ROW),
    "overwrite": lambda store: store.write("t", ROW, overwrite=True),
    "delete": lambda store: store.delete("t", [{"k": 1}]),
    "patch": lambda store: store.patch("d", ROW),
    "restore": lambda store: store.restore("t", store.epoch),
    "document_writer": document,
    "state_table": state_table(strict=False),
    "strict_state_table": state_table(strict=True),
    "compact": lambda store: store.compact("t"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_whose_commit_happened_returns(tmp_path: Path, name: str) -> None:
    """Whatever cannot be read any more after it. It is one epoch, which the store then shows."""
    disk = BlindDisk()
    store = Store.create("", environment=LocalEnvironment(str(tmp_path / "s"), disk))
    disk.is_blind = False
    encodings: dict[str, EncodingName] = {"t": "row", "i": "row", "d": "document"}
    for table, encoding in encodings.items():
        store.create_table(table, "k INT, v STRING", primary_key=["k"], encoding=encoding)
        disk.is_blind = False
        for value in "ab":
            store.write(table, [{"k": 1, "v": value}, {"k": 4, "v": value}])
            disk.is_blind = False
    store.create_index("i", "by_v", ["v"])
    disk.is_blind = False
    before = store.epoch

    CALLS[name](store)

    assert disk.is_blind
    assert store.known_epoch == before + 1
    with pytest.raises(FilesystemError):
        Store.open("", environment=store.environment)
    disk.is_blind = False
    assert store.epoch == before + 1
    assert store.check().problems == ()


def test_a_store_that_was_created_is_open(tmp_path: Path) -> None:
    """Its creation is a commit, too."""
    disk = BlindDisk()
    store = Store.create("", environment=LocalEnvironment(str(tmp_path / "s"), disk))
    assert disk.is_blind
    disk.is_blind = False
    assert store.epoch == 1


def test_a_state_table_reads_anew_after_its_commit(store: Store) -> None:
    """What it committed, and what others did until it reads, which is no conflict."""
    store.create_table("t", "k INT, v STRING", primary_key=["k"])
    table = store.state_table("t", strict=True)
    table.insert([1, "a"])
    table.commit()
    store.write("t", [{"k": 2, "v": "b"}])
    table.update([2, "b"], [2, "c"])
    table.delete([1, "a"])
    table.commit()
    assert table.get_row(1) is None
    assert table.get_row(2) == (2, "c")
