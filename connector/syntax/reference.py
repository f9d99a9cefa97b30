"""Which tables a query reads, which of their columns, and the query with others in their place.

Promises: only names that a query would look up in the catalog are found, so that a common table
expression of the same name wins, as in Spark; the columns of a table that a query may read are
all among those found; the text of the query stays as written but for the names themselves, and
what says of which epoch a table is wanted.
Does not know: Spark, or what a table holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from sqlglot import Token, TokenType, exp
from sqlglot.errors import SqlglotError

from relstate.storage import errors

from .tokens import TokenReader, parsed, shown, tokens_of, unreadable

Tree: TypeAlias = exp.Expr

# With spark.sql.parser.quotedRegexColumnNames, a quoted name with one of these is a pattern.
_PATTERN = re.compile(r"[][.*+?|()^$\\]")
# What reads columns without naming them.
_IMPLICIT_WORDS = frozenset({"PIVOT", "UNPIVOT", "NATURAL", "IDENTIFIER", "TRANSFORM"})
_VERSION_WORDS = ("VERSION", "SYSTEM_VERSION")
_TIME_WORDS = ("TIMESTAMP", "SYSTEM_TIME")


@dataclass(frozen=True, slots=True)
class AsOf:
    """Of when a table is wanted: an epoch, or a timestamp as a literal in SQL."""

    version: int | None = None
    timestamp: str | None = None


@dataclass(frozen=True, slots=True)
class TableReference:
    """A table's name at ``[start, stop)`` in the text of a query.

    ``needs_alias``: it has none yet. ``end``: where what belongs to the name ends, behind ``AS OF``
    if it has that. ``node``: its place in the tree of the query.
    """

    name: str
    start: int
    stop: int
    needs_alias: bool
    end: int
    as_of: AsOf | None = None
    node: exp.Table | None = field(default=None, compare=False, repr=False)


IsTable: TypeAlias = Callable[[str, AsOf | None], bool]


def parse_query(text: str) -> Tree:
    """Return the tree of a query. UnsupportedStatementError if it is none, or cannot be read."""
    try:
        tree = parsed(text)
    except SqlglotError as error:
        raise errors.UnsupportedStatementError(
            f"{unreadable(text, error)}; what Spark reads and relstate does not goes to spark.sql, "
            "over db.table(name).createOrReplaceTempView(name)"
        ) from None
    if not isinstance(tree, exp.Query | exp.Values):
        raise errors.UnsupportedStatementError(f"{shown(text)} is not a query")
    return tree


def table_references(tree: Tree, text: str, is_table: IsTable) -> tuple[TableReference, ...]:
    """Return the references of a query to tables that ``is_table``, in the order of the text.

    UnsupportedStatementError for one with a clause that relstate does not read.
    """
    tokens = tokens_of(text)
    named = [
        table
        for table in tree.find_all(exp.Table)
        if _is_plain_name(table) and not _is_common_table(table)
    ]
    read = [_reference(table, text, tokens) for table in named]
    found = [one for one in read if is_table(one.name, one.as_of)]
    for reference in found:
        _check_sample(reference, text)
    return tuple(sorted(found, key=lambda reference: reference.start))


def columns_read(
    tree: Tree, text: str, columns: Collection[str], hidden: Collection[str] = ()
) -> tuple[str, ...]:
    """Return those of a table's columns that a query may read, in their order, hidden ones last.

    A column counts as read where its name stands anywhere in the text. All are where some may be
    read without their names: by a star, for one, which leaves out the hidden ones.
    """
    tokens = tokens_of(text)
    words = {token.text.lower() for token in tokens if token.token_type is not TokenType.STRING}
    quoted = [token.text for token in tokens if token.token_type is TokenType.IDENTIFIER]
    if (
        any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star))
        or any(alias.columns for alias in tree.find_all(exp.TableAlias))
        or not _IMPLICIT_WORDS.isdisjoint(word.upper() for word in words)
        or any(_PATTERN.search(name) for name in quoted)
        or "|>" in words
    ):
        return tuple(columns)
    return tuple(name for name in (*columns, *hidden) if name.lower() in words)


def replaced(text: str, references: Sequence[TableReference], names: Sequence[str]) -> str:
    """Return a query as a template for ``str.format``: references are the fields ``names``."""
    parts: list[str] = []
    bounds = [0, *(reference.end for reference in references)]
    for reference, name, start in zip(references, names, bounds[:-1], strict=True):
        parts += [_escaped(text[start : reference.start]), "{" + name + "}"]
        if reference.needs_alias:
            parts += [" AS ", _escaped(text[reference.start : reference.stop])]
    return "".join([*parts, _escaped(text[bounds[-1] :])])


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _is_plain_name(table: exp.Table) -> bool:
    return isinstance(table.this, exp.Identifier) and not (table.args.get("db"))


def _reference(table: exp.Table, text: str, tokens: Sequence[Token]) -> TableReference:
    start, stop = table.this.meta["start"], table.this.meta["end"] + 1
    end, as_of = stop, None
    if table.args.get("version") is not None:
        behind = [token for token in tokens if token.start >= stop]
        as_of, end = _as_of(TokenReader(text, behind), text[start:])
    return TableReference(table.name, start, stop, not table.alias, end, as_of, table)


def _as_of(reader: TokenReader, shown_text: str) -> tuple[AsOf, int]:
    """Return what ``VERSION AS OF 3`` and its like say, and where they end."""
    reader.accept("FOR")
    is_version = any(reader.accept(word, "AS", "OF") for word in _VERSION_WORDS)
    is_time = not is_version and any(reader.accept(word, "AS", "OF") for word in _TIME_WORDS)
    token = reader.token
    if token is not None and is_version and token.text.isdecimal():
        return AsOf(version=int(token.text)), token.end + 1
    if token is not None and is_time and token.token_type is TokenType.STRING:
        return AsOf(timestamp=reader.text[token.start : token.end + 1]), token.end + 1
    raise errors.UnsupportedStatementError(
        f"{shown(shown_text)}: write VERSION AS OF an epoch, or TIMESTAMP AS OF a timestamp in "
        "quotes"
    )


def _check_sample(reference: TableReference, text: str) -> None:
    sampled = reference.node is not None and reference.node.args.get("sample") is not None
    if reference.needs_alias and sampled:
        raise errors.UnsupportedStatementError(
            f"{shown(text[reference.start :])}: give the sampled table an alias"
        )


def _is_common_table(table: exp.Table) -> bool:
    """Tell whether a WITH clause around a reference defines its name."""
    name = table.name.lower()
    return any(name == common.alias.lower() for common in _common_tables_around(table))


def _common_tables_around(node: Tree) -> Iterator[exp.CTE]:
    """Yield the common tables whose names mean something at ``node``."""
    for child, parent in pairwise(_ancestry(node)):
        if isinstance(parent, exp.With):
            # A common table sees those before it, and itself if the clause is recursive.
            place = next(i for i, common in enumerate(parent.expressions) if common is child)
            yield from parent.expressions[: place + bool(parent.args.get("recursive"))]
        elif not isinstance(child, exp.With):
            yield from (
                common
                for clause in parent.args.values()
                if isinstance(clause, exp.With)
                for common in clause.expressions
            )


def _ancestry(node: Tree) -> Iterator[Tree]:
    current: Tree | None = node
    while current is not None:
        yield current
        current = current.parent
