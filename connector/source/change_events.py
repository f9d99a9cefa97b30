"""Change feeds as messages: rows of ``key`` and ``value``, as Spark's Kafka sink takes them.

The key is a JSON object of the table's key columns. In the format ``debezium`` the value is the
envelope of Debezium's JSON converter without schemas: ``before``, ``after``, ``op`` (c, u, d, and r
for a row of the snapshot with which a stream begins), ``source`` and ``ts_ms``. In the format
``json`` it is the row after the change, and NULL after a delete.

Promises: messages of one key come in the order of its changes; the same changes have the same text.
Does not know: Kafka, or how changes are found.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from pyspark.sql.types import StringType, StructField, StructType

from relstate.connector.options import FeedOptions
from relstate.connector.row_json import json_rows
from relstate.storage import TableSchema, errors, feed_fields

if TYPE_CHECKING:
    from relstate.storage import FeedPlan, FeedSnapshot, TableDefinition

EVENT_SCHEMA = StructType(
    [StructField("key", StringType(), False), StructField("value", StringType(), True)]
)
_ARROW_SCHEMA = pa.schema([pa.field("key", pa.string(), False), pa.field("value", pa.string())])
_FEED_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
_OPERATIONS = {"insert": "c", "delete": "d", "update_postimage": "u"}
_PREIMAGE = "update_preimage"

_Message: TypeAlias = tuple[str, str | None]


def feed_schema_of(options: FeedOptions, table: TableSchema) -> StructType | None:
    """Return the schema of the messages that options ask for; None if they ask for rows.

    SchemaMismatchError for columns that the table does not have.
    """
    if options.change_format is None:
        return None
    row_columns(options, table)
    return EVENT_SCHEMA


def check_event_schema(schema: StructType) -> None:
    """SchemaMismatchError unless a schema that was given is that of messages."""
    names = [(field.name.lower(), field.dataType) for field in schema.fields]
    if names != [(field.name, field.dataType) for field in EVENT_SCHEMA.fields]:
        raise errors.SchemaMismatchError(
            "with option 'changeFormat' a feed has the columns key STRING and value STRING: leave "
            "out the schema that is given"
        )


def row_columns(options: FeedOptions, table: TableSchema) -> tuple[str, ...]:
    """Return the names of the table's columns that messages have in their rows."""
    names = options.columns
    if names is None:
        return tuple(column.name for column in table.visible_columns)
    fields = feed_fields(table, names)
    for field in fields:
        if field.name in _FEED_COLUMNS:
            raise errors.SchemaMismatchError(
                f"option 'columns' names {field.name}, and with option 'changeFormat' it names "
                "columns of the table alone: in Debezium's events the operation and the epoch are "
                "op and source.epoch"
            )
    return tuple(field.name for field in fields)


def event_columns(options: FeedOptions, table: TableSchema) -> tuple[str, ...]:
    """Return the names of the feed's columns that messages are made of."""
    keys = [column.name for column in table.key_columns]
    return tuple(dict.fromkeys([*row_columns(options, table), *keys, *_FEED_COLUMNS]))


@dataclass(frozen=True)
class EventPlan:
    """A feed of `event_columns` as messages. Picklable.

    ``row``: the names of the columns in ``before`` and ``after``. ``tombstones``: after an event of
    a delete comes a message without a value, by which Kafka forgets the key.
    """

    feed: FeedPlan | FeedSnapshot
    row: tuple[str, ...]
    format: str
    tombstones: bool

    @classmethod
    def of(cls, feed: FeedPlan | FeedSnapshot, options: FeedOptions) -> EventPlan:
        """Return the messages of a feed that options ask for."""
        definition = _definition(feed)
        row = row_columns(options, definition.schema)
        return cls(feed, row, options.change_format or "", options.tombstones)

    @property
    def stored_bytes(self) -> int:
        """The stored bytes of the entries that a read examines."""
        return self.feed.stored_bytes

    def partitions(self, count: int) -> tuple[tuple[range, ...], ...]:
        """Return the vnodes of each of ``count`` parallel units (at most one per vnode)."""
        return self.feed.partitions(count)

    def read(self, vnodes: Sequence[range] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the messages of the rows in some vnodes, by default all, as batches."""
        writer = _MessageWriter(self)
        for batch in self.feed.read(vnodes):
            keys, values = [], []
            for key, value in writer.messages(batch):
                keys.append(key)
                values.append(value)
            yield pa.RecordBatch.from_arrays(
                [pa.array(keys, pa.string()), pa.array(values, pa.string())], schema=_ARROW_SCHEMA
            )


class _MessageWriter:
    """Writes the messages of a feed's batches, which must come in order."""

    def __init__(self, plan: EventPlan) -> None:
        from relstate.storage import FeedSnapshot

        feed = plan.feed
        definition = _definition(feed)
        self._plan = plan
        self._table = definition.name
        self._snapshot = isinstance(feed, FeedSnapshot)
        self._keys = [(c.name, c.type) for c in definition.schema.key_columns]
        self._row = [(name, definition.schema.column(name).type) for name in plan.row]
        # The row before an update, whose postimage may be in the next batch.
        self._before = "null"

    def messages(self, batch: pa.RecordBatch) -> Iterator[_Message]:
        """Yield the messages of a batch, without those of preimages."""
        keys, rows = _texts(batch, self._keys), _texts(batch, self._row)
        kinds, epochs = (batch.column(name).to_pylist() for name in _FEED_COLUMNS[:2])
        times = batch.column(_FEED_COLUMNS[2]).cast(pa.int64()).to_pylist()
        for key, row, kind, epoch, time in zip(keys, rows, kinds, epochs, times, strict=True):
            if kind == _PREIMAGE:
                self._before = row
            elif self._plan.format == "json":
                yield key, None if kind == "delete" else row
            else:
                yield key, self._envelope(row, kind, epoch, time // 1000)
                if kind == "delete" and self._plan.tombstones:
                    yield key, None

    def _envelope(self, row: str, kind: str, epoch: int, milliseconds: int) -> str:
        operation = "r" if self._snapshot else _OPERATIONS[kind]
        before = {"d": row, "u": self._before}.get(operation, "null")
        after = "null" if operation == "d" else row
        source = {
            "connector": "relstate",
            "table": self._table,
            "epoch": epoch,
            "ts_ms": milliseconds,
            "snapshot": "true" if self._snapshot else "false",
        }
        return (
            f'{{"before": {before}, "after": {after}, "source": {_text(source)}, '
            f'"op": "{operation}", "ts_ms": {milliseconds}}}'
        )


def _texts(batch: pa.RecordBatch, columns: Sequence[tuple[str, Any]]) -> list[str]:
    """Return some columns of each row, of these names and types, as the text of a JSON object."""
    names = [name for name, _ in columns]
    types = [data_type for _, data_type in columns]
    return [_text(row) for row in json_rows(batch.select(names), types)]


def _text(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)


def _definition(feed: FeedPlan | FeedSnapshot) -> TableDefinition:
    """Return the table whose changes a feed has."""
    from relstate.storage import FeedSnapshot

    return feed.plan.definition if isinstance(feed, FeedSnapshot) else feed.definition
