"""Fixtures of the log's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from relstate.storage.local_environment import LocalEnvironment
from relstate.storage.log.log import Log
from relstate.storage.log.state import StoreState
from support.clock import ManualClock
from support.commits import new_store, quick_environment


@pytest.fixture
def environment(tmp_path: Path) -> LocalEnvironment:
    """An environment whose store's folder does not exist yet."""
    return quick_environment(tmp_path / "store")


@pytest.fixture
def clock() -> ManualClock:
    """The clock of `store`."""
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> tuple[Log, StoreState]:
    """A store with the tables orders (id 1, epoch 2) and items (id 2, epoch 3)."""
    environment = quick_environment(tmp_path / "store", clock)
    return new_store(environment, "orders", "items")
