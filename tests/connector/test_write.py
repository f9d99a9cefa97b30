"""The laws of batch writes through Spark."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import LongType, StringType, StructType

from relstate.connector.sink.foreach import ForeachBatchWriter
from relstate.connector.sink.write_plan import plan_batch
from relstate.storage import Store, errors
from relstate.storage.errors import DependentViewsError
from support.planning import refusal, write_rows
from support.spark import customers, load, orders_of, save, schema_of
from support.stores import stored_row
from support.views import new_view

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_append_upserts(spark: SparkSession, store: Store, orders: str) -> None:
    """A new key is added, an existing one replaced, and each write is one epoch."""
    epoch = store.epoch
    save(orders_of(spark, (1, "ann"), (2, "bob")), store, orders)
    save(orders_of(spark, (2, "eve"), (3, "joe")), store, orders)

    assert store.epoch == epoch + 2
    assert customers(load(spark, store, orders)) == {1: "ann", 2: "eve", 3: "joe"}
    assert stored_row(store.table(orders), 2)[1] == "eve"


def test_overwrite_replaces_all_rows_at_one_epoch(
    spark: SparkSession, store: Store, orders: str
) -> None:
    """No epoch has both the old and the new rows, or neither."""
    save(orders_of(spark, (1, "ann"), (2, "bob")), store, orders)
    epoch = store.epoch
    save(orders_of(spark, (3, "joe")), store, orders, "overwrite")

    assert store.epoch == epoch + 1
    assert customers(load(spark, store, orders)) == {3: "joe"}
    assert customers(load(spark, store, orders, versionAsOf=epoch)) == {1: "ann", 2: "bob"}


def test_a_table_may_be_overwritten_with_what_it_holds(
    spark: SparkSession, store: Store, orders: str
) -> None:
    """The rows are read at an epoch that the overwrite does not change."""
    save(orders_of(spark, (1, "ann"), (2, "bob")), store, orders)
    save(load(spark, store, orders).where("id = 2"), store, orders, "overwrite")

    assert customers(load(spark, store, orders)) == {2: "bob"}


def test_no_rows_append_nothing_and_overwrite_everything(
    spark: SparkSession, store: Store, orders: str
) -> None:
    """An append without rows commits no epoch."""
    rows = orders_of(spark, (1, "ann"))
    save(rows, store, orders)
    epoch = store.epoch

    save(rows.where("id > 1"), store, orders)
    assert store.epoch == epoch
    save(rows.where("id > 1"), store, orders, "overwrite")
    assert store.epoch == epoch + 1
    assert load(spark, store, orders).count() == 0


def test_columns_are_matched_by_name(spark: SparkSession, store: Store, orders: str) -> None:
    """In any order and case; a missing nullable column is NULL, a narrower number fits."""
    save(spark.sql("SELECT 5S AS AMOUNT, 'ann' AS customer, 1 AS id"), store, orders)

    assert [tuple(map(str, row)) for row in load(spark, store, orders).collect()] == [
        ("1", "ann", "5.00", "None")
    ]


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("1L AS id", "SchemaMismatchError: the NOT NULL column 'customer' is missing"),
        ("'a' AS customer", "SchemaMismatchError: the NOT NULL column 'id' is missing"),
        ("1L AS id, 'a' AS customer, 2 AS x", "SchemaMismatchError: unknown column 'x'"),
        ("'1' AS id, 'a' AS customer", "SchemaMismatchError: the column 'id'"),
        ("1L AS id, 'a' AS customer, 1D AS amount", "SchemaMismatchError: the column 'amount'"),
        ("1L AS id, 'a' AS customer, INTERVAL '1' MONTH AS note", "UnsupportedTypeError"),
        ("nullif(1L, 1L) AS id, 'a' AS customer", "NullKeyError: .*'id' is NULL"),
        ("1L AS id, nullif('a', 'a') AS customer", "NullValueError: .*'customer' is NULL"),
        (
            "1L AS id, 'a' AS customer, 12345678901.5BD AS amount",
            "ValueRangeError: the value 12345678901.5",
        ),
    ],
)
def test_rows_that_do_not_fit_are_refused(
    spark: SparkSession, store: Store, orders: str, query: str, error: str
) -> None:
    """They are refused when the write is planned, by their schema, or in a task."""
    with refusal(error):
        write_rows(spark.sql(f"SELECT {query}"), store, orders)


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("1L AS id", "SchemaMismatchError: the NOT NULL column 'customer' is missing"),
        ("nullif(1L, 1L) AS id, 'a' AS customer", "NullKeyError: .*'id' is NULL"),
    ],
)
def test_a_refusal_reaches_the_user(
    spark: SparkSession, store: Store, orders: str, query: str, error: str
) -> None:
    """Raised on the driver or in a task, it has its class and text, and nothing is written."""
    epoch = store.epoch

    with pytest.raises(PySparkException, match=f"relstate.storage.errors.{error}"):
        save(spark.sql(f"SELECT {query}"), store, orders)

    assert store.epoch == epoch


def test_the_last_of_two_rows_of_one_key_wins(
    spark: SparkSession, store: Store, orders: str
) -> None:
    """The last is by partition and by position in it: of 3 partitions, row 2 of the last."""
    rows = spark.range(0, 9, 1, 3).selectExpr("1L AS id", "string(id) AS customer")
    save(rows, store, orders)

    assert customers(load(spark, store, orders)) == {1: "8"}


def test_a_repeated_job_is_left_out(spark: SparkSession, store: Store, orders: str) -> None:
    """A version not above the application's last one changes nothing; applications are separate."""

    def write(customer: str, application: str, version: int) -> None:
        identity: dict[str, Any] = {"txnAppId": application, "txnVersion": version}
        save(orders_of(spark, (1, customer)), store, orders, **identity)

    write("ann", "job", 7)
    epoch, files = store.epoch, store.environment.list("segments")
    write("bob", "job", 7)
    write("bob", "job", 3)
    assert store.epoch == epoch
    assert store.environment.list("segments") == files
    assert customers(load(spark, store, orders)) == {1: "ann"}

    write("eve", "other job", 3)
    write("joe", "job", 9)
    assert store.epoch == epoch + 2
    assert customers(load(spark, store, orders)) == {1: "joe"}


