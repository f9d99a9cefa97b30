"""The entries of the commit log: the content of one commit, as values and as bytes.

Promises: `decode_entry(encode_entry(entry)) == entry`; an entry has one encoding; a changed byte,
or a value that no commit has, is a CorruptionError, an entry of a later format a
FormatVersionError. Does not know: where entries are stored, and what state they lead to (state.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from relstate.vnode import MAX_VNODE_COUNT

from ..errors import (
    CorruptionError,
    FormatVersionError,
    IndexNotFoundError,
    TableNameError,
    UsageError,
)
from ..paths import is_segment_name
from ..schema.index import IndexDefinition
from ..schema.properties import PLAIN, TableProperties
from ..schema.schema import TableSchema
from .frame import seal, unseal
from .typecheck import check_types
from .view import ViewDefinition, ViewProgress

# On disk: never change or reuse a number.
FORMAT = 1
# On disk: a rank has 24 bits. Never raise it.
MAX_SEGMENTS = 1 << 24
# On disk: 32 bits of every key are the table's id. Never raise it.
MAX_TABLE_ID = (1 << 32) - 1
# The last microsecond of the year 9999, the last that Python's datetime has.
MAX_TIME = 253_402_300_799_999_999

_TABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
RESERVED_PREFIX = "__internal_"


def lower_name(name: str) -> str:
    """Return the name of a table in lower case, as names are compared.

    TableNameError for what is not text.
    """
    if not isinstance(name, str):
        raise TableNameError(f"the name of a table is text, not {name!r}")
    return name.lower()


def check_table_name(name: str) -> None:
    """Raise TableNameError unless a user may give a table this name."""
    if not _TABLE_NAME.fullmatch(lower_name(name)):
        raise TableNameError(
            f"{name!r} is not a table name: use letters, digits and _, no digit first, at most 128 "
            "characters"
        )
    if name.lower().startswith(RESERVED_PREFIX):
        raise TableNameError(
            f"{name!r} is reserved: names of relstate's own tables begin with {RESERVED_PREFIX}; "
            "take another name"
        )


def check_index_name(name: str) -> None:
    """Raise TableNameError unless a user may give an index this name."""
    if not _TABLE_NAME.fullmatch(lower_name(name)):
        raise TableNameError(
            f"{name!r} is not the name of an index: use letters, digits and _, no digit first, at "
            "most 128 characters"
        )


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that are fixed when a store is created. ``retention`` is in seconds."""

    store_id: str
    vnode_count: int
    shards: int
    retention: int

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON values. On disk: never change a name."""
        return {
            "store_id": self.store_id,
            "vnode_count": self.vnode_count,
            "shards": self.shards,
            "retention": self.retention,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Settings:
        """Return the settings from the result of `to_json`."""
        return cls(value["store_id"], value["vnode_count"], value["shards"], value["retention"])


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """The statistics of one table in one segment.

    ``rows`` counts all entries, ``deletes`` those that delete, ``expiring`` the rows with an
    expiry; keys are without their version; ``shard_bytes`` are bytes of keys and values per shard.
    """

    table_id: int
    rows: int
    deletes: int
    first_key: bytes
    last_key: bytes
    shard_bytes: tuple[int, ...]
    expiring: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the statistics as JSON values. On disk: never change a name."""
        expiring = {"expiring": self.expiring} if self.expiring else {}
        return expiring | {
            "table_id": self.table_id,
            "rows": self.rows,
            "deletes": self.deletes,
            "first_key": self.first_key.hex(),
            "last_key": self.last_key.hex(),
            "shard_bytes": list(self.shard_bytes),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> TableStatistics:
        """Return the statistics from the result of `to_json`."""
        return cls(
            value["table_id"],
            value["rows"],
            value["deletes"],
            bytes.fromhex(value["first_key"]),
            bytes.fromhex(value["last_key"]),
            tuple(value["shard_bytes"]),
            value.get("expiring", 0),
        )


@dataclass(frozen=True, slots=True)
class SegmentRecord:
    """The log's record of one segment.

    ``name`` is without folder and suffix, ``size`` in bytes, ``hash`` the file's xxh3_64 in
    hexadecimal. ``sequence_number`` is the (epoch, rank) of the newest segment that compaction
    merged into it; None for a segment whose rows are new: it has that of its commit.
    """

    name: str
    size: int
    hash: str
    tables: tuple[TableStatistics, ...]
    sequence_number: tuple[int, int] | None = None

    def rows(self, table_id: int) -> int:
        """Return the number of a table's entries in the segment, deletes included."""
        return sum(table.rows for table in self.tables if table.table_id == table_id)

    def stored_bytes(self, table_id: int) -> int:
        """Return the number of bytes of a table's keys and values in the segment."""
        return sum(sum(table.shard_bytes) for table in self.tables if table.table_id == table_id)

    def expiring(self, table_id: int) -> int:
        """Return the number of a table's rows in the segment that expire."""
        return sum(table.expiring for table in self.tables if table.table_id == table_id)

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON values. On disk: never change a name."""
        return {
            "name": self.name,
            "size": self.size,
            "hash": self.hash,
            "tables": [table.to_json() for table in self.tables],
            "place": None if self.sequence_number is None else list(self.sequence_number),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> SegmentRecord:
        """Return the record from the result of `to_json`."""
        return cls(
            _segment_name(value["name"]),
            value["size"],
            value["hash"],
            tuple(TableStatistics.from_json(table) for table in value["tables"]),
            None if value["place"] is None else _sequence_number(value["place"]),
        )


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """A table in the catalog; its id is allocated once and never used again.

    ``older_schemas`` are those that its rows may still be encoded under, the oldest first.
    ``user_properties``: keys and values that mean nothing to relstate, sorted by the keys.
    ``indexes`` are its secondary indexes, in the order in which they were created.
    """

    table_id: int
    name: str
    schema: TableSchema
    created_epoch: int
    properties: TableProperties = PLAIN
    older_schemas: tuple[TableSchema, ...] = ()
    comment: str | None = None
    user_properties: tuple[tuple[str, str], ...] = ()
    indexes: tuple[IndexDefinition, ...] = ()

    def index(self, name: str) -> IndexDefinition:
        """Return an index by its name, whatever its case.

        IndexNotFoundError if there is none, TableNameError for what is not text.
        """
        for index in self.indexes:
            if index.name.lower() == lower_name(name):
                return index
        known = ", ".join(index.name for index in self.indexes) or "none"
        raise IndexNotFoundError(
            f"table {self.name!r} has no index {name!r}; its indexes are: {known}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the definition as JSON values. On disk: never change a name."""
        # Only there where they were given.
        comment = {} if self.comment is None else {"comment": self.comment}
        user_properties = [list(item) for item in self.user_properties]
        labels = comment | ({"user_properties": user_properties} if user_properties else {})
        indexes = {"indexes": [index.to_json() for index in self.indexes]} if self.indexes else {}
        return (
            labels
            | indexes
            | {
                "table_id": self.table_id,
                "name": self.name,
                "schema": self.schema.to_json(),
                "created_epoch": self.created_epoch,
                "properties": self.properties.to_json(),
                "older_schemas": [schema.to_json() for schema in self.older_schemas],
            }
        )

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> TableDefinition:
        """Return the definition from the result of `to_json`."""
        return cls(
            value["table_id"],
            value["name"],
            TableSchema.from_json(value["schema"]),
            value["created_epoch"],
            TableProperties.from_json(value["properties"]),
            tuple(map(TableSchema.from_json, value["older_schemas"])),
            value.get("comment"),
            tuple((key, text) for key, text in value.get("user_properties", ())),
            tuple(map(IndexDefinition.from_json, value.get("indexes", ()))),
        )


@dataclass(frozen=True, slots=True)
class Transaction:
    """The last batch that a writer wrote to a table, so that a retry is recognized.

    ``run`` names one run of the writer; None for a writer without runs.
    """

    writer: str
    table_id: int
    batch: int
    run: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the transaction as JSON values. On disk: never change a name."""
        return {
            "writer": self.writer,
            "table_id": self.table_id,
            "batch": self.batch,
            "run": self.run,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Transaction:
        """Return the transaction from the result of `to_json`."""
        return cls(value["writer"], value["table_id"], value["batch"], value["run"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One commit.

    ``commit_id`` is random and distinguishes this commit from others that wanted its epoch;
    ``parent`` is the commit id of the previous entry, empty in the first, so that logs cannot be
    mixed. ``time`` and ``started`` are microseconds since 1970: of the commit, which goes backwards
    only in a repair of the clock, and of the start of the job that wrote it. An entry without
    ``data_change`` is maintenance: no reader sees other rows. The rank of a segment is its index in
    ``added``.

    ``altered_tables`` replace the definitions with their ids. ``based_tables`` are the ids of the
    tables whose base epoch this is: their older rows are invisible from here on. ``oldest_epoch``,
    where not None, is the oldest epoch that can be read from here on. ``settings`` are in the first
    entry only.

    The tables of created views are among the created tables; a view is dropped with its table.
    ``altered_views`` replace the definitions with their ids. ``progress`` is that of the refreshed
    views.
    """

    commit_id: str
    parent: str
    epoch: int
    time: int
    started: int
    operation: str
    data_change: bool = True
    added: tuple[SegmentRecord, ...] = ()
    removed: tuple[str, ...] = ()
    created_tables: tuple[TableDefinition, ...] = ()
    altered_tables: tuple[TableDefinition, ...] = ()
    dropped_tables: tuple[int, ...] = ()
    based_tables: tuple[int, ...] = ()
    created_views: tuple[ViewDefinition, ...] = ()
    altered_views: tuple[ViewDefinition, ...] = ()
    progress: tuple[ViewProgress, ...] = ()
    transactions: tuple[Transaction, ...] = ()
    oldest_epoch: int | None = None
    settings: Settings | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the entry as JSON values. On disk: never change a name."""
        return {
            "format": FORMAT,
            "commit_id": self.commit_id,
            "parent": self.parent,
            "epoch": self.epoch,
            "time": self.time,
            "started": self.started,
            "operation": self.operation,
            "data_change": self.data_change,
            "added": [segment.to_json() for segment in self.added],
            "removed": list(self.removed),
            "created_tables": [table.to_json() for table in self.created_tables],
            "altered_tables": [table.to_json() for table in self.altered_tables],
            "dropped_tables": list(self.dropped_tables),
            "based_tables": list(self.based_tables),
            "created_views": [view.to_json() for view in self.created_views],
            "altered_views": [view.to_json() for view in self.altered_views],
            "progress": [progress.to_json() for progress in self.progress],
            "transactions": [transaction.to_json() for transaction in self.transactions],
            "oldest_epoch": self.oldest_epoch,
            "settings": None if self.settings is None else self.settings.to_json(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Entry:
        """Return the entry from the result of `to_json`."""
        settings = value["settings"]
        return cls(
            commit_id=value["commit_id"],
            parent=value["parent"],
            epoch=value["epoch"],
            time=value["time"],
            started=value["started"],
            operation=value["operation"],
            data_change=value["data_change"],
            added=tuple(map(SegmentRecord.from_json, value["added"])),
            removed=tuple(map(_segment_name, value["removed"])),
            created_tables=tuple(map(TableDefinition.from_json, value["created_tables"])),
            altered_tables=tuple(map(TableDefinition.from_json, value["altered_tables"])),
            dropped_tables=tuple(value["dropped_tables"]),
            based_tables=tuple(value["based_tables"]),
            created_views=tuple(map(ViewDefinition.from_json, value["created_views"])),
            altered_views=tuple(map(ViewDefinition.from_json, value["altered_views"])),
            progress=tuple(map(ViewProgress.from_json, value["progress"])),
            transactions=tuple(map(Transaction.from_json, value["transactions"])),
            oldest_epoch=value["oldest_epoch"],
            settings=None if settings is None else Settings.from_json(settings),
        )


def check_entry(entry: Entry) -> None:
    """Raise UsageError for an entry that `decode_entry` would refuse, such as a TTL of 2.5 seconds.

    Its segments, which the writers describe, are not checked.
    """
    described = replace(entry, added=())
    try:
        check_types(described)
        _check_values(described)
    except ValueError as error:
        raise UsageError(
            f"{error}: a value of this type or size cannot be stored; nothing was committed"
        ) from error


def encode_entry(entry: Entry) -> bytes:
    """Return the content of an entry's file: one line."""
    return seal("entry", entry.to_json())


def decode_entry(data: bytes, epoch: int, location: str) -> Entry:
    """Return the entry of ``epoch`` from its file's content; ``location`` is for messages.

    CorruptionError if it is damaged or another epoch's, FormatVersionError if it is too new.
    """
    value, lines = unseal("entry", data, location)
    check_format(value, location)
    try:
        entry = Entry.from_json(value)
        check_types(entry)
        _check_values(entry)
    except Exception as error:
        raise malformed_error(location, "log entry", error) from error
    if entry.epoch != epoch or lines:
        raise CorruptionError(
            f"{location}: it is the entry of epoch {entry.epoch}, not of epoch {epoch}; the file "
            "was renamed or replaced: restore it from a backup"
        )
    return entry


def _check_values(entry: Entry) -> None:
    """Raise ValueError for a value that no commit has."""
    if (entry.settings is None) == (entry.epoch == 1):
        raise ValueError("the settings of the store are those of its first entry")
    if entry.settings is not None:
        check_settings(entry.settings)
    check_time(entry.time)
    check_time(entry.started)
    if entry.oldest_epoch is not None and not 1 <= entry.oldest_epoch < entry.epoch:
        raise ValueError(f"{entry.oldest_epoch} cannot be the oldest epoch")
    if len(entry.added) > MAX_SEGMENTS:
        raise ValueError(f"{len(entry.added)} segments")
    for definition in (*entry.created_tables, *entry.altered_tables):
        check_definition(definition)
    for record in entry.added:
        check_record(record)


def check_settings(settings: Settings) -> None:
    """Raise ValueError for settings that no store has."""
    if not 1 <= settings.shards <= settings.vnode_count <= MAX_VNODE_COUNT:
        raise ValueError(f"{settings.vnode_count} vnodes in {settings.shards} shards")
    if settings.retention < 0:
        raise ValueError(f"a retention of {settings.retention} seconds")


def check_time(time: int) -> None:
    """Raise ValueError for a time that is not in the years 1970 to 9999."""
    if not 0 <= time <= MAX_TIME:
        raise ValueError(f"{time} microseconds since 1970")


def check_definition(definition: TableDefinition) -> None:
    """Raise ValueError for a table that nobody can create."""
    if not 1 <= definition.table_id <= MAX_TABLE_ID:
        raise ValueError(f"the table id {definition.table_id}")
    for schema in (definition.schema, *definition.older_schemas):
        schema.check()
    column_ids = {column.id for column in definition.schema.columns}
    for index in definition.indexes:
        if not index.columns or not column_ids.issuperset((*index.columns, *index.included)):
            raise ValueError(f"an index of columns that are not there: {index!r:.200}")


def check_record(record: SegmentRecord) -> None:
    """Raise ValueError for a segment that no writer makes."""
    number = record.sequence_number
    if number is not None and not (number[0] >= 1 and number[1] >= 0):
        raise ValueError(f"the sequence number {number}")
    if len({table.table_id for table in record.tables}) < len(record.tables):
        raise ValueError(f"segment {record.name} has statistics of a table twice")
    for table in record.tables:
        numbers = (table.rows - 1, table.deletes, table.expiring, *table.shard_bytes)
        if min(numbers) < 0 or table.first_key > table.last_key:
            raise ValueError(f"statistics {table!r:.200}")


def check_shards(record: SegmentRecord, shards: int) -> None:
    """Raise ValueError for a segment whose statistics are of another number of shards."""
    for table in record.tables:
        if len(table.shard_bytes) != shards:
            raise ValueError(f"statistics of {len(table.shard_bytes)} shards, not of {shards}")


def malformed_error(location: str, kind: str, error: Exception) -> CorruptionError:
    """Return the error for a file whose JSON cannot be decoded; ``error``: what decoding raised.

    A right checksum says only that the file is as it was written, whoever wrote it.
    """
    return CorruptionError(
        f"{location}: its content is not a {kind} ({error!r:.300}): restore it from a backup"
    )


def check_format(value: Any, location: str) -> None:
    """Raise FormatVersionError if a file's content is of a later format than this code reads."""
    version = value.get("format") if isinstance(value, dict) else None
    if type(version) is not int or version < 1:
        raise CorruptionError(f"{location}: its content names no format version")
    if version > FORMAT:
        raise FormatVersionError(
            f"{location}: written in format {version}, this relstate reads up to {FORMAT}: update "
            "relstate"
        )


def _segment_name(name: str) -> str:
    if not is_segment_name(name):
        raise ValueError(f"{name!r} is not the name of a segment")
    return name


def _sequence_number(value: list[int]) -> tuple[int, int]:
    epoch, rank = value
    return epoch, rank
