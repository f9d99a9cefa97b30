"""Creating a store: once, and only where nothing else is."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from relstate.storage import Store
from relstate.storage.errors import NotAStoreError, StoreExistsError
from relstate.storage.local_environment import LocalEnvironment
from relstate.storage.log.log import Log
from relstate.storage.log.store_creation import create_store
from support.commits import SETTINGS, new_store, quick_environment


def test_a_new_store_is_at_epoch_one(environment: LocalEnvironment) -> None:
    """Its settings are in its first entry; it has no table; it can be loaded."""
    state = create_store(Log(environment), SETTINGS)

    assert (state.epoch, state.settings, state.tables) == (1, SETTINGS, {})
    assert Log(environment).load() == state
    assert environment.list("") == ["_archive", "_log", "segments"]


def test_a_store_is_created_once(environment: LocalEnvironment) -> None:
    """The second time it is there already, and stays as it is."""
    log, state = new_store(environment, "orders")

    with pytest.raises(StoreExistsError, match="there is a store already"):
        create_store(log, SETTINGS)
    assert log.load() == state


def test_other_things_are_not_a_store(tmp_path: Path) -> None:
    """A file, and a folder with other things: neither opened, nor made into a store."""
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "precious").write_bytes(b"content")
    for name in ("file", "folder"):
        log = Log(quick_environment(tmp_path / name))
        with pytest.raises(
            NotAStoreError, match=rf"{tmp_path / name}: .* name the folder of a store"
        ):
            log.load()
        with pytest.raises(NotAStoreError, match=str(tmp_path / name)):
            create_store(log, SETTINGS)

    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["precious"]


def test_a_store_can_be_created_in_an_empty_folder(tmp_path: Path) -> None:
    """Also with the hidden files that systems leave, and where a creation was cut short."""
    (tmp_path / ".hidden").write_bytes(b"")
    (tmp_path / "_log").mkdir()
    (tmp_path / "_log" / f"{1:020d}.json.0a.tmp").write_bytes(b"half")
    log = Log(quick_environment(tmp_path))
    with pytest.raises(NotAStoreError, match="was interrupted"):
        log.load()

    assert create_store(log, SETTINGS).epoch == 1


@pytest.mark.parametrize("name", ["sub", "a/b/c", "segments/sub", "_log/sub"])
@pytest.mark.parametrize("is_bucket", [False, True])
def test_a_store_in_a_store_is_refused(tmp_path: Path, name: str, is_bucket: bool) -> None:
    """With the other store's path; neither is changed, and one beside it can be created."""
    root = f"memory://{uuid.uuid4().hex}/a" if is_bucket else str(tmp_path / "a")
    with Store.create(root) as outer:
        outer.create_table("t", "id BIGINT", primary_key=["id"])
        for number in range(70):
            outer.write("t", [{"id": number}])
        for exist_ok in (False, True):
            with pytest.raises(
                NotAStoreError, match=f"^{root}/{name}: .*inside of the store {root},"
            ):
                Store.create(f"{root}/{name}", exist_ok=exist_ok)
        assert outer.check().problems == ()
    with Store.create(root, exist_ok=True) as outer:
        assert outer.epoch > 70
    assert Store.create(f"{root}-{name.rsplit('/')[-1]}").epoch == 1


def test_a_store_in_a_store_is_refused_by_the_name_of_a_link(tmp_path: Path) -> None:
    """Whichever of the two names is in the other store."""
    Store.create(str(tmp_path / "a")).close()
    (tmp_path / "a" / "sub").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "name").symlink_to(tmp_path / "a" / "sub")
    (tmp_path / "a" / "name").symlink_to(tmp_path / "elsewhere")
    for path in (tmp_path / "name", tmp_path / "a" / "name" / "b"):
        with pytest.raises(NotAStoreError, match="inside of the store"):
            Store.create(str(path))


def test_a_store_with_other_files_is_a_store(tmp_path: Path) -> None:
    """It is opened, where only a new one would need a folder of its own."""
    Store.create(str(tmp_path / "a")).close()
    (tmp_path / "a" / "README").write_text("of the owner")
    assert Store.create(str(tmp_path / "a"), exist_ok=True).epoch == 1
    with pytest.raises(StoreExistsError):
        Store.create(str(tmp_path / "a"))
