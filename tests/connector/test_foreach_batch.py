"""The laws of the writer for foreachBatch."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from relstate.connector.sink.shuffle import unit_expression
from relstate.connector.sql import Database
from relstate.storage import Store, TableSchema
from relstate.storage.errors import (
    NullKeyError,
    OptionError,
    SchemaMismatchError,
    SessionError,
    TableNotFoundError,
)
from relstate.storage.schema.ddl import parse_columns
from relstate.vnode import vnodes_of
from support.spark import customers, load, orders_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def totals(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """A stream that counts, in update mode, the letters of three micro-batches."""
    folder = tmp_path / "letters"
    for number, letters in enumerate(("aab", "bc", "a")):
        rows = spark.createDataFrame([(letter,) for letter in letters], "letter STRING")
        rows.coalesce(1).write.mode("append").text(str(folder / str(number)))
    stream = spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder / "*"))
    return stream.groupBy("value").count().withColumnsRenamed({"value": "letter", "count": "n"})


@pytest.fixture
def counts(store: Store) -> str:
    """The name of an empty table with a number per letter."""
    store.create_table("counts", "letter STRING, n BIGINT", primary_key=["letter"])
    return "counts"


def run(stream: DataFrame, write: Callable[[DataFrame, int], None], checkpoint: Path) -> None:
    """Run a query in update mode to its end."""
    query = stream.writeStream.foreachBatch(write).outputMode("update")
    query = query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query.start().awaitTermination()


def counts_in(store: Store, table: str) -> dict[str, int]:
    """Return the rows of a table with a number per letter."""
    return {row["letter"]: row["n"] for row in store.table(table).to_arrow().to_pylist()}


def test_update_mode_upserts_and_happens_once(
    db: Database, store: Store, totals: DataFrame, counts: str, tmp_path: Path
) -> None:
    """A micro-batch is one epoch; one that is repeated changes nothing."""
    epoch, checkpoint = store.epoch, tmp_path / "checkpoint"
    run(totals, db.writer(counts), checkpoint)

    assert counts_in(store, counts) == {"a": 3, "b": 2, "c": 1}
    assert store.epoch == epoch + 3

    store.truncate(counts)
    (checkpoint / "commits" / "2").unlink()
    (checkpoint / "commits" / ".2.crc").unlink()
    run(totals, db.writer(counts), checkpoint)
    assert counts_in(store, counts) == {}
    assert store.epoch == epoch + 4


def test_a_second_write_of_one_batch_is_an_error(
    db: Database, store: Store, totals: DataFrame, counts: str, tmp_path: Path
) -> None:
    """It would be skipped as a repetition; a write of the batch to another table is allowed."""
    store.create_table("others", "letter STRING, n BIGINT", primary_key=["letter"])
    write, write_other = db.writer(counts), db.writer("others")

    def twice(batch: DataFrame, number: int) -> None:
        write(batch, number)
        write_other(batch, number)
        write(batch.where("n > 1"), number)

    with pytest.raises(StreamingQueryException, match="RepeatedWriteError: a second write"):
        run(totals, twice, tmp_path / "checkpoint")
    assert counts_in(store, counts) == counts_in(store, "others") != {}


def test_outside_a_query_it_needs_a_name(
    spark: SparkSession, db: Database, store: Store, orders: str
) -> None:
    """A direct call raises relstate's own errors; under a name, a number is written once."""
    epoch = store.epoch
    with pytest.raises(SessionError, match="'txnAppId'"):
        db.writer(orders)(orders_of(spark, (1, "ann")), 0)
    assert store.epoch == epoch

    write = db.writer(orders, txn_app_id="loader")
    write(orders_of(spark, (1, "ann")), 0)
    write(orders_of(spark, (1, "bob")), 0)
    write(orders_of(spark, (2, "eve")), 1)
    assert customers(db.table(orders)) == {1: "ann", 2: "eve"}


def test_changes_are_applied(spark: SparkSession, db: Database, orders: str) -> None:
    """The operation column works as in the sink."""
    changes = spark.sql(
        "SELECT * FROM VALUES (1L, 'ann', 'c'), (2L, 'bob', 'c'), (1L, NULL, 'd') "
        "AS t(id, customer, op)"
    ).coalesce(1)
    write = db.writer(orders, txn_app_id="loader", op_column="op", clustered=True)
    write(changes, 0)

    assert customers(db.table(orders)) == {2: "bob"}


