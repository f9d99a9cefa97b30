"""Whether an expression may fail for some values of the fields that it reads.

Promises: what is said not to fail does not, but for sums and products of decimals that overflow.
"""

from __future__ import annotations

from sqlglot import exp

from relstate.connector.syntax.tree import Tree, number_text, text_of, without_parentheses
from relstate.storage import types

from ..plan.node import Node
from .analysis import Analysis

_SAFE = (
    exp.Column, exp.Identifier, exp.Literal, exp.Null, exp.Boolean, exp.Paren, exp.Coalesce,
    exp.Case, exp.If, exp.And, exp.Or, exp.Not, exp.Is, exp.Predicate, exp.DataType,
)  # fmt: skip
_ARITHMETIC = exp.Add, exp.Sub, exp.Mul
_UNBOUNDED = types.Float, types.Double, types.Decimal
_OF_ANY_NUMBER = frozenset({"DOUBLE", "FLOAT", "STRING"})


def may_fail(value: Tree, node: Node, analysis: Analysis) -> bool:
    """Return whether a value over the fields of an operator may be an error in ANSI mode."""
    return analysis.is_ansi and any(_may_fail(part, node, analysis) for part in value.walk())


def _may_fail(part: Tree, node: Node, analysis: Analysis) -> bool:
    if isinstance(part, exp.Div):
        divisor = number_text(without_parentheses(part.expression))
        return divisor is None or float(divisor) == 0
    if isinstance(part, _ARITHMETIC):
        (data_type,) = analysis.types_of(node.fields, [text_of(part)])
        return not isinstance(data_type, _UNBOUNDED)
    if isinstance(part, exp.Cast):
        return text_of(part.to).upper() not in _OF_ANY_NUMBER
    return not isinstance(part, _SAFE)
