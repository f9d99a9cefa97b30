"""The laws of the streaming sink."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException

from relstate.storage import Store
from support.spark import customers, load

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class Feed:
    """A folder of JSON files, read as a stream with one micro-batch per file."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._files = 0
        folder.mkdir()

    def add(self, *rows: tuple[int, str | None]) -> None:
        """Add a file with some rows."""
        lines = [json.dumps({"id": key, "customer": customer}) for key, customer in rows]
        file = self._folder / f"{self._files}.json"
        file.write_text("\n".join(lines))
        # Spark takes the oldest first.
        os.utime(file, (self._files, self._files))
        self._files += 1

    def read(self) -> DataFrame:
        """Return the stream."""
        reader = self._spark.readStream.schema("id BIGINT, customer STRING")
        return reader.option("maxFilesPerTrigger", 1).json(str(self._folder))


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> Feed:
    """A feed of two files: two rows, and one row that replaces the second."""
    feed = Feed(spark, tmp_path / "feed")
    feed.add((1, "ann"), (2, "bob"))
    feed.add((2, "eve"), (3, "joe"))
    return feed


def sink(stream: DataFrame, store: Store, checkpoint: Path, **options: Any) -> DataStreamWriter:
    """Return a writer that writes to the table of orders what there is, and ends."""
    writer = stream.writeStream.format("relstate").option("path", store.path)
    writer = writer.option("table", "orders").options(**options)
    return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)


def run(writer: DataStreamWriter) -> StreamingQuery:
    """Run a query to its end."""
    query = writer.start()
    query.awaitTermination()
    return query