def test_bad_rows_raise_our_own_errors(
    spark: SparkSession, db: Database, store: Store, orders: str
) -> None:
    """Errors of the planner and of a task are raised without Spark's around them."""
    write, epoch = db.writer(orders, txn_app_id="loader"), store.epoch

    with pytest.raises(SchemaMismatchError, match=r"^unknown column 'x'; the columns are"):
        write(spark.sql("SELECT 1L AS id, 'ann' AS customer, 1 AS x"), 0)
    with pytest.raises(NullKeyError, match=r"^the primary key column 'id' is NULL"):
        write(spark.sql("SELECT nullif(1L, 1L) AS id, 'ann' AS customer"), 0)
    assert store.epoch == epoch


def test_bad_arguments_are_refused_at_once(db: Database, orders: str) -> None:
    """The error is raised before the query is defined."""
    with pytest.raises(TableNotFoundError):
        db.writer("nothing")
    with pytest.raises(OptionError, match="clustered"):
        db.writer(orders, op_column="op")
    with pytest.raises(OptionError, match="partitions must be 1 or more"):
        db.writer(orders, partitions=0)
    with pytest.raises(OptionError, match="leave out partitions"):
        db.writer(orders, op_column="op", clustered=True, partitions=2)


def test_it_travels(db: Database, orders: str) -> None:
    """Spark Connect sends it to the server, so it pickles: it holds no session."""
    write = db.writer(orders, txn_app_id="loader", partitions=3)

    assert pickle.loads(pickle.dumps(write)) == write


def test_partitions_are_ranges_of_vnodes(
    spark: SparkSession, db: Database, store: Store, orders: str
) -> None:
    """That many tasks write, and no two of them write to one shard."""
    rows = spark.range(0, 2000, 1, 7).selectExpr("INT(id) AS id", "'x' AS customer")
    db.writer(orders, txn_app_id="loader", partitions=4)(rows, 0)

    plan = store.read_plan(orders)
    shards = [
        {shard for shard, size in enumerate(segment.record.tables[0].shard_bytes) if size}
        for segment in plan.segments
    ]
    assert sorted(map(len, shards)) == [4, 4, 4, 4]
    assert set().union(*shards) == set(range(16))
    assert load(spark, store, orders).count() == 2000


def test_many_small_partitions_are_brought_together(
    spark: SparkSession, db: Database, store: Store, counts: str, tmp_path: Path
) -> None:
    """After an aggregation every partition would be a file of its own."""
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "file").write_text("\n".join(map(str, range(40))))
    stream = spark.readStream.text(str(tmp_path / "letters")).groupBy("value").count()
    numbers = stream.withColumnsRenamed({"value": "letter", "count": "n"})
    spark.conf.set("spark.sql.shuffle.partitions", "5")
    try:
        run(numbers, db.writer(counts), tmp_path / "checkpoint")
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")

    assert len(store.read_plan(counts).segments) == spark.sparkContext.defaultParallelism == 2
    assert store.table(counts).count() == 40


def test_spark_computes_the_unit_that_owns_a_row(spark: SparkSession) -> None:
    """The vnode is that of the table's declared types, whatever types the rows have."""
    schema = TableSchema.build(
        parse_columns("b DECIMAL(20,2), `a b` BIGINT, c STRING"),
        primary_key=["b", "`a b`", "c"],
        distribution_key=["a b", "b"],
    )
    rows = spark.sql(
        "SELECT CAST(id AS INT) AS `a b`, CAST(id AS DECIMAL(5,1)) AS b FROM range(99)"
    )
    units = rows.selectExpr("*", f"{unit_expression(schema, 256, 5)} AS unit").toArrow()

    columns = [
        units.column(column.name).cast(schema.arrow_schema.field(column.name).type).combine_chunks()
        for column in schema.distribution_columns
    ]

    vnodes = vnodes_of(columns, 256).astype(int)
    assert units.column("unit").to_pylist() == (vnodes * 5 // 256).tolist()
