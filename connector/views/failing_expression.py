"""The expression that failed in a view, as the user wrote it.

Spark's error shows the text that it evaluated: that of the plan, in which fields have names of
their own. The same words are looked for in the SELECT.

Does not know: plans, rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from sqlglot import Token, TokenType

from relstate.connector.syntax.tokens import tokens_of
from relstate.storage import errors

# Spark marks the part of the line that failed by carets below it.
_CONTEXT = re.compile(r"== SQL[^\n]*==\n(?P<line>[^\n]*)\n(?P<marks> *\^+)")
# As an executor names an aggregate that overflows.
_CALL = re.compile(r"(?P<call>\b\w+\((?:DISTINCT )?)(?P<field>\w+)\)")
# What makes the name of a field unique in a plan.
_NUMBER = re.compile(r"_\d*$")
# An expression that needs no parentheses within another one: a name, a number, or a call.
_SIMPLE = re.compile(r"\w+(?:\((?:[^()]|\([^()]*\))*\))?")
_LONGEST = 200


def failing_expression(
    text: str, query: str, expressions: Mapping[str, str] = MappingProxyType({})
) -> str | None:
    """Return the expression of a query that failed; None if Spark's error does not show one.

    ``text``: of Spark's error. ``expressions``: those of fields that are computed, by name. What
    the query does not have in the same words is shown as it was evaluated, with these expressions.
    """
    fragment = evaluated_fragment(text)
    return shown_expression(fragment, query, expressions) if fragment else None


def evaluated_fragment(text: str) -> str:
    """Return the part of an evaluated text that failed; "" if Spark's error does not show one."""
    context = _CONTEXT.search(text)
    if context is None:
        return ""
    marks = context["marks"]
    return context["line"][marks.index("^") : len(marks)].strip()


def in_words_of_query(text: str, expressions: Mapping[str, str], query: str) -> str:
    """Return a text in which calls have what the user wrote for the fields that they read.

    ``expressions``: those of fields that are computed, by name.
    """

    def replacement(match: re.Match[str]) -> str:
        expression = expressions.get(match["field"])
        if expression is None:
            return match[0]
        return f"{match['call']}{shown_expression(expression, query)})"

    return _CALL.sub(replacement, text)


def shown_expression(
    fragment: str, query: str, expressions: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Return a fragment in the words of a query, if it has them; a long one is shortened.

    ``expressions``: as `failing_expression` takes them.
    """
    try:
        shown = _written(fragment, query)
        if shown is None:
            fragment = _with_expressions(fragment, expressions)
            shown = _written(fragment, query) or fragment
    except errors.UnsupportedStatementError:
        shown = fragment
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"


def _with_expressions(fragment: str, expressions: Mapping[str, str]) -> str:
    """Return a fragment with what fields are computed from, instead of their names."""
    tokens = tokens_of(fragment)
    for index, token in reversed([*enumerate(tokens)]):
        name = token.text
        before = tokens[index - 1].token_type if index else None
        after = tokens[index + 1].token_type if index + 1 < len(tokens) else None
        is_field = before is not TokenType.DOT and after not in (TokenType.DOT, TokenType.L_PAREN)
        if token.token_type is TokenType.STRING or not is_field or name not in expressions:
            continue
        # Fields below may have the same name, but not that of one that is made of them.
        others = {other: text for other, text in expressions.items() if other != name}
        expression = _with_expressions(expressions[name], others)
        if not _SIMPLE.fullmatch(expression):
            expression = f"({expression})"
        fragment = f"{fragment[: token.start]}{expression}{fragment[token.end + 1 :]}"
    return fragment


def _written(fragment: str, query: str) -> str | None:
    """Return the part of a query with the words of a fragment; None if there is none."""
    sought = [_word(token) for token in _words(tokens_of(fragment))]
    tokens = tokens_of(query)
    words = _words(tokens)
    found = [_word(token) for token in words]
    for start in range(len(found) - len(sought) + 1):
        if sought and found[start : start + len(sought)] == sought:
            return _part(query, tokens, words[start], words[start + len(sought) - 1])
    return None


def _words(tokens: list[Token]) -> list[Token]:
    """Return tokens without parentheses, and without what qualifies a name."""
    words = []
    for index, token in enumerate(tokens):
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        is_qualifier = following is not None and following.token_type is TokenType.DOT
        is_sign = token.token_type in (TokenType.L_PAREN, TokenType.R_PAREN, TokenType.DOT)
        if not is_qualifier and not is_sign:
            words.append(token)
    return words


def _word(token: Token) -> str:
    """Return a token as both texts have it: a name without case, quotes and number."""
    if token.token_type in (TokenType.STRING, TokenType.NUMBER):
        return token.text
    return _NUMBER.sub("", token.text.lower())


def _part(query: str, tokens: list[Token], first: Token, last: Token) -> str:
    """Return a query from a token to another one, with the parentheses that these leave open."""
    start, stop = tokens.index(first), tokens.index(last)
    depth = lowest = 0
    for token in tokens[start : stop + 1]:
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        lowest = min(lowest, depth)
    while lowest < 0 and start > 0 and tokens[start - 1].token_type is TokenType.L_PAREN:
        start, lowest, depth = start - 1, lowest + 1, depth + 1
    while depth > 0 and stop + 1 < len(tokens) and _closes(tokens[stop + 1]):
        stop, depth = stop + 1, depth - 1
    return query[tokens[start].start : tokens[stop].end + 1]


def _closes(token: Token) -> bool:
    return token.token_type is TokenType.R_PAREN
