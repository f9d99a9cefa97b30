"""The statements about the indexes of a table, as values.

    CREATE [UNIQUE] INDEX [IF NOT EXISTS] i ON t (a, b DESC NULLS LAST) [INCLUDE (c, d)]
    DROP INDEX [IF EXISTS] i ON t
    SHOW INDEXES (ON | FROM | IN) t

Does not know: the store, or Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from relstate.connector.syntax.tokens import TokenReader

from .ddl import read_names


@dataclass(frozen=True, slots=True)
class CreateIndex:
    """The arguments of `Store.create_index`."""

    name: str
    table: str
    columns: tuple[str, ...]
    include: tuple[str, ...] = ()
    unique: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropIndex:
    """Drop an index; with ``if_exists`` a missing index is not an error."""

    name: str
    table: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ShowIndexes:
    """List the indexes of a table."""

    table: str


IndexStatement: TypeAlias = CreateIndex | DropIndex | ShowIndexes


def read_create_index(reader: TokenReader) -> CreateIndex:
    """Read what follows CREATE INDEX."""
    return _read_create(reader, unique=False)


def read_create_unique_index(reader: TokenReader) -> CreateIndex:
    """Read what follows CREATE UNIQUE INDEX."""
    return _read_create(reader, unique=True)


def read_drop_index(reader: TokenReader) -> DropIndex:
    """Read what follows DROP INDEX."""
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.name("the index's name")
    reader.expect("ON")
    table = reader.name("the table's name")
    reader.finish()
    return DropIndex(name, table, if_exists)


def read_show_indexes(reader: TokenReader) -> ShowIndexes:
    """Read what follows SHOW INDEXES."""
    if not any(reader.accept(word) for word in ("ON", "FROM", "IN")):
        raise reader.unexpected("ON and the table's name")
    table = reader.name("the table's name")
    reader.finish()
    return ShowIndexes(table)


def _read_create(reader: TokenReader, *, unique: bool) -> CreateIndex:
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = reader.name("the index's name")
    reader.expect("ON")
    table = reader.name("the table's name")
    columns = tuple(reader.source(item) for item in reader.parenthesised())
    include = read_names(reader) if reader.accept("INCLUDE") else ()
    reader.finish()
    return CreateIndex(name, table, columns, include, unique, if_not_exists)
