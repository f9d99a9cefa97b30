"""The laws of change feeds as messages for Kafka: Debezium's envelopes, and rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as f

from relstate.connector.failure import unwrap_errors
from relstate.connector.options import feed_options
from relstate.connector.source.change_events import feed_schema_of
from relstate.storage import Store, TableSchema
from relstate.storage.errors import OptionError, SchemaMismatchError
from relstate.storage.schema.ddl import parse_columns
from support.spark import load

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from relstate.connector.sql import Database

COLUMNS = (
    "id INT, day DATE, amount DECIMAL(20,4), at TIMESTAMP, local TIMESTAMP_NTZ, raw BINARY, "
    'ratio DOUBLE, small FLOAT, ok BOOLEAN, big BIGINT, `a "name"` STRING, tags ARRAY<STRING>, '
    "facts STRUCT<a: INT, b: STRING>, names MAP<STRING, INT>"
)


@pytest.fixture
def things(db: Database) -> str:
    """A table of every type that Debezium's JSON holds, with changes of every kind."""
    db.sql(f"CREATE TABLE things ({COLUMNS}, PRIMARY KEY (id, day))")
    db.sql(
        """
        INSERT INTO things
        SELECT id, DATE'2026-01-31' + CAST(id * 400000 AS INT), id * 1234567.8901,
            TIMESTAMP_MICROS(id * -17), TIMESTAMP_NTZ'2026-03-29 02:30:00.000001',
            CAST(concat('x', id) AS BINARY),
            CASE id WHEN 1 THEN 'NaN' WHEN 2 THEN '-0.0' WHEN 3 THEN '-Infinity' ELSE 0.1 END,
            CAST(0.1 AS FLOAT), id % 2 = 0, 9223372036854775807 - id, concat('"q"\\n\u00e9', id),
            CASE WHEN id > 0 THEN array('a', NULL, 'b"') END,
            CASE WHEN id > 1 THEN named_struct('a', CAST(id AS INT), 'b', CAST(NULL AS STRING)) END,
            map('k', CAST(id AS INT), 'l', NULL)
        FROM range(6)
        """
    )
    db.sql("UPDATE things SET amount = -0.5, tags = array(), big = NULL WHERE id IN (1, 2)")
    db.sql("DELETE FROM things WHERE id IN (2, 4)")
    db.sql("INSERT INTO things (id, day) VALUES (4, DATE'3121-05-27'), (7, DATE'0001-01-01')")
    return "things"


# What Spark's Kafka sink takes, by its guide: any of these columns, and always a value.
KAFKA_COLUMNS = {
    "topic": ["string"],
    "key": ["string", "binary"],
    "value": ["string", "binary"],
    "headers": ["array<struct<key:string,value:binary>>"],
    "partition": ["int"],
}


@pytest.mark.parametrize("change_format", ["debezium", "json"])
def test_messages_have_the_columns_of_sparks_kafka_sink(change_format: str) -> None:
    """Nothing has to be converted or left out before ``format("kafka")``."""
    texts = {"path": "/s", "table": "t", "startingVersion": "1", "changeFormat": change_format}
    table = TableSchema.build(parse_columns("id INT, name STRING"), ["id"])
    schema = feed_schema_of(feed_options(texts), table)

    assert schema is not None
    assert [field.name for field in schema.fields] == ["key", "value"]
    for field in schema.fields:
        assert field.dataType.simpleString() in KAFKA_COLUMNS[field.name]
    assert schema["value"].nullable, "a tombstone has no value"


def changes(spark: SparkSession, store: Store, table: str, **options: Any) -> DataFrame:
    """Return all changes of a table as messages."""
    texts = {"startingVersion": 1, "changeFormat": "debezium", **options}
    return load(spark, store, table, readChangeFeed="true", **texts)


def messages(frame: DataFrame) -> list[tuple[Any, Any]]:
    """Return messages as values of JSON, in order."""

    def value_of(text: str | None) -> Any:
        return None if text is None else json.loads(text)

    return [(value_of(key), value_of(value)) for key, value in frame.collect()]


