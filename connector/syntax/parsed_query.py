"""A query as parsed once: which tables it reads, which columns, and its text with other relations.

Promises: only names that a query would look up in the catalog are references, so that a common
table expression of the same name wins, as in Spark; the columns of a table that a query may read
are all reported; the text stays as written except for the names of tables and their ``AS OF``.
Why the text, and not the tree written again: Spark's SQL is larger than any parser of ours, and a
clause that sqlglot reads differently would change an answer without an error.
Does not know: Spark, or the columns of a table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from sqlglot import Token, TokenType, exp
from sqlglot.errors import SqlglotError

from relstate.storage import errors, syntax

from .pipes import PIPE, has_pipes, with_whole_signs, without_pipes
from .tokens import TokenReader, excerpt, quoted, tokens_of, unreadable_error
from .tree import Tree, is_row_star

# With spark.sql.parser.quotedRegexColumnNames, a quoted name with one of these is a pattern.
_PATTERN = re.compile(r"[][.*+?|()^$\\]")
# What reads columns without naming them.
_IMPLICIT_WORDS = frozenset({"PIVOT", "UNPIVOT", "NATURAL", "IDENTIFIER", "TRANSFORM"})
_VERSION_WORDS = ("VERSION", "SYSTEM_VERSION")
_TIME_WORDS = ("TIMESTAMP", "SYSTEM_TIME")
_FEED_FUNCTION = "table_changes"
_NAMING_WORD = "IDENTIFIER"
_IN_PARENTHESES = (TokenType.L_PAREN, TokenType.STRING, TokenType.R_PAREN)
_PARTS = re.compile(r"[A-Za-z_]\w*|`[^`]+`")
_NAME = re.compile(rf"(?:{_PARTS.pattern})(?:\.(?:{_PARTS.pattern}))*")


@dataclass(frozen=True, slots=True)
class AsOf:
    """The epoch at which a table is read: its number, or a timestamp as a literal in SQL."""

    version: int | None = None
    timestamp: str | None = None


@dataclass(frozen=True, slots=True)
class TableReference:
    """A table's name at ``[start, stop)`` in the text of a query.

    ``needs_alias``: it has none yet. ``end``: where what belongs to the name ends, after ``AS OF``
    if it has that. ``node``: its node in the tree of the query.
    """

    name: str
    start: int
    stop: int
    needs_alias: bool
    end: int
    as_of: AsOf | None = None
    node: exp.Table | None = field(default=None, compare=False, repr=False)

    @property
    def alias(self) -> str:
        """The name that it has in its query, in lower case."""
        return (self.name if self.node is None else self.node.alias_or_name).lower()


@dataclass(frozen=True, slots=True)
class ChangeFeed:
    """A call ``table_changes('t', first [, last])``, which is a relation, and its place.

    ``first`` and ``last``: an epoch, or a time as a text; both ends are included.
    """

    table: str
    first: int | str
    last: int | str | None
    reference: TableReference


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of a text: what is at ``[start, end)`` becomes another text."""

    start: int
    end: int
    text: str


