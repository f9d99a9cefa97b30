"""The rate of requests of Redis clients, beside redis-server with the same appendfsync."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from ..figure import Comparison, Figure, Samples
from ..redis_servers import Load, missing_programs, redis_server, relstate_redis
from ..turns import in_turns
from ..workbench import Workbench

_CLIENTS = 50
_PIPELINED = 16
_AGAINST = "redis-server with an append-only file and the same appendfsync"
_ASKED = {"GET": 20_000.0, "SET": 15_000.0}
"""Requests a second, pipelined under everysec."""
_LOCK = """
if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
    if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
end
return 0
"""
"""Takes a lock and releases it."""
_LOCK_ARGUMENTS = ("1", "lock:__rand_int__", "token", "10000")


def redis(bench: Workbench) -> Iterator[Figure]:
    """Measure requests a second of 50 clients: pipelined under everysec, and SET under always.

    Also EVALSHA of a lock, one by one and pipelined.

    Under always, SET one by one, and pipelined beside one by one: clients that do not wait for each
    reply share a commit. Nothing without redis-server and redis-benchmark.
    """
    missing = missing_programs()
    if missing:
        print(f"not measured: {', '.join(missing)} not installed", file=sys.stderr)
        return
    requests = max(bench.size.rows // 50, 1000)
    for kind in ("GET", "SET", "HSET", "ZADD", "LPUSH"):
        load = Load(kind, _CLIENTS, _PIPELINED, requests)
        samples = _measure(bench, load, "everysec")
        yield _figure(f"{kind}, {_PIPELINED} at once, everysec", samples)
        if kind in _ASKED:
            ours = Samples(samples.ours)
            yield Figure(
                workload="redis",
                case=f"{_CLIENTS} clients, {kind}, {_PIPELINED} at once, everysec",
                unit="requests/s",
                samples=ours,
                comparison=Comparison.RATE_ALONE,
                against="",
                asked=_ASKED[kind],
            )
    for pipelined in (1, _PIPELINED):
        load = Load("EVALSHA of a lock", _CLIENTS, pipelined, requests // 5, _LOCK, _LOCK_ARGUMENTS)
        how = "one by one" if pipelined == 1 else f"{pipelined} at once"
        yield _figure(f"{load.kind}, {how}, everysec", _measure(bench, load, "everysec"))
    single = Load("SET", _CLIENTS, 1, requests // 5)
    yield _figure("SET, one by one, always", _measure(bench, single, "always"))
    at_once = Load("SET", _CLIENTS, _PIPELINED, requests)
    samples = _measure(bench, at_once, "always", theirs=single)
    yield _figure(
        f"SET, {_PIPELINED} at once, always", samples, asked=1.0, against=f"{_AGAINST}, one by one"
    )


def _measure(bench: Workbench, load: Load, appendfsync: str, theirs: Load | None = None) -> Samples:
    """Return the rates of both servers under a load, or of redis-server under ``theirs``."""
    rival = theirs or load
    with (
        relstate_redis(bench.folder(), appendfsync) as port,
        redis_server(bench.folder(), appendfsync) as rival_port,
    ):
        return in_turns(lambda: load.rate(port), lambda: rival.rate(rival_port), bench.size.turns)


def _figure(
    case: str, samples: Samples, asked: float | None = None, against: str = _AGAINST
) -> Figure:
    return Figure(
        workload="redis",
        case=f"{_CLIENTS} clients, {case}",
        unit="requests/s",
        samples=samples,
        comparison=Comparison.RATE,
        against=against,
        asked=asked,
    )
