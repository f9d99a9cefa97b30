"""Ranges by index, rank and offset: every start and end, against Redis itself."""

from __future__ import annotations

import pytest

from support.redis_commands import Words
from support.redis_servers import Connection

_LENGTHS = (0, 1, 3, 5, 10)
_LARGEST = (1 << 63) - 1
_READS = """
    ZRANGE sorted START STOP | ZRANGE sorted START STOP REV | ZRANGE sorted START STOP WITHSCORES
    ZRANGE sorted START STOP REV WITHSCORES | ZREVRANGE sorted START STOP
    ZREVRANGE sorted START STOP WITHSCORES | ZRANGE sorted (START STOP BYSCORE
    ZRANGE sorted STOP START BYSCORE REV | ZRANGEBYSCORE sorted START (STOP
    ZREVRANGEBYSCORE sorted STOP START | ZCOUNT sorted START STOP
    ZRANGE sorted -inf +inf BYSCORE LIMIT START STOP | ZRANGE sorted + - BYLEX REV LIMIT START STOP
    ZRANGEBYSCORE sorted -inf 3 LIMIT START STOP | ZREVRANGEBYLEX sorted + [c LIMIT START STOP
    LRANGE list START STOP | GETRANGE string START STOP | SUBSTR string START STOP
"""
_WRITES = """
    ZREMRANGEBYRANK sorted START STOP | ZRANGESTORE stored sorted START STOP
    ZRANGESTORE stored sorted START STOP REV | ZREMRANGEBYSCORE sorted START STOP
    ZRANGESTORE stored sorted -inf +inf BYSCORE LIMIT START STOP | LTRIM list START STOP
"""
_SINGLE = "LINDEX list START | LSET list START x | LPOS list b RANK START COUNT 0"


@pytest.mark.parametrize("length", _LENGTHS)
def test_every_range_is_that_of_redis(client: Connection, theirs: Connection, length: int) -> None:
    """Whatever the ends, also where both are beyond the same end of the value."""
    ends = [*range(-length - 3, length + 4), -_LARGEST - 1, _LARGEST]
    fill = _fill(length)
    requests = [*fill, *_requests(_READS, ends, ends), *_requests(_SINGLE, ends, [0])]
    for changing in _requests(_WRITES, _edges(length), _edges(length)):
        requests += [*fill, changing, (b"ZRANGE", b"sorted", b"0", b"-1", b"WITHSCORES")]
        requests += [(b"ZRANGE", b"stored", b"0", b"-1"), (b"LRANGE", b"list", b"0", b"-1")]

    for request, reply, expected in zip(
        requests, client.pipeline(requests), theirs.pipeline(requests), strict=True
    ):
        assert repr(reply) == repr(expected), request


def test_ranges_beyond_a_sorted_set_are_empty(client: Connection) -> None:
    """Trimming a board to its best hundred removes nobody from one of sixty."""
    members = [word for rank in range(60) for word in (rank, f"player{rank}")]
    client("ZADD", "board", *members)

    assert client("ZREMRANGEBYRANK", "board", 0, -101) == 0
    assert client("ZREVRANGE", "board", 60, 69) == []
    assert client("ZRANGESTORE", "other", "board", -70, -61) == 0
    assert client("ZCARD", "board") == 60


def _fill(length: int) -> list[Words]:
    """Return requests that make a string, a list and a sorted set of a length, and nothing else."""
    letters = [b"%c" % (ord("a") + index) for index in range(length)]
    requests: list[Words] = [(b"FLUSHALL",)]
    if letters:
        scored = [word for index, letter in enumerate(letters) for word in (b"%d" % index, letter)]
        requests += [
            (b"SET", b"string", b"".join(letters)),
            (b"RPUSH", b"list", *letters),
            (b"ZADD", b"sorted", *scored),
        ]
    return requests


def _edges(length: int) -> list[int]:
    """Return the ends at which replies change."""
    return sorted({-length - 1, -length, 1 - length, -1, 0, 1, length - 1, length, _LARGEST})


def _requests(templates: str, starts: list[int], stops: list[int]) -> list[Words]:
    """Return each template with each start and stop."""
    return [
        tuple(
            word.replace("START", str(start)).replace("STOP", str(stop)).encode()
            for word in template.split()
        )
        for line in templates.strip().splitlines()
        for template in line.split("|")
        for start in starts
        for stop in stops
    ]
