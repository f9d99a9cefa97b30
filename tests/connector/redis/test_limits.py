"""The laws of limits: what is refused, what is bounded, and that nobody else is held back."""

from __future__ import annotations

from typing import Any

import pytest

from relstate.connector.redis import committer
from relstate.connector.redis import tables as stored_tables
from relstate.connector.redis.settings import Settings
from relstate.connector.redis.values import StringValue
from relstate.storage import Store
from relstate.storage.errors import FilesystemError, SchemaError
from support.redis_servers import Connection, Request, Served, before_next_commit, served


@pytest.mark.parametrize("start", ["not a request\r\n", "*1\r\n$4\r\nPING\r\n:1\r\n", "*-5\r\n:"])
def test_half_a_request_after_garbage_is_nothing(
    server: Served, client: Connection, start: str
) -> None:
    """It is not run when its connection ends, and others are served on."""
    wrong = server.connect()
    wrong.socket.sendall(start.encode() + b"*3\r\n$3\r\nSET\r\n$1\r\na")
    wrong.close()

    assert client("DBSIZE") == 0


def test_a_protocol_error_is_said(server: Served) -> None:
    """The connection is closed after it."""
    wrong = server.connect()
    wrong.socket.sendall(b"*1\r\n$4\r\nPING\r\n*1\r\n:1\r\n")

    assert wrong.reply() == b"PONG"
    assert str(wrong.reply()) == "ERR Protocol error: expected '$', got ':'"
    with pytest.raises(EOFError):
        wrong.reply()


def test_limits_are_refused_with_redis_s_errors(store: Store) -> None:
    """Clients, the size of a request, memory, and a password."""
    settings = Settings(
        maxclients=1, max_request_bytes=100_000, maxmemory=50_000, requirepass=b"secret"
    )
    with served(store, settings) as server:
        stranger = server.connect()
        stranger.send(["SET", *range(10)])
        expected = "ERR Protocol error: unauthenticated multibulk length"
        assert str(stranger.reply()) == expected
        stranger.close()
        server.wait_until(lambda: not server.server.service.sessions)
        client = server.connect()
        assert str(client("GET", "a")) == "NOAUTH Authentication required."
        assert str(client("AUTH", "wrong")).startswith("WRONGPASS ")
        assert client("AUTH", "secret") == b"OK"
        assert str(server.connect().reply()) == "ERR max number of clients reached"
        client("CONFIG", "SET", "maxclients", 10)
        assert client("SET", "large", "x" * 60_000) == b"OK"
        assert client("GET", "large") == b"x" * 60_000
        assert client("SET", "small", "x") == b"OK"
        client.socket.sendall(b"*3\r\n$3\r\nSET\r\n$200000\r\n")
        assert str(client.reply()).startswith("ERR Protocol error: invalid bulk")
        client = server.connect()
        assert client.pipeline([["AUTH", "secret"], ["DEL", *range(20)]]) == [b"OK", 0]
        writes: list[Request] = [["SET", number, "x" * 9000] for number in range(9)]
        replies = client.pipeline([["MULTI"], *writes, ["EXEC"], ["EXISTS", *range(9)]])
        assert replies[-2:] == [[b"OK"] * 9, 9]


def test_a_transaction_runs_as_a_whole_or_not_at_all(store: Store) -> None:
    """If memory is full when a command is queued, or when EXEC comes."""
    aborted = "EXECABORT Transaction discarded because of"
    with served(store, Settings(maxmemory=50_000)) as server:
        client = server.connect()
        fill = ["MSET", *[word for n in range(9) for word in (f"full{n}", "x" * 9000)]]
        replies = client.pipeline(
            [fill, ["MULTI"], ["SET", "a", 1], ["DEL", "full0"], ["EXEC"], ["EXISTS", "a", "full0"]]
        )
        assert str(replies[2]).startswith("OOM command not allowed")
        assert replies[3] == b"QUEUED"
        assert str(replies[4]) == f"{aborted} previous errors."
        assert replies[5] == 1

        late = server.connect()
        assert late.pipeline([["MULTI"], ["SET", "a", 1]]) == [b"OK", b"QUEUED"]

        def run_both() -> Any:
            server.server.service.databases[0].place(b"full", StringValue(b"x" * 60_000))
            session = server.server.service.sessions[2]
            return session.execute([b"EXEC"])

        reply = server.run(run_both)
        assert str(reply).startswith(f"{aborted}: OOM command not allowed")
        assert client("EXISTS", "a") == 0


def test_a_large_transaction_is_refused(store: Store) -> None:
    """When it has become too large; the connection is closed, and nothing was done."""
    with served(store, Settings(max_transaction_bytes=100_000)) as server:
        client = server.connect()
        writes: list[Request] = [["SET", number, "x" * 40_000] for number in range(3)]
        replies = client.pipeline([["MULTI"], *writes])
        assert replies[2] == b"QUEUED"
        assert str(replies[3]).startswith("ERR a transaction of more than 100000 bytes")
        with pytest.raises(EOFError):
            client.reply()
        assert server.connect()("DBSIZE") == 0


