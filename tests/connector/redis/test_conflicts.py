"""Commits that meet another writer's, or an error, after clients have got their replies."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from relstate.connector.redis.settings import Fsync, Settings
from relstate.connector.redis.tables import create_table
from relstate.storage import Store
from relstate.storage.errors import FilesystemError
from support.clock import ManualClock
from support.redis_servers import Connection, Served, before_next_commit, served

HASH = {"key": b"h", "type": "hash"}


@pytest.fixture
def server(store: Store) -> Iterator[Served]:
    """A server that replies before it commits."""
    with served(store, Settings(appendfsync="everysec")) as server:
        yield server


@pytest.fixture
def urgent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits are made after a moment in place of a second."""
    monkeypatch.setattr("relstate.connector.redis.committer._SECOND", 0.01)


def write_hash(store: Store, **fields: str) -> None:
    """Write a hash as another program does."""
    pairs = [(name.encode(), value.encode()) for name, value in fields.items()]
    store.write("redis_0", [{**HASH, "fields": pairs}])


def fields(client: Connection) -> dict[bytes, bytes]:
    """Return the hash as a client sees it."""
    reply = client("HGETALL", "h")
    return dict(zip(reply[::2], reply[1::2], strict=True))


@pytest.mark.usefixtures("urgent")
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (["HSET", "h", "a", "mine"], {b"a": b"mine", b"b": b"theirs"}),
        (["HDEL", "h", "c"], {b"a": b"theirs", b"b": b"theirs"}),
        (["PEXPIRE", "h", "100000"], {b"a": b"theirs", b"b": b"theirs"}),
        (["HSET", "other", "a", "mine"], {b"a": b"theirs", b"b": b"theirs"}),
        (["DEL", "h"], {}),
    ],
)
def test_a_conflict_keeps_the_parts_that_only_one_side_changed(
    server: Served, client: Connection, store: Store, change: list[str], expected: object
) -> None:
    """Clients see the same as the table has, also after the next change; WATCH notices it."""
    client("HSET", "h", "a", "1", "c", "1")
    server.forget()
    assert len(fields(client)) == 2
    assert client("DBSIZE") == 1
    watching = server.connect()
    watching("WATCH", "watched")
    before_next_commit(server, lambda: write_hash(store, a="theirs", b="theirs"))
    client(*change)
    server.settle()

    assert fields(client) == expected
    assert watching.pipeline([["MULTI"], ["PING"], ["EXEC"]])[2] is None
    assert client("PTTL", "h") == {"PEXPIRE": 100_000, "DEL": -2}.get(change[0], -1)
    client("HSET", "h", "d", "1")
    server.forget()
    assert fields(client) == {**expected, b"d": b"1"}
    assert client("DBSIZE") == (2 if "other" in change else 1)


@pytest.mark.usefixtures("urgent")
@pytest.mark.parametrize("kind", ["none", "string"])
def test_parts_of_a_value_that_is_gone_are_a_new_value(
    server: Served, client: Connection, store: Store, kind: str
) -> None:
    """The row has the type of its parts; an expiry alone brings nothing back."""
    client("HSET", "h", "a", "1", "c", "1")
    client("SET", "s", "1")
    server.forget()
    assert client("HLEN", "h") == 2
    assert client("GET", "s") == b"1"

    def replace() -> None:
        store.delete("redis_0", [{"key": b"s"}])
        if kind == "none":
            store.delete("redis_0", [{"key": b"h"}])
        else:
            store.write("redis_0", [{"key": b"h", "type": "string", "value": b"x"}])

    before_next_commit(server, replace)
    client.pipeline([["HSET", "h", "a", "2"], ["EXPIRE", "s", 100]])
    server.settle()

    assert fields(client) == {b"a": b"2"}
    server.forget()
    assert fields(client) == {b"a": b"2"}
    assert client("TYPE", "h") == b"hash"
    assert client("EXISTS", "s") == 0


@pytest.mark.usefixtures("urgent")
def test_changes_during_a_commit_with_a_conflict_are_put_over_it(
    server: Served, client: Connection, store: Store
) -> None:
    """Parts that clients change while the commit before is made."""
    client("HSET", "h", "a", "1", "b", "1")
    client("RPUSH", "list", "a", "b")
    server.forget()
    assert client("HLEN", "h") == client("LLEN", "list") == 2
    other = server.connect()

    def write() -> None:
        other("HSET", "h", "b", "later")
        other("RPUSH", "list", "c")
        write_hash(store, a="theirs", b="theirs", c="theirs")
        items = [(0, b"theirs"), (1, b"b")]
        store.write("redis_0", [{"key": b"list", "type": "list", "items": items}])

    before_next_commit(server, write)
    client("HSET", "h", "a", "mine")
    server.settle()

    for _ in range(2):
        assert fields(client) == {b"a": b"mine", b"b": b"later", b"c": b"theirs"}
        assert client("LRANGE", "list", 0, -1) == [b"theirs", b"b", b"c"]
        server.forget()


