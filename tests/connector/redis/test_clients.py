"""What clients do with each other: they wait for elements, and send messages."""

from __future__ import annotations

import time

import hiredis
import pytest

from support.redis_servers import Connection, Served


def is_waiting(server: Served) -> bool:
    """Return whether a client waits for an element."""
    return bool(server.run(lambda: server.server.service.waiting.waiters))


def wait(server: Served, client: Connection, *request: bytes | str | int) -> None:
    """Send a request that waits, and return when it does."""
    client.send(request)
    while not is_waiting(server):
        time.sleep(0.001)


@pytest.mark.parametrize(
    ("request_words", "push", "reply"),
    [
        (["BLPOP", "none", "list", 0], ["RPUSH", "list", "a", "b"], [b"list", b"a"]),
        (["BRPOP", "list", 0], ["RPUSH", "list", "a", "b"], [b"list", b"b"]),
        (["BLMOVE", "list", "to", "LEFT", "LEFT", 0], ["RPUSH", "list", "a"], b"a"),
        (["BRPOPLPUSH", "list", "to", 0], ["LMOVE", "from", "list", "LEFT", "LEFT"], b"x"),
        (["BZPOPMIN", "list", 0], ["ZADD", "list", 2, "b", 1, "a"], [b"list", b"a", b"1"]),
        (["BLMPOP", 0, 1, "list", "LEFT"], ["RENAME", "from", "list"], [b"list", [b"x"]]),
        (["BZMPOP", 0, 1, "list", "MAX"], ["ZADD", "list", 1, "a"], [b"list", [[b"a", b"1"]]]),
    ],
)
def test_who_waits_is_served_when_there_is_something(
    server: Served, client: Connection, request_words: list[str], push: list[str], reply: object
) -> None:
    """Whatever command brings it; nothing is left of what was taken."""
    client("RPUSH", "from", "x")
    waiter = server.connect()
    wait(server, waiter, *request_words)
    waiter.send(["PING"])
    client(*push)

    assert waiter.reply() == reply
    assert waiter.reply() == b"PONG"
    assert not is_waiting(server)


def test_who_waits_longest_is_served_first(server: Served, client: Connection) -> None:
    """Each gets one; who has gone gets none, and a value of another type is nobody's."""
    place = (0, b"list")
    waited = server.server.service.waiting.waiters
    waiters = [server.connect() for _ in range(4)]
    for number, waiter in enumerate(waiters, start=1):
        waiter.send(["BLPOP", "list", 0])
        while server.run(lambda: len(waited.get(place, ()))) != number:
            time.sleep(0.001)
    waiters[0].close()
    while server.run(lambda: len(waited[place])) != 3:
        time.sleep(0.001)
    client("SET", "list", "x")
    client("DEL", "list")
    client.pipeline([["MULTI"], ["RPUSH", "list", "a"], ["RPUSH", "list", "b", "c", "d"], ["EXEC"]])

    assert [waiter.reply()[1] for waiter in waiters[1:]] == [b"a", b"b", b"c"]
    assert client("LRANGE", "list", 0, -1) == [b"d"]


def test_who_waits_is_served_before_the_next_request(server: Served, client: Connection) -> None:
    """The client that brings an element does not take it back in the same packet."""
    waiter = server.connect()
    wait(server, waiter, "BLPOP", "list", 0)

    assert client.pipeline([["LPUSH", "list", "a"], ["LPOP", "list"]]) == [1, None]
    assert waiter.reply() == [b"list", b"a"]


def test_waiting_ends(server: Served, client: Connection) -> None:
    """After its time, with null; in a transaction at once; the list stays as it is."""
    assert client("BLPOP", "list", "0.02") is None
    assert client("BRPOPLPUSH", "list", "to", "0.02") is None
    assert client.pipeline([["MULTI"], ["BLPOP", "list", 0], ["EXEC"]])[2] == [None]
    assert client("RPUSH", "list", "a") == 1
    assert client("LLEN", "list") == 1
    assert not is_waiting(server)


def test_messages_reach_who_subscribed(server: Served, client: Connection) -> None:
    """To a channel or a pattern that it matches, until the end of the subscription."""
    subscriber = server.connect()
    assert subscriber("SUBSCRIBE", "news") == [b"subscribe", b"news", 1]
    subscriber.send(["PSUBSCRIBE", "n*", "x*"])
    assert subscriber.reply() == [b"psubscribe", b"n*", 2]
    assert subscriber.reply() == [b"psubscribe", b"x*", 3]
    assert client("PUBLISH", "news", "hello") == 2
    assert subscriber.reply() == [b"message", b"news", b"hello"]
    assert subscriber.reply() == [b"pmessage", b"n*", b"news", b"hello"]
    assert client("PUBSUB", "CHANNELS") == [b"news"]
    assert client("PUBSUB", "NUMSUB", "news", "x") == [b"news", 1, b"x", 0]
    assert client("PUBSUB", "NUMPAT") == 2
    assert str(subscriber("GET", "a")).startswith("ERR Can't execute 'get': only")
    assert subscriber("PING") == [b"pong", b""]
    assert subscriber("UNSUBSCRIBE") == [b"unsubscribe", b"news", 2]
    assert client("PUBLISH", "news", "again") == 1
    subscriber.close()
    while client("PUBSUB", "NUMPAT"):
        time.sleep(0.001)
    assert client("PUBLISH", "news", "nobody") == 0


