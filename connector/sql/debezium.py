"""Debezium's change events in JSON, as rows of changes.

An event tells of one row before and after, of what happened (``op``: c, u, d, or r for a row of the
first snapshot) and of where it stands in the database's log. It comes with or without Kafka
Connect's wrapper of ``schema`` and ``payload``. A value that is NULL is a tombstone, by which Kafka
forgets a key; the delete came before it, so it is left out.

Promises: an event that is not understood fails the query; none is left out in silence.
Does not know: tables, or what becomes of the changes.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from relstate.connector.syntax.tokens import quoted
from relstate.storage import errors

OPERATION = "_op"
SEQUENCE = "_sequence"

# Where the connectors say how far their database's log had come, the first that is there.
_POSITIONS = ("lsn", "pos", "scn", "change_lsn")


def debezium(
    frame: DataFrame,
    schema: str | StructType,
    *,
    value: str = "value",
    sequence_by: str | None = None,
) -> DataFrame:
    """Return Debezium's events as rows of ``schema``, with ``_op`` and ``_sequence``.

    ``frame`` has the events as JSON in the column ``value``, text or binary; ``schema`` (Spark DDL)
    names the columns of the rows, by their names in the events. Of a deleted row it has what was
    before. ``_op`` is ``insert``, ``update`` or ``delete``. ``_sequence`` (BIGINT) orders the
    changes of a key: ``sequence_by``, a field of the event such as ``source.lsn``, by default
    the position in the database's log (``source.lsn``, ``source.pos``), and where there is none
    ``ts_ms``, the time. A truncate, and what is no event, fails the query when it is run.
    SchemaMismatchError if there is no such column.
    """
    if value.lower() not in (name.lower() for name in frame.columns):
        raise errors.SchemaMismatchError(
            f"the data has no column {value!r}; it has {', '.join(frame.columns)}"
        )
    text = f.col(quoted(value)).cast("string")
    ddl = schema if isinstance(schema, str) else _ddl(schema)
    events = frame.where(f.col(quoted(value)).isNotNull()).select(
        f.coalesce(f.get_json_object(text, "$.payload"), text).alias("event")
    )
    event = f.col("event")
    operation = f.get_json_object(event, "$.op")
    before, after = f.get_json_object(event, "$.before"), f.get_json_object(event, "$.after")
    row = f.from_json(f.when(operation == "d", before).otherwise(after), ddl, {"mode": "FAILFAST"})
    changed = events.select(
        row.alias("row"),
        _operation(operation, event).alias(OPERATION),
        _sequence(event, sequence_by).alias(SEQUENCE),
    )
    checked = f.when(
        f.col("row").isNull(),
        _failure("an event of Debezium has no row (of a deleted one: before)", SEQUENCE),
    ).otherwise(f.col(OPERATION))
    return changed.select("row.*", checked.alias(OPERATION), SEQUENCE)


def _operation(operation: Column, event: Column) -> Column:
    known = f.when(operation.isin("c", "r"), "insert").when(operation == "u", "update")
    known = known.when(operation == "d", "delete")
    return known.otherwise(
        f.raise_error(
            f.concat(
                f.lit(
                    f"\n{errors.__name__}.UnknownOperationError: an event of Debezium has the op "
                ),
                f.coalesce(operation, f.lit("NULL")),
                f.lit("; c, u, d and r are known, t (truncate) is not applied: "),
                f.translate(f.substring(event, 1, 200), "\n", " "),
                f.lit("\n"),
            )
        )
    )


def _sequence(event: Column, sequence_by: str | None) -> Column:
    if sequence_by is not None:
        found = f.get_json_object(event, f"$.{sequence_by}")
    else:
        fields = [f.get_json_object(event, f"$.source.{name}") for name in _POSITIONS]
        found = f.coalesce(*fields, f.get_json_object(event, "$.ts_ms"))
    return found.cast("bigint")


def _failure(text: str, name: str) -> Column:
    return f.raise_error(
        f.concat(
            f.lit(f"\n{errors.__name__}.SchemaMismatchError: {text}; its sequence is "),
            f.coalesce(f.col(name).cast("string"), f.lit("NULL")),
            f.lit("\n"),
        )
    )


def _ddl(schema: StructType) -> str:
    return ", ".join(f"{quoted(field.name)} {field.dataType.simpleString()}" for field in schema)
