"""The laws of Debezium's change events as rows of changes, and as a source of `apply_changes`."""

from __future__ import annotations

import base64
import json
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
    RelstateError,
    SchemaMismatchError,
    UnknownOperationError,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLACEHOLDER = "__debezium_unavailable_value"


@pytest.fixture
def users(db: Database) -> str:
    """The name of a table of users whose version column is ``at``."""
    db.sql(
        "CREATE TABLE users (id INT, name STRING, at BIGINT, PRIMARY KEY (id)) "
        "TBLPROPERTIES ('version_column' = 'at')"
    )
    return "users"


def event(op: str, before: Any, after: Any, lsn: int, *, wrapped: bool = False) -> str:
    """Return an event of PostgreSQL."""
    payload = {"before": before, "after": after, "op": op, "ts_ms": 5, "source": {"lsn": lsn}}
    return json.dumps({"schema": {"type": "struct"}, "payload": payload} if wrapped else payload)


def change(op: str, columns: Any, /, **source: Any) -> str:
    """Return an event of a database with this position."""
    sides = {"before": columns if op == "d" else None, "after": None if op == "d" else columns}
    return json.dumps({**sides, "op": op, "ts_ms": 5, "source": source})


def with_schema(row: dict[str, Any], **names: str | None) -> str:
    """Return an insert with a Kafka Connect schema that has these schema types."""
    fields = [{"type": "any", "field": field, "name": name} for field, name in names.items()]
    sides = [{"type": "struct", "field": side, "fields": fields} for side in ("before", "after")]
    payload = {"before": None, "after": row, "op": "c", "ts_ms": 5, "source": {"lsn": 1}}
    return json.dumps({"schema": {"type": "struct", "fields": sides}, "payload": payload})


def events_of(spark: SparkSession, *events: str | None) -> DataFrame:
    """Return events as rows from Kafka."""
    return spark.createDataFrame([(text,) for text in events], "value STRING").coalesce(1)


def apply(db: Database, *events: str, **arguments: Any) -> None:
    """Apply events to the table of users."""
    db.apply_changes(
        "users",
        db.debezium(events_of(db.spark, *events), "id INT, name STRING", **arguments),
        ["id"],
        "_sequence",
        apply_as_deletes="_op = 'delete'",
        column_list=["id", "name"],
    )


def names(store: Store) -> dict[int, str]:
    """Return the names of the users."""
    return {row["id"]: row["name"] for row in store.table("users").to_arrow().to_pylist()}


def test_events_are_changes(spark: SparkSession) -> None:
    """Events have a wrapper or none; tombstones are left out; a delete has the row before it."""
    frame = events_of(
        spark,
        event("r", None, {"id": 1, "name": "a"}, 1, wrapped=True),
        event("c", None, {"id": 2, "name": "b", "more": 1}, 2),
        event("u", {"id": 2, "name": "b"}, {"id": 2, "name": None}, 3),
        event("d", {"id": 1, "name": "a"}, None, 4, wrapped=True),
        None,
    )
    changes = relstate.debezium(frame, "id INT, name STRING").collect()

    first, *later = [tuple(row) for row in changes]
    assert first[:3] == (1, "a", "insert")
    assert first[3] < 0
    assert later == [
        (2, "b", "insert", 2),
        (2, None, "update", 3),
        (1, "a", "delete", 4),
    ]
    binary = frame.selectExpr("CAST(value AS BINARY) AS v").limit(1)
    (row,) = relstate.debezium(binary, "id INT", value="V", sequence_by="ts_ms").collect()
    # A row of a snapshot is before every change, whatever orders them.
    assert tuple(row) == (1, "insert", 5 - (1 << 63))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (event("t", None, None, 1), UnknownOperationError),
        ('{"id": 1}', UnknownOperationError),
        ("not json", UnknownOperationError),
        (event("c", None, None, 1), SchemaMismatchError),
        (event("d", None, None, 1), SchemaMismatchError),
        (event("u", None, {"id": "x"}, 1), Exception),
    ],
)
def test_what_is_no_event_fails_the_query(
    db: Database, store: Store, users: str, text: str, error: type[Exception]
) -> None:
    """Nothing is left out in silence, a truncate least of all."""
    before = store.epoch

    with pytest.raises(error):
        apply(db, text)
    assert store.epoch == before


