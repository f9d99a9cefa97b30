"""The laws of the server: what is durable, what clients see of each other, what is refused."""

from __future__ import annotations

import math
import threading
from typing import Any

import hiredis
import pytest

from relstate.connector.redis import committer
from relstate.connector.redis import tables as stored_tables
from relstate.connector.redis.client import Client
from relstate.connector.redis.settings import Settings
from relstate.storage import Store
from relstate.storage.errors import FilesystemError
from support.clock import ManualClock
from support.redis_servers import SECONDS, Connection, Served, before_next_commit, rows, served


def test_the_data_are_rows(client: Connection, store: Store, clock: ManualClock) -> None:
    """A row for each key, with its type, value and expiry; removed keys have none."""
    client("SET", "text", "x")
    client("HSET", "hash", "f", "1", "g", "2")
    client("HDEL", "hash", "g")
    client("PEXPIRE", "hash", 1500)
    client("SET", "gone", "x")
    client("DEL", "gone")
    client("SELECT", 3)
    client("SET", "far", "\0")

    first, second = rows(store)
    expiry = first.pop("expiry")
    assert expiry.timestamp() == clock.now() / 1_000_000 + 1.5
    assert first == {"key": b"hash", "type": "hash", "fields": [(b"f", b"1")]}
    assert second == {"key": b"text", "type": "string", "value": b"x"}
    assert rows(store, 3) == [{"key": b"far", "type": "string", "value": b"\0"}]


def test_a_change_of_a_hash_writes_its_field_alone(client: Connection, store: Store) -> None:
    """However many fields the hash has."""
    client("HSET", "hash", *[word for n in range(1000) for word in (f"field{n}", "x" * 100)])
    client("HSET", "hash", "field7", "y")

    commit = next(entry for entry in store.history() if entry.operation == "redis")
    assert sum(record.size for record in commit.added) < 20_000
    assert dict(rows(store)[0]["fields"])[b"field7"] == b"y"


def test_collections_are_maps(client: Connection, server: Served, store: Store) -> None:
    """Sets of true, sorted sets by member, lists by ascending positions; empty ones have no row."""
    client("SADD", "set", "b", "a")
    client("ZADD", "sorted", 2, "a", "-inf", "b")
    client("RPUSH", "list", "b", "c")
    client("LPUSH", "list", "a")
    client("RPOP", "list")
    client("SADD", "empty", "a")
    client("SREM", "empty", "a")

    assert rows(store) == [
        {"key": b"list", "type": "list", "items": [(-1, b"a"), (0, b"b")]},
        {"key": b"set", "type": "set", "members": [(b"a", True), (b"b", True)]},
        {"key": b"sorted", "type": "zset", "scores": [(b"a", 2.0), (b"b", float("-inf"))]},
    ]
    server.forget()
    assert client("ZRANGE", "sorted", 0, -1) == [b"b", b"a"]
    assert client("LRANGE", "list", 0, -1) == [b"a", b"b"]


def test_gaps_between_the_positions_of_a_list_are_nothing(client: Connection, store: Store) -> None:
    """Another writer may leave some."""
    items = [(5, b"a"), (9, b"b")]
    store.write("redis_0", [{"key": b"list", "type": "list", "items": items}])

    assert client("LRANGE", "list", 0, -1) == [b"a", b"b"]
    assert client("RPUSH", "list", "c") == 3
    assert [item for _, item in rows(store)[0]["items"]] == [b"a", b"b", b"c"]


def test_empty_rows_of_other_writers_are_no_values(
    server: Served, client: Connection, store: Store, clock: ManualClock
) -> None:
    """A collection without parts, or a part that is NULL; they do not stop expiry either."""
    store.write(
        "redis_0",
        [
            {"key": b"list", "type": "list", "items": []},
            {"key": b"sorted", "type": "zset", "scores": [(b"a", None), (b"b", 1.0)]},
        ],
    )
    client("SET", "a", "x", "PX", 1)

    assert client("LPOP", "list") is None
    assert client("ZRANGE", "sorted", 0, -1) == [b"b"]
    clock.advance(1)
    server.run(server.server.expire_due)
    server.forget()
    assert b"a" not in [row["key"] for row in rows(store)]


