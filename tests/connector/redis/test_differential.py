"""`relstate redis` against Redis itself: the same commands, the same replies."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hiredis
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relstate.storage import Store
from support.clock import ManualClock
from support.commits import quick_environment
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
from support.redis_servers import (
    REDIS_SERVER,
    Connection,
    Served,
    another,
    real_redis,
    served,
)

pytestmark = pytest.mark.skipif(REDIS_SERVER is None, reason="redis-server is not on PATH")

# Replies in an order that Redis does not promise.
_UNORDERED = {
    b"KEYS", b"HKEYS", b"HVALS", b"SMEMBERS", b"SINTER", b"SUNION", b"SDIFF", b"SPOP",
    b"SRANDMEMBER",
}  # fmt: skip
_PAIRED = {b"HGETALL"}
_SCANS = {b"SCAN", b"HSCAN", b"SSCAN", b"ZSCAN"}
_MOMENT = 0.002
_FORGET, _WAIT = (b"forget",), (b"wait",)
_LOOK: dict[bytes, Words] = {
    b"string": (b"GET",),
    b"hash": (b"HGETALL",),
    b"set": (b"SMEMBERS",),
    b"zset": (b"ZRANGE", b"0", b"-1", b"WITHSCORES"),
    b"list": (b"LRANGE", b"0", b"-1"),
}


class Pair:
    """Both servers, and the clock of one of them."""

    def __init__(self, ours: Served, theirs: Connection, clock: ManualClock) -> None:
        self.server = ours
        self.ours = ours.connect()
        self.theirs = theirs
        self.clock = clock
        self._last_step = time.monotonic()

    def run(self, steps: list[Words]) -> None:
        """Send each step to both servers, and compare the replies."""
        for step in steps:
            if step == _FORGET:
                self.server.forget()
            elif step == _WAIT:
                self.wait(30)
            else:
                # Two times to live of one length that are set one after another never end at once.
                time.sleep(_MOMENT)
                self._follow_time()
                assert normal(step, self.ours(*step)) == normal(step, self.theirs(*step)), step

    def _follow_time(self) -> None:
        """Let as much time pass for one server as has passed for the other."""
        previous, self._last_step = self._last_step, time.monotonic()
        self.clock.advance(self._last_step - previous)

    def wait(self, seconds: int) -> None:
        """Let time pass. Redis has no clock to set, so its keys get less time to live."""
        self.clock.advance(seconds)
        for number in (1, 0):
            self.theirs("SELECT", number)
            for key in self.theirs("KEYS", "*"):
                left = self.theirs("PTTL", key)
                if left >= 0:
                    self.theirs("PEXPIRE", key, left - seconds * 1000)

    def look(self) -> list[Words]:
        """Return commands that show what is at all keys."""
        looks: list[Words] = []
        for key in KEYS:
            kind = self.theirs("TYPE", key)
            looks += [(b"TYPE", key), (b"TTL", key)]
            if kind != b"none":
                name, *rest = _LOOK[kind]
                looks.append((name, key, *rest))
        return looks


def normal(request: Words, reply: Any) -> Any:
    """Return a reply without what Redis does not promise."""
    name = request[0].upper()
    if isinstance(reply, hiredis.ReplyError):
        return str(reply)
    if name in _SCANS and isinstance(reply, list):
        is_paired = name in (b"HSCAN", b"ZSCAN")
        return reply[0], normal((b"HGETALL" if is_paired else b"KEYS",), reply[1])
    if name in _PAIRED and isinstance(reply, list):
        return sorted(zip(reply[::2], reply[1::2], strict=True))
    if name in _UNORDERED and isinstance(reply, list):
        return sorted(reply)
    if name == b"EXPIRETIME" and isinstance(reply, int) and reply > 0:
        return "a time"
    if name == b"TTL" and isinstance(reply, int) and reply > 0:
        return -(-reply // 10)  # the one may be asked a moment after the other
    if isinstance(reply, list):
        return [normal((b"",), item) for item in reply]
    return reply


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both servers, the same for all tests."""
    folder: Path = tmp_path_factory.mktemp("redis")
    clock = ManualClock()
    path = str(folder / "store")
    environment = quick_environment(path, clock)
    with (
        Store.create(path, vnode_count=4, shards=2, environment=environment) as store,
        real_redis(folder) as theirs,
    ):
        with served(store) as ours:
            yield Pair(ours, theirs, clock)
        assert store.check().problems == ()


def law(text: str, *others: str) -> st.SearchStrategy[list[Words]]:
    """Return sequences of commands, most of them of one text.

    Among them are times at which memory is forgotten or time passes.
    """
    own, other, pause = commands(text), commands(*others), st.sampled_from([_FORGET, _WAIT])
    step = st.one_of(own, own, own, own, own, own, other, other, pause)
    return st.lists(step, min_size=10, max_size=60)


def check(pair: Pair, steps: list[Words]) -> None:
    """Run a sequence on empty servers, then look at all keys, in memory and in the tables."""
    pair.run([(b"SELECT", b"0"), (b"FLUSHALL",), *steps])
    pair.run(pair.look())
    pair.run([_FORGET, *pair.look()])


@given(steps=st.lists(commands(STRINGS, HASHES, LISTS), max_size=30))
@settings(max_examples=examples(20), suppress_health_check=list(HealthCheck))
def test_monitors_see_what_those_of_redis_see(pair: Pair, steps: list[Words]) -> None:
    """The same requests in the same order, of those that were run."""
    end: Words = (b"ECHO", b"end")
    pair.run([(b"FLUSHALL",)])
    theirs = another(pair.theirs)
    ours = pair.server.connect()
    for monitor in (ours, theirs):
        assert monitor("MONITOR") == b"OK"
    pair.run([*steps, end])

    shown: list[list[bytes]] = []
    for monitor in (ours, theirs):
        lines: list[bytes] = []
        while not lines or lines[-1] != b'"ECHO" "end"':
            lines.append(monitor.reply().split(b"] ", 1)[1])
        shown.append(lines)
        monitor.close()
    assert shown[0] == shown[1]


@given(steps=law(STRINGS, GENERAL))
@settings(max_examples=examples(40), suppress_health_check=list(HealthCheck))
def test_strings_and_keys_are_as_in_redis(pair: Pair, steps: list[Words]) -> None:
    """Every reply is the same, errors too, whether values come from memory or from the table."""
    check(pair, steps)


@given(steps=law(HASHES, STRINGS, GENERAL))
@settings(max_examples=examples(40), suppress_health_check=list(HealthCheck))
def test_hashes_are_as_in_redis(pair: Pair, steps: list[Words]) -> None:
    """Among strings, which have the wrong type."""
    check(pair, steps)


@given(steps=law(SETS, STRINGS, GENERAL))
@settings(max_examples=examples(40), suppress_health_check=list(HealthCheck))
def test_sets_are_as_in_redis(pair: Pair, steps: list[Words]) -> None:
    """Emptied ones vanish, and results are stored in place of anything."""
    check(pair, steps)


@given(steps=law(SORTED_SETS, STRINGS, GENERAL))
@settings(max_examples=examples(40), suppress_health_check=list(HealthCheck))
def test_sorted_sets_are_as_in_redis(pair: Pair, steps: list[Words]) -> None:
    """Their order, all kinds of ranges, and combinations with sets."""
    check(pair, steps)


@given(steps=law(LISTS, STRINGS, GENERAL))
@settings(max_examples=examples(40), suppress_health_check=list(HealthCheck))
def test_lists_are_as_in_redis(pair: Pair, steps: list[Words]) -> None:
    """From both ends, and within."""
    check(pair, steps)
