"""The statements that change rows, as values.

    INSERT INTO | OVERWRITE [TABLE] t [(columns) | BY NAME] query [USING TTL seconds]
    UPDATE t [[AS] alias] [USING TTL seconds] SET path = expression, … [WHERE condition]
    UPDATE t [[AS] alias] SET column = expression, … FROM relation [[AS] alias] WHERE condition
    DELETE FROM t [[AS] alias] [WHERE condition]
    DELETE path, … FROM t [[AS] alias] [WHERE condition]
    TRUNCATE TABLE t
    MERGE INTO t [[AS] alias] USING relation [[AS] alias] ON condition
        WHEN MATCHED [AND condition] THEN UPDATE SET * | UPDATE SET … | DELETE
        WHEN NOT MATCHED [BY TARGET] [AND condition] THEN INSERT * | INSERT (columns) VALUES (…)
        WHEN NOT MATCHED BY SOURCE [AND condition] THEN UPDATE SET … | DELETE

A path is a column, in document tables with steps below it: ``address.city``, ``props['read']``.
Expressions and queries stay text, as written; what the word DEFAULT is depends on the column (see
column_defaults).
Does not know: the store, Spark, or what tables and columns there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from sqlglot import Token

from relstate.connector.syntax.tokens import TokenReader, excerpt, quoted
from relstate.storage import errors

from . import refusals

_QUERIES = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(")


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a path: ``.name``, or ``[key]`` with a key that is an expression."""

    text: str
    is_key: bool


@dataclass(frozen=True, slots=True)
class Place:
    """A column, and the steps to a part of it."""

    column: str
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Assignment:
    """``path = expression``."""

    place: Place
    expression: str

    @property
    def column(self) -> str:
        """The name of the column."""
        return self.place.column