_SET_OPERATORS = frozenset({"EXCEPT", "INTERSECT", "MINUS", "UNION"})
# What may come after ``TABLE t`` as a query, besides the end. ``table`` may also be a column, and
# nothing that makes an expression of it is a name and one of these.
_CLAUSES = frozenset({"CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "ORDER", "SORT", "WINDOW"})
_AFTER_QUERY = _SET_OPERATORS | _CLAUSES | {")", ";", PIPE}


_VERSION = re.compile(r"[vV](\d+)")


def _tokens_of_query(text: str) -> tuple[Token, ...]:
    return with_whole_signs(tokens_of(text))


def _with_selects(text: str, tokens: Sequence[Token]) -> str:
    """Return a text in which each query ``TABLE t`` is written as a SELECT, which has clauses."""
    words = [_word(token) for token in tokens]
    for index in reversed(range(len(tokens))):
        token = tokens[index]
        if (
            token.token_type is TokenType.TABLE
            and _may_begin_query(words[:index])
            and _is_name_of_query(tokens[index + 1 :])
        ):
            text = f"{text[: token.start]}SELECT * FROM{text[token.end + 1 :]}"
    return text


def _with_versions(text: str, tokens: Sequence[Token]) -> str:
    """Return a text in which each ``t@v3`` is ``t VERSION AS OF 3``; no other ``@`` is SQL."""
    for index in reversed(range(len(tokens))):
        sign = tokens[index]
        if sign.text != "@" or sign.token_type in (TokenType.IDENTIFIER, TokenType.STRING):
            continue
        following = tokens[index + 1] if index + 1 < len(tokens) else sign
        version = _VERSION.fullmatch(following.text)
        if version is None:
            raise errors.UnsupportedStatementError(
                f"{excerpt(text[sign.start :])}: write t@v3 or VERSION AS OF 3 for an epoch, and "
                "TIMESTAMP AS OF '2026-03-01 08:30' for a time"
            )
        text = f"{text[: sign.start]} VERSION AS OF {version[1]}{text[following.end + 1 :]}"
    return text


def _with_names(text: str, tokens: Sequence[Token]) -> str:
    """Return a text in which ``IDENTIFIER('a.b')`` is the name."""
    for index in reversed(range(len(tokens) - 3)):
        word, opening, name, closing = tokens[index : index + 4]
        types = opening.token_type, name.token_type, closing.token_type
        is_part = index > 0 and tokens[index - 1].token_type is TokenType.DOT
        if _word(word) != _NAMING_WORD or types != _IN_PARENTHESES or is_part:
            continue
        parts = [part.strip("`") for part in _PARTS.findall(name.text)]
        if not _NAME.fullmatch(name.text):
            continue
        is_call = index + 4 < len(tokens) and tokens[index + 4].token_type is TokenType.L_PAREN
        written = ".".join(parts if is_call else map(quoted, parts))
        text = f"{text[: word.start]}{written}{text[closing.end + 1 :]}"
    return text


def _word(token: Token) -> str:
    """Return a key word, or its first word, or a sign, in capitals; "" for a quoted text."""
    is_quoted = token.token_type in (TokenType.IDENTIFIER, TokenType.STRING)
    return "" if is_quoted else token.text.upper().partition(" ")[0]


def _may_begin_query(before: Sequence[str]) -> bool:
    """Return whether a query may begin after some words."""
    if before and before[-1] in ("ALL", "DISTINCT"):
        return len(before) > 1 and before[-2] in _SET_OPERATORS
    return not before or before[-1] == "(" or before[-1] in _SET_OPERATORS


def _is_name_of_query(tokens: Sequence[Token]) -> bool:
    """Return whether tokens begin with a name, ``a.b`` for one, that ends a query or a part."""
    end = 0
    while end < len(tokens) and _is_identifier(tokens[end]):
        end += 1
        if end == len(tokens) or tokens[end].token_type is not TokenType.DOT:
            return end == len(tokens) or _word(tokens[end]) in _AFTER_QUERY
        end += 1
    return False


def _is_identifier(token: Token) -> bool:
    return token.token_type is TokenType.IDENTIFIER or (
        token.token_type is not TokenType.STRING and token.text.isidentifier()
    )


IsTable: TypeAlias = Callable[[str, AsOf | None], bool]


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """The text of a query, its tokens and its tree."""

    text: str
    tokens: tuple[Token, ...] = field(repr=False)
    tree: Tree = field(repr=False)

    @classmethod
    def parse(cls, text: str, *, has_single_pipes: bool = True) -> ParsedQuery:
        """Return a query; ``TABLE t`` in it is ``SELECT * FROM t``, ``t@v3`` is t of epoch 3.

        ``IDENTIFIER('t')`` is the name t. ``has_single_pipes``: whether ``|`` may be ``|>``.

        UnsupportedStatementError if the text is not a query, or cannot be read.
        """
        if not has_single_pipes:
            return cls._parse(text, tokens_of)
        try:
            return cls._parse(text, _tokens_of_query)
        except errors.UnsupportedStatementError:
            # Where a session reads no ``|`` as ``|>``, it may be a bitwise or of such a column.
            if any(token.token_type is TokenType.PIPE for token in tokens_of(text)):
                with suppress(errors.UnsupportedStatementError):
                    return cls._parse(text, tokens_of)
            raise

    @classmethod
    def _parse(cls, text: str, tokens_in: Callable[[str], Sequence[Token]]) -> ParsedQuery:
        """Return a query; ``tokens_in``: returns its tokens."""
        tokens = tokens_in(text)
        versions = _with_versions(text, tokens)
        if versions != text:
            text, tokens = versions, tokens_in(versions)
        names = _with_names(text, tokens)
        if names != text:
            text, tokens = names, tokens_in(names)
        selects = _with_selects(text, tokens)
        if selects != text:
            text, tokens = selects, tokens_in(selects)
        try:
            tree = syntax.parse_tokens(without_pipes(tokens), text)
        except SqlglotError as error:
            raise unreadable_error(text, error) from None
        except RecursionError:
            raise errors.UnsupportedStatementError(
                f"{excerpt(text)} is nested too deeply; use IN for many values"
            ) from None
        if not isinstance(tree, exp.Query | exp.Values):
            raise errors.UnsupportedStatementError(f"{excerpt(text)} is not a query")
        return cls(text, tuple(tokens), tree)

    def without_hints(self) -> ParsedQuery:
        """Return the query without its hints, which change how Spark runs it and not its rows."""
        hints = [token for token in self.tokens if token.token_type is TokenType.HINT]
        text = self.text
        for hint in reversed(hints):
            text = text[: hint.start] + text[hint.end + 1 :]
        return self.parse(text) if hints else self

    @property
    def has_pipes(self) -> bool:
        """Whether it is in pipe syntax (``|>``), of which the tree has SELECTs."""
        return has_pipes(self.tokens)

    def table_references(self, is_table: IsTable) -> tuple[TableReference, ...]:
        """Return the references to tables that ``is_table``, in the order of the text.

        UnsupportedStatementError for one with a clause that relstate does not read.
        """
        nodes = (
            node
            for node in self.tree.find_all(exp.Table)
            if _is_plain_name(node) and not _is_common_table(node)
        )
        references = [
            reference
            for reference in map(self._reference, nodes)
            if is_table(reference.name, reference.as_of)
        ]
        for reference in references:
            self._check_sample(reference)
        return tuple(sorted(references, key=lambda reference: reference.start))

    def change_feeds(self) -> tuple[ChangeFeed, ...]:
        """Return the calls of ``table_changes``, in the order of the text.

        UnsupportedStatementError for one whose arguments are not constants.
        """
        return tuple(
            self._change_feed(index)
            for index, (token, following) in enumerate(pairwise(self.tokens))
            if token.text.lower() == _FEED_FUNCTION
            and token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER)
            and following.token_type is TokenType.L_PAREN
        )

    def _change_feed(self, index: int) -> ChangeFeed:
        reader = TokenReader(self.text, self.tokens[index + 1 :])
        values = [_constant(item) for item in reader.parenthesised()]
        table, first, last = (*values, None, None, None)[:3]
        if not isinstance(table, str) or first is None or len(values) > 3 or None in values:
            raise errors.UnsupportedStatementError(
                f"{excerpt(self.text[self.tokens[index].start :])}: write table_changes('t', "
                "first_epoch [, last_epoch]), where each epoch is a number or a timestamp in quotes"
            )
        start = self.tokens[index].start
        stop = reader.token.start if reader.token is not None else len(self.text)
        stop = start + len(self.text[start:stop].rstrip())
        reference = TableReference(_FEED_FUNCTION, start, stop, False, stop)
        return ChangeFeed(table, first, last, reference)

    def columns_read(
        self, columns: Collection[str], hidden: Collection[str] = ()
    ) -> tuple[str, ...]:
        """Return those of a table's columns that may be read, in their order, hidden ones last.

        A column counts as read if its name is anywhere in the text. All visible columns are
        returned if some may be read without their names, by a star for one.
        """
        words = {
            token.text.lower() for token in self.tokens if token.token_type is not TokenType.STRING
        }
        if self._reads_unnamed_columns(words):
            return tuple(columns)
        return tuple(name for name in (*columns, *hidden) if name.lower() in words)

    def names_column(
        self, name: str, aliases: Collection[str] = (), *, has_target: bool = False
    ) -> bool:
        """Return whether it names a column, in any case, that may be of any of its tables.

        A name with one of the ``aliases``, in lower case, is not counted, and if the query
        ``has_target``, none outside of subqueries.
        """
        if self.has_pipes:
            return any(token.text.lower() == name.lower() for token in self.tokens)
        return any(
            column.name.lower() == name.lower()
            and column.table.lower() not in aliases
            and not (has_target and column.find_ancestor(exp.Query) is self.tree)
            for column in self.tree.find_all(exp.Column)
        )

    def replaced(
        self,
        references: Sequence[TableReference],
        names: Sequence[str],
        edits: Sequence[Edit] = (),
    ) -> str:
        """Return a template for ``str.format`` in which references are the fields ``names``.

        ``edits``: other changes of the text, which do not overlap.
        """
        parts: list[str] = []
        end = 0
        fields = {reference.start: name for reference, name in zip(references, names, strict=True)}
        for change in self.changes(references, [""] * len(references), edits):
            field = fields.get(change.start)
            name = "" if field is None else "{" + field + "}"
            parts += [_escaped(self.text[end : change.start]), name, _escaped(change.text)]
            end = change.end
        return "".join([*parts, _escaped(self.text[end:])])

    def changes(
        self,
        references: Sequence[TableReference],
        names: Sequence[str],
        edits: Sequence[Edit] = (),
    ) -> list[Edit]:
        """Return the changes of the text that give references other names, and ``edits``, in order.

        A reference keeps its alias, and gets one if it has none.
        """
        changes = list(edits)
        for reference, name in zip(references, names, strict=True):
            alias = f" AS {quoted(reference.name)}" if reference.needs_alias else ""
            changes.append(Edit(reference.start, reference.end, name + alias))
        return sorted(changes, key=lambda change: change.start)

    def _reads_unnamed_columns(self, words: Collection[str]) -> bool:
        stars = any(not is_row_star(star) for star in self.tree.find_all(exp.Star))
        return stars or self._reads_columns_implicitly(words)

    @property
    def reads_columns_implicitly(self) -> bool:
        """Whether it may read columns without their names by something else than a star."""
        return self._reads_columns_implicitly(
            {token.text for token in self.tokens if token.token_type is not TokenType.STRING}
        )

    def _reads_columns_implicitly(self, words: Collection[str]) -> bool:
        quoted_names = (
            token.text for token in self.tokens if token.token_type is TokenType.IDENTIFIER
        )
        # Those of a common table are names for what its query names.
        aliases = (
            alias
            for alias in self.tree.find_all(exp.TableAlias)
            if not isinstance(alias.parent, exp.CTE)
        )
        return (
            any(alias.columns for alias in aliases)
            or not _IMPLICIT_WORDS.isdisjoint(word.upper() for word in words)
            or any(_PATTERN.search(name) for name in quoted_names)
            or self.has_pipes
        )

    def _reference(self, node: exp.Table) -> TableReference:
        start, stop = node.this.meta["start"], node.this.meta["end"] + 1
        end, as_of = stop, None
        if node.args.get("version") is not None:
            following = [token for token in self.tokens if token.start >= stop]
            as_of, end = read_as_of(TokenReader(self.text, following), self.text[start:])
        return TableReference(node.name, start, stop, not node.alias, end, as_of, node)

    def _check_sample(self, reference: TableReference) -> None:
        is_sampled = reference.node is not None and reference.node.args.get("sample") is not None
        if reference.needs_alias and is_sampled:
            raise errors.UnsupportedStatementError(
                f"{excerpt(self.text[reference.start :])}: give the sampled table an alias"
            )


def _constant(item: Sequence[Token]) -> int | str | None:
    """Return the value of an argument that is a text or a whole number; None for another."""
    if len(item) != 1:
        return None
    (token,) = item
    if token.token_type is TokenType.STRING:
        return str(token.text)
    return int(token.text) if token.text.isdecimal() else None


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _is_plain_name(table: exp.Table) -> bool:
    return isinstance(table.this, exp.Identifier) and not (table.args.get("db"))


def read_as_of(reader: TokenReader, shown_text: str) -> tuple[AsOf, int]:
    """Return what ``VERSION AS OF 3`` and the like mean, and where they end in the text.

    UnsupportedStatementError for anything else; ``shown_text``: of which its message has the
    beginning.
    """
    reader.accept("FOR")
    is_version = any(reader.accept(word, "AS", "OF") for word in _VERSION_WORDS)
    is_time = not is_version and any(reader.accept(word, "AS", "OF") for word in _TIME_WORDS)
    token = reader.token
    if token is not None and is_version and token.text.isdecimal():
        reader.skip()
        return AsOf(version=int(token.text)), token.end + 1
    if token is not None and is_time and token.token_type is not TokenType.NUMBER:
        with suppress(errors.UnsupportedStatementError):
            value, end = reader.constant("a time")
            return AsOf(timestamp=value), end
    raise errors.UnsupportedStatementError(
        f"{excerpt(shown_text)}: write VERSION AS OF an epoch, or TIMESTAMP AS OF a timestamp in "
        "quotes, or an expression of constants in parentheses"
    )


def _is_common_table(table: exp.Table) -> bool:
    """Return whether a WITH clause around a reference defines its name."""
    name = table.name.lower()
    return any(name == common.alias.lower() for common in common_tables_around(table))


def common_tables_around(node: Tree) -> Iterator[exp.CTE]:
    """Yield the common tables whose names are visible at ``node``."""
    for child, parent in pairwise(_ancestry(node)):
        if isinstance(parent, exp.With):
            # A common table sees those before it, and itself if the clause is recursive.
            index = next(i for i, common in enumerate(parent.expressions) if common is child)
            yield from parent.expressions[: index + bool(parent.args.get("recursive"))]
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