def copy_of(db: Database, table: str, frame: DataFrame, **stream: Any) -> None:
    """Apply messages to a new, empty copy of a table, which has a version column."""
    if "copies" not in db.store.tables():
        db.sql(
            f"CREATE TABLE copies ({COLUMNS}, epoch BIGINT, PRIMARY KEY (id, day)) "
            "TBLPROPERTIES ('version_column' = 'epoch')"
        )
    query = db.apply_changes(
        "copies",
        db.debezium(frame, COLUMNS),
        ["id", "day"],
        "_sequence",
        apply_as_deletes="_op = 'delete'",
        except_column_list=["_op", "_sequence"],
        **stream,
    )
    if query is not None:
        query.awaitTermination()


def assert_is_copy(store: Store, table: str) -> None:
    """Check that the copy has exactly the rows of the table."""
    names = store.table(table).to_arrow().column_names
    copied, rows = (store.table(name).to_arrow(names) for name in ("copies", table))
    order = [(name, "ascending") for name in ("id", "day")]
    # NaN is not equal to itself, but its text is.
    assert str(copied.sort_by(order).to_pylist()) == str(rows.sort_by(order).to_pylist())
    assert rows.num_rows == 6


def test_debezium_s_events_of_a_feed_make_the_same_table(
    spark: SparkSession, db: Database, store: Store, things: str
) -> None:
    """The law of the round trip: in any order of events, net or commit by commit, twice."""
    copy_of(db, things, changes(spark, store, things).orderBy("value"))
    assert_is_copy(store, things)
    copy_of(db, things, from_kafka(changes(spark, store, things)))
    assert_is_copy(store, things)
    copy_of(db, things, changes(spark, store, things, tombstonesOnDelete="false"))
    assert_is_copy(store, things)

    db.sql("DROP TABLE copies")
    copy_of(db, things, changes(spark, store, things, deduplicationMode="netChanges"))
    assert_is_copy(store, things)


def test_a_stream_of_events_makes_the_same_table(
    spark: SparkSession, db: Database, store: Store, things: str, tmp_path: Path
) -> None:
    """It begins with the whole table as reads, and goes on with its changes."""

    def run() -> None:
        stream = spark.readStream.format("relstate").options(
            table=things, readChangeFeed="true", changeFormat="debezium"
        )
        copy_of(
            db,
            things,
            stream.load(store.path),
            checkpoint=str(tmp_path / "checkpoint"),
            trigger={"availableNow": True},
        )

    run()
    assert_is_copy(store, things)
    db.sql("UPDATE things SET ratio = 7.5 WHERE id < 3")
    db.sql("DELETE FROM things WHERE id = 0")
    db.sql("INSERT INTO things (id, day) VALUES (8, DATE'2026-01-01')")
    run()
    assert_is_copy(store, things)


