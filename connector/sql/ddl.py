"""The statements that drop, alter and comment tables, as values.

    DROP TABLE [IF EXISTS] t [CASCADE | RESTRICT]
    ALTER TABLE t ADD COLUMN[S] (…) | DROP COLUMN[S] (…) | RENAME COLUMN a TO b
        | ALTER COLUMN c TYPE type | ALTER COLUMN c COMMENT 'text' | RENAME TO u
        | ALTER COLUMN c SET DEFAULT value | ALTER COLUMN c DROP DEFAULT
        | ALTER COLUMN c DROP NOT NULL
        | ADD CONSTRAINT c CHECK (condition) | DROP CONSTRAINT [IF EXISTS] c
        | SET TBLPROPERTIES ('ttl' = '…') | UNSET TBLPROPERTIES ('ttl')
    COMMENT ON [MATERIALIZED VIEW | VIEW | TABLE] t IS 'text' | NULL
    COMMENT ON COLUMN t.c IS 'text' | NULL

Does not know: the store, Spark, or what a property means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from sqlglot import Token, TokenType

from relstate.connector.syntax.parsed_query import ParsedQuery
from relstate.connector.syntax.tokens import TokenReader, excerpt, quoted
from relstate.storage import errors

from . import refusals
from .generated_clause import read_generated
from .properties import COMMENT

ExpectedAction: TypeAlias = Literal["count", "drop", "fail"]
"""What becomes of a row that violates an expectation, as `Store.add_expectation` takes it."""


@dataclass(frozen=True, slots=True)
class DropTable:
    """Drop a table; with ``if_exists`` a missing table is not an error.

    With ``cascade`` the views that read it are dropped too.
    """

    name: str
    if_exists: bool
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class AddColumns:
    """Add columns to a table; ``columns``: DDL as written."""

    table: str
    columns: str


@dataclass(frozen=True, slots=True)
class DropColumns:
    """Drop columns of a table."""

    table: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Give a column another name."""

    table: str
    name: str
    new: str


@dataclass(frozen=True, slots=True)
class RenameTable:
    """Give a table another name."""

    table: str
    new: str


@dataclass(frozen=True, slots=True)
class WidenColumn:
    """Give a column a wider type; ``data_type``: DDL as written."""

    table: str
    name: str
    data_type: str


@dataclass(frozen=True, slots=True)
class AllowNull:
    """Let a column be NULL."""

    table: str
    name: str


@dataclass(frozen=True, slots=True)
class AddConstraint:
    """Add a CHECK constraint; ``expression``: the condition as written."""

    table: str
    name: str
    expression: str


@dataclass(frozen=True, slots=True)
class AddExpectation:
    """Add an expectation; ``on_violation``: what becomes of a row that violates it."""

    table: str
    name: str
    expression: str
    on_violation: ExpectedAction


@dataclass(frozen=True, slots=True)
class DropConstraint:
    """Drop a CHECK or an expectation; with ``if_exists`` a missing one is not an error."""

    table: str
    name: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class SetDefault:
    """Set the DEFAULT of a column; None removes it."""

    table: str
    name: str
    expression: str | None


@dataclass(frozen=True, slots=True)
class CommentColumn:
    """Set the comment of a column; None removes it."""

    table: str
    name: str
    comment: str | None


@dataclass(frozen=True, slots=True)
class CommentTable:
    """Set the comment of a table or view; None removes it."""

    table: str
    comment: str | None


@dataclass(frozen=True, slots=True)
class SetProperties:
    """Set properties of a table; None removes one."""

    table: str
    properties: dict[str, str | None]


@dataclass(frozen=True, slots=True)
class RecoverQuarantine:
    """Write rows in the quarantine of a table again; ``where``: which, None for all."""

    table: str
    where: str | None


def read_new_name(reader: TokenReader, description: str) -> str:
    """Read the name of a new table or view.

    UnsupportedStatementError for a word of SQL by which no query could name it.
    """
    token = reader.token
    name = reader.name(description)
    if token is not None and token.token_type is not TokenType.IDENTIFIER and not _is_named(name):
        raise errors.UnsupportedStatementError(
            f"{description} {name!r} is a word of SQL that a query cannot use as a name: write "
            f"{quoted(name)}"
        )
    return name


def _is_named(name: str) -> bool:
    """Tell whether a query can name a table so without quotes."""
    text = f"SELECT * FROM {name}"
    try:
        references = ParsedQuery.parse(text).table_references(lambda name, as_of: True)
    except errors.UnsupportedStatementError:
        return False
    return [reference.name for reference in references] == [name]


