"""The law that ``db`` does over Spark Connect what it does elsewhere, or refuses it by a sentence.

One server, which the client starts as ``remote("local[2]")`` does, serves all tests of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from relstate.storage import Store
from support import connect_life
from support.drivers import Driver

pytest.importorskip("grpc", reason='Spark Connect needs pip install "pyspark[connect]"')

_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


@pytest.fixture(scope="module")
def cluster_driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A client of a server of its own."""
    with Driver(tmp_path_factory.mktemp("connect"), _SETTINGS, "local[2]") as driver:
        yield driver


@pytest.fixture(scope="module")
def path(cluster_driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store that statements have filled, which also are compared."""
    path = str(tmp_path_factory.mktemp("stores") / "store")
    cluster_driver.run(connect_life.statements, path)
    return path


def test_views_are_kept_over_connect(cluster_driver: Driver, path: str) -> None:
    """They are created, refreshed, followed and checked; one is of a result of db.sql."""
    cluster_driver.run(connect_life.keep_views, path)
    with Store.open(path) as store:
        assert store.check().problems == ()


def test_views_keep_the_settings_of_their_session_over_connect(
    cluster_driver: Driver, path: str
) -> None:
    """They give the rows of their SELECT there, also when refreshed under others."""
    cluster_driver.run(connect_life.keep_settings, path)


def test_changes_are_applied_over_connect(
    cluster_driver: Driver, path: str, tmp_path: Path
) -> None:
    """As batches, as streams, with history, and from events of Debezium."""
    cluster_driver.run(connect_life.apply_all, path, str(tmp_path))


def test_micro_batches_are_written_over_connect(
    cluster_driver: Driver, path: str, tmp_path: Path
) -> None:
    """By foreachBatch, each once, also where its stream starts again."""
    cluster_driver.run(connect_life.write_stream, path, str(tmp_path))


def test_what_connect_cannot_do_is_refused_by_one_sentence(
    cluster_driver: Driver, path: str
) -> None:
    """It says what is missing and what to write; nothing of Spark's traces is in it."""
    sentences = cluster_driver.run(connect_life.refusals, path)
    view, writer, changes, null, unknown = sentences
    assert "is not itself a result of db.sql" in view
    assert "txn_app_id is missing" in writer
    assert changes == writer
    assert "the primary key column 'id' is NULL" in null
    assert "nowhere" in unknown
    assert not any("\n" in sentence or "Traceback" in sentence for sentence in sentences)
