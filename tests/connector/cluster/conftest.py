"""Fixtures of the tests on a cluster: the cluster, a bucket, and drivers in their own processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest

from relstate.storage import Location
from support.cluster import Cluster, on_demand
from support.drivers import Driver
from support.object_stores import s3_options, s3_server
from support.places import FOLDER, SERVER, path_in, variables_of


class DriverMaker(Protocol):
    """Starts drivers in folders of their own, with settings of Spark."""

    def __call__(self, settings: dict[str, str], remote: str | None = None) -> Driver:
        """Return the driver; ``remote``: the address of the server of Spark Connect it is for."""


@pytest.fixture(scope="session")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The storage options of a server of S3, for this process and its cache."""
    folder = tmp_path_factory.mktemp("bucket")
    with s3_server(folder) as endpoint:
        yield s3_options(endpoint, folder / "cache")


@pytest.fixture(scope="session")
def variables(bucket: dict[str, str]) -> dict[str, str]:
    """What the environment of drivers and workers has so that they find the bucket's server."""
    return variables_of(bucket)


@pytest.fixture(scope="session")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, variables: dict[str, str]
) -> Iterator[Cluster]:
    """A standalone cluster of two workers, started by the first test that asks for it."""
    with Cluster(tmp_path_factory.mktemp("cluster"), variables) as cluster:
        yield cluster


@pytest.fixture(params=[SERVER, pytest.param(FOLDER, marks=on_demand)])
def store_path(
    request: pytest.FixtureRequest, tmp_path: Path, bucket: dict[str, str]
) -> str | Location:
    """The path of a store to be made: in a bucket, or on demand in a folder that all share.

    Drivers are given its text, and find the server by their environment.
    """
    path = path_in(request.param, tmp_path)
    return path if request.param == FOLDER else Location(path, bucket)


@pytest.fixture(scope="module")
def cluster_driver(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory, variables: dict[str, str]
) -> Iterator[Driver]:
    """A driver of the cluster, for the tests of one file."""
    folder = tmp_path_factory.mktemp("driver")
    with Driver(folder, cluster.settings, variables=variables) as driver:
        yield driver


@pytest.fixture
def make_driver(
    tmp_path_factory: pytest.TempPathFactory, variables: dict[str, str]
) -> Iterator[DriverMaker]:
    """Start drivers, and end them when the test is over."""
    with ExitStack() as drivers:

        def make(settings: dict[str, str], remote: str | None = None) -> Driver:
            folder = tmp_path_factory.mktemp("driver")
            return drivers.enter_context(Driver(folder, settings, remote, variables))

        yield make
