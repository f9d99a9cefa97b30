"""Requests that are refused, or taken, for reasons that are easily overlooked: as Redis does."""

from __future__ import annotations

import tracemalloc
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import hiredis
import pytest

from relstate.connector.redis.patterns import Pattern, glob
from relstate.connector.redis.replies import CommandError
from relstate.connector.redis.settings import Settings
from relstate.connector.redis.values import (
    HashValue,
    ListValue,
    SortedSetValue,
    StringValue,
    Value,
)
from relstate.storage import Store
from support.redis_servers import Connection, Request, Served, another, served

_SEQUENCES: dict[str, list[Request]] = {
    "times of the past delete": [
        ["SET", "a", 1],
        ["PEXPIREAT", "a", -999_999_999_999_999_999],
        ["EXISTS", "a"],
        ["SET", "a", 1],
        ["EXPIRE", "a", -9_000_000_000_000_000],
        ["EXISTS", "a"],
        ["SET", "a", 1],
        ["EXPIRE", "a", -(1 << 63)],
        ["EXPIREAT", "a", -(1 << 62)],
        ["PEXPIRE", "a", -(1 << 63)],
        ["EXISTS", "a"],
    ],
    "floats": [
        *[
            ["ZADD", "z", score, "a"]
            for score in (
                "1e400", "-1e400", "1e-400", "0x10", "-0x1.8p1", "0x", "inf", "-Infinity", "nan",
                "1_0", " 1", "1 ", "", "0e9", "0.0", "1e308", "0x0", "5e-324", "infx", "+5", ".5",
            )
        ],
        ["ZSCORE", "z", "a"],
        ["ZADD", "z", "0x10", "b"],
        ["ZSCORE", "z", "b"],
        ["ZRANGEBYSCORE", "z", "-1e400", "1e400"],
        ["ZCOUNT", "z", "(0x10", "+inf"],
        ["ZINCRBY", "z", "0x1", "b"],
        ["INCRBYFLOAT", "f", "0x10"],
        ["INCRBYFLOAT", "g", "1e5000"],
        ["INCRBYFLOAT", "g", "inf"],
        ["HINCRBYFLOAT", "h", "f", "0x.8"],
        *[
            ["INCRBYFLOAT", "i", increment]
            for increment in (
                "1e-5000", "1e-4951", "1e-4950", "1e-4900", "1e9999999999999999999",
                "1e-9999999999999999999", "0e9999999999999999999", "-0.0", "1.2e4932", "-1e4933",
            )
        ],
        ["INCRBYFLOAT", "j", "1e4932"],
        ["INCRBYFLOAT", "j", "1e4932"],
    ],
    "ends of ranges of scores": [
        ["ZADD", "z", 0, "a", 1, "b", 2, "c", "inf", "d"],
        *[
            ["ZRANGEBYSCORE", "z", end, "2"]
            for end in (
                "", "(", " 1", "( 1", "1 ", " ", "1\0", "\0x", "(\0", "((1", "nan", "(inf", "-",
                "0x1", "1e", "1e400", "-1e400",
            )
        ],
    ],
    "an EXEC of a wrong form": [
        ["MULTI"],
        ["SET", "a", 1],
        ["EXEC", "extra"],
        ["EXEC"],
        ["EXISTS", "a"],
        ["EXEC", "extra"],
    ],
    "long strings": [
        ["SETRANGE", "a", 5_000_000_000, "x"],
        ["SETRANGE", "a", -1, "x"],
        ["SETRANGE", "a", 9_000_000_000_000_000_000, ""],
        ["EXISTS", "a"],
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", _SEQUENCES)
def test_replies_are_those_of_redis(client: Connection, theirs: Connection, name: str) -> None:
    """Each of a sequence."""
    for request in _SEQUENCES[name]:
        assert _shown(client(*request)) == _shown(theirs(*request)), request


@pytest.mark.parametrize(
    "data",
    [
        b"*-10\r\n*1\r\n$4\r\nPING\r\n",
        b"*-1\r\n*1\r\n$4\r\nPING\r\n",
        b"*1\r\n$4\r\nPING\r\n*-10\r\n*0\r\n*1\r\n$4\r\nPING\r\n",
        b"*1\r\n$4\r\nPING\r\n*-10\r\nPING\r\n",
        b"*2\r\n$4\r\nECHO\r\n$5000000000\r\n",
        b"*2\r\n$4\r\nECHO\r\n$-5\r\n",
        b"*2\r\n$4\r\nECHO\r\n$99999999999999999999\r\n",
        b"*2\r\n$4\r\nECHO\r\n$x\r\n",
    ],
)
def test_lengths_are_checked_when_they_arrive(
    client: Connection, theirs: Connection, data: bytes
) -> None:
    """The error comes before the bytes do, and an array of a negative length is nothing."""
    replies: list[Any] = []
    for connection in (another(client), another(theirs)):
        connection.socket.sendall(data)
        connection.socket.settimeout(5)
        if b"PING" not in data:
            replies.append(str(connection.reply()))
        else:
            replies.append([connection.reply() for _ in range(data.count(b"PING"))])
        connection.close()
    assert replies[0] == replies[1]


def test_lengths_are_checked_before_the_password(store: Store, theirs: Connection) -> None:
    """Sixteen kilobytes, and ten words."""
    theirs("CONFIG", "SET", "requirepass", "secret")
    with served(store, Settings(requirepass=b"secret")) as server:
        ours = server.connect()
        for data in (
            b"*2\r\n$4\r\nAUTH\r\n$16385\r\n",
            b"*2\r\n$4\r\nAUTH\r\n$%d\r\n" % (1 << 40),
            b"*2\r\n$4\r\nAUTH\r\n$16384\r\n%b\r\n" % (b"x" * 16384),
            b"*2\r\n$16385\r\n",
            b"*11\r\n",
            b"*10\r\n%b" % (b"$1\r\nx\r\n" * 10),
        ):
            replies = []
            for connection in (another(ours), another(theirs)):
                connection.socket.sendall(data)
                replies.append(_shown(connection.reply()))
                connection.close()
            assert replies[0] == replies[1], data


def test_strings_are_not_longer_than_requests(store: Store, theirs: Connection) -> None:
    """However they are made; nothing is left of what is refused."""
    limit = 1 << 20
    theirs("CONFIG", "SET", "proto-max-bulk-len", limit)
    requests: list[Request] = [
        ["SET", "a", b"x" * 600_000],
        ["APPEND", "a", b"x" * 600_000],
        ["SETRANGE", "a", limit, "x"],
        ["SETRANGE", "a", limit - 1, "xy"],
        ["SETRANGE", "a", limit, ""],
        ["SETRANGE", "b", 500_000_000, "x"],
        ["SETBIT", "b", 8 * limit, 1],
        ["BITFIELD", "b", "SET", "u8", 8 * limit, 1],
        ["BITFIELD", "b", "SET", "u8", f"#{limit}", 1],
        ["EXISTS", "b"],
        ["STRLEN", "a"],
        ["SETRANGE", "a", limit - 1, "x"],
        ["APPEND", "a", "x"],
        ["APPEND", "a", ""],
        ["SETBIT", "b", 8 * limit - 1, 1],
        ["STRLEN", "b"],
    ]
    with served(store, Settings(max_request_bytes=limit)) as server:
        client = server.connect()
        for request in requests:
            assert _shown(client(*request)) == _shown(theirs(*request)), request[:3]


@pytest.mark.parametrize("mode", ["OFF", "SKIP"])
def test_subscriptions_are_confirmed_without_replies(
    client: Connection, theirs: Connection, mode: str
) -> None:
    """CLIENT REPLY does not concern messages."""
    replies: list[Any] = []
    for connection in (another(client), another(theirs)):
        connection.send(
            ["CLIENT", "REPLY", mode],
            ["SUBSCRIBE", "a", "b"],
            ["PSUBSCRIBE", "c*"],
            ["UNSUBSCRIBE", "a", "b"],
            ["PUNSUBSCRIBE", "c*"],
        )
        replies.append([connection.reply() for _ in range(6)])
        connection.close()
    assert replies[0] == replies[1]


_LONG_NAME = b"a" * 50_000


@pytest.mark.parametrize(
    "pattern",
    [
        b"*" + b"a" * 4000 + b"b*",
        b"*a" * 2000 + b"b",
        b"*[a-z]" * 600 + b"b*",
        b"x" * 1_000_000,
        b"[" * 1_000_000,
        b"*" + b"a" * 1000 + b"b*",
        b"*a" * 500 + b"b",
        b"*[a-z]" * 150 + b"b*",
        b"a*" * 500,
        b"[" * 1024,
        b"*" + b"?" * 1000 + b"b",
        b"*" + b"[^b]" * 250 + b"b*",
    ],
)
def test_a_hostile_pattern_holds_nobody_back(
    server: Served, client: Connection, pattern: bytes
) -> None:
    """It is refused, if it takes too long to be compared with the keys."""
    client.pipeline([["SET", b"%d" % number + _LONG_NAME, "x"] for number in range(20)])
    other = server.connect()
    client.send(["KEYS", pattern])
    assert other("PING") == b"PONG"
    reply = client.reply()
    assert reply == [] or "pattern" in str(reply)
    assert len(client("KEYS", "*a*")) == 20


def test_a_hostile_subscription_fails_no_command(server: Served, client: Connection) -> None:
    """A message is not sent to a pattern that takes too long to be compared with its channel."""
    subscriber = server.connect()
    subscriber("PSUBSCRIBE", b"*" + b"a" * 1000 + b"b*")
    subscriber("PSUBSCRIBE", b"*")
    assert client("CONFIG", "SET", "notify-keyspace-events", "KA") == b"OK"
    key = b"a" * 200_000
    assert client("SET", key, "x") == b"OK"
    assert client("PUBLISH", key, "x") == 1
    assert subscriber.reply() == [b"pmessage", b"*", b"__keyspace@0__:" + key, b"set"]
    assert subscriber.reply() == [b"pmessage", b"*", key, b"x"]


def test_comparisons_with_a_pattern_are_bounded() -> None:
    """By the lengths of the names and of what is between two stars, whatever matches."""
    assert glob(b"*" + b"a" * 1000 + b"b*").steps == 1001
    assert glob(b"a" * 700 + b"*" + b"[a-z]?" * 50).steps == 100
    compared: list[bytes] = []
    pattern = Pattern(compared.append, 1000)
    with pytest.raises(CommandError, match="takes too long"):
        pattern.filter([_LONG_NAME] * 20)
    assert compared == [_LONG_NAME] * 2
    assert pattern.filter([b"short"] * 1000) == []


def test_eviction_does_not_look_at_all_keys_for_each(store: Store) -> None:
    """A write costs the same, however many keys are in memory."""
    with served(store, Settings(maxmemory=1 << 20, appendfsync="everysec")) as server:
        client = server.connect()
        keyspace = server.server.service.keyspace
        for start in range(0, 20_000, 1000):
            client.pipeline([["SET", start + n, "x" * 20] for n in range(1000)])
            server.settle()
        assert server.run(lambda: keyspace.memory) <= 1 << 20

        class Counted(OrderedDict[Any, Any]):
            looked_at = 0

            def __iter__(self) -> Iterator[Any]:
                for key in super().__iter__():
                    Counted.looked_at += 1
                    yield key

        keyspace._values = Counted(keyspace._values)
        Counted.looked_at = 0
        assert client.pipeline([["SET", f"last{n}", "x" * 20] for n in range(100)]) == [b"OK"] * 100
        assert Counted.looked_at < 1000


@pytest.mark.parametrize(
    "make",
    [
        lambda number: StringValue(b"x" * 30 + b"%d" % number),
        lambda number: HashValue({b"field%d" % n: b"%d%d" % (number, n) for n in range(50)}),
        lambda number: ListValue([b"%d%d" % (number, n) for n in range(100)]),
        lambda number: SortedSetValue({b"%d%d" % (number, n): n * 1.5 for n in range(60)}),
    ],
    ids=["strings", "hashes", "lists", "sorted sets"],
)
def test_values_take_the_memory_that_is_counted(make: Callable[[int], Value]) -> None:
    """Up to a third more or less, with their keys; so maxmemory bounds what values take."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        values = OrderedDict(((0, b"key%d" % number), make(number)) for number in range(1000))
        for value in values.values():
            value.written()
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 0.67 < taken / sum(value.size for value in values.values()) < 1.33


def _shown(reply: Any) -> Any:
    return f"error: {reply}" if isinstance(reply, hiredis.ReplyError) else repr(reply)
