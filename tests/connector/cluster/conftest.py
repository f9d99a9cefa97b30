"""Fixtures of the tests on a cluster: the cluster, and drivers in processes of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Protocol

import pytest

from support.cluster import Cluster
from support.drivers import Driver


class DriverMaker(Protocol):
    """Starts drivers in folders of their own, with settings of Spark."""

    def __call__(self, settings: dict[str, str], remote: str | None = None) -> Driver:
        """Return the driver; ``remote``: the address of the server of Spark Connect it is for."""


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A standalone cluster of two workers, started by the first test that asks for it."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def cluster_driver(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A driver of the cluster, for the tests of one file."""
    with Driver(tmp_path_factory.mktemp("driver"), cluster.settings) as driver:
        yield driver


@pytest.fixture
def make_driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DriverMaker]:
    """Start drivers, and end them when the test is over."""
    with ExitStack() as drivers:

        def make(settings: dict[str, str], remote: str | None = None) -> Driver:
            folder = tmp_path_factory.mktemp("driver")
            return drivers.enter_context(Driver(folder, settings, remote))

        yield make