@pytest.mark.usefixtures("urgent")
def test_expiries_are_known_after_a_conflict(
    server: Served, client: Connection, store: Store, clock: ManualClock
) -> None:
    """Also those that were not committed when it was met."""
    client("HSET", "h", "a", "1")
    server.forget()
    assert client("HLEN", "h") == 1

    def write() -> None:
        write_hash(store, a="theirs")
        server.run(lambda: patch_rebase(server))

    def patch_rebase(server: Served) -> None:
        keyspace = server.server.service.keyspace
        rebase = keyspace.rebase

        def rebase_and_expire(batch: Any) -> None:
            rebase(batch)
            keyspace.expiries.due(keyspace.now())

        keyspace.rebase = rebase_and_expire

    before_next_commit(server, write)
    client("HSET", "h", "a", "mine")
    client("SET", "a", "x", "PX", 5)
    server.settle()
    clock.advance(1)

    def is_removed() -> bool:
        return [row["key"] for row in store.table("redis_0").to_dicts()] == [b"h"]

    server.wait_until(is_removed)


@pytest.mark.usefixtures("urgent")
def test_a_failed_look_at_the_store_after_a_conflict_is_repeated(
    server: Served, client: Connection, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commits go on once the store can be read again."""
    server.end_looks()
    client("HSET", "h", "a", "1")
    server.forget()
    tables = server.server.service.keyspace.tables
    refresh = tables.refresh
    failures: list[int] = []

    def fail(*_: object) -> set[int]:
        failures.append(1)
        monkeypatch.setattr(tables, "refresh", refresh)
        raise FilesystemError("the disk is away")

    def write() -> None:
        write_hash(store, a="theirs", b="theirs")
        monkeypatch.setattr(tables, "refresh", fail)

    before_next_commit(server, write)
    client("HSET", "h", "a", "mine")
    server.settle()

    assert failures == [1]
    assert fields(client) == {b"a": b"mine", b"b": b"theirs"}
    assert client("SET", "a", "1") == b"OK"


@pytest.mark.usefixtures("urgent")
def test_a_failed_read_after_a_conflict_is_repeated(
    server: Served, client: Connection, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No answered change is lost, of the keys read before the failure or after it."""
    names = ["first", "second", "third"]
    client.pipeline([["HSET", name, "a", "1"] for name in names])
    server.forget()
    assert client.pipeline([["HLEN", name] for name in names]) == [1, 1, 1]
    tables = server.server.service.keyspace.tables
    read = tables.read
    calls: list[bytes] = []

    def fail_second(number: int, key: bytes) -> Any:
        calls.append(key)
        if len(calls) == 2:
            raise FilesystemError("the disk is away")
        return read(number, key)

    def write() -> None:
        write_hash(store, a="theirs")
        monkeypatch.setattr(tables, "read", fail_second)

    before_next_commit(server, write)
    client.pipeline([["HSET", name, "b", "mine"] for name in names] + [["EXPIRE", "third", 100]])
    server.settle()
    monkeypatch.setattr(tables, "read", read)

    assert len(calls) > 1
    for _ in range(2):
        expected = [[b"a", b"1", b"b", b"mine"]] * 3
        assert client.pipeline([["HGETALL", name] for name in names]) == expected
        assert client("TTL", "third") == 100
        server.forget()


@pytest.mark.usefixtures("urgent")
def test_answered_changes_stay_although_later_replies_wait(
    server: Served, client: Connection, store: Store
) -> None:
    """The setting is changed between the reply and a commit that meets a conflict."""
    client("HSET", "h", "a", "1")
    server.forget()
    assert fields(client) == {b"a": b"1"}
    before_next_commit(server, lambda: write_hash(store, a="theirs"))
    replies = client.pipeline(
        [["HSET", "h", "b", "mine"], ["CONFIG", "SET", "appendfsync", "always"]]
    )
    assert replies == [1, b"OK"]
    server.settle()

    for _ in range(2):
        assert fields(client) == {b"a": b"theirs", b"b": b"mine"}
        server.forget()
    assert client("SET", "a", "x") == b"OK"


@pytest.mark.parametrize("is_conflict", [True, False])
@pytest.mark.usefixtures("urgent")
def test_answered_changes_stay_although_the_commit_before_fails(
    store: Store, *, is_conflict: bool
) -> None:
    """The setting is changed while a commit is made that clients wait for."""
    with served(store, Settings(appendfsync="always")) as server:
        client, quick = server.connect(), server.connect()
        client("SET", "n", "0")

        def fail() -> None:
            quick("CONFIG", "SET", "appendfsync", "everysec")
            assert quick.pipeline([["INCR", "n"], ["SET", "b", "x"]]) == [2, b"OK"]
            if not is_conflict:
                raise FilesystemError("the disk is full")
            write_hash(store, a="theirs")

        before_next_commit(server, fail)
        assert client("INCR", "n") == 1
        server.settle()

        for _ in range(2):
            assert client("MGET", "n", "b") == [b"2", b"x"]
            server.forget()


@pytest.mark.parametrize("appendfsync", ["everysec", "always"])
@pytest.mark.usefixtures("urgent")
def test_changes_of_other_databases_are_seen_during_a_commit(
    store: Store, appendfsync: Fsync
) -> None:
    """What another writer changed in the database being written is met by its commit."""
    with served(store, Settings(appendfsync=appendfsync)) as server:
        server.end_looks()
        client, reader = server.connect(), server.connect()
        client("HSET", "h", "a", "1")
        reader.pipeline([["SELECT", 1], ["SET", "s", "1"]])
        server.settle()
        replies: list[Any] = []

        def write() -> None:
            reader("WATCH", "none")
            write_hash(store, a="theirs")
            store.write("redis_1", [{"key": b"s", "type": "string", "value": b"theirs"}])
            server.run(server.server.expire_due)
            replies.extend(reader.pipeline([["MULTI"], ["GET", "s"], ["EXEC"], ["GET", "s"]]))

        before_next_commit(server, write)
        reply = client("HSET", "h", "b", "mine")
        server.settle()

        assert replies == [b"OK", b"QUEUED", None, b"theirs"]
        if appendfsync == "always":
            assert str(reply).startswith("TRYAGAIN")
            assert client("HSET", "h", "b", "mine") == 1
        for _ in range(2):
            assert fields(client) == {b"a": b"theirs", b"b": b"mine"}
            server.forget()


def test_changes_of_other_databases_are_seen_before_a_commit(
    server: Served, client: Connection, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also tables that another writer creates; in the database being written nothing is lost."""
    monkeypatch.setattr("relstate.connector.redis.committer._SECOND", 600.0)
    server.end_looks()
    client("SELECT", 3)
    client("SET", "mine", "x")
    reader = server.connect()
    reader("SELECT", 5)
    assert reader("DBSIZE") == 0
    for number in (3, 5):
        create_table(store, number)
        store.write(f"redis_{number}", [{"key": b"theirs", "type": "string", "value": b"x"}])
    server.run(server.server.expire_due)

    assert reader("DBSIZE") == 1
    assert reader("GET", "theirs") == b"x"
    assert server.server.service.keyspace.has_changes
    monkeypatch.setattr("relstate.connector.redis.committer._SECOND", 0.01)
    server.run(server.server.committer._hurry.set)
    server.forget()
    assert client("MGET", "mine", "theirs") == [b"x", b"x"]


def test_a_server_ends_although_commits_fail(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says that changes were lost."""
    server = Served(store, Settings(appendfsync="everysec"))

    def fail(_: Any) -> None:
        raise FilesystemError("the disk is gone")

    monkeypatch.setattr(server.server.service.keyspace.tables, "commit", fail)
    server.connect()("SET", "a", "x")

    with pytest.raises(FilesystemError, match="1 keys were changed and could not be committed"):
        server.stop()
    server.end()


def test_an_unexpected_error_of_a_commit_is_said(
    server: Served, client: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writes are refused from then on, not answered and lost."""
    keyspace = server.server.service.keyspace

    def fail() -> None:
        raise ValueError("a defect")

    monkeypatch.setattr("relstate.connector.redis.committer._SECOND", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(keyspace, "seal", fail)
        client("SET", "a", "x")
        server.wait_until(lambda: server.server.service.write_error is not None)
    assert "until it is restarted" in str(client("SET", "b", "x"))
    with pytest.raises(FilesystemError):
        server.run(server.server.committer.finish)
    server.run(keyspace.forget)


def test_a_server_under_load_ends(store: Store) -> None:
    """Clients are not served any more, however much they send."""
    server = Served(store, Settings(appendfsync="everysec"))
    client = server.connect()
    is_over = threading.Event()

    def send() -> None:
        number = 0
        try:
            while not is_over.is_set():
                number += 1
                client.pipeline([["SET", f"key{number}", "x"]] * 20)
        except (OSError, EOFError):
            pass

    thread = threading.Thread(target=send)
    thread.start()
    server.wait_until(lambda: store.table("redis_0").count() > 0)
    try:
        server.run(server.server.stop)
    finally:
        is_over.set()
        thread.join()
        client.close()
        server.end()