def test_a_defect_while_keys_expire_does_not_end_expiry(
    server: Served, client: Connection, store: Store, clock: ManualClock, monkeypatch: Any
) -> None:
    """It is logged, and tried again."""
    calls: list[int] = []

    def fail() -> None:
        calls.append(1)
        monkeypatch.undo()
        raise TypeError("a defect")

    monkeypatch.setattr(server.server, "expire_due", fail)
    server.wait_until(lambda: bool(calls))
    client("SET", "a", "x", "PX", 1)
    clock.advance(1)
    server.wait_until(lambda: not rows(store))


def test_keys_that_expired_are_counted_until_they_are_removed(
    server: Served, client: Connection, clock: ManualClock
) -> None:
    """Once, whoever counts first."""
    server.end_looks()
    client("SET", "a", "x", "PX", 5)
    clock.advance(1)
    server.forget()

    assert client("DBSIZE") == 1
    assert client("KEYS", "*") == []
    assert client("GET", "a") is None
    assert client("DBSIZE") == 0


def test_a_read_after_a_flush_waits_for_its_commit(server: Served, client: Connection) -> None:
    """As any reply that depends on what is not committed."""
    client("SET", "a", "x")
    keyspace = server.server.service.keyspace

    def read() -> tuple[Any, int]:
        keyspace.flush(0)
        keyspace.uncommitted = 0
        return server.server.service.databases[0].get(b"a"), keyspace.uncommitted

    value, batch = server.run(read)
    assert value is None
    assert batch > 0


def test_a_list_of_one_item_keeps_its_time_to_live_when_it_is_moved_to_itself(
    client: Connection,
) -> None:
    """It is not removed in between."""
    client("RPUSH", "list", "a")
    client("EXPIRE", "list", 100)
    assert client("LMOVE", "list", "list", "LEFT", "RIGHT") == b"a"
    assert client("TTL", "list") == 100


def test_pairs_are_nested_in_the_newer_protocol(client: Connection) -> None:
    """And scores are doubles there."""
    client("ZADD", "a", 1.5, "x")
    assert client("ZRANGE", "a", 0, -1, "WITHSCORES") == [b"x", b"1.5"]
    client("HELLO", 3)
    assert client("ZRANGE", "a", 0, -1, "WITHSCORES") == [[b"x", 1.5]]
    assert client("ZSCORE", "a", "x") == 1.5


def test_keys_that_expire_are_deleted(
    server: Served, client: Connection, store: Store, clock: ManualClock
) -> None:
    """From their time on nobody sees them; then their rows are deleted, asked for or not."""
    client("SET", "a", "x", "EX", 10)
    client("SET", "b", "x", "EX", 10)
    client("SET", "c", "x", "EX", 10)
    client("SET", "c", "y", "EX", 20)
    clock.advance(10)

    assert client("GET", "a") is None
    server.run(server.server.expire_due)
    server.forget()

    assert [row["key"] for row in rows(store)] == [b"c"]


def test_keys_that_expired_while_no_server_ran_are_deleted(
    store: Store, clock: ManualClock
) -> None:
    """A server finds them when it starts."""
    with served(store) as server:
        server.connect()("SET", "a", "x", "EX", 10)
    clock.advance(11)
    with served(store) as server:
        server.run(server.server.expire_due)
        assert server.connect()("DBSIZE") == 0

    assert rows(store) == []


def test_commands_of_many_clients_share_an_epoch(server: Served, store: Store) -> None:
    """Those that arrive while a commit is made are in the next."""
    clients = [server.connect() for _ in range(10)]
    before = store.epoch
    for number, client in enumerate(clients):
        client.send(["SET", f"key{number}", "x"], *[["INCR", "n"]] * 10)
    for client in clients:
        assert len([client.reply() for _ in range(11)]) == 11

    assert clients[0]("GET", "n") == b"100"
    assert len(rows(store)) == 11
    assert store.epoch - before < 50