def forget_last_commit(checkpoint: Path) -> None:
    """Let Spark forget that it finished the last micro-batch, as if it had died just before."""
    commits = sorted(path for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
    commits[-1].unlink()
    (checkpoint / "commits" / f".{commits[-1].name}.crc").unlink()


def test_a_microbatch_is_one_epoch(
    spark: SparkSession, store: Store, orders: str, feed: Feed, tmp_path: Path
) -> None:
    """Rows are upserted in the order of the batches; a restart continues after the last one."""
    epoch = store.epoch
    query = run(sink(feed.read(), store, tmp_path / "checkpoint").queryName("named"))

    assert query.exception() is None
    assert store.epoch == epoch + 2
    assert customers(load(spark, store, orders)) == {1: "ann", 2: "eve", 3: "joe"}

    feed.add((1, "zoe"))
    run(sink(feed.read(), store, tmp_path / "checkpoint"))
    assert store.epoch == epoch + 3
    assert customers(load(spark, store, orders)) == {1: "zoe", 2: "eve", 3: "joe"}


def test_a_microbatch_that_is_tried_again_changes_nothing(
    store: Store, orders: str, feed: Feed, tmp_path: Path
) -> None:
    """Also after a later write by another application, which it must not undo."""
    checkpoint = tmp_path / "checkpoint"
    run(sink(feed.read(), store, checkpoint))
    store.truncate(orders)
    epoch = store.epoch
    forget_last_commit(checkpoint)

    run(sink(feed.read(), store, checkpoint))

    assert store.epoch == epoch
    assert store.table(orders).count() == 0


def test_an_application_outlives_its_checkpoint(
    store: Store, orders: str, feed: Feed, tmp_path: Path
) -> None:
    """Under txnAppId a query that starts over does not write again what is written."""
    run(sink(feed.read(), store, tmp_path / "one", txnAppId="loader"))
    epoch = store.epoch

    run(sink(feed.read(), store, tmp_path / "two", txnAppId="loader"))
    assert store.epoch == epoch
    run(sink(feed.read(), store, tmp_path / "three"))
    assert store.epoch == epoch + 2


def test_complete_mode_replaces_all_rows(
    spark: SparkSession, store: Store, orders: str, feed: Feed, tmp_path: Path
) -> None:
    """Rows that the aggregation no longer has are gone, at the epoch of the micro-batch."""
    grouped = feed.read().groupBy("id").agg({"customer": "max"})
    totals = grouped.withColumnRenamed("max(customer)", "customer")
    feed.add((9, "zoe"))
    epoch = store.epoch
    run(sink(totals, store, tmp_path / "checkpoint").outputMode("complete"))

    assert store.epoch == epoch + 3
    rows = customers(load(spark, store, orders))
    assert rows == {1: "ann", 2: "eve", 3: "joe", 9: "zoe"}
    first = customers(load(spark, store, orders, versionAsOf=epoch + 1))
    assert first == {1: "ann", 2: "bob"}


def test_changes_delete_rows(
    spark: SparkSession, store: Store, orders: str, feed: Feed, tmp_path: Path
) -> None:
    """A micro-batch of changes is applied as one epoch."""
    feed.add((2, None), (4, "tim"))
    changes = feed.read().selectExpr("*", "if(customer IS NULL, 'D', 'U') AS op").coalesce(1)
    run(sink(changes, store, tmp_path / "checkpoint", opColumn="op", clustered="true"))

    assert customers(load(spark, store, orders)) == {1: "ann", 3: "joe", 4: "tim"}


def test_a_microbatch_without_rows_is_no_epoch(
    store: Store, orders: str, feed: Feed, tmp_path: Path
) -> None:
    """Spark runs such a micro-batch; relstate commits nothing."""
    epoch = store.epoch
    query = run(sink(feed.read().where("id = 1"), store, tmp_path / "checkpoint"))

    assert [progress["batchId"] for progress in query.recentProgress] == [0, 1]
    assert store.epoch == epoch + 1


def test_rows_that_do_not_fit_stop_the_query(
    spark: SparkSession, store: Store, orders: str, feed: Feed, tmp_path: Path
) -> None:
    """Earlier batches stay; of the failed one nothing is written."""
    feed.add((7, "tim"), (8, None))
    epoch = store.epoch

    with pytest.raises(StreamingQueryException, match=r"NullValueError: .*'customer' is NULL"):
        run(sink(feed.read(), store, tmp_path / "checkpoint"))

    assert store.epoch == epoch + 2
    assert customers(load(spark, store, orders)) == {1: "ann", 2: "eve", 3: "joe"}


def test_a_query_that_cannot_work_fails_at_once(
    store: Store, orders: str, feed: Feed, tmp_path: Path
) -> None:
    """It fails before a task runs, with the error's class and its whole text."""
    epoch = store.epoch
    error = "SchemaMismatchError: the NOT NULL column 'customer' is missing"

    with pytest.raises(StreamingQueryException, match=error):
        run(sink(feed.read().select("id"), store, tmp_path / "checkpoint"))

    assert store.epoch == epoch


def test_the_continuous_trigger_gets_nowhere(
    spark: SparkSession, store: Store, orders: str, tmp_path: Path
) -> None:
    """Its tasks report nothing, so no epoch counts as written: a restart has all rows.

    Spark reports the LostMessageError in its log only, and the query continues.
    """
    epoch, checkpoint = store.epoch, tmp_path / "checkpoint"
    rows = spark.readStream.format("rate").load()
    stream = rows.selectExpr("value AS id", "string(value) AS customer")
    query = sink(stream, store, checkpoint).trigger(continuous="1 second").start()

    try:
        # Epoch 2 is prepared when epoch 0 has been given to the sink.
        assert waited_for(checkpoint / "offsets" / "2", seconds=60)
        assert not [path for path in (checkpoint / "commits").iterdir() if path.name.isdigit()]
    finally:
        query.stop()
    assert store.epoch == epoch


def waited_for(path: Path, seconds: float) -> bool:
    """Wait until a file exists; return whether it came in time."""
    end = time.monotonic() + seconds
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.1)
    return path.exists()


def test_update_mode_is_refused_by_spark(
    store: Store, orders: str, feed: Feed, tmp_path: Path
) -> None:
    """If this test fails, the sink can take over what foreachBatch is for today."""
    totals = feed.read().groupBy("id").agg({"customer": "max"})

    with pytest.raises(PySparkException, match="does not support Update mode"):
        run(sink(totals, store, tmp_path / "checkpoint").outputMode("update"))