# The order of changes


def test_mysql_s_changes_are_ordered_over_log_files(db: Database, store: Store, users: str) -> None:
    """Positions start again with every log file, and numbers of files may get longer."""
    apply(db, change("c", {"id": 1, "name": "old"}, file="bin.000001", pos=154_000, row=0))
    apply(db, change("u", {"id": 1, "name": "new"}, file="bin.000002", pos=457, row=0))
    assert names(store) == {1: "new"}

    apply(db, change("u", {"id": 1, "name": "last"}, file="bin.1000", pos=4, row=0))
    apply(db, change("u", {"id": 1, "name": "late"}, file="bin.000999", pos=1 << 31, row=0))
    assert names(store) == {1: "last"}


def test_a_row_of_an_event_of_mysql_is_part_of_its_position(
    db: Database, store: Store, users: str
) -> None:
    """One statement that changes keys deletes a row and creates another one under its key."""
    apply(
        db,
        change("d", {"id": 2, "name": "b"}, file="bin.000001", pos=9, row=0),
        change("c", {"id": 2, "name": "a"}, file="bin.000001", pos=9, row=1),
    )

    assert names(store) == {2: "a"}


def test_positions_that_fit_no_number_are_text(db: Database, store: Store) -> None:
    """SQL Server's, Oracle's and MySQL's whole positions; rows of a snapshot come first."""
    db.sql(
        "CREATE TABLE users (id INT, name STRING, at STRING, PRIMARY KEY (id)) "
        "TBLPROPERTIES ('version_column' = 'at')"
    )
    first, second = "00000027:00000758:0003", "00000027:00000758:0005"
    late, commit = "00000027:00000757:0003", "0000002A:00000001:0001"
    by = {"sequence_by": "source.commit_lsn"}
    apply(
        db,
        change("c", {"id": 1, "name": "b"}, commit_lsn=second, change_lsn=first, event_serial_no=1),
        change("r", {"id": 1, "name": "a"}, commit_lsn=first, change_lsn=None),
        change("u", {"id": 2, "name": "d"}, commit_lsn=commit, change_lsn=late, event_serial_no=2),
        change("d", {"id": 2, "name": "c"}, commit_lsn=commit, change_lsn=late, event_serial_no=1),
        **by,
    )
    assert names(store) == {1: "b", 2: "d"}
    apply(db, change("u", {"id": 2, "name": "x"}, commit_lsn=second, change_lsn=second), **by)
    assert names(store) == {1: "b", 2: "d"}

    by = {"sequence_by": "source.rs_id"}
    record = {"scn": "99", "rs_id": " 0x0000ab.0000000f.0010 "}
    apply(
        db,
        change("u", {"id": 3, "name": "f"}, **record, ssn=1),
        change("c", {"id": 3, "name": "e"}, **record, ssn=0),
        change("r", {"id": 3, "name": "d"}, scn="99"),
        change("u", {"id": 4, "name": "h"}, scn="100", rs_id="0x0000AC.00000001.0010", ssn=0),
        change("u", {"id": 4, "name": "g"}, **record, ssn=0),
        **by,
    )
    assert names(store) == {1: "b", 2: "d", 3: "f", 4: "h"}

    by = {"sequence_by": "source.file"}
    apply(db, change("c", {"id": 7, "name": "b"}, file="bin.10000000", pos=5), **by)
    apply(db, change("c", {"id": 7, "name": "a"}, file="bin.9999999", pos=50), **by)
    assert names(store)[7] == "b"


