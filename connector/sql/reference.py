"""Which tables a query reads, which of their columns, and the query with others in their place.

Promises: only names that a query would look up in the catalog are found, so that a common table
expression of the same name wins, as in Spark; the columns of a table that a query may read are
all among those found; the text of the query stays as written but for the names themselves.
Does not know: Spark, or what a table holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from sqlglot import TokenType, exp, parse_one
from sqlglot.errors import SqlglotError

from relstate.storage import errors

from .tokens import DIALECT, shown, tokens_of, unreadable

Tree: TypeAlias = exp.Expr

# With spark.sql.parser.quotedRegexColumnNames, a quoted name with one of these is a pattern.
_PATTERN = re.compile(r"[][.*+?|()^$\\]")
# What reads columns without naming them.
_IMPLICIT_WORDS = frozenset({"PIVOT", "UNPIVOT", "NATURAL", "IDENTIFIER", "TRANSFORM"})


@dataclass(frozen=True, slots=True)
class TableReference:
    """A table's name at ``[start, stop)`` in the text of a query; ``alias`` if it has none yet."""

    name: str
    start: int
    stop: int
    needs_alias: bool


def parse_query(text: str) -> Tree:
    """Return the tree of a query. UnsupportedStatementError if it is none, or cannot be read."""
    try:
        tree = parse_one(text, read=DIALECT)
    except SqlglotError as error:
        raise errors.UnsupportedStatementError(
            f"{unreadable(text, error)}; what Spark reads and relstate does not goes to spark.sql, "
            "over db.table(name).createOrReplaceTempView(name)"
        ) from None
    if not isinstance(tree, exp.Query):
        raise errors.UnsupportedStatementError(f"{shown(text)} is not a query")
    return tree


def table_references(
    tree: Tree, text: str, is_table: Callable[[str], bool]
) -> tuple[TableReference, ...]:
    """Return the references of a query to tables that ``is_table``, in the order of the text.

    UnsupportedStatementError for one with a clause that relstate does not read.
    """
    found = [
        _reference(table, text)
        for table in tree.find_all(exp.Table)
        if _is_plain_name(table) and is_table(table.name) and not _is_common_table(table)
    ]
    return tuple(sorted(found, key=lambda reference: reference.start))


def columns_read(tree: Tree, text: str, columns: Collection[str]) -> tuple[str, ...]:
    """Return those of a table's columns that a query may read, in their order.

    A column counts as read where its name stands anywhere in the text. All are where some may be
    read without their names: by a star, for one.
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
    return tuple(name for name in columns if name.lower() in words)


def replaced(text: str, references: Sequence[TableReference], names: Sequence[str]) -> str:
    """Return a query as a template for ``str.format``: references are the fields ``names``."""
    parts: list[str] = []
    bounds = [0, *(reference.stop for reference in references)]
    for reference, name, start in zip(references, names, bounds[:-1], strict=True):
        parts += [_escaped(text[start : reference.start]), "{" + name + "}"]
        if reference.needs_alias:
            parts += [" AS ", _escaped(text[reference.start : reference.stop])]
    return "".join([*parts, _escaped(text[bounds[-1] :])])


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _is_plain_name(table: exp.Table) -> bool:
    return isinstance(table.this, exp.Identifier) and not (table.args.get("db"))


def _reference(table: exp.Table, text: str) -> TableReference:
    start, stop = table.this.meta["start"], table.this.meta["end"] + 1
    if table.args.get("version") is not None:
        raise errors.UnsupportedStatementError(
            f"{shown(text[start:])}: an earlier epoch is read with db.table(name, version=epoch)"
        )
    needs_alias = not table.alias
    if needs_alias and table.args.get("sample") is not None:
        raise errors.UnsupportedStatementError(
            f"{shown(text[start:])}: give the sampled table an alias"
        )
    return TableReference(table.name, start, stop, needs_alias)


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
