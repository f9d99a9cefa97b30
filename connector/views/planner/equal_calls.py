"""Aggregate calls as expressions over calls of functions that the aggregate executor maintains.

    bool_and, every         min of the condition
    bool_or, any, some      max of it
    count_if                count of the rows for which it is true
    min_by, max_by          the value in the least or greatest struct of the order and the value
    any_value, first, last  the value in the least or greatest struct of the row's key and the value
    min, max                of collated strings: as min_by and max_by of them and their keys
    count(DISTINCT …)       of collated strings: of their keys
    regr_count              count of the *pairs*: of the rows whose values are both not NULL
    corr, regr_…            the averages, variances and the covariance of the pairs

Promises: of several values that may be right, the one with the least or greatest struct.
Does not know: whether the executor maintains all calls of an aggregate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    conjunction,
    parse_expression,
    text_of,
    with_parts,
)
from relstate.storage import types

from .builder import is_keyable
from .calls import AggregateCall, function_of, name_of
from .collations import bytes_text, collation_key, is_collated, with_type

_EXTREMES: dict[str, type[exp.Min | exp.Max]] = {
    "bool_and": exp.Min, "every": exp.Min, "bool_or": exp.Max, "any": exp.Max, "some": exp.Max,
}  # fmt: skip
_PICKS = {"min_by": "min", "max_by": "max"}
_ENDS = {
    "any_value": "min", "first": "min", "first_value": "min", "last": "max", "last_value": "max",
}  # fmt: skip
# Over averages, variances and the covariance of pairs. Spark divides by the number of pairs, too.
_PAIR_FORMULAS = {
    "covar_pop": "{covar_pop}",
    "covar_samp": "{covar_samp}",
    # That of one pair is NULL, also if it is not finite.
    "corr": "CASE WHEN {count} > 1 THEN {covar_pop} / nullif(sqrt({var_x} * {var_y}), 0) END",
    "regr_avgx": "{mean_x}",
    "regr_avgy": "{mean_y}",
    "regr_sxx": "{var_x} * {count}",
    "regr_syy": "{var_y} * {count}",
    "regr_sxy": "{covar_pop} * {count}",
    "regr_slope": "{covar_pop} / nullif({var_x}, 0)",
    "regr_intercept": "{avg_y} - {covar_pop} / nullif({var_x}, 0) * {avg_x}",
    "regr_r2": (
        "CASE WHEN {var_x} = 0 THEN NULL WHEN {var_y} = 0 THEN 1D "
        "ELSE {covar_pop} * {covar_pop} / ({var_x} * {var_y}) END"
    ),
}
# The others with DISTINCT would need the averages of distinct pairs.
_COVARIANCES = frozenset({"covar_pop", "covar_samp"})


@dataclass(frozen=True, slots=True)
class Input:
    """What the calls of an aggregate read.

    ``key``: the fields of its key. ``type_of``: returns the type of an expression over its fields.
    """

    key: Sequence[str]
    type_of: Callable[[Tree], types.DataType]


def as_maintained(call: Tree, rows: Input) -> Tree:
    """Return the equal expression, each call with its FILTER; the call itself if it has none."""
    name = name_of(function_of(call))
    if name in _EXTREMES or name in ("count_if", "regr_count"):
        return _as_condition(call, name)
    if name in _PICKS or name in _ENDS:
        return _as_struct(call, name, rows)
    if name in _PAIR_FORMULAS:
        return _as_formula(call, name)
    if name in ("min", "max"):
        return _as_collated_extreme(call, name, rows)
    if name == "count":
        return _as_count_of_keys(call, rows)
    if name == "mode":
        return _as_mode(call, rows)
    return call


def _as_condition(call: Tree, name: str) -> Tree:
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


def _as_struct(call: Tree, name: str, rows: Input) -> Tree:
    """Return the value in an extreme struct."""
    parts = AggregateCall.of(call)
    if any(isinstance(tree, exp.IgnoreNulls | exp.RespectNulls) for tree in parts.call.expressions):
        return call
    arguments = list(map(text_of, parts.call.expressions))
    value, condition = arguments[0], ""
    if name in _PICKS:
        if len(arguments) != 2:
            return call
        function, by = _PICKS[name], _sortable(arguments[1], rows)
        order = [f"'by', {by}"]
        condition = f"({arguments[1]}) IS NOT NULL"
        compared = [by]
    else:
        function, compared = _ENDS[name], []
        order = [f"'k{number}', {types.quoted(field)}" for number, field in enumerate(rows.key)]
        ignores_nulls = _ignores_nulls(parts, arguments)
        if ignores_nulls is None:
            return call
        if ignores_nulls:
            condition = f"({value}) IS NOT NULL"
    return _in_struct(call, function, order, value, condition, compared, rows)


def _in_struct(
    call: Tree,
    function: str,
    order: Sequence[str],
    value: str,
    condition: str,
    compared: Sequence[str],
    rows: Input,
) -> Tree:
    """Return a value in an extreme struct; the call itself if what is ``compared`` has no order.

    ``order``: the parts of the struct before the value; ``condition``: of the rows, "" for all.
    """
    data_type = rows.type_of(parse_expression(value))
    if is_collated(data_type):  # The state has it as it is.
        stored = bytes_text(value)
    else:
        stored, compared = value, [value, *compared]
    if not all(is_keyable(rows.type_of(parse_expression(text))) for text in compared):
        return call
    struct = f"named_struct({', '.join(order)}, 'value', {stored})"
    if condition:
        struct = f"CASE WHEN {condition} THEN {struct} END"
    extreme = parse_expression(f"{function}({struct})")
    picked = with_parts(_with_filter(extreme, AggregateCall.of(call)), ["value"])
    if stored == value:
        return picked
    return with_type(picked, data_type)


def _sortable(text: str, rows: Input) -> str:
    """Return what has the order of a value by its bytes; the value itself if none is known."""
    return collation_key(text, rows.type_of(parse_expression(text))) or text


def _as_collated_extreme(call: Tree, name: str, rows: Input) -> Tree:
    (argument,) = AggregateCall.of(call).call.expressions
    text = text_of(argument)
    key = collation_key(text, rows.type_of(argument))
    if key is None:
        return call
    return _in_struct(call, name, [f"'by', {key}"], text, f"({text}) IS NOT NULL", [], rows)


def _as_count_of_keys(call: Tree, rows: Input) -> Tree:
    parts = AggregateCall.of(call)
    if not parts.is_distinct:
        return call
    texts = list(map(text_of, parts.call.expressions))
    keys = [_sortable(text, rows) for text in texts]
    if keys == texts:
        return call
    return _with_filter(parse_expression(f"count(DISTINCT {', '.join(keys)})"), parts)


def _ignores_nulls(parts: AggregateCall, arguments: Sequence[str]) -> bool | None:
    """Return whether NULLs are passed over; None if that is not written as a constant."""
    if len(arguments) == 1:
        return isinstance(parts.nulls, exp.IgnoreNulls)
    return {"TRUE": True, "FALSE": False}.get(arguments[1].upper())


def _as_formula(call: Tree, name: str) -> Tree:
    parts = AggregateCall.of(call)
    arguments = parts.call.expressions
    if len(arguments) != 2 or (parts.is_distinct and name not in _COVARIANCES):
        return call
    distinct = "DISTINCT " if parts.is_distinct else ""
    plain_y, plain_x = map(text_of, arguments)
    y, x = f"CAST({plain_y} AS DOUBLE)", f"CAST({plain_x} AS DOUBLE)"
    pair = f"CASE WHEN {y} IS NOT NULL AND {x} IS NOT NULL THEN"
    struct = f"{distinct}{pair} named_struct('y', {y}, 'x', {x}) END"
    calls = {
        "covar_pop": f"covar_pop({struct})",
        "covar_samp": f"covar_samp({struct})",
        "avg_x": f"avg({pair} {x} END)",
        "avg_y": f"avg({pair} {y} END)",
        # These two are decimals if the values are.
        "mean_x": f"avg({pair} {plain_x} END)",
        "mean_y": f"avg({pair} {plain_y} END)",
        "var_x": f"var_pop({pair} {x} END)",
        "var_y": f"var_pop({pair} {y} END)",
        "count": f"count({struct})",
    }
    texts = {
        title: text_of(_with_filter(parse_expression(text), parts)) for title, text in calls.items()
    }
    return exp.paren(parse_expression(_PAIR_FORMULAS[name].format_map(texts)))


def _as_mode(call: Tree, rows: Input) -> Tree:
    """Return the least of the most frequent values, which is right wherever any of them is."""
    parts = AggregateCall.of(call)
    if isinstance(parts.call, exp.WithinGroup):
        (key,) = parts.call.expression.expressions
        if key.args.get("desc"):
            return call
        value = key.this
    else:
        value = parts.call.expressions[0]
    if not is_keyable(rows.type_of(value)):
        return call
    return _with_filter(exp.Anonymous(this="mode", expressions=[value.copy()]), parts)


def _with_filter(function: Tree, parts: AggregateCall) -> Tree:
    return _filtered(function, [] if parts.filter is None else [parts.filter.copy()])


def _filtered(function: Tree, conditions: list[Tree]) -> Tree:
    if not conditions:
        return function
    return exp.Filter(this=function, expression=exp.Where(this=conjunction(conditions)))
