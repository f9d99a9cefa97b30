"""The statements that create tables, as values.

    CREATE [OR REPLACE] TABLE [IF NOT EXISTS] t
        (column type [NOT NULL] [DEFAULT value | GENERATED ALWAYS AS (expression)]
            [COMMENT 'text'] [CHECK (condition)], …
            [, PRIMARY KEY (a, b DESC NULLS LAST)] [, [CONSTRAINT c] CHECK (condition)])
        [USING relstate] [COMMENT 'text']
        [TBLPROPERTIES ('merge' = 'partial', 'version_column' = 'c', 'ttl' = '7 days', …)]
    CREATE [OR REPLACE] TABLE [IF NOT EXISTS] t [(PRIMARY KEY (a, b))] … AS query
    CREATE [OR REPLACE] TABLE [IF NOT EXISTS] t LIKE source

The primary key may name its distribution key first, in parentheses of its own, as in YugabyteDB:
``PRIMARY KEY ((customer), order_id)``.

Does not know: the store, Spark, or what a property means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlglot import Token, TokenType

from relstate.connector.syntax.tokens import TokenReader, excerpt
from relstate.storage import errors

from . import refusals
from .ddl import (
    ExpectedAction,
    default_position,
    read_descriptions,
    read_expectation,
    read_new_name,
)
from .generated_clause import read_generated

QUERIES = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(")


@dataclass(frozen=True, slots=True)
class CreateTable:
    """``columns``: DDL as written.

    Keys, constraints, defaults and generated columns are as `Store.create_table` takes them.
    """

    name: str
    columns: str
    primary_key: tuple[str, ...] | None
    distribution_key: tuple[str, ...] | None
    if_not_exists: bool
    properties: dict[str, str] = field(default_factory=dict)
    or_replace: bool = False
    constraints: dict[str, str] = field(default_factory=dict)
    expectations: dict[str, tuple[str, ExpectedAction]] = field(default_factory=dict)
    defaults: dict[str, str] = field(default_factory=dict)
    generated: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreateTableAs:
    """Create a table with the columns and rows of a query; the other fields as of `CreateTable`."""

    name: str
    query: str
    primary_key: tuple[str, ...] | None
    distribution_key: tuple[str, ...] | None
    if_not_exists: bool
    properties: dict[str, str] = field(default_factory=dict)
    or_replace: bool = False


@dataclass(frozen=True, slots=True)
class CreateTableLike:
    """Create an empty table with the columns, keys and properties of the table ``source``."""

    name: str
    source: str
    if_not_exists: bool
    or_replace: bool = False


Creation: TypeAlias = CreateTable | CreateTableAs | CreateTableLike
_Key: TypeAlias = tuple[tuple[str, ...], tuple[str, ...] | None]

_BY_KEY = (
    "a table's rows are distributed by a hash of its primary key and sorted by it: write the "
    "columns first in the key, PRIMARY KEY ((region), id) to have the rows of a region together"
)
_IN_STORE = "the rows of a table are in its store; leave this out"
_COPY = (
    "a clone is not offered, because its files would be shared with a table that is compacted and "
    "vacuumed: copy the rows, CREATE TABLE t LIKE s and INSERT INTO t SELECT * FROM s"
)
_REFUSED: tuple[tuple[tuple[str, ...], str], ...] = (
    (("PARTITIONED", "BY"), _BY_KEY),
    (("CLUSTER", "BY"), _BY_KEY),
    (("CLUSTERED", "BY"), _BY_KEY),
    (("SORTED", "BY"), _BY_KEY),
    (("LOCATION",), _IN_STORE),
    (("STORED", "AS"), _IN_STORE),
    (("ROW", "FORMAT"), _IN_STORE),
    (("OPTIONS",), "write TBLPROPERTIES ('key' = 'value')"),
    (("SHALLOW", "CLONE"), _COPY),
    (("DEEP", "CLONE"), _COPY),
    (("CLONE",), _COPY),
)
_CONSTRAINTS = ("UNIQUE", "FOREIGN", "FOREIGN KEY", "PRIMARY KEY")


@dataclass(frozen=True, slots=True)
class _Check:
    """A CHECK, which may have no name, or an expectation, if it says what becomes of rows."""

    name: str | None
    expression: str
    on_violation: ExpectedAction | None = None


@dataclass(frozen=True, slots=True)
class _Columns:
    """What is in the parentheses of CREATE TABLE.

    ``definitions``: of columns, as written without what is in the other fields. ``keys``: the
    primary keys. ``defaults`` and ``generated``: by the names of their columns.
    """

    definitions: list[str] = field(default_factory=list)
    keys: list[_Key] = field(default_factory=list)
    checks: list[_Check] = field(default_factory=list)
    defaults: dict[str, str] = field(default_factory=dict)
    generated: dict[str, str] = field(default_factory=dict)


def read_create_table(reader: TokenReader) -> Creation:
    """Read what follows CREATE TABLE."""
    return _read_create(reader, or_replace=False)


def read_replace_table(reader: TokenReader) -> Creation:
    """Read what follows CREATE OR REPLACE TABLE."""
    if reader.next_is("IF", "NOT", "EXISTS"):
        raise errors.UnsupportedStatementError(
            "CREATE OR REPLACE and IF NOT EXISTS exclude each other; write one of them"
        )
    return _read_create(reader, or_replace=True)


def _read_create(reader: TokenReader, *, or_replace: bool) -> Creation:
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = read_new_name(reader, "the table's name")
    if reader.accept("LIKE"):
        source = reader.name("the table's name")
        _accept_using(reader)
        reader.finish()
        return CreateTableLike(name, source, if_not_exists, or_replace)
    columns = _read_columns(reader) if reader.next_is("(") else _Columns()
    keys = columns.keys
    properties = _read_clauses(reader)
    if len(keys) > 1:
        raise errors.UnsupportedStatementError(
            f"the table {name!r} has {len(keys)} primary keys: write one PRIMARY KEY (column, …), "
            "or none"
        )
    primary_key, distribution_key = keys[0] if keys else (None, None)
    if reader.accept("AS") or any(reader.next_is(word) for word in QUERIES):
        if columns.definitions or columns.checks:
            first = [*columns.definitions, *(check.expression for check in columns.checks)][0]
            raise errors.UnsupportedStatementError(
                f"the columns of {name!r} are those of its query: leave out {excerpt(first)}, and "
                "write only PRIMARY KEY (column, …) in the parentheses"
            )
        if reader.token is None:
            raise reader.unexpected("a query")
        query = reader.source(reader.rest())
        return CreateTableAs(
            name, query, primary_key, distribution_key, if_not_exists, properties, or_replace
        )
    if not columns.definitions:
        raise reader.unexpected("the columns in parentheses, LIKE a table, or AS a query")
    reader.finish()
    ddl = ", ".join(columns.definitions)
    return CreateTable(
        name,
        ddl,
        primary_key,
        distribution_key,
        if_not_exists,
        properties,
        or_replace,
        *_named_checks(columns.checks),
        columns.defaults,
        columns.generated,
    )


def _named_checks(
    checks: Sequence[_Check],
) -> tuple[dict[str, str], dict[str, tuple[str, ExpectedAction]]]:
    """Return (constraints, expectations) by their names; those without one get a number."""
    names = [
        f"check_{number}" if check.name is None else check.name
        for number, check in enumerate(checks, start=1)
    ]
    for name in names:
        if names.count(name) > 1:
            raise errors.UnsupportedStatementError(f"two constraints are named {name!r}")
    constraints, expectations = {}, {}
    for name, check in zip(names, checks, strict=True):
        if check.on_violation is None:
            constraints[name] = check.expression
        else:
            expectations[name] = check.expression, check.on_violation
    return constraints, expectations


def _read_clauses(reader: TokenReader) -> dict[str, str]:
    """Return the properties of the clauses after the columns, which come in any order."""
    _accept_using(reader)
    properties = read_descriptions(reader)
    if _accept_using(reader):
        properties |= read_descriptions(reader)
    for words, reason in _REFUSED:
        if reader.next_is(*words):
            raise errors.UnsupportedStatementError(f"{' '.join(words)}: {reason}")
    return properties


def _accept_using(reader: TokenReader) -> bool:
    """Read USING relstate, if it is next, and return whether it was."""
    if not reader.accept("USING"):
        return False
    name = reader.name("the name of a format")
    if name.lower() == "redis":
        raise errors.UnsupportedStatementError(
            "only a materialized view can show hashes of Redis as rows: CREATE MATERIALIZED VIEW "
            "users (id STRING, name STRING) USING REDIS HASH 'user:*'"
        )
    if name.lower() != "relstate":
        raise errors.UnsupportedStatementError(
            f"USING {name}: the tables of a store are relstate's own; leave USING out, or create "
            "the table by spark.sql"
        )
    return True


def _read_columns(reader: TokenReader) -> _Columns:
    """Return what a list in parentheses defines."""
    columns = _Columns()
    for item in reader.definitions():
        check = read_check(TokenReader(reader.text, item))
        if check is not None:
            columns.checks.append(check)
            continue
        _check_constraint(reader, item)
        refusals.check_column(item, reader.source(item))
        item, own_checks = _without_checks(reader.text, item)
        columns.checks.extend(own_checks)
        if item and item[0].token_type is TokenType.PRIMARY_KEY:
            columns.keys.append(_read_key(reader.text, item[1:]))
            continue
        if any(token.token_type is TokenType.PRIMARY_KEY for token in item):
            item = _without_key(item)
            columns.keys.append(((reader.source(item[:1]),), None))
        computed = read_generated(reader, item)
        if computed is not None:
            columns.generated[_name_of(reader, item)] = computed.expression
            columns.definitions.append(computed.definition)
            continue
        definition, default = _without_default(reader, item)
        columns.definitions.append(definition)
        if default is not None:
            columns.defaults[_name_of(reader, item)] = default
    return columns


def _name_of(reader: TokenReader, item: Sequence[Token]) -> str:
    return TokenReader(reader.text, item).part("a column's name")


def _without_default(reader: TokenReader, item: Sequence[Token]) -> tuple[str, str | None]:
    """Return (the definition of a column without its DEFAULT, the expression of that or None)."""
    start = default_position(item)
    if start is None:
        return reader.source(item), None
    stop = start + 1
    while stop < len(item) and not _ends_default(item, stop):
        stop += 1
    if stop == start + 1:
        raise errors.UnsupportedStatementError(
            f"{excerpt(reader.source(item))}: write a constant or an expression after DEFAULT"
        )
    parts = [reader.source(part) for part in (item[:start], item[stop:]) if part]
    return " ".join(parts), reader.source(item[start + 1 : stop])


def _ends_default(item: Sequence[Token], index: int) -> bool:
    """Tell whether a clause of a column begins, not a word of a constant."""
    token = item[index]
    if token.token_type in (TokenType.IDENTIFIER, TokenType.STRING):
        return False
    word = token.text.upper()
    return word == "COMMENT" or (word == "NOT" and item[index - 1].text.upper() != "IS")


def read_check(reader: TokenReader) -> _Check | None:
    """Read a CHECK or an expectation, up to the end; None if it is not next.

    ``[CONSTRAINT name] CHECK (condition)``, or ``CONSTRAINT name EXPECT (condition)`` and, if rows
    are not only counted, ``ON VIOLATION DROP ROW`` or ``FAIL UPDATE``.
    """
    name = None
    if reader.next_is("EXPECT", "("):
        raise errors.UnsupportedStatementError(
            f"{excerpt(reader.source(reader.rest()))}: an expectation has a name, by which its "
            "violations are counted: write CONSTRAINT name EXPECT (condition)"
        )
    if not reader.next_is("CHECK", "("):
        if not reader.accept("CONSTRAINT"):
            return None
        name = reader.name("the constraint's name")
        if reader.accept("EXPECT"):
            expectation = read_expectation(reader)
            reader.finish()
            return _Check(name, *expectation)
        if not reader.next_is("CHECK"):
            return None
    reader.expect("CHECK")
    items = reader.parenthesised()
    reader.accept("ENFORCED")
    reader.finish()
    return _Check(name, reader.source([token for item in items for token in item]))


def _without_checks(text: str, item: Sequence[Token]) -> tuple[Sequence[Token], list[_Check]]:
    """Return (the tokens of a column without the CHECK at their end, that one)."""
    for index in range(2, len(item)):
        reader = TokenReader(text, item[index:])
        is_named = reader.next_is("CONSTRAINT")
        if (is_named or reader.next_is("CHECK", "(")) and item[index - 1].text != "<":
            check = read_check(reader)
            if check is not None:
                return item[:index], [check]
    return item, []


def _check_constraint(reader: TokenReader, item: Sequence[Token]) -> None:
    """UnsupportedStatementError for a part of a column's definition that is not offered."""
    words = [token.text.upper() for token in item[:3]]
    is_named = len(item) > 2 and words[0] == "CONSTRAINT" and words[2] in _CONSTRAINTS
    if is_named or (len(item) > 1 and words[0] in _CONSTRAINTS and words[0] != "PRIMARY KEY"):
        raise errors.UnsupportedStatementError(
            f"{excerpt(reader.source(item))}: the constraints of a table are NOT NULL after a "
            "column, CHECK (condition), and at most one PRIMARY KEY (column, …) without a name; "
            "FOREIGN KEY is not offered, and for UNIQUE there is CREATE UNIQUE INDEX i ON t "
            "(column, …)"
        )


def _read_key(text: str, tokens: Sequence[Token]) -> _Key:
    """Return (primary key, distribution key or None) of ``(a, b)`` or ``((a), b)``."""
    reader = TokenReader(text, tokens)
    items = reader.parenthesised()
    reader.finish()
    first = items[0]
    if not first or first[0].token_type is not TokenType.L_PAREN:
        return tuple(reader.source(item) for item in items), None
    hashed = TokenReader(text, first).parenthesised()
    names = tuple(TokenReader(text, item).part("a column's name") for item in hashed)
    return tuple(reader.source(item) for item in (*hashed, *items[1:])), names


def _without_key(item: Sequence[Token]) -> Sequence[Token]:
    """Return the tokens of ``a BIGINT PRIMARY KEY``, which must end so, without these words."""
    if item[-1].token_type is not TokenType.PRIMARY_KEY:
        definition = " ".join(token.text for token in item)
        raise errors.UnsupportedStatementError(
            f"{excerpt(definition)}: write PRIMARY KEY at the end of a column's definition, or "
            "PRIMARY KEY (column, …) as a separate item; NOT NULL, DEFAULT, CHECK and COMMENT come "
            "before it; leave out RELY and NOT ENFORCED"
        )
    return item[:-1]
