from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from flights_folder import Folder

import relstate


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A replay that has begun: a store, and a checkpoint that tells of it."""
    folder = Folder(tmp_path / "flights")
    relstate.create(str(folder.store)).close()
    folder.checkpoint.mkdir(parents=True)
    return folder


def test_a_replay_goes_on(folder: Folder) -> None:
    """Without a reset, store and checkpoints stay."""
    folder.prepare(reset=False)

    assert relstate.open(str(folder.store)).tables() == ()
    assert folder.checkpoint.is_dir()


def test_a_reset_removes_the_store_and_what_tells_of_it(folder: Folder) -> None:
    """After a reset there is neither store nor checkpoint, nor either of them by another name."""
    folder.prepare(reset=True)

    assert not folder.store.exists()
    assert not folder.checkpoint.parent.exists()


def test_checkpoints_go_with_their_store(folder: Folder) -> None:
    """A reset that was killed when the store had just gone is completed by the next run."""
    folder.store.rename(folder.checkpoint.parent / "removed")
    folder.prepare(reset=False)

    assert not folder.checkpoint.parent.exists()


def test_what_is_no_store_is_not_removed(tmp_path: Path) -> None:
    """A reset spares a folder of the user's that was named by mistake."""
    precious = tmp_path / "flights" / "precious"
    precious.mkdir(parents=True)
    Folder(tmp_path / "flights").prepare(reset=True)

    assert precious.is_dir()
    assert [path.name for path in tmp_path.iterdir()] == ["flights"]


def test_a_replay_keeps_its_beginning(folder: Folder) -> None:
    """The day from which on it streams is told apart by the history: another one is refused."""
    began = folder.history(datetime(2013, 11, 1, tzinfo=UTC))
    began.touch()

    assert folder.history(datetime(2013, 11, 1, tzinfo=UTC)) == began
    with pytest.raises(SystemExit, match="--since 2013-11-01"):
        folder.history(datetime(2013, 11, 2, tzinfo=UTC))
