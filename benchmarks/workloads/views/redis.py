"""How soon a view over the keys of `relstate redis` shows what a client wrote."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import relstate
from relstate.storage import Store

from ...figure import Comparison, Figure, Samples
from ...redis_servers import relstate_redis
from ...workbench import Workbench

_USERS = "CREATE MATERIALIZED VIEW users (id STRING, age INT) USING REDIS HASH 'user:*'"
_BOARD = """CREATE MATERIALIZED VIEW board AS SELECT CAST(m AS STRING) AS member, s AS score
    FROM redis_0 LATERAL VIEW explode(scores) AS m, s WHERE type = 'zset'"""
# Each request without the number that it writes, the view that shows it, and the row.
_CASES = {
    "HSET": ("HSET user:1 age {}", "users", "age"),
    "ZADD": ("ZADD scores {} ann", "board", "score"),
}
_UNCOUNTED = 3
# Seconds between two looks at a view, and after which it is given up.
_POLL = 0.002
_PATIENCE = 120.0


def redis_view(bench: Workbench) -> Iterator[Figure]:
    """Measure from the reply to a client until a read of a followed view shows what it wrote.

    Under appendfsync always, so the reply comes after the commit.
    """
    folder = bench.folder()
    with (
        relstate_redis(folder, "always") as port,
        socket.create_connection(("127.0.0.1", port)) as client,
    ):
        _request(client, "HSET user:1 age 0")
        database = relstate.connect(bench.spark, f"{folder}/store")
        database.sql(_USERS)
        database.sql(_BOARD)
        stream = database.stream()
        try:
            for kind, (request, view, column) in _CASES.items():
                found = []
                for number in range(1, 1 + _UNCOUNTED + bench.size.batches):
                    _request(client, request.format(number))
                    found.append(_shown(database.store, view, column, number))
                yield Figure(
                    workload="view-redis",
                    case=f"one {kind}, from its reply until a view shows it",
                    unit="ms",
                    samples=Samples(tuple(found[_UNCOUNTED:])).scaled(1e3),
                    comparison=Comparison.ALONE,
                    against="",
                    asked=1000,
                )
        finally:
            stream.stop()


def _request(client: socket.socket, line: str) -> None:
    """Send an inline command and wait for its reply, which is one line."""
    client.sendall(f"{line}\r\n".encode())
    reply = b""
    while not reply.endswith(b"\r\n"):
        reply += client.recv(1024)
    assert reply.startswith(b":"), reply


def _shown(store: Store, view: str, column: str, number: int) -> float:
    """Return how many seconds it takes until the only row of a view has a number in a column."""
    start = time.perf_counter()
    while time.perf_counter() - start < _PATIENCE:
        if [row[column] for row in store.table(view).to_dicts()] == [number]:
            return time.perf_counter() - start
        time.sleep(_POLL)
    raise TimeoutError(f"{view} does not show {number} after {_PATIENCE:.0f} seconds")
