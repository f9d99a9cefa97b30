"""Commands that read the keys of a table hold nobody back, and see one moment."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest

from relstate.connector.redis.expiries import Expiries
from relstate.connector.redis.listing import KeyListing
from relstate.connector.redis.tables import StoredKeys
from relstate.storage import Store
from support.clock import ManualClock
from support.redis_servers import SECONDS, Connection, Request, Served, before_next_commit, rows


class Gate:
    """Reads of keys stop at it until it is opened; ``reached``: one has come."""

    def __init__(self) -> None:
        self.reached, self._opened = Event(), Event()

    def pass_through(self) -> None:
        """Wait until it is open."""
        self.reached.set()
        assert self._opened.wait(SECONDS)

    def open(self) -> None:
        """Let all reads go on."""
        self._opened.set()


@pytest.fixture
def gate(server: Served, client: Connection, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """A gate before the keys of a table with two keys, which nothing is known of."""
    client.pipeline([["SET", "a", 1], ["SET", "b", 2]])
    server.forget()
    gate, read = Gate(), KeyListing.entries

    def stopped(self: KeyListing, vnode: int | None = None) -> Iterator[tuple[bytes, int | None]]:
        gate.pass_through()
        yield from read(self, vnode)

    monkeypatch.setattr(KeyListing, "entries", stopped)
    yield gate
    gate.open()


def _sorted(reply: Any) -> Any:
    return sorted(map(_sorted, reply), key=repr) if isinstance(reply, list) else reply


@pytest.mark.parametrize(
    ("request_words", "replies"),
    [
        (["KEYS", "*"], [[b"a", b"b"]]),
        (["DBSIZE"], [2]),
        (["RANDOMKEY"], [b"a", b"b"]),
        (["SCAN", 0, "COUNT", 100], [[[b"a", b"b"], b"0"]]),
        (["SCAN", 0, "COUNT", 100, "TYPE", "hash"], [[[], b"0"]]),
    ],
)
def test_others_are_served_while_keys_are_read(
    server: Served,
    client: Connection,
    gate: Gate,
    request_words: list[str | int],
    replies: list[Any],
) -> None:
    """What they change meanwhile is not in the reply; the client's next request waits for it."""
    reader = server.connect()
    reader.send(request_words, ["GET", "c"])
    assert gate.reached.wait(SECONDS)
    assert client.pipeline([["SET", "c", 3], ["GET", "a"]]) == [b"OK", b"1"]
    gate.open()
    assert _sorted(reader.reply()) in replies
    assert reader.reply() == b"3"


def test_a_count_stays_right(server: Served, client: Connection, gate: Gate) -> None:
    """Keys that come and go while it is made are in the next, which reads nothing."""
    reader = server.connect()
    reader.send(["DBSIZE"])
    assert gate.reached.wait(SECONDS)
    client.pipeline([["SET", "c", 3], ["SET", "d", 3], ["DEL", "a"], ["SET", "b", 3]])
    script = "redis.call('set', 'e', 1) redis.call('del', 'b')"
    assert client("EVAL", script, 0) is None
    server.server.service.scripts.most_bytes = 1 << 20
    endless = "local t = {} for i = 1, 1e9 do t[i] = i .. 'x' end"
    assert "was ended" in str(client("EVAL", f"{script} {endless}", 0))
    gate.open()
    assert reader.reply() == 2
    gate.reached.clear()
    assert client("DBSIZE") == 3
    assert b"db0:keys=3" in client("INFO")
    assert client.pipeline([["FLUSHALL"], ["DBSIZE"]]) == [b"OK", 0]


def test_a_flush_meanwhile_is_not_undone(server: Served, client: Connection, gate: Gate) -> None:
    """The count that began before it is not that of the database."""
    reader = server.connect()
    reader.send(["DBSIZE"])
    assert gate.reached.wait(SECONDS)
    client.pipeline([["FLUSHALL"], ["SET", "z", 1]])
    gate.open()
    assert reader.reply() == 2
    assert client("DBSIZE") == 1


def test_a_reader_may_leave(server: Served, client: Connection, gate: Gate) -> None:
    """Nobody gets its reply."""
    reader = server.connect()
    reader.send(["KEYS", "*"])
    assert gate.reached.wait(SECONDS)
    reader.close()
    server.wait_until(lambda: len(server.server.service.sessions) == 1)
    gate.open()
    assert sorted(client("KEYS", "*")) == [b"a", b"b"]


def test_keys_whose_commit_fails_are_not_shown(
    server: Served, client: Connection, gate: Gate
) -> None:
    """The client is to ask again."""
    reader = server.connect()

    def fail() -> None:
        server.run(lambda: None)
        reader.send(["KEYS", "*"])
        assert gate.reached.wait(SECONDS)
        raise OSError("the disk is gone")

    before_next_commit(server, fail)
    assert "MISCONF" in str(client("SET", "c", 3))
    gate.open()
    assert "TRYAGAIN" in str(reader.reply())
    assert sorted(reader("KEYS", "*")) == [b"a", b"b"]


def test_transactions_and_scripts_read_keys_at_once(server: Served, client: Connection) -> None:
    """They see what they changed before."""
    client("SET", "a", 1)
    server.forget()
    requests: list[Request] = [
        ["MULTI"],
        ["SET", "b", 2],
        ["DBSIZE"],
        ["DEL", "a"],
        ["KEYS", "*"],
        ["EXEC"],
    ]
    assert client.pipeline(requests)[-1] == [b"OK", 2, 1, [b"b"]]
    server.forget()
    assert client("EVAL", "redis.call('set', 'c', 1) return redis.call('dbsize')", 0) == 2


def test_others_are_served_while_expiries_are_read(
    server: Served,
    client: Connection,
    store: Store,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Keys whose expiry is set meanwhile expire, too, and so do those that the tables have."""
    client.pipeline([["SET", "a", 1, "PX", 50], ["SET", "b", 1, "PX", 50]])
    server.settle()
    gate, keyspace = Gate(), server.server.service.keyspace
    read = StoredKeys.read

    def stopped(self: StoredKeys, vnode: int | None = None) -> Iterator[tuple[bytes, int | None]]:
        gate.pass_through()
        yield from read(self, vnode)

    monkeypatch.setattr(StoredKeys, "read", stopped)
    keyspace.expiries = Expiries(keyspace.tables, keyspace.uncommitted_expiries)
    assert gate.reached.wait(SECONDS)
    assert client.pipeline([["SET", "c", 3, "PX", 60], ["GET", "a"]]) == [b"OK", b"1"]
    gate.open()
    clock.advance(1)
    server.wait_until(lambda: not rows(store))
