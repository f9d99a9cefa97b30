"""The laws of change feeds read as batches, and of time travel by time, through Spark."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from relstate.storage import Store
from relstate.storage.errors import RelstateError, SchemaError
from support.planning import plan_read, refusal
from support.spark import customers, load, orders_of, save
from support.stores import upsert

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from relstate.connector.sql import Database

Told = list[tuple[str, int, int, str]]

ALL: Told = [
    ("insert", 3, 1, "ann"),
    ("insert", 3, 2, "bob"),
    ("delete", 4, 1, "ann"),
    ("insert", 4, 3, "joe"),
    ("update_postimage", 4, 2, "eve"),
    ("update_preimage", 4, 2, "bob"),
    ("update_postimage", 5, 2, "bob"),
    ("update_preimage", 5, 2, "eve"),
]


def row(key: int, customer: str) -> tuple[Any, ...]:
    """Return an order."""
    return key, customer, Decimal("1.00"), None


@pytest.fixture
def changed(store: Store, orders: str) -> str:
    """Orders with changes at the epochs 3, 4 and 5, and another table's commit at 6."""
    upsert(store, orders, [row(1, "ann"), row(2, "bob")])
    upsert(store, orders, [row(2, "eve"), row(3, "joe")], [row(1, "")])
    upsert(store, orders, [row(2, "bob"), row(3, "joe")])
    store.create_table("other", "k INT", primary_key=["k"])
    return orders


def feed(spark: SparkSession, store: Store, table: str, **options: Any) -> DataFrame:
    """Return a change feed as a DataFrame."""
    return load(spark, store, table, readChangeFeed="true", **options)


def sorted_changes(rows: DataFrame) -> Told:
    """Return the rows of a feed in a fixed order."""
    changes = rows.select("_commit_version", "_change_type", "id", "customer").collect()
    return sorted(
        ((kind, epoch, key, name) for epoch, kind, key, name in changes),
        key=lambda change: (change[1], change),
    )


def test_a_feed_has_the_columns_that_delta_s_has(
    spark: SparkSession, store: Store, changed: str
) -> None:
    """They follow the table's columns; the timestamp is the commit's."""
    rows = feed(spark, store, changed, startingVersion=4, endingVersion=4)

    assert rows.schema.toDDL() == (
        "id BIGINT NOT NULL,customer STRING NOT NULL,amount DECIMAL(12,2),note STRING,"
        "_change_type STRING NOT NULL,_commit_version BIGINT NOT NULL,"
        "_commit_timestamp TIMESTAMP NOT NULL"
    )
    assert sorted_changes(rows) == ALL[2:6]
    (instant,) = {row[0] for row in rows.selectExpr("unix_micros(_commit_timestamp)").collect()}
    assert instant == store.state_at(4).time


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingVersion": 1}, ALL),
        ({"startingVersion": 4}, ALL[2:]),
        ({"startingVersion": 4, "startingBoundInclusive": "false"}, ALL[6:]),
        ({"startingVersion": 3, "endingVersion": 4}, ALL[:6]),
        ({"startingVersion": 3, "endingVersion": 4, "endingBoundInclusive": "false"}, ALL[:2]),
        ({"startingVersion": 6}, []),
        ({"startingVersion": 6, "startingBoundInclusive": "false"}, []),
        (
            {"startingVersion": 4, "endingVersion": 4, "startingBoundInclusive": "false"},
            [],
        ),
        (
            {"startingVersion": 4, "computeUpdates": "false", "endingVersion": 4},
            [
                ("delete", 4, 1, "ann"),
                ("delete", 4, 2, "bob"),
                ("insert", 4, 2, "eve"),
                ("insert", 4, 3, "joe"),
            ],
        ),
        (
            {"startingVersion": 4, "deduplicationMode": "NETCHANGES"},
            [("delete", 4, 1, "ann"), ("insert", 4, 3, "joe")],
        ),
    ],
)
def test_a_range_is_of_versions(
    spark: SparkSession, store: Store, changed: str, options: dict[str, Any], expected: Told
) -> None:
    """Both ends are included unless an option says otherwise; option names are in any case."""
    assert sorted_changes(feed(spark, store, changed, **options)) == expected


