"""GROUP BY, aggregate functions, and what is left of expressions above them.

Promises: the arguments, filters and group expressions are fields beneath the aggregate; above it an
expression reads nothing but the group and the results.
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
from ..plan.stateful import Aggregate, Call, Function
from .builder import Builder, check_keyable, title_of
from .expressions import AGGREGATES, OF_VARIANCE, refused

_NUMBERS = (
    types.TinyInt, types.SmallInt, types.Int, types.BigInt, types.Float, types.Double,
    types.Decimal, types.Void,
)  # fmt: skip
_SUMMING = (Function.SUM, Function.AVG, *OF_VARIANCE)


@dataclass(frozen=True, slots=True)
class _Written:
    """An aggregate call as it is written: expressions over the fields beneath."""

    function: Function
    argument: Tree | None
    is_distinct: bool
    filter: Tree | None
    title: str


def has_aggregates(expressions: Sequence[Tree]) -> bool:
    """Tell whether expressions take rows together, other than in windows."""
    return any(_calls_in(one) for one in expressions)


def aggregated(
    builder: Builder, node: Node, group: Sequence[Tree], expressions: Sequence[Tree]
) -> tuple[Node, list[Tree]]:
    """Return the aggregate that expressions need, and the expressions over its fields."""
    calls = {meaning(call): call for one in expressions for call in _calls_in(one)}
    written = [_written(call) for call in calls.values()]
    node, groups = _group(builder, node, group)
    node, made = _calls(builder, node, written)
    results = {key: call.output.name for key, call in zip(calls, made, strict=True)}
    keys = {meaning(one): name for one, name in zip(group, groups, strict=True)}
    kept = tuple(dict.fromkeys(groups))
    if not group:
        node, everything = builder.with_constant(node, "all_rows")
        kept = (everything,)
    # Of calls that are one in the end (count(1), count(*)) one is kept.
    aggregate = Aggregate(node, kept, tuple(dict.fromkeys(made)), is_global=not group)
    above = [with_fields(one, {**results, **keys}) for one in expressions]
    for one in above:
        if not columns_of(one) <= set(aggregate.names):
            raise refused(
                "an expression that reads columns which are not in GROUP BY",
                "write it exactly as it is in GROUP BY, or aggregate it",
                one,
            )
    return aggregate, above


def distinct(node: Node, fields: Sequence[str]) -> Node:
    """Return each different row once."""
    for name in fields:
        check_keyable(node.type_of(name), "DISTINCT")
    return Aggregate(node, tuple(dict.fromkeys(fields)), ())


def _group(builder: Builder, node: Node, group: Sequence[Tree]) -> tuple[Node, tuple[str, ...]]:
    node, groups = builder.computed(node, group, [title_of(one) for one in group])
    for name in groups:
        check_keyable(node.type_of(name), "GROUP BY")
    return node, groups


def _calls(
    builder: Builder, node: Node, written: Sequence[_Written]
) -> tuple[Node, tuple[Call, ...]]:
    inputs = [each for one in written for each in (one.argument, one.filter) if each is not None]
    node, names = builder.computed(node, inputs, [title_of(one) for one in inputs])
    fields = {meaning(one): name for one, name in zip(inputs, names, strict=True)}
    found = [
        (
            one,
            None if one.argument is None else fields[meaning(one.argument)],
            None if one.filter is None else fields[meaning(one.filter)],
        )
        for one in written
    ]
    kinds = builder.analysis.types_of(node.fields, [_sql(one, name) for one, name, _ in found])
    outputs: dict[object, str] = {}
    calls = []
    for (one, argument, chosen), kind in zip(found, kinds, strict=True):
        _check_argument(one, None if argument is None else node.type_of(argument))
        identity = (one.function, argument, one.is_distinct, chosen)
        if identity not in outputs:
            outputs[identity] = builder.namer.fresh(one.title)
        output = types.Field(outputs[identity], kind)
        calls.append(Call(one.function, argument, output, one.is_distinct, chosen))
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
    found = []
    for node in tree.find_all(*AGGREGATES):
        outer = node.parent
        if isinstance(outer, exp.Window) and outer.this is node:
            raise refused("this window", "only ROW_NUMBER is kept incrementally yet", outer)
        if node is not tree and node.find_ancestor(*AGGREGATES) is not None:
            raise refused("an aggregate within another", "Spark has none either", node)
        is_filtered = node is not tree and isinstance(outer, exp.Filter)
        found.append(outer if is_filtered and outer is not None else node)
    return found


def _written(call: Tree) -> _Written:
    chosen = None
    if isinstance(call, exp.Filter):
        chosen, call = call.expression.this, call.this
    function = AGGREGATES[type(call)]
    inner = call.this
    is_distinct = isinstance(inner, exp.Distinct)
    several = list(inner.expressions) if isinstance(inner, exp.Distinct) else [inner]
    several += call.expressions
    title = (
        str(function)
        if isinstance(bare(several[0]), exp.Star)
        else (f"{function}_{title_of(several[0])}")
    )
    argument = _argument(function, several, is_distinct)
    if function in (Function.MIN, Function.MAX):
        is_distinct = False
    return _Written(function, argument, is_distinct, chosen, title)


def _argument(function: Function, several: Sequence[Tree], is_distinct: bool) -> Tree | None:
    only = bare(several[0])
    if len(several) > 1:
        if function is not Function.COUNT:
            raise refused(f"{function} of several values", "give it one", several[0].parent)
        return _all_of(several, is_distinct)
    if isinstance(only, exp.Star) and not is_distinct:
        return None
    if isinstance(only, exp.Star) or (isinstance(only, exp.Column) and not only.name):
        raise refused("a count of a star with more", "name the columns", several[0].parent)
    if function is Function.COUNT and isinstance(only, exp.Literal | exp.Boolean):
        # A constant is never NULL: every row counts; one value is counted once.
        return exp.Literal.number(1) if is_distinct else None
    if function in OF_VARIANCE:
        return exp.cast(only.copy(), "DOUBLE")
    return only


def _all_of(several: Sequence[Tree], is_distinct: bool) -> Tree:
    """Return a value that is NULL where one of several is, and else tells them apart."""
    there = " AND ".join(f"{text_of(enclosed(one))} IS NOT NULL" for one in several)
    parts = ", ".join(f"'c{n}', {text_of(one)}" for n, one in enumerate(several))
    value = f"named_struct({parts})" if is_distinct else "TRUE"
    return parse_expression(f"CASE WHEN {there} THEN {value} END")
