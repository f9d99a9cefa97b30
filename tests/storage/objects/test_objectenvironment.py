"""A store in a bucket is a store: the same promises, and none of its credentials in sight."""

from __future__ import annotations

import pickle
import threading
import traceback
import uuid
from pathlib import Path

import pytest

from relstate.storage import Location, Store, environment_of
from relstate.storage.errors import (
    FilesystemError,
    OptionError,
    RelstateError,
    StorageError,
    StoreExistsError,
    StoreNotFoundError,
)
from relstate.storage.objects import object_environment
from support.object_stores import SECRET, CountedStore
from support.stores import contents, upsert


def bucket() -> str:
    """Return the URI of an empty bucket."""
    return f"memory://{uuid.uuid4().hex}"


def made(uri: str, cache: Path) -> Store:
    """Return a new store with a table."""
    store = Store.create("", environment=CountedStore(uri, cache))
    store.create_table("t", "id BIGINT, v STRING", primary_key=["id"])
    return store


def test_what_is_written_is_read_by_another_machine(tmp_path: Path) -> None:
    """One with an empty cache, after compaction and vacuum, too."""
    uri = bucket() + "/a shop/ü"
    store = made(uri, tmp_path / "first")
    for number in range(40):
        upsert(store, "t", [(key, f"{number} {key}") for key in range(50)], [(number, None)])
    expected = contents(store, "t")

    store.compact()
    store.vacuum(0)

    with Store.open("", environment=CountedStore(uri, tmp_path / "second")) as other:
        assert contents(other, "t") == expected
        assert other.check().problems == ()


def test_a_prefix_does_not_see_its_neighbours(tmp_path: Path) -> None:
    """Not even one whose name begins with its own."""
    uri = bucket()
    made(f"{uri}/shop", tmp_path)

    with pytest.raises(StoreNotFoundError):
        Store.open("", environment=CountedStore(f"{uri}/sho", tmp_path))
    other = made(f"{uri}/shop2", tmp_path)
    with pytest.raises(StoreExistsError):
        made(f"{uri}/shop", tmp_path)
    assert other.epoch == 2


def test_writers_race_for_each_epoch(tmp_path: Path) -> None:
    """Each commit of each of them is in the store, once."""
    uri = bucket() + "/shop"
    made(uri, tmp_path)

    def write(writer: int) -> None:
        store = Store.open("", environment=CountedStore(uri, tmp_path / str(writer)))
        for number in range(15):
            upsert(store, "t", [(writer * 100 + number, "x")])

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    store = Store.open("", environment=CountedStore(uri, tmp_path))
    assert len(contents(store, "t")) == 60
    assert store.check().problems == ()


def test_a_damaged_copy_is_fetched_again(tmp_path: Path) -> None:
    """The bucket has the segment whole."""
    uri = bucket() + "/shop"
    store = made(uri, tmp_path)
    upsert(store, "t", [(1, "x" * 100)])
    store.close()
    for path in tmp_path.glob("*/segments/*"):
        data = bytearray(path.read_bytes())
        data[4096 : 4096 + 64] = bytes(64)
        path.write_bytes(data)

    with Store.open("", environment=CountedStore(uri, tmp_path)) as reopened:
        assert contents(reopened, "t") == [(1, "x" * 100)]


def test_a_small_cache_serves_a_large_store(tmp_path: Path) -> None:
    """What is read next takes the place of what was read before."""
    uri = bucket() + "/shop"
    store = made(uri, tmp_path / "writer")
    for number in range(6):
        store.create_table(f"t{number}", "id BIGINT, v STRING", primary_key=["id"])
        upsert(store, f"t{number}", [(number, "x" * 1000)])
    environment = CountedStore(uri, tmp_path / "reader", capacity=40_000)

    for number in range(6):
        with Store.open("", environment=environment) as reader:
            assert reader.table(f"t{number}").get(number) is not None

    size = sum(path.stat().st_size for path in (tmp_path / "reader").glob("*/segments/*"))
    assert size <= 40_000


def test_what_is_known_of_uploads_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sizes of the newest are kept, for the commit that names them."""
    monkeypatch.setattr(object_environment, "_MOST_SIZES", 4)
    store = made(bucket(), tmp_path)
    environment = store.environment
    assert isinstance(environment, CountedStore)
    for number in range(20):
        upsert(store, "t", [(number, "x")])
        assert len(environment._uploaded) <= 4
        assert not [name for kind, name in environment.taken() if kind == "get_range"]
    assert store.check().problems == ()


class Overwriting(CountedStore):
    """A server that ignores the condition of a create-only put."""

    def __init__(self, uri: str, cache: Path) -> None:
        super().__init__(uri, cache)
        self.client.put_new = self.client.put  # type: ignore[method-assign]


def test_a_server_that_overwrites_is_refused(tmp_path: Path) -> None:
    """Before a store is made there: a commit would not be atomic."""
    uri = bucket() + "/shop"

    with pytest.raises(FilesystemError, match="If-None-Match"):
        Store.create("", environment=Overwriting(uri, tmp_path))
    with pytest.raises(StoreNotFoundError):
        Store.open("", environment=CountedStore(uri, tmp_path))


def test_no_text_has_credentials(tmp_path: Path) -> None:
    """They travel with the path to other processes, beside the text."""
    options = {
        "access_key_id": "tester",
        "secret_access_key": SECRET,
        "endpoint": "http://127.0.0.1:1",
        "region": "x",
        "allow_http": "true",
        "max_retries": "0",
        "cache_folder": str(tmp_path),
    }
    environment = environment_of("s3://bucket/shop", options)
    path = environment.location("")

    with pytest.raises(StorageError) as caught:
        Store.open("", environment=environment)

    texts = [str(caught.value), repr(path), f"{path}", repr(environment), repr(pickle.loads)]
    assert not [text for text in texts if SECRET in text]
    copy = pickle.loads(pickle.dumps(path))
    assert isinstance(copy, Location)
    assert copy == path == "s3://bucket/shop"
    assert copy.storage_options == environment.root.storage_options == options  # type: ignore[attr-defined]


def test_no_text_has_the_key_of_an_azure_account(tmp_path: Path) -> None:
    """Neither a request that fails nor a key that is not one repeats it."""
    key = "c2VjcmV0LW9mLXRoZS1hY2NvdW50"
    options = {"account_name": "shop", "endpoint": "http://127.0.0.1:1/shop", "max_retries": "0"}
    options |= {"allow_http": "true", "cache_folder": str(tmp_path)}
    for account_key in (key, f"{key}-"):
        with pytest.raises(RelstateError) as caught:
            Store.open("az://shop/x", storage_options={**options, "account_key": account_key})
        assert "az://shop/x" in str(caught.value)
        assert key not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("path", "options", "words"),
    [
        ("/data/shop", {"region": "x"}, "local folder"),
        ("s3://bucket/shop", {"regoin": "x"}, "regoin"),
        ("s3://bucket/shop", {"max_retries": "many"}, "max_retries"),
        ("s3://bucket/shop", {"cache_bytes": "1G"}, "number of bytes"),
    ],
)
def test_options_are_checked(path: str, options: dict[str, str], words: str) -> None:
    """By name, before a request is made."""
    with pytest.raises(OptionError, match=words):
        environment_of(path, options)