def read_drop_table(reader: TokenReader) -> DropTable:
    """Read what follows DROP TABLE."""
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.name("the table's name")
    cascade = reader.accept("CASCADE")
    if not cascade:
        reader.accept("RESTRICT")
    refusals.DROPPED.check(reader, name)
    reader.finish()
    return DropTable(name, if_exists, cascade)


Alteration = (
    AddColumns
    | DropColumns
    | RenameColumn
    | RenameTable
    | WidenColumn
    | AllowNull
    | AddConstraint
    | AddExpectation
    | DropConstraint
    | SetDefault
    | CommentColumn
    | CommentTable
    | SetProperties
)


def read_alter_table(reader: TokenReader) -> Alteration | RecoverQuarantine:
    """Read what follows ALTER TABLE."""
    table = reader.name("the table's name")
    alteration = _alteration(table, reader)
    reader.finish()
    return alteration


def read_comment(reader: TokenReader) -> CommentTable | CommentColumn:
    """Read what follows COMMENT ON."""
    if reader.accept("COLUMN"):
        table = reader.part("the table's name")
        reader.expect(".")
        column = reader.name("the column's name")
        return CommentColumn(table, column, _read_comment_text(reader))
    if not (reader.accept("MATERIALIZED", "VIEW") or reader.accept("VIEW")):
        reader.accept("TABLE")
    name = reader.name("the table's name")
    return CommentTable(name, _read_comment_text(reader))


def _read_comment_text(reader: TokenReader) -> str | None:
    reader.expect("IS")
    comment = None if reader.accept("NULL") else reader.string("the comment, or NULL")
    reader.finish()
    return comment


def _alteration(table: str, reader: TokenReader) -> Alteration | RecoverQuarantine:
    refusals.ALTERATIONS.check(reader, table)
    if reader.accept("ADD", "CONSTRAINT"):
        name = reader.name("the constraint's name")
        refusals.CONSTRAINTS.check(reader, table)
        if reader.accept("EXPECT"):
            return AddExpectation(table, name, *read_expectation(reader))
        reader.expect("CHECK")
        condition = [token for item in reader.parenthesised() for token in item]
        return AddConstraint(table, name, reader.source(condition))
    if reader.accept("DROP", "CONSTRAINT"):
        if_exists = reader.accept("IF", "EXISTS")
        return DropConstraint(table, reader.name("the constraint's name"), if_exists)
    if reader.accept("ADD", "COLUMNS") or reader.accept("ADD", "COLUMN"):
        items = reader.definitions()
        for item in items:
            refusals.check_added(item, reader.source(item))
            _check_plain(table, reader, item)
        return AddColumns(table, ", ".join(map(reader.source, items)))
    if reader.accept("DROP", "COLUMNS") or reader.accept("DROP", "COLUMN"):
        return DropColumns(table, read_names(reader))
    if reader.accept("RENAME", "COLUMN"):
        name = reader.name("the column's name")
        reader.expect("TO")
        return RenameColumn(table, name, reader.name("the column's new name"))
    if reader.accept("RENAME", "TO"):
        return RenameTable(table, read_new_name(reader, "the table's new name"))
    if reader.accept("ALTER"):
        reader.accept("COLUMN")
        name = reader.name("the column's name")
        if reader.accept("COMMENT"):
            return CommentColumn(table, name, reader.string("the comment"))
        if reader.accept("SET", "DEFAULT"):
            return SetDefault(table, name, reader.source(reader.rest()))
        if reader.accept("DROP", "DEFAULT"):
            return SetDefault(table, name, None)
        if reader.accept("DROP", "NOT", "NULL"):
            return AllowNull(table, name)
        refusals.COLUMNS.check(reader, name)
        reader.expect("TYPE")
        return WidenColumn(table, name, reader.source(reader.rest()))
    if reader.accept("SET", "TBLPROPERTIES"):
        return SetProperties(table, {**read_properties(reader)})
    if reader.accept("UNSET", "TBLPROPERTIES"):
        return SetProperties(table, read_unset_properties(reader))
    if reader.accept("RECOVER", "QUARANTINE"):
        where = reader.source(reader.rest()) if reader.accept("WHERE") else None
        return RecoverQuarantine(table, where)
    raise reader.unexpected(
        "ADD COLUMNS, DROP COLUMNS, RENAME COLUMN a TO b, RENAME TO u, ADD CONSTRAINT c CHECK "
        "(condition), ADD CONSTRAINT c EXPECT (condition), DROP CONSTRAINT c, ALTER COLUMN c TYPE "
        "t, ALTER COLUMN c COMMENT 'text', "
        "ALTER COLUMN c SET DEFAULT value, ALTER COLUMN c DROP DEFAULT, ALTER COLUMN c DROP NOT "
        "NULL, [UN]SET TBLPROPERTIES, or RECOVER QUARANTINE [WHERE condition]"
    )


