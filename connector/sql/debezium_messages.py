"""The kinds of Debezium's messages, and where each has its row.

    envelope     a change: op, before, after, source; of MongoDB before and after are JSON in text
    flattened    the row itself with fields that begin with ``__`` (ExtractNewRecordState)
    others       heartbeats, begins and ends of transactions, changes of schemas, logical decoding
                 messages (op m), tombstones: they change no row and are left out

Promises: what is of no known kind has the operation that it names, or none: it is not left out.
Does not know: the columns of a row, or its position.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as s

_TIMES = ("ts_ms", "ts_us", "ts_ns")
_TRANSACTION = ("status", "id", "event_count")
_SCHEMA_CHANGE = ("databaseName", "tableChanges")
_WRAPPER = ("schema", "payload")
# What else messages of these kinds have.
_OF_TRANSACTION = ("data_collections",)
_OF_SCHEMA_CHANGE = ("source", "schemaName", "ddl")
# MongoDB's Extended JSON (v1 and v2): what stands for one value, and that value. Within the text of
# a value its quotation marks would be escaped, so it is not found there.
_NUMBER = r'"(-?[0-9][-+.0-9eE]*)"'
_BINARY = (
    r'\{\s*"\$binary"\s*:\s*\{\s*"base64"\s*:\s*("[^"\\]*")\s*,\s*'
    r'"subType"\s*:\s*"[0-9a-fA-F]*"\s*\}\s*\}'
)
_EXTENDED = (
    (rf'\{{\s*"\$number(?:Long|Int|Double)"\s*:\s*{_NUMBER}\s*\}}', "$1"),
    (r'\{\s*"\$numberDouble"\s*:\s*("-?(?:NaN|Infinity)")\s*\}', "$1"),
    (r'\{\s*"\$(?:oid|numberDecimal|symbol|date|uuid)"\s*:\s*("[^"\\]*")\s*\}', "$1"),
    (r'\{\s*"\$binary"\s*:\s*("[^"\\]*")\s*,\s*"\$type"\s*:\s*"[0-9a-fA-F]*"\s*\}', "$1"),
    (_BINARY, "$1"),
)


_MAP = "MAP<STRING, STRING>"
_FLAT_NAME = "^__(source_)?"


def read_messages(messages: DataFrame) -> DataFrame:
    """Return what is read of messages: ``event`` and ``key``, their JSON without wrappers.

    ``event_text`` and ``key_text`` are the messages as they came. Adds ``op``, the operation as
    Debezium names it; ``is_flat`` and ``is_mongodb``; ``source``, a map of texts; ``time``, when
    the connector processed it; ``json``, the row, NULL if there is none: of a delete the row before
    it, or its key. Messages that change no row are left out. The values are columns, which Spark
    computes once for all that is made of them.
    """
    columns = messages.columns
    header = f.coalesce(f.from_json("event", _MAP), f.create_map().cast(_MAP))
    read = messages.select(*columns, header.alias("header"))
    # In a lambda the header is computed once, also where Spark filters before it projects.
    is_left_out = f.transform(f.array("header"), _changes_no_row)[0]
    read = read.where(~is_left_out).select("*", _is_flat(f.col("header")).alias("is_flat"))
    source = f.from_json(f.col("header")["source"], _MAP)
    flat = f.when(f.col("is_flat"), _flat_source(f.col("header")))
    read = read.select("*", flat.otherwise(source).alias("source"))
    is_mongodb = _source("connector").eqNullSafe("mongodb") | _source("ord").isNotNull()
    time = f.when(
        f.col("is_flat"), f.coalesce(f.col("header")["__ts_ms"], _source("ts_ms"))
    ).otherwise(f.col("header")["ts_ms"])
    return read.select(
        "*",
        _operation().alias("op"),
        time.alias("time"),
        (~f.col("is_flat") & is_mongodb).alias("is_mongodb"),
    ).select("*", _row().alias("json"))


def _has(header: Column, *names: str) -> Column:
    """Return whether a message has all of these fields."""
    missing = f.array_except(f.array(*map(f.lit, names)), f.map_keys(header))
    return f.size(missing) == 0


def _has_only(header: Column, names: Sequence[str], others: Sequence[str] = ()) -> Column:
    """Return whether a message has all of some fields, and none but these and some others."""
    known_names = f.array(*map(f.lit, (*names, *others)))
    return _has(header, *names) & (f.size(f.array_except(f.map_keys(header), known_names)) == 0)


def _is_flat(header: Column) -> Column:
    return f.map_contains_key(header, "__op") | f.map_contains_key(header, "__deleted")


def _changes_no_row(header: Column) -> Column:
    """Return whether a message is of a kind that is left out."""
    is_heartbeat = _has_only(header, ("ts_ms",), _TIMES)
    is_tombstone = _has_only(header, _WRAPPER)
    is_transaction = _has_only(header, _TRANSACTION, _OF_TRANSACTION + _TIMES)
    is_schema_change = _has_only(header, _SCHEMA_CHANGE, _OF_SCHEMA_CHANGE + _TIMES)
    is_other = is_heartbeat | is_tombstone | is_transaction | is_schema_change
    is_message = header["op"].eqNullSafe("m") & _has(header, "message")
    has_no_operation = ~f.map_contains_key(header, "op")
    return ~_is_flat(header) & (is_message | (is_other & has_no_operation))


def _flat_source(header: Column) -> Column:
    """Return fields of ``source`` of a flattened message: ``__lsn`` and ``__source_lsn`` are one.

    Where it has both names of one, the shorter counts.
    """

    def is_shortest(name: Column, _: Column) -> Column:
        short = f.regexp_replace(name, _FLAT_NAME, "__")
        is_shortest = (name == short) | ~f.map_contains_key(header, short)
        # __ts_ms is the time of the connector, not of the source.
        is_time = name == "__source_ts_ms"
        return name.startswith("__") & (name != "__ts_ms") & (is_shortest | is_time)

    fields = f.map_filter(header, is_shortest)
    return f.transform_keys(fields, lambda name, _: f.regexp_replace(name, _FLAT_NAME, ""))


def _source(name: str) -> Column:
    return f.col("source")[name]


def _operation() -> Column:
    header = f.col("header")
    is_deleted = header["__deleted"].eqNullSafe("true")
    # Of a flattened message without an operation the position may say that it is of a snapshot.
    is_snapshot = f.col("source")["snapshot"] != "false"
    named = f.coalesce(header["__op"], f.when(is_snapshot, "r"), f.lit("u"))
    flat = f.when(is_deleted, "d").otherwise(named)
    return f.when(f.col("is_flat"), flat).otherwise(header["op"])


def _row() -> Column:
    header, key = f.col("header"), f.col("key")
    mongodb_key = f.concat(f.lit('{"_id":'), f.get_json_object(key, "$.id"), f.lit("}"))
    own_key = f.when(f.col("is_mongodb"), mongodb_key).otherwise(key)
    is_delete = f.col("op").eqNullSafe("d")
    envelope = f.when(is_delete, f.coalesce(header["before"], own_key)).otherwise(header["after"])
    row = f.when(f.col("is_flat"), f.col("event")).otherwise(envelope)
    return f.when(f.col("is_mongodb"), _plain_json(row)).otherwise(row)


def read_row(row: s.StructType) -> Column:
    """Return the row of a message as a struct, of the columns of `read_messages`.

    It is read of the text as it came: within ``json`` Spark has made numbers with a fraction
    DOUBLEs. NULL for MongoDB, and if ``row`` has no fields.
    """
    if not row.fields:
        return f.lit(None).cast(row)
    envelope = s.StructType().add("before", row).add("after", row)
    sides = _read(f.col("event_text"), envelope)
    deleted = f.coalesce(sides["before"], _read(f.col("key_text"), row))
    changed = f.when(f.col("op").eqNullSafe("d"), deleted).otherwise(sides["after"])
    flat = f.when(f.col("is_flat"), _read(f.col("event_text"), row))
    return flat.when(~f.col("is_mongodb"), changed)


def _read(text: Column, struct: s.StructType) -> Column:
    wrapped = f.from_json(text, s.StructType().add("payload", struct))["payload"]
    return f.when(_is_wrapped(text), wrapped).otherwise(f.from_json(text, struct))


def _is_wrapped(text: Column) -> Column:
    names = f.json_object_keys(text)
    return (f.size(names) == 2) & f.forall(names, lambda name: name.isin(*_WRAPPER))


def payload(text: Column) -> Column:
    """Return the JSON of a message without the wrapper of Kafka Connect, if it has one."""
    inner = f.coalesce(f.get_json_object(text, "$.payload"), text)
    return f.when(_is_wrapped(text), inner).otherwise(text)


def _plain_json(text: Column) -> Column:
    """Return a document of MongoDB with plain values: numbers, and text for all others.

    A date that is a number of milliseconds stays an object, ``{"$date": …}``: see debezium_values.
    """
    for pattern, value in _EXTENDED:
        text = f.regexp_replace(text, pattern, value)
    return text
