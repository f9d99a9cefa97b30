"""Spark's SQL as sqlglot reads and writes it here: its tokens, parser and generator."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from sqlglot import Token, TokenType
from sqlglot.dialects.dialect import DialectType
from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError

from .generator import Generator
from .literals import append_string, first_surrogate, unescaped, without_surrogates
from .parser import Parser

_STRINGS = (TokenType.STRING, TokenType.RAW_STRING)
_NEGATED_SIGNS = {TokenType.GT: TokenType.LTE, TokenType.LT: TokenType.GTE}
_CLOSED = re.compile(
    r"""[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`"""
    r"""|--[^\n]*|/\*.*?\*/|(?P<open>['"`]|/\*)|.""",
    re.DOTALL,
)


class Dialect(Spark):
    """Spark's, with no function known that need not be."""

    Parser = Parser
    Generator = Generator

    def tokenize(self, sql: str, dialect: DialectType = None) -> list[Token]:
        """Return the tokens of a text, each string literal as one of them, with its value.

        TokenError where the text has none.
        """
        surrogate = first_surrogate(sql)
        if surrogate is not None:
            raise TokenError(f"U+{ord(surrogate):X} is half of a character, a surrogate")
        try:
            tokens = super().tokenize(sql, dialect)
        except TokenError as error:
            raise TokenError(_unclosed(sql) or str(error)) from None
        tokens = _with_whole_strings(tokens, sql)
        _set_kinds_of_calls(tokens)
        return _with_negated_signs(tokens)


def _with_whole_strings(tokens: Sequence[Token], sql: str) -> list[Token]:
    """Return tokens of which each string literal is one, with its value."""
    result: list[Token] = []
    is_raw = False
    for token in tokens:
        source = sql[token.start : token.end + 1]
        if token.token_type is TokenType.STRING and "\\" in source:
            token.text = unescaped(source[1:-1])
        if result and token.token_type in _STRINGS and result[-1].token_type in _STRINGS:
            append_string(result[-1], token, sql, is_raw)
        else:
            result.append(token)
        is_raw = token.token_type is TokenType.RAW_STRING
    for token in result:
        if token.token_type is TokenType.RAW_STRING:
            token.token_type = TokenType.STRING
        elif token.token_type is TokenType.STRING:
            token.text = without_surrogates(token.text)
    return result


def _set_kinds_of_calls(tokens: Sequence[Token]) -> None:
    """Give the words before ``(`` the kinds that they have in Spark: mostly names of functions."""
    has_asof = any(token.token_type is TokenType.ASOF for token in tokens)
    for token, following in pairwise(tokens):
        if following.token_type is not TokenType.L_PAREN:
            continue
        # The clause names a window first; what has arguments is the function.
        if token.token_type is TokenType.WINDOW:
            token.token_type = TokenType.VAR
        elif has_asof and token.text.upper() == "MATCH_CONDITION":
            token.token_type = TokenType.MATCH_CONDITION


def _unclosed(sql: str) -> str | None:
    """Return which quote or comment has no end, and where it begins; None if all have one."""
    for match in _CLOSED.finditer(sql):
        if match["open"]:
            before = sql[: match.start()].split("\n")
            return (
                f"what begins with {match['open']} at line {len(before)}, column "
                f"{len(before[-1]) + 1}, has no end"
            )
    return None


def _with_negated_signs(tokens: list[Token]) -> list[Token]:
    """Return tokens of which ``!>`` and ``!<`` are one each: Spark's ``<=`` and ``>=``."""
    result: list[Token] = []
    for token in tokens:
        sign, last = _NEGATED_SIGNS.get(token.token_type), result[-1] if result else token
        if sign is None or last.text != "!" or last.end + 1 != token.start:
            result.append(token)
            continue
        place = last.line, last.col, last.start, token.end
        result[-1] = Token(sign, f"!{token.text}", *place, token.comments)
    return result