def test_messages_are_pushed_in_the_newer_protocol(server: Served, client: Connection) -> None:
    """Between replies, which come too."""
    subscriber = server.connect()
    subscriber("HELLO", 3)
    subscriber.send(["SUBSCRIBE", "news"], ["SET", "a", 1])
    assert isinstance(subscriber.reply(), hiredis.PushNotification)
    assert subscriber.reply() == b"OK"
    client("PUBLISH", "news", "hello")
    assert subscriber.reply() == [b"message", b"news", b"hello"]
    assert subscriber("GET", "a") == b"1"


def test_a_monitor_sees_what_all_clients_send(server: Served, client: Connection) -> None:
    """Once it was run, without passwords; settings and what was refused are not shown."""
    monitor = server.connect()
    assert monitor("MONITOR") == b"OK"
    client("SELECT", 3)
    client("SET", "a", b'"\n\x01\xff')
    client("RENAME", "none", "b")
    client("AUTH", "user", "secret")
    client("HELLO", 3, "SETNAME", "me", "AUTH", "user", "secret")
    client.pipeline([["MULTI"], ["INCR", "n"], ["EXEC"]])
    for hidden in (["CONFIG", "GET", "port"], ["MONITOR", "x"], ["GET"], ["NOSUCH"]):
        client(*hidden)
    client("PING")

    host, port = client.socket.getsockname()[:2]
    for words in (
        '"SELECT" "3"',
        r'"SET" "a" "\"\n\x01\xff"',
        '"RENAME" "none" "b"',
        '"AUTH" "(redacted)" "(redacted)"',
        '"HELLO" "3" "SETNAME" "me" "AUTH" "(redacted)" "(redacted)"',
        '"MULTI"',
        '"INCR" "n"',
        '"EXEC"',
        '"PING"',
    ):
        time, _, shown = monitor.reply().decode().partition(" ")
        assert float(time) > 0
        assert shown == f"[3 {host}:{port}] {words}"


@pytest.mark.parametrize(
    ("request_text", "shown"),
    [
        ("HELLO 3 SETNAME auth AUTH default secret", '"HELLO" "3" "SETNAME" "auth"'),
        ("HELLO 3 AUTH default wrong AUTH default secret", '"HELLO" "3" "AUTH"'),
        ("HELLO 3 auth secret", '"HELLO" "3" "auth"'),
        ("hello AUTH default secret", '"hello" "AUTH"'),
        ("auth secret", '"auth"'),
        ("AUTH default secret", '"AUTH"'),
        ("AUTH a b secret", '"AUTH"'),
    ],
)
def test_a_monitor_sees_no_passwords(
    server: Served, client: Connection, request_text: str, shown: str
) -> None:
    """Whatever may be one is hidden, also in a request that is wrong."""
    monitor = server.connect()
    monitor("MONITOR")
    client(*request_text.split())

    line = monitor.reply().decode().partition("] ")[2]
    hidden = len(request_text.split()) - len(shown.split())
    assert line == shown + ' "(redacted)"' * hidden


def test_a_monitor_sees_the_beginning_of_long_requests(server: Served, client: Connection) -> None:
    """Clients do not wait until megabytes are shown."""
    monitor = server.connect()
    monitor("MONITOR")
    client("SET", "a", b"\0" * 5000)
    client("MSET", *range(3000))

    _, _, word = monitor.reply().decode().rpartition(' "\\')
    assert "\\" + word == "\\x00" * 1000 + '... (4000 more bytes)"'
    words = monitor.reply().decode().partition("] ")[2]
    assert words.startswith('"MSET" "0" "1" ')
    assert words.endswith('"998" "... (2001 more arguments)"')


def test_a_monitor_ends(server: Served, client: Connection) -> None:
    """With RESET, or when it has gone; meanwhile it asks for no keys."""
    monitor, other = server.connect(), server.connect()
    assert str(client.pipeline([["MULTI"], ["MONITOR"], ["DISCARD"]])[1]) == (
        "ERR Command not allowed inside a transaction"
    )
    monitor("MONITOR")
    other("MONITOR")
    other.close()
    assert str(monitor("GET", "a")) == "ERR Replica can't interact with the keyspace"
    assert monitor("RESET") == b"RESET"
    server.wait_until(lambda: not server.server.service.monitors)
    assert client("PING") == b"PONG"
