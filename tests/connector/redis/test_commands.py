"""The table of commands agrees with its documentation and with what runs."""

from __future__ import annotations

import re

import pytest

from relstate.connector.redis import sessions
from relstate.connector.redis.command import Command
from relstate.connector.redis.commands import COMMANDS
from relstate.connector.redis.patterns import glob
from relstate.connector.redis.session import SessionCommand
from support.redis_servers import Connection, Request, Served
from support.sources import ROOT


def test_the_page_lists_all_commands() -> None:
    """By their types, and no others."""
    page = (ROOT / "docs" / "redis.md").read_text().split("## Commands")[1].split("## ")[0]
    table, refused = page.split("| refused |")
    listed = re.findall(r"`([A-Z_]+)`", "\n".join(re.findall(r"^\|.*", table, re.MULTILINE)))
    listed += ["FCALL", "FCALL_RO", "FUNCTION"]
    assert "`FUNCTION` `FCALL` `FCALL_RO`" in refused

    assert sorted(listed) == sorted(name.upper() for name in {**COMMANDS, **sessions.COMMANDS})


def test_every_command_is_checked_for_its_arguments(client: Connection) -> None:
    """Too few are Redis's error, and change nothing."""
    commands: dict[str, Command | SessionCommand] = {**COMMANDS, **sessions.COMMANDS}
    for name, command in commands.items():
        if abs(command.arity) > 1:
            reply = str(client(name))
            assert reply == f"ERR wrong number of arguments for '{name}' command"
        assert client("COMMAND", "INFO", name)[0][:2] == [name.encode(), command.arity]


def test_command_tells_where_keys_are(client: Connection) -> None:
    """At fixed positions, at the ends, and after their number."""
    assert client("COMMAND", "GETKEYS", "MSET", "a", 1, "b", 2) == [b"a", b"b"]
    assert client("COMMAND", "GETKEYS", "COPY", "a", "b") == [b"a", b"b"]
    assert client("COMMAND", "COUNT") == len(client("COMMAND", "LIST"))


@pytest.mark.parametrize(
    ("request_text", "reply"),
    [
        ("ZINTERCARD 0 z", "ERR at least 1 input key is needed for 'zintercard' command"),
        ("ZINTERCARD x z", "ERR value is not an integer or out of range"),
        ("ZINTERCARD 5 z", "ERR syntax error"),
        (
            "ZINTERCARD 1 s LIMIT -1",
            "WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        ("ZINTERCARD 1 z LIMIT x", "ERR LIMIT can't be negative"),
        ("ZINTERCARD 1 z LIMIT", "ERR syntax error"),
        ("HINCRBYFLOAT h f inf", "ERR value is NaN or Infinity"),
        ("HINCRBYFLOAT s f -inf", "ERR value is NaN or Infinity"),
        ("HINCRBYFLOAT h f 1", "ERR hash value is not a float"),
        ("HINCRBYFLOAT h i 1", "ERR increment would produce NaN or Infinity"),
        ("MOVE s 0", "ERR source and destination objects are the same"),
        ("COPY s s DB 0 REPLACE", "ERR source and destination objects are the same"),
    ],
)
def test_the_first_thing_that_is_wrong_is_the_error(
    client: Connection, request_text: str, reply: str
) -> None:
    """As Redis 7.0 replied to the same requests over the same keys."""
    client("SET", "s", "text")
    client("ZADD", "z", 1, "a")
    client("HSET", "h", "f", "text", "i", "inf")
    assert str(client(*request_text.split())) == reply


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        (b"a*c", [b"ac", b"abbc", b"a\nc"], [b"ab", b"xac"]),
        (b"a?c", [b"abc"], [b"ac", b"abbc"]),
        (b"[a-c]x", [b"ax", b"cx"], [b"dx", b"x"]),
        (b"[^a-c]", [b"d"], [b"b", b""]),
        (rb"\*", [b"*"], [b"a"]),
        (b"[]x", [], [b"x", b"]x"]),
        (b"[a", [b"a"], [b"["]),
        (b"", [b""], [b"a"]),
        (b"*", [b"", b"ab"], []),
        (b"a*bc*d*e", [b"abcde", b"abbbcddxe"], [b"abcd", b"abcdex", b"acbde"]),
        (b"*a*?a**", [b"axa", b"aaba"], [b"aa", b"ab"]),
        (b"a*" * 30 + b"b", [b"a" * 40 + b"b"], [b"a" * 5000]),
    ],
)
def test_patterns_match_as_in_redis(
    pattern: bytes, matching: list[bytes], others: list[bytes]
) -> None:
    """Whole keys, byte by byte."""
    assert all(map(glob(pattern).matches, matching))
    assert not any(map(glob(pattern).matches, others))


