"""The conjuncts of a condition as they stand in the text of a query.

Text is cut at the words AND, and each cut is trusted only if, read by itself, it is the very part
of the query's tree that it is taken for. So what is handed on is what was written, with its
literals as Spark reads them.

Promises: a conjunct's text means in Spark what it means in the query.
Does not know: tables, or what becomes of the conjuncts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import Token, TokenType, exp, parse_one
from sqlglot.errors import SqlglotError

from relstate.connector.syntax.tokens import DIALECT

Tree: TypeAlias = exp.Expr

_CLAUSES = (TokenType.WHERE, TokenType.ON)
_ENDS = frozenset(
    {
        "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "OFFSET", "UNION", "EXCEPT", "INTERSECT",
        "MINUS", "WINDOW", "QUALIFY", "CLUSTER BY", "DISTRIBUTE BY", "SORT BY", "JOIN", "LEFT",
        "RIGHT", "INNER", "CROSS", "FULL", "SEMI", "ANTI", "NATURAL", "WHERE", "LATERAL", ",",
        "|>", "ON",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Conjunct:
    """A part of a condition: its tree, and its text at ``start`` of the query's."""

    tree: Tree
    text: str
    start: int

    def unqualified(self) -> str:
        """Return the text with ``a.b`` written as ``b``, for every column."""
        parts: list[str] = []
        end = 0
        for column in sorted(self.tree.find_all(exp.Column), key=_start):
            qualifier = column.args.get("table")
            if qualifier is not None:
                begin = qualifier.meta["start"] - self.start
                parts.append(self.text[end:begin])
                end = _start(column) - self.start
        return "".join([*parts, self.text[end:]])


def conjuncts(condition: Tree, text: str, tokens: Sequence[Token]) -> tuple[Conjunct, ...]:
    """Return the conjuncts of a condition of WHERE or ON whose text is certain."""
    trees = _flat(condition)
    region = _region(condition, tokens)
    if region is None:
        return ()
    slices = _slices(region) if len(trees) > 1 else [region]
    if len(slices) != len(trees):
        return ()
    found = (
        Conjunct(tree, text[part[0].start : part[-1].end + 1], part[0].start)
        for tree, part in zip(trees, slices, strict=True)
        if part
    )
    return tuple(one for one in found if _is_exact(one))


def _flat(condition: Tree) -> list[Tree]:
    """Return the operands of nested ANDs, in their order."""
    found: list[Tree] = []
    waiting = [condition]
    while waiting:
        node = waiting.pop()
        if isinstance(node, exp.And):
            waiting += [node.expression, node.this]
        else:
            found.append(node)
    return found


def _start(column: exp.Column) -> int:
    start: int = column.this.meta["start"]
    return start


def _region(condition: Tree, tokens: Sequence[Token]) -> Sequence[Token] | None:
    """Return the tokens of a condition that has a column, from its WHERE or ON to its end."""
    starts = [
        found.meta["start"] for found in condition.find_all(exp.Identifier) if "start" in found.meta
    ]
    if not starts:
        return None
    first = next((i for i, token in enumerate(tokens) if token.start == min(starts)), None)
    begin = None if first is None else _clause_before(tokens, first)
    if begin is None:
        return None
    depth = 0
    for place in range(begin, len(tokens)):
        token = tokens[place]
        depth += _DEPTH.get(token.token_type, 0)
        if depth < 0 or (depth == 0 and token.text.upper() in _ENDS):
            return tokens[begin:place]
    return tokens[begin:]


def _clause_before(tokens: Sequence[Token], place: int) -> int | None:
    """Return where the clause begins in which the token at ``place`` stands, behind its word."""
    depth = lowest = 0
    for before in range(place - 1, -1, -1):
        token = tokens[before]
        depth -= _DEPTH.get(token.token_type, 0)
        lowest = min(lowest, depth)
        if depth == lowest and token.token_type in _CLAUSES:
            return before + 1
    return None


def _slices(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    """Return what stands between the ANDs of a condition; those of BETWEEN are none."""
    found: list[Sequence[Token]] = []
    begin = depth = cases = betweens = 0
    for place, token in enumerate(tokens):
        depth += _DEPTH.get(token.token_type, 0)
        if depth:
            continue
        cases = max(0, cases + _CASE_DEPTH.get(token.token_type, 0))
        if cases:
            continue
        betweens += token.token_type is TokenType.BETWEEN
        if token.token_type is TokenType.AND:
            if betweens:
                betweens -= 1
                continue
            found.append(tokens[begin:place])
            begin = place + 1
    return [*found, tokens[begin:]]


def _is_exact(conjunct: Conjunct) -> bool:
    try:
        return bool(parse_one(conjunct.text, read=DIALECT, into=exp.Condition) == conjunct.tree)
    except SqlglotError:
        return False


_DEPTH = {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}
_CASE_DEPTH = {TokenType.CASE: 1, TokenType.END: -1}
