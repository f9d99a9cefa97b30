"""The laws of batch reads through Spark."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

import relstate
from relstate.connector.source.read import partitions_of
from relstate.storage import Store
from support.planning import plan_read, refusal
from support.spark import customers, load, orders_of, put_orders, save, schema_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TWO = {1: "ann", 2: "bob"}


@pytest.fixture
def filled(store: Store, orders: str) -> str:
    """The table of orders with two rows, at epoch 3."""
    return put_orders(store, *TWO.items())


def test_a_read_has_the_rows_and_the_schema_of_the_table(
    spark: SparkSession, store: Store, filled: str
) -> None:
    """Names, types, order and NOT NULL are those of the CREATE."""
    read = load(spark, store, filled)

    assert read.schema.toDDL() == (
        "id BIGINT NOT NULL,customer STRING NOT NULL,amount DECIMAL(12,2),note STRING"
    )
    assert sorted(map(tuple, read.collect())) == [
        (1, "ann", Decimal("1.50"), None),
        (2, "bob", Decimal("3.00"), None),
    ]


def test_an_empty_table_has_its_schema_and_no_rows(
    spark: SparkSession, store: Store, orders: str
) -> None:
    """A read needs no segment."""
    read = load(spark, store, orders)

    assert read.columns == ["id", "customer", "amount", "note"]
    assert read.collect() == []


def test_names_of_tables_match_whatever_their_case(
    spark: SparkSession, store: Store, filled: str
) -> None:
    """As the names of Spark's own tables."""
    assert load(spark, store, "ORDERS").count() == 2


def test_the_option_columns_chooses_columns_and_their_order(
    spark: SparkSession, store: Store, filled: str
) -> None:
    """Only these are in the schema, and only these are read."""
    read = load(spark, store, filled, columns="customer, ID")

    assert read.columns == ["customer", "id"]
    assert sorted(map(tuple, read.collect())) == [("ann", 1), ("bob", 2)]


def test_a_given_schema_chooses_columns(spark: SparkSession, store: Store, filled: str) -> None:
    """It may leave out columns, spell names in another case, and allow NULL."""
    reader = spark.read.format("relstate").schema("Customer STRING, id BIGINT")

    read = reader.option("table", filled).load(store.path)

    assert read.columns == ["Customer", "id"]
    assert sorted(map(tuple, read.collect())) == [("ann", 1), ("bob", 2)]


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("id INT", "the column 'id' is BIGINT in the table and INT in the given schema"),
        ("id BIGINT, x STRING", "there is no column 'x'"),
        ("note STRING NOT NULL", "may be NULL in the table"),
    ],
)
def test_a_given_schema_that_is_not_the_tables_is_refused(
    spark: SparkSession, store: Store, filled: str, schema: str, reason: str
) -> None:
    """Nothing is cast in silence; the error names the column."""
    with refusal(f"SchemaMismatchError: .*{reason}"):
        plan_read(store, filled, schema_of(schema))


def test_a_schema_and_the_option_columns_must_agree(
    spark: SparkSession, store: Store, filled: str
) -> None:
    """Two projections that differ are an error, not a choice."""
    reader = spark.read.format("relstate").schema("id BIGINT").option("table", filled)

    assert reader.option("columns", "id").load(store.path).count() == 2
    with pytest.raises(PySparkException, match="OptionError: option 'columns' names note"):
        reader.option("columns", "note").load(store.path).collect()


def test_an_epoch_reads_the_same_for_ever(spark: SparkSession, store: Store, filled: str) -> None:
    """Later upserts and overwrites are not in it, whichever option names it."""
    pinned = load(spark, store, filled)
    assert customers(pinned) == TWO
    save(orders_of(spark, (2, "eve"), (3, "joe")), store, filled)
    save(orders_of(spark, (9, "zoe")), store, filled, "overwrite")

    assert customers(load(spark, store, filled)) == {9: "zoe"}
    assert customers(load(spark, store, filled, versionAsOf=4)) == {1: "ann", 2: "eve", 3: "joe"}
    assert customers(load(spark, store, filled, versionAsOf=3)) == TWO
    assert customers(pinned) == TWO


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(0, "EpochNotFoundError"), (99, "EpochNotFoundError"), (1, "TableNotFoundError")],
)
def test_an_epoch_that_cannot_be_read_is_refused(
    store: Store, filled: str, epoch: int, error: str
) -> None:
    """Before the first, after the last, and before the table was created."""
    with refusal(error):
        plan_read(store, filled, versionAsOf=epoch)


