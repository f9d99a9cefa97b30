"""Trees of statements and expressions: read from a text, written as a text, taken apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import Token, TokenType, exp
from sqlglot.errors import ParseError, SqlglotError

from ..errors import UnsupportedExpressionError
from .dialect import Dialect
from .node import UNSIGNED, Tree

_SHOWN = 60
# Spark takes IGNORE NULLS between the parentheses of these only.
_CHOOSING = frozenset({"any_value", "first", "last"})
_FUNCTIONS_OF_UNITS = frozenset(
    {"timestampadd", "timestampdiff", "dateadd", "datediff", "date_add", "date_diff"}
)

_DIALECT = Dialect()


def tokenize(text: str) -> list[Token]:
    """Return the tokens of a text. SqlglotError where it has none."""
    return _DIALECT.tokenize(text)


def parse_tokens(tokens: Sequence[Token], text: str) -> Tree:
    """Return the tree of the one statement that the tokens of a text are. SqlglotError if none.

    It is without hints (``/*+ … */``): sqlglot takes the names in them for tables of their own.
    """
    without_hints = [token for token in tokens if token.token_type is not TokenType.HINT]
    parsed = _DIALECT.parser().parse(without_hints, text)
    trees = [tree for tree in parsed if tree is not None]
    if len(trees) != 1:
        raise ParseError(f"there are {len(trees)} statements where one was expected")
    return _with_plain_arguments(trees[0])


def parse_condition(text: str) -> Tree:
    """Return the tree of one expression. UnsupportedExpressionError for any other text."""
    try:
        tokens = tokenize(text)
        if any(token.token_type is TokenType.SEMICOLON for token in tokens):
            raise UnsupportedExpressionError(f"{excerpt(text)} has a ';': write one expression")
        trees = _DIALECT.parser().parse_into(exp.Condition, tokens, text)
    except SqlglotError as error:
        reason = describe_read_error(error)
        raise UnsupportedExpressionError(f"cannot read {excerpt(text)}: {reason}") from None
    except RecursionError:
        raise UnsupportedExpressionError(
            f"{excerpt(text)} is nested too deeply; use IN for many values"
        ) from None
    if len(trees) != 1 or trees[0] is None:
        raise UnsupportedExpressionError(f"cannot read {excerpt(text)}: it is not an expression")
    return _with_plain_arguments(trees[0])


def without_outer_comments(text: str) -> str:
    """Return a text of SQL, which is not empty, from its first word to its last."""
    tokens = tokenize(text)
    return text[tokens[0].start : tokens[-1].end + 1]


def text_of(tree: Tree) -> str:
    """Return the SQL of a tree."""
    return tree.sql(dialect=Dialect, comments=False)


def describe_read_error(error: SqlglotError) -> str:
    """Return what is wrong with a text, and where, in words that are not sqlglot's own."""
    errors = getattr(error, "errors", None)
    if not errors:
        return str(error).rstrip(". ")
    first = errors[0]
    reason = str(first["description"]).partition(" but got ")[0].rstrip(". ")
    if reason.startswith("Required keyword"):
        reason = "incomplete expression"
    word = str(first["highlight"])
    column = first["col"] - len(word) + 1
    return f"{reason} at line {first['line']}, column {column}, near {word!r}"


def excerpt(text: str) -> str:
    """Return the beginning of a text of SQL, on one line and in quotes, for a message."""
    line = " ".join(text.split())
    return repr(line if len(line) <= _SHOWN else line[:_SHOWN] + "…")


def operands(tree: Tree, kind: type[exp.And] | type[exp.Or]) -> Iterator[Tree]:
    """Yield the operands of nested ANDs, or of nested ORs, in their order; there may be thousands.

    Parentheses are not opened.
    """
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, kind):
            pending += [node.expression, node.this]
        else:
            yield node


def _with_plain_arguments(tree: Tree) -> Tree:
    """Return a tree whose calls have expressions as arguments.

    A unit of time, as in ``timestampadd(DAY, 1, t)``, is not a column; IGNORE NULLS, as in
    ``first(a IGNORE NULLS)``, is the second argument that Spark has for it; ``a >>> b`` is a call.
    """
    for shift in list(tree.find_all(exp.BitwiseRightShift)):
        if shift.expression.meta.get(UNSIGNED):
            arguments = [shift.this, shift.expression]
            call = exp.Anonymous(this="shiftrightunsigned", expressions=arguments)
            tree = call if shift is tree else tree
            shift.replace(call)
    for call in list(tree.find_all(exp.Anonymous)):
        name, arguments = str(call.this).lower(), call.expressions
        if name in _CHOOSING and len(arguments) == 1 and isinstance(arguments[0], exp.IgnoreNulls):
            call.set("expressions", [arguments[0].this, exp.true()])
        if name in _FUNCTIONS_OF_UNITS and len(arguments) == 3:
            unit = arguments[0]
            if isinstance(unit, exp.Column):
                unit.replace(exp.Var(this=unit.name))
    return tree
