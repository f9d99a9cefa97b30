"""The word DEFAULT in the query of an INSERT: which item of a row each one is.

It is an item of a row of VALUES, or of a SELECT whose rows are rows of the query: the query itself,
what is in parentheses, each side of a UNION. There it may be in parentheses and have an alias.

Promises: a word with another place, or after an item that may be several columns, is refused. A
column that is called default is one in backticks, after its table, or as an alias.
Does not know: columns, or what their defaults are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from sqlglot import Token, TokenType, exp
from sqlglot.errors import SqlglotError

from relstate.connector.syntax.tokens import tokens_of, unreadable_error
from relstate.connector.syntax.tree import is_star, without_parentheses
from relstate.storage import errors, syntax

_DEFAULT = "DEFAULT"
_MARK = "__relstate_default_"
# The name that the parser gives VALUES in a set operation.
_VALUES = "_values"
_GENERATORS = frozenset(
    {
        "explode", "explode_outer", "inline", "inline_outer", "json_tuple", "posexplode",
        "posexplode_outer", "stack",
    }
)  # fmt: skip
_ADVICE = (
    "name the columns, INSERT INTO t (columns) …, and leave this one out, which gives it its "
    "default; a column that is called default is written `default`, in backticks"
)


def with_values(query: str, value_at: Callable[[int], str]) -> str:
    """Return a query with a value for each word DEFAULT.

    ``value_at``: returns the value, in SQL, of an item of a row, counted from 0.
    UnsupportedStatementError for a word that is not an item, or whose item is not known.
    """
    words = _words(query)
    if not words:
        return query
    # A name of its own distinguishes each word from the others, and from columns, in the tree.
    marks = {f"{_MARK}{word.start}": word for word in words}
    tree = _parsed(query, _replaced(query, {word: mark for mark, word in marks.items()}))
    places = {mark: place for row in _rows(tree) for mark, place in _places(row, marks)}
    values = {marks[mark]: value_at(place) for mark, place in places.items()}
    for column in tree.find_all(exp.Column):
        if column.name in marks and column.name not in places and not column.table:
            shown = syntax.excerpt(query[marks[column.name].start :])
            raise errors.UnsupportedStatementError(
                f"DEFAULT is not an item of VALUES, or of the outermost SELECT, at {shown}: "
                f"{_ADVICE}"
            )
    return _replaced(query, values)


def default_places(query: str) -> list[frozenset[int]]:
    """Return for each row of a query which of its items are the word DEFAULT; errors as above."""
    words = _words(query)
    if not words:
        return []
    marks = {f"{_MARK}{word.start}": word for word in words}
    tree = _parsed(query, _replaced(query, {word: mark for mark, word in marks.items()}))
    return [frozenset(place for _, place in _places(row, marks)) for row in _rows(tree)]


def _words(query: str) -> list[Token]:
    """Return the words DEFAULT that may be values."""
    if _DEFAULT not in query.upper():
        return []
    tokens = tokens_of(query)
    texts = ["", *map(_text, tokens), ""]
    return [
        token
        for token, before, text, after in zip(tokens, texts, texts[1:], texts[2:], strict=False)
        if text == _DEFAULT and before not in (".", "AS") and after != "."
    ]


def _text(token: Token) -> str:
    """Return a word or a sign in upper case; of what is in quotes, nothing."""
    is_quoted = token.token_type in (TokenType.IDENTIFIER, TokenType.STRING)
    return "" if is_quoted else token.text.upper()


def _replaced(query: str, texts: Mapping[Token, str]) -> str:
    parts, end = [], 0
    for token in sorted(texts, key=lambda token: token.start):
        parts += [query[end : token.start], texts[token]]
        end = token.end + 1
    return "".join([*parts, query[end:]])


def _parsed(query: str, marked: str) -> syntax.Tree:
    """Return the tree of a query, of which ``marked`` is the text that is parsed."""
    try:
        return syntax.parse_tokens(tokens_of(marked), marked)
    except SqlglotError as error:
        raise errors.UnsupportedStatementError(
            f"{unreadable_error(query, error)}; to use DEFAULT in it, {_ADVICE}"
        ) from None
    except RecursionError:
        raise errors.UnsupportedStatementError(
            f"{syntax.excerpt(query)} is nested too deeply for DEFAULT: {_ADVICE}"
        ) from None


def _rows(query: syntax.Tree) -> Iterator[Sequence[syntax.Tree]]:
    """Yield the items of each SELECT, and of each row of VALUES, whose rows are the query's."""
    pending = [query]
    while pending:
        node = pending.pop()
        match node:
            case exp.Subquery():
                pending.append(node.this)
            case exp.SetOperation():
                pending.append(node.this)
                if not node.args.get("by_name"):
                    pending.append(node.expression)
            case exp.Values():
                yield from (row.expressions for row in node.expressions)
            case exp.Select() if _is_values(node):
                pending.append(node.args["from_"].this)
            case exp.Select():
                yield node.expressions


def _is_values(select: exp.Select) -> bool:
    """Return whether a SELECT is what the parser makes of VALUES in a set operation."""
    source = select.args.get("from_")
    if source is None or not isinstance(source.this, exp.Values):
        return False
    items = [type(item) for item in select.expressions]
    return items == [exp.Star] and source.this.alias == _VALUES


def _places(row: Sequence[syntax.Tree], marks: Mapping[str, Token]) -> Iterator[tuple[str, int]]:
    """Yield the marks that are items of a row, each with its place."""
    wide = None
    for place, item in enumerate(row):
        value = without_parentheses(item.this if isinstance(item, exp.Alias) else item)
        if isinstance(value, exp.Column) and value.name in marks and not value.table:
            if wide is not None:
                raise errors.UnsupportedStatementError(
                    f"DEFAULT comes after {syntax.text_of(wide)}, which may be several columns, so "
                    "its own column is not known: write the columns one by one; or "
                    f"{_ADVICE}"
                )
            yield value.name, place
        elif wide is None and _is_wide(item):
            wide = item


def _is_wide(item: syntax.Tree) -> bool:
    """Return whether an item may be several columns; with one alias it is one."""
    if isinstance(item, exp.Aliases):
        return True
    while isinstance(item, exp.Dot):
        item = item.expression
    is_generator = isinstance(item, exp.Anonymous) and item.name.lower() in _GENERATORS
    return is_generator or is_star(item)
