"""Strings that mean the moment at which they are read: 'now', 'today', 'tomorrow', 'yesterday'.

To Spark they do where a string that is constant becomes a date or a timestamp, be it by a CAST, by
a function, or because it is compared with one; anywhere else they are words. 'epoch' is always the
same, and stays.

Does not know: what else a view cannot have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from relstate.connector.syntax.tree import Tree, parse_expression, substituted, text_of
from relstate.storage import types

from ..plan.node import Node, walk
from .analysis import Analysis
from .expressions import UNTIMELY, refused

_WORDS = frozenset({"now", "today", "tomorrow", "yesterday"})
_TIMES = (
    exp.DType.DATE, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPLTZ, exp.DType.TIMESTAMPNTZ,
    exp.DType.TIMESTAMPTZ,
)  # fmt: skip


def check_moments(tree: Tree) -> None:
    """UnsupportedStatementError for a literal such as ``timestamp'now'`` or ``date'today'``.

    Spark computes them as it reads them, so no plan shows what they were.
    """
    for cast in tree.find_all(exp.Cast):
        if cast.is_type(*_TIMES) and _word(cast.this) in _WORDS:
            raise refused(_WHAT, UNTIMELY, cast)


def check_timeless(root: Node, analysis: Analysis) -> None:
    """UnsupportedStatementError if a string in an expression of a plan means a moment to Spark."""
    for node in walk(root):
        trees = [_without_epochs(expression.text) for expression in node.expressions]
        trees = [tree for tree in trees if any(_strings(tree))]
        fields = node.input_fields if trees else ()
        if trees and _is_timely(analysis, fields, trees):
            culprit = next(tree for tree in trees if _is_timely(analysis, fields, [tree]))
            raise refused(_WHAT, UNTIMELY, culprit)


def _is_timely(analysis: Analysis, fields: Sequence[types.Field], trees: Sequence[Tree]) -> bool:
    found = analysis.means_now(fields, [text_of(one) for one in trees])
    if found is None:
        return any(_word(one) in _WORDS for tree in trees for one in _strings(tree))
    return found


_WHAT = "a string that is read as the present moment"


def _strings(tree: Tree) -> Iterator[Tree]:
    return (one for one in tree.find_all(exp.Literal) if one.is_string)


def _without_epochs(text: str) -> Tree:
    def replacement(node: Tree) -> Tree | None:
        return exp.Literal.string("1970-01-01") if _word(node) == "epoch" else None

    return substituted(parse_expression(text), replacement)


def _word(tree: Tree) -> str | None:
    """Return the word that a literal string is; None for anything else."""
    is_text = isinstance(tree, exp.Literal) and tree.is_string
    return str(tree.this).strip().lower() if is_text else None