@pytest.mark.parametrize("kind", ["set", "list"])
def test_an_element_is_moved_although_its_source_leaves_memory(store: Store, kind: str) -> None:
    """The target alone is larger than the memory; the source is read before it."""
    add = {"set": "SADD", "list": "RPUSH"}[kind]
    with served(store, Settings(maxmemory=50_000)) as server:
        client = server.connect()
        for source in (["a"], ["a", "b"]):
            client("FLUSHALL")
            client(add, "target", *[f"{n}{'x' * 1000}" for n in range(60)])
            server.forget()
            client(add, "source", *source)
            if kind == "set":
                assert client("SMOVE", "source", "target", "a") == 1
                assert client("SISMEMBER", "target", "a") == 1
                assert client("SMEMBERS", "source") == [item.encode() for item in source[1:]]
            else:
                assert client("LMOVE", "source", "target", "LEFT", "LEFT") == b"a"
                assert client("LRANGE", "target", 0, 0) == [b"a"]
                assert client("LRANGE", "source", 0, -1) == [item.encode() for item in source[1:]]


def test_a_look_at_watched_keys_that_fails_is_the_reply(
    server: Served, client: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection goes on."""
    tables = server.server.service.keyspace.tables

    def fail(*_: object) -> None:
        raise FilesystemError("the disk is gone")

    monkeypatch.setattr(tables, "read", fail)
    monkeypatch.setattr(tables, "keys", fail)
    for request in (["WATCH", "a"], ["INFO"], ["KEYS", "*"]):
        assert str(client(*request)) == "ERR FilesystemError: the disk is gone"


def test_values_that_are_not_used_leave_memory(store: Store) -> None:
    """Those of many keys are read again from the table."""
    with served(store, Settings(maxmemory=100_000)) as server:
        client = server.connect()
        for start in range(0, 300, 30):
            client.pipeline([["SET", n, "x" * 1000] for n in range(start, start + 30)])
        assert server.server.service.keyspace.memory <= 110_000
        assert client("MGET", *range(300)) == [b"x" * 1000] * 300


def test_large_values_do_not_wait_for_their_second(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit takes copies of them; parts of large values wait, as all else does."""
    monkeypatch.setattr(committer, "_SECOND", 600.0)
    monkeypatch.setattr(committer, "_MOST_CHANGED_BYTES", 1 << 20)
    with served(store, Settings(appendfsync="everysec")) as server:
        client, keyspace = server.connect(), server.server.service.keyspace
        fields = [word for n in range(10) for word in (f"field{n}", "x" * 150_000)]
        client("HSET", "hash", *fields)
        server.settle()
        before = server.server.committer.committed
        for number in range(10):
            client("HSET", "hash", "field1", number)
        assert server.run(lambda: keyspace.changed_bytes) == 0
        assert server.server.committer.committed == before
        # The last of them may come after the commit was begun, and wait.
        for number in range(12):
            client("SET", number, "x" * 100_000)
        server.wait_until(lambda: server.server.committer.committed > before)


def test_a_client_that_does_not_read_holds_nobody_back(server: Served) -> None:
    """It is not served any more; what others ask is answered."""
    slow, quick = server.connect(), server.connect()
    quick("SET", "a", "x" * 100_000)
    slow.send(*[["GET", "a"]] * 1000)

    assert quick("PING") == b"PONG"
    assert [len(slow.reply()) for _ in range(1000)] == [100_000] * 1000


def test_one_large_reply_does_not_disconnect_its_client(store: Store) -> None:
    """Only what was sent before and not read counts."""
    with served(store, Settings(max_output_bytes=1_000_000)) as server:
        client = server.connect()
        client("SET", "a", "x" * 20_000_000)
        assert len(client("GET", "a")) == 20_000_000
        client("DEL", "a")


def test_replies_that_wait_for_a_commit_are_bounded(server: Served) -> None:
    """A client is not served until the commit when they are many; then it gets them all."""
    held: list[int] = []

    def look() -> bool:
        held[:] = [client._held_bytes for client in server.server._clients]
        return sum(held) > 1 << 20

    before_next_commit(server, lambda: server.wait_until(look))
    client = server.connect()
    client.send(["SET", "a", "x" * 100_000], *[["GET", "a"]] * 200, ["PING"])

    assert client.reply() == b"OK"
    assert [len(client.reply()) for _ in range(200)] == [100_000] * 200
    assert client.reply() == b"PONG"
    assert max(held) <= 2 << 20


def test_a_long_field_is_refused(client: Connection) -> None:
    """It would be part of a key on disk; nothing of the command is done."""
    reply = client("HSET", "a", "f", "1", "x" * 70_000, "1")

    assert str(reply).startswith("ERR a field or member of 70000 bytes")
    assert client("EXISTS", "a") == 0


@pytest.mark.parametrize("length", [0, 600, 10_000_000])
def test_keys_may_have_any_length(server: Served, client: Connection, length: int) -> None:
    """And any bytes."""
    key = b"\0" * length
    client("SET", key, "x")
    server.forget()

    assert client("GET", key) == b"x"
    assert client("KEYS", "*") == [key]


def test_a_table_of_another_kind_is_in_the_way(store: Store) -> None:
    """It is not touched."""
    store.create_table("redis_5", "id INT", primary_key=["id"])

    with pytest.raises(SchemaError, match="redis_5"):
        stored_tables.StoredTables(store)
