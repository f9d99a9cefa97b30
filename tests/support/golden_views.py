"""The golden stores that need Spark or the server of Redis: how each is written, what is in it."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from relstate.storage import Store
from support.catalogue import CATALOGUE, RECOMPUTED, RECURSIVE
from support.clock import ManualClock
from support.commits import quick_environment
from support.moving import Moving
from support.redis_servers import served

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KNOWN = CATALOGUE | RECURSIVE | RECOMPUTED
VIEWS = {
    name: _KNOWN[name]
    for name in (
        "exploded",
        "values",
        "distincts",
        "extremes",
        "left",
        "full",
        "anti",
        "rangeleft",
        "asof",
        "top",
        "grouptop",
        "lists",
        "around",
        "running",
        "session",
        "recursive",
        "shared",
        "union",
    )
} | {
    "recent": "SELECT k, ts FROM t WHERE ts > now() - INTERVAL 1 DAY",
    "level": "SELECT * FROM top",
}
"""One view for each operator and executor, one over a view, one of an operator without state."""


def write_views(path: Path, spark: SparkSession) -> None:
    """Write views of every executor that have followed changes."""
    from relstate.connector.sql import Database

    environment = quick_environment(path, ManualClock())
    with Store.create(str(path), vnode_count=4, shards=1, environment=environment) as store:
        moving = Moving(store, Random(1))
        while min(map(len, moving.rows.values())) < 3:
            moving.step()
        db = Database(spark, store)
        for name, query in VIEWS.items():
            db.sql(f"CREATE MATERIALIZED VIEW `{name}` AS {query}")
        moving.step()
        db.refresh()


REDIS: dict[tuple[Any, ...], Any] = {
    ("GET", "text"): b"x",
    ("HGETALL", "hash"): [b"f", b"1", b"g", b"2"],
    ("SMEMBERS", "set"): [b"a"],
    ("ZRANGE", "sorted", 0, -1, "WITHSCORES"): [b"b", b"-inf", b"a", b"2"],
    ("LRANGE", "list", 0, -1): [b"a", b"b", b"c"],
    ("EXISTS", "gone"): 0,
    ("TTL", "text"): -1,
}
"""Requests, and what the server replies to them over the golden store."""


def write_redis(path: Path) -> None:
    """Write keys of all five types, some of them with an expiry, removed or in another database."""
    environment = quick_environment(path, ManualClock())
    with (
        Store.create(str(path), vnode_count=3, shards=2, environment=environment) as store,
        served(store) as server,
    ):
        client = server.connect()
        for request in (
            ("SET", "text", "x"),
            ("HSET", "hash", "f", "1", "g", "2", "h", "3"),
            ("HDEL", "hash", "h"),
            ("SADD", "set", "a"),
            ("ZADD", "sorted", 2, "a", "-inf", "b"),
            ("RPUSH", "list", "b", "c"),
            ("LPUSH", "list", "a"),
            ("SET", "later", "y", "EX", 100 * 365 * 86400),
            ("SET", "gone", "z"),
            ("DEL", "gone"),
            ("SELECT", 3),
            ("SET", "far", "\0"),
        ):
            client(*request)
        client.close()
