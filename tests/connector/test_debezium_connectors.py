"""The laws of the events of each of Debezium's connectors, in its documented format.

`debezium/<connector>.jsonl` has messages of one history: rows 1, 2 and 3 are created, row 1 is
changed and row 2 deleted; with tombstones, heartbeats, and metadata of transactions and schemas.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import relstate
from relstate.connector.failure import unwrap_errors
from relstate.connector.sql import Database
from relstate.storage import Store
from relstate.storage.errors import (
    OptionError,
    SchemaMismatchError,
    SessionError,
    UnknownOperationError,
)
from support.versions import TIME_FUNCTIONS, needs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEBEZIUM, CONNECT = "io.debezium.time", "org.apache.kafka.connect.data"
CREATED = datetime(2026, 1, 1, 0, 0, 0, 250_000)
COLUMNS = "{key} BIGINT, name STRING, balance DECIMAL(10,2), created TIMESTAMP"
CASES: dict[str, dict[str, Any]] = {
    "postgresql": {},
    "mysql": {"timestamps": "millis"},
    "mariadb": {},
    "sqlserver": {"sequence_by": "source.commit_lsn"},
    "db2": {"sequence_by": "source.commit_lsn", "timestamps": {"Created": "millis"}},
    "informix": {"sequence_by": "source.commit_lsn", "timestamps": "millis"},
    "oracle": {"sequence_by": "source.rs_id"},
    "mongodb": {"key": "key"},
    "flattened": {},
}


def messages(name: str) -> list[tuple[str | None, str | None]]:
    """Return the keys and values of the messages of a file."""
    text = (Path(__file__).parent / "debezium" / f"{name}.jsonl").read_text()
    parsed = [json.loads(line) for line in text.splitlines()]
    sides = [(message["key"], message["value"]) for message in parsed]
    return [(as_json(key), as_json(value)) for key, value in sides]


def as_json(value: Any) -> str | None:
    """Return a value as JSON; None stays None."""
    return None if value is None else json.dumps(value)


def frame_of(spark: SparkSession, rows: Sequence[tuple[str | None, str | None]]) -> DataFrame:
    """Return messages as rows from Kafka."""
    return spark.createDataFrame(rows, "key STRING, value STRING").coalesce(1)


@pytest.mark.parametrize("connector", CASES)
def test_a_table_ends_with_the_rows_of_the_database(
    spark: SparkSession, db: Database, store: Store, connector: str
) -> None:
    """Whatever the order of arrival: the last message comes first here."""
    arguments = CASES[connector]
    position = "STRING" if "sequence_by" in arguments else "BIGINT"
    key = "_id" if connector == "mongodb" else "id"
    columns = COLUMNS.format(key=key)
    store.create_table("users", f"{columns}, at {position}", primary_key=[key], version_column="at")
    events = frame_of(spark, messages(connector)[::-1])

    db.apply_changes(
        "users",
        db.debezium(events, columns, **arguments),
        [key],
        "_sequence",
        apply_as_deletes="_op = 'delete'",
        except_column_list=["_op", "_sequence"],
    )

    rows = store.table("users").to_arrow([key, "name", "balance", "created"]).to_pylist()
    assert [(row[key], row["name"], row["balance"]) for row in rows] == [
        (1, "Anne Marie", Decimal("12.30")),
        (3, "Cy", Decimal("-0.05")),
    ]
    assert [row["created"].replace(tzinfo=None) for row in rows] == [CREATED, CREATED]


def test_changes_in_one_millisecond_are_ordered_by_mongodb_s_ordinal(spark: SparkSession) -> None:
    """The time is equal, and of the number only the ordinal differs."""
    (_, created), (_, changed) = messages("mongodb")[1:3]
    frame = frame_of(spark, [(None, changed), (None, created)])
    changed_at, created_at = relstate.debezium(frame, "_id BIGINT").collect()

    assert (changed_at["_sequence"], created_at["_sequence"]) == (
        1767225600100 * (1 << 21) + 2,
        1767225600100 * (1 << 21) + 1,
    )


def test_values_of_mongodb_are_unwrapped(spark: SparkSession) -> None:
    """Extended JSON, versions 1 and 2, also within lists; a text with its words stays as it is."""
    documents: list[dict[str, Any]] = [
        {
            "_id": {"$oid": "5f43a1c2d3e4f5a6b7c8d9e0"},
            "n": [{"$numberLong": "1"}, {"$numberInt": "2"}],
            "d": {"$date": {"$numberLong": "-1"}},
            "b": {"$binary": "a2Fma2E=", "$type": "00"},
            "x": {"$numberDouble": "1.5"},
            "t": '{"$oid": "5f43"}',
        },
        {
            "_id": "5f43a1c2d3e4f5a6b7c8d9e0",
            "n": [1, 2],
            "d": {"$date": "1969-12-31T23:59:59.999Z"},
            "b": {"$binary": {"base64": "a2Fma2E=", "subType": "00"}},
            "x": 1.5,
            "t": '{"$oid": "5f43"}',
        },
    ]
    source = {"connector": "mongodb", "ts_ms": 1, "ord": 1}
    events = [{"op": "c", "after": json.dumps(row), "source": source} for row in documents]
    frame = frame_of(spark, [(None, json.dumps(event)) for event in events])
    schema = "_id STRING, n ARRAY<INT>, d TIMESTAMP_NTZ, b BINARY, x DOUBLE, t STRING"
    rows = [tuple(row)[:6] for row in relstate.debezium(frame, schema).collect()]

    moment = datetime(1969, 12, 31, 23, 59, 59, 999_000)
    expected = (documents[1]["_id"], [1, 2], moment, b"kafka", 1.5, '{"$oid": "5f43"}')
    assert rows == [expected, expected]


@pytest.mark.parametrize(
    ("number", "text"), [(1, "capture.mode=change_streams_update_full;"), (2, "pass key")]
)
def test_an_event_of_mongodb_without_a_document_fails_the_query(
    spark: SparkSession, number: int, text: str
) -> None:
    """An update by its fields alone, and a delete without the message's key."""
    update, delete = (json.loads(messages("mongodb")[i][1] or "") for i in (2, 4))
    event = {**update, "after": None} if number == 1 else delete
    frame = relstate.debezium(frame_of(spark, [(None, json.dumps(event))]), "_id BIGINT")

    with pytest.raises(SchemaMismatchError, match=text), unwrap_errors():
        frame.collect()


