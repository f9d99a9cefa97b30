"""Fixtures that every test may ask for."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

from relstate.connector.spark.capabilities import CLOSED_SOCKETS
from relstate.storage import Store
from support.examples import QUICK, THOROUGH, Seeds, examples
from support.places import (
    FAULTY,
    FOLDER,
    MEMORY,
    ON_SERVER,
    SERVER,
    is_elsewhere,
    path_in,
    serve_places,
)
from support.stores import StoreMaker, unsynced
from support.tiers import markers_of, recorded_durations

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark starts its Python workers by this name; they must be this interpreter.
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable


# Every JVM that the tests start lives for minutes and runs short queries: what its second compiler
# and a parallel collector would save later costs more than it brings.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

_STARTED = time.monotonic()

# How fast a machine is decides nothing: a hang is what pytest's own timeout is for.
for name, percent in (("quick", QUICK), ("thorough", THOROUGH)):
    settings.register_profile(
        name,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        print_blob=True,
        max_examples=percent,
    )
settings.load_profile("quick")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test with its tier, and put the longest first, so that no process ends late."""
    place = config.getoption("--place")
    if place != FOLDER:
        items[:] = [item for item in items if is_elsewhere(item, place)]
    durations = recorded_durations()
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        has_timeout = item.get_closest_marker("timeout") is not None
        is_random = is_hypothesis_test(getattr(item, "obj", None))
        markers = markers_of(
            item.nodeid, fixtures, durations, has_timeout=has_timeout, is_random=is_random
        )
        for marker in markers:
            item.add_marker(marker)
    items.sort(key=lambda item: -durations.get(item.nodeid, 0.0))


@pytest.fixture
def seeds() -> Seeds:
    """Return what gives the seeds of a law that asks for a number of random cases."""
    return lambda number: range(examples(number))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local Spark session of two cores, started by the first test that asks for it."""
    from pyspark.sql import SparkSession

    folder: Path = tmp_path_factory.mktemp("spark")
    settings: dict[str, Any] = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.local.dir": str(folder / "local"),
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("relstate tests")
    session = builder.config(map=settings).getOrCreate()
    yield session
    session.stop()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that would begin after the time that the run was given."""
    seconds = item.config.getoption("--seconds")
    if seconds is not None and time.monotonic() - _STARTED > seconds:
        pytest.skip(f"the {seconds:g} seconds of this run are over")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the choice of a place, and the time for a run."""
    parser.addoption(
        "--place",
        choices=[FOLDER, MEMORY, SERVER, FAULTY],
        default=FOLDER,
        help="where the tests make their stores (support/places.py)",
    )
    parser.addoption("--seconds", type=float, help="skip the tests that would begin later")


def pytest_configure(config: pytest.Config) -> None:
    """Start the server of the place, which lives as long as the run.

    Where PySpark leaves the sockets open by which it collects rows, that is no error of a test.
    """
    if not CLOSED_SOCKETS.is_in(version("pyspark")):
        config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")
    place = config.getoption("--place")
    if place in ON_SERVER:
        resources = contextlib.ExitStack()
        serve_places(place, resources)
        config.add_cleanup(resources.close)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests of a module over each of its ``STORE_PLACES``, if it names some."""
    places = getattr(metafunc.module, "STORE_PLACES", ())
    is_chosen = any(
        "place" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")
    )
    if places and "place" in metafunc.fixturenames and not is_chosen:
        metafunc.parametrize("place", places)


@pytest.fixture
def place(request: pytest.FixtureRequest) -> str:
    """Where stores are made; see `support.places`."""
    chosen: str = request.config.getoption("--place")
    return chosen


@pytest.fixture
def make_store(tmp_path: Path, place: str) -> Iterator[StoreMaker]:
    """Make stores; when the test is over, each of them must pass its check."""
    made: list[Store] = []

    def make(**options: Any) -> Store:
        path = path_in(place, tmp_path)
        made.append(Store.create(path, environment=unsynced(path), **options))
        return made[-1]

    yield make
    for store in made:
        store.close()
        with Store.open(store.path) as reopened:
            assert reopened.check().problems == ()


@pytest.fixture
def store(make_store: StoreMaker) -> Store:
    """An empty store of few vnodes, which must pass its check when the test is over."""
    return make_store(vnode_count=7, shards=3)


@pytest.fixture(params=[1, 7, 256])
def any_store(request: pytest.FixtureRequest, make_store: StoreMaker) -> Store:
    """An empty store of one vnode, of few and of as many as there are by default."""
    return make_store(vnode_count=request.param)