def test_a_refusal_reaches_the_user(spark: SparkSession, store: Store, filled: str) -> None:
    """What planning a read raises arrives with its class and its text."""
    error = "relstate.storage.errors.EpochNotFoundError: there is no epoch 99"
    with pytest.raises(PySparkException, match=error):
        load(spark, store, filled, versionAsOf=99)


@pytest.mark.parametrize(
    ("mebibytes", "partitions"),
    [(0, 1), (1, 1), (33, 2), (200, 7), (256, 8), (1024, 8), (1025, 9), (3072, 24)],
)
def test_a_large_read_has_larger_partitions(mebibytes: int, partitions: int) -> None:
    """A task costs the JVM much: a read of gigabytes has no more of them than Spark's of files."""
    assert partitions_of(mebibytes << 20) == partitions


@pytest.mark.parametrize("partitions", [1, 3, 256, 1000])
def test_partitions_are_as_many_as_asked(
    spark: SparkSession, store: Store, filled: str, partitions: int
) -> None:
    """Together they have every row once; there are no more of them than vnodes."""
    read = load(spark, store, filled, numPartitions=partitions)

    assert read.rdd.getNumPartitions() == min(partitions, 256)
    if partitions < 256:
        assert customers(read) == TWO


def test_a_small_table_is_one_partition(spark: SparkSession, store: Store, filled: str) -> None:
    """A task costs more than reading a few rows."""
    assert load(spark, store, filled).rdd.getNumPartitions() == 1


def test_a_relation_may_be_used_twice(spark: SparkSession, store: Store, filled: str) -> None:
    """Spark applies the pushed filter of one use to the other; so no filter must be pushed."""
    read = load(spark, store, filled)

    both = read.where("id = 1").union(read.where("id = 2"))

    assert customers(both) == TWO
    assert read.where("id = 1").count() == 1
    assert read.count() == 2


def test_two_stores_are_read_in_one_query(
    spark: SparkSession, store: Store, filled: str, tmp_path: Path
) -> None:
    """One worker may have both open."""
    with relstate.create(str(tmp_path / "other"), vnode_count=7, shards=3) as second:
        second.create_table("names", "customer STRING, full STRING", primary_key=["customer"])
        names = spark.sql("SELECT 'ann' AS customer, 'Ann Lee' AS full")
        save(names, second, "names")

        joined = load(spark, store, filled).join(load(spark, second, "names"), "customer")

        assert [(row.id, row.full) for row in joined.collect()] == [(1, "Ann Lee")]


def test_what_is_not_there_is_told_by_name(
    spark: SparkSession, store: Store, orders: str, tmp_path: Path
) -> None:
    """A missing table, a missing store, and a folder that is not a store are named."""
    nothing, folder = str(tmp_path / "nothing"), tmp_path / "folder"
    folder.mkdir()
    (folder / "file").write_text("not a store")
    reader = spark.read.format("relstate").option("table", "x")

    with pytest.raises(PySparkException, match=r"TableNotFoundError: .*'x'.*orders"):
        reader.load(store.path)
    with pytest.raises(PySparkException, match=f"StoreNotFoundError: {nothing}"):
        reader.load(nothing)
    with pytest.raises(PySparkException, match=f"NotAStoreError: {folder}"):
        reader.load(str(folder))
    with pytest.raises(PySparkException, match=r"OptionError: 2 problems .*'tabel'.*'path'"):
        spark.read.format("relstate").option("tabel", "x").load()


def test_a_damaged_segment_is_told_by_its_file(spark: SparkSession, tmp_path: Path) -> None:
    """The error of a task names the file; there are no wrong rows, and the worker survives."""
    with relstate.create(str(tmp_path / "damaged")) as store:
        store.create_table("t", "id BIGINT, customer STRING", primary_key=["id"])
        save(spark.sql("SELECT 1L AS id, 'ann' AS customer"), store, "t")
        (segment,) = Path(store.path, "segments").iterdir()
        whole = segment.read_bytes()

        for damaged in (whole[: len(whole) // 2], whole[:-9000] + b"\x01" + whole[-8999:]):
            segment.write_bytes(damaged)
            with pytest.raises(PySparkException, match=f"CorruptionError: {segment}"):
                load(spark, store, "t").collect()
        segment.write_bytes(whole)
        assert load(spark, store, "t").count() == 1
