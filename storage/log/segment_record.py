"""The log's record of a segment: its file, and the statistics of each table in it.

Promises: `from_json(to_json())` gives an equal record. Does not know: what is in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..paths import is_segment_name

# On disk: never change. So many bytes of a primary key are in the statistics.
KEY_BOUND_BYTES = 32


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """The statistics of one table in one segment.

    ``rows`` counts all entries, ``deletes`` those that delete, ``expiring`` the rows with an
    expiry, ``parts`` those without one that are of parts of rows. ``first_key`` and ``last_key``
    are full keys, in whose order vnodes come first; ``least_key`` and ``greatest_key`` are of the
    first `KEY_BOUND_BYTES` bytes of what follows the vnode. ``shard_bytes`` are bytes of keys and
    values per shard.
    """

    table_id: int
    rows: int
    deletes: int
    first_key: bytes
    last_key: bytes
    shard_bytes: tuple[int, ...]
    least_key: bytes
    greatest_key: bytes
    expiring: int = 0
    parts: int = 0

    @property
    def stored_bytes(self) -> int:
        """The number of bytes of the table's keys and values in the segment."""
        return sum(self.shard_bytes)

    def to_json(self) -> dict[str, Any]:
        """Return the statistics as JSON values. On disk: never change a name."""
        expiring = {"expiring": self.expiring} if self.expiring else {}
        parts = {"parts": self.parts} if self.parts else {}
        return {
            **expiring,
            **parts,
            "table_id": self.table_id,
            "rows": self.rows,
            "deletes": self.deletes,
            "first_key": self.first_key.hex(),
            "last_key": self.last_key.hex(),
            "least_key": self.least_key.hex(),
            "greatest_key": self.greatest_key.hex(),
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
            bytes.fromhex(value["least_key"]),
            bytes.fromhex(value["greatest_key"]),
            value.get("expiring", 0),
            value.get("parts", 0),
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
        return sum(table.stored_bytes for table in self.tables if table.table_id == table_id)

    def expiring(self, table_id: int) -> int:
        """Return the number of a table's rows in the segment that expire."""
        return sum(table.expiring for table in self.tables if table.table_id == table_id)

    @property
    def names_keys(self) -> bool:
        """Whether it has keys of rows: see `without_keys`."""
        return any(table.last_key or table.greatest_key for table in self.tables)

    def without_keys(self) -> SegmentRecord:
        """Return the record without keys of rows, for a segment whose rows nobody reads again."""
        tables = (
            replace(table, first_key=b"", last_key=b"", least_key=b"", greatest_key=b"")
            for table in self.tables
        )
        return replace(self, tables=tuple(tables))

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
            parse_segment_name(value["name"]),
            value["size"],
            value["hash"],
            tuple(TableStatistics.from_json(table) for table in value["tables"]),
            None if value["place"] is None else _sequence_number(value["place"]),
        )


def check_record(record: SegmentRecord) -> None:
    """Raise ValueError for a segment that no writer makes."""
    number = record.sequence_number
    if number is not None and not (number[0] >= 1 and number[1] >= 0):
        raise ValueError(f"the sequence number {number}")
    if len({table.table_id for table in record.tables}) < len(record.tables):
        raise ValueError(f"segment {record.name} has statistics of a table twice")
    for table in record.tables:
        check_statistics(table)


def check_statistics(table: TableStatistics) -> None:
    """Raise ValueError for statistics that no rows have."""
    numbers = (table.rows - 1, table.deletes, table.expiring, table.parts, *table.shard_bytes)
    are_ordered = table.first_key <= table.last_key and table.least_key <= table.greatest_key
    if min(numbers) < 0 or not are_ordered:
        raise ValueError(f"statistics {table!r:.200}")


def check_shards(record: SegmentRecord, shards: int) -> None:
    """Raise ValueError for a segment whose statistics are of another number of shards."""
    for table in record.tables:
        if len(table.shard_bytes) != shards:
            raise ValueError(f"statistics of {len(table.shard_bytes)} shards, not of {shards}")


def parse_segment_name(name: str) -> str:
    """Return ``name``; ValueError if no segment can have it."""
    if not is_segment_name(name):
        raise ValueError(f"{name!r} is not the name of a segment")
    return name


def _sequence_number(value: list[int]) -> tuple[int, int]:
    epoch, rank = value
    return epoch, rank
