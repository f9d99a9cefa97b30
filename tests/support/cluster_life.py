"""What a user does with a store, step by step, with a dict of the rows as the judge.

The functions are called in a driver, classic or of Spark Connect: see support/drivers. All that
relstate would do in the driver's own process, because the rows are few, is done by tasks here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import relstate
from relstate.connector import local_rows
from relstate.connector.sink import numbered_parts
from relstate.storage import Store
from support.local import IN_JOB
from support.local import local_rows as refreshed_locally

Model = dict[int, tuple[str, int]]

VIEWS = {
    "sums": "SELECT g, count(*) AS n, sum(v) AS s FROM t GROUP BY g",
    "pairs": "SELECT a.id, b.v FROM t AS a JOIN t AS b ON a.id + 1 = b.id AND a.v < b.v",
    "tops": "SELECT g, id, v FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY v, id) = 1",
    "totals": "SELECT n, count(*) AS groups FROM sums GROUP BY n",
}


@contextmanager
def in_tasks() -> Iterator[None]:
    """Leave also what has few rows to tasks."""
    before, local_rows.LOCAL_ROWS = local_rows.LOCAL_ROWS, -1
    try:
        with refreshed_locally(IN_JOB):
            yield
    finally:
        local_rows.LOCAL_ROWS = before


def made_rows(start: int, stop: int, salt: int) -> Model:
    """Return rows by their ids."""
    return {key: (f"g{key % 7}", (key * 37 + salt) % 101) for key in range(start, stop)}


def frame_of(spark: SparkSession, rows: Model) -> DataFrame:
    """Return rows as a DataFrame of two partitions, which tasks compute."""
    values = [(key, group, value) for key, (group, value) in rows.items()]
    return spark.createDataFrame(values, "id BIGINT, g STRING, v BIGINT").repartition(2, "id")


def live(spark: SparkSession, path: str, folder: str) -> None:
    """Go through all that a store can do, with a folder for the checkpoints of streams."""
    model: Model = {}
    create(spark, path)
    write_and_read(spark, path, model)
    change(spark, path, model)
    stream(spark, path, folder, model, "copy")
    keep_views(spark, path, model)
    maintain(spark, path, model)


def create(spark: SparkSession, path: str) -> None:
    """Create a store with an empty table ``t``."""
    relstate.create(path, vnode_count=16, shards=4).close()
    relstate.connect(spark, path).sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g STRING, v BIGINT)")


def upsert(spark: SparkSession, path: str, rows: Model) -> int:
    """Upsert rows by a job, and return the epoch."""
    frame_of(spark, rows).write.format("relstate").option("table", "t").mode("append").save(path)
    return relstate.connect(spark, path).store.epoch


def refresh(spark: SparkSession, path: str) -> tuple[str, ...]:
    """Refresh all views by jobs; return those that moved."""
    with in_tasks():
        return relstate.connect(spark, path).refresh().views


def compact(spark: SparkSession, path: str) -> int:
    """Compact all tables by jobs; return how many files were written."""
    with patch.object(numbered_parts, "_DRIVER_BYTES", 0):
        return relstate.connect(spark, path).maintain().files_written


def create_views(spark: SparkSession, path: str) -> None:
    """Create the views, each populated by a job."""
    with in_tasks():
        for name, query in VIEWS.items():
            relstate.connect(spark, path).sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")


def write_and_read(spark: SparkSession, path: str, model: Model) -> None:
    """Write by both doors and read by both, all rows and few."""
    db = relstate.connect(spark, path)
    first, second = made_rows(0, 300, 1), made_rows(200, 500, 2)
    upsert(spark, path, first)
    with in_tasks():
        db.write(frame_of(spark, second), "t")
    model.update(first | second)
    frame = spark.read.format("relstate").option("table", "t").load(path)
    assert {row.id: (row.g, row.v) for row in frame.collect()} == model
    few = db.sql("SELECT id, v FROM t WHERE id BETWEEN 190 AND 210").collect()
    assert {row.id: row.v for row in few} == {key: model[key][1] for key in range(190, 211)}
    sums = db.sql("SELECT a.g, sum(a.v) AS s FROM t AS a JOIN t AS b USING (id) GROUP BY a.g")
    expected: Counter[str] = Counter()
    for group, value in model.values():
        expected[group] += value
    assert {row.g: row.s for row in sums.collect()} == expected


def copy(spark: SparkSession, path: str, checkpoint: str) -> None:
    """Copy the changes of the table to the table ``copy`` by a stream, up to the present."""
    store = relstate.connect(spark, path).store
    store.create_table(
        "copy", "id BIGINT, g STRING, v BIGINT", primary_key=["id"], if_not_exists=True
    )
    source = spark.readStream.format("relstate").options(
        table="t", readChangeFeed="true", deduplicationMode="netChanges", maxEpochsPerTrigger=1
    )
    rows = source.load(path).where("_change_type <> 'update_preimage'").select("id", "g", "v")
    sink = rows.writeStream.format("relstate").option("table", "copy")
    sink = sink.option("checkpointLocation", checkpoint)
    sink.trigger(availableNow=True).start(path).awaitTermination()


def change(spark: SparkSession, path: str, model: Model) -> None:
    """Change rows by each of the statements, in tasks."""
    db = relstate.connect(spark, path)
    with in_tasks():
        db.sql("INSERT INTO t SELECT id + 1000, g, v FROM t WHERE id < 50")
        model.update({key + 1000: model[key] for key in range(50)})
        db.sql("UPDATE t SET v = v + 1 WHERE v % 2 = 0")
        for key, (group, value) in model.items():
            model[key] = (group, value + (value % 2 == 0))
        db.sql("DELETE FROM t WHERE id % 11 = 3")
        for key in [key for key in model if key % 11 == 3]:
            del model[key]
        db.sql(
            "MERGE INTO t USING (SELECT id * 10 AS id, 'm' AS g FROM range(40, 61)) AS s "
            "ON t.id = s.id WHEN MATCHED AND t.v > 50 THEN DELETE "
            "WHEN MATCHED THEN UPDATE SET g = s.g "
            "WHEN NOT MATCHED THEN INSERT (id, g, v) VALUES (s.id, s.g, 0)"
        )
        for key in range(400, 601, 10):
            _, value = model.get(key, ("", 0))
            if value > 50:
                del model[key]
            else:
                model[key] = ("m", value)
    check_rows(db.store, model)


def stream(spark: SparkSession, path: str, folder: str, model: Model, application: str) -> None:
    """Copy the table's changes to others, by the sink and by foreachBatch, twice."""
    db = relstate.connect(spark, path)
    for table in ("sunk", "written"):
        db.sql(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, g STRING, v BIGINT)")
    write = db.writer("written", txn_app_id=application, op_column="_change_type", clustered=True)
    for turn in range(2):
        changes = spark.readStream.format("relstate").options(
            table="t", readChangeFeed="true", deduplicationMode="netChanges"
        )
        rows = changes.load(path).drop("_commit_version", "_commit_timestamp")
        rows = rows.where("_change_type <> 'update_preimage'")
        sink = rows.drop("_change_type").writeStream.format("relstate").option("table", "sunk")
        for name, started in (
            ("sink", sink),
            ("foreach", rows.writeStream.foreachBatch(write)),
        ):
            checkpoint = started.option("checkpointLocation", f"{folder}/{name}")
            query = checkpoint.trigger(availableNow=True)
            (query.start(path) if name == "sink" else query.start()).awaitTermination()
        for table in ("sunk", "written"):
            check_rows(db.store, model, table)
        if turn == 0:
            rows_after = made_rows(100, 160, 3)
            upsert(spark, path, rows_after)
            model.update(rows_after)


