"""UNION ALL: inputs whose columns Spark casts to the same types.

Promises: the types are found as Spark finds them, from left to right.
"""

from __future__ import annotations

from collections.abc import Sequence

from relstate.connector.syntax.tree import cast_text
from relstate.storage import types

from ..plan.node import Node
from ..plan.stateless import Output, Project, Union
from .builder import Builder, Item, Relation
from .expressions import unsupported_error

_CastSteps = Sequence[Sequence[types.DataType]]


def plan_union(builder: Builder, inputs: Sequence[Relation]) -> Relation:
    """Return the rows of all inputs. UnsupportedStatementError if their columns do not match."""
    first = inputs[0]
    if any(len(relation.items) != len(first.items) for relation in inputs):
        raise unsupported_error("this UNION", "its inputs have different numbers of columns")
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
    items = (Item(item.name, field.name) for item, field in zip(first.items, fields, strict=True))
    return Relation(node, tuple(items))


def _stack_inputs(
    builder: Builder, inputs: Sequence[tuple[Relation, _CastSteps]], fields: Sequence[types.Field]
) -> Node:
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
