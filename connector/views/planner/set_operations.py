"""UNION, INTERSECT and EXCEPT: queries whose columns are matched by position.

INTERSECT and EXCEPT are an aggregate over the rows of both inputs: it counts how often each input
has a row, and the counts say how often the result has it.

Promises: columns have the types that Spark gives them; NULL equals NULL.
"""

from __future__ import annotations

from collections.abc import Sequence

from relstate.connector.syntax.tree import cast_text, parse_expression
from relstate.storage import types

from ..plan.aggregate import Aggregate, Call, Function
from ..plan.node import Names, Node
from ..plan.stateless import Output, Project, Union
from .builder import Builder, Item, Relation, check_keyable
from .collations import bytes_text
from .expressions import unsupported_error
from .generators import plan_elements

_CastSteps = Sequence[Sequence[types.DataType]]


def plan_union(builder: Builder, inputs: Sequence[Relation]) -> Relation:
    """Return the rows of all inputs. UnsupportedStatementError if their columns do not match."""
    node, fields, _ = _stack(builder, inputs)
    return _relation(node, inputs[0], fields)


def plan_counted(
    builder: Builder, operation: str, inputs: Sequence[Relation], *, is_distinct: bool
) -> Relation:
    """Return the INTERSECT or the EXCEPT of two inputs, with ALL or without."""
    node, fields, input_field = _stack(builder, inputs)
    # Counted rows are grouped, and a NULL without a type tells none apart. Without ALL Spark joins
    # the inputs, and takes no two of them for equal.
    uncompared = () if is_distinct else (types.Void(),)
    compared = [field.name for field in fields if field.type not in uncompared]
    node, group = builder.collation_keys(node, compared)
    for name in group:
        check_keyable(node.type_of(name), operation)
    if not group:
        node, all_rows = builder.with_constant(node, "all_rows")
        group = (all_rows,)
    node, conditions = builder.compute(
        node, [parse_expression(f"{types.quoted(input_field)} = {number}") for number in range(2)]
    )
    names = [builder.namer.unique_name(name) for name in ("in_first", "in_second")]
    calls = tuple(
        Call(Function.COUNT, None, types.Field(name, types.BigInt()), False, condition)
        for name, condition in zip(names, conditions, strict=True)
    )
    collated = [name for name in compared if name not in group]
    counted, values = _count(builder, node, group, calls, collated)
    first, second = map(types.quoted, names)
    is_except = operation == "EXCEPT"
    if is_distinct:
        condition = f"{first} > 0 AND {second} {'=' if is_except else '>'} 0"
        counted = builder.filter(counted, [parse_expression(condition)])
    else:
        copies = f"{first} - {second}" if is_except else f"least({first}, {second})"
        passed = tuple(name for name in counted.names if name not in names)
        counted = _copied(builder, counted, passed, copies)
    for field in fields:
        if field.name in collated:
            counted = builder.with_field(counted, field.name, values[field.name])
        elif field.name not in group:
            counted = builder.with_field(counted, field.name, "NULL")
    return _relation(counted, inputs[0], fields)


def _count(
    builder: Builder, node: Node, group: Names, calls: tuple[Call, ...], collated: Sequence[str]
) -> tuple[Node, dict[str, str]]:
    """Return (the aggregate, the value of each collated string over its fields).

    ``calls``: counts of the rows of both inputs. The value is one of the first input's.
    """
    in_first = calls[0].filter
    assert in_first is not None
    picks, values = [], {}
    key_parts = [f"'k{n}', {types.quoted(name)}" for n, name in enumerate(node.key)]
    for name in collated:
        stored = f"'value', {bytes_text(types.quoted(name))}"
        struct = f"named_struct({', '.join([*key_parts, stored])})"
        node, (argument,) = builder.compute(node, [parse_expression(struct)], [name])
        (data_type,) = builder.analysis.types_of(node.fields, [types.quoted(argument)])
        output = types.Field(builder.namer.unique_name(name), data_type)
        picks.append(Call(Function.MIN, argument, output, False, in_first, False))
        value = f"{types.quoted(output.name)}.value"
        values[name] = cast_text(value, node.type_of(name))
    return Aggregate(node, group, (*calls, *picks)), values


def _copied(builder: Builder, node: Node, passed: Names, copies: str) -> Node:
    """Return some fields of each row as often as an expression says; not at all if not above 0."""
    node = builder.filter(node, [parse_expression(f"{copies} > 0")])
    text = f"sequence(CAST(1 AS BIGINT), {copies})"
    node, _ = plan_elements(builder, node, text, ("copy", "number"), passed)
    return node


def _relation(node: Node, first: Relation, fields: Sequence[types.Field]) -> Relation:
    items = (Item(item.name, field.name) for item, field in zip(first.items, fields, strict=True))
    return Relation(node, tuple(items))


def _stack(builder: Builder, inputs: Sequence[Relation]) -> tuple[Node, list[types.Field], str]:
    """Return (the rows of all inputs, their columns, the field with the number of the input)."""
    first = inputs[0]
    if any(len(relation.items) != len(first.items) for relation in inputs):
        raise unsupported_error(
            "this UNION, INTERSECT or EXCEPT", "its inputs have different numbers of columns"
        )
    # Spark finds the common types from left to right: one step for each input.
    steps = [_column_types(first)]
    for relation in inputs[1:]:
        steps.append(list(builder.analysis.union_types_of(steps[-1], _column_types(relation))))
    fields = [
        types.Field(builder.namer.unique_name(item.name or "value"), data_type)
        for item, data_type in zip(first.items, steps[-1], strict=True)
    ]
    node = _stack_inputs(
        builder, [(relation, steps[number:]) for number, relation in enumerate(inputs)], fields
    )
    return node, fields, node.row_key[0]


def _stack_inputs(
    builder: Builder, inputs: Sequence[tuple[Relation, _CastSteps]], fields: Sequence[types.Field]
) -> Union:
    """Return the union of inputs whose columns are cast to the same types, step by step."""
    namer = builder.namer
    input_field = types.Field(namer.unique_name("input"), types.Int())
    keys = [
        [
            (types.Field(namer.unique_name(name), relation.node.type_of(name)), name)
            for name in relation.node.key
        ]
        for relation, _ in inputs
    ]
    nodes = []
    for number, (relation, steps) in enumerate(inputs):
        outputs = [
            _cast_output(relation.node, item.field, [step[n] for step in steps], field)
            for n, (item, field) in enumerate(zip(relation.items, fields, strict=True))
        ]
        outputs.append(Output(input_field, str(number)))
        for owner, key in enumerate(keys):
            outputs += [_key_output(key_field, name, owner == number) for key_field, name in key]
        nodes.append(Project(relation.node, tuple(outputs)))
    return Union(
        tuple(nodes), (input_field.name, *(key_field.name for key in keys for key_field, _ in key))
    )


def _key_output(key_field: types.Field, name: str, is_owner: bool) -> Output:
    if is_owner:
        return Output(key_field, types.quoted(name), name)
    return Output(key_field, cast_text("NULL", key_field.type))


def _cast_output(
    node: Node, name: str, steps: Sequence[types.DataType], field: types.Field
) -> Output:
    text, data_type = types.quoted(name), node.type_of(name)
    for step in steps:
        if step != data_type:
            text, data_type = cast_text(text, step), step
    source = name if text == types.quoted(name) else None
    return Output(field, text, source)


def _column_types(relation: Relation) -> list[types.DataType]:
    return [relation.node.type_of(item.field) for item in relation.items]
