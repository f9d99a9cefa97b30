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


def redis(bench: Workbench) -> Iterator[Figure]:
    """Measure requests a second of 50 clients: pipelined under everysec, one by one under always.

    Nothing without redis-server and redis-benchmark.
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
    samples = _measure(bench, Load("SET", _CLIENTS, 1, requests // 5), "always")
    yield _figure("SET, one by one, always", samples, asked=1.0)


def _measure(bench: Workbench, load: Load, appendfsync: str) -> Samples:
    with (
        relstate_redis(bench.folder(), appendfsync) as ours,
        redis_server(bench.folder(), appendfsync) as theirs,
    ):
        return in_turns(lambda: load.rate(ours), lambda: load.rate(theirs), bench.size.turns)


def _figure(case: str, samples: Samples, asked: float | None = None) -> Figure:
    return Figure(
        workload="redis",
        case=f"{_CLIENTS} clients, {case}",
        unit="requests/s",
        samples=samples,
        comparison=Comparison.RATE,
        against=_AGAINST,
        asked=asked,
    )