def keep_views(spark: SparkSession, path: str, model: Model) -> None:
    """Create views, change their table, rescale and refresh them."""
    db = relstate.connect(spark, path)
    create_views(spark, path)
    check_views(db.store, model)
    for salt, units in ((4, 3), (5, 1)):
        for view in VIEWS:
            db.sql(f"ALTER MATERIALIZED VIEW {view} SET PARALLELISM {units}")
        rows = made_rows(50 * salt, 50 * salt + 120, salt)
        upsert(spark, path, rows)
        model.update(rows)
        assert set(refresh(spark, path)) == set(VIEWS)
        check_views(db.store, model)


def maintain(spark: SparkSession, path: str, model: Model) -> None:
    """Compact everything, and check every file and view."""
    db = relstate.connect(spark, path)
    assert compact(spark, path) > 0
    check_rows(db.store, model)
    check_views(db.store, model)
    assert db.store.check().problems == ()
    assert all(report.ok for report in db.check_views())


def check_rows(store: Store, model: Model, table: str = "t") -> None:
    """Compare a table, read without Spark, with the model."""
    rows = store.table(table).to_arrow().to_pylist()
    assert {row["id"]: (row["g"], row["v"]) for row in rows} == model
    assert len(rows) == len(model)


def check_views(store: Store, model: Model) -> None:
    """Compare the views, read without Spark, with what follows from the model."""
    groups: dict[str, list[int]] = {}
    tops: dict[str, tuple[int, int]] = {}
    for key, (group, value) in model.items():
        groups.setdefault(group, []).append(value)
        tops[group] = min((value, key), tops.get(group, (value, key)))
    expected: dict[str, set[tuple[Any, ...]]] = {
        "sums": {(group, len(values), sum(values)) for group, values in groups.items()},
        "pairs": {
            (key, model[key + 1][1])
            for key, (_, value) in model.items()
            if key + 1 in model and value < model[key + 1][1]
        },
        "tops": {(group, key, value) for group, (value, key) in tops.items()},
        "totals": set(Counter(map(len, groups.values())).items()),
    }
    for view in VIEWS:
        table: pa.Table = store.table(view).to_arrow()
        columns = [name for name in table.column_names if not name.startswith("_")]
        rows = [tuple(row.values()) for row in table.select(columns).to_pylist()]
        assert sorted(rows) == sorted(expected[view]), view
