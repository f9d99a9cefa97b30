"""The statements that describe tables, as values.

    SHOW TABLES [LIKE 'pattern']
    SHOW TBLPROPERTIES t [('key')]
    SHOW COLUMNS IN t
    SHOW CREATE TABLE t
    DESCRIBE [TABLE | MATERIALIZED VIEW] [EXTENDED | FORMATTED] t
    DESCRIBE [TABLE] t column
    DESCRIBE DETAIL t
    DESCRIBE HISTORY t [LIMIT n]

Does not know: the store, or Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from relstate.connector.syntax.tokens import TokenReader, excerpt
from relstate.storage import errors

from . import refusals
from .ddl import property_key, read_pattern


@dataclass(frozen=True, slots=True)
class ShowTables:
    """List the tables whose names match ``pattern``, in Spark's sense; None for all."""

    pattern: str | None


@dataclass(frozen=True, slots=True)
class ShowProperties:
    """List the properties of a table or view; ``key``: only this one."""

    table: str
    key: str | None


@dataclass(frozen=True, slots=True)
class ShowColumns:
    """List the names of the columns of a table or view."""

    table: str


@dataclass(frozen=True, slots=True)
class ShowCreate:
    """Return the statement that creates a table or view."""

    table: str


@dataclass(frozen=True, slots=True)
class DescribeTable:
    """List the columns of a table; if ``extended``, its properties too."""

    name: str
    extended: bool = False


@dataclass(frozen=True, slots=True)
class DescribeColumn:
    """Describe one column of a table or view, one row per property."""

    table: str
    column: str


@dataclass(frozen=True, slots=True)
class DescribeDetail:
    """Return one row about a table: its keys, its size, its properties."""

    name: str


@dataclass(frozen=True, slots=True)
class DescribeHistory:
    """List the commits that changed a table, the newest first; ``limit``: how many at most."""

    name: str
    limit: int | None = None


ShowStatement: TypeAlias = (
    ShowTables
    | ShowProperties
    | ShowColumns
    | ShowCreate
    | DescribeTable
    | DescribeColumn
    | DescribeDetail
    | DescribeHistory
)


def read_show_tables(reader: TokenReader) -> ShowTables:
    """Read what follows SHOW TABLES."""
    return ShowTables(read_pattern(reader))


def read_show_properties(reader: TokenReader) -> ShowProperties:
    """Read what follows SHOW TBLPROPERTIES."""
    name = reader.name("the table's name")
    key = None
    if reader.next_is("("):
        items = reader.parenthesised()
        key = property_key([token for item in items for token in item])
    reader.finish()
    return ShowProperties(name, key)


def read_show_columns(reader: TokenReader) -> ShowColumns:
    """Read what follows SHOW COLUMNS."""
    if not reader.accept("FROM"):
        reader.expect("IN")
    return ShowColumns(_last_name(reader))


def read_show_create(reader: TokenReader) -> ShowCreate:
    """Read what follows SHOW CREATE TABLE, or SHOW CREATE MATERIALIZED VIEW."""
    return ShowCreate(_last_name(reader))


def read_describe(reader: TokenReader) -> DescribeTable | DescribeColumn | DescribeDetail:
    """Read what follows DESCRIBE."""
    is_table = reader.accept("TABLE") or reader.accept("MATERIALIZED", "VIEW")
    extended = reader.accept("EXTENDED")
    name = reader.name("the table's name")
    refusals.OF_DESCRIBED.check(reader, name)
    # A table may be called so.
    word = name.upper() if reader.token is not None and not extended else ""
    if word == "DETAIL":
        return DescribeDetail(_last_name(reader))
    if word == "FORMATTED":
        return DescribeTable(_last_name(reader), extended=True)
    if reader.token is not None and not is_table:
        refusals.check_described(name)
    if reader.token is not None and not extended:
        return DescribeColumn(name, _last_name(reader, "the column's name"))
    reader.finish()
    return DescribeTable(name, extended)


def read_describe_query(reader: TokenReader) -> DescribeTable:
    """Return the description of a table named query; else UnsupportedStatementError."""
    if reader.token is None:
        return DescribeTable("query")
    query = reader.source(reader.rest())
    raise errors.UnsupportedStatementError(
        f"DESCRIBE QUERY {excerpt(query)}: db.sql(query).schema has the columns of a query, and "
        "EXPLAIN how it is run"
    )


def read_describe_history(reader: TokenReader) -> DescribeHistory:
    """Read what follows DESCRIBE HISTORY."""
    name = reader.name("the table's name")
    limit = reader.whole_number("a number of commits") if reader.accept("LIMIT") else None
    reader.finish()
    return DescribeHistory(name, limit)


def _last_name(reader: TokenReader, description: str = "the table's name") -> str:
    name = reader.name(description)
    reader.finish()
    return name
