"""Stores that the server of earlier versions wrote are served by this one."""

from __future__ import annotations

from pathlib import Path

import pytest

from relstate.storage import Store
from support.golden import golden_stores, unpack
from support.golden_views import REDIS
from support.redis_servers import served


def test_there_is_a_store() -> None:
    """The law below holds for some."""
    assert golden_stores("redis")


@pytest.mark.parametrize("name", golden_stores("redis"))
def test_keys_are_served_and_written(name: str, tmp_path: Path) -> None:
    """All five types, in two databases, with and without an expiry, before and after merges."""
    with Store.open(str(unpack(name, tmp_path))) as store:
        for _ in range(2):
            with served(store) as server:
                client = server.connect()
                for request, reply in REDIS.items():
                    assert client(*request) == reply, request
                assert client("TTL", "later") > 50 * 365 * 86400
                client("SELECT", 3)
                assert client("GET", "far") == b"\0"
                client("SELECT", 0)
                client("HSET", "hash", "new", "1")
                client("HDEL", "hash", "new")
                client("SET", "written", "now")
                assert client("GET", "written") == b"now"
                client.close()
            store.compact()
        assert store.check().problems == ()
