"""GROUP BY, DISTINCT, aggregate functions and ROW_NUMBER, and the expressions above them.

Promises: the arguments, filters and group expressions are fields of the input; above the aggregate
an expression reads only the group and the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    bare,
    columns_of,
    enclosed,
    meaning,
    parse_expression,
    text_of,
    with_fields,
)
from relstate.storage import types

from ..plan.node import Node
from ..plan.stateful import UNBOUNDED, Aggregate, Call, Function, TopN
from .builder import Builder, check_keyable, title_of
from .expressions import AGGREGATES, OF_VARIANCE, refused

_NUMBERS = (
    types.TinyInt, types.SmallInt, types.Int, types.BigInt, types.Float, types.Double,
    types.Decimal, types.Void,
)  # fmt: skip
_SUMMING = (Function.SUM, Function.AVG, *OF_VARIANCE)


@dataclass(frozen=True, slots=True)
class _Written:
    """An aggregate call as it is written: expressions over the fields of the input."""

    function: Function
    argument: Tree | None
    is_distinct: bool
    filter: Tree | None
    title: str


def has_aggregates(expressions: Sequence[Tree]) -> bool:
    """Return whether expressions have aggregate functions outside of windows."""
    return any(_calls_in(expression) for expression in expressions)


def aggregated(
    builder: Builder, node: Node, group: Sequence[Tree], expressions: Sequence[Tree]
) -> tuple[Node, list[Tree]]:
    """Return the aggregate that expressions need, and the expressions over its fields."""
    calls = {meaning(call): call for tree in expressions for call in _calls_in(tree)}
    written_calls = [_written(call) for call in calls.values()]
    node, groups = _group(builder, node, group)
    node, output_calls = _calls(builder, node, written_calls)
    results = {key: call.output.name for key, call in zip(calls, output_calls, strict=True)}
    keys = {meaning(tree): name for tree, name in zip(group, groups, strict=True)}
    distinct_groups = tuple(dict.fromkeys(groups))
    if not group:
        node, everything = builder.with_constant(node, "all_rows")
        distinct_groups = (everything,)
    # Of equal calls (count(1), count(*)) one is enough.
    aggregate = Aggregate(
        node, distinct_groups, tuple(dict.fromkeys(output_calls)), is_global=not group
    )
    above = [with_fields(tree, {**results, **keys}) for tree in expressions]
    for tree in above:
        if not columns_of(tree) <= set(aggregate.names):
            raise refused(
                "an expression that reads columns which are not in GROUP BY",
                "write it exactly as it is in GROUP BY, or aggregate it",
                tree,
            )
    return aggregate, above


def distinct(node: Node, fields: Sequence[str]) -> Node:
    """Return each distinct row once."""
    for name in fields:
        check_keyable(node.type_of(name), "DISTINCT")
    return Aggregate(node, tuple(dict.fromkeys(fields)), ())


def _group(builder: Builder, node: Node, group: Sequence[Tree]) -> tuple[Node, tuple[str, ...]]:
    node, groups = builder.computed(node, group, [title_of(tree) for tree in group])
    for name in groups:
        check_keyable(node.type_of(name), "GROUP BY")
    return node, groups


def _calls(
    builder: Builder, node: Node, written: Sequence[_Written]
) -> tuple[Node, tuple[Call, ...]]:
    inputs = [part for one in written for part in (one.argument, one.filter) if part is not None]
    node, names = builder.computed(node, inputs, [title_of(one) for one in inputs])
    fields = {meaning(one): name for one, name in zip(inputs, names, strict=True)}
    resolved = [
        (
            one,
            None if one.argument is None else fields[meaning(one.argument)],
            None if one.filter is None else fields[meaning(one.filter)],
        )
        for one in written
    ]
    data_types = builder.analysis.types_of(
        node.fields, [_sql(one, name) for one, name, _ in resolved]
    )
    outputs: dict[object, str] = {}
    calls = []
    for (one, argument, condition), data_type in zip(resolved, data_types, strict=True):
        _check_argument(one, None if argument is None else node.type_of(argument))
        identity = (one.function, argument, one.is_distinct, condition)
        if identity not in outputs:
            outputs[identity] = builder.namer.fresh(one.title)
        output = types.Field(outputs[identity], data_type)
        calls.append(Call(one.function, argument, output, one.is_distinct, condition))
    return node, tuple(calls)


def _sql(call: _Written, argument: str | None) -> str:
    inner = "*" if argument is None else types.quoted(argument)
    return f"{call.function}({inner})"


def _check_argument(call: _Written, data_type: types.DataType | None) -> None:
    if data_type is None:
        return
    if call.function in _SUMMING and not isinstance(data_type, _NUMBERS):
        raise refused(
            f"{call.function} of {data_type}", "only numbers are summed incrementally; cast it"
        )
    if call.is_distinct or call.function in (Function.MIN, Function.MAX):
        check_keyable(data_type, f"{call.function}")


def _calls_in(tree: Tree) -> list[Tree]:
    """Return the aggregate calls of an expression, with their FILTER where they have one."""
    calls = []
    for node in tree.find_all(*AGGREGATES):
        outer = node.parent
        if isinstance(outer, exp.Window) and outer.this is node:
            raise refused("this window", "only ROW_NUMBER is maintained incrementally yet", outer)
        if node is not tree and node.find_ancestor(*AGGREGATES) is not None:
            raise refused("an aggregate within another", "Spark has none either", node)
        is_filtered = node is not tree and isinstance(outer, exp.Filter)
        calls.append(outer if is_filtered and outer is not None else node)
    return calls


def _written(call: Tree) -> _Written:
    condition = None
    if isinstance(call, exp.Filter):
        condition, call = call.expression.this, call.this
    function = AGGREGATES[type(call)]
    inner = call.this
    is_distinct = isinstance(inner, exp.Distinct)
    arguments = list(inner.expressions) if isinstance(inner, exp.Distinct) else [inner]
    arguments += call.expressions
    title = (
        str(function)
        if isinstance(bare(arguments[0]), exp.Star)
        else (f"{function}_{title_of(arguments[0])}")
    )
    argument = _argument(function, arguments, is_distinct)
    if function in (Function.MIN, Function.MAX):
        is_distinct = False
    return _Written(function, argument, is_distinct, condition, title)


def _argument(function: Function, arguments: Sequence[Tree], is_distinct: bool) -> Tree | None:
    only = bare(arguments[0])
    if len(arguments) > 1:
        if function is not Function.COUNT:
            raise refused(f"{function} of several values", "give it one", arguments[0].parent)
        return _all_of(arguments, is_distinct)
    if isinstance(only, exp.Star) and not is_distinct:
        return None
    if isinstance(only, exp.Star) or (isinstance(only, exp.Column) and not only.name):
        raise refused("a count of a star with more", "name the columns", arguments[0].parent)
    if function is Function.COUNT and isinstance(only, exp.Literal | exp.Boolean):
        # A constant is never NULL: every row counts; one value is counted once.
        return exp.Literal.number(1) if is_distinct else None
    if function in OF_VARIANCE:
        return exp.cast(only.copy(), "DOUBLE")
    return only


def _all_of(several: Sequence[Tree], is_distinct: bool) -> Tree:
    """Return a value that is NULL if one of several is, and otherwise identifies them."""
    is_valid = " AND ".join(f"{text_of(enclosed(value_))} IS NOT NULL" for value_ in several)
    parts = ", ".join(f"'c{n}', {text_of(value_)}" for n, value_ in enumerate(several))
    value = f"named_struct({parts})" if is_distinct else "TRUE"
    return parse_expression(f"CASE WHEN {is_valid} THEN {value} END")


def windows_of(expressions: list[Tree]) -> list[Tree]:
    """Return the windows in expressions, each once."""
    windows = {
        meaning(window): window
        for expression in expressions
        for window in expression.find_all(exp.Window)
    }
    return list(windows.values())


def ranked(builder: Builder, node: Node, window: Tree, title: str) -> tuple[Node, str]:
    """Return the rows with their positions in their groups as a further field, and its name.

    UnsupportedStatementError for any window but ROW_NUMBER.
    """
    order = window.args.get("order")
    if not isinstance(window.this, exp.RowNumber) or window.args.get("spec"):
        raise refused(
            "a window", "only ROW_NUMBER below a bound is maintained incrementally yet", window
        )
    if order is None or window.args.get("alias"):
        raise refused("this window", "write PARTITION BY … ORDER BY … in it", window)
    node, keys = builder.ordered(node, sort_keys(order), "ORDER BY")
    partition = window.args.get("partition_by") or []
    rank = types.Field(builder.namer.fresh(title), types.Int())
    if not partition:
        node, everything = builder.with_constant(node, "all_rows")
        return TopN(node, (everything,), keys, UNBOUNDED, rank=rank, is_global=True), rank.name
    node, groups = builder.ordered(
        node, [(tree, False, True) for tree in partition], "PARTITION BY"
    )
    return TopN(node, tuple(tree.name for tree in groups), keys, UNBOUNDED, rank=rank), rank.name


def sort_keys(order: Tree) -> list[tuple[Tree, bool, bool]]:
    """Return what an ORDER BY sorts by: the expression, descending, NULLs first."""
    return [
        (key.this, bool(key.args.get("desc")), bool(key.args.get("nulls_first")))
        for key in order.expressions
    ]