@pytest.mark.parametrize("number", range(4))
def test_a_connector_without_an_order_is_refused_by_name(spark: SparkSession, number: int) -> None:
    """The time would be a wrong order; another field may be one."""
    message = messages("unordered")[number]
    frame = frame_of(spark, [message])
    name = json.loads(message[1] or "")["source"]["connector"]

    with pytest.raises(OptionError, match=f"connector {name} have no position"), unwrap_errors():
        relstate.debezium(frame, "id INT").collect()
    (row,) = relstate.debezium(frame, "id INT", sequence_by="ts_ms").collect()
    assert row["_sequence"] == 1767225600000


def test_a_flattened_event_needs_a_position_and_an_operation(spark: SparkSession) -> None:
    """Without a position it is refused, and without a mark it is not known to be one."""
    flat = frame_of(spark, [(None, '{"id": 1, "__op": "u"}')])
    with pytest.raises(OptionError, match=r"add\.fields"), unwrap_errors():
        relstate.debezium(flat, "id INT").collect()
    plain = frame_of(spark, [(None, '{"id": 1, "__lsn": 5}')])
    with pytest.raises(UnknownOperationError, match=r"add\.fields=op"), unwrap_errors():
        relstate.debezium(plain, "id INT").collect()


def with_types(row: dict[str, Any], names: dict[str, str | None], scale: str | None = None) -> str:
    """Return an insert with a Kafka Connect schema that has these schema types."""
    parameters = {} if scale is None else {"parameters": {"scale": scale}}
    fields = [
        {"type": "any", "field": field, "name": name, **parameters} for field, name in names.items()
    ]
    after = {"type": "struct", "field": "after", "fields": fields}
    payload = {"before": None, "after": row, "op": "c", "ts_ms": 5, "source": {"lsn": 1}}
    return json.dumps({"schema": {"type": "struct", "fields": [after]}, "payload": payload})


def in_base64(number: int) -> str:
    """Return a number as Java's ``BigInteger.toByteArray`` in base64."""
    octets = number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)
    return b64encode(octets).decode()


def test_decimals_of_bytes_are_exact(spark: SparkSession) -> None:
    """Of 1 to 38 digits, both signs, and scales that are negative or longer than the number."""
    digits = int("9" * 38)
    numbers = (0, 1, -1, 127, 128, -128, -129, 1 << 64, -(1 << 64), digits, -digits)
    cases = [*((number, 3) for number in numbers), (-7, -2), (5, 0)]
    events = [
        with_types({"v": in_base64(number), "w": {"scale": scale, "value": in_base64(number)}},
                   {"v": f"{CONNECT}.Decimal", "w": "io.debezium.data.VariableScaleDecimal"},
                   str(scale))
        for number, scale in cases
    ]  # fmt: skip
    frame = relstate.debezium(
        frame_of(spark, [(None, event) for event in events]), "v DECIMAL(38,3), w DECIMAL(38,3)"
    )
    expected = [Decimal(f"{number}E{-scale}") for number, scale in cases]

    assert [tuple(row)[:2] for row in frame.collect()] == [(value, value) for value in expected]


