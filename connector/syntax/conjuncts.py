"""A condition as the conditions all of which must hold, each as it is written.

Promises: the parts, each in parentheses and with AND between them, mean what the whole means.
Does not know: names, or what a part means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from sqlglot import Token, TokenType

from relstate.storage import errors, syntax

from .tokens import tokens_of
from .tree import Tree

_DEPTH = {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}
_CASE_DEPTH = {TokenType.CASE: 1, TokenType.END: -1}
_WORD = re.compile(r"[^\W\d]\w*")
# What binds weaker than a comparison, or as it does: next to them `=` is not the outermost sign.
_WEAK_WORDS = frozenset(
    {
        "ALL", "AND", "ANY", "AT", "BETWEEN", "CASE", "COLLATE", "DISTINCT", "ESCAPE", "EXISTS",
        "ILIKE", "IN", "IS", "LIKE", "NOT", "OR", "REGEXP", "RLIKE", "SOME", "XOR",
    }
)  # fmt: skip
_OPERATORS = frozenset({".", "(", ")", "[", "]", "+", "-", "*", "/", "%", "||", "::", ","})


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a text: its tokens, at least one, at their positions in the text."""

    text: str = field(repr=False)
    tokens: tuple[Token, ...] = field(repr=False)

    @property
    def source(self) -> str:
        """The part as it is written."""
        return self.text[self.tokens[0].start : self.tokens[-1].end + 1]

    @property
    def tree(self) -> Tree | None:
        """The tree of an expression; None if it cannot be read."""
        try:
            return syntax.parse_condition(self.source)
        except errors.UnsupportedExpressionError:
            return None

    def cut(self, start: int, stop: int | None = None) -> Part | None:
        """Return the tokens from ``start`` up to, not including, ``stop``; None if none is left."""
        tokens = self.tokens[start:stop]
        return Part(self.text, tokens) if tokens else None

    def outer_positions(self) -> list[int]:
        """Return the positions of the tokens that are in no parentheses and in no CASE.

        Parentheses themselves, CASE and END are left out.
        """
        depths = accumulate(_DEPTH.get(token.token_type, 0) for token in self.tokens)
        cases = accumulate(
            (_CASE_DEPTH.get(token.token_type, 0) for token in self.tokens), _nesting
        )
        return [
            position
            for position, (depth, case) in enumerate(zip(depths, cases, strict=True))
            if depth == case == 0
            and self.tokens[position].token_type not in (*_DEPTH, *_CASE_DEPTH)
        ]

    def names_alias(self, alias: str) -> bool:
        """Return whether a name in it has this qualifier, in any case."""
        return any(
            token.token_type is not TokenType.STRING
            and token.text.lower() == alias.lower()
            and following.token_type is TokenType.DOT
            for token, following in zip(self.tokens, self.tokens[1:], strict=False)
        )


def _nesting(depth: int, change: int) -> int:
    return max(depth + change, 0)


def part_of(text: str) -> Part:
    """Return the whole of a text. UnsupportedStatementError if it has no tokens."""
    return Part(text, tuple(tokens_of(text)))


def conjuncts(condition: Part) -> Iterator[Part]:
    """Yield the conditions all of which must hold, in their order."""
    pending = [condition]
    while pending:
        part = _without_parentheses(pending.pop())
        operands = _operands(part)
        if len(operands) == 1:
            yield part
        else:
            pending += reversed(operands)


def _without_parentheses(part: Part) -> Part:
    """Return a part without parentheses around all of it."""
    while part.tokens[0].token_type is TokenType.L_PAREN and len(part.tokens) > 2:
        depths = [*accumulate(_DEPTH.get(token.token_type, 0) for token in part.tokens)]
        inner = part.cut(1, -1)
        if depths.index(0) < len(depths) - 1 or inner is None or _is_query(inner):
            return part
        part = inner
    return part


def _is_query(part: Part) -> bool:
    return part.tokens[0].text.upper() in ("SELECT", "WITH", "FROM", "VALUES", "TABLE")


def _operands(part: Part) -> list[Part]:
    """Return the operands of the outermost ANDs; the part itself if OR is the outermost."""
    starts, betweens = [0], 0
    for position in part.outer_positions():
        kind = part.tokens[position].token_type
        if kind in (TokenType.OR, TokenType.XOR):
            return [part]
        if kind is TokenType.BETWEEN:
            betweens += 1
        elif kind is TokenType.AND and betweens:
            betweens -= 1
        elif kind is TokenType.AND:
            starts.append(position + 1)
    stops = [*(start - 1 for start in starts[1:]), len(part.tokens)]
    operands = [part.cut(*bounds) for bounds in zip(starts, stops, strict=True)]
    complete = [operand for operand in operands if operand is not None]
    return complete if len(complete) == len(starts) else [part]


def equality_sides(conjunct: Part) -> tuple[Part, Part] | None:
    """Return the sides of a condition that is an equality; None if it is anything else.

    Both are arithmetic at most, so that nothing in them binds weaker than `=`.
    """
    outer = conjunct.outer_positions()
    signs = [index for index in outer if conjunct.tokens[index].token_type is TokenType.EQ]
    rest = (conjunct.tokens[index] for index in outer if index not in signs)
    if len(signs) != 1 or not all(map(_binds_tightly, rest)):
        return None
    left, right = conjunct.cut(0, signs[0]), conjunct.cut(signs[0] + 1)
    return None if left is None or right is None else (left, right)


def _binds_tightly(token: Token) -> bool:
    if token.token_type in (TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER):
        return True
    if _WORD.fullmatch(token.text):
        return token.text.upper() not in _WEAK_WORDS
    return token.text in _OPERATORS


def membership(conjunct: Part) -> tuple[Part, Part] | None:
    """Return the left side and the query of ``… IN (query)``; None if it is anything else."""
    outer = conjunct.outer_positions()
    position = next((i for i in outer if conjunct.tokens[i].token_type is TokenType.IN), None)
    if position is None:
        return None
    left, query = conjunct.cut(0, position), _query_in(conjunct, position + 1)
    is_plain = left is not None and all(
        _binds_tightly(left.tokens[index]) for index in left.outer_positions()
    )
    return None if left is None or query is None or not is_plain else (left, query)


def existence(conjunct: Part) -> Part | None:
    """Return the query of ``EXISTS (query)``; None if a condition is anything else."""
    is_exists = conjunct.tokens[0].token_type is TokenType.EXISTS
    return _query_in(conjunct, 1) if is_exists else None


def _query_in(part: Part, start: int) -> Part | None:
    """Return the query in the parentheses that begin at ``start`` and end the part."""
    rest = part.cut(start)
    if rest is None or rest.tokens[0].token_type is not TokenType.L_PAREN:
        return None
    depths = [*accumulate(_DEPTH.get(token.token_type, 0) for token in rest.tokens)]
    inner = rest.cut(1, -1)
    is_last = 0 in depths and depths.index(0) == len(depths) - 1
    return inner if is_last and inner is not None and _is_query(inner) else None


def conjunction(parts: Sequence[Part]) -> str | None:
    """Return the text of the AND of some conditions; None if there are none."""
    return " AND ".join(f"({part.source})" for part in parts) or None
