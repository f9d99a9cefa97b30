"""The statements that look after tables and their files, as values.

    OPTIMIZE t [FULL]
    VACUUM [RETAIN n HOURS] [DRY RUN]
    ANALYZE TABLE t …
    RESTORE [TABLE] t TO VERSION AS OF 3 | TIMESTAMP AS OF '…'

Does not know: the store, or Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from relstate.connector.syntax.parsed_query import AsOf, read_as_of
from relstate.connector.syntax.tokens import TokenReader
from relstate.storage import errors

_HOUR = 3600


@dataclass(frozen=True, slots=True)
class Optimize:
    """Compact a table."""

    table: str


@dataclass(frozen=True, slots=True)
class Vacuum:
    """Remove files that no epoch of the last ``retention`` seconds needs.

    ``retention``: None for the store's own. ``dry_run``: only report.
    """

    retention: int | None
    dry_run: bool


@dataclass(frozen=True, slots=True)
class Analyze:
    """Collect statistics of a table, which relstate does not need."""

    table: str


@dataclass(frozen=True, slots=True)
class Restore:
    """Replace the rows of a table by those that it had at an epoch."""

    table: str
    as_of: AsOf


MaintenanceStatement: TypeAlias = Optimize | Vacuum | Analyze | Restore


def read_optimize(reader: TokenReader) -> Optimize:
    """Read what follows OPTIMIZE."""
    table = reader.name("the table's name")
    reader.accept("FULL")
    if reader.next_is("ZORDER") or reader.next_is("WHERE"):
        raise errors.UnsupportedStatementError(
            "OPTIMIZE compacts a whole table, whose rows stay sorted by the primary key: write "
            f"OPTIMIZE {table}; CREATE INDEX finds rows by other columns"
        )
    reader.finish()
    return Optimize(table)


def read_vacuum(reader: TokenReader) -> Vacuum:
    """Read what follows VACUUM."""
    if reader.token is not None and not (reader.next_is("RETAIN") or reader.next_is("DRY", "RUN")):
        raise errors.UnsupportedStatementError(
            "VACUUM names no table, because tables share their files: write VACUUM [RETAIN n "
            "HOURS] [DRY RUN] for the whole store"
        )
    retention = None
    if reader.accept("RETAIN"):
        token = reader.token
        if token is None or not token.text.isdecimal():
            raise reader.unexpected("a number of hours")
        reader.skip()
        retention = int(token.text) * _HOUR
        if not reader.accept("HOUR"):
            reader.expect("HOURS")
    dry_run = reader.accept("DRY", "RUN")
    reader.finish()
    return Vacuum(retention, dry_run)


def read_analyze(reader: TokenReader) -> Analyze:
    """Read what follows ANALYZE TABLE."""
    table = reader.name("the table's name")
    reader.rest()
    return Analyze(table)


def read_restore(reader: TokenReader) -> Restore:
    """Read what follows RESTORE."""
    reader.accept("TABLE")
    table = reader.name("the table's name")
    reader.expect("TO")
    as_of, _ = read_as_of(reader, reader.text)
    reader.finish()
    return Restore(table, as_of)
