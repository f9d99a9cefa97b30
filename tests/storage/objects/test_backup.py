"""Copies of a store in a bucket that is written meanwhile, as docs/guides/backup.md says."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import obstore
import pytest

from relstate.storage import Location, Store
from relstate.storage.objects.connection import Repeats, connect
from support.object_stores import CountedStore
from support.stores import contents, upsert

_IN_ORDER = ("_log", "_archive", "segments")


def _copy_folder(bucket: str, source: str, target: str, folder: str) -> None:
    """Copy what a folder has now, object by object, as the tools of object stores do."""
    client = connect(Location(f"memory://{bucket}"), Repeats(0, 0))
    for found in obstore.list(client, f"{source}/{folder}").collect():
        content = obstore.get(client, found["path"]).bytes()
        obstore.put(client, found["path"].replace(source, target, 1), content)


def _backed_up(
    bucket: str, order: tuple[str, ...], between: Callable[[], object], cache: Path
) -> Store:
    """Copy the folders of the store ``shop`` in an order; return the copy, opened elsewhere."""
    for folder in order:
        _copy_folder(bucket, "shop", "backup", folder)
        between()
    return Store.open("", environment=CountedStore(f"memory://{bucket}/backup", cache))


def _written(bucket: str, cache: Path) -> Store:
    """Return the store ``shop`` with a table of 40 commits and some merges."""
    store = Store.create("", environment=CountedStore(f"memory://{bucket}/shop", cache))
    store.create_table("t", "id BIGINT, v STRING", primary_key=["id"])
    for key in range(40):
        upsert(store, "t", [(key, "before")])
    return store


def test_a_copy_made_while_writers_work_is_a_store(tmp_path: Path) -> None:
    """With the epoch that was the last when it began, and earlier ones; it goes on by itself."""
    bucket = uuid.uuid4().hex
    store = _written(bucket, tmp_path / "writer")
    expected, early, epoch = contents(store, "t"), contents(store, "t", 20), store.epoch

    def write() -> None:
        # Enough for a checkpoint, an archive and merges.
        for key in range(40):
            upsert(store, "t", [(key, f"after {store.epoch}")])
        store.compact()

    with _backed_up(bucket, _IN_ORDER, write, tmp_path / "reader") as copy:
        assert copy.epoch == epoch
        assert contents(copy, "t") == expected
        assert contents(copy, "t", 20) == early != expected
        assert copy.check().problems == ()
        upsert(copy, "t", [(100, "in the copy")])
        copy.compact()
        copy.vacuum(0)
        assert contents(copy, "t") == [*expected, (100, "in the copy")]
        assert copy.check().problems == ()
    assert store.check().problems == ()
    assert all(row[1] != "in the copy" for row in contents(store, "t"))


def test_later_copies_take_what_is_new(tmp_path: Path) -> None:
    """In the same order, over the copy, as long as nobody has written to that."""
    bucket = uuid.uuid4().hex
    store = _written(bucket, tmp_path / "writer")
    _backed_up(bucket, _IN_ORDER, lambda: None, tmp_path / "reader").close()
    for key in range(40):
        upsert(store, "t", [(key, "later")])
    with _backed_up(bucket, _IN_ORDER, lambda: None, tmp_path / "reader") as copy:
        assert copy.epoch == store.epoch
        assert contents(copy, "t") == contents(store, "t")
        assert copy.check().problems == ()


@pytest.mark.parametrize("order", [_IN_ORDER[::-1], ("segments", "_log", "_archive")])
def test_check_finds_what_a_copy_in_another_order_lacks(
    tmp_path: Path, order: tuple[str, ...]
) -> None:
    """Segments of commits that came between: why the order is what it is."""
    bucket = uuid.uuid4().hex
    store = _written(bucket, tmp_path / "writer")
    keys = iter(range(1000, 2000))
    with _backed_up(
        bucket, order, lambda: upsert(store, "t", [(next(keys), "between")]), tmp_path / "reader"
    ) as copy:
        problems = copy.check().problems
    assert problems
    assert any("segments/" in str(problem) for problem in problems)
