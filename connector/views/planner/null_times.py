"""Times that are NULL whenever they are computed, as ``date_trunc('century', now())``.

Spark has no such unit, and takes the time for NULL. A comparison with it is NULL for every row.
"""

from __future__ import annotations

from sqlglot import exp

from relstate.connector.syntax.present_time import time_text
from relstate.connector.syntax.tree import (
    Tree,
    cast_text,
    columns_of,
    parse_expression,
    substituted,
    text_of,
)

from ..plan.temporal import CLOCK
from .analysis import Analysis
from .clock_comparisons import has_clock
from .expressions import function_name, is_clock

# Moments that differ in every unit: what is NULL at both is NULL because of its other arguments.
_MOMENTS = (0, 1_234_567_890_123_456)
_FUNCTIONS = frozenset({"date_trunc", "trunc"})


def with_null_times(tree: Tree, analysis: Analysis) -> Tree:
    """Return a query with NULL for what truncates the present time to a unit that Spark lacks."""

    def replacement(node: Tree) -> Tree | None:
        is_call = function_name(node) in _FUNCTIONS and has_clock(node)
        if not is_call or columns_of(node) or node.find(exp.Query) is not None:
            return None
        text = text_of(substituted(node, _field))
        if not analysis.is_null_at(text, CLOCK, _MOMENTS):
            return None
        (data_type,) = analysis.types_of([CLOCK], [text])
        return parse_expression(cast_text("NULL", data_type))

    return substituted(tree, replacement) if has_clock(tree) else tree


def _field(node: Tree) -> Tree | None:
    if not is_clock(node):
        return None
    return parse_expression(time_text(function_name(node) or "", CLOCK.name))