@pytest.mark.parametrize(
    ("source", "arguments", "text"),
    [
        ({"commit_lsn": "00000027:00000758:0003"}, {}, "sequence_by='source.commit_lsn'"),
        ({"commit_lsn": "0:7"}, {"sequence_by": "source.commit_lsn"}, "they are 0:7 and 0000"),
        ({"pos": 5}, {}, "needs source.file"),
        ({"file": "bin", "pos": 5}, {}, "it has bin and 5"),
        ({"file": "bin.1", "pos": 5, "row": 4096}, {}, "sequence_by='source.file'"),
        ({"file": "bin.1", "pos": 1 << 32}, {}, "sequence_by='source.file'"),
        ({"lsn": "0/16B3748"}, {}, "which is not a whole number"),
        ({"scn": "5", "rs_id": " 0x000001.00000002.0003 "}, {}, "sequence_by='source.rs_id'"),
        ({"scn": "5", "rs_id": "x"}, {"sequence_by": "source.rs_id"}, "it has 5, x and NULL"),
        ({"scn": "5"}, {"sequence_by": "source.rs_id"}, "it has 5, NULL and NULL"),
        ({"ord": 1, "ts_ms": None}, {}, "it has NULL and 1"),
        ({"ord": 1 << 21, "ts_ms": 5}, {}, "source.ts_ms and source.ord"),
    ],
)
def test_a_position_without_an_order_fails_the_query(
    spark: SparkSession, source: dict[str, Any], arguments: dict[str, str], text: str
) -> None:
    """A wrong order would lose a change in silence; the error names the position."""
    frame = relstate.debezium(
        events_of(spark, change("c", {"id": 1}, **source)), "id INT", **arguments
    )

    with pytest.raises(RelstateError, match=text), unwrap_errors():
        frame.collect()


def test_a_sequence_that_would_be_compared_otherwise_is_refused(
    spark: SparkSession, db: Database
) -> None:
    """As text '9' is more than '10'; a part of MySQL's position has no order."""
    db.sql(
        "CREATE TABLE users (id INT, name STRING, at STRING, PRIMARY KEY (id)) "
        "TBLPROPERTIES ('version_column' = 'at')"
    )
    with pytest.raises(OptionError, match="STRING"):
        apply(db, event("c", None, {"id": 1}, 1))
    with pytest.raises(OptionError, match="starts again with every log file"):
        db.debezium(events_of(spark), "id INT", sequence_by="source.pos")


# Values


def test_numbers_are_read_in_the_unit_of_their_schema(spark: SparkSession) -> None:
    """Milliseconds, microseconds, nanoseconds and days; text with and without a zone."""
    debezium, connect = "io.debezium.time", "org.apache.kafka.connect.data"
    moment = datetime(2026, 1, 1, 0, 0, 0, 250_000)
    cases: list[tuple[Any, str | None]] = [
        (1767225600250, f"{debezium}.Timestamp"),
        (1767225600250, f"{connect}.Timestamp"),
        (1767225600250000, f"{debezium}.MicroTimestamp"),
        (1767225600250000999, f"{debezium}.NanoTimestamp"),
        ("2026-01-01T00:00:00.25Z", f"{debezium}.ZonedTimestamp"),
        ("2026-01-01T00:00:00.25", None),
    ]
    events = [with_schema({"id": 1, "t": value}, id=None, t=name) for value, name in cases]
    for data_type in ("TIMESTAMP", "TIMESTAMP_NTZ"):
        rows = relstate.debezium(events_of(spark, *events), f"id INT, t {data_type}").collect()
        assert [row["t"] for row in rows] == [moment] * len(cases), data_type

    days: list[tuple[Any, str | None]] = [
        (-1, f"{debezium}.Date"),
        (-1, f"{connect}.Date"),
        (-1, None),
        ("1969-12-31", None),
        (-1, f"{debezium}.MicroTimestamp"),
    ]
    events = [with_schema({"d": value}, d=name) for value, name in days]
    rows = relstate.debezium(events_of(spark, *events), "d DATE").collect()
    assert [row["d"] for row in rows] == [date(1969, 12, 31)] * len(days)

    texts = [with_schema({"x": value}, x=None) for value in ("12.30", 12.3, None)]
    rows = relstate.debezium(events_of(spark, *texts), "x DECIMAL(10,2)").collect()
    assert [row["x"] for row in rows] == [Decimal("12.30"), Decimal("12.30"), None]


