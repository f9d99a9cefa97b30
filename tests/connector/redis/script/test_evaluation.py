"""EVAL, EVALSHA and SCRIPT against Redis itself: the same scripts, the same replies."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import hiredis
import pytest

from support.redis_servers import Connection, Request, Served, another

_SCRIPTS: dict[str, list[str]] = {}
for _line in Path(__file__).with_name("scripts.lua").read_text().splitlines():
    if _line.startswith("-- "):
        _SCRIPTS[_line[3:]] = _scripts = []
    else:
        _scripts.append(_line)
_REQUESTS: list[Request] = [
    ["EVAL", "return {KEYS, ARGV}", 2, "a", "b", "c"],
    ["EVAL", "return 1", "x"],
    ["EVAL", "return 1", -1],
    ["EVAL", "return 1", 1],
    ["EVAL", "return 1"],
    ["EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", 0],
    ["EVALSHA", "E0E1F9FABFC9D4800C877A703B823AC0578FF8DB", 0],
    ["EVALSHA", "x", 0],
    ["SCRIPT", "LOAD", "return 500"],
    ["SCRIPT", "EXISTS", "e0e1f9fabfc9d4800c877a703b823ac0578ff8dd", "x"],
    ["SCRIPT", "LOAD", "return {"],
    ["SCRIPT", "FLUSH", "NOW"],
    ["SCRIPT", "FLUSH", "ASYNC"],
    ["SCRIPT", "KILL"],
    ["SCRIPT", "NOPE"],
    ["SCRIPT", "LOAD"],
    ["EVAL_RO", "return redis.call('set', 'a', 1)", 0],
    ["EVAL_RO", "return redis.call('get', 'none')", 0],
    ["EVAL", "#!lua flags=no-writes\nreturn redis.call('set', 'x', 1)", 0],
    ["EVAL", "#!lua flags=no-writes\nreturn redis.call('get', 'none')", 0],
    ["EVAL", "#!lua\nreturn redis.call('set', 'x', 1)", 0],
    ["EVAL_RO", "#!lua\nreturn 1", 0],
    ["EVAL_RO", "#!lua flags=no-writes\nreturn 1", 0],
    ["EVAL", "#!js\nreturn 1", 0],
    ["EVAL", "#!lua flags=foo\nreturn 1", 0],
    ["EVAL", "#!lua name=foo\nreturn 1", 0],
    ["EVAL", "#!lua", 0],
    ["COMMAND", "GETKEYS", "EVAL", "return 1", 2, "a", "b", "c"],
    ["COMMAND", "GETKEYS", "EVALSHA", "x", 0],
]


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("section", _SCRIPTS)
def test_scripts_reply_as_in_redis(
    client: Connection, theirs: Connection, section: str, version: int
) -> None:
    """Values, errors and what of them is seen by the protocol; the commands of a script too."""
    for connection in (client, theirs):
        connection("HELLO", version)
    for script in _SCRIPTS[section]:
        ours, expected = (
            connection("EVAL", script, 1, "k", "v") for connection in (client, theirs)
        )
        assert _shown(ours) == _shown(expected), script


def test_requests_of_scripts_are_as_in_redis(client: Connection, theirs: Connection) -> None:
    """The number of keys, the scripts that are known, flags in the first line."""
    for request in _REQUESTS:
        assert _shown(client(*request)) == _shown(theirs(*request)), request


def test_a_script_of_a_transaction_is_one_with_it(client: Connection, theirs: Connection) -> None:
    """EVAL in MULTI, and the database that a script selects is its own."""
    script = "redis.call('select', 3) redis.call('set', 'far', ARGV[1]) return redis.call('dbsize')"
    requests: list[Request] = [
        ["MULTI"],
        ["EVAL", script, 0, "x"],
        ["DBSIZE"],
        ["EXEC"],
        ["SELECT", 3],
        ["GET", "far"],
    ]
    assert client.pipeline(requests) == theirs.pipeline(requests)


def test_monitors_see_the_commands_of_scripts(client: Connection, theirs: Connection) -> None:
    """After the script, as sent by lua."""
    lines = []
    for connection in (client, theirs):
        monitor = another(connection)
        assert monitor("MONITOR") == b"OK"
        connection("EVAL", "redis.call('set', 'a', 1) return redis.call('get', 'a')", 0)
        shown = [monitor.reply().split(b" [", 1)[1] for _ in range(3)]
        lines.append([line if line[2:5] == b"lua" else line.split(b"] ")[1] for line in shown])
        monitor.close()
    assert lines[0] == lines[1]


def test_pushes_of_scripts_serve_who_waits(
    server: Served, client: Connection, theirs: Connection
) -> None:
    """Once the script has ended, in the order of its pushes."""
    replies = []
    for connection in (client, theirs):
        waiter = another(connection)
        waiter.send(["CLIENT", "ID"], ["BLPOP", "key1", "key2", 0])
        waiter.reply()
        if connection is client:
            server.wait_until(lambda: bool(server.server.service.waiting.waiters))
        while connection is theirs and b"cmd=blpop" not in connection("CLIENT", "LIST"):
            time.sleep(0.01)
        connection("EVAL", "redis.call('rpush', 'key2', 'b') redis.call('rpush', 'key1', 'a')", 0)
        replies.append(waiter.reply())
        waiter.close()
    assert replies[0] == replies[1] == [b"key2", b"b"]


def test_functions_are_refused_by_name(client: Connection) -> None:
    """FUNCTION and FCALL say what to send instead."""
    for request in (["FUNCTION", "LIST"], ["FCALL", "f", 0], ["FCALL_RO", "f", 0]):
        reply = client(*request)
        assert f"{request[0]} is not supported" in str(reply)
        assert "EVAL" in str(reply)


def _shown(reply: Any) -> Any:
    """Return a reply with errors as text, without the line: a call in ``return f()`` has none."""
    if isinstance(reply, hiredis.ReplyError):
        return re.sub(r", on @user_script:\d+\.$|(?<=^ERR )user_script:\d+: ", "", str(reply))
    if isinstance(reply, list):
        return [_shown(item) for item in reply]
    return repr(reply)
