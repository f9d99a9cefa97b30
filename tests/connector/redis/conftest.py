"""Servers over small stores, and clients of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from relstate.storage import Store
from support.clock import ManualClock
from support.commits import quick_environment
from support.redis_servers import REDIS_SERVER, Connection, Served, real_redis, served


@pytest.fixture
def clock() -> ManualClock:
    """The clock of the store."""
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    """A store whose time is the clock's."""
    path = str(tmp_path / "store")
    environment = quick_environment(path, clock)
    with Store.create(path, vnode_count=3, shards=2, environment=environment) as store:
        yield store
        assert store.check().problems == ()


@pytest.fixture
def server(store: Store) -> Iterator[Served]:
    """A server over the store, in this process."""
    with served(store) as server:
        yield server


@pytest.fixture
def client(server: Served) -> Iterator[Connection]:
    """A client of the server."""
    client = server.connect()
    yield client
    client.close()


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[Connection]:
    """A client of Redis itself."""
    if REDIS_SERVER is None:
        pytest.skip("redis-server is not on PATH")
    with real_redis(tmp_path) as client:
        yield client