def test_numbers_keep_all_their_digits(spark: SparkSession) -> None:
    """A DECIMAL of a number is no DOUBLE's, in every kind of message, before, after and in keys."""
    row = '{"id": 1, "d": 12345678901234567890.12}'
    source = '"source": {"lsn": 1}'
    plain = f'{{"before": null, "after": {row}, "op": "c", {source}}}'
    typed = json.loads(with_schema({}, d="org.apache.kafka.connect.data.Decimal"))["schema"]
    messages = [
        ("{}", plain),
        ("{}", f'{{"schema": null, "payload": {plain}}}'),
        ("{}", f'{{"schema": {json.dumps(typed)}, "payload": {plain}}}'),
        ("{}", f'{{"before": {row}, "after": null, "op": "d", {source}}}'),
        (row, f'{{"before": null, "after": null, "op": "d", {source}}}'),
        ("{}", row[:-1] + ', "__op": "c", "__lsn": 1}'),
    ]
    frame = spark.createDataFrame(messages, "key STRING, value STRING").coalesce(1)
    rows = relstate.debezium(frame, "id INT, d DECIMAL(38,2)", key="key").collect()

    assert [row["d"] for row in rows] == [Decimal("12345678901234567890.12")] * len(messages)


def in_json(number: str) -> str:
    """Return an insert whose columns d and s are a number with just these characters."""
    return f'{{"after": {{"d": {number}, "s": {number}}}, "op": "c", "source": {{"lsn": 1}}}}'


def test_numbers_with_exponents_are_exact(spark: SparkSession) -> None:
    """Java's BigDecimal writes small numbers, and those that end with zeros, with an exponent."""
    numbers = ["1E+2", "1.234567890123456789E-9", "-12345678.5e3", "0E-10", '"1E+2"']
    frame = events_of(spark, *map(in_json, numbers))
    rows = relstate.debezium(frame, "d DECIMAL(38,27)").collect()

    assert [row["d"] for row in rows] == [Decimal(text.strip('"')) for text in numbers]


def test_numbers_in_columns_of_text_keep_their_digits(spark: SparkSession) -> None:
    """As text they have no exponent; a text is not taken for a number."""
    numbers = ["12345678901234567890.12", "-1.5", "7", '"1.50"', '"1E3"', '"x"', "true", "null"]
    rows = relstate.debezium(events_of(spark, *map(in_json, numbers)), "s STRING").collect()

    texts = [None if text == "null" else text.strip('"') for text in numbers]
    assert [row["s"] for row in rows] == texts


@pytest.mark.parametrize(
    ("number", "column", "text"),
    [
        ("1.5E-9", "s STRING", "'s' is STRING.* 1.5E-9 .*declare the column DECIMAL"),
        ("1E+40", "d DECIMAL(38,2)", "'d'.* 1.0E40 .*more digits before its point"),
        ("123.5", "d DECIMAL(4,2)", "'d'.* 123.5 .*more digits before its point"),
    ],
)
def test_a_number_that_is_not_kept_fails_the_query(
    spark: SparkSession, number: str, column: str, text: str
) -> None:
    """No digit is lost: the error names the column and a type that holds the number."""
    with pytest.raises(SchemaMismatchError, match=text), unwrap_errors():
        relstate.debezium(events_of(spark, in_json(number)), column).collect()


@pytest.mark.parametrize(
    ("data_type", "value", "name", "text"),
    [
        ("TIMESTAMP", 1767225600000, None, "schemas.enable"),
        ("TIMESTAMP", 5, "io.debezium.time.MicroTime", "io.debezium.time.MicroTime"),
        ("TIMESTAMP", "x", None, "has x of the schema type NULL"),
        ("DATE", 1767225600000, None, "schemas.enable"),
        ("DECIMAL(10,2)", "F3A=", "org.apache.kafka.connect.data.Decimal", "decimal.handling.mode"),
        ("DECIMAL(10,2)", "1234", "org.apache.kafka.connect.data.Decimal", "decimal.handling.mode"),
        ("DECIMAL(10,2)", "F3A=", None, "decimal.handling.mode"),
    ],
)
def test_a_value_of_unknown_meaning_fails_the_query(
    spark: SparkSession, data_type: str, value: Any, name: str | None, text: str
) -> None:
    """The error names the column and says what to do."""
    frame = events_of(spark, with_schema({"v": value}, v=name))

    with pytest.raises(SchemaMismatchError, match=f"'v'.*{text}"), unwrap_errors():
        relstate.debezium(frame, f"v {data_type}").collect()


