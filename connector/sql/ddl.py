"""The statements that define tables and describe them, as values.

    CREATE TABLE [IF NOT EXISTS] t
        (column type [NOT NULL], … [, PRIMARY KEY (a, b DESC NULLS LAST)])
        [COMMENT 'text']
        [TBLPROPERTIES ('merge' = 'partial', 'version_column' = 'c', 'ttl' = '7 days', …)]
    DROP TABLE [IF EXISTS] t [CASCADE | RESTRICT]
    ALTER TABLE t ADD COLUMN[S] (…) | DROP COLUMN[S] (…) | RENAME COLUMN a TO b
        | ALTER COLUMN c TYPE type | ALTER COLUMN c COMMENT 'text'
        | SET TBLPROPERTIES ('ttl' = '…') | UNSET TBLPROPERTIES ('ttl')
    COMMENT ON [MATERIALIZED VIEW | VIEW | TABLE] t IS 'text' | NULL
    SHOW TABLES [LIKE 'pattern']
    SHOW TBLPROPERTIES t [('key')]
    DESCRIBE [TABLE | MATERIALIZED VIEW] [EXTENDED] t
    DESCRIBE HISTORY t

The primary key may name its distribution key first, in parentheses of its own, as in YugabyteDB:
``PRIMARY KEY ((customer), order_id)``.

Does not know: the store, Spark, or what a property means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import Token, TokenType

from relstate.connector.syntax.parsed_query import ParsedQuery
from relstate.connector.syntax.tokens import TokenReader, excerpt, quoted
from relstate.storage import errors

from .properties import COMMENT


@dataclass(frozen=True, slots=True)
class CreateTable:
    """``columns``: DDL as written; the keys are as `Store.create_table` takes them."""

    name: str
    columns: str
    primary_key: tuple[str, ...] | None
    distribution_key: tuple[str, ...] | None
    if_not_exists: bool
    properties: dict[str, str] = field(default_factory=dict)


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
class WidenColumn:
    """Give a column a wider type; ``data_type``: DDL as written."""

    table: str
    name: str
    data_type: str


@dataclass(frozen=True, slots=True)
class CommentColumn:
    """Set the comment of a column."""

    table: str
    name: str
    comment: str


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
class ShowTables:
    """List the tables whose names match ``pattern``, in Spark's sense; None for all."""

    pattern: str | None


@dataclass(frozen=True, slots=True)
class ShowProperties:
    """List the properties of a table or view; ``key``: only this one."""

    table: str
    key: str | None


@dataclass(frozen=True, slots=True)
class DescribeTable:
    """List the columns of a table; if ``extended``, its properties too."""

    name: str
    extended: bool = False


@dataclass(frozen=True, slots=True)
class DescribeHistory:
    """List the commits that changed a table."""

    name: str


def read_create_table(reader: TokenReader) -> CreateTable:
    """Read what follows CREATE TABLE."""
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = read_new_name(reader, "the table's name")
    if not reader.next_is("("):
        raise reader.unexpected("the columns in parentheses")
    columns: list[str] = []
    keys: list[tuple[tuple[str, ...], tuple[str, ...] | None]] = []
    for item in reader.parenthesised():
        _check_constraint(reader, item)
        if item and item[0].token_type is TokenType.PRIMARY_KEY:
            keys.append(_read_key(reader.text, item[1:]))
        elif any(token.token_type is TokenType.PRIMARY_KEY for token in item):
            columns.append(reader.source(_without_key(item)))
            keys.append(((reader.source(item[:1]),), None))
        else:
            columns.append(reader.source(item))
    properties = read_descriptions(reader)
    reader.finish()
    if len(keys) > 1:
        raise errors.UnsupportedStatementError(
            f"the table {name!r} has {len(keys)} primary keys: write one PRIMARY KEY (column, …), "
            "or none"
        )
    primary_key, distribution_key = keys[0] if keys else (None, None)
    ddl = ", ".join(columns)
    return CreateTable(name, ddl, primary_key, distribution_key, if_not_exists, properties)


def _check_constraint(reader: TokenReader, item: Sequence[Token]) -> None:
    """UnsupportedStatementError for a constraint that is not offered, where a column may be."""
    words = [token.text.upper() for token in item[:3]]
    is_named = len(item) > 2 and words[0] == "CONSTRAINT" and words[2] in _CONSTRAINTS
    if is_named or (len(item) > 1 and words[0] in _CONSTRAINTS and words[0] != "PRIMARY KEY"):
        raise errors.UnsupportedStatementError(
            f"{excerpt(reader.source(item))}: the constraints of a table are NOT NULL after a "
            "column and at most one PRIMARY KEY (column, …) without a name; CHECK and FOREIGN KEY "
            "are not offered, and for UNIQUE there is CREATE UNIQUE INDEX i ON t (column, …)"
        )


_CONSTRAINTS = ("CHECK", "UNIQUE", "FOREIGN", "FOREIGN KEY", "PRIMARY KEY")