def test_who_waits_longest_for_a_commit_gets_the_first_reply(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who took a lock knows it before those whom it kept out."""
    answered: list[Client] = []
    settle = Client.settle

    def noted(self: Client, number: int, error: str | None) -> None:
        answered.append(self)
        settle(self, number, error)

    monkeypatch.setattr(Client, "settle", noted)
    winner, *others = clients = [server.connect() for _ in range(20)]
    numbers = [client("CLIENT", "ID") for client in clients]

    def send() -> None:
        for count, client in enumerate(others, start=2):
            client.send(["SET", "lock", "x", "NX"])
            server.wait_until(lambda count=count: server.server.waiting_clients == count)  # type: ignore[misc]

    before_next_commit(server, send)
    assert winner("SET", "lock", "x", "NX") == b"OK"
    assert [client.reply() for client in others] == [None] * 19
    sessions = [client._session for client in answered]
    assert [session.id for session in sessions if session is not None] == numbers


def test_a_transaction_is_one_epoch(client: Connection, store: Store) -> None:
    """Also over several databases; a wrong command within does not end it."""
    client("SET", "a", "x")
    client("SELECT", 1)
    client("SET", "a", "x")
    before = store.epoch
    replies = client.pipeline(
        [["MULTI"], ["SET", "b", 1], ["HGET", "b", "f"], ["SELECT", 0], ["DEL", "a"], ["EXEC"]]
    )

    assert replies[1:5] == [b"QUEUED"] * 4
    done, wrong, selected, deleted = replies[5]
    assert (done, selected, deleted) == (b"OK", b"OK", 1)
    assert str(wrong).startswith("WRONGTYPE")
    assert store.epoch == before + 1
    assert store.at(before).table("redis_1").count() == 1


def test_a_watched_key_that_changed_ends_a_transaction(server: Served) -> None:
    """Whoever changed it, and however; one that is forgotten does not."""
    mine, other = server.connect(), server.connect()
    for change in (["SET", "a", 1], ["FLUSHALL"], ["EXPIRE", "a", 100], ["RENAME", "a", "b"]):
        mine("SET", "a", 0)
        mine("WATCH", "a")
        mine("MULTI")
        mine("SET", "won", 1)
        other(*change)
        assert mine("EXEC") is None, change
    mine("SET", "a", 0)
    mine("WATCH", "a")
    other("SET", "a", 1)
    mine("UNWATCH")
    assert mine.pipeline([["MULTI"], ["GET", "a"], ["EXEC"]])[-1] == [b"1"]
    mine("WATCH", "a")
    other("GET", "a")
    assert mine.pipeline([["MULTI"], ["GET", "a"], ["EXEC"]])[-1] == [b"1"]


def test_a_wrong_command_discards_a_transaction(client: Connection) -> None:
    """One that is unknown, or has too few arguments."""
    replies = client.pipeline([["MULTI"], ["SET", "a", 1], ["SET"], ["EXEC"], ["GET", "a"]])

    assert str(replies[3]) == "EXECABORT Transaction discarded because of previous errors."
    assert replies[4] is None


def test_others_may_write_the_tables(server: Served, client: Connection, store: Store) -> None:
    """The server sees what they write, and what they write at the same time is not overwritten."""
    client("SET", "a", "x")
    store.write("redis_0", [{"key": b"a", "type": "string", "value": b"y"}])
    assert client("APPEND", "a", "z") == 2
    assert client("GET", "a") == b"yz"

    row = {"key": b"a", "type": "string", "value": b"other"}
    before_next_commit(server, lambda: store.write("redis_0", [row]))
    assert str(client("APPEND", "a", "z")).startswith("TRYAGAIN another writer")
    assert client("APPEND", "a", "z") == 6
    assert rows(store)[0]["value"] == b"otherz"


@pytest.mark.parametrize("has_table", [True, False])
def test_a_commit_of_one_database_hides_no_change_of_another(
    server: Served, client: Connection, store: Store, has_table: bool
) -> None:
    """Another writer's change just before it is seen, also in a table which that writer created."""
    row = {"key": b"n", "type": "string", "value": b"500"}
    client("SELECT", 1)
    if has_table:
        client("SET", "n", 1)
    assert client("GET", "n") == (b"1" if has_table else None)

    def write() -> None:
        stored_tables.create_table(store, 1)
        store.write("redis_1", [row])

    before_next_commit(server, write)
    client.pipeline([["SELECT", 0], ["SET", "a", "x"], ["SELECT", 1]])

    assert client("INCR", "n") == 501
    assert rows(store, 1)[0]["value"] == b"501"


def test_a_commit_that_fails_is_the_reply(server: Served, client: Connection) -> None:
    """Nothing of it is seen afterwards; what comes later works again."""
    client("SET", "a", "x")
    keyspace = server.server.service.keyspace
    commit = keyspace.tables.commit

    def fail(_: Any) -> None:
        keyspace.tables.commit = commit
        raise FilesystemError("the disk is gone")

    keyspace.tables.commit = fail
    first, second = client.pipeline([["SET", "a", "y"], ["PING"]])

    assert str(first).startswith("MISCONF Errors writing to the AOF file: nothing was changed")
    assert second == b"PONG"
    assert client("GET", "a") == b"x"
    assert client("SET", "a", "z") == b"OK"


def test_a_read_that_fails_is_the_reply(
    server: Served, client: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection goes on, and so do others."""
    tables = server.server.service.keyspace.tables

    def fail(*_: object) -> None:
        raise FilesystemError("the disk is gone")

    monkeypatch.setattr(tables, "read", fail)
    first, second = client.pipeline([["GET", "a"], ["PING"]])

    assert str(first) == "ERR FilesystemError: the disk is gone"
    assert second == b"PONG"


def test_everysec_replies_before_the_commit(store: Store) -> None:
    """What was answered is committed at the latest when the server ends."""
    with served(store, Settings(appendfsync="everysec")) as server:
        before = store.epoch
        client = server.connect()
        for number in range(200):
            assert client("SET", f"key{number}", "x") == b"OK"
        assert store.epoch - before < 20
    assert len(rows(store)) == 200


def test_errors_are_replies(client: Connection) -> None:
    """Hiredis reads them as such."""
    assert isinstance(client("NOSUCH"), hiredis.ReplyError)


def test_replies_do_not_wait_for_compaction(
    server: Served, client: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are merged beside the commits, one merge at a time; an error ends nothing."""
    tables = server.server.service.keyspace.tables
    started, may_end = threading.Event(), threading.Event()

    def wait() -> None:
        started.set()
        assert may_end.wait(SECONDS)
        raise OSError("no merge")

    monkeypatch.setattr(tables, "compact", wait)
    assert client("SET", "a", "x") == b"OK"
    assert started.wait(SECONDS)
    for number in range(3):
        assert client("SET", "a", number) == b"OK"
    may_end.set()
    monkeypatch.undo()
    assert client("SET", "a", "x") == b"OK"


def test_files_are_merged(client: Connection, server: Served, store: Store) -> None:
    """However many commits there are."""
    for number in range(60):
        client("SET", number, "x")

    server.wait_until(lambda: len(store.state.segments) < 20)


def test_clients_that_were_answered_share_the_next_commit(
    server: Served, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them: the first does not get one of its own."""
    # The wait is a multiple of the time of a commit, which says nothing of clients on a busy
    # machine: without an end to it, the commits depend on no time at all.
    monkeypatch.setattr(committer, "_GATHERING", math.inf)
    clients = [server.connect() for _ in range(20)]
    assert [client("PING") for client in clients] == [b"PONG"] * 20
    before = store.epoch
    is_held, is_sent = threading.Event(), threading.Event()

    def hold() -> None:
        is_held.set()
        is_sent.wait(SECONDS)

    # The first commit is of all clients: the server reads nothing until all have sent.
    holding = threading.Thread(target=server.run, args=(hold,))
    holding.start()
    assert is_held.wait(SECONDS)
    for number in range(10):
        for client in clients:
            client.send(["INCR", "n"])
            if is_sent.is_set():
                server.run(lambda: None)
        is_sent.set()
        assert max(client.reply() for client in clients) == 20 * (number + 1)

    holding.join()
    commits = [entry for entry in store.history() if entry.epoch > before]
    assert sum(entry.operation == "redis" for entry in commits) == 10


@pytest.mark.parametrize("is_endless", [False, True])
def test_the_end_of_a_server_waits_for_a_merge_without_holding_up_others(
    store: Store, monkeypatch: pytest.MonkeyPatch, *, is_endless: bool
) -> None:
    """It waits until a limit."""
    server = Served(store)
    is_merging, is_over = threading.Event(), threading.Event()

    def compact() -> None:
        is_merging.set()
        is_over.wait()

    monkeypatch.setattr(server.server.service.keyspace.tables, "compact", compact)
    limit = 0.01 if is_endless else 10.0 * SECONDS
    monkeypatch.setattr(committer, "_MOST_MERGE_SECONDS", limit)
    server.connect()("SET", "a", "x")
    assert is_merging.wait(SECONDS)
    stopped = threading.Thread(target=server.stop)
    stopped.start()
    try:
        if is_endless:
            stopped.join(SECONDS)
            assert not stopped.is_alive()
        else:
            server.wait_until(lambda: server.server.committer._is_finishing)
            server.run(lambda: None)
            assert stopped.is_alive()
    finally:
        is_over.set()
        stopped.join()
