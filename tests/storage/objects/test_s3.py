"""A store on an S3 server, over HTTP: also one whose answers get lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from relstate.storage import Store
from relstate.storage.errors import FilesystemError, StorageError, UnknownOutcomeError
from support.object_stores import s3_options, s3_server, unreliable_proxy
from support.stores import contents, upsert


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the endpoint of a server with the bucket ``shop``."""
    with s3_server(tmp_path_factory.mktemp("moto")) as endpoint:
        yield endpoint


def test_a_store_on_s3_is_a_store(endpoint: str, tmp_path: Path) -> None:
    """Written by several at once, compacted, vacuumed and checked."""
    path = "s3a://shop/all of it/ü"
    options = s3_options(endpoint, tmp_path / "cache")
    store = Store.create(path, storage_options=options)
    store.create_table("t", "id BIGINT, v STRING", primary_key=["id"])

    def write(writer: int) -> None:
        other = Store.open(path, storage_options=options)
        for number in range(5):
            upsert(other, "t", [(writer * 100 + number, "x" * 5000)])

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.compact()
    store.vacuum(0)

    with Store.open(path, storage_options={**options, "cache_folder": str(tmp_path / "b")}) as new:
        assert len(contents(new, "t")) == 15
        assert new.check().problems == ()
    assert sum(path.stat().st_size for path in (tmp_path / "b").glob("*/segments/*")) > 0


@pytest.mark.parametrize("seed", range(2))
def test_lost_answers_lose_and_double_nothing(endpoint: str, tmp_path: Path, seed: int) -> None:
    """A commit that reports success is there, once; one that fails is not; one that cannot know
    says so.
    """
    path = f"s3://shop/faults{seed}"
    store = Store.create(path, storage_options=s3_options(endpoint, tmp_path / "sound"))
    store.create_table("t", "id BIGINT, v STRING", primary_key=["id"])
    committed: set[int] = set()
    doubtful: set[int] = set()
    epochs: list[int] = []
    with unreliable_proxy(endpoint, seed, share=0.2) as proxy:
        options = s3_options(
            proxy, tmp_path / "faulty", timeout="2s", max_retries="3", retry_seconds="5"
        )
        try:
            writer = Store.open(path, storage_options=options)
        except StorageError:
            writer = Store.open(path, storage_options=options)
        for number in range(30):
            try:
                epochs.append(upsert(writer, "t", [(number, str(number))]))
                committed.add(number)
            except UnknownOutcomeError:
                doubtful.add(number)
            except StorageError:
                pass

    assert len(committed) > 15
    assert len(set(epochs)) == len(epochs)
    keys = {row[0] for row in contents(store, "t")}
    assert committed <= keys <= committed | doubtful
    assert store.check().problems == ()
    writes = [entry for entry in store.history() if entry.operation == "write"]
    assert len(committed) <= len(writes) <= len(committed) + len(doubtful)


def test_a_refused_request_fails_at_once(endpoint: str, tmp_path: Path) -> None:
    """With the bucket's name and without a hang, when there is no such server."""
    options = s3_options("http://127.0.0.1:1", tmp_path, max_retries="1", retry_seconds="1")

    with pytest.raises(FilesystemError, match="s3://shop/x"):
        Store.open("s3://shop/x", storage_options=options)
