"""The statements that the SQL door understands, as values.

    CREATE TABLE [IF NOT EXISTS] t (column type [NOT NULL], …, PRIMARY KEY (a, b DESC NULLS LAST))
    DROP TABLE [IF EXISTS] t
    SHOW TABLES [LIKE 'pattern']
    DESCRIBE [TABLE] t
    SELECT …  (also WITH …, FROM …, VALUES …)

The primary key may name its distribution key first, in parentheses of its own, as in YugabyteDB:
``PRIMARY KEY ((customer), order_id)``.

Does not know: the store, Spark, or which names in a query are tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import Token, TokenType

from relstate.storage import errors

from .tokens import TokenReader, shown, tokens_of


@dataclass(frozen=True, slots=True)
class CreateTable:
    """``columns`` is DDL as written; keys are as `Store.create_table` takes them."""

    name: str
    columns: str
    primary_key: tuple[str, ...]
    distribution_key: tuple[str, ...] | None
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class DropTable:
    """Drop a table, or do nothing if there is none and ``if_exists``."""

    name: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class ShowTables:
    """List the tables whose names match ``pattern``, in Spark's sense; None for all."""

    pattern: str | None


@dataclass(frozen=True, slots=True)
class DescribeTable:
    """List the columns of a table."""

    name: str


@dataclass(frozen=True, slots=True)
class Query:
    """A query in Spark's SQL, as written."""

    text: str


Statement: TypeAlias = CreateTable | DropTable | ShowTables | DescribeTable | Query

_QUERIES = ("SELECT", "WITH", "FROM", "VALUES", "(")


def parse_statement(text: str) -> Statement:
    """Return what a statement asks for; UnsupportedStatementError if it is none of ours."""
    tokens = tokens_of(text)
    reader = TokenReader(text, tokens)
    if any(reader.next_is(word) for word in _QUERIES):
        return Query(text[: tokens[-1].end + 1])
    if reader.accept("CREATE", "TABLE"):
        return _create_table(reader)
    if reader.accept("DROP", "TABLE"):
        return _drop_table(reader)
    if reader.accept("SHOW"):
        return _show(text, tokens)
    if reader.accept("DESCRIBE") or reader.accept("DESC"):
        return _describe(reader)
    raise errors.UnsupportedStatementError(
        f"relstate runs CREATE TABLE, DROP TABLE, SHOW TABLES, DESCRIBE and queries, not "
        f"{shown(text)}; what concerns Spark alone goes to spark.sql"
    )


def _create_table(reader: TokenReader) -> CreateTable:
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = reader.name("the table's name")
    if not reader.next_is("("):
        raise reader.unexpected("the columns, with a PRIMARY KEY, in parentheses")
    columns: list[str] = []
    keys: list[tuple[tuple[str, ...], tuple[str, ...] | None]] = []
    for item in reader.parenthesised():
        if item and item[0].token_type is TokenType.PRIMARY_KEY:
            keys.append(_key_of(reader.text, item[1:]))
        elif any(token.token_type is TokenType.PRIMARY_KEY for token in item):
            columns.append(_source(reader.text, _without_key(item)))
            keys.append(((_source(reader.text, item[:1]),), None))
        else:
            columns.append(_source(reader.text, item))
    reader.finish()
    if len(keys) != 1:
        found = "none" if not keys else str(len(keys))
        raise errors.UnsupportedStatementError(
            f"the table {name!r} needs one PRIMARY KEY (column, …) among its columns; found {found}"
        )
    (primary_key, distribution_key) = keys[0]
    return CreateTable(name, ", ".join(columns), primary_key, distribution_key, if_not_exists)


def _key_of(text: str, tokens: Sequence[Token]) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Return (primary key, distribution key or None) of ``(a, b)`` or ``((a), b)``."""
    reader = TokenReader(text, tokens)
    items = reader.parenthesised()
    reader.finish()
    first = items[0]
    if not first or first[0].token_type is not TokenType.L_PAREN:
        return tuple(_source(text, item) for item in items), None
    hashed = tuple(_source(text, item) for item in TokenReader(text, first).parenthesised())
    return hashed + tuple(_source(text, item) for item in items[1:]), hashed


def _without_key(item: Sequence[Token]) -> Sequence[Token]:
    """Return the tokens of ``a BIGINT PRIMARY KEY``, which must end so, without these words."""
    if item[-1].token_type is not TokenType.PRIMARY_KEY:
        raise errors.UnsupportedStatementError(
            "the words PRIMARY KEY end a column's definition, or begin a part of their own"
        )
    return item[:-1]


def _drop_table(reader: TokenReader) -> DropTable:
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.name("the table's name")
    reader.finish()
    return DropTable(name, if_exists)


def _show(text: str, tokens: Sequence[Token]) -> ShowTables:
    # To the tokenizer all that follows SHOW is one string.
    rest = text[tokens[0].end + 1 : tokens[-1].end + 1]
    reader = TokenReader(rest, tokens_of(rest))
    reader.expect("TABLES")
    pattern = None
    if reader.accept("LIKE") or reader.token is not None:
        pattern = reader.string("a pattern in quotes")
    reader.finish()
    return ShowTables(pattern)


def _describe(reader: TokenReader) -> DescribeTable:
    reader.accept("TABLE")
    name = reader.name("the table's name")
    reader.finish()
    return DescribeTable(name)


def _source(text: str, tokens: Sequence[Token]) -> str:
    """Return the text that some tokens were read from."""
    if not tokens:
        raise errors.UnsupportedStatementError(
            f"there is nothing between two commas in {shown(text)}"
        )
    return text[tokens[0].start : tokens[-1].end + 1]