@pytest.mark.parametrize(
    ("request_words", "reply"),
    [
        (
            ["SRANDMEMBER", "s", -(1 << 63)],
            "ERR value is out of range, must be between -9223372036854775807 and 922337203685477",
        ),
        (["SRANDMEMBER", "s", 1 - (1 << 63)], "ERR value is out of range: 9223372036854775807 el"),
        (["HRANDFIELD", "h", -(1 << 40)], "ERR value is out of range: 1099511627776 elements "),
        (["ZRANDMEMBER", "z", -(1 << 40)], "ERR value is out of range: 1099511627776 elements "),
        (["SCAN", "1" * 5000], "ERR invalid cursor"),
        (["HSCAN", "h", "1" * 5000], "ERR invalid cursor"),
    ],
)
def test_huge_numbers_are_refused(
    client: Connection, request_words: list[str | int], reply: str
) -> None:
    """The connection goes on, and others are served."""
    client("SADD", "s", "a")
    client("HSET", "h", "f", "1")
    client("ZADD", "z", 1, "a")
    assert str(client(*request_words)).startswith(reply)


def test_a_parameter_may_be_set_to_what_it_is(client: Connection) -> None:
    """Libraries do so; another value is refused."""
    assert client("CONFIG", "SET", "timeout", 0) == b"OK"
    assert str(client("CONFIG", "SET", "timeout", 1)).startswith("ERR CONFIG SET failed")


def test_clients_disconnect_each_other(server: Served) -> None:
    """By address, by number, and by filters; a client that kills itself gets the reply first."""
    client, second, third, listener = (server.connect() for _ in range(4))
    listener("SUBSCRIBE", "news")
    address = client("CLIENT", "LIST").splitlines()[1].split()[1].removeprefix(b"addr=")
    assert client("CLIENT", "KILL", address) == b"OK"
    assert client("CLIENT", "KILL", "TYPE", "pubsub") == 1
    assert client("CLIENT", "KILL", "ID", third("CLIENT", "ID"), "USER", "default") == 1
    for gone in (second, third, listener):
        with pytest.raises((ConnectionError, EOFError)):
            gone("PING")
    server.wait_until(lambda: len(server.server.service.sessions) == 1)
    for words, problem in (
        ("1.2.3.4:5", "ERR No such client"),
        ("ID 0", "ERR client-id should be greater than 0"),
        ("TYPE x", "ERR Unknown client type 'x'"),
        ("USER x", "ERR No such user 'x'"),
        ("ID 1 SKIPME", "ERR syntax error"),
        ("ID 1 SKIPME x", "ERR syntax error"),
        ("X 1", "ERR syntax error"),
    ):
        assert str(client("CLIENT", "KILL", *words.split())) == problem
    own = client("CLIENT", "ID")
    assert client("CLIENT", "KILL", "ID", own) == 0
    assert client("CLIENT", "KILL", "ID", own, "SKIPME", "no") == 1
    with pytest.raises((ConnectionError, EOFError)):
        client("PING")


def test_a_client_gets_no_replies_while_it_wants_none(client: Connection) -> None:
    """To all requests, or to the next one; errors neither."""
    client.send(["CLIENT", "REPLY", "OFF"], ["SET", "a", 1], ["NO", "SUCH"])
    client.send(["CLIENT", "REPLY", "SKIP"], ["GET", "a"])
    assert client("CLIENT", "REPLY", "ON") == b"OK"
    client.send(["CLIENT", "REPLY", "SKIP"], ["SET", "a", 2])
    assert client("GET", "a") == b"2"
    assert str(client("CLIENT", "REPLY", "x")) == "ERR syntax error"
    assert str(client("CLIENT", "NO-EVICT", "x")) == "ERR syntax error"
    client.send(["CLIENT", "REPLY", "OFF"])
    assert client("RESET") == b"RESET"


def test_empty_values_are_found_by_their_type(client: Connection, theirs: Connection) -> None:
    """SCAN, and all that shows a value which is empty."""
    requests: list[Request] = [
        ["SET", "empty", ""],
        ["HSET", "hash", "", ""],
        ["RPUSH", "list", ""],
        ["SADD", "set", ""],
        ["ZADD", "sorted", 0, ""],
        *[["SCAN", 0, "COUNT", 1000, "TYPE", kind] for kind in ("string", "hash", "list")],
        ["SCAN", 0, "COUNT", 1000, "MATCH", "empty"],
        ["GET", "empty"],
        ["STRLEN", "empty"],
        ["GETRANGE", "empty", 0, -1],
        ["SET", "empty", "", "GET"],
        ["SETNX", "empty", "x"],
        ["MSETNX", "empty", "x"],
        ["GETEX", "empty"],
        ["APPEND", "empty", ""],
        ["EXISTS", "empty"],
        ["OBJECT", "REFCOUNT", "empty"],
        ["COPY", "empty", "copy"],
        ["RENAMENX", "copy", "empty"],
        ["GETSET", "empty", ""],
        ["GETDEL", "copy"],
        ["HGET", "hash", ""],
        ["HSETNX", "hash", "", "x"],
        ["HSTRLEN", "hash", ""],
        ["LPOS", "list", ""],
        ["LINDEX", "list", 0],
        ["ZSCORE", "sorted", ""],
        ["ZADD", "sorted", "GT", "INCR", 0, ""],
        ["ZRANGE", "sorted", 0, -1, "WITHSCORES"],
        ["BLPOP", "list", 0],
        ["BZPOPMIN", "sorted", 0],
        ["ECHO", ""],
        ["PING", ""],
    ]
    for request in requests:
        assert repr(client(*request)) == repr(theirs(*request)), request
