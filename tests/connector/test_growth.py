"""A driver that lives long keeps no more for each epoch that its streams have followed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import LongType, StructType

import relstate
from relstate.connector.source.datasource import RelstateDataSource
from relstate.connector.source.stream import ChangeStreamReader
from relstate.storage import Store
from support.growth import check_no_growth

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Slow by it: some 1,500 commits.
pytestmark = [pytest.mark.timeout(1800), pytest.mark.long]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store whose epochs can be read for a second."""
    with relstate.create(str(tmp_path / "store"), retention=1) as store:
        store.create_table("t", "k BIGINT, g BIGINT, v BIGINT", primary_key=["k"])
        yield store
        assert store.check().problems == ()


def write(store: Store) -> None:
    """Commit a row."""
    epoch = store.epoch
    store.write("t", [{"k": epoch % 50, "g": epoch % 5, "v": epoch}])


def test_a_stream_of_views_does_not_grow(spark: SparkSession, store: Store) -> None:
    """Two views, one of the other, are refreshed after each commit."""
    db = relstate.connect(spark, store.path)
    db.sql(
        "CREATE MATERIALIZED VIEW sums AS SELECT g, sum(v) AS s, count(*) AS n FROM t GROUP BY g"
    )
    db.sql("CREATE MATERIALIZED VIEW large AS SELECT g, s + 1 AS s FROM sums WHERE n > 1")
    stream = db.stream()

    def step() -> None:
        write(store)
        stream.processAllAvailable()

    check_no_growth(step, lambda: store.epoch, lambda: store.vacuum(0))
    stream.stop()


def test_a_stream_of_changes_does_not_grow(store: Store) -> None:
    """What Spark calls for each micro-batch: the offsets, and the parts, which are read here."""
    # The first micro-batch has the rows that are there.
    write(store)
    schema = StructType().add("k", LongType()).add("v", LongType())
    options = {"path": store.path, "table": "t", "readChangeFeed": "true"}
    reader = RelstateDataSource(options).streamReader(schema)
    assert isinstance(reader, ChangeStreamReader)
    reached = reader.initialOffset()

    def step() -> None:
        nonlocal reached
        write(store)
        offset = reader.latestOffset(reached, reader.getDefaultReadLimit())
        parts = reader.partitions(reached, offset)
        assert sum(batch.num_rows for part in parts for batch in reader.read(part)) > 0
        reader.reportLatestOffset()
        reached = offset

    check_no_growth(step, lambda: store.epoch, lambda: store.vacuum(0))
    reader.stop()
