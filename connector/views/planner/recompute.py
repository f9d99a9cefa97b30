"""Aggregates that Spark evaluates again for the groups that change.

Promises: the arguments of a call are fields of the input or constants: the state holds what the
calls read and no more, and an argument is computed once per input row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from relstate.connector.syntax.tree import Tree, comparable_text, text_of
from relstate.storage import types

from ..plan.node import Names, Node
from ..plan.recompute import GroupCall, GroupRecompute
from .builder import Builder, check_keyable, field_title
from .calls import AggregateCall, function_of, name_of, with_fields_for_values
from .expressions import unsupported_error

# The functions with IGNORE NULLS, and the name under which it is an argument. For the others Spark
# accepts both clauses, and only these read NULLs with RESPECT NULLS.
_FIRSTS = {
    "any_value": "any_value", "first": "first", "first_value": "first", "last": "last",
    "last_value": "last",
}  # fmt: skip
_LISTS = frozenset({"array_agg", "collect_list", "collect_set"})


def plan_group_recompute(
    builder: Builder, node: Node, group: Names, calls: Sequence[Tree], *, is_global: bool
) -> tuple[GroupRecompute, Names]:
    """Return the operator for the calls of a GROUP BY, and the field of each call's result."""
    parsed_calls = [_parse(call) for call in calls]
    inputs = {
        comparable_text(value): value
        for call in parsed_calls
        for value in (*call.values, *([] if call.filter is None else [call.filter]))
    }
    node, names = builder.compute(
        node, list(inputs.values()), [field_title(value) for value in inputs.values()]
    )
    fields = dict(zip(inputs, names, strict=True))
    texts = dict.fromkeys(
        comparable_text(value) for call in parsed_calls if call.is_distinct for value in call.values
    )
    node, distinct_names = builder.without_signs(node, [fields[text] for text in texts])
    distinct_fields = fields | dict(zip(texts, distinct_names, strict=True))
    names = tuple(dict.fromkeys((*names, *distinct_names)))
    node, keys = builder.collation_keys(node, names)
    distinct = dict(zip(names, keys, strict=True))
    resolved = [
        _resolve(call, distinct_fields if call.is_distinct else fields, distinct)
        for call in parsed_calls
    ]
    data_types = builder.analysis.types_of(node.fields, [call.text for call in resolved])
    outputs: dict[_ResolvedCall, GroupCall] = {}
    for parsed, call, data_type in zip(parsed_calls, resolved, data_types, strict=True):
        for name in call.distinct or ():
            check_keyable(node.type_of(name), "DISTINCT")
        if call not in outputs:
            output = types.Field(builder.namer.unique_name(_title(parsed)), data_type)
            outputs[call] = GroupCall(call.text, output, call.distinct, call.filter)
    operator = GroupRecompute(node, group, tuple(outputs.values()), is_global=is_global)
    return operator, tuple(outputs[call].output.name for call in resolved)


# Spark casts the arguments of these to DOUBLE before it looks for equal ones.
_OF_TWO_DOUBLES = frozenset(
    {"corr", "covar_pop", "covar_samp", "regr_intercept", "regr_r2", "regr_slope", "regr_sxy"}
)


@dataclass(frozen=True, slots=True)
class _ResolvedCall:
    """A call over fields; for the parts see `GroupCall`."""

    text: str
    distinct: Names | None
    filter: str | None


def _parse(tree: Tree) -> AggregateCall:
    call = AggregateCall.of(tree)
    name = name_of(function_of(call.call))
    if isinstance(call.nulls, exp.RespectNulls) and name in _LISTS:
        return replace(call, call=exp.RespectNulls(this=call.call))
    if call.nulls is not None and name in _FIRSTS:
        # FILTER, which relstate adds, would have to stand before IGNORE NULLS.
        function = call.call.copy()
        function.set("this", _FIRSTS[name])
        function.append("expressions", exp.Boolean(this=isinstance(call.nulls, exp.IgnoreNulls)))
        call = replace(call, call=function)
    if call.is_distinct and name in _OF_TWO_DOUBLES:
        function = call.call.copy()
        arguments = [exp.cast(argument, "DOUBLE") for argument in function.expressions]
        function.set("expressions", arguments)
        return replace(call, call=function)
    if call.is_distinct and len(call.arguments) > 1 and name != "count":
        raise unsupported_error(
            f"{name}(DISTINCT) of several values",
            "aggregate the rows of a SELECT DISTINCT in FROM",
            tree,
        )
    return call


def _resolve(
    call: AggregateCall, fields: Mapping[str, str], keys: Mapping[str, str]
) -> _ResolvedCall:
    """Return a call over ``fields``; ``keys``: by field, the one that its distinct values have."""
    distinct = None
    if call.is_distinct:
        names = (fields[comparable_text(value)] for value in call.arguments)
        distinct = tuple(dict.fromkeys(keys[name] for name in names))
    return _ResolvedCall(
        text_of(with_fields_for_values(call.call, fields)),
        distinct,
        None if call.filter is None else fields[comparable_text(call.filter)],
    )


def _title(call: AggregateCall) -> str:
    name = name_of(function_of(call.call))
    values = call.values
    return f"{name}_{field_title(values[0])}" if values else name