@pytest.fixture
def time_type(spark: SparkSession) -> Iterator[None]:
    """Spark's type TIME, which is off by default."""
    spark.conf.set("spark.sql.timeType.enabled", "true")
    yield
    spark.conf.unset("spark.sql.timeType.enabled")


def test_a_time_needs_spark_s_type(spark: SparkSession) -> None:
    """The error names the column and the setting."""
    with pytest.raises(SessionError, match=r"'v' is TIME.*spark\.sql\.timeType\.enabled"):
        relstate.debezium(frame_of(spark, []), "v TIME(6)")


@pytest.mark.usefixtures("time_type")
@needs(TIME_FUNCTIONS)
def test_times_are_read_in_the_unit_of_their_schema(spark: SparkSession) -> None:
    """Milliseconds, microseconds, nanoseconds and text; without a schema by ``timestamps``."""
    cases: list[tuple[Any, str | None]] = [
        (37_230_000, f"{DEBEZIUM}.Time"),
        (37_230_000, f"{CONNECT}.Time"),
        (37_230_000_000, f"{DEBEZIUM}.MicroTime"),
        (37_230_000_000_999, f"{DEBEZIUM}.NanoTime"),
        ("10:20:30Z", f"{DEBEZIUM}.ZonedTime"),
        ("10:20:30", None),
        (37_230, None),
    ]
    events = [(None, with_types({"v": value}, {"v": name})) for value, name in cases]
    frame = relstate.debezium(frame_of(spark, events), "v TIME(6)", timestamps="seconds")
    texts = frame.selectExpr("CAST(v AS STRING) AS v").collect()
    assert [row["v"] for row in texts] == ["10:20:30"] * len(cases)

    days = [(None, with_types({"v": "2026-01-01Z"}, {"v": f"{DEBEZIUM}.IsoDate"}))]
    (row,) = relstate.debezium(frame_of(spark, days), "v DATE").collect()
    assert row["v"] == date(2026, 1, 1)


@pytest.mark.usefixtures("time_type")
@pytest.mark.parametrize(
    ("data_type", "value", "name", "text"),
    [
        pytest.param("TIME(6)", 5, None, "timestamps='millis'", marks=needs(TIME_FUNCTIONS)),
        pytest.param(
            "TIME(6)",
            90_000_000,
            f"{DEBEZIUM}.Time",
            "has 90000000 of",
            marks=needs(TIME_FUNCTIONS),
        ),
        pytest.param(
            "TIME(6)",
            "10:20:30+01:00",
            f"{DEBEZIUM}.ZonedTime",
            r"has 10:20:30\+01:00",
            marks=needs(TIME_FUNCTIONS),
        ),
        ("STRING", "BM4=", f"{CONNECT}.Decimal", "decimal.handling.mode"),
        ("DECIMAL(3,2)", in_base64(1000), f"{CONNECT}.Decimal", "a DECIMAL that holds"),
        ("DECIMAL(38,0)", in_base64(1 << 140), f"{CONNECT}.Decimal", "a DECIMAL that holds"),
    ],
)
def test_a_value_that_does_not_fit_its_column_fails_the_query(
    spark: SparkSession, data_type: str, value: Any, name: str | None, text: str
) -> None:
    """No time is longer than a day, and no bytes are a text."""
    event = with_types({"v": value}, {"v": name}, "2")

    with pytest.raises(SchemaMismatchError, match=f"'v'.*{text}"), unwrap_errors():
        relstate.debezium(frame_of(spark, [(None, event)]), f"v {data_type}").collect()


def test_unknown_units_and_columns_of_units_are_refused(spark: SparkSession) -> None:
    """The error lists the units."""
    frame = frame_of(spark, [])
    with pytest.raises(OptionError, match="'weeks'; the units are days, seconds"):
        relstate.debezium(frame, "v TIMESTAMP", timestamps="weeks")
    with pytest.raises(OptionError, match="'w'"):
        relstate.debezium(frame, "v TIMESTAMP, w INT", timestamps={"w": "millis"})