def test_a_range_is_of_times(spark: SparkSession, store: Store, changed: str) -> None:
    """From the first commit at or after the start to the last one at or before the end."""
    times = {epoch: store.state_at(epoch).time for epoch in (3, 4, 5)}

    def text(time: int) -> str:
        start = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        return (start + datetime.timedelta(microseconds=time)).isoformat()

    def changes_between(**options: Any) -> Told:
        return sorted_changes(feed(spark, store, changed, **options))

    at, after = text(times[4]), text(times[4] + 1)
    assert changes_between(startingTimestamp=at) == ALL[2:]
    assert changes_between(startingTimestamp=after) == ALL[6:]
    assert changes_between(startingTimestamp=at, startingBoundInclusive="false") == ALL[6:]
    assert changes_between(startingTimestamp="2000-01-01", endingTimestamp=at) == ALL[:6]
    exclusive = changes_between(
        startingTimestamp="2000-01-01", endingTimestamp=at, endingBoundInclusive="false"
    )
    assert exclusive == ALL[:2]
    assert changes_between(startingTimestamp="2099-01-01 08:30", timeZone="Europe/Rome") == []


def test_columns_are_chosen(spark: SparkSession, store: Store, changed: str) -> None:
    """An option or a schema chooses columns, those of the feed included; partitions are counted."""
    rows = feed(
        spark, store, changed, startingVersion=4, columns="_change_type, id", numPartitions=3
    )
    assert rows.columns == ["_change_type", "id"]
    assert rows.rdd.getNumPartitions() == 3
    assert rows.count() == 6

    reader = spark.read.format("relstate").schema("_commit_version BIGINT, Customer STRING")
    options: dict[str, Any] = {"table": changed, "readChangeFeed": "true", "startingVersion": 5}
    chosen = reader.options(**options).load(store.path)
    assert sorted(map(tuple, chosen.collect())) == [(5, "bob"), (5, "eve")]


def test_a_feed_stays_as_it_was_planned(spark: SparkSession, store: Store, changed: str) -> None:
    """Later commits are not in it; a temporary view of it works in Spark's SQL."""
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW feed USING relstate OPTIONS "
        f"(path '{store.path}', `table` '{changed}', readChangeFeed 'true', startingVersion '5')"
    )
    assert sorted_changes(spark.table("feed")) == ALL[6:]
    upsert(store, changed, [row(9, "zoe")])

    assert sorted_changes(spark.table("feed")) == ALL[6:]
    assert sorted_changes(feed(spark, store, changed, startingVersion=7)) == [
        ("insert", 7, 9, "zoe")
    ]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, "OptionError: a batch read of a change feed needs a start"),
        ({"startingVersion": "latest"}, "'latest', which is for streams"),
        ({"startingVersion": 0}, "EpochNotFoundError: there is no epoch 0"),
        ({"startingVersion": 7}, "EpochNotFoundError: there is no epoch 7: .* at epoch 6"),
        ({"startingVersion": 3, "endingVersion": 7}, "EpochNotFoundError: there is no epoch 7"),
        ({"startingVersion": 5, "endingVersion": 4}, "'startingVersion' is '5', .*Version' is '4'"),
        (
            {"startingVersion": 3, "endingTimestamp": "2999-01-01"},
            "by versions or by timestamps",
        ),
        ({"startingTimestamp": "tomorrow"}, "OptionError: .*'tomorrow' is not a time such as"),
        (
            {"startingTimestamp": "2000-01-01", "endingTimestamp": "2000-01-02"},
            "EpochNotFoundError: 2000-01-02T00:00:00.* is before the first epoch",
        ),
        ({"startingVersion": 3, "deduplicationMode": "none"}, "raw changes are not stored"),
        ({"startingVersion": 3, "deduplicationMode": "all"}, "it must be 'dropCarryovers' or"),
        ({"startingVersion": 3, "endingBoundInclusive": "true"}, "needs 'endingVersion' or"),
        ({"startingVersion": 3, "versionAsOf": 3}, "'versionAsOf' has no meaning for a read"),
        ({"startingVersion": 3, "maxEpochsPerTrigger": 3}, "'maxEpochsPerTrigger' has no meaning"),
        ({"startingVersion": 3, "columns": "id, nothing"}, "SchemaMismatchError: 'nothing' is not"),
        ({"startingVersion": 3, "table": "nothing"}, "TableNotFoundError"),
        ({"startingVersion": 3, "timeZone": "UTC"}, "'timeZone' is the zone of local times"),
    ],
)
def test_what_cannot_be_read_is_refused(
    store: Store, changed: str, options: dict[str, Any], error: str
) -> None:
    """The error is raised when the read is planned, and says what to do."""
    with refusal(error):
        plan_read(store, **{"table": changed, "readChangeFeed": "true", **options})


