"""Scripts that are ended: in time, within memory, and without a trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hiredis
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relstate.connector.redis.keyspace import ABSENT_BYTES
from relstate.storage import Store
from support.examples import examples
from support.redis_commands import (
    GENERAL,
    HASHES,
    KEYS,
    LISTS,
    SETS,
    SORTED_SETS,
    STRINGS,
    Words,
    commands,
)
from support.redis_servers import Connection, Served, served

_WAIT = "while true do end"
_NOT_STOPPED = {
    "by pcall": "while true do pcall(function() while true do end end) end",
    "by xpcall": "while true do xpcall(function() while true do end end, function() end) end",
    "by a coroutine": "while true do coroutine.wrap(function() while true do end end)() end",
    "by coroutines in pcall": """
        local function go_on() while true do end end
        while true do pcall(function() coroutine.resume(coroutine.create(go_on)) end) end""",
    "by many commands": "while true do redis.pcall('get', 'none') end",
    "by a metamethod": """
        local t = setmetatable({}, {__index = function(t, k) return t[k] end})
        while true do pcall(function() return t.x end) end""",
    "by code that it loads": "while true do pcall(loadstring('while true do end')) end",
    "by a sort": """
        while true do pcall(table.sort, {1, 2, 3}, function() while true do end end) end""",
}
_TOO_LARGE = {
    "a string": "local s = 'x' while true do s = s .. s end",
    "a repetition": "return #string.rep('x', 1e9)",
    "a table": "local t = {} while true do t[#t + 1] = {} end",
    "replies": "local t = {} while true do t[#t + 1] = redis.call('get', 'large') end",
    "lists": "local t = {} while true do t[#t + 1] = redis.call('lrange', 'list', 0, -1) end",
    "JSON": "local t = {1} for i = 1, 40 do t = {t, t} end return cjson.encode(t)",
    "MessagePack": "local t = {1} for i = 1, 15 do t = {t, t, t, t} end return cmsgpack.pack(t)",
    "coroutines": "local t = {} while true do t[#t + 1] = coroutine.create(function() end) end",
    "held by pcall": """
        local t = {}
        while true do
            pcall(function() while true do t[#t + 1] = redis.call('get', 'large') .. #t end end)
        end""",
    "a reply": "local t = {1} for i = 1, 30 do t = {t, t} end return t",
}


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server whose scripts may take little memory."""
    folder: Path = tmp_path_factory.mktemp("scripts")
    with (
        Store.create(str(folder / "store"), vnode_count=3, shards=2) as store,
        served(store) as server,
    ):
        server.server.service.scripts.most_bytes = 8 << 20
        yield server


def endless(server: Served, script: str) -> Any:
    """Return the reply of a script that does not end, which has little time.

    Others have all the time that scripts have: how fast the machine is decides nothing.
    """
    scripts, client = server.server.service.scripts, server.connect()
    most_seconds, scripts.most_seconds = scripts.most_seconds, 0.02
    try:
        return client("EVAL", script, 0)
    finally:
        scripts.most_seconds = most_seconds
        client.close()


@pytest.mark.parametrize("how", _NOT_STOPPED)
def test_a_script_cannot_go_on_for_ever(long: Served, how: str) -> None:
    """It is ended with an error, and the next is served."""
    assert "out of time" in str(endless(long, _NOT_STOPPED[how]))
    assert long.connect()("EVAL", "return 1", 0) == 1


@pytest.mark.parametrize("what", _TOO_LARGE)
def test_a_script_cannot_take_all_memory(long: Served, what: str) -> None:
    """It gets an error, whatever it fills memory with, and the next has room again."""
    client = long.connect()
    client("SET", "large", "x" * 100_000)
    client("DEL", "list")
    client("RPUSH", "list", *map(str, range(1000)))
    reply = client("EVAL", _TOO_LARGE[what], 0)
    assert isinstance(reply, hiredis.ReplyError), what
    assert client("EVAL", "return #string.rep('x', 1000000)", 0) == 1_000_000


def test_scripts_do_not_see_each_other(long: Served) -> None:
    """What one leaves in memory, the next does not find."""
    client = long.connect()
    for script in (
        "x = 1",
        "rawset(_G, 'x', 1)",
        "string.x = 1",
        "rawset(string, 'x', 1)",
        "table.insert(string, 1)",
        "getmetatable('').__index = {}",
        "getmetatable('').x = 1",
        "setmetatable(_G, nil)",
        "getmetatable(_G).__index = 1",
        "redis.call = nil",
        "cjson.null = 1",
        "_G._G = nil",
        "loadstring('x = 1')()",
        "for name, value in pairs(_G) do if type(value) == 'table' then value.x = 1 end end",
    ):
        assert isinstance(client("EVAL", script, 0), hiredis.ReplyError), script
    assert client("EVAL", "return {#string, ('x'):rep(2), type(redis.call)}", 0) == [
        0,
        b"xx",
        b"function",
    ]


def test_scripts_reach_nothing_but_lua(long: Served) -> None:
    """No value of Python, no library of the machine, no compiled code."""
    script = """
        local seen, names = {}, {}
        local function visit(value, name)
            if seen[value] then return end
            seen[value] = true
            local kind = type(value)
            if kind == 'userdata' or kind == 'thread' then names[#names + 1] = name end
            if type(value) ~= 'table' then return end
            for key, item in pairs(value) do visit(item, name .. '.' .. tostring(key)) end
            local metatable = getmetatable(value)
            if metatable then visit(metatable, name .. '.metatable') end
        end
        visit(_G, '_G')
        table.sort(names)
        return names"""
    client = long.connect()
    assert client("EVAL", script, 0) == [b"_G.cjson.null"]
    assert client("EVAL", "return loadstring('\\27Lua')", 0) is None
    assert client("EVAL", "return string.dump == nil", 0) == 1
    assert "not allowed" in str(client("EVAL", b"\x1bLuaQ", 0))


def test_what_a_script_wrote_before_an_error_stays(long: Served) -> None:
    """As in Redis: an error is not a limit."""
    client = long.connect()
    client("EVAL", "redis.call('set', 'before', 1) error('x')", 0)
    assert client("GET", "before") == b"1"


def test_a_script_that_was_ended_published_nothing_and_wakes_nobody(long: Served) -> None:
    """Who waits for a key that it wrote goes on waiting."""
    client, waiter = long.connect(), long.connect()
    waiter.send(["BLPOP", "queue", 0])
    long.wait_until(lambda: bool(long.server.service.waiting.waiters))
    endless(long, f"redis.call('rpush', 'queue', 'a') {_WAIT}")
    client("RPUSH", "queue", "b")
    assert waiter.reply() == [b"queue", b"b"]


@given(
    before=st.lists(commands(STRINGS, HASHES, SETS, SORTED_SETS, LISTS, GENERAL), max_size=20),
    within=st.lists(commands(STRINGS, HASHES, SETS, SORTED_SETS, LISTS, GENERAL), max_size=20),
    forgets=st.booleans(),
)
@settings(max_examples=examples(30), suppress_health_check=list(HealthCheck), deadline=None)
def test_a_script_that_is_ended_changes_nothing(
    long: Served, before: list[Words], within: list[Words], forgets: bool
) -> None:
    """Whatever it wrote: the same values, expiries, counts, in memory and in the tables."""
    client = long.connect()
    client("SELECT", 0)
    client.pipeline([["FLUSHALL"], *before, ["SELECT", 0], ["DBSIZE"]])
    if forgets:
        long.forget()
    state = _state(client)
    calls = "".join(f"redis.pcall({_arguments(words)}) " for words in within)
    assert "nothing was changed" in str(endless(long, calls + _WAIT))
    keyspace = long.server.service.keyspace
    assert _state(client) == state
    assert long.run(lambda: keyspace.memory) == long.run(
        lambda: sum(
            ABSENT_BYTES if value is None else value.size for value in keyspace._values.values()
        )
    )
    long.forget()
    assert _state(client) == state
    client.close()


def _arguments(words: Words) -> str:
    return ", ".join("'" + "".join(f"\\{byte:03}" for byte in word) + "'" for word in words)


def _state(client: Connection) -> list[Any]:
    """Return all that clients see of the keys."""
    shown: list[Any] = []
    for number in (0, 1):
        client("SELECT", number)
        shown.append(client("DBSIZE"))
        for key in KEYS:
            kind = client("TYPE", key)
            shown.append((kind, client("PEXPIRETIME", key)))
            looks: dict[bytes, list[Any]] = {
                b"string": ["GET", key],
                b"hash": ["HGETALL", key],
                b"set": ["SMEMBERS", key],
                b"zset": ["ZRANGE", key, 0, -1, "WITHSCORES"],
                b"list": ["LRANGE", key, 0, -1],
            }
            reply = client(*looks.get(kind, ["EXISTS", key]))
            shown.append(sorted(reply) if kind in (b"hash", b"set") else reply)
    client("SELECT", 0)
    return shown
