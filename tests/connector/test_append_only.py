"""The laws of append-only tables through Spark: every way of writing takes new keys only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from relstate.storage import Store
from support.spark import customers, load, save

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from relstate.connector.sql import Database


@pytest.fixture
def log(store: Store) -> str:
    """An append-only table."""
    store.create_table("log", "id BIGINT, customer STRING", primary_key=["id"], append_only=True)
    return "log"


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """A stream of one file with two rows."""
    folder = tmp_path / "feed"
    folder.mkdir()
    lines = [json.dumps({"id": key, "customer": name}) for key, name in ((1, "ann"), (2, "bob"))]
    (folder / "0.json").write_text("\n".join(lines))
    return spark.readStream.schema("id BIGINT, customer STRING").json(str(folder))


def rows(spark: SparkSession, *values: tuple[int, str]) -> DataFrame:
    """Return rows of the table as a DataFrame."""
    return spark.createDataFrame(list(values), "id BIGINT, customer STRING")


def test_batches_bring_new_keys_only(spark: SparkSession, store: Store, log: str) -> None:
    """A batch with an existing key, or with a key twice, is refused; the error has the key."""
    save(rows(spark, (1, "ann"), (2, "bob")), store, log)
    for values in [(3, "joe"), (2, "eve")], [(3, "joe"), (4, "eve"), (3, "sue")]:
        for parts in (1, 3):
            with pytest.raises(
                Exception, match=rf"AppendOnlyError.*'log'.*\(id = {values[-1][0]}\)"
            ):
                save(rows(spark, *values).repartition(parts), store, log)
    with pytest.raises(Exception, match=r"AppendOnlyError.*'overwrite'"):
        save(rows(spark, (5, "new")), store, log, "overwrite")
    changes = rows(spark, (1, "ann")).selectExpr("*", "'d' AS op")
    with pytest.raises(Exception, match=r"AppendOnlyError.*append-only"):
        save(changes.coalesce(1), store, log, opColumn="op", clustered="true")
    assert customers(load(spark, store, log)) == {1: "ann", 2: "bob"}


@pytest.mark.parametrize("kind", ["sink", "foreach"])
def test_a_repeated_micro_batch_is_skipped(
    spark: SparkSession,
    db: Database,
    store: Store,
    log: str,
    feed: DataFrame,
    tmp_path: Path,
    kind: str,
) -> None:
    """Spark repeats a batch if it does not know that it ended; its own rows are no conflict."""
    checkpoint = tmp_path / "checkpoint"

    def started() -> DataStreamWriter:
        writer = feed.writeStream.option("checkpointLocation", str(checkpoint))
        if kind == "foreach":
            return writer.foreachBatch(db.writer(log)).trigger(availableNow=True)
        writer = writer.format("relstate").option("path", store.path).option("table", log)
        return writer.trigger(availableNow=True)

    started().start().awaitTermination()
    epoch = store.epoch
    for name in ("0", ".0.crc"):
        (checkpoint / "commits" / name).unlink()
    started().start().awaitTermination()
    assert store.epoch == epoch
    assert customers(load(spark, store, log)) == {1: "ann", 2: "bob"}


def test_a_micro_batch_with_a_key_that_is_there_fails(
    spark: SparkSession, store: Store, log: str, feed: DataFrame, tmp_path: Path
) -> None:
    """Another query that writes the same keys is refused."""
    save(rows(spark, (2, "eve")), store, log)
    writer = feed.writeStream.format("relstate").option("path", store.path).option("table", log)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(Exception, match=r"AppendOnlyError.*\(id = 2\)"):
        writer.trigger(availableNow=True).start().awaitTermination()
    assert customers(load(spark, store, log)) == {2: "eve"}
