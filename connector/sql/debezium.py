"""Debezium's change events in JSON, as rows of changes.

An event has one row before and after the change, the operation (``op``: c, u, d, or r for a row of
the first snapshot) and the position in the database's log. It may be wrapped by Kafka Connect in an
object with ``schema`` and ``payload``. A value that is NULL is a tombstone, by which Kafka removes
a key. It follows the event of the delete, so it is left out.

Promises: an event that cannot be read fails the query; none is left out silently, and no value is
read as another.
Does not know: tables, or what is done with the changes.
"""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from binascii import hexlify
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import md5
from itertools import pairwise

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as s

from relstate.connector.syntax.tokens import quoted
from relstate.storage import errors

from .debezium_sequence import error_column, sequence_column

OPERATION = "_op"
SEQUENCE = "_sequence"

# Debezium's default of the connector's property unavailable.value.placeholder.
UNAVAILABLE = "__debezium_unavailable_value"

# Units of time in microseconds, by the names of Debezium's and Kafka Connect's schema types.
_DAY = 86_400_000_000
_UNITS = {
    "io.debezium.time.Date": _DAY,
    "org.apache.kafka.connect.data.Date": _DAY,
    "io.debezium.time.Timestamp": 1_000,
    "org.apache.kafka.connect.data.Timestamp": 1_000,
    "io.debezium.time.MicroTimestamp": 1,
}
_NANOSECONDS = "io.debezium.time.NanoTimestamp"
_DECIMALS = ("org.apache.kafka.connect.data.Decimal", "io.debezium.data.VariableScaleDecimal")
# Days from 0001-01-01 to 9999-12-31, counted from 1970-01-01: the dates that Spark knows.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896

_FIELDS = "field STRING, name STRING"
_EVENT_SCHEMA = f"fields ARRAY<STRUCT<field STRING, fields ARRAY<STRUCT<{_FIELDS}>>>>"


def debezium(
    frame: DataFrame,
    schema: str | s.StructType,
    *,
    value: str = "value",
    sequence_by: str | None = None,
    unavailable_value: str = UNAVAILABLE,
) -> DataFrame:
    """Return Debezium's events as rows of ``schema``, with ``_op`` and ``_sequence``.

    ``frame`` has the events as JSON in the column ``value``, text or binary; ``schema`` (Spark DDL)
    names the columns of the rows, by their names in the events. A delete has the row as it was
    before. ``_op`` is ``insert``, ``update`` or ``delete``.

    ``_sequence`` orders the changes of a key. By default it is a BIGINT: PostgreSQL's
    ``source.lsn``; MySQL's ``source.file``, ``pos`` and ``row`` in one number; relstate's own
    ``source.epoch``; where there is no position ``ts_ms``, the time. ``sequence_by`` names another
    field of the event, a whole number. Positions that do not fit a BIGINT come as text, for a
    version column of type STRING, with ``sequence_by='source.commit_lsn'`` (SQL Server, Db2),
    ``'source.rs_id'`` (Oracle's LogMiner) and ``'source.file'`` (MySQL).

    Numbers become DATE and TIMESTAMP by the unit that the event's schema gives; without a schema
    only a number of days is taken, for a DATE. An event that cannot be read right fails the query
    when it is run: a truncate, a number of unknown unit, the placeholder of an unavailable value,
    what is not an event. ``unavailable_value`` is that placeholder, the connector's property
    ``unavailable.value.placeholder``. SchemaMismatchError if ``frame`` has no such column,
    OptionError for arguments that cannot be used.
    """
    if value.lower() not in (name.lower() for name in frame.columns):
        raise errors.SchemaMismatchError(
            f"the data has no column {value!r}; it has {', '.join(frame.columns)}"
        )
    struct = s.StructType.fromDDL(schema) if isinstance(schema, str) else schema
    assert isinstance(struct, s.StructType)
    fields = struct.fields
    for field in fields:
        _check_nested(field)
    placeholder = Placeholder.of(unavailable_value)
    text = f.col(quoted(value)).cast("string")
    payload = f.get_json_object(text, "$.payload")
    events = frame.where(f.col(quoted(value)).isNotNull()).select(
        f.coalesce(payload, text).alias("event"),
        f.get_json_object(text, "$.schema").alias("schema"),
    )
    event = f.col("event")
    operation = f.get_json_object(event, "$.op")
    is_delete = operation == "d"
    before, after = f.get_json_object(event, "$.before"), f.get_json_object(event, "$.after")
    json_schema = s.StructType(
        [s.StructField(field.name, _json_type(field.dataType)) for field in fields]
    )
    row = f.from_json(f.when(is_delete, before).otherwise(after), json_schema, {"mode": "FAILFAST"})
    changes = events.select(
        row.alias("row"),
        _semantic_types(f.col("schema")).alias("types"),
        is_delete.alias("is_delete"),
        _operation(operation, event).alias(OPERATION),
        sequence_column(event, sequence_by).alias(SEQUENCE),
    )
    checked = f.when(
        f.col("row").isNull(),
        error_column(
            "SchemaMismatchError",
            "an event of Debezium has no row (of a delete: no 'before'); its sequence is ",
            f.coalesce(f.col(SEQUENCE).cast("string"), f.lit("NULL")),
        ),
    ).otherwise(f.col(OPERATION))
    columns = [_column(field, placeholder).alias(field.name) for field in fields]
    return changes.select(*columns, checked.alias(OPERATION), SEQUENCE)


