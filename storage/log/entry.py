"""The entries of the commit log: the content of one commit, as values and as bytes.

Promises: `decode_entry(encode_entry(entry)) == entry`; an entry has one encoding; a changed byte,
or a value that no commit has, is a CorruptionError, an entry of a later format, or with a feature
that this version does not know, a FormatVersionError. Fields that it does not know are ignored.
Does not know: where entries are stored, or what state they lead to (state.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from relstate.vnode import MAX_VNODE_COUNT

from ..errors import CorruptionError, FormatVersionError, UsageError
from .features import Feature, check_readable, features_from_json, features_to_json
from .file_frame import seal, unseal
from .segment_record import SegmentRecord, check_record, parse_segment_name
from .table_definition import TableDefinition, check_definition
from .typecheck import check_types
from .view import ViewDefinition, ViewProgress
from .violations import Violations

# On disk: never change or reuse a number.
FORMAT = 1
# On disk: a rank has 24 bits. Never raise it.
MAX_SEGMENTS = 1 << 24
# The last microsecond of the year 9999, the last that Python's datetime has.
MAX_TIME = 253_402_300_799_999_999


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
class Transaction:
    """The last batch that a writer wrote to a table, so that a retry is recognized.

    ``run`` names one run of the writer; None for a writer without runs. ``time``: that of the
    commit, in microseconds since 1970; None in the entry, which has it itself.
    """

    writer: str
    table_id: int
    batch: int
    run: str | None = None
    time: int | None = field(default=None, compare=False)

    def to_json(self) -> dict[str, Any]:
        """Return the transaction as JSON values. On disk: never change a name."""
        return {
            "writer": self.writer,
            "table_id": self.table_id,
            "batch": self.batch,
            "run": self.run,
            **({} if self.time is None else {"time": self.time}),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Transaction:
        """Return the transaction from the result of `to_json`."""
        return cls(
            value["writer"], value["table_id"], value["batch"], value["run"], value.get("time")
        )


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
    views. ``violations``: of the rows that were written, or dropped, by expectation. ``features``:
    all that the store has from here on, sorted.
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
    violations: tuple[Violations, ...] = ()
    features: tuple[Feature, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the entry as JSON values. On disk: never change a name."""
        violations = [item.to_json() for item in self.violations]
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
            **({"violations": violations} if violations else {}),
            **features_to_json(self.features),
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
            removed=tuple(map(parse_segment_name, value["removed"])),
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
            violations=tuple(map(Violations.from_json, value.get("violations", ()))),
            features=features_from_json(value),
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

    CorruptionError if it is damaged or another epoch's, FormatVersionError if it is too new, or
    has a feature that readers must know and this version does not.
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
    for item in entry.violations:
        if item.rows < 1:
            raise ValueError(f"{item.rows} rows violate an expectation")


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


def malformed_error(location: str, kind: str, error: Exception) -> CorruptionError:
    """Return the error for a file whose JSON cannot be decoded; ``error``: what decoding raised.

    A right checksum says only that the file is as it was written, whoever wrote it.
    """
    return CorruptionError(
        f"{location}: its content is not a {kind} ({error!r:.300}): restore it from a backup"
    )


def check_format(value: Any, location: str) -> None:
    """Raise FormatVersionError if a file's content is of a later format than this code reads.

    So it does for a feature that this code does not know: see `check_readable`.
    """
    version = value.get("format") if isinstance(value, dict) else None
    if type(version) is not int or version < 1:
        raise CorruptionError(f"{location}: its content names no format version")
    if version > FORMAT:
        raise FormatVersionError(
            f"{location}: written in format {version}, this relstate reads up to {FORMAT}: update "
            "relstate"
        )
    check_readable(value, location)