def test_an_event_is_debezium_s_envelope(
    spark: SparkSession, db: Database, store: Store, tmp_path: Path
) -> None:
    """Operations, images, position and time; a tombstone after a delete, unless it is left out."""
    db.sql("CREATE TABLE orders (id INT, note STRING, PRIMARY KEY (id))")
    db.sql("INSERT INTO orders VALUES (1, 'a')")
    first = store.epoch
    db.sql("UPDATE orders SET note = 'b'")
    db.sql("DELETE FROM orders")
    times = [store.state_at(first + step).time // 1000 for step in range(3)]
    a, b = {"id": 1, "note": "a"}, {"id": 1, "note": "b"}

    def event(step: int, op: str, before: Any, after: Any) -> tuple[Any, Any]:
        source = {"connector": "relstate", "table": "orders", "epoch": first + step}
        source |= {"ts_ms": times[step], "snapshot": "false"}
        value = {"before": before, "after": after, "source": source, "op": op}
        return {"id": 1}, value | {"ts_ms": times[step]}

    events = [event(0, "c", None, a), event(1, "u", a, b), event(2, "d", b, None)]
    feed = changes(spark, store, "orders")
    assert feed.schema.toDDL() == "key STRING NOT NULL,value STRING"
    assert messages(feed) == [*events, ({"id": 1}, None)]
    assert messages(changes(spark, store, "orders", tombstonesOnDelete="false")) == events
    notes = messages(changes(spark, store, "orders", columns="note", endingVersion=first))
    assert [value["after"] for _, value in notes] == [{"note": "a"}]

    db.sql("INSERT INTO orders VALUES (5, 'e')")
    stream = spark.readStream.format("relstate").options(
        table="orders", readChangeFeed="true", changeFormat="debezium"
    )
    writer = stream.load(store.path).writeStream.option("checkpointLocation", str(tmp_path / "c"))
    query = writer.format("memory").queryName("events").trigger(availableNow=True).start()
    query.awaitTermination()
    ((_, value),) = messages(spark.table("events"))
    assert (value["op"], value["source"]["snapshot"]) == ("r", "true")


def test_the_format_json_is_the_row_of_each_key(
    spark: SparkSession, db: Database, store: Store
) -> None:
    """A delete has no value, as Kafka's compacted topics want it; keys have the key's columns."""
    db.sql("CREATE TABLE events (page STRING, ms INT)")
    db.sql("INSERT INTO events VALUES ('/home', 12)")
    db.sql("UPDATE events SET ms = 13")
    db.sql("DELETE FROM events")

    rows = messages(changes(spark, store, "events", changeFormat="JSON"))
    assert [value for _, value in rows] == [
        {"page": "/home", "ms": 12},
        {"page": "/home", "ms": 13},
        None,
    ]
    assert len({key["_row_id"] for key, _ in rows}) == 1


def from_kafka(frame: DataFrame) -> DataFrame:
    """Return messages with the columns of Spark's Kafka source, the last offset first.

    Topic, partition, timestamp and timestampType are left out.
    """
    rows = [
        (row.key.encode(), None if row.value is None else row.value.encode(), offset)
        for offset, row in enumerate(frame.collect())
    ]
    schema = "key BINARY, value BINARY, offset BIGINT"
    return frame.sparkSession.createDataFrame(rows[::-1], schema)


def test_rows_that_are_read_from_kafka_make_the_same_table(
    spark: SparkSession, db: Database, store: Store, things: str
) -> None:
    """As docs/guides/kafka.md reads the format json: a delete has its key, offsets are an order."""
    read = from_kafka(changes(spark, store, things, changeFormat="json"))
    row = f.from_json(f.coalesce("value", "key").cast("string"), COLUMNS)
    copy = read.select(row.alias("row"), "offset", "value").select("row.*", "offset", "value")
    db.sql(
        f"CREATE TABLE copies ({COLUMNS}, at_offset BIGINT, PRIMARY KEY (id, day)) "
        "TBLPROPERTIES ('version_column' = 'at_offset')"
    )
    db.apply_changes(
        "copies",
        copy,
        ["id", "day"],
        "offset",
        apply_as_deletes="value IS NULL",
        except_column_list=["offset", "value"],
    )
    assert_is_copy(store, things)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"changeFormat": "avro"}, OptionError, "it must be 'debezium' or 'json'"),
        ({"computeUpdates": "false"}, OptionError, "leave out option 'computeUpdates'"),
        ({"changeFormat": "json", "tombstonesOnDelete": "true"}, OptionError, "needs"),
        ({"columns": "id, _change_type"}, SchemaMismatchError, "op and source.epoch"),
        ({"columns": "idd"}, SchemaMismatchError, "idd"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    spark: SparkSession,
    store: Store,
    orders: str,
    options: dict[str, str],
    error: type[Exception],
    text: str,
) -> None:
    """The error names the option and says what to write."""
    with pytest.raises(error, match=text), unwrap_errors():
        changes(spark, store, orders, **options)


def test_a_schema_for_messages_is_theirs(spark: SparkSession, store: Store, orders: str) -> None:
    """One of the table's columns would be read from the wrong ones."""
    reader = (
        spark.read.format("relstate")
        .schema("id BIGINT, value STRING")
        .options(table=orders, readChangeFeed="true", startingVersion=1, changeFormat="debezium")
    )
    with pytest.raises(SchemaMismatchError, match="key STRING and value STRING"), unwrap_errors():
        reader.load(store.path).collect()