def read_new_name(reader: TokenReader, what: str) -> str:
    """Read the name of a new table or view.

    UnsupportedStatementError for a word of SQL by which no query could name it.
    """
    token = reader.token
    name = reader.name(what)
    if token is not None and token.token_type is not TokenType.IDENTIFIER and not _is_named(name):
        raise errors.UnsupportedStatementError(
            f"{what} {name!r} is a word of SQL that a query cannot use as a name: write "
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
    reader.finish()
    return DropTable(name, if_exists, cascade)


Alteration = (
    AddColumns
    | DropColumns
    | RenameColumn
    | WidenColumn
    | CommentColumn
    | CommentTable
    | SetProperties
)


def read_alter_table(reader: TokenReader) -> Alteration:
    """Read what follows ALTER TABLE."""
    table = reader.name("the table's name")
    alteration = _alteration(table, reader)
    reader.finish()
    return alteration


def read_comment(reader: TokenReader) -> CommentTable:
    """Read what follows COMMENT ON."""
    if not (reader.accept("MATERIALIZED", "VIEW") or reader.accept("VIEW")):
        reader.accept("TABLE")
    name = reader.name("the table's name")
    reader.expect("IS")
    comment = None if reader.accept("NULL") else reader.string("the comment, or NULL")
    reader.finish()
    return CommentTable(name, comment)


def read_show_properties(reader: TokenReader) -> ShowProperties:
    """Read what follows SHOW TBLPROPERTIES."""
    name = reader.name("the table's name")
    key = None
    if reader.next_is("("):
        items = reader.parenthesised()
        key = _property_key([token for item in items for token in item])
    reader.finish()
    return ShowProperties(name, key)


def read_show_tables(reader: TokenReader) -> ShowTables:
    """Read what follows SHOW TABLES."""
    return ShowTables(read_pattern(reader))


def read_pattern(reader: TokenReader) -> str | None:
    """Read the pattern at the end of a statement, with or without LIKE; None if there is none."""
    pattern = None
    if reader.accept("LIKE") or reader.token is not None:
        pattern = reader.string("a pattern in quotes")
    reader.finish()
    return pattern


def read_describe(reader: TokenReader) -> DescribeTable:
    """Read what follows DESCRIBE."""
    reader.accept("TABLE") or reader.accept("MATERIALIZED", "VIEW")
    extended = reader.accept("EXTENDED")
    name = reader.name("the table's name")
    if reader.token is not None and name.upper() in ("DETAIL", "FORMATTED"):
        raise errors.UnsupportedStatementError(
            f"DESCRIBE {name.upper()} is not offered; DESCRIBE EXTENDED {reader.token.text} lists "
            "the columns and the properties"
        )
    reader.finish()
    return DescribeTable(name, extended)


def read_describe_history(reader: TokenReader) -> DescribeHistory:
    """Read what follows DESCRIBE HISTORY."""
    name = reader.name("the table's name")
    reader.finish()
    return DescribeHistory(name)


def _alteration(table: str, reader: TokenReader) -> Alteration:
    if reader.accept("ADD", "COLUMNS") or reader.accept("ADD", "COLUMN"):
        if reader.next_is("("):
            return AddColumns(table, ", ".join(map(reader.source, reader.parenthesised())))
        return AddColumns(table, reader.source(reader.rest()))
    if reader.accept("DROP", "COLUMNS") or reader.accept("DROP", "COLUMN"):
        return DropColumns(table, read_names(reader))
    if reader.accept("RENAME", "COLUMN"):
        name = reader.name("the column's name")
        reader.expect("TO")
        return RenameColumn(table, name, reader.name("the column's new name"))
    if reader.accept("ALTER") or reader.accept("CHANGE"):
        reader.accept("COLUMN")
        name = reader.name("the column's name")
        if reader.accept("COMMENT"):
            return CommentColumn(table, name, reader.string("the comment"))
        reader.expect("TYPE")
        return WidenColumn(table, name, reader.source(reader.rest()))
    if reader.accept("SET", "TBLPROPERTIES"):
        return SetProperties(table, {**read_properties(reader)})
    if reader.accept("UNSET", "TBLPROPERTIES"):
        return SetProperties(table, read_unset_properties(reader))
    raise reader.unexpected(
        "ADD COLUMNS, DROP COLUMNS, RENAME COLUMN a TO b, ALTER COLUMN c TYPE t, ALTER COLUMN c "
        "COMMENT 'text', or [UN]SET TBLPROPERTIES"
    )


def read_names(reader: TokenReader) -> tuple[str, ...]:
    """Return one name, several between commas, or several in parentheses."""
    items = reader.parenthesised() if reader.next_is("(") else reader.separated()
    return tuple(TokenReader(reader.text, item).name("a column's name") for item in items)


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
    return dict.fromkeys(map(_property_key, reader.parenthesised()))


def read_properties(reader: TokenReader) -> dict[str, str]:
    """Return the properties of ``('key' = 'value', …)``; keys without a dot in lower case."""
    properties: dict[str, str] = {}
    for item in reader.parenthesised():
        equals = next((i for i, token in enumerate(item) if token.text == "="), None)
        if equals is None or len(item) != equals + 2:
            raise errors.UnsupportedStatementError(
                f"a property is 'key' = 'value'; found {excerpt(reader.source(item))}"
            )
        key = _property_key(item[:equals])
        if key in properties:
            raise errors.UnsupportedStatementError(f"the property {key!r} is given twice")
        properties[key] = item[-1].text
    return properties


def _property_key(item: Sequence[Token]) -> str:
    key = "".join(token.text for token in item).strip()
    return key if "." in key else key.lower()


def _read_key(text: str, tokens: Sequence[Token]) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Return (primary key, distribution key or None) of ``(a, b)`` or ``((a), b)``."""
    reader = TokenReader(text, tokens)
    items = reader.parenthesised()
    reader.finish()
    first = items[0]
    if not first or first[0].token_type is not TokenType.L_PAREN:
        return tuple(reader.source(item) for item in items), None
    hashed = tuple(reader.source(item) for item in TokenReader(text, first).parenthesised())
    return hashed + tuple(reader.source(item) for item in items[1:]), hashed


def _without_key(item: Sequence[Token]) -> Sequence[Token]:
    """Return the tokens of ``a BIGINT PRIMARY KEY``, which must end so, without these words."""
    if item[-1].token_type is not TokenType.PRIMARY_KEY:
        raise errors.UnsupportedStatementError(
            "the words PRIMARY KEY end a column's definition, or begin a part of their own"
        )
    return item[:-1]
