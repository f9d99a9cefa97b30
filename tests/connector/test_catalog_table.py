"""The laws of temporary views and tables of Spark's catalog over relstate's tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from relstate.connector import catalog_table
from relstate.storage import Store
from support.spark import customers, orders_of, put_orders, save

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def filled(store: Store, orders: str) -> str:
    """The table of orders with one row."""
    return put_orders(store, (1, "ann"))


@pytest.fixture(autouse=True)
def clean_catalog(spark: SparkSession) -> Iterator[None]:
    """Drop what a test creates in the catalog, and nothing that other tests still use."""
    before = {table.name for table in spark.catalog.listTables()}
    yield
    for table in spark.catalog.listTables():
        if table.name not in before:
            kind = "VIEW" if table.isTemporary else "TABLE"
            spark.sql(f"DROP {kind} {table.name}")


def options(store: Store, table: str, **others: str) -> str:
    """Return an OPTIONS clause."""
    settings = {"path": store.path, "table": table, **others}
    return "OPTIONS (" + ", ".join(f"`{name}` '{value}'" for name, value in settings.items()) + ")"


def test_a_temporary_view_reads_and_writes(spark: SparkSession, store: Store, filled: str) -> None:
    """INSERT INTO upserts, INSERT OVERWRITE replaces; the view still reads its epoch."""
    make = f"CREATE OR REPLACE TEMP VIEW v USING relstate {options(store, filled)}"
    spark.sql(make)
    assert customers(spark.table("v")) == {1: "ann"}

    spark.sql("INSERT INTO v VALUES (2, 'bob', 1.5, NULL)")
    assert customers(spark.table("v")) == {1: "ann"}
    spark.sql(make)
    assert customers(spark.table("v")) == {1: "ann", 2: "bob"}

    spark.sql("INSERT OVERWRITE v VALUES (3, 'joe', 1.5, NULL)")
    spark.sql(make)
    assert customers(spark.table("v")) == {3: "joe"}


def test_a_view_of_some_columns_cannot_be_written(
    spark: SparkSession, store: Store, filled: str
) -> None:
    """An upsert through it would set the others to NULL."""
    spark.sql(f"CREATE TEMP VIEW v USING relstate {options(store, filled, columns='id,customer')}")

    with pytest.raises(PySparkException, match="OptionError: option 'columns' has no meaning"):
        spark.sql("INSERT INTO v VALUES (2, 'bob')")


def test_a_catalog_table_is_read_afresh(spark: SparkSession, store: Store, filled: str) -> None:
    """The catalog stores the options in the schema, and every way of reading uses them."""
    spark.sql(f"CREATE TABLE c USING relstate {options(store, filled)}")
    assert customers(spark.sql("SELECT * FROM c")) == {1: "ann"}

    save(orders_of(spark, (2, "bob")), store, filled)

    assert customers(spark.sql("SELECT * FROM c")) == {1: "ann", 2: "bob"}
    assert customers(spark.table("c")) == {1: "ann", 2: "bob"}
    read = spark.read.option("numPartitions", 3).table("c")
    assert read.rdd.getNumPartitions() == 3
    assert spark.sql("SELECT x.id FROM c AS x JOIN c AS y ON x.id < y.id").count() == 1


def test_a_catalog_table_may_stay_at_an_epoch(
    spark: SparkSession, store: Store, filled: str
) -> None:
    """All options of a read are stored."""
    epoch = store.epoch
    others = {"versionAsOf": str(epoch), "columns": "customer,id"}
    spark.sql(f"CREATE TABLE c USING relstate {options(store, filled, **others)}")
    save(orders_of(spark, (2, "bob")), store, filled)

    assert spark.table("c").columns == ["customer", "id"]
    assert customers(spark.table("c")) == {1: "ann"}


def test_a_plain_read_carries_nothing_of_ours(
    spark: SparkSession, store: Store, filled: str
) -> None:
    """Only the schema of a catalog table has options in its metadata."""
    spark.sql(f"CREATE TEMP VIEW v USING relstate {options(store, filled)}")

    assert all(not field.metadata for field in spark.table("v").schema)


def test_an_insert_must_say_where_to(spark: SparkSession, store: Store, filled: str) -> None:
    """Spark does not pass the path on; the error has the remedy, and the remedy works."""
    spark.sql(f"CREATE TABLE c USING relstate {options(store, filled)}")
    epoch = store.epoch

    for insert in ("INSERT INTO c VALUES", "INSERT INTO c SELECT * FROM VALUES"):
        with pytest.raises(PySparkException, match=r"OptionError: .*WITH"):
            spark.sql(f"{insert} (2L, 'bob', 1.5BD, NULL)")
    assert store.epoch == epoch

    destination = f"WITH (path = '{store.path}', `table` = '{filled}')"
    spark.sql(f"INSERT INTO c {destination} VALUES (2, 'bob', 1.5, NULL)")
    assert customers(spark.table("c")) == {1: "ann", 2: "bob"}


def test_an_insert_from_another_catalog_table_goes_astray_nowhere(
    spark: SparkSession, store: Store, filled: str
) -> None:
    """Spark passes the options of the table that is read; rows must not be written there."""
    store.create_table(
        "copy",
        "id BIGINT, customer STRING NOT NULL, amount DECIMAL(12,2), note STRING",
        primary_key=["id"],
    )
    spark.sql(f"CREATE TABLE a USING relstate {options(store, filled)}")
    spark.sql(f"CREATE TABLE b USING relstate {options(store, 'copy')}")
    epoch = store.epoch

    with pytest.raises(PySparkException, match="OptionError: "):
        spark.sql("INSERT INTO b SELECT * FROM a")

    assert store.epoch == epoch


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE c USING relstate {options} AS SELECT 1L AS id, 'ann' AS customer",
        "CREATE TABLE c USING relstate OPTIONS (`table` 'orders')",
        "CREATE TABLE c USING relstate OPTIONS (path '{path}', `table` 'orders', tabel 'x')",
    ],
)
def test_a_catalog_table_that_could_not_be_read_is_not_made(
    spark: SparkSession, store: Store, filled: str, statement: str
) -> None:
    """CREATE TABLE AS SELECT loses its options; relstate does not guess a path."""
    text = statement.format(options=options(store, filled), path=store.path)

    with pytest.raises(PySparkException, match="OptionError: "):
        spark.sql(text)

    assert not spark.catalog.tableExists("c")


def test_a_table_is_not_created_by_a_write(spark: SparkSession, store: Store, orders: str) -> None:
    """The write is refused with and without a path, before it writes anything."""
    epoch = store.epoch
    rows = orders_of(spark, (1, "ann"))

    for mode in ("append", "overwrite"):
        writer = rows.write.format("relstate").mode(mode)
        with pytest.raises(
            PySparkException, match=r"OptionError: saveAsTable.*nothing was written"
        ):
            writer.options(path=store.path, table=orders).saveAsTable("c")
    creation = rows.writeTo("c").using("relstate").option("path", store.path)
    with pytest.raises(PySparkException, match="OptionError: saveAsTable"):
        creation.option("table", orders).create()
    for given in ({}, {"table": orders}):
        with pytest.raises(PySparkException, match=r"nothing was written: .* saveAsTable, .* can"):
            rows.write.format("relstate").mode("append").options(**given).saveAsTable("c")

    assert not spark.catalog.tableExists("c")
    assert store.epoch == epoch


def test_a_catalog_table_with_columns_of_its_own_is_told_apart(
    spark: SparkSession, store: Store, filled: str
) -> None:
    """Spark does not ask relstate for the schema of such a table, so nothing stores the path."""
    spark.sql(f"CREATE TABLE c (id BIGINT) USING relstate {options(store, filled)}")

    with pytest.raises(PySparkException, match=r"OptionError: .*without a list of columns"):
        spark.table("c").collect()


def test_the_options_of_a_definition_are_told_from_the_rest() -> None:
    """Spark mixes options with properties, and spells the path in a way of its own."""
    properties = {
        "provider": "relstate",
        "owner": "me",
        "location": "file:/s",
        "path": "file:/s",
        "table": "t",
        "option.table": "t",
        "option.columns": "a",
        "a property": "x",
    }

    assert catalog_table.is_definition(properties)
    assert catalog_table.definition_options(properties) == {
        "path": "file:/s",
        "table": "t",
        "columns": "a",
    }
