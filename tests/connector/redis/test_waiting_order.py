"""Which client is served from which key, if several keys get elements at once: as Redis does."""

from __future__ import annotations

from typing import Any

import pytest

from support.redis_servers import Connection, Request, another

_POP: Request = ["BLPOP", "key1", "key2", 0]
_CASES: dict[str, tuple[list[Request], list[Request]]] = {
    "the key that was written first": (
        [_POP],
        [["RPUSH", "key2", "b"], ["RPUSH", "key1", "a"]],
    ),
    "a key that was emptied is passed over": (
        [_POP],
        [["RPUSH", "key1", "a"], ["RPUSH", "key2", "b"], ["DEL", "key1"]],
    ),
    "a key that was emptied and written again keeps its place": (
        [_POP],
        [["RPUSH", "key1", "a"], ["RPUSH", "key2", "b"], ["DEL", "key1"], ["RPUSH", "key1", "c"]],
    ),
    "all who wait for the first key, then those of the next": (
        [["BLPOP", "key1", 0], _POP, ["BRPOP", "key2", 0]],
        [["RPUSH", "key2", "b"], ["RPUSH", "key1", "a", "c"]],
    ),
    "the longest wait first": (
        [_POP, ["BLPOP", "key2", 0]],
        [["RPUSH", "key2", "b"]],
    ),
    "sorted sets": (
        [["BZPOPMIN", "key1", "key2", 0], ["BZMPOP", 0, 2, "key1", "key2", "MAX"]],
        [["ZADD", "key2", 1, "b"], ["ZADD", "key1", 1, "a"]],
    ),
    "several elements": (
        [["BLMPOP", 0, 2, "key1", "key2", "LEFT", "COUNT", 2], _POP],
        [["RPUSH", "key2", "b", "c", "d"], ["RPUSH", "key1", "a"]],
    ),
    "what one client moves is for the next": (
        [["BLMOVE", "key1", "key3", "LEFT", "LEFT", 0], ["BLPOP", "key3", 0]],
        [["RPUSH", "key2", "b"], ["RPUSH", "key1", "a"]],
    ),
    "the same key twice": ([["BLPOP", "key1", "key1", 0]], [["RPUSH", "key1", "a"]]),
}


@pytest.mark.parametrize("case", _CASES)
def test_waiting_clients_are_served_as_redis_does(
    client: Connection, theirs: Connection, case: str
) -> None:
    """Keys in the order in which they were written, and of a key who waits longest first."""
    waits, pushes = _CASES[case]
    assert _served(client, waits, pushes) == _served(theirs, waits, pushes)


def _served(client: Connection, waits: list[Request], pushes: list[Request]) -> list[Any]:
    """Return what clients get that wait, then what is left of the keys."""
    waiters = {}
    for wait in waits:
        waiter = another(client)
        waiter.send(["CLIENT", "ID"], wait)
        waiters[waiter.reply()] = waiter
    client.pipeline([["MULTI"], *pushes, ["EXEC"]])
    blocked = _blocked(client)
    replies = [waiter.reply() for number, waiter in waiters.items() if number not in blocked]
    for waiter in waiters.values():
        waiter.close()
    return [*replies, client("EXISTS", "key1"), client("EXISTS", "key2"), client("EXISTS", "key3")]


def _blocked(client: Connection) -> set[int]:
    """Return the numbers of the clients that wait."""
    lines = client("CLIENT", "LIST").decode().splitlines()
    fields = [dict(field.split("=", 1) for field in line.split()) for line in lines]
    return {int(line["id"]) for line in fields if "b" in line["flags"]}
