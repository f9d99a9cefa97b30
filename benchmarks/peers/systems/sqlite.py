"""SQLite in the process, by Python's own module."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from relstate.vnode import cached_property

from ..peer import Work, checksum
from ..rows import FIRST_TIME
from ..sql_peer import SqlPeer

_TABLE = "CREATE TABLE t (k INTEGER PRIMARY KEY, i INTEGER, d REAL, ts INTEGER, s TEXT, m INTEGER)"
_REPLACE = "INSERT OR REPLACE INTO t VALUES (?, ?, ?, ?, ?, ?)"


class SqlitePeer(SqlPeer):
    """A table whose rowid is the key; timestamps are microseconds and decimals are cents."""

    name = "sqlite"
    settings = (
        (
            "journal_mode WAL, as its documents advise for speed; synchronous FULL, so that a "
            "commit is durable"
        ),
        "cache_size 256 MiB, mmap_size 1 GiB",
        "micro-batches are transactions of the process, without Spark",
        "timestamps as microseconds, decimals as cents: SQLite has neither type",
    )
    micros = f"ts - {FIRST_TIME}"

    def versions(self) -> dict[str, str]:
        """Return the version of SQLite."""
        return {"SQLite": sqlite3.sqlite_version}

    def close(self) -> None:
        """Close the file."""
        if "connection" in self.__dict__:
            self.connection.close()

    @cached_property
    def connection(self) -> sqlite3.Connection:
        """A connection that commits each statement unless a transaction was begun."""
        self.folder.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self.folder / "peer.sqlite", isolation_level=None)
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "cache_size = -262144"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute(f"PRAGMA mmap_size = {1 << 30}")
        return connection

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a statement."""
        return self.connection.execute(statement, values).fetchall()

    def load(self, files: str) -> Work:
        """Insert the rows of the files in one transaction."""
        for table in ("t", "totals"):
            self.execute(f"DROP TABLE IF EXISTS {table}")
        self.execute(_TABLE)

        def action() -> None:
            self.execute("BEGIN")
            for file in sorted(Path(files).glob("*.parquet")):
                self.connection.executemany(_REPLACE, _values(pq.read_table(file)))
            self.execute("COMMIT")

        return Work(action)

    def sums(self) -> Work:
        """Add up every column, the cents as a decimal."""
        return Work(super().sums().action, _row_with_amount)

    def groups(self) -> Work:
        """Add up one column by another."""
        return Work(super().groups().action, _checksum)

    def counted_groups(self, groups: int, condition: str | None = None) -> Work:
        """Add up one column by a computed value."""
        return Work(super().counted_groups(groups, condition).action, _row_with_amount)

    def get_many(self, keys: str) -> Work:
        """Fetch the rows of keys that are given as one JSON array, as SQLite's documents advise."""
        import json

        wanted = json.dumps(pq.read_table(keys)["k"].to_pylist())
        query = "SELECT t.* FROM json_each(?) AS wanted JOIN t ON t.k = wanted.value"
        return Work(lambda: self.execute(query, (wanted,)), lambda rows: sum(r[1] for r in rows))

    def write(self, rows: pa.Table) -> None:
        """Insert or replace rows."""
        self.execute("BEGIN")
        self.connection.executemany(_REPLACE, _values(rows))
        self.execute("COMMIT")

    silent: ClassVar = {"merge": "SQLite has no MERGE: the rows are written by INSERT OR REPLACE"}

    def merge(self, rows: str) -> Work:
        """Insert or replace rows."""
        return self.upsert(rows)

    def delete(self, keys: str) -> Work:
        """Delete keys that are in a temporary table."""
        values = [(key,) for key in pq.read_table(keys)["k"].to_pylist()]
        self.execute("CREATE TEMP TABLE IF NOT EXISTS gone (k INTEGER PRIMARY KEY)")
        self.execute("DELETE FROM gone")

        def action() -> None:
            self.execute("BEGIN")
            self.connection.executemany("INSERT INTO gone VALUES (?)", values)
            self.execute("DELETE FROM t WHERE k IN (SELECT k FROM gone)")
            self.execute("COMMIT")

        return Work(action)

    def refresh(self) -> Work:
        """Compute the table again."""
        return Work(
            super().refresh().action,
            lambda _: _checksum(self.execute("SELECT i, n, m FROM totals")),
        )

    def compact(self) -> Work:
        """Write the file anew."""

        def action() -> None:
            self.execute("VACUUM")
            self.execute("PRAGMA wal_checkpoint(TRUNCATE)")

        return Work(action)

    def stored(self) -> Work:
        """Find the bytes after the log is written into the file."""
        self.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return super().stored()


def _values(table: pa.Table) -> zip[tuple[Any, ...]]:
    """Return rows as SQLite takes them."""
    cents = pc.multiply(table["m"], pa.scalar(100, pa.decimal128(3, 0))).cast(pa.int64())
    columns = [table["k"], table["i"], table["d"], table["ts"].cast(pa.int64()), table["s"], cents]
    return zip(*(column.to_pylist() for column in columns), strict=True)


def _amount(cents: int) -> Decimal:
    return Decimal(cents).scaleb(-2)


def _row_with_amount(rows: list[tuple[Any, ...]]) -> list[str]:
    """Return the only row as texts, the cents at its end as a decimal."""
    return [*map(str, rows[0][:-1]), str(_amount(rows[0][-1]))]


def _checksum(groups: list[tuple[Any, ...]]) -> list[str]:
    return checksum([(group, count, _amount(cents)) for group, count, cents in groups])


PEER = SqlitePeer