def test_a_version_needs_an_application_outside_a_stream(
    spark: SparkSession, store: Store, orders: str
) -> None:
    """Without an application nothing says whose version it is."""
    with pytest.raises(PySparkException, match=r"SessionError: .*txnAppId"):
        save(orders_of(spark, (1, "ann")), store, orders, txnVersion=1)


def test_changes_are_applied_in_their_order(spark: SparkSession, store: Store, orders: str) -> None:
    """Of a deleted row only the key is read; the operation is not stored."""
    save(orders_of(spark, (1, "ann"), (2, "bob"), (3, "joe")), store, orders)
    changes = spark.sql(
        "SELECT id, customer, op FROM VALUES (1L, 'old', 'update_preimage'), "
        "(1L, 'new', 'update_postimage'), (2L, NULL, 'delete'), (3L, NULL, 'd'), "
        "(3L, 'jim', 'I'), (4L, 'tmp', 'c'), (4L, NULL, 'D') AS t(id, customer, op)"
    ).coalesce(1)
    save(changes, store, orders, opColumn="OP", clustered="true")

    assert customers(load(spark, store, orders)) == {1: "new", 3: "jim"}


@pytest.mark.parametrize(
    ("operation", "options", "error"),
    [
        ("'upsert' AS op", {"clustered": "true"}, "UnknownOperationError: .* key .*'upsert'"),
        ("nullif('d', 'd') AS op", {"clustered": "true"}, "UnknownOperationError: .*None"),
        ("1 AS op", {"clustered": "true"}, "SchemaMismatchError: the operation column 'op'"),
        ("'d' AS o", {"clustered": "true"}, "SchemaMismatchError: the data has no operation"),
        ("'d' AS op", {}, "OptionError: option 'opColumn' needs a table with"),
    ],
)
def test_changes_that_cannot_be_told_apart_are_refused(
    spark: SparkSession,
    store: Store,
    orders: str,
    operation: str,
    options: dict[str, str],
    error: str,
) -> None:
    """An unknown operation is not treated as an insert."""
    rows = spark.sql(f"SELECT 1L AS id, 'ann' AS customer, {operation}")

    with refusal(error):
        write_rows(rows, store, orders, opColumn="op", **options)


def test_two_writers_at_once_both_land(spark: SparkSession, store: Store, orders: str) -> None:
    """Upserts do not conflict: each one is an epoch, in some order."""

    def write(key: int) -> None:
        # Spark 4.3 looks for Python sources in the session that is the thread's own.
        spark.createDataFrame([], "none INT")
        save(orders_of(spark, (key, "both"), (9, f"writer {key}")), store, orders)

    epoch = store.epoch
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, (1, 2, 3)))

    rows = customers(load(spark, store, orders))
    assert store.epoch == epoch + 3
    assert rows.pop(9) in ("writer 1", "writer 2", "writer 3")
    assert rows == {1: "both", 2: "both", 3: "both"}


