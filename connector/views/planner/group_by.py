"""GROUP BY, DISTINCT and aggregate functions, and the expressions above them.

Promises: the arguments, filters and group expressions are fields of the input; above the aggregate
an expression reads only the group and the results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from sqlglot import exp

from relstate.connector.syntax.tree import (
    NO_VALUES,
    Tree,
    as_operand,
    cast_text,
    column,
    columns_of,
    comparable_text,
    is_column,
    number_text,
    parse_expression,
    substituted,
    text_of,
    with_fields,
    without_parentheses,
)
from relstate.storage import types

from ..plan.aggregate import Aggregate, Call, Function
from ..plan.join import Join
from ..plan.node import Names, Node
from ..plan.recompute import GroupRecompute
from ..plan.stateless import Output, Project
from .approximate_counts import is_approximate_count, join_groups, plan_approximate_count
from .builder import (
    Builder,
    check_keyable,
    field_title,
    has_subquery_call,
    is_map_key,
    pass_through_output,
)
from .calls import (
    DEVIATIONS,
    EMPTY_WITHOUT_ROWS,
    ZERO_WITHOUT_ROWS,
    AggregateCall,
    depends_on_order,
    find_aggregates,
    function_of,
    is_aggregate_of_group,
    is_special_without_rows,
    maintained_function,
    name_of,
    values_of,
)
from .collations import is_collated, is_keyless, with_type
from .equal_calls import Input, as_maintained
from .expressions import VARIANCE_FUNCTIONS, unsupported_error
from .recompute import plan_group_recompute
from .year_months import with_months

IN_OTHER_WORDS = exp.Binary, exp.Func, exp.Tuple
"""Expressions that Spark may take for another: 1 + a for a + 1, a struct for a row (a, b)."""
_ZERO = cast_text("0", types.BigInt())
_NUMBERS = (*types.NUMBERS, types.Void)
_INTEGERS = (types.TinyInt, types.SmallInt, types.Int, types.BigInt)
_TYPES: dict[Function, tuple[type[types.DataType], ...]] = {
    Function.SUM: (*_NUMBERS, types.DayTimeInterval),
    **dict.fromkeys((Function.AVG, *VARIANCE_FUNCTIONS), _NUMBERS),
    **dict.fromkeys((Function.BIT_AND, Function.BIT_OR, Function.BIT_XOR), _INTEGERS),
}
"""Of which types the executor maintains the functions that do not take all types."""


@dataclass(frozen=True, slots=True)
class _ParsedCall:
    """An aggregate call of a query: expressions over the fields of the input."""

    function: Function
    argument: Tree | None
    is_distinct: bool
    filter: Tree | None
    title: str
    is_determined: bool


def has_aggregates(expressions: Sequence[Tree]) -> bool:
    """Return whether expressions have aggregate functions outside of windows."""
    return any(_find_calls(expression) for expression in expressions)


def plan_aggregate(
    builder: Builder, node: Node, group: Sequence[Tree], expressions: Sequence[Tree]
) -> tuple[Node, list[Tree]]:
    """Return the aggregate for expressions, and the expressions over its fields."""
    expressions = with_months(builder, node, expressions)
    calls = {comparable_text(call): call for tree in expressions for call in _find_calls(tree)}
    aggregate, groups, results = _plan_calls(builder, node, group, list(calls.values()))
    values = dict(zip(calls, results, strict=True))
    keys = {comparable_text(tree): key for tree, key in zip(group, groups, strict=True)}

    def value_of(part: Tree) -> Tree | None:
        if isinstance(part, NO_VALUES):
            return None
        text = comparable_text(part)
        key = keys.get(text)
        return key if key is not None or not is_aggregate_of_group(part) else values.get(text)

    def value_in_other_words(part: Tree) -> Tree | None:
        value = value_of(part)
        if value is None and isinstance(part, IN_OTHER_WORDS) and columns_of(part):
            same = (key for tree, key in pairs if builder.is_same(node, tree, part))
            return next(same, None)
        return value

    pairs = list(zip(group, groups, strict=True))
    outputs = [substituted(tree, value_of) for tree in expressions]
    outputs = [
        output
        if columns_of(output) <= set(aggregate.names)
        else substituted(tree, value_in_other_words)
        for tree, output in zip(expressions, outputs, strict=True)
    ]
    check_grouped(outputs, aggregate)
    return aggregate, outputs


def check_grouped(expressions: Sequence[Tree], aggregate: Node) -> None:
    """Refuse an expression over an aggregate that reads a field which the aggregate has not."""
    for tree in expressions:
        if not columns_of(tree) <= set(aggregate.names):
            raise unsupported_error(
                "an expression that reads columns which are not in GROUP BY",
                "compute the aggregate in a subquery in FROM, and compare its columns"
                if has_subquery_call(tree)
                else "write it exactly as it is in GROUP BY, or aggregate it",
                tree,
            )


def _plan_calls(
    builder: Builder, node: Node, group: Sequence[Tree], calls: Sequence[Tree]
) -> tuple[Node, list[Tree], list[Tree]]:
    """Return (the aggregate, the values of the group over its fields, those of the calls)."""
    if any(map(has_subquery_call, calls)):
        node, calls = builder.attach_values(node, calls)
    node, groups, group_values = _compute_groups(builder, node, group)
    picks = [call for value in group_values for call in find_aggregates(value)]
    operator, results = _plan_by(builder, node, groups, [*calls, *picks], is_global=not group)
    picked = dict(zip(map(comparable_text, picks), results[len(calls) :], strict=True))
    values = [
        substituted(value, lambda part: picked.get(comparable_text(part))) for value in group_values
    ]
    return operator, values, results[: len(calls)]


def _plan_by(
    builder: Builder, node: Node, groups: Names, calls: Sequence[Tree], *, is_global: bool
) -> tuple[Node, list[Tree]]:
    """Return (the aggregate by the fields of a group, the values of calls over its fields)."""
    counts = [call for call in calls if is_approximate_count(builder, node, call)]
    others = [call for call in calls if call not in counts]
    equal = _with_maintained(builder, node, others)
    maintained_calls = {comparable_text(call): call for tree in equal for call in _find_calls(tree)}
    ambiguous_calls = {
        comparable_text(part)
        for call, tree in zip(others, equal, strict=True)
        if depends_on_order(call) or (tree is not call and _is_extreme(call))
        for part in _find_calls(tree)
    }
    parsed_calls = _parse_calls(builder, node, maintained_calls, ambiguous_calls)
    if parsed_calls is not None:
        node, output_calls = _compute_calls(builder, node, parsed_calls)
    distinct_groups = tuple(dict.fromkeys(groups))
    if is_global:
        node, all_rows = builder.with_constant(node, "all_rows")
        distinct_groups = (all_rows,)
    if parsed_calls is None:
        recompute, results = plan_group_recompute(
            builder, node, distinct_groups, calls, is_global=is_global
        )
        return recompute, list(map(column, results))
    # Equal calls (count(1), count(*)) are computed once.
    operator: Node = Aggregate(
        node, distinct_groups, tuple(dict.fromkeys(output_calls)), is_global=is_global
    )
    outputs = (call.output.name for call in output_calls)
    names = dict(zip(maintained_calls, outputs, strict=True))
    values = {
        comparable_text(call): with_fields(tree, names)
        for call, tree in zip(others, equal, strict=True)
    }
    for call in counts:
        estimates, estimate = plan_approximate_count(
            builder, node, distinct_groups, call, is_global=is_global
        )
        values[comparable_text(call)] = column(estimate)
        is_alone = not others and call is counts[0]
        operator = (
            estimates
            if is_alone
            else join_groups(
                builder,
                operator,
                estimates,
                list(zip(distinct_groups, distinct_groups, strict=True)),
            )
        )
    return operator, [values[comparable_text(call)] for call in calls]


def _with_maintained(builder: Builder, node: Node, calls: Sequence[Tree]) -> list[Tree]:
    """Return calls as expressions over calls that the aggregate executor maintains, if possible."""

    def type_of(tree: Tree) -> types.DataType:
        if is_column(tree):
            return node.type_of(tree.name)
        return builder.analysis.types_of(node.fields, [text_of(tree)])[0]

    rows = Input(node.key, type_of)
    return [
        as_maintained(call, rows) if _is_by_default(builder, name_of(function_of(call))) else call
        for call in calls
    ]


def _is_by_default(builder: Builder, name: str) -> bool:
    """Return whether the executor computes a function as the settings of the view say."""
    return builder.analysis.has_null_deviations or name not in DEVIATIONS


def _is_extreme(call: Tree) -> bool:
    return isinstance(function_of(call), exp.Min | exp.Max)


def plan_distinct(builder: Builder, node: Node, fields: Sequence[str]) -> Node:
    """Return each distinct row once; of collated strings that are equal the first."""
    data_types = {name: node.type_of(name) for name in fields}
    if any(map(is_collated, data_types.values())):
        return _distinct_by_collation(builder, node, list(data_types))
    nulls = [name for name, data_type in data_types.items() if data_type == types.Void()]
    if len(nulls) == len(data_types):
        nulls = []
    for name, data_type in data_types.items():
        if name not in nulls:
            check_keyable(data_type, "DISTINCT")
    distinct = Aggregate(node, tuple(name for name in data_types if name not in nulls), ())
    if not nulls:
        return distinct
    outputs = [Output(field, types.quoted(field.name), field.name) for field in distinct.fields]
    outputs += [Output(types.Field(name, types.Void()), "NULL") for name in nulls]
    return Project(distinct, tuple(outputs))


def _distinct_by_collation(builder: Builder, node: Node, names: Sequence[str]) -> Node:
    operator, values, _ = _plan_calls(builder, node, list(map(column, names)), [])
    own = set(names) & set(operator.key)
    outputs = [pass_through_output(f) for f in operator.fields if f.name in operator.key]
    outputs += [
        Output(types.Field(name, node.type_of(name)), text_of(value))
        for name, value in zip(names, values, strict=True)
        if name not in own
    ]
    return Project(operator, tuple(outputs))


def _compute_groups(
    builder: Builder, node: Node, group: Sequence[Tree]
) -> tuple[Node, Names, list[Tree]]:
    """Return (an operator with the keys of a group, their fields, the values of the group).

    The key of a map is its entries in the order of their keys; the value is a map in that order, as
    that of Spark. The value of a collated string has a call: any of those that are equal.
    """
    node, names = builder.compute(node, group, [field_title(tree) for tree in group])
    maps = [name for name in dict.fromkeys(names) if is_map_key(node.type_of(name))]
    sorted_entries = [
        parse_expression(f"array_sort(map_entries({types.quoted(name)}))") for name in maps
    ]
    node, entries = builder.compute(node, sorted_entries, maps)
    keys = dict(zip(maps, entries, strict=True))
    values: dict[str, Tree] = {name: column(name) for name in names}
    for name, key in keys.items():
        values[name] = parse_expression(f"map_from_entries({types.quoted(key)})")
    for name in names:
        if node.type_of(name) == types.Void():
            values[name] = exp.Null()
    node, groups = builder.typed_nulls(node, [keys.get(name, name) for name in names])
    node, groups = builder.collation_keys(node, groups)
    node, stored = builder.as_bytes(node, names)
    for name, field in zip(names, stored, strict=True):
        if field != name:
            call = exp.Anonymous(this="any_value", expressions=[column(field)])
            values[name] = with_type(call, node.type_of(name))
    for name in groups:
        check_keyable(node.type_of(name), "GROUP BY")
    return node, groups, [values[name] for name in names]


def _compute_calls(
    builder: Builder, node: Node, parsed_calls: Sequence[_ParsedCall]
) -> tuple[Node, tuple[Call, ...]]:
    inputs = [
        argument
        for parsed_call in parsed_calls
        for argument in (parsed_call.argument, parsed_call.filter)
        if argument is not None
    ]
    node, names = builder.compute(node, inputs, [field_title(tree) for tree in inputs])
    fields = {comparable_text(tree): name for tree, name in zip(inputs, names, strict=True)}
    resolved_calls = [
        (
            parsed_call,
            None if parsed_call.argument is None else fields[comparable_text(parsed_call.argument)],
            None if parsed_call.filter is None else fields[comparable_text(parsed_call.filter)],
        )
        for parsed_call in parsed_calls
    ]
    data_types = builder.analysis.types_of(
        node.fields, [parsed_call.function.sql(name) for parsed_call, name, _ in resolved_calls]
    )
    outputs: dict[object, str] = {}
    calls = []
    for (parsed_call, argument, condition), data_type in zip(
        resolved_calls, data_types, strict=True
    ):
        _check_argument(parsed_call, None if argument is None else node.type_of(argument))
        key = (
            parsed_call.function,
            argument,
            parsed_call.is_distinct,
            condition,
            parsed_call.is_determined,
        )
        if key not in outputs:
            outputs[key] = builder.namer.unique_name(parsed_call.title)
        output = types.Field(outputs[key], data_type)
        calls.append(
            Call(
                parsed_call.function,
                argument,
                output,
                parsed_call.is_distinct,
                condition,
                parsed_call.is_determined,
            )
        )
    return node, tuple(calls)


def _check_argument(call: _ParsedCall, data_type: types.DataType | None) -> None:
    if data_type is None:
        return
    if call.is_distinct or _is_extreme_function(call.function):
        check_keyable(data_type, f"{call.function}")


def _find_calls(tree: Tree) -> list[Tree]:
    """Return the aggregate calls of an expression, with their FILTER where they have one."""
    calls = find_aggregates(tree)
    for call in calls:
        if any(find_aggregates(value) for value in values_of(call)):
            raise unsupported_error(
                "an aggregate within another", "Spark does not support it either", call
            )
    return calls


def _parse_calls(
    builder: Builder, node: Node, calls: Mapping[str, Tree], ambiguous_calls: Set[str]
) -> list[_ParsedCall] | None:
    """Return the calls, by their texts, if the aggregate executor maintains all, else None."""
    if not all(map(maintained_function, map(_without_filter, calls.values()))):
        return None
    parsed_calls = [_parse_call(call, text not in ambiguous_calls) for text, call in calls.items()]
    if not all(_is_by_default(builder, str(call.function)) for call in parsed_calls):
        return None
    typed_calls = [
        (call.function, text_of(call.argument))
        for call in parsed_calls
        if (call.function in _TYPES or _is_extreme_function(call.function))
        and call.argument is not None
    ]
    data_types = builder.analysis.types_of(node.fields, [text for _, text in typed_calls])
    fits = (
        not is_keyless(kind)
        if _is_extreme_function(function)
        else isinstance(kind, _TYPES[function])
        and (function is not Function.AVG or builder.analysis.averages(kind))
        for kind, (function, _) in zip(data_types, typed_calls, strict=True)
    )
    return parsed_calls if all(fits) else None


def _is_extreme_function(function: Function) -> bool:
    return function in (Function.MIN, Function.MAX)


def _without_filter(call: Tree) -> Tree:
    return call.this if isinstance(call, exp.Filter) else call


def _parse_call(call: Tree, is_determined: bool) -> _ParsedCall:
    function = maintained_function(_without_filter(call))
    assert function is not None
    parts = AggregateCall.of(call)
    arguments, is_distinct = parts.call.expressions, parts.is_distinct
    title = (
        str(function)
        if isinstance(without_parentheses(arguments[0]), exp.Star)
        else (f"{function}_{field_title(arguments[0])}")
    )
    argument = _parse_argument(function, arguments, is_distinct)
    if function in (Function.MIN, Function.MAX):
        is_distinct = False
    return _ParsedCall(function, argument, is_distinct, parts.filter, title, is_determined)


def _parse_argument(
    function: Function, arguments: Sequence[Tree], is_distinct: bool
) -> Tree | None:
    value = without_parentheses(arguments[0])
    if len(arguments) > 1:
        if function is not Function.COUNT:
            raise unsupported_error(
                f"{function} of several values", "give it one", arguments[0].parent
            )
        return _combine_arguments(arguments, is_distinct)
    if isinstance(value, exp.Star) and not is_distinct:
        return None
    is_literal = isinstance(value, exp.Literal | exp.Boolean) or number_text(value) is not None
    if function is Function.COUNT and is_literal:
        # A constant is never NULL: every row counts; one value is counted once.
        return exp.Literal.number(1) if is_distinct else None
    if function in VARIANCE_FUNCTIONS:
        return exp.cast(value.copy(), "DOUBLE")
    return value


def _combine_arguments(arguments: Sequence[Tree], is_distinct: bool) -> Tree:
    """Return a value that is NULL if any argument is, and otherwise identifies the arguments."""
    is_valid = " AND ".join(
        f"{text_of(as_operand(argument))} IS NOT NULL" for argument in arguments
    )
    parts = ", ".join(
        f"'c{number}', {text_of(argument)}" for number, argument in enumerate(arguments)
    )
    value = f"named_struct({parts})" if is_distinct else "TRUE"
    return parse_expression(f"CASE WHEN {is_valid} THEN {value} END")


def with_defaults(aggregate: Node, expressions: Sequence[Tree], subquery: Tree) -> list[Tree]:
    """Return expressions over an aggregate that have the values of no rows where it has no row."""
    defaults = _defaults(aggregate, subquery)

    def replacement(part: Tree) -> Tree | None:
        if not isinstance(part, exp.Column) or part.name not in defaults:
            return None
        return parse_expression(f"coalesce({types.quoted(part.name)}, {defaults[part.name]})")

    return [substituted(tree, replacement) for tree in expressions]


def _defaults(aggregate: Node, subquery: Tree) -> dict[str, str]:
    """Return, by output, the values that the calls of an aggregate have without rows, as SQL.

    Those that are not NULL.
    """
    if isinstance(aggregate, Aggregate):
        counts = (call for call in aggregate.calls if call.function is Function.COUNT)
        return {call.output.name: _ZERO for call in counts}
    if isinstance(aggregate, Join):
        estimates = aggregate.right.children[0]
        return _defaults(aggregate.left, subquery) | _defaults(estimates, subquery)
    assert isinstance(aggregate, GroupRecompute)
    defaults = {}
    for call in aggregate.calls:
        name = name_of(function_of(parse_expression(call.text)))
        if is_special_without_rows(name):
            raise unsupported_error(
                f"{name}() in a subquery that compares rows with those of the query around it",
                "write it as a join with ON",
                subquery,
            )
        if name in ZERO_WITHOUT_ROWS:
            defaults[call.output.name] = _ZERO
        elif name in EMPTY_WITHOUT_ROWS:
            defaults[call.output.name] = cast_text("array()", call.output.type)
    return defaults
