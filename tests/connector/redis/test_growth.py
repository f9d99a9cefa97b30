"""A server that lives long keeps no more for each commit that it has made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from relstate.connector.redis.settings import Settings
from relstate.storage import Store
from support.clock import ManualClock
from support.commits import quick_environment
from support.growth import RETENTION, check_no_growth
from support.redis_servers import served

# Slow by it: some 1,500 commits.
pytestmark = [pytest.mark.timeout(900), pytest.mark.long]


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    """A store whose epochs can be read for a short time."""
    path = str(tmp_path / "store")
    environment = quick_environment(path, clock)
    with Store.create(
        path, vnode_count=3, shards=2, retention=RETENTION, environment=environment
    ) as store:
        yield store
        assert store.check().problems == ()


def test_a_server_does_not_grow(store: Store, clock: ManualClock) -> None:
    """It sets keys, some of which expire, and reads them; each reply waits for a commit."""
    with served(store, Settings(appendfsync="always")) as server:
        client = server.connect()
        number = 0

        def step() -> None:
            nonlocal number
            number += 1
            key = number % 50
            assert client("SET", f"k{key}", number, "EX", 30) == b"OK"
            assert client("HSET", f"h{key}", "field", number) in (0, 1)
            assert client("GET", f"k{key}") == str(number).encode()
            clock.advance(1)

        check_no_growth(step, lambda: store.epoch, store.vacuum)
        client.close()
