"""The statements that the SQL door understands, as values: which one a text is.

    definition    CREATE TABLE, DROP TABLE, ALTER TABLE, SHOW TABLES, DESCRIBE
    change        INSERT, UPDATE, DELETE, TRUNCATE, MERGE
    here          SELECT …  (also WITH …, FROM …, VALUES …), and EXPLAIN [EXTENDED] of one

Does not know: the store, Spark, or which names in a query are tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from relstate.storage import errors

from . import change, definition
from .change import Change
from .definition import (
    Alteration,
    CreateTable,
    DescribeHistory,
    DescribeTable,
    DropTable,
    ShowTables,
)
from .tokens import TokenReader, shown, tokens_of


@dataclass(frozen=True, slots=True)
class Query:
    """A query in Spark's SQL, as written."""

    text: str


@dataclass(frozen=True, slots=True)
class Explain:
    """Tell how a query is run; ``mode`` is Spark's, as ``DataFrame.explain`` takes it."""

    text: str
    mode: str


Statement: TypeAlias = (
    CreateTable
    | DropTable
    | ShowTables
    | DescribeTable
    | DescribeHistory
    | Alteration
    | Change
    | Query
    | Explain
)

_QUERIES = ("SELECT", "WITH", "FROM", "VALUES", "(")
_MODES = ("EXTENDED", "FORMATTED", "COST", "CODEGEN")
_READERS: tuple[tuple[tuple[str, ...], Callable[[TokenReader], Statement]], ...] = (
    (("CREATE", "TABLE"), definition.create_table),
    (("DROP", "TABLE"), definition.drop_table),
    (("ALTER", "TABLE"), definition.alter_table),
    (("DESCRIBE", "HISTORY"), definition.describe_history),
    (("DESC", "HISTORY"), definition.describe_history),
    (("DESCRIBE",), definition.describe),
    (("DESC",), definition.describe),
    (("INSERT",), change.insert),
    (("UPDATE",), change.update),
    (("DELETE",), change.delete),
    (("TRUNCATE",), change.truncate),
    (("MERGE",), change.merge),
)


def parse_statement(text: str) -> Statement:
    """Return what a statement asks for; UnsupportedStatementError if it is none of ours."""
    tokens = tokens_of(text)
    reader = TokenReader(text, tokens)
    if any(reader.next_is(word) for word in _QUERIES):
        return Query(text[: tokens[-1].end + 1])
    for words, read in _READERS:
        if reader.accept(*words):
            return read(reader)
    if reader.accept("SHOW"):
        return definition.show(text, tokens)
    if reader.accept("EXPLAIN"):
        return _explain(text[tokens[0].end + 1 :])
    raise errors.UnsupportedStatementError(
        f"relstate runs queries, EXPLAIN, INSERT, UPDATE, DELETE, MERGE, TRUNCATE TABLE, CREATE, "
        f"DROP and ALTER TABLE, SHOW TABLES and DESCRIBE, not {shown(text)}; what concerns Spark "
        "alone goes to spark.sql"
    )


def _explain(rest: str) -> Explain:
    # To the tokenizer all that follows EXPLAIN is one string.
    tokens = tokens_of(rest)
    reader = TokenReader(rest, tokens)
    mode = next((mode.lower() for mode in _MODES if reader.accept(mode)), "simple")
    query = reader.token
    if query is None or not any(reader.next_is(word) for word in _QUERIES):
        raise reader.unexpected("a query")
    return Explain(rest[query.start : tokens[-1].end + 1], mode)