def test_a_read_names_its_epoch_by_a_time(
    spark: SparkSession, db: Database, store: Store, changed: str
) -> None:
    """The time has a zone, or is in UTC or in the zone of an option; also through the database."""
    time = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(
        microseconds=store.state_at(4).time
    )
    local = time.replace(tzinfo=None).isoformat(sep=" ")

    assert customers(load(spark, store, changed, timestampAsOf=time.isoformat())).keys() == {2, 3}
    assert customers(load(spark, store, changed, timestampAsOf=local)).keys() == {2, 3}
    rome = time + datetime.timedelta(hours=5)
    east = rome.replace(tzinfo=None).isoformat(sep=" ")
    at_time = load(spark, store, changed, timestampAsOf=east, timeZone="+05:00")
    assert customers(at_time) == {2: "eve", 3: "joe"}
    assert customers(db.table(changed, timestamp=time)) == {2: "eve", 3: "joe"}
    assert customers(db.table(changed, timestamp=local)) == {2: "eve", 3: "joe"}


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"timestampAsOf": "2000-01-01"}, "EpochNotFoundError: 2000-01-01T00:00:00.* is before"),
        ({"timestampAsOf": "noon"}, "OptionError: .*'noon' is not a time such as 2026-03-01"),
        ({"timestampAsOf": "2999-01-01", "versionAsOf": "3"}, "both name an epoch"),
        ({"timestampAsOf": "2099-01-01", "timeZone": "Mars"}, "there is no time zone 'Mars'"),
        (
            {"timestampAsOf": "2999-01-01", "timeZone": "Europe/Rome"},
            "OptionError: 2999-01-01 .* zone databases disagree",
        ),
    ],
)
def test_a_time_that_names_no_epoch_is_refused(
    store: Store, changed: str, options: dict[str, Any], error: str
) -> None:
    """The error says what to do."""
    with refusal(error):
        plan_read(store, changed, **options)


def test_a_feed_feeds_another_table(spark: SparkSession, store: Store, changed: str) -> None:
    """The change types of a feed are operations for `opColumn`: the copy is equal."""
    store.create_table(
        "copy",
        "id BIGINT, customer STRING NOT NULL, amount DECIMAL(12,2), note STRING",
        primary_key=["id"],
    )
    changes = feed(spark, store, changed, startingVersion=1, deduplicationMode="netChanges")
    ready = changes.drop("_commit_version", "_commit_timestamp").coalesce(1)
    save(ready, store, "copy", opColumn="_change_type", clustered="true")

    assert customers(load(spark, store, "copy")) == customers(load(spark, store, changed))
    assert orders_of(spark, (1, "x")).count() == 1


@pytest.mark.parametrize("name", ["_change_type", "_COMMIT_VERSION", "_commit_timestamp"])
def test_no_table_and_no_view_gets_a_column_of_the_feed(
    spark: SparkSession, db: Database, store: Store, orders: str, name: str
) -> None:
    """By no statement and no write, in any case; the name that is advised works."""
    before = store.epoch
    for statement in (
        f"CREATE TABLE t ({name} STRING)",
        f"CREATE TABLE t (id INT PRIMARY KEY, {name} INT)",
        f"CREATE TABLE t (PRIMARY KEY (id)) AS SELECT id, 1 AS {name} FROM orders",
        f"ALTER TABLE orders ADD COLUMN {name} INT",
        f"ALTER TABLE orders RENAME COLUMN note TO {name}",
        f"CREATE MATERIALIZED VIEW v AS SELECT id, note AS {name} FROM orders",
        f"CREATE MATERIALIZED VIEW v (id, {name}) AS SELECT id, note FROM orders",
    ):
        with pytest.raises(RelstateError, match=name):
            db.sql(statement)
    rows = spark.sql(f"SELECT 1L AS id, 'ann' AS customer, 'x' AS {name}")
    with pytest.raises(Exception, match="SchemaError"):
        save(rows, store, orders, mergeSchema="true")
    with pytest.raises(SchemaError):
        db.write(rows, "t", "error")
    assert store.epoch == before
    advised = name.strip("_").lower()
    db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT id, note AS {advised} FROM orders")
    db.sql("INSERT INTO orders (id, customer, note) VALUES (1, 'ann', 'x')")
    db.refresh()
    assert [row[1] for row in db.sql("SELECT * FROM v").collect()] == ["x"]