@pytest.mark.parametrize(
    ("data_type", "value", "name"),
    [
        ("DECIMAL(10,2)", "NAN", None),
        ("DECIMAL(10,2)", "NaN", None),
        ("DECIMAL(10,2)", "POSITIVE_INFINITY", None),
        ("DECIMAL(10,2)", "-Infinity", None),
        ("TIMESTAMP", "infinity", "io.debezium.time.ZonedTimestamp"),
        ("TIMESTAMP_NTZ", "-infinity", "io.debezium.time.ZonedTimestamp"),
        ("TIMESTAMP", 9223372036825200000, "io.debezium.time.MicroTimestamp"),
        ("TIMESTAMP", -9223372036832400000, "io.debezium.time.MicroTimestamp"),
        ("TIMESTAMP_NTZ", 9223372036825200000, "io.debezium.time.Timestamp"),
        ("TIMESTAMP", 9223372036854775807, "io.debezium.time.NanoTimestamp"),
        ("DATE", "infinity", None),
        ("DATE", -2147472693, "io.debezium.time.Date"),
    ],
)
def test_values_that_are_not_finite_are_named_as_such(
    spark: SparkSession, data_type: str, value: Any, name: str | None
) -> None:
    """NaN and infinity of PostgreSQL, in each form; none is read as a date or a number."""
    frame = events_of(spark, with_schema({"v": value}, v=name))
    text = f"'v' is .*has {value}, which is NaN or infinite.*: declare the column STRING"

    with pytest.raises(SchemaMismatchError, match=text), unwrap_errors():
        relstate.debezium(frame, f"v {data_type}").collect()


@pytest.mark.parametrize("name", ["_op", "_SEQUENCE"])
def test_columns_that_are_named_as_the_added_ones_are_refused(
    spark: SparkSession, name: str
) -> None:
    """The rows would have two columns of the name."""
    with pytest.raises(SchemaMismatchError, match=f"'{name}'.*ReplaceField"):
        relstate.debezium(events_of(spark), f"id INT, {name} STRING")


def test_times_within_other_types_are_refused(spark: SparkSession) -> None:
    """The schema of an event has no unit for them."""
    with pytest.raises(SchemaMismatchError, match="'v' is array<timestamp>"):
        relstate.debezium(events_of(spark), "v ARRAY<TIMESTAMP>")


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        ("STRING", PLACEHOLDER),
        ("STRING", base64.b64encode(PLACEHOLDER.encode()).decode()),
        ("BINARY", base64.b64encode(PLACEHOLDER.encode()).decode()),
        ("DECIMAL(10,2)", PLACEHOLDER),
        ("ARRAY<STRING>", [PLACEHOLDER]),
        ("ARRAY<INT>", list(PLACEHOLDER.encode())),
        ("MAP<STRING, STRING>", {PLACEHOLDER: PLACEHOLDER}),
    ],
)
def test_a_value_that_postgresql_did_not_send_is_refused(
    spark: SparkSession, data_type: str, value: Any
) -> None:
    """The placeholder would replace the stored value."""
    update = event("u", None, {"id": 1, "v": value}, 1)
    schema = f"id INT, v {data_type}"

    with pytest.raises(SchemaMismatchError, match=r"'v'.*REPLICA IDENTITY FULL"), unwrap_errors():
        relstate.debezium(events_of(spark, update), schema).collect()


def test_a_large_column_in_a_table_of_its_own_is_kept(db: Database, spark: SparkSession) -> None:
    """As docs/sql.md says: events without its value are left out there, late ones are applied."""
    for table in ("people", "photos"):
        db.sql(
            f"CREATE TABLE {table} (id INT, name STRING, v STRING, at BIGINT, PRIMARY KEY (id)) "
            "TBLPROPERTIES ('version_column' = 'at')"
        )
    old = event("c", None, {"id": 1, "name": "a", "v": "old"}, 1)
    new = event("u", None, {"id": 1, "name": "b", "v": "new"}, 2)
    kept = event("u", None, {"id": 1, "name": "c", "v": PLACEHOLDER}, 3)
    gone = event("d", {"id": 2}, None, 4)
    for batch in ([kept, gone], [new, old], [kept, old, gone]):
        events = events_of(spark, *batch)
        large = events.where(f"value NOT LIKE '%{PLACEHOLDER}%'")
        for table, rows in (
            ("people", db.debezium(events, "id INT, name STRING")),
            ("photos", db.debezium(large, "id INT, v STRING")),
        ):
            db.apply_changes(
                table,
                rows,
                ["id"],
                "_sequence",
                "_op = 'delete'",
                except_column_list=["_op", "_sequence"],
            )
    assert [(row.id, row.name, row.at) for row in db.table("people").collect()] == [(1, "c", 3)]
    assert [(row.id, row.v, row.at) for row in db.table("photos").collect()] == [(1, "new", 2)]