@dataclass(frozen=True, slots=True)
class Insert:
    """``columns``: the columns for the query's columns, in order; None for all of the table.

    ``by_name``: the names of the query's columns decide. ``overwrite``: its rows replace all rows.
    ``ttl``: the seconds after which the rows expire, None for what the table says. ``computed``:
    generated columns whose values in the query are not used, as they are the word DEFAULT there.
    """

    table: str
    query: str
    columns: tuple[str, ...] | None = None
    by_name: bool = False
    overwrite: bool = False
    ttl: int | None = None
    computed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Update:
    """Change rows; ``where`` is None for all. ``ttl``: as of `Insert`, of what is set."""

    table: str
    alias: str
    assignments: tuple[Assignment, ...]
    where: str | None
    ttl: int | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete rows; ``where`` is None for all."""

    table: str
    alias: str
    where: str | None


@dataclass(frozen=True, slots=True)
class DeleteParts:
    """Remove parts of rows; ``where`` is None for all."""

    table: str
    alias: str
    places: tuple[Place, ...]
    where: str | None


@dataclass(frozen=True, slots=True)
class Truncate:
    """Remove all rows."""

    table: str


class When(Enum):
    """The pairs of rows to which a clause of MERGE can apply."""

    MATCHED = "MATCHED"
    NOT_MATCHED = "NOT MATCHED"
    NOT_MATCHED_BY_SOURCE = "NOT MATCHED BY SOURCE"


class Action(Enum):
    """What a clause of MERGE does."""

    UPDATE = "UPDATE"
    INSERT = "INSERT"
    DELETE = "DELETE"


@dataclass(frozen=True, slots=True)
class Clause:
    """One WHEN of MERGE; ``assignments`` is None for ``*``."""

    when: When
    condition: str | None
    action: Action
    assignments: tuple[Assignment, ...] | None = ()


@dataclass(frozen=True, slots=True)
class Merge:
    """``source``: a relation as in FROM, with the alias ``source_alias``."""

    table: str
    alias: str
    source: str
    source_alias: str
    condition: str
    clauses: tuple[Clause, ...]


Change: TypeAlias = Insert | Update | Delete | DeleteParts | Merge
"""A statement whose changes are the rows of a query."""
DmlStatement: TypeAlias = Change | Truncate


def read_insert(reader: TokenReader) -> Insert:
    """Read what follows INSERT."""
    refusals.INSERTED.check(reader)
    overwrite = reader.accept("OVERWRITE")
    if not overwrite:
        reader.expect("INTO")
    reader.accept("TABLE")
    table = reader.name("the table's name")
    columns = _columns(reader) if _columns_come_next(reader) else None
    by_name = columns is None and reader.accept("BY", "NAME")
    if reader.next_is("USING", "TTL"):
        raise errors.UnsupportedStatementError(
            f"INSERT INTO {table} USING TTL …: the time to live comes after the rows: "
            f"INSERT INTO {table} VALUES (…) USING TTL 3600"
        )
    if reader.next_is("REPLACE", "WHERE"):
        refusals.refuse_replace_where(table)
    refusals.INSERTED_INTO.check(reader, table)
    if not any(reader.next_is(word) for word in _QUERIES):
        raise reader.unexpected("a query, or VALUES")
    query = reader.source(reader.until("USING TTL"))
    ttl = _ttl(reader)
    reader.finish()
    return Insert(table, query, columns, by_name, overwrite, ttl)


def read_update(reader: TokenReader) -> Update | Merge:
    """Read what follows UPDATE; one that has a FROM is a MERGE with one clause."""
    table = reader.name("the table's name")
    alias = _alias(reader, table, "SET", "USING")
    ttl = _ttl(reader)
    reader.expect("SET")
    refusals.UPDATED.check(reader, table)
    assignments = _assignments(reader, (table, alias), "WHERE", "FROM")
    if not reader.accept("FROM"):
        return Update(table, alias, assignments, _where(reader), ttl)
    if ttl is not None:
        raise errors.UnsupportedStatementError(
            f"UPDATE {table} USING TTL … FROM: a time to live is set by the rows themselves only; "
            "write WHERE key IN (SELECT …) instead of FROM"
        )
    source, source_alias = _relation(reader, "WHERE")
    condition = _where(reader)
    if condition is None:
        raise errors.UnsupportedStatementError(
            f"UPDATE {table} … FROM {source}: WHERE is missing, which says which rows of the two "
            "belong together"
        )
    for assignment in assignments:
        _check_whole_in(assignment, "UPDATE … FROM")
    clause = Clause(When.MATCHED, None, Action.UPDATE, assignments)
    return Merge(table, alias, source, source_alias, condition, (clause,))


def read_delete(reader: TokenReader) -> Delete | DeleteParts:
    """Read what follows DELETE."""
    items = [] if reader.next_is("FROM") else reader.separated("FROM")
    if reader.token is None:
        words = excerpt(reader.source(items[0]))
        raise errors.UnsupportedStatementError(
            f"DELETE {words}: FROM is missing; write DELETE FROM table [WHERE condition]; a column "
            "or a part of a document is removed by DELETE column FROM table"
        )
    reader.expect("FROM")
    table = reader.name("the table's name")
    alias = _alias(reader, table, "WHERE", "USING")
    if not items:
        refusals.DELETED.check(reader, table)
        return Delete(table, alias, _where(reader))
    places = []
    for tokens in items:
        part = TokenReader(reader.text, tokens)
        places.append(read_place(part, (table, alias)))
        part.finish()
    return DeleteParts(table, alias, tuple(places), _where(reader))


def read_truncate(reader: TokenReader) -> Truncate:
    """Read what follows TRUNCATE."""
    reader.expect("TABLE")
    table = reader.name("the table's name")
    refusals.TRUNCATED.check(reader, table)
    reader.finish()
    return Truncate(table)


def read_merge(reader: TokenReader) -> Merge:
    """Read what follows MERGE."""
    reader.expect("INTO")
    table = reader.name("the table's name")
    alias = _alias(reader, table, "USING")
    reader.expect("USING")
    source, source_alias = _relation(reader, "ON")
    reader.expect("ON")
    condition = reader.source(reader.until("WHEN"))
    clauses: list[Clause] = []
    while reader.accept("WHEN"):
        clauses.append(_clause(reader, (table, alias)))
    reader.finish()
    if not clauses:
        raise reader.unexpected("WHEN MATCHED or WHEN NOT MATCHED")
    return Merge(table, alias, source, source_alias, condition, tuple(clauses))


def _clause(reader: TokenReader, names: tuple[str, str]) -> Clause:
    when = _when(reader)
    condition = reader.source(reader.until("THEN")) if reader.accept("AND") else None
    reader.expect("THEN")
    if when is When.NOT_MATCHED:
        reader.expect("INSERT")
        return Clause(when, condition, Action.INSERT, _inserted(reader))
    if reader.accept("DELETE"):
        return Clause(when, condition, Action.DELETE)
    reader.expect("UPDATE", "SET")
    if when is When.MATCHED and reader.accept("*"):
        refusals.MERGED.check(reader, "UPDATE SET")
        return Clause(when, condition, Action.UPDATE, None)
    assignments = _assignments(reader, names, "WHEN")
    for assignment in assignments:
        _check_whole_in(assignment, "MERGE")
    return Clause(when, condition, Action.UPDATE, assignments)


def _check_whole_in(assignment: Assignment, statement: str) -> None:
    """UnsupportedStatementError for an assignment to a part of a column in a MERGE."""
    if assignment.place.steps:
        raise errors.UnsupportedStatementError(
            f"SET {assignment.column}…: {statement} writes whole rows; set the whole column, or, "
            "in a document table, a field or an entry of it by UPDATE … SET … WHERE"
        )


def check_whole(assignment: Assignment) -> None:
    """UnsupportedStatementError for an assignment to a part of a column."""
    if assignment.place.steps:
        raise errors.UnsupportedStatementError(
            f"SET {assignment.column}…: a field or an entry of a column is set only in a "
            "document table, by an UPDATE that does not change the key; set the whole column"
        )


def _when(reader: TokenReader) -> When:
    if reader.accept("MATCHED"):
        return When.MATCHED
    reader.expect("NOT", "MATCHED")
    if reader.accept("BY", "SOURCE"):
        return When.NOT_MATCHED_BY_SOURCE
    reader.accept("BY", "TARGET")
    return When.NOT_MATCHED


def _inserted(reader: TokenReader) -> tuple[Assignment, ...] | None:
    if reader.accept("*"):
        refusals.MERGED.check(reader, "INSERT")
        return None
    columns = _columns(reader)
    reader.expect("VALUES")
    values = [reader.source(item) for item in reader.parenthesised()]
    if len(values) != len(columns):
        raise errors.UnsupportedStatementError(
            f"INSERT has {len(columns)} columns and {len(values)} values"
        )
    return tuple(map(Assignment, map(Place, columns), values))


def _assignments(
    reader: TokenReader, names: tuple[str, str], *stops: str
) -> tuple[Assignment, ...]:
    return tuple(_assignment(reader, names, item) for item in reader.separated(*stops))


def _assignment(reader: TokenReader, names: tuple[str, str], tokens: Sequence[Token]) -> Assignment:
    """Read ``[table.]path = expression``."""
    part = TokenReader(reader.text, tokens)
    place = read_place(part, names)
    part.expect("=")
    return Assignment(place, reader.source(part.rest()))


def read_place(part: TokenReader, names: tuple[str, str]) -> Place:
    """Read ``[table.]column`` and the steps below."""
    column = part.part("a column's name")
    if part.next_is(".") and column.lower() in (name.lower() for name in names):
        part.expect(".")
        column = part.part("a column's name")
    steps = []
    while part.next_is(".") or part.next_is("["):
        if part.accept("."):
            steps.append(Step(part.part("a field's name"), is_key=False))
        else:
            steps.append(Step(part.source(part.bracketed()), is_key=True))
    return Place(column, tuple(steps))


def _ttl(reader: TokenReader) -> int | None:
    """Read ``USING TTL seconds`` if it comes next."""
    if not reader.accept("USING", "TTL"):
        return None
    # A parameter comes as (- 5) if it is negative, and as 5000000000L if it is large.
    is_in_parentheses = reader.accept("(")
    is_negative = reader.accept("-")
    seconds = reader.whole_number("a whole number of seconds (at most 18 digits)")
    reader.accept("::", "L")
    if is_in_parentheses:
        reader.expect(")")
    return -seconds if is_negative else seconds


def _columns(reader: TokenReader) -> tuple[str, ...]:
    items = reader.parenthesised()
    return tuple(TokenReader(reader.text, item).name("a column's name") for item in items)


def _columns_come_next(reader: TokenReader) -> bool:
    """Tell whether a list of names in parentheses comes next, not a query in parentheses."""
    return reader.next_is("(") and not any(reader.next_is("(", word) for word in _QUERIES)


def _alias(reader: TokenReader, table: str, *stops: str) -> str:
    if reader.accept("AS"):
        return reader.name("an alias")
    if reader.token is None or any(reader.next_is(stop) for stop in stops):
        return table
    return reader.name("an alias")


def _relation(reader: TokenReader, stop: str) -> tuple[str, str]:
    """Read one relation up to a word, and return (it as in FROM, its alias)."""
    tokens = reader.until(stop)
    part = TokenReader(reader.text, tokens)
    alias = _SOURCE
    if part.next_is("("):
        part.parenthesised()
    else:
        alias = part.part("a table's name")
        while part.accept("."):
            alias = part.part("a table's name")
        _pass_epoch(part)
    has_alias = part.accept("AS") or part.token is not None
    if not has_alias:
        return f"{reader.source(tokens)} AS {quoted(alias)}", alias
    alias = part.name("an alias")
    if part.next_is("("):
        part.parenthesised()
    part.finish()
    return reader.source(tokens), alias


_SOURCE = "__relstate_source"


def _pass_epoch(reader: TokenReader) -> None:
    """Read past ``VERSION AS OF 3`` and the like."""
    reader.accept("FOR")
    for word in ("VERSION", "SYSTEM_VERSION", "TIMESTAMP", "SYSTEM_TIME"):
        if reader.accept(word, "AS", "OF"):
            reader.constant("an epoch or a time")


def _where(reader: TokenReader) -> str | None:
    if not reader.accept("WHERE"):
        reader.finish()
        return None
    return reader.source(reader.rest())
