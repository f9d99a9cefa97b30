"""The text of an expression as sqlglot's tree, its string literals as Spark reads them.

Spark and sqlglot differ in what a backslash means, and in what two strings side by side are. So
strings are read here, by Spark's rules; sqlglot parses a text in which each has made place for a
name of its own, and the tree gets the strings back.

Promises: a tree whose string literals are exact. Does not know: what an expression means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from sqlglot import Token, TokenType, exp, parse_one, tokenize
from sqlglot.errors import SqlglotError

from ..errors import UnsupportedExpressionError

DIALECT = "spark"

Tree: TypeAlias = exp.Expr

_SHOWN = 60
_STRINGS = (TokenType.STRING, TokenType.RAW_STRING)
# Private use: no SQL has it, and it tells a string's name from a number's digits.
_MARK = "\ue000"
_ESCAPE = re.compile(
    r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-3][0-7][0-7])|(.))|(\\)$", re.DOTALL
)
_CONTROLS = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}


def parse_expression(text: str) -> Tree:
    """Return the tree of one expression. UnsupportedExpressionError if it is none."""
    if _MARK in text:
        raise UnsupportedExpressionError(f"{shown(text)} holds the character U+E000; leave it out")
    try:
        tokens = list(tokenize(text, read=DIALECT))
        if any(token.token_type is TokenType.SEMICOLON for token in tokens):
            raise UnsupportedExpressionError(f"{shown(text)} holds a ';': one expression at a time")
        named, strings = _without_strings(text, tokens)
        tree: Tree = parse_one(named, read=DIALECT, into=exp.Condition)
    except SqlglotError as error:
        where = getattr(error, "errors", None)
        place = f" from line {where[0]['line']}, column {where[0]['col']} on" if where else ""
        raise UnsupportedExpressionError(
            f"cannot read {shown(text)} as one SQL expression{place}"
        ) from None
    except RecursionError:
        raise UnsupportedExpressionError(
            f"{shown(text)} is nested too deeply; use IN for many values"
        ) from None
    for literal in list(tree.find_all(exp.Literal)):
        if literal.is_string and literal.this.startswith(_MARK):
            literal.set("this", strings[int(literal.this[1:])])
        elif literal.is_string:
            # What sqlglot wraps by itself: the digits before the suffix BD.
            literal.meta["number"] = True
    return tree


def shown(text: str) -> str:
    """Return the beginning of an expression, on one line, for a message."""
    line = " ".join(text.split())
    return repr(line if len(line) <= _SHOWN else line[:_SHOWN] + "…")


def _without_strings(text: str, tokens: Sequence[Token]) -> tuple[str, list[str]]:
    """Return a text with names in the place of its strings, and the strings."""
    parts: list[str] = []
    strings: list[str] = []
    end = 0
    for start, stop, value in _strings(text, tokens):
        parts += [text[end:start], f"'{_MARK}{len(strings)}'"]
        strings.append(value)
        end = stop
    return "".join([*parts, text[end:]]), strings


def _strings(text: str, tokens: Sequence[Token]) -> Iterator[tuple[int, int, str]]:
    """Yield (start, stop, value) of each string; strings side by side are one."""
    place = 0
    while place < len(tokens):
        token = tokens[place]
        place += 1
        if token.token_type not in _STRINGS:
            continue
        start, stop = token.start, token.end + 1
        value = _value(text[start:stop])
        while place < len(tokens) and tokens[place].token_type in _STRINGS:
            follower = tokens[place]
            # Two quotes in a row inside a string are one.
            doubled = follower.start == stop and text[follower.start] == text[stop - 1]
            value += text[stop - 1] if doubled else ""
            stop = follower.end + 1
            value += _value(text[follower.start : stop])
            place += 1
        yield start, stop, value


def _value(literal: str) -> str:
    """Return what a string literal, with its quotes, stands for."""
    if literal[0] in "rR":
        return literal[2:-1]
    value = _ESCAPE.sub(_unescaped, literal[1:-1])
    try:
        # Two halves of a character outside of Unicode's first plane become one.
        return value.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeError:
        raise UnsupportedExpressionError(f"the string {shown(literal)} is not Unicode") from None


def _unescaped(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    if code is not None:
        number = int(code, 16)
        if number > 0x10FFFF:
            raise UnsupportedExpressionError(f"{match[0]} is no character of Unicode")
        return chr(number)
    if match[3] is not None:
        return chr(int(match[3], 8))
    if match[4] is None:
        return "\\"
    if match[4] in "%_":
        return match[0]
    return _CONTROLS.get(match[4], match[4])