def read_expectation(reader: TokenReader) -> tuple[str, ExpectedAction]:
    """Read (condition, what becomes of rows that violate it), after the word EXPECT."""
    condition = reader.source([token for item in reader.parenthesised() for token in item])
    if not reader.accept("ON", "VIOLATION"):
        return condition, "count"
    if reader.accept("DROP", "ROW"):
        return condition, "drop"
    if reader.accept("FAIL", "UPDATE"):
        return condition, "fail"
    raise reader.unexpected("DROP ROW or FAIL UPDATE; without ON VIOLATION rows are only counted")


def _check_plain(table: str, reader: TokenReader, item: Sequence[Token]) -> None:
    """UnsupportedStatementError for a column that would be added with a DEFAULT, or GENERATED."""
    if read_generated(reader, item) is not None:
        raise errors.UnsupportedStatementError(
            f"{excerpt(reader.source(item))}: a generated column is not added, because the rows of "
            "the table are not rewritten and have NULL in it: create a table with it, and INSERT "
            f"INTO it the rows of {table}"
        )
    if default_position(item) is not None:
        name = reader.source(item[:1])
        raise errors.UnsupportedStatementError(
            f"{excerpt(reader.source(item))}: a column is added without a DEFAULT, because the "
            "rows of the table are not rewritten and have NULL in it: add it, then write ALTER "
            f"TABLE {table} ALTER COLUMN {name} SET DEFAULT …, and UPDATE {table} SET {name} = …"
        )


def default_position(item: Sequence[Token]) -> int | None:
    """Return the position of the word DEFAULT in the definition of a column; None if none."""
    for index in range(2, len(item)):
        token = item[index]
        is_word = token.token_type not in (TokenType.IDENTIFIER, TokenType.STRING)
        is_field = item[index - 1].text in ("<", ",", "(")
        if is_word and token.text.upper() == "DEFAULT" and not is_field:
            return index
    return None


def read_pattern(reader: TokenReader) -> str | None:
    """Read the pattern at the end of a statement, with or without LIKE; None if there is none."""
    pattern = None
    if reader.accept("LIKE") or reader.token is not None:
        pattern = reader.string("a pattern in quotes")
    reader.finish()
    return pattern


def read_names(reader: TokenReader) -> tuple[str, ...]:
    """Return one name, several between commas, or several in parentheses."""
    items = reader.parenthesised() if reader.next_is("(") else reader.separated()
    return tuple(_only_name(TokenReader(reader.text, item)) for item in items)


def _only_name(reader: TokenReader) -> str:
    name = reader.name("a column's name")
    reader.finish()
    return name


def read_descriptions(reader: TokenReader) -> dict[str, str]:
    """Return the properties of ``[COMMENT 'text'] [TBLPROPERTIES (…)]``, in any order.

    The comment is the property ``comment``, as in Spark.
    """
    properties: dict[str, str] = {}
    while reader.next_is("COMMENT") or reader.next_is("TBLPROPERTIES"):
        if reader.accept("COMMENT"):
            clause = {COMMENT: reader.string("the comment")}
        else:
            reader.expect("TBLPROPERTIES")
            clause = read_properties(reader)
        repeated = clause.keys() & properties.keys()
        if repeated:
            raise errors.UnsupportedStatementError(f"the property {min(repeated)!r} is given twice")
        properties |= clause
    return properties


def read_unset_properties(reader: TokenReader) -> dict[str, str | None]:
    """Return the keys of ``[IF EXISTS] ('key', …)`` with None."""
    reader.accept("IF", "EXISTS")
    return dict.fromkeys(map(property_key, reader.parenthesised()))


def read_properties(reader: TokenReader) -> dict[str, str]:
    """Return the properties of ``('key' = 'value', …)``; keys without a dot in lower case."""
    properties: dict[str, str] = {}
    for item in reader.parenthesised():
        equals = next((i for i, token in enumerate(item) if token.text == "="), None)
        if equals is None or len(item) != equals + 2:
            raise errors.UnsupportedStatementError(
                f"a property is 'key' = 'value'; found {excerpt(reader.source(item))}"
            )
        key = property_key(item[:equals])
        if key in properties:
            raise errors.UnsupportedStatementError(f"the property {key!r} is given twice")
        properties[key] = item[-1].text
    return properties


def property_key(item: Sequence[Token]) -> str:
    """Return the key of a property as it is stored: in lower case unless it has a dot."""
    key = "".join(token.text for token in item).strip()
    return key if "." in key else key.lower()