def test_a_placeholder_in_a_delete_or_a_text_does_no_harm(spark: SparkSession) -> None:
    """A delete needs the key alone, and a text may contain the words."""
    delete = event("d", {"id": 1, "v": PLACEHOLDER}, None, 2)
    (row,) = relstate.debezium(events_of(spark, delete), "id INT").collect()
    assert row["id"] == 1
    plain = event("u", None, {"id": 1, "v": f"is {PLACEHOLDER}"}, 1)
    (row,) = relstate.debezium(events_of(spark, plain), "v STRING").collect()
    assert row["v"] == f"is {PLACEHOLDER}"


@pytest.mark.parametrize(
    ("setting", "data_type", "value"),
    [
        ("n/a?>", "STRING", "n/a?>"),
        ("n/a?>", "STRING", "bi9hPz4="),
        ("hex:ffe0", "BINARY", "/+A="),
        ("hex:ffe0", "STRING", "_-A="),
        ("hex:ffe0", "STRING", "ffe0"),
        ("n/a?>", "ARRAY<STRING>", ["268f83f6-7b87-38e6-894e-97fb6b77ab95"]),
    ],
)
def test_the_placeholder_may_be_another(
    spark: SparkSession, setting: str, data_type: str, value: Any
) -> None:
    """It is as the connector's property names it."""
    update = events_of(spark, event("u", None, {"v": value}, 1))
    with pytest.raises(SchemaMismatchError, match=r"'v'.*REPLICA IDENTITY FULL"), unwrap_errors():
        relstate.debezium(update, f"v {data_type}", unavailable_value=setting).collect()


def test_another_placeholder_replaces_debezium_s(spark: SparkSession) -> None:
    """Debezium's default is a value like any other then; what is no value is refused."""
    default = events_of(spark, event("u", None, {"v": PLACEHOLDER}, 1))
    (row,) = relstate.debezium(default, "v STRING", unavailable_value="n/a?>").collect()
    assert row["v"] == PLACEHOLDER
    for wrong in ("", "hex:", "hex:x"):
        with pytest.raises(OptionError, match="unavailable_value"):
            relstate.debezium(default, "v STRING", unavailable_value=wrong)


# Streams


def test_a_stream_of_events_is_applied_once(
    spark: SparkSession, db: Database, store: Store, users: str, tmp_path: Path
) -> None:
    """Restarts and a repeated micro-batch change nothing."""
    folder, checkpoint = tmp_path / "events", tmp_path / "checkpoint"
    folder.mkdir()

    def add(number: int, *events: str) -> None:
        (folder / f"{number}.json").write_text("\n".join(events) + "\n")

    def run() -> None:
        stream = spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder))
        query = db.apply_changes(
            "users",
            db.debezium(stream, "id INT, name STRING"),
            ["id"],
            "_sequence",
            apply_as_deletes="_op = 'delete'",
            except_column_list=["_op", "_sequence"],
            checkpoint=str(checkpoint),
            trigger={"availableNow": True},
        )
        assert query is not None
        query.awaitTermination()

    add(1, event("c", None, {"id": 1, "name": "a"}, 1), event("d", {"id": 2}, None, 9))
    add(2, event("u", None, {"id": 1, "name": "b"}, 5), event("u", None, {"id": 2, "name": "x"}, 8))
    before = store.epoch
    run()
    assert names(store) == {1: "b"}
    assert store.epoch == before + 2

    (checkpoint / "commits" / "1").unlink()
    (checkpoint / "commits" / ".1.crc").unlink()
    add(3, event("c", None, {"id": 3, "name": "c"}, 6))
    run()
    assert names(store) == {1: "b", 3: "c"}
    assert store.epoch == before + 3
