"""What a user does with a store in a bucket, whose credentials must not show anywhere.

The functions are called in a driver: see support/drivers. They return all texts that a user sees.
"""

from __future__ import annotations

import logging
import shutil
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

import relstate
from relstate.connector.storage_options import storage_options
from relstate.storage import Location

EXPLAINED = (
    "SELECT * FROM t WHERE id = 3",
    "SELECT v, count(*) AS n FROM t GROUP BY v",
    "UPDATE t SET v = 'y' WHERE id % 3 = 0",
    "CREATE MATERIALIZED VIEW d AS SELECT v, max(id) AS m FROM t GROUP BY v",
)


def log_everything(_: SparkSession) -> None:
    """Log what relstate logs, at any level, to the driver's log."""
    logging.basicConfig(level=logging.DEBUG)
    # It logs each message to the JVM.
    logging.getLogger("py4j").setLevel(logging.INFO)


def live(spark: SparkSession, path: str, options: Mapping[str, str], folder: str) -> list[str]:
    """Read, write, stream and keep a view with options; return what is shown of all of it."""
    shown: list[str] = []
    store = relstate.create(path, storage_options=options)
    for table in ("t", "u"):
        store.create_table(table, "id BIGINT, v STRING", primary_key=["id"])
    given = storage_options(Location(path, options))
    frame = spark.range(1000).selectExpr("id", "cast(id % 10 AS STRING) AS v")
    frame.write.format("relstate").mode("append").options(table="t", **given).save(path)
    read = spark.read.format("relstate").options(table="t", **given).load(path)
    for mode in ("extended", "formatted", "cost"):
        read.explain(mode)
    assert read.count() == 1000
    shown += [repr(read), read.schema.json(), store_texts(spark, path, options, folder, given)]
    return [*shown, *failures(spark, path, given, Path(options["cache_folder"]), store)]


def store_texts(
    spark: SparkSession,
    path: str,
    options: Mapping[str, str],
    folder: str,
    given: Mapping[str, str],
) -> str:
    """Return what db and streams show, run with options."""
    db = relstate.connect(spark, path, storage_options=options)
    source = spark.readStream.format("relstate").options(
        table="t", readChangeFeed="true", deduplicationMode="netChanges", **given
    )
    rows = source.load(path).select("id", "v")
    rows.explain("extended")
    sink = rows.writeStream.format("relstate").options(table="u", **given)
    sink = sink.option("checkpointLocation", f"{folder}/sink").trigger(availableNow=True)
    foreach = rows.writeStream.foreachBatch(db.writer("u", txn_app_id="x"))
    foreach = foreach.option("checkpointLocation", f"{folder}/foreach").trigger(availableNow=True)
    texts = [repr(db), repr(db.store), repr(db.store.table("t"))]
    for query in (sink.start(path), foreach.start()):
        query.awaitTermination()
        query.explain(True)
        texts += [repr(query), str(query.lastProgress), str(query.status)]
    db.sql("CREATE MATERIALIZED VIEW c AS SELECT v, count(*) AS n FROM t GROUP BY v")
    db.sql("UPDATE t SET v = 'x' WHERE id % 2 = 0")
    texts += [repr(db.refresh()), repr(db.maintain()), str(db.metrics()), repr(db.history())]
    for statement in EXPLAINED:
        texts += [str(row) for row in db.sql(f"EXPLAIN {statement}").collect()]
    frame = db.table("t")
    frame.explain("extended")
    return "\n".join([*texts, repr(frame), frame.schema.json()])


def failures(
    spark: SparkSession,
    path: str,
    given: Mapping[str, str],
    cache: Path,
    store: relstate.Store,
) -> list[str]:
    """Return what is raised where options, a server, rows and an object are wrong."""
    nowhere = {**given, "storage.endpoint": "http://127.0.0.1:1", "storage.retry_seconds": "0"}
    secrets = [value for key, value in given.items() if "key" in key]
    misspelt = {f"storage.no_{number}": value for number, value in enumerate(secrets)}
    rows = spark.range(10).selectExpr("nullif(id, 7) AS id", "'x' AS v")
    read = spark.read.format("relstate").option("table", "t")
    planned = spark.read.format("relstate").options(table="t", **given).load(path)
    sink = rows.write.format("relstate").mode("append").options(table="t", **given)
    catalog = ", ".join(f"`{key}` '{value}'" for key, value in given.items())
    texts = [
        raised(lambda: read.options(**nowhere).load(path)),
        raised(lambda: read.options(**{**given, **misspelt}).load(path)),
        raised(lambda: read.load(path.replace("://", f"://{'@'.join(secrets)}@"))),
        raised(lambda: sink.save(path)),
        raised(
            lambda: spark.sql(
                f"CREATE TABLE kept USING relstate OPTIONS (path '{path}', `table` 't', {catalog})"
            )
        ),
    ]
    for name in store.environment.list("segments"):
        store.environment._client.put(  # type: ignore[attr-defined]
            store.environment._key(f"segments/{name}"),  # type: ignore[attr-defined]
            b"no segment",
        )
    store.close()
    shutil.rmtree(cache)
    return [*texts, raised(planned.collect)]


def raised(action: Callable[[], object]) -> str:
    """Return the whole text of what an action raises."""
    try:
        action()
    except Exception:
        text = traceback.format_exc()
        assert "relstate.storage.errors" in text, text
        return text
    raise AssertionError("nothing was raised")


def live_by_settings(spark: SparkSession, path: str, folder: str) -> list[str]:
    """Write, read and stream without options; the session has S3A's settings."""
    relstate.use_s3a_settings(spark)
    db = relstate.connect(spark, path)
    for table in ("t", "u", "w"):
        db.sql(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, v STRING)")
    frame = spark.range(1000).selectExpr("id", "'x' AS v")
    frame.write.format("relstate").mode("append").option("table", "t").save(path)
    read = spark.read.format("relstate").option("table", "t").load(path)
    assert read.where("v = 'x'").count() == 1000
    read.explain("extended")
    source = spark.readStream.format("relstate").options(table="t", readChangeFeed="true")
    rows = source.load(path).select("id", "v")
    rows.explain("extended")
    for name, sink in (
        ("u", rows.writeStream.format("relstate").options(table="u", path=path)),
        ("w", rows.writeStream.foreachBatch(_write_plainly(path))),
    ):
        sink = sink.option("checkpointLocation", f"{folder}/{name}").trigger(availableNow=True)
        query = sink.start()
        query.awaitTermination()
        query.explain(True)
    counts = [db.sql(f"SELECT count(*) AS n FROM {table}").collect() for table in "uw"]
    assert [rows[0].n for rows in counts] == [1000, 1000]
    return [repr(read), read.schema.json()]


def _write_plainly(path: str) -> Callable[..., None]:
    def write(batch: object, _: int) -> None:
        writer = batch.write.format("relstate")  # type: ignore[attr-defined]
        writer.mode("append").option("table", "w").save(path)

    return write