def _operation(operation: Column, event: Column) -> Column:
    names = f.when(operation.isin("c", "r"), "insert").when(operation == "u", "update")
    names = names.when(operation == "d", "delete")
    return names.otherwise(
        error_column(
            "UnknownOperationError",
            "an event of Debezium has the op ",
            f.coalesce(operation, f.lit("NULL")),
            "; c, u, d and r are known, t (truncate) is not applied: ",
            f.translate(f.substring(event, 1, 200), "\n", " "),
        )
    )


# The columns of a row


def _json_type(data_type: s.DataType) -> s.DataType:
    """Return the type as which a column is read from the JSON."""
    return s.StringType() if _is_converted(data_type) else data_type


def _is_converted(data_type: s.DataType) -> bool:
    is_time = isinstance(data_type, s.DateType | s.TimestampType | s.TimestampNTZType)
    return is_time or isinstance(data_type, s.DecimalType)


def _check_nested(field: s.StructField) -> None:
    """SchemaMismatchError for dates, timestamps and decimals within other types.

    The schema of an event has no unit for them.
    """
    if not _is_converted(field.dataType) and any(map(_is_converted, _parts(field.dataType))):
        raise errors.SchemaMismatchError(
            f"the column {field.name!r} is {field.dataType.simpleString()}: dates, timestamps and "
            "decimals within other types are not read from Debezium's events; declare them as "
            "BIGINT or STRING and convert them"
        )


def _parts(data_type: s.DataType) -> Sequence[s.DataType]:
    """Return a type and all types within it."""
    inner: list[s.DataType] = []
    if isinstance(data_type, s.ArrayType):
        inner = [data_type.elementType]
    elif isinstance(data_type, s.MapType):
        inner = [data_type.keyType, data_type.valueType]
    elif isinstance(data_type, s.StructType):
        inner = [field.dataType for field in data_type.fields]
    return [data_type, *(part for child in inner for part in _parts(child))]


def _semantic_types(schema: Column) -> Column:
    """Return the names of the schema types of a row's columns, by the columns' names, as a map."""
    fields = f.from_json(schema, _EVENT_SCHEMA)["fields"]
    rows = f.filter(fields, lambda field: field["field"] == "after")
    named = f.filter(rows[0]["fields"], lambda field: field["name"].isNotNull())
    return f.map_from_entries(named)


def _column(field: s.StructField, placeholder: Placeholder) -> Column:
    """Return a column of the rows from what was read of it."""
    value = f.col("row").getField(field.name)
    unavailable_error = error_column(
        "SchemaMismatchError",
        f"an event has no value for the column {field.name!r}, which was stored apart and did not "
        f"change ({placeholder.text}): in PostgreSQL set REPLICA IDENTITY FULL for the table, or "
        "let Debezium's ReselectColumnsPostProcessor read such values",
    )
    checked = _converted(field, value)
    if (is_unavailable := _is_unavailable(value, field.dataType, placeholder)) is not None:
        is_wrong = ~f.col("is_delete") & f.coalesce(is_unavailable, f.lit(False))
        checked = f.when(is_wrong, unavailable_error.cast(field.dataType)).otherwise(checked)
    return checked


def _is_unavailable(
    value: Column, data_type: s.DataType, placeholder: Placeholder
) -> Column | None:
    """Return whether a value is the placeholder; None if no value of the type can be."""
    if isinstance(data_type, s.StringType) or _is_converted(data_type):
        return value.isin(*placeholder.texts)
    if isinstance(data_type, s.BinaryType):
        return value == f.lit(placeholder.octets)
    if isinstance(data_type, s.ArrayType) and isinstance(data_type.elementType, s.IntegralType):
        codes = [f.lit(code) for code in placeholder.octets]
        return value.cast("array<bigint>") == f.array(*codes).cast("array<bigint>")
    if isinstance(data_type, s.ArrayType | s.MapType | s.StructType | s.VariantType):
        text = f.to_json(f.struct(value.alias("value")))
        quoted_text = json.dumps(placeholder.text, ensure_ascii=False)
        return text.contains(quoted_text) | text.contains(f'"{placeholder.uuid}"')
    return None


