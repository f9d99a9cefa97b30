"""Aggregate calls that equal calls of functions which the aggregate executor maintains.

    bool_and, every         min of the condition
    bool_or, any, some      max of it
    count_if                count of the rows for which it is true
    regr_count              count of the rows whose values are both not NULL

Does not know: whether the executor maintains all calls of an aggregate.
"""

from __future__ import annotations

from sqlglot import exp

from relstate.connector.syntax.tree import Tree, conjunction

from .calls import AggregateCall, function_of, name_of

_EXTREMES: dict[str, type[exp.Min | exp.Max]] = {
    "bool_and": exp.Min, "every": exp.Min, "bool_or": exp.Max, "any": exp.Max, "some": exp.Max,
}  # fmt: skip


def as_maintained(call: Tree) -> Tree:
    """Return the equal call, with its FILTER; the call itself if it has none."""
    name = name_of(function_of(call))
    if name not in _EXTREMES and name not in ("count_if", "regr_count"):
        return call
    parts = AggregateCall.of(call)
    arguments = [argument.copy() for argument in parts.call.expressions]
    conditions = [] if parts.filter is None else [parts.filter.copy()]
    if name in _EXTREMES:
        return _filtered(_EXTREMES[name](this=exp.cast(arguments[0], "BOOLEAN")), conditions)
    if parts.is_distinct:
        return call
    if name == "regr_count":
        return _filtered(exp.Count(this=arguments[0], expressions=arguments[1:]), conditions)
    conditions.append(exp.cast(arguments[0], "BOOLEAN"))
    return _filtered(exp.Count(this=exp.Star()), conditions)


def _filtered(function: Tree, conditions: list[Tree]) -> Tree:
    if not conditions:
        return function
    return exp.Filter(this=function, expression=exp.Where(this=conjunction(conditions)))