@pytest.mark.parametrize("option", [{"ttl": "5"}, {"ttlColumn": "seconds"}, {}])
def test_rows_that_expire_are_not_written_to_what_a_view_reads(
    store: Store, orders: str, option: dict[str, str]
) -> None:
    """A view that was created before does not follow them; other rows are written."""
    from relstate.connector.sink.write_plan import plan_batch

    store.view_catalog.create(new_view(store, "v", orders))
    options = {"path": store.path, "table": orders, **option}
    rows = StructType().add("id", LongType()).add("customer", StringType())
    rows = rows.add("seconds", LongType()) if "ttlColumn" in option else rows

    if not option:
        plan_batch(options, rows, overwrite=False)
        return
    with pytest.raises(DependentViewsError, match="read by the views v, which were created"):
        plan_batch(options, rows, overwrite=False)


def test_a_table_dropped_under_a_writer_gets_nothing(
    spark: SparkSession, store: Store, orders: str
) -> None:
    """A table of the same name that was created since is another table."""
    from relstate.connector.sink.write_plan import plan_batch

    rows = orders_of(spark, (1, "ann"))
    options = {"path": store.path, "table": orders}
    writer = plan_batch(options, rows.schema, overwrite=False)
    message = writer.write(iter(rows.toArrow().to_batches()))
    store.drop_table(orders)
    store.create_table(orders, "id BIGINT", primary_key=["id"])

    with pytest.raises(Exception, match="'orders' was dropped during the write"):
        writer.commit([message])

    assert store.table(orders).count() == 0


def test_patches_change_parts_of_rows(spark: SparkSession, store: Store) -> None:
    """By columns, fields and entries of maps, with and without a TTL, each micro-batch once."""
    store.create_table(
        "docs",
        "id INT, note STRING, props MAP<STRING, STRING>, a STRUCT<x: INT, y: INT>",
        primary_key=["id"],
        encoding="document",
    )
    struct = "named_struct('x', 1, 'y', 2) AS a"
    whole = "1 AS id", "'old' AS note", "map('a', '1') AS props", struct
    save(spark.range(1).selectExpr(*whole), store, "docs")
    patch = "SELECT 1 AS id, map('a', NULL, 'b', '2') AS props, named_struct('y', 3) AS a"
    save(spark.sql(patch), store, "docs", patch="true")
    assert tuple(store.table("docs").get(1) or ()) == (1, "old", {"b": "2"}, {"x": 1, "y": 3})
    notes = spark.sql("SELECT 1 AS id, CAST(NULL AS STRING) AS note, 60 AS life")
    writer = ForeachBatchWriter(
        store.jobs.write_target("docs"), "app", ttl_column="life", patch=True
    )
    writer(notes, 0)
    writer(spark.sql("SELECT 2 AS id, 'new' AS note, 60 AS life"), 1)
    writer(spark.sql("SELECT 2 AS id, 'repeated' AS note, 60 AS life"), 1)

    table = store.table("docs")
    assert tuple(table.get(1) or ()) == (1, None, {"b": "2"}, {"x": 1, "y": 3})
    assert tuple(table.get(2) or ()) == (2, "new", None, None)
    assert 0 < (table.ttl(2) or 0) <= 60


@pytest.mark.parametrize(
    ("table", "mode", "columns", "message"),
    [
        ("docs", "append", "id STRING, note STRING", "int32 in the table"),
        ("docs", "append", "id INT", "the columns that change"),
        ("docs", "append", "id INT, note STRING, q INT", "unknown column 'q'"),
        ("docs", "overwrite", "id INT, note STRING", "a patch changes parts of rows"),
        ("plain", "append", "id INT, note STRING", "encoding = 'document'"),
        ("keyless", "append", "note STRING", "no row can be patched by key"),
    ],
)
@pytest.mark.usefixtures("spark")  # which parses the columns
def test_patches_that_do_not_fit_are_refused(
    store: Store, table: str, mode: str, columns: str, message: str
) -> None:
    """Before a task runs."""
    store.create_table("docs", "id INT, note STRING", primary_key=["id"], encoding="document")
    store.create_table("plain", "id INT, note STRING", primary_key=["id"])
    store.create_table("keyless", "note STRING")
    options = {"path": store.path, "table": table, "patch": "true"}
    with pytest.raises(errors.RelstateError, match=message):
        plan_batch(options, schema_of(columns), overwrite=mode == "overwrite")
