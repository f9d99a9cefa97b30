"""A store on servers of S3 and Azure, over HTTP: also on one whose answers get lost."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from relstate.storage import Location, Store
from relstate.storage.epochs import Epochs
from relstate.storage.errors import (
    ConflictError,
    FilesystemError,
    StorageError,
    UnknownOutcomeError,
)
from relstate.storage.log.folding import DIVISION, Division
from relstate.storage.objects.client import ObjectClient
from relstate.storage.objects.object_environment import ObjectEnvironment
from relstate.storage.objects.requestlimit import MOST_REQUESTS, limit_of
from support.divided_logs import divided_log
from support.object_stores import BucketServer, bucket_server, unreliable_proxy
from support.stores import contents, upsert


@pytest.fixture(scope="module", params=["s3", "az"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BucketServer]:
    """Return a server with the bucket ``shop``."""
    with bucket_server(request.param, tmp_path_factory.mktemp("server")) as server:
        yield server


def test_a_store_on_a_server_is_a_store(server: BucketServer, tmp_path: Path) -> None:
    """Written by several at once, compacted, vacuumed and checked."""
    path = server.uri("all of it/ü")
    options = server.options(tmp_path / "cache")
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


def test_of_several_puts_of_a_new_object_one_succeeds(server: BucketServer, tmp_path: Path) -> None:
    """What the log relies on, and what other tests on this server rely on."""
    location = Location(server.uri(""), server.options(tmp_path))
    clients = [ObjectClient(location) for _ in range(8)]
    gate = threading.Barrier(len(clients))

    def put(client: ObjectClient, writer: int) -> list[int]:
        won = []
        for number in range(50):
            gate.wait()
            with suppress(FileExistsError):
                client.put_new(f"puts/{number}", bytes([writer]) * 100_000)
                won.append(number)
        return won

    with ThreadPoolExecutor(len(clients)) as pool:
        won = list(pool.map(put, clients, range(len(clients))))

    assert sorted(number for numbers in won for number in numbers) == list(range(50))
    for writer, numbers in enumerate(won):
        assert all(
            clients[0].get(f"puts/{number}") == bytes([writer]) * 100_000 for number in numbers
        )


@pytest.mark.parametrize("seed", range(2))
def test_lost_answers_lose_and_double_nothing(
    server: BucketServer, tmp_path: Path, seed: int
) -> None:
    """A commit that reports success is there, once; one that fails is not; one that cannot know
    says so. Of three writers at once.
    """
    path = server.uri(f"faults{seed}")
    store = Store.create(path, storage_options=server.options(tmp_path / "sound"))
    store.create_table("t", "id BIGINT, v STRING", primary_key=["id"])
    committed: set[int] = set()
    doubtful: set[int] = set()
    epochs: list[int] = []

    def open_store(options: dict[str, str]) -> Store:
        while True:
            with suppress(StorageError):
                return Store.open(path, storage_options=options)

    def write(options: dict[str, str], writer: int) -> None:
        opened, commits = open_store(options), 0
        for number in itertools.count(1000 * writer):
            try:
                epochs.append(upsert(opened, "t", [(number, str(number))]))
                committed.add(number)
                commits += 1
            except UnknownOutcomeError:
                doubtful.add(number)
            except (StorageError, ConflictError):
                pass
            if commits == 4:
                return

    with unreliable_proxy(server.endpoint, seed, share=0.2) as proxy:
        options = server.options(
            tmp_path / "faulty", proxy, timeout="2s", max_retries="3", retry_seconds="5"
        )
        with ThreadPoolExecutor(3) as pool:
            for writer in [pool.submit(write, options, writer) for writer in range(3)]:
                writer.result()

    assert len(committed) == 12
    assert len(set(epochs)) == len(epochs)
    keys = {row[0] for row in contents(store, "t")}
    assert committed <= keys <= committed | doubtful
    assert store.check().problems == ()
    writes = [entry for entry in store.history() if entry.operation == "write"]
    assert len(committed) <= len(writes) <= len(committed) + len(doubtful)


@pytest.mark.parametrize("division", [DIVISION, Division(most=2, size=2)])
def test_conflicts_lose_no_history(
    server: BucketServer, tmp_path: Path, division: Division
) -> None:
    """No entry is removed before its archive is there, and no checkpoint names a manifest that is
    not, on a server that answers 409 at random. Every epoch can be read afterwards.
    """
    path = server.uri(f"conflicts{division.most}")
    with unreliable_proxy(server.endpoint, 3, 0.5, ("409",), "_archive|checkpoint") as proxy:
        options = server.options(tmp_path / "cache", proxy, max_retries="30")
        environment = ObjectEnvironment.of(Location(path, options))
        environment.removal_delay = 0.0
        Store.create("", environment=environment)
        log = divided_log(environment, division)
        store = Store(Epochs(log, log.load()))
        store.create_table("t", "id BIGINT, v STRING", primary_key=["id"])
        rows: dict[int, int] = {}
        while store.epoch < 70:
            rows[upsert(store, "t", [(len(rows), "x")])] = len(rows)

    with Store.open(path, storage_options=server.options(tmp_path / "sound")) as sound:
        assert sound.check().problems == ()
        assert [entry.epoch for entry in sound.history()] == list(range(sound.epoch, 0, -1))
        for epoch in list(rows)[::10]:
            assert len(contents(sound, "t", epoch)) == rows[epoch] + 1


def test_throttling_slows_down_and_fails_nothing(server: BucketServer, tmp_path: Path) -> None:
    """Neither commits nor cold reads, although no other failure is repeated; fewer requests are
    made at once.
    """
    path = server.uri("throttled")
    with Store.create(path, storage_options=server.options(tmp_path / "sound")) as store:
        store.create_table("t", "id BIGINT, v STRING", primary_key=["id"])
    with unreliable_proxy(server.endpoint, 1, 0.25, ("503", "429")) as proxy:
        options = server.options(tmp_path / "writer", proxy, max_retries="1")
        with Store.open(path, storage_options=options) as store:
            for number in range(4):
                upsert(store, "t", [(number, str(number))])
        options |= {"cache_folder": str(tmp_path / "reader")}
        with Store.open(path, storage_options=options) as reader:
            assert len(contents(reader, "t")) == 4
            location = reader.environment.location("")
    assert isinstance(location, Location)
    scheme, bucket, _ = location.parts()
    assert 1 <= limit_of(f"{location.endpoint} {scheme}://{bucket}").limit < MOST_REQUESTS


def test_a_refused_request_fails_at_once(tmp_path: Path) -> None:
    """With the bucket's name and without a hang, when there is no such server."""
    for scheme in ("s3", "az"):
        server = BucketServer(scheme, "http://127.0.0.1:1/account")
        options = server.options(tmp_path, max_retries="1", retry_seconds="1")

        with pytest.raises(FilesystemError, match=f"{scheme}://shop/x"):
            Store.open(server.uri("x"), storage_options=options)