@dataclass(frozen=True, slots=True)
class Placeholder:
    """What a connector sends for a value that it does not have, in the forms that it may have."""

    octets: bytes

    @classmethod
    def of(cls, setting: str) -> Placeholder:
        """Return the placeholder of a connector's property. OptionError if it is not one."""
        if setting.startswith("hex:"):
            try:
                octets = bytes.fromhex(setting.removeprefix("hex:"))
            except ValueError:
                octets = b""
        else:
            octets = setting.encode(errors="replace")
        if not octets:
            raise errors.OptionError(
                f"unavailable_value is {setting!r}; it is the connector's property "
                "unavailable.value.placeholder: text, or bytes in hexadecimal digits after 'hex:'"
            )
        return cls(octets)

    @property
    def text(self) -> str:
        """The placeholder in a column of text."""
        return self.octets.decode(errors="replace")

    @property
    def texts(self) -> tuple[str, ...]:
        """The placeholder as text, and as bytes in each way of writing bytes as text."""
        encodings = (b64encode, urlsafe_b64encode, hexlify)
        return (self.text, *(encode(self.octets).decode() for encode in encodings))

    @property
    def uuid(self) -> str:
        """The placeholder in an array of UUIDs: Java's ``UUID.nameUUIDFromBytes``."""
        digest = bytearray(md5(self.octets, usedforsecurity=False).digest())
        digest[6] = digest[6] & 0x0F | 0x30
        digest[8] = digest[8] & 0x3F | 0x80
        digits = digest.hex()
        ends = pairwise((0, 8, 12, 16, 20, 32))
        return "-".join(digits[start:end] for start, end in ends)


def _converted(field: s.StructField, value: Column) -> Column:
    """Return a value of a column's type from the text that was read of it, or as it is."""
    data_type = field.dataType
    if not _is_converted(data_type):
        return value
    semantic_type = f.col("types")[field.name]
    is_decimal = isinstance(data_type, s.DecimalType)
    type_error = error_column(
        "SchemaMismatchError",
        f"the column {field.name!r} is {data_type.simpleString()}, and an event of Debezium has ",
        value,
        " of the schema type ",
        f.coalesce(semantic_type, f.lit("NULL")),
        _DECIMAL_ADVICE if is_decimal else _TIME_ADVICE,
    ).cast(data_type)
    if is_decimal:
        is_bytes = f.coalesce(semantic_type.isin(*_DECIMALS), f.lit(False))
        converted = f.when(~is_bytes, value.try_cast(data_type))
    else:
        number = value.try_cast("bigint")
        moment = _moment(_microseconds(number, semantic_type, data_type), data_type)
        is_number = value.rlike("^-?[0-9]+$")
        converted = f.when(is_number, moment).otherwise(value.try_cast(data_type))
    return f.when(value.isNotNull(), f.coalesce(converted, type_error))


_TIME_ADVICE = (
    ": a number needs a schema that gives its unit; let Kafka Connect's converter include schemas "
    "(schemas.enable=true), or declare the column BIGINT and convert it"
)
_DECIMAL_ADVICE = ": let the connector write decimals as text (decimal.handling.mode=string)"


def _microseconds(number: Column, semantic_type: Column, data_type: s.DataType) -> Column:
    """Return a number of units since 1970 in microseconds; NULL where the unit is unknown."""
    micros = f.when(semantic_type == _NANOSECONDS, _floored(number, 1_000))
    for name, unit in _UNITS.items():
        micros = micros.when(semantic_type == name, f.try_multiply(number, f.lit(unit)))
    if isinstance(data_type, s.DateType):
        is_day = semantic_type.isNull() & number.between(_FIRST_DAY, _LAST_DAY)
        micros = micros.when(is_day, f.try_multiply(number, f.lit(_DAY)))
    return micros


def _moment(micros: Column, data_type: s.DataType) -> Column:
    """Return microseconds since 1970 (UTC) as a DATE, TIMESTAMP or TIMESTAMP_NTZ."""
    if isinstance(data_type, s.DateType):
        return f.date_from_unix_date(_floored(micros, _DAY).cast("int"))
    if isinstance(data_type, s.TimestampType):
        return f.timestamp_micros(micros)
    start = f.lit("1970-01-01 00:00:00").cast("timestamp_ntz")
    return f.timestamp_add("MICROSECOND", micros, start)


def _floored(number: Column, divisor: int) -> Column:
    """Return a BIGINT divided by another, rounded down, without a conversion to DOUBLE."""
    remainder = f.pmod(number, f.lit(divisor).cast("bigint"))
    return f.call_function("div", number - remainder, f.lit(divisor).cast("bigint"))
