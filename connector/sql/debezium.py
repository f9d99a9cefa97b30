"""Debezium's change events in JSON, as rows of changes.

An event has one row before and after the change, the operation (``op``: c, u, d, or r for a row of
a snapshot) and the position in the database's log. It may be wrapped by Kafka Connect in an
object with ``schema`` and ``payload``, or flattened to the row. A value that is NULL is a
tombstone, by which Kafka removes a key. It follows the event of the delete, so it is left out.

Promises: an event that cannot be read fails the query; none that changes a row is left out, and no
value is read as another. Numbers within JSON that is read as text (arrays and documents in columns
of type STRING) are DOUBLEs to Spark.
Does not know: tables, or what is done with the changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as s

from relstate.connector.syntax.tokens import quoted
from relstate.storage import errors

from .debezium_messages import payload, read_messages, read_row
from .debezium_placeholder import UNAVAILABLE, Placeholder
from .debezium_sequence import error_column, sequence_column
from .debezium_values import (
    Conversion,
    Units,
    Values,
    check_nested,
    checked_units,
    decimal_schema,
    has_doubles,
    is_converted,
    json_schema,
    may_have_numbers,
    number_schema,
    semantic_types,
)
from .source_frame import check_frame

OPERATION = "_op"
SEQUENCE = "_sequence"
_TIME_TYPE = "spark.sql.timeType.enabled"


def debezium(
    frame: DataFrame,
    schema: str | s.StructType,
    *,
    value: str = "value",
    key: str | None = None,
    sequence_by: str | None = None,
    timestamps: Units | None = None,
    unavailable_value: str = UNAVAILABLE,
) -> DataFrame:
    """Return Debezium's events as rows of ``schema``, with ``_op`` and ``_sequence``.

    ``frame`` has the events as JSON in the column ``value``, text or binary; ``schema`` (Spark DDL)
    names the columns of the rows, by their names in the events. A delete has the row as it was
    before; where the event lacks it, as of MongoDB, the columns of the message's key, if ``key``
    names the column with it. ``_op`` is ``insert``, ``update`` or ``delete``. Events may be
    flattened by ExtractNewRecordState, with ``add.fields`` for the operation and the position.

    ``_sequence`` orders the changes of a key. By default it is a BIGINT: PostgreSQL's
    ``source.lsn``; MySQL's and MariaDB's ``source.file``, ``pos`` and ``row`` in one number;
    MongoDB's ``source.ts_ms`` and ``ord``; relstate's own ``source.epoch``; ``ts_ms``, the time, of
    events that name no connector. ``sequence_by`` names another field of the event, a whole number.
    Positions that do not fit a BIGINT come as text, for a version column of type STRING, with
    ``sequence_by='source.commit_lsn'`` (SQL Server, Db2, Informix), ``'source.rs_id'`` (Oracle's
    LogMiner) and ``'source.file'`` (MySQL). Rows of snapshots come before all changes: see
    `debezium_snapshot`.

    Numbers become DATE, TIME and TIMESTAMP by the unit that the event's schema gives. Without a
    schema ``timestamps`` is the unit of TIME and TIMESTAMP columns: ``seconds``, ``millis``,
    ``micros`` or ``nanos``, or units by columns' names; a number of a DATE is one of days. Decimals
    are read as text, numbers with all their digits, or bytes with a schema.

    ``unavailable_value`` is the connector's property ``unavailable.value.placeholder``, which
    stands for a large value that did not change. It fails the query, except in a delete.

    Heartbeats, transaction metadata, schema changes and logical decoding messages are left out. An
    event that cannot be read right fails the query when it is run: a truncate, a number of unknown
    unit, what is not an event. SchemaMismatchError if ``frame`` has no such column, OptionError for
    arguments that cannot be used, SessionError for TIME where Spark has no such type.
    """
    check_frame(frame, "debezium")
    for name in (value,) if key is None else (value, key):
        _check_column(frame, name)
    struct = s.StructType.fromDDL(schema) if isinstance(schema, str) else schema
    assert isinstance(struct, s.StructType)
    _check_names(struct)
    _check_time_types(frame, struct)
    for field in struct.fields:
        check_nested(field)
    rows = _Rows(
        struct, checked_units(timestamps, struct.fields), Placeholder.of(unavailable_value)
    )
    text = f.col(quoted(value)).cast("string")
    key_text = f.lit(None) if key is None else f.col(quoted(key))
    messages = frame.where(text.isNotNull()).select(
        payload(text).alias("event"),
        payload(key_text.cast("string")).alias("key"),
        f.get_json_object(text, "$.schema").alias("schema"),
        text.alias("event_text"),
        key_text.cast("string").alias("key_text"),
    )
    changes = rows.changes(messages, sequence_by)
    return rows.columns(changes)


def _check_column(frame: DataFrame, column: str) -> None:
    if column.lower() not in (name.lower() for name in frame.columns):
        raise errors.SchemaMismatchError(
            f"the data has no column {column!r}; it has {', '.join(frame.columns)}"
        )


def _check_names(schema: s.StructType) -> None:
    """SchemaMismatchError for a column that is named as one of those that `debezium` adds."""
    for field in schema.fields:
        if field.name.lower() in (OPERATION, SEQUENCE):
            raise errors.SchemaMismatchError(
                f"the schema has a column {field.name!r}, a name of a column that debezium adds: "
                "leave it out of the schema, or rename it in the connector, with the "
                "transformation ReplaceField (its property renames)"
            )


def _check_time_types(frame: DataFrame, schema: s.StructType) -> None:
    """SessionError for a TIME column in a session that has no such type."""
    times = [field.name for field in schema.fields if isinstance(field.dataType, s.TimeType)]
    if times and frame.sparkSession.conf.get(_TIME_TYPE) != "true":
        raise errors.SessionError(
            f"the column {times[0]!r} is TIME, a type that Spark has only with a setting: "
            f"spark.conf.set('{_TIME_TYPE}', 'true'); or declare the column BIGINT"
        )


@dataclass(frozen=True, slots=True)
class _Rows:
    """How messages become rows of a schema."""

    schema: s.StructType
    units: Mapping[str, str]
    placeholder: Placeholder

    def changes(self, messages: DataFrame, sequence_by: str | None) -> DataFrame:
        """Return what was read of each message that changes a row."""
        row = f.from_json("json", json_schema(self.schema.fields), {"mode": "FAILFAST"})
        changes = read_messages(messages).select(
            "*",
            row.alias("row"),
            semantic_types(f.col("schema")).alias("types"),
            f.col("op").eqNullSafe("d").alias("is_delete"),
            (f.col("is_mongodb") & (f.col("op") == "u")).alias("is_mongodb_update"),
            _operation().alias(OPERATION),
            sequence_column(sequence_by).alias(SEQUENCE),
        )
        return self._with_numbers(changes)

    def _with_numbers(self, changes: DataFrame) -> DataFrame:
        """Return changes with the numbers of JSON whose digits would be lost, where there are any.

        Most rows need no second look at their text, nor a third one.
        """
        fields = self.schema.fields
        numbers = f.when(
            may_have_numbers(f.col("row"), fields), read_row(number_schema(fields))
        ).alias("numbers")
        exact = f.when(
            has_doubles(f.col("numbers"), fields), read_row(decimal_schema(fields))
        ).alias("exact")
        return changes.select("*", numbers).select("*", exact)

    def columns(self, changes: DataFrame) -> DataFrame:
        """Return the columns of the rows, the operation and the sequence."""
        row, numbers, exact, types = map(f.col, ("row", "numbers", "exact", "types"))
        values = Values(row, numbers, exact, types, self.units)
        fields_by_type: dict[s.DataType, list[s.StructField]] = {}
        for field in self.schema.fields:
            if isinstance(field.dataType, s.StringType) or is_converted(field.dataType):
                fields_by_type.setdefault(field.dataType, []).append(field)
        # One expression converts all columns of a type: what Spark compiles of many stays small.
        arrays, columns_by_name = [], {}
        for number, (data_type, fields) in enumerate(fields_by_type.items()):
            cells = f.array(*map(values.cell, fields))
            arrays.append(f.transform(cells, self._conversion(data_type)).alias(f"values_{number}"))
            for index, field in enumerate(fields):
                columns_by_name[field.name] = f.col(f"values_{number}")[index]
        columns = [
            columns_by_name.get(field.name, self._as_read(field)).alias(field.name)
            for field in self.schema.fields
        ]
        operation = f.when(f.col("row").isNull(), _no_row_error()).otherwise(f.col(OPERATION))
        columns += [operation.alias(OPERATION), f.col(SEQUENCE)]
        return changes.select("*", *arrays).select(*columns)

    def _conversion(self, data_type: s.DataType) -> Callable[[Column], Column]:
        conversion = Conversion(data_type)

        def converted(cell: Column) -> Column:
            is_missing = self.placeholder.is_in(cell["value"], s.StringType())
            assert is_missing is not None
            value = conversion.converted(cell)
            return f.when(is_missing, self._missing(cell["column"], data_type)).otherwise(value)

        return converted

    def _as_read(self, field: s.StructField) -> Column:
        """Return a column whose type is read from the JSON as it is."""
        value = f.col("row").getField(field.name)
        is_missing = self.placeholder.is_in(value, field.dataType)
        if is_missing is None:
            return value
        missing = self._missing(f.lit(field.name), field.dataType)
        return f.when(is_missing, missing).otherwise(value)

    def _missing(self, name: Column, data_type: s.DataType) -> Column:
        """Return the error of a value that is not available; NULL in a delete."""
        error = error_column(
            "SchemaMismatchError",
            "an event has no value for the column '",
            name,
            "', which was stored apart and did "
            f"not change ({self.placeholder.text}): in PostgreSQL set REPLICA IDENTITY FULL for "
            "the table, or let Debezium's ReselectColumnsPostProcessor read such values",
        ).cast(data_type)
        return f.when(~f.col("is_delete"), error)


def _no_row_error() -> Column:
    sequence = f.coalesce(f.col(SEQUENCE).cast("string"), f.lit("NULL"))
    mongodb = error_column(
        "SchemaMismatchError",
        "an update of MongoDB has no document after it: set the connector's property "
        "capture.mode=change_streams_update_full; if it is set, the document was deleted before "
        "MongoDB looked it up, and the delete follows: leave this event out by a filter; its "
        "sequence is ",
        sequence,
    )
    delete = error_column(
        "SchemaMismatchError",
        "a delete has no row before it: pass key, the column with the message's key, to debezium; "
        "or for MongoDB set capture.mode=change_streams_update_full_with_pre_image, for PostgreSQL "
        "give the table a primary key or REPLICA IDENTITY FULL; its sequence is ",
        sequence,
    )
    event = error_column(
        "SchemaMismatchError",
        "an event of Debezium has no row (no 'after'); its sequence is ",
        sequence,
    )
    return (
        f.when(f.col("is_mongodb_update"), mongodb)
        .when(f.col("is_delete"), delete)
        .otherwise(event)
    )


def _operation() -> Column:
    operation = f.col("op")
    names = f.when(operation.isin("c", "r"), "insert").when(operation == "u", "update")
    names = names.when(operation == "d", "delete")
    start = f.translate(f.substring("event", 1, 200), "\n", " ")
    truncate = error_column(
        "UnknownOperationError",
        "an event of Debezium truncates the table (op t), which is not applied: run TRUNCATE TABLE "
        "and continue with a later offset, or let the connector leave it out "
        "(skipped.operations=t, its default): ",
        start,
    )
    return names.when(operation == "t", truncate).otherwise(
        error_column(
            "UnknownOperationError",
            "an event of Debezium has the op ",
            f.coalesce(operation, f.lit("NULL")),
            "; c, u, d and r are known (a flattened event needs __op or __deleted: "
            "add.fields=op): ",
            start,
        )
    )
